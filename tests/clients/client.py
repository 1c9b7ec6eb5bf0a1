"""What the tests of client tools share: their virtual environment, made once below build/, and a cluster used by an ordinary user."""
import fcntl
import hashlib
import json
import os
import shutil
import subprocess
import sys
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(os.path.dirname(HERE), "e2e"))

from cluster import TOP, Cluster, eventually  # noqa: E402, F401

REQUIREMENTS = os.path.join(HERE, "requirements.txt")
USER = 1001


def environment(requirements=REQUIREMENTS):
    """(path of the virtual environment, "") or ("", why there is none). A new list of versions gets a new one."""
    with open(requirements, "rb") as f:
        path = os.path.join(TOP, "build", "clients-" + hashlib.sha256(f.read()).hexdigest()[:12])
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path + ".lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if os.path.exists(os.path.join(path, "complete")):
            return path, ""
        shutil.rmtree(path, ignore_errors=True)
        for argv in (["/usr/bin/python3", "-m", "venv", "--system-site-packages", path],
                     [f"{path}/bin/python", "-m", "pip", "install", "--quiet", "-r", requirements]):
            made = subprocess.run(argv, capture_output=True, text=True)
            if made.returncode != 0:
                return "", "the package index gave no " + os.path.basename(requirements) + ": " + (made.stderr + made.stdout).strip()[-300:]
        with open(os.path.join(path, "complete"), "w"):
            return path, ""


class ClientTest(unittest.TestCase):
    """A cluster for the class, a home for its user, and the tools on the path."""
    NODES, GPUS, CPUS = 3, None, 8

    @classmethod
    def setUpClass(cls):
        cls.venv, cls.why = environment() if os.geteuid() == 0 else ("", "virtual nodes need root")
        if cls.why:
            return
        cls.c = Cluster(nodes=cls.NODES, gpus=cls.GPUS, cpus=cls.CPUS)
        cls.home = os.path.join(cls.c.home, "user")
        os.mkdir(cls.home)
        os.chown(cls.home, USER, USER)
        cls.c.env.update(HOME=cls.home, USER=f"uid{USER}", LOGNAME=f"uid{USER}", PATH=f"{cls.venv}/bin:{HERE}/bin:" + cls.c.env["PATH"])
        cls.c.up()

    @classmethod
    def tearDownClass(cls):
        if not cls.why:
            cls.c.down()

    def setUp(self):
        if self.why:
            self.skipTest(self.why)

    def python(self, text, timeout=300, **words):
        """Runs a program as the user; what it prints last, as JSON, is the answer."""
        path = os.path.join(self.home, self.id().split(".")[-1] + ".py")
        with open(path, "w") as f:
            f.write(text)
        result = self.as_user("python", path, timeout=timeout, **words)
        self.assertEqual(result.returncode, 0, result.stdout[-3000:] + result.stderr[-5000:])
        return json.loads(result.stdout.strip().split("\n")[-1])

    def as_user(self, *argv, timeout=300, **words):
        return self.c.run(*argv, user=USER, cwd=self.home, timeout=timeout, **words)
