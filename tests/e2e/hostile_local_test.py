"""Files, sockets and directories against other users and a clumsy root; rootless clusters; what comes back by itself."""
import json
import os
import shutil
import stat
import subprocess
import tempfile
import time
import unittest

from cluster import BIN, Cluster, eventually, running, send

MALLORY, ALICE = 1001, 1002


def modes(top):
    """(path below top, its lstat) of everything there."""
    for root, folders, files in os.walk(top):
        for name in folders + files:
            path = os.path.join(root, name)
            yield os.path.relpath(path, top), os.lstat(path)


def environment_of(pid):
    with open(f"/proc/{pid}/environ") as f:
        return f.read()


def descriptors_of(pid):
    out = {}
    for fd in os.listdir(f"/proc/{pid}/fd"):
        try:
            out[int(fd)] = os.readlink(f"/proc/{pid}/fd/{fd}")
        except OSError:
            pass
    return out


class ClosedByDefault(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.c = Cluster(nodes=1, gpus=None, cpus=8)
        cls.secret_path = os.path.join(cls.c.home, "secret")
        with open(cls.secret_path, "w") as f:
            f.write("of the shell that ran lockstep up")
        os.chmod(cls.secret_path, 0o600)
        cls.c.env["SECRET_OF_ROOT"] = "hunter2"
        old = os.umask(0)
        fd = os.open(cls.secret_path, os.O_RDONLY)
        try:
            subprocess.run(["lockstep", "up", "--dir", cls.c.dir, *cls.c.args], env=cls.c.env, check=True, timeout=120,
                           cwd=cls.c.work, pass_fds=[fd], capture_output=True)
        finally:
            os.close(fd)
            os.umask(old)

    @classmethod
    def tearDownClass(cls):
        cls.c.down()

    def as_mallory(self, program):
        return self.c.run("/usr/bin/python3", "-c", program, user=MALLORY)

    def test_at_first_only_what_is_public_can_be_read(self):
        c = self.c
        c.wait(c.wrap("true", user=MALLORY))
        open_ones = [(path, oct(s.st_mode & 0o777)) for path, s in modes(c.dir)
                     if stat.S_ISREG(s.st_mode) and s.st_mode & 0o077
                     and not path.startswith("public/") and os.path.basename(path) not in ("hosts", "hostname")]
        self.assertEqual(open_ones, [])
        listable = [path for path, s in modes(c.dir)
                    if stat.S_ISDIR(s.st_mode) and s.st_mode & 0o066 and path != "public"]
        self.assertEqual(listable, [])
        self.assertEqual(os.stat(c.dir).st_mode & 0o777, 0o711)
        self.assertNotEqual(c.run("ls", c.dir, user=MALLORY).returncode, 0)
        for name in ("lockstep.db", "lockstep.db-wal", "lockstep.db-shm", "history.db", "pki/ca.key", "pki/controller.key",
                     "log/controller.log", "controller.run", "lockstep.id", "lock", "nodes/n1/pki/node.key",
                     "nodes/n1/agent.json", "nodes/n1/log", "nodes/n1/state/journal"):
            self.assertTrue(os.path.exists(os.path.join(c.dir, name)), name)
            result = self.as_mallory(f"open({os.path.join(c.dir, name)!r}, 'rb').read(1)")
            self.assertIn("PermissionError", result.stderr, name)

    def test_no_lock_of_ours_can_be_held(self):
        for name in ("", "lock", "up.lock", "lockstep.db", "lockstep.db-shm", "lockstep.db-wal", "history.db-shm", "controller.run"):
            path = os.path.join(self.c.dir, name)
            result = self.as_mallory(f"import fcntl, os; fcntl.flock(os.open({path!r}, os.O_RDONLY), fcntl.LOCK_SH)")
            self.assertIn("PermissionError", result.stderr, name)
        self.c.kill_controller(hold=False)
        eventually(self.c.answers, 5, "the controller is back")

    def test_ordinary_users_use_it(self):
        c = self.c
        exports = c.ok("lockstep", "env", "--dir", c.dir, user=MALLORY)
        script = c.script("#!/bin/sh\nid -u; test -r $0 && echo readable; cat $0 | head -c 2; ls -l /proc/self/fd | grep -c secret\n")
        out = subprocess.run(["setpriv", f"--reuid={MALLORY}", f"--regid={MALLORY}", "--clear-groups", "bash", "-c",
                              exports + f"\nsbatch --wait -o {c.work}/mallory.out {script}; squeue; lockstep status"],
                             capture_output=True, text=True, cwd=c.work, timeout=60, env={"PATH": "/usr/bin:/bin", "HOME": "/"})
        self.assertEqual(out.returncode, 0, out.stderr)
        self.assertIn("controller  up, pid", out.stdout)
        with open(f"{c.work}/mallory.out") as f:
            self.assertEqual(f.read().split(), [str(MALLORY), "readable", "#!0"])

    def test_scripts_of_others(self):
        c = self.c
        job = c.wrap("echo secret of alice; sleep 30", user=ALICE, env={"TOKEN": "of alice"})
        c.wait(job, "RUNNING")
        found = c.ok("srun", "-n1", "sh", "-c", "ls -lR /run/lockstep-agent 2>&1; cat /run/lockstep-agent/shims/*/* 2>&1; "
                     f"cat /run/lockstep-agent/shims/{job}*/script 2>&1; true", user=MALLORY)
        self.assertNotIn("secret of alice", found)
        self.assertNotIn("of alice", c.run("srun", "-n1", "sh", "-c", "cat /proc/[0-9]*/environ 2>/dev/null; true", user=MALLORY).stdout)
        c.ok("scancel", job)

    def test_nothing_is_inherited_from_the_shell(self):
        status = self.c.status()
        node = status["nodes"][0]
        for pid in (status["controller"]["pid"], status["controller"]["supervisor_pid"], node["pid"], node["agent_pid"]):
            self.assertNotIn("hunter2", environment_of(pid))
            fds = descriptors_of(pid)
            self.assertEqual([path for path in fds.values() if "secret" in path], [])
            self.assertEqual(fds[0], "/dev/null")
            self.assertEqual(os.readlink(f"/proc/{pid}/cwd"), "/")
            self.assertNotEqual(os.getsid(pid), os.getsid(0))
        self.assertNotIn("hunter2", self.c.ok("srun", "env", env={"SECRET_OF_ROOT": ""}))

    def test_loose_modes_are_closed_and_said_so(self):
        c = self.c
        loose = [os.path.join(c.dir, name) for name in ("lockstep.db", "history.db", "pki/ca.key", "log/controller.log")]
        for path in loose:
            os.chmod(path, 0o644)
        os.chmod(c.dir, 0o755)
        said = c.run("lockstep", "up", "--dir", c.dir)
        self.assertEqual(said.returncode, 0)
        self.assertIn("were open to other users", said.stderr)
        self.assertEqual([oct(os.stat(p).st_mode & 0o777) for p in loose], ["0o600"] * 4)
        self.assertEqual(os.stat(c.dir).st_mode & 0o777, 0o711)


class ComesBack(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.c = Cluster(nodes=1, gpus=None, cpus=8)
        cls.c.up()

    @classmethod
    def tearDownClass(cls):
        cls.c.down()

    def test_a_killed_controller_is_back_within_a_second(self):
        c = self.c
        job = c.wrap("sleep 3; exit 7")
        c.wait(job, "RUNNING")
        before = c.status()["controller"]
        started = time.monotonic()
        c.kill_controller(hold=False)
        eventually(c.answers, 10, "the controller answers")
        away = time.monotonic() - started
        print(f"away {away:.2f} s")
        self.assertLess(away, 3)
        after = c.status()["controller"]
        self.assertNotEqual(after["pid"], before["pid"])
        self.assertEqual(after["ends"], before["ends"] + 1)
        self.assertEqual(after["last_end"].split(":")[0], "signal 9 (Killed)")
        self.assertIn("signal 9 (Killed)", c.ok("lockstep", "status", "--dir", c.dir))
        self.assertEqual(c.wait(job), "FAILED")
        self.assertEqual(c.show(job)["ExitCode"], "7:0")

    def test_a_killed_agent_too(self):
        c = self.c
        before = c.node("n1")
        c.kill_agent("n1")
        after = eventually(lambda: (lambda n: n if n["agent_pid"] not in (0, before["agent_pid"]) else None)(c.node("n1")), 5)
        self.assertEqual(after["agent_ends"], before["agent_ends"] + 1)
        self.assertEqual(after["agent_last_end"].split(":")[0], "signal 9 (Killed)")
        self.assertEqual(c.wait(c.wrap("true")), "COMPLETED")

    def test_a_crash_loop_slows_down_and_up_does_not_wait(self):
        c = self.c
        for _ in range(7):
            c.kill_controller(hold=False)
        status = c.status()["controller"]
        self.assertEqual((status["state"], status["pid"]), ("down", 0))
        self.assertGreaterEqual(status["next_start_at_s"] - status["last_end_at_s"], 3)
        started = time.monotonic()
        c.up()
        self.assertLess(time.monotonic() - started, 3)
        self.assertTrue(c.answers())

    def test_up_straight_after_a_crash(self):
        c = self.c
        for _ in range(12):
            send(c.status()["controller"]["pid"])
            c.up()
            self.assertTrue(c.answers())

    def test_a_killed_supervisor(self):
        c = self.c
        before = c.status()["controller"]
        send(before["supervisor_pid"])
        eventually(lambda: c.status()["controller"]["supervisor_pid"] == 0, 5)
        self.assertIn("nobody starts it again", c.ok("lockstep", "status", "--dir", c.dir))
        c.up()
        after = c.status()["controller"]
        self.assertEqual(after["pid"], before["pid"], "it was taken over, not restarted")
        self.assertNotIn(after["supervisor_pid"], (0, before["supervisor_pid"]))
        c.kill_controller(hold=False)
        eventually(c.answers, 5, "the new supervisor starts it")

    def test_both_killed(self):
        c = self.c
        before = c.status()["controller"]
        for pid in (before["supervisor_pid"], before["pid"]):
            send(pid)
        c.up()
        self.assertTrue(c.answers())


class PlainNode(unittest.TestCase):
    """Its work outlives its first process, so that one's end proves nothing."""

    def setUp(self):
        self.c = Cluster(nodes=0)
        self.c.up()
        self.mark = os.path.join(self.c.work, "ran")

    def tearDown(self):
        self.c.down()

    def start_job_and_kill_init(self, seconds):
        job = self.c.wrap(f"echo x >> {self.mark}; sleep {seconds}; : {self.c.home}; exit 7")
        eventually(lambda: os.path.exists(self.mark), 20)
        node = self.c.status()["nodes"][0]
        send(node["pid"])
        eventually(lambda: not running(node["agent_pid"]), 5, "the agent goes with who would start it again")
        return job

    def test_a_job_goes_on_and_is_found_again(self):
        job = self.start_job_and_kill_init(3)
        self.c.up()
        self.assertEqual(self.c.wait(job), "FAILED")
        self.assertEqual(self.c.show(job)["ExitCode"], "7:0")
        with open(self.mark) as f:
            self.assertEqual(f.read(), "x\n", "it ran once")

    def test_down_ends_what_is_left(self):
        self.start_job_and_kill_init(600)
        self.c.run("lockstep", "down", "--dir", self.c.dir)
        left = subprocess.run(["ps", "-e", "-o", "stat=,args="], capture_output=True, text=True).stdout.split("\n")
        self.assertEqual([line for line in left if self.c.home in line and not line.startswith("Z")], [])


class FullDisk(unittest.TestCase):
    def test_up_with_a_dead_controller_on_a_full_disk(self):
        c = Cluster(nodes=0)
        os.mkdir(c.dir)
        subprocess.run(["mount", "-t", "tmpfs", "-o", "size=48m", "tmpfs", c.dir], check=True)
        try:
            c.up()
            held = c.wrap("true", "--hold")
            for stop in ("kill", "down"):
                filler = os.path.join(c.dir, "filler")
                with open(filler, "wb", buffering=0) as f:
                    try:
                        while True:
                            f.write(b"x" * 4096)
                    except OSError:
                        pass
                if stop == "kill":
                    c.kill_controller()
                else:
                    c.run("lockstep", "down", "--dir", c.dir)
                c.up()
                self.assertEqual(c.state(held), "PENDING", stop)
                os.unlink(filler)
                done = eventually(lambda: c.run("sbatch", "--parsable", "--wrap", "true").stdout.strip(), 30)
                self.assertEqual(c.wait(done), "COMPLETED")
        finally:
            c.run("lockstep", "down", "--dir", c.dir)
            subprocess.run(["umount", "-l", c.dir], check=False)
            c.down()


class WhatDownSays(unittest.TestCase):
    """Down means down, and only this cluster's."""

    def setUp(self):
        self.c = Cluster(nodes=1, gpus=None)
        self.addCleanup(self.c.down)
        self.c.up()

    def lockstep(self, *argv):
        return self.c.run("lockstep", *argv, timeout=60)

    def test_a_copy_is_another_cluster(self):
        job = self.c.wrap("sleep 60", "--no-requeue")
        self.c.wait(job, "RUNNING")
        copy = self.c.dir + "-copy"
        subprocess.run(["cp", "-a", self.c.dir, copy], check=True)
        pid = self.c.controller_pid()
        said = self.lockstep("down", "--dir", copy, "--delete")
        self.assertEqual(said.returncode, 1, said.stdout)
        self.assertIn("is this a copy", said.stderr)
        self.assertEqual(self.c.controller_pid(), pid)
        self.assertEqual(self.c.state(job), "RUNNING")

    def test_what_runs_without_a_note_is_found_all_the_same(self):
        status = self.c.status()
        pids = [status["controller"]["pid"], status["controller"]["supervisor_pid"], status["nodes"][0]["pid"]]
        for note in ("controller.run", "nodes/n1/init.pid"):
            os.unlink(os.path.join(self.c.dir, note))
        said = self.lockstep("down", "--dir", self.c.dir)
        self.assertEqual(said.returncode, 0, said.stderr)
        self.assertEqual([pid for pid in pids if running(pid)], [])

    def test_an_empty_dir_is_no_default(self):
        for words in (("--dir", ""), ("--dir=",)):
            said = self.lockstep("down", *words, "--delete")
            self.assertEqual(said.returncode, 2)
            self.assertIn("--dir is empty", said.stderr)


class ForeignDirectories(unittest.TestCase):
    """Root is clumsy, and somebody else has prepared something."""

    def setUp(self):
        self.home = tempfile.mkdtemp(prefix="lockstep-e2e-")
        os.chmod(self.home, 0o755)
        self.victim = subprocess.Popen(["sleep", "1000"])
        self.env = {k: v for k, v in os.environ.items() if not k.startswith("LOCKSTEP_")}

    def tearDown(self):
        self.victim.kill()
        self.victim.wait()
        shutil.rmtree(self.home, ignore_errors=True)

    def lockstep(self, *argv):
        return subprocess.run([os.path.join(BIN, "lockstep"), *argv], env=self.env, capture_output=True, text=True, timeout=60)

    def ticks(self):
        with open(f"/proc/{self.victim.pid}/stat") as f:
            return f.read().rsplit(")", 1)[1].split()[19]

    def run_note(self):
        pid = f"{self.victim.pid} {self.ticks()}"
        return (f"lockstep run note 1\nsupervisor={pid}\nprocess={pid}\nends=0\nended_by_itself=0\nended=\nended_at_s=0\n"
                "next_at_s=0\nall of it\n")

    def refused(self, result, *words):
        self.assertEqual(result.returncode, 1, result.stdout + result.stderr)
        for word in words:
            self.assertIn(word, result.stderr)

    def test_a_home_survives(self):
        for name in ("precious", "lockstep.db", "cluster.conf"):
            with open(os.path.join(self.home, name), "w") as f:
                f.write("mine")
        self.refused(self.lockstep("up", "--dir", self.home), self.home, "not a Lockstep state directory")
        self.refused(self.lockstep("down", "--delete", "--dir", self.home), "not a Lockstep state directory")
        daemon = subprocess.run([os.path.join(BIN, "lockstepd"), "--dir", self.home, "--listen", "127.0.0.1:0"],
                                capture_output=True, text=True, timeout=20)
        self.refused(daemon, "not a Lockstep state directory")
        self.assertEqual(sorted(os.listdir(self.home)), ["cluster.conf", "lockstep.db", "precious"])

    def test_somebody_elses_directory(self):
        trap = os.path.join(self.home, "trap")
        os.mkdir(trap)
        shadow = os.path.join(self.home, "shadow")
        with open(shadow, "w") as f:
            f.write("root:secret")
        os.chmod(shadow, 0o600)
        for name in ("cluster.conf.new", "up.lock", "lockstep.id.new", "controller.run", "log"):
            os.symlink(shadow, os.path.join(trap, name))
        with open(os.path.join(trap, "cluster.conf"), "w") as f:
            f.write("# Written by lockstep up.\nname=trap\nnodes=1\n")
        os.makedirs(os.path.join(trap, "nodes", "n1"))
        with open(os.path.join(trap, "nodes", "n1", "init.pid"), "w") as f:
            f.write(f"{self.victim.pid} {self.ticks()}\n")
        for root, folders, files in os.walk(trap):
            for path in [root] + [os.path.join(root, f) for f in files]:
                os.lchown(path, MALLORY, MALLORY)
        for argv in (["up"], ["down"], ["down", "--delete"], ["node", "kill", "n1"]):
            self.refused(self.lockstep(*argv, "--dir", trap), f"belongs to user {MALLORY}")
        # Below it nothing is trusted either: he could exchange what lies there.
        inside = os.path.join(trap, "inside")
        os.mkdir(inside)
        self.refused(self.lockstep("up", "--dir", inside), f"belongs to user {MALLORY}")
        with open(shadow) as f:
            self.assertEqual(f.read(), "root:secret")
        self.assertIsNone(self.victim.poll(), "somebody else's process was ended")

    def test_links_and_open_directories(self):
        os.chmod(self.home, 0o1777)
        real = os.path.join(self.home, "real")
        os.mkdir(real, 0o700)
        link = os.path.join(self.home, "link")
        subprocess.run(["setpriv", f"--reuid={MALLORY}", f"--regid={MALLORY}", "--clear-groups", "ln", "-s", real, link], check=True)
        self.refused(self.lockstep("up", "--dir", link), "symbolic link")
        self.refused(self.lockstep("up", "--dir", os.path.join(link, "x")), "symbolic link")
        self.assertEqual(os.listdir(real), [])
        open_one = os.path.join(real, "open")
        os.mkdir(open_one)
        os.chmod(open_one, 0o777)
        self.refused(self.lockstep("up", "--dir", os.path.join(open_one, "x")), "others may write")

    def test_a_note_of_a_foreign_process(self):
        c = Cluster(nodes=0)
        try:
            c.up()
            c.run("lockstep", "down", "--dir", c.dir)
            node = os.listdir(os.path.join(c.dir, "nodes"))[0]
            with open(os.path.join(c.dir, "controller.run"), "w") as f:
                f.write(self.run_note())
            with open(os.path.join(c.dir, "nodes", node, "init.pid"), "w") as f:
                f.write(f"{self.victim.pid} {self.ticks()}\n")
            for argv in (["node", "kill", node], ["down"]):
                said = self.lockstep(*argv, "--dir", c.dir)
                self.assertIn("left alone", said.stderr, argv)
                self.assertIsNone(self.victim.poll(), argv)
            c.up()
            self.assertIsNone(self.victim.poll())
        finally:
            c.down()

    def test_delete_leaves_what_is_not_ours(self):
        c = Cluster(nodes=0)
        try:
            c.up()
            os.mkdir(os.path.join(c.dir, "work"))
            with open(os.path.join(c.dir, "work", "thesis"), "w") as f:
                f.write("x")
            said = c.ok("lockstep", "down", "--delete", "--dir", c.dir)
            self.assertIn("work", said)
            self.assertEqual(sorted(os.listdir(c.dir)), ["lockstep.id", "work"])
            shutil.rmtree(os.path.join(c.dir, "work"))
            c.up()
            c.ok("lockstep", "down", "--delete", "--dir", c.dir)
            self.assertFalse(os.path.exists(c.dir))
        finally:
            c.down()


class Rootless(unittest.TestCase):
    def test_it_serves_its_owner_only(self):
        c = Cluster(nodes=0)
        os.chown(c.home, MALLORY, MALLORY)
        try:
            started = c.run("lockstep", "up", "--dir", c.dir, user=MALLORY, env={"HOME": c.home})
            self.assertEqual(started.returncode, 0, started.stderr)
            self.assertEqual(os.stat(c.dir).st_mode & 0o777, 0o700)
            loose = [path for path, s in modes(c.dir) if not stat.S_ISLNK(s.st_mode) and s.st_mode & 0o077
                     and os.path.basename(path) not in ("ca.pem", "hosts")]
            self.assertEqual(loose, [])
            self.assertEqual(os.lstat(os.path.join(c.dir, "public", "api.sock")).st_mode & 0o777, 0o600)
            job = c.run("sbatch", "--parsable", "--wrap", "id -u", user=MALLORY).stdout.strip()
            self.assertEqual(c.wait(job), "COMPLETED")
            self.assertEqual(c.output(job), f"{MALLORY}\n")
            node_socket = os.path.join(c.dir, "nodes", os.listdir(os.path.join(c.dir, "nodes"))[0], "run", "api.sock")
            for socket in (c.env["LOCKSTEP_SOCKET"], node_socket):
                for command in (["squeue"], ["sbatch", "--wrap", "id"], ["srun", "id"]):
                    other = c.run(*command, user=ALICE, env={"LOCKSTEP_SOCKET": socket})
                    self.assertNotEqual(other.returncode, 0)
                    self.assertIn("serves only the user who started it", other.stderr, command)
            # Even where the file modes would let them through.
            for path in (c.dir, os.path.join(c.dir, "public")):
                os.chmod(path, 0o755)
            os.chmod(c.env["LOCKSTEP_SOCKET"], 0o666)
            for user in (ALICE, 0):
                for command in (["sbatch", "--wrap", "id"], ["srun", "id"], ["salloc", "true"]):
                    other = c.run(*command, user=user)
                    self.assertNotEqual(other.returncode, 0, (user, command))
                    self.assertIn("that user's jobs only", other.stderr)
            self.assertEqual(c.run("squeue").returncode, 0, "root may look")
            # Root's `down` is not for somebody else's cluster.
            self.assertIn(f"belongs to user {MALLORY}", c.run("lockstep", "down", "--dir", c.dir).stderr)
            pid = c.run("lockstep", "status", "--dir", c.dir, "-o", "json", user=MALLORY).stdout
            send(json.loads(pid)["controller"]["pid"])
            eventually(c.answers, 5, "it comes back")
        finally:
            c.run("lockstep", "down", "--dir", c.dir, user=MALLORY)
            c.down()


if __name__ == "__main__":
    unittest.main()
