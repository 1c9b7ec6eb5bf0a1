"""Bad input and hostile callers: a clear message, an exit code, and nothing lost."""
import os
import random
import shutil
import socket
import ssl
import subprocess
import time
import unittest

from cluster import BIN, Cluster, eventually


class BadInput(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.c = Cluster(nodes=2, gpus="8xh100")
        cls.c.up()

    @classmethod
    def tearDownClass(cls):
        cls.c.down()

    def refused(self, *argv, says, code=1, **kwargs):
        result = self.c.run(*argv, **kwargs)
        self.assertEqual(result.returncode, code, (argv, result.stdout, result.stderr))
        self.assertIn(says, result.stderr)
        return result.stderr

    def test_malformed_directive_names_its_line(self):
        script = self.c.script("#!/bin/bash\n#SBATCH --nodes=many\ntrue\n", "bad.sh")
        self.assertIn("line 2", self.refused("sbatch", script, says="many", code=255))

    def test_unknown_option(self):
        self.refused("sbatch", "--no-such-option", "--wrap", "true", says="unrecognized option", code=255)
        script = self.c.script("#!/bin/bash\n#SBATCH --main-user=me\ntrue\n", "typo.sh")
        self.refused("sbatch", script, says="main-user", code=255)

    def test_what_is_not_built_is_refused_not_ignored(self):
        self.refused("srun", "--bcast=/tmp/x", "true", says="bcast")

    def test_impossible_request(self):
        err = self.refused("sbatch", "--gpus-per-node=16", "--wrap", "true", says="16")
        self.assertIn("8 h100 GPUs", err)
        self.refused("sbatch", "-N", "99", "--wrap", "true", says="99 nodes")

    def test_unknown_partition(self):
        self.refused("sbatch", "-p", "nowhere", "--wrap", "true", says="invalid partition specified: nowhere")
        self.refused("srun", "-p", "nowhere", "true", says="invalid partition specified: nowhere")

    def test_scripts(self):
        self.refused("sbatch", self.c.script("echo no shebang\n", "plain.sh"), says="This does not look like a batch script")
        path = os.path.join(self.c.work, "binary.sh")
        with open(path, "wb") as f:
            f.write(b"#!/bin/sh\n\0" + bytes(random.Random(1).randrange(256) for _ in range(4096)))
        self.assertEqual(self.c.run("sbatch", path).returncode, 1)
        path = os.path.join(self.c.work, "huge.sh")
        with open(path, "wb") as f:
            f.write(b"#!/bin/sh\n")
            f.truncate(100 << 20)
        self.refused("sbatch", path, says="script")
        self.refused("sbatch", "/nonexistent/script.sh", says="/nonexistent/script.sh")
        self.assertIn("is UP", self.c.ok("scontrol", "ping"))

    def test_cancelling_another_users_job(self):
        job = self.c.wrap("sleep 60")
        self.c.wait(job, "RUNNING")
        result = self.c.run("scancel", job, user=65534)
        self.assertNotEqual(result.returncode, 0)
        self.assertIn("denied", result.stderr.lower())
        self.assertEqual(self.c.state(job), "RUNNING")
        self.assertNotEqual(self.c.run("scontrol", "update", f"jobid={job}", "timelimit=1", user=65534).returncode, 0)
        self.assertNotEqual(self.c.run("scontrol", "update", "nodename=n1", "state=drain", "reason=x", user=65534).returncode, 0)
        self.c.ok("scancel", job)

    def test_jobs_run_as_their_user(self):
        job = self.c.run("sbatch", "--parsable", "--wrap", "id -u; id -g", user=65534).stdout.strip()
        self.assertEqual(self.c.wait(job), "COMPLETED")
        self.assertEqual(self.c.output(job), "65534\n65534\n")

    def test_garbage_on_the_sockets(self):
        rng = random.Random(2)
        host, port = self.tls_address()
        for _ in range(200):
            data = bytes(rng.randrange(256) for _ in range(rng.randrange(1, 2000)))
            if rng.random() < 0.5:
                data = b"POST /v1/jobs HTTP/1.1\r\nContent-Length: %d\r\n\r\n" % rng.randrange(0, 4000) + data
            with socket.socket(socket.AF_UNIX) as s:
                s.connect(self.c.env["LOCKSTEP_SOCKET"])
                s.sendall(data)
            with socket.create_connection((host, port)) as s:
                s.sendall(data)
        self.assertIn("is UP", self.c.ok("scontrol", "ping"))

    def test_oversized_requests(self):
        for head in (b"GET /" + b"a" * (1 << 20) + b" HTTP/1.1\r\n\r\n",
                     b"POST /v1/jobs HTTP/1.1\r\nContent-Length: 99999999999\r\n\r\n",
                     b"GET / HTTP/1.1\r\n" + b"x: y\r\n" * 100000 + b"\r\n"):
            with socket.socket(socket.AF_UNIX) as s:
                s.settimeout(10)
                s.connect(self.c.env["LOCKSTEP_SOCKET"])
                try:
                    s.sendall(head)
                    answer = s.recv(100)
                except OSError:
                    answer = b""
                self.assertTrue(answer == b"" or answer.split()[1][:1] == b"4", answer)
        self.assertIn("is UP", self.c.ok("scontrol", "ping"))

    def test_ten_thousand_silent_connections(self):
        silent = []
        try:
            for _ in range(10_000):
                s = socket.socket(socket.AF_UNIX)
                s.setblocking(False)
                try:
                    s.connect(self.c.env["LOCKSTEP_SOCKET"])
                except BlockingIOError:
                    time.sleep(0.001)
                except OSError:
                    s.close()
                    break
                silent.append(s)
            self.assertGreater(len(silent), 1000)
            job = eventually(lambda: self.c.run("sbatch", "--parsable", "--wrap", "true").stdout.strip(), 30)
            self.assertEqual(self.c.wait(job), "COMPLETED")
        finally:
            for s in silent:
                s.close()

    def tls_address(self):
        conf = dict(line.strip().split("=", 1) for line in open(os.path.join(self.c.dir, "cluster.conf")) if "=" in line)
        return f"10.{conf['network']}.0.1", int(conf["port"])

    def test_tls_without_a_certificate_may_do_nothing(self):
        host, port = self.tls_address()
        context = ssl.create_default_context(cafile=os.path.join(self.c.dir, "pki", "ca.pem"))
        context.check_hostname = False
        for request in (b"GET /v1/jobs HTTP/1.1\r\nHost: x\r\n\r\n", b"POST /v1/tokens HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\n{}"):
            with socket.create_connection((host, port)) as raw, context.wrap_socket(raw) as s:
                s.sendall(request)
                self.assertIn(s.recv(4096).split()[1], (b"401", b"403"))

    def test_wrong_and_used_tokens(self):
        host, port = self.tls_address()
        token = self.c.ok("lockstep", "node", "token", "--dir", self.c.dir, "--node", "x1").strip()
        pki = os.path.join(self.c.work, "pki")

        def join(t):
            shutil.rmtree(pki, ignore_errors=True)
            os.mkdir(pki)
            return self.c.run("lockstep", "node", "join", "--controller", f"{host}:{port}", "--node", "x1", "--pki", pki, "--token", t)
        ident, secret, fingerprint = token.split(".")
        wrong = join(f"{ident}.{'0' * len(secret)}.{fingerprint}")
        self.assertNotEqual(wrong.returncode, 0)
        self.assertTrue(wrong.stderr.strip())
        other_ca = join(f"{ident}.{secret}.{'0' * len(fingerprint)}")
        self.assertNotEqual(other_ca.returncode, 0)
        self.assertEqual(join(token).returncode, 0)
        used = join(token)
        self.assertNotEqual(used.returncode, 0)
        self.assertIn("used", used.stderr)


class BadState(unittest.TestCase):
    def test_two_controllers_on_one_directory(self):
        with Cluster(nodes=1, gpus=None) as c:
            result = c.run(os.path.join(BIN, "lockstepd"), "--dir", c.dir, "--listen", "127.0.0.1:0", timeout=20)
            self.assertNotEqual(result.returncode, 0)
            self.assertIn("another controller", result.stderr)
            self.assertIn("is UP", c.ok("scontrol", "ping"))

    def test_port_taken(self):
        with socket.socket() as s:
            s.bind(("127.0.0.1", 0))
            s.listen()
            c = Cluster(nodes=0, extra=["--port", str(s.getsockname()[1])])
            try:
                result = c.run("lockstep", "up", "--dir", c.dir, *c.args)
                self.assertEqual(result.returncode, 1)
                self.assertIn(str(s.getsockname()[1]), result.stderr)
                self.assertIn("taken", result.stderr)
            finally:
                c.down()

    def test_corrupted_and_foreign_state(self):
        c = Cluster(nodes=0)
        try:
            c.up()
            c.wrap("true")
            c.run("lockstep", "down", "--dir", c.dir)
            db = os.path.join(c.dir, "lockstep.db")
            for name in ("lockstep.db-wal", "lockstep.db-shm"):
                if os.path.exists(os.path.join(c.dir, name)):
                    os.unlink(os.path.join(c.dir, name))
            original = open(db, "rb").read()
            foreign = os.path.join(c.work, "foreign.db")
            subprocess.run(["/usr/bin/python3", "-c", f"import sqlite3; d = sqlite3.connect({foreign!r}); d.execute('create table t(a)'); d.commit()"], check=True)
            for name, content in (("garbage", b"not a database at all" * 500), ("foreign", open(foreign, "rb").read()),
                                  ("torn", original[:4096] + b"\xff" * 4096 + original[8192:])):
                with open(db, "wb") as f:
                    f.write(content)
                result = c.run("lockstep", "up", "--dir", c.dir)
                self.assertEqual(result.returncode, 1, name)
                self.assertIn("lockstep.db", result.stderr, name)
                self.assertEqual(open(db, "rb").read(), content, f"{name}: the file was overwritten")
        finally:
            c.down()

    def test_full_disk(self):
        """The state directory on a small file system that fills up: refused clearly, and well again when there is room."""
        c = Cluster(nodes=0)
        os.mkdir(c.dir)
        subprocess.run(["mount", "-t", "tmpfs", "-o", "size=48m,mode=0755", "tmpfs", c.dir], check=True)
        try:
            c.up()
            running = c.wrap("sleep 3; exit 9")
            c.wait(running, "RUNNING")
            filler = os.path.join(c.dir, "filler")
            with open(filler, "wb", buffering=0) as f:  # or what does not fit fails again when it is closed
                try:
                    while True:
                        f.write(b"x" * (1 << 16))
                except OSError:
                    pass
            def full():
                result = c.run("sbatch", "--wrap", "true " + "#" * 100_000, env={"PAD": os.urandom(50_000).hex()})
                return result if result.returncode else None
            result = eventually(full, 60, "a refused submission")
            self.assertTrue("disk" in result.stderr or "space" in result.stderr, result.stderr)
            self.assertEqual(c.wait(running, timeout=60), "FAILED", "a completion is still recorded")
            os.unlink(filler)
            job = eventually(lambda: c.run("sbatch", "--parsable", "--wrap", "true").stdout.strip(), 30)
            self.assertEqual(c.wait(job), "COMPLETED")
        finally:
            c.run("lockstep", "down", "--dir", c.dir)
            subprocess.run(["umount", "-l", c.dir], check=False)
            c.down()


if __name__ == "__main__":
    unittest.main()
