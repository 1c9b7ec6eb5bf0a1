"""What a job has to itself on a node: /tmp, /dev/shm, scratch, the sight of its processes alone, a name for its user; and
that nothing of it is left. Needs root, who makes mount namespaces."""
import json
import os
import pwd
import shutil
import subprocess
import tempfile
import unittest

from cluster import Cluster, eventually, send

ANN, BOB, STRANGER = 2001, 2002, 77123


class PlacesCluster(Cluster):
    def __init__(self, places, **more):
        self.base = tempfile.mkdtemp(prefix="lockstep-e2e-places-")
        os.chmod(self.base, 0o755)
        settings = os.path.join(self.base, "settings.json")
        with open(settings, "w") as f:
            json.dump({"places": places}, f)
        super().__init__(nodes=2, gpus=None, cpus=4, extra=["--agent-settings", settings], **more)

    def down(self, delete=True):
        done = super().down(delete)
        if delete:
            shutil.rmtree(self.base, ignore_errors=True)
        return done

    def said(self, command, *options, state="COMPLETED", **kwargs):
        """What a job prints that runs this."""
        job = self.wrap(command, *options, **kwargs)
        if self.wait(job) != state:
            raise AssertionError(f"job {job} is {self.state(job)}: {self.output(job)}")
        return self.output(job)

    def scratch(self, node="n1"):
        return os.path.join(self.dir, "nodes", node, "state", "scratch")

    def in_node(self, node, *command):
        return subprocess.run(["nsenter", "-t", str(self.node(node)["pid"]), "-m", "-p", *command], capture_output=True, text=True)

    def left(self, node="n1"):
        """What is there of jobs' places on a node."""
        pid = self.node(node)["pid"]
        places = f"/proc/{pid}/root/run/lockstep-agent/places"
        with open(f"/proc/{pid}/mountinfo") as f:
            mounts = [line.split()[4] for line in f if "/places/" in line]
        return sorted(os.listdir(places)) + sorted(os.listdir(self.scratch(node))) + mounts


@unittest.skipUnless(os.geteuid() == 0, "mount namespaces of jobs are made by root")
class Places(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.c = PlacesCluster({"private_tmp": True})
        cls.c.up()

    @classmethod
    def tearDownClass(cls):
        cls.c.down()

    def test_tmp_is_the_jobs_and_its_steps_share_it(self):
        name = f"lockstep-{os.getpid()}-mine"
        script = self.c.script("#!/bin/sh\n"
                               f"echo words > /tmp/{name}; echo more > /var/tmp/{name}; echo shared > /dev/shm/{name}\n"
                               f"echo locked > /run/lock/{name}\n"
                               f"srun cat /tmp/{name} /var/tmp/{name} /dev/shm/{name} /run/lock/{name}\n"
                               "ls -A /tmp /dev/shm /run/lock\n", "mine.sh")
        job = self.c.sbatch("-w", "n1", script)
        self.assertEqual(self.c.wait(job), "COMPLETED")
        top = os.path.basename(self.c.home)
        self.assertEqual(self.c.output(job), f"words\nmore\nshared\nlocked\n/dev/shm:\n{name}\n\n/run/lock:\n{name}\n\n/tmp:\n{name}\n{top}\n")
        for folder in ("/tmp", "/var/tmp", "/dev/shm"):
            self.assertFalse(os.path.exists(os.path.join(folder, name)))
        other = self.c.said(f"ls /tmp/{name} /dev/shm/{name} /run/lock/{name} 2>&1 | grep -c 'No such'", "-w", "n1")
        self.assertEqual(other, "3\n")
        eventually(lambda: self.c.left() == [], what="nothing is left")

    def test_a_node_that_cannot_make_them_is_closed_and_its_jobs_start_elsewhere(self):
        remount = lambda how: self.c.in_node("n1", "mount", "-o", f"remount,{how},bind", "/run/lockstep-agent/places")  # noqa: E731
        self.addCleanup(lambda: (remount("rw"), self.c.ok("scontrol", "update", "nodename=n1", "state=resume")))
        done = remount("ro")
        self.assertEqual(done.returncode, 0, done.stderr)
        job = self.c.wrap("hostname", "-w", "n1")
        reason = f"the job's own places: /run/lockstep-agent/places/{job}-1: Read-only file system (job {job})"
        eventually(lambda: self.c.ok("sinfo", "-h", "-N", "-n", "n1", "-o", "%t %E").strip() == "drain " + reason, what="the node is closed")
        self.assertEqual(self.c.state(job), "PENDING")
        self.assertEqual(self.c.said("hostname"), "n2\n")
        self.assertEqual(remount("rw").returncode, 0)
        self.c.ok("scontrol", "update", "nodename=n1", "state=resume")
        self.assertEqual(self.c.wait(job), "COMPLETED")
        self.assertEqual(self.c.output(job), "n1\n")

    def test_settings_that_are_wrong_are_refused_before_anything_is_made(self):
        place, file = os.path.join(self.c.home, "other"), os.path.join(self.c.base, "bad.json")
        for text, words in (('{"places": {"scratch": 5}}', "places: scratch is no text"),
                            ('{"places": {"scratch": "relative"}}', 'places.scratch: "relative" is no path from / on'),
                            ('{"place": {}}', "there is no such setting: place"),
                            ('{"hooks": {"prolog": "x"}}', "hooks: prolog is no list of texts"),
                            ('{"pressure": {"memory": "200Gi"}}', "pressure.memory: 200Gi is all that a node has, or more (1024 MiB)"),
                            ('{"pressure": {"look_s": 86400000000}}', "pressure: look_s is too large"),
                            ("[]", "is not a JSON object"), ("{", "the file is not JSON")):
            with open(file, "w") as f:
                f.write(text)
            done = self.c.run("lockstep", "up", "--dir", place, "--nodes", "1", "--memory", "1G", "--agent-settings", file)
            self.assertEqual(done.returncode, 1)
            self.assertIn(f"--agent-settings {file}: ", done.stderr)
            self.assertIn(words, done.stderr)
            self.assertFalse(os.path.exists(place))

    def test_shared_memory_of_system_v_goes_with_its_job(self):
        count = "tail -n +2 /proc/sysvipc/shm | wc -l"
        script = self.c.script("#!/bin/sh\nipcmk -M 4096 > /dev/null\n" f"srun sh -c '{count}'\n", "ipc.sh")
        job = self.c.sbatch("-w", "n1", script)
        self.assertEqual(self.c.wait(job), "COMPLETED")
        self.assertEqual(self.c.output(job), "1\n")
        self.assertEqual(self.c.said(count, "-w", "n1"), "0\n")
        self.assertEqual(self.c.in_node("n1", "sh", "-c", count).stdout, "0\n")

    def test_files_that_a_user_named_lie_where_he_finds_them(self):
        named = f"/tmp/lockstep-{os.getpid()}-named"
        self.addCleanup(lambda: [os.unlink(named + end) for end in (".out", ".in") if os.path.exists(named + end)])
        with open(named + ".in", "w") as f:
            f.write("given\n")
        job = self.c.wrap("pwd; cat; ls -A | wc -l", "-o", named + ".out", "-i", named + ".in", "-D", "/tmp")
        self.assertEqual(self.c.wait(job), "COMPLETED")
        with open(named + ".out") as f:
            self.assertEqual(f.read().split(), ["/tmp", "given", "1"])  # the cluster's own directory is shown
        self.assertEqual(self.c.said("pwd; echo kept > here"), self.c.work + "\n")
        self.assertTrue(os.path.exists(os.path.join(self.c.work, "here")))
        self.assertEqual(self.c.ok("srun", "sh", "-c", "pwd; cat here"), self.c.work + "\nkept\n")

    def test_tmp_in_memory_counts_as_the_jobs(self):
        size = self.c.said("df --output=fstype,size -m /tmp | tail -1; env | grep TMPFS", "--tmpfs=30M", "--mem=100", state="FAILED")
        self.assertEqual(size.split(), ["tmpfs", "30"])
        full = self.c.wrap("head -c 190M /dev/zero > /tmp/x", "--tmpfs=200M", "--mem=60")
        self.assertIn(self.c.wait(full), ("OUT_OF_MEMORY", "COMPLETED"))
        if os.path.exists("/sys/fs/cgroup"):
            self.assertEqual(self.c.state(full), "OUT_OF_MEMORY")
        bad = self.c.run("sbatch", "--tmpfs=much", "--wrap", "true")
        self.assertEqual((bad.returncode, "tmpfs" in bad.stderr), (255, True), bad.stderr)

    def test_shared_memory_has_the_size_of_the_jobs(self):
        self.assertEqual(self.c.said("df --output=size -m /dev/shm | tail -1", "--mem=64").split(), ["64"])

    def test_scratch_is_the_users_alone_and_goes(self):
        job = self.c.wrap("test $LOCKSTEP_SCRATCH = $SLURM_TMPDIR && cd $LOCKSTEP_SCRATCH && pwd && stat -c '%U %a' . && "
                          "ln -s /etc out && mkdir closed && chmod 0 closed && echo made && srun sh -c 'touch step; ls'; sleep 1000",
                          "-w", "n1", user=ANN)
        said = eventually(lambda: (lambda t: t if t.endswith("step\n") else None)(self.output(job)), what="the job's files")
        path = os.path.join(self.c.scratch(), f"{job}-1", "scratch")
        self.assertEqual(said.split("\n")[:3], [path, "uid2001 700", "made"])
        look = self.c.run("ls", path, user=BOB)
        self.assertIn("Permission denied", look.stderr)
        look = self.c.run("ls", os.path.join(os.path.dirname(path), "private"), user=BOB)
        self.assertIn("Permission denied", look.stderr)
        beside = self.c.said(f"ls {path}; ls {os.path.dirname(path)}/private; true", "-w", "n1", user=BOB)
        self.assertEqual(beside.count("Permission denied"), 2)
        self.c.ok("scancel", job)
        eventually(lambda: self.c.left() == [], what="nothing is left")
        self.assertTrue(os.path.exists("/etc/passwd"))

    def tearDown(self):
        self.c.run("scancel", "--me")

    def output(self, job):
        try:
            return self.c.output(job)
        except FileNotFoundError:
            return ""

    def test_nothing_is_left_when_agent_and_shims_are_killed(self):
        job = self.c.wrap("touch /tmp/x $LOCKSTEP_SCRATCH/y /dev/shm/z; echo up; sleep 1000", "-w", "n2", "--no-requeue")
        eventually(lambda: self.output(job) == "up\n")
        self.assertEqual(len(self.c.left("n2")), 4)
        send(self.c.node("n2")["agent_pid"])
        found = self.c.in_node("n2", "pgrep", "-f", f"lockstep-shim {job}-1-batch").stdout.split()
        self.assertEqual(len(found), 1, found)
        self.c.in_node("n2", "kill", "-9", *found)
        self.c.wait(job)
        eventually(lambda: self.c.left("n2") == [], what="nothing is left")

    def test_a_place_outlives_its_agent(self):
        job = self.c.wrap("touch /tmp/kept /dev/shm/kept; echo up; while ! test -e go; do sleep 0.1; done; srun ls /tmp/kept /dev/shm/kept",
                          "-w", "n2")
        eventually(lambda: self.output(job) == "up\n")
        before = self.c.node("n2")["agent_pid"]
        send(before)
        eventually(lambda: self.c.node("n2")["agent_pid"] not in (0, before))
        with open(os.path.join(self.c.work, "go"), "w"):
            pass
        self.assertEqual(self.c.wait(job), "COMPLETED")
        self.assertEqual(self.c.output(job), "up\n/dev/shm/kept\n/tmp/kept\n")

    def test_processes_of_others_are_not_seen(self):
        other = self.c.wrap("exec sleep 4321", "-w", "n1", user=BOB)
        eventually(lambda: self.c.state(other) == "RUNNING")
        victim = eventually(lambda: self.c.in_node("n1", "pgrep", "-xf", "sleep 4321").stdout.split())[0]
        said = self.c.said(f"ps -eo user= | sort -u; ls /proc/{victim}; cat /proc/1/cmdline; kill -9 {victim}; ls /proc/self/stat; "
                           "sleep 5 & test -e /proc/$!/stat && echo own", "-w", "n1", user=ANN)
        self.assertIn("No such file or directory", said)
        self.assertIn("Operation not permitted", said)
        self.assertEqual([line for line in said.split("\n") if line and "ls:" not in line and "cat:" not in line and "kill" not in line],
                         ["uid2001", "/proc/self/stat", "own"])
        self.assertEqual(self.c.state(other), "RUNNING")
        self.c.ok("scancel", other)

    def test_a_user_whom_nobody_knows_has_a_name(self):
        with self.assertRaises(KeyError):
            pwd.getpwuid(STRANGER)
        said = self.c.said("whoami; id -un; id -gn; python3 -c 'import getpass, os, pwd; print(getpass.getuser(), pwd.getpwuid(os.getuid()).pw_name, "
                           "os.path.expanduser(\"~uid77123\"))'; getent passwd root | cut -d: -f1; (ssh -o BatchMode=yes -p 1 127.0.0.1 2>&1 | "
                           "grep -c 'You don.t exist'); true", user=STRANGER)
        self.assertEqual(said.split(), ["uid77123"] * 5 + ["/", "root", "0"])
        self.assertEqual(self.c.ok("srun", "whoami", user=STRANGER), "uid77123\n")

    def test_a_user_whom_only_the_node_does_not_know(self):
        known = pwd.getpwnam("games")
        for name in ("passwd", "group"):
            lacking = os.path.join(self.c.base, name)
            with open("/etc/" + name) as f, open(lacking, "w") as out:
                out.writelines(line for line in f if not line.startswith("games:"))
            done = self.c.in_node("n2", "mount", "--bind", lacking, "/etc/" + name)
            self.assertEqual(done.returncode, 0, done.stderr)
            self.addCleanup(lambda name=name: self.c.in_node("n2", "umount", "/etc/" + name))
        line = f"games:x:{known.pw_uid}:{known.pw_gid}::{known.pw_dir}:{known.pw_shell}"
        said = self.c.said("whoami; getent passwd games; test -w /etc/passwd || echo closed", "-w", "n2", user=known.pw_uid)
        self.assertEqual(said.split("\n"), [known.pw_name, line, "closed", ""])
        # Where the node knows him, its files are its own.
        before = subprocess.run(["getent", "passwd", "games"], capture_output=True, text=True).stdout
        self.assertEqual(self.c.said("getent passwd games; grep -c /etc/passwd /proc/self/mountinfo; true", "-w", "n1", user=known.pw_uid),
                         before + "0\n")

    def test_a_shell_into_a_job_is_in_its_place(self):
        job = self.c.wrap("echo seen > /tmp/look; sleep 1000")
        eventually(lambda: self.c.state(job) == "RUNNING")
        eventually(lambda: self.c.run("lockstep", "shell", job, "cat", "/tmp/look").stdout == "seen\n")
        self.c.ok("scancel", job)


@unittest.skipUnless(os.geteuid() == 0, "mount namespaces of jobs are made by root")
class LoginShells(unittest.TestCase):
    """Environment modules in login shells, on a node where /tmp is everybody's, as `lockstep up` makes it."""
    @classmethod
    def setUpClass(cls):
        cls.c = PlacesCluster({})
        cls.c.up()
        modules = os.path.join(cls.c.work, "modules", "tool")
        os.makedirs(modules)
        with open(os.path.join(modules, "1.0"), "w") as f:
            f.write("#%Module\nsetenv TOOL_HOME /opt/tool\nprepend-path PATH /opt/tool/bin\n")

    @classmethod
    def tearDownClass(cls):
        cls.c.down()

    def test_tmp_is_everybodys_and_shared_memory_is_not(self):
        name = f"lockstep-{os.getpid()}-everybodys"
        self.addCleanup(lambda: os.unlink("/tmp/" + name))
        self.assertEqual(self.c.said(f"echo a > /tmp/{name}; echo b > /dev/shm/{name}; cat /dev/shm/{name}", "-w", "n1"), "b\n")
        self.assertEqual(self.c.said(f"cat /tmp/{name}; test -e /dev/shm/{name} || echo none", "-w", "n1"), "a\nnone\n")
        self.assertEqual(self.c.said(f"test -e /tmp/{name} || echo none", "--tmpfs=10M"), "none\n")

    @unittest.skipUnless(os.path.exists("/etc/profile.d/modules.sh"), "environment-modules is not installed here")
    def test_modules_in_login_shells(self):
        text = "module use $PWD/modules\nmodule load tool/1.0\necho $TOOL_HOME\nmodule list 2>&1 | grep -o tool/1.0\n"
        job = self.c.sbatch(self.c.script("#!/bin/bash -l\n" + text))
        self.assertEqual(self.c.wait(job), "COMPLETED")
        self.assertEqual(self.c.output(job), "/opt/tool\ntool/1.0\n")
        said = subprocess.run(["script", "-qec", "srun --pty bash -l", "/dev/null"], input=text + "exit\n", text=True,
                              capture_output=True, env=self.c.env, cwd=self.c.work, timeout=60).stdout
        self.assertIn("\n/opt/tool\n", said.replace("\r", ""))
        # What the submitting shell had loaded goes with the job.
        self.assertEqual(self.c.said("echo $LOADEDMODULES; bash -lc 'module unload tool; echo -$TOOL_HOME-'",
                                     env={"LOADEDMODULES": "tool/1.0", "TOOL_HOME": "/opt/tool",
                                          "_LMFILES_": self.c.work + "/modules/tool/1.0", "MODULEPATH": self.c.work + "/modules"}),
                         "tool/1.0\n--\n")


@unittest.skipUnless(os.geteuid() == 0, "file systems are mounted by root")
class Quota(unittest.TestCase):
    def setUp(self):
        self.base = tempfile.mkdtemp(prefix="lockstep-e2e-disk-")
        os.chmod(self.base, 0o755)
        self.disk = os.path.join(self.base, "disk")
        os.mkdir(self.disk)
        self.addCleanup(shutil.rmtree, self.base, ignore_errors=True)
        made = subprocess.run(f"truncate -s 600M {self.base}/image && mkfs.btrfs -q {self.base}/image && "
                              f"mount -o loop {self.base}/image {self.disk} && btrfs quota enable {self.disk}",
                              shell=True, capture_output=True, text=True)
        if made.returncode != 0:
            self.skipTest("no btrfs in a file on this machine: " + made.stderr.strip())
        self.addCleanup(subprocess.run, ["umount", "-l", self.disk])
        self.c = PlacesCluster({"private_tmp": True, "scratch": self.disk})
        self.addCleanup(self.c.down)
        self.c.up()

    def test_a_job_gets_as_much_as_it_asked_for(self):
        self.assertIn("TmpDisk=600", self.c.ok("scontrol", "show", "node", "n1"))
        fill = "head -c {} /dev/zero > {} && sync {} && echo fits"
        said = self.c.said(fill.format("90M", "$LOCKSTEP_SCRATCH/x", "$LOCKSTEP_SCRATCH/x"), "--tmp=50M", state="FAILED", user=ANN)
        self.assertIn("quota exceeded", said)
        self.assertNotIn("fits", said)
        self.assertIn("quota exceeded", self.c.said(fill.format("90M", "/tmp/x", "/tmp/x"), "--tmp=50M", state="FAILED", user=ANN))
        self.assertEqual(self.c.said(fill.format("40M", "/tmp/x", "/tmp/x"), "--tmp=50M", user=ANN), "fits\n")
        self.assertEqual(self.c.said(fill.format("90M", "/tmp/x", "/tmp/x"), user=ANN), "fits\n")
        refused = self.c.run("sbatch", "--tmp=10T", "--wrap", "true")
        self.assertNotEqual(refused.returncode, 0)
        eventually(lambda: [name for tree in os.listdir(self.disk) for name in os.listdir(os.path.join(self.disk, tree))] == [],
                   what="nothing is left")


if __name__ == "__main__":
    unittest.main()
