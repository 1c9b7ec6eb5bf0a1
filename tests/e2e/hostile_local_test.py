"""Files, sockets and directories against other users and a clumsy root; rootless clusters; what comes back by itself."""
import fcntl
import json
import os
import re
import shutil
import signal
import stat
import subprocess
import tempfile
import time
import unittest
from pathlib import Path

from cluster import BIN, Cluster, eventually, running, send, started_at
from stuck import StuckFolder

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
                     and not path.startswith("public/") and os.path.basename(path) not in ("hosts", "hostname", "profile", "limits")]
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
        for name in ("", "lock", "lockstep.db", "lockstep.db-shm", "lockstep.db-wal", "history.db-shm", "controller.run"):
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

    def test_the_certificate_everybody_reads_is_the_cas(self):
        c = self.c
        path = os.path.join(c.dir, "public", "ca.pem")
        with open(path) as f:
            good = f.read()
        os.chmod(path, 0o666)
        with open(path, "w") as f:
            f.write("of somebody else")
        said = c.run("lockstep", "up", "--dir", c.dir)
        self.assertEqual(said.returncode, 0, said.stderr)
        self.assertIn("public/ca.pem was not the certificate", said.stderr)
        self.assertIn("were open to other users", said.stderr)
        self.assertEqual(os.stat(path).st_mode & 0o777, 0o644)
        with open(path) as f:
            self.assertEqual(f.read(), good)


class ComesBack(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.c = Cluster(nodes=1, gpus=None, cpus=8)
        cls.c.up()

    @classmethod
    def tearDownClass(cls):
        cls.c.down()

    def pauses(self):
        """How long the supervisor waited before each start, in ms, as it said in the log."""
        with open(os.path.join(self.c.dir, "log", "controller.log")) as f:
            return [int(ms) for ms in re.findall(r"lockstepd ended .*; it is started again in (\d+) ms", f.read())]

    def test_a_killed_controller_is_back_at_once(self):
        c = self.c
        c.down(delete=False)
        c.up()  # the supervisor has seen no end yet
        job = c.wrap("sleep 3; exit 7")
        c.wait(job, "RUNNING")
        before = c.status()["controller"]
        c.kill_controller(hold=False)
        eventually(c.answers, what="the controller answers")
        self.assertEqual(self.pauses()[-1], 100, "of milliseconds, before it was started again")
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
        self.assertRegex(c.ok("lockstep", "status"), r"agent of n1 ended \d+ time\(s\), last at 20.*: signal 9 \(Killed\)")
        note = os.path.join(c.dir, "nodes", "n1", "agent.run")
        with open(note, "r+") as f:
            text = re.sub(r"ended_at_s=(\d+)", lambda m: f"ended_at_s={int(m[1]) - 700}", f.read())
            f.seek(0)
            f.write(text)
        self.assertNotIn("agent of n1 ended", c.ok("lockstep", "status"), "it has been well for a while")
        self.assertEqual(c.node("n1")["agent_ends"], after["agent_ends"])

    def test_a_crash_loop_slows_down_and_up_does_not_wait(self):
        c = self.c
        for kills in (7, 8, 9):  # longer and longer pauses: on a busy machine one may be over before `up` gets to run
            for _ in range(kills):
                c.kill_controller(hold=False)
            status = c.status()["controller"]
            pauses = self.pauses()[-kills:]
            self.assertEqual(pauses[1:], [2 * pause for pause in pauses[:-1]])
            c.up()
            self.assertTrue(c.answers())
            if status["pid"] == 0 and started_at(c.controller_pid()) < status["next_start_at_s"]:
                return
        self.fail("the controller was never started before its pause was over")

    def test_up_straight_after_a_crash(self):
        c = self.c
        for _ in range(12):
            send(c.status()["controller"]["pid"])
            c.up()
            self.assertTrue(c.answers())

    def test_up_straight_after_a_node_was_killed(self):
        """What is given right after `up` meets a node that is there."""
        c = self.c
        for _ in range(8):
            send(c.node("n1")["pid"])
            c.up()
            self.assertEqual(c.ok("srun", "--no-kill", "-n1", "hostname"), "n1\n")

    def test_up_names_the_node_that_does_not_come(self):
        c = self.c
        journal = os.path.join(c.dir, "nodes", "n1", "state", "journal")
        send(c.node("n1")["pid"])
        os.rename(journal, journal + ".aside")
        os.mkfifo(journal)
        try:
            said = c.run("lockstep", "up", "--dir", c.dir, timeout=100)
            self.assertEqual(said.returncode, 1)
            self.assertRegex(said.stderr, r"only 0 of 1 nodes are up after 60 s:\n  n1: its agent ended: .*journal is in the way")
        finally:
            os.unlink(journal)
            os.rename(journal + ".aside", journal)
        c.up()
        self.assertEqual(c.ok("srun", "-n1", "hostname"), "n1\n")

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

    def test_a_lost_certificate_ends_what_nobody_can_answer_for(self):
        pids = os.path.join(self.c.work, "pids")
        job = self.c.wrap(f"echo $$ >> {pids}; exec sleep 600", "--requeue")
        ran = lambda: [int(pid) for pid in Path(pids).read_text().split()] if os.path.exists(pids) else []
        eventually(ran)
        node = self.c.status()["nodes"][0]
        send(node["pid"])
        eventually(lambda: not running(node["agent_pid"]))
        self.assertTrue(running(ran()[0]))
        shutil.rmtree(os.path.join(self.c.dir, "nodes", node["name"], "pki"))
        self.c.up()
        self.assertFalse(running(ran()[0]))
        self.assertEqual(self.c.wait(self.c.wrap("true")), "COMPLETED")
        self.assertEqual(len(eventually(lambda: ran() if len(ran()) > 1 else None, what="it runs again")), 2)
        self.assertEqual(self.c.show(job)["Restarts"], "1")

    def test_what_does_not_end_is_not_called_off(self):
        """A step waits for a disk that does not answer, and nobody is left to speak for its node."""
        stuck = StuckFolder(os.path.join(self.c.home, "stuck"))
        try:
            self.c.wrap(f"echo x >> {self.mark}; cat {stuck.path}/file", "--requeue")
            self.assertTrue(stuck.asked.wait(20))
            node = self.c.status()["nodes"][0]
            send(node["pid"])
            eventually(lambda: not running(node["agent_pid"]))
            os.unlink(os.path.join(self.c.dir, "nodes", node["name"], "pki", "node.key"))
            for what in ("up", "up", "down", "up"):  # however often it is tried
                tried = self.c.run("lockstep", what, "--dir", self.c.dir)
                self.assertEqual(tried.returncode, 1, tried.stdout)
                self.assertRegex(tried.stderr, r"process \d+ \(cat\) of a step does not end")
            self.assertEqual(Path(self.mark).read_text(), "x\n")
        finally:
            stuck.release()
        self.c.up()
        eventually(lambda: Path(self.mark).read_text() == "x\nx\n", what="it runs again")

    def test_what_does_not_end_is_not_forgotten(self):
        stuck = StuckFolder(os.path.join(self.c.home, "stuck"))
        try:
            job = self.c.wrap(f"echo x >> {self.mark}; cat {stuck.path}/file", "--requeue")
            self.assertTrue(stuck.asked.wait(20))
            down = self.c.run("lockstep", "down", "--dir", self.c.dir)
            self.assertEqual(down.returncode, 1, down.stdout)
            self.assertRegex(down.stderr, r"process \d+ \(cat\) of a step does not end")
            self.c.up()
            self.assertEqual(self.c.wait(self.c.wrap("true")), "COMPLETED")
        finally:
            stuck.release()
        self.c.wait(job)
        self.assertEqual(Path(self.mark).read_text(), "x\n", "it ran once")

    def test_down_ends_what_is_left(self):
        self.start_job_and_kill_init(600)
        self.c.run("lockstep", "down", "--dir", self.c.dir)
        left = subprocess.run(["ps", "-e", "-o", "stat=,args="], capture_output=True, text=True).stdout.split("\n")
        self.assertEqual([line for line in left if self.c.home in line and not line.startswith("Z")], [])


class FullDisk(unittest.TestCase):
    def test_up_with_a_dead_controller_on_a_full_disk(self):
        c = Cluster(nodes=0)
        os.mkdir(c.dir)
        subprocess.run(["mount", "-t", "tmpfs", "-o", "size=48m,mode=0755", "tmpfs", c.dir], check=True)
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
            self.nothing_can_be_written(c)
        finally:
            c.run("lockstep", "down", "--dir", c.dir)
            subprocess.run(["umount", "-l", c.dir], check=False)
            c.down()

    def test_one_full_disk_keeps_no_other_node_down(self):
        """With a page of 4 KiB to spare its first process ends, and can say why to nobody but `up`; with two it comes up, too."""
        c = Cluster(nodes=3, gpus=None, cpus=1)
        mine, aside = os.path.join(c.dir, "nodes", "n1"), os.path.join(c.home, "aside")
        self.addCleanup(c.down)
        c.up()
        for pages, word in ((0, "init.pid"), (1, "hostname"), (2, "")):
            with self.subTest(pages=pages):
                c.ok("lockstep", "down", "--dir", c.dir)
                shutil.copytree(mine, aside, ignore=shutil.ignore_patterns("*.sock"))
                subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m,mode=0711", "tmpfs", mine], check=True)
                try:
                    shutil.copytree(aside, mine, dirs_exist_ok=True)
                    if os.path.exists(os.path.join(mine, "boot_id")):
                        os.unlink(os.path.join(mine, "boot_id"))
                    filler = os.path.join(mine, "state", "shims", "filler")
                    os.makedirs(os.path.dirname(filler), exist_ok=True)
                    with open(filler, "wb", buffering=0) as f:
                        with self.assertRaises(OSError):
                            while True:
                                f.write(b"x" * 4096)
                    os.truncate(filler, os.path.getsize(filler) // 4096 * 4096 - pages * 4096)
                    said = c.run("lockstep", "up", "--dir", c.dir, timeout=120)
                    self.assertEqual(said.returncode, 1 if word else 0, said.stderr)
                    if word:
                        self.assertIn("only 2 of 3 nodes are up", said.stderr)
                        self.assertRegex(said.stderr, rf"n1: .*({word}|boot_id).*No space left")
                    self.assertEqual([c.node(name)["state"] for name in ("n2", "n3")], ["idle", "idle"])
                    os.unlink(filler)
                    c.up()
                finally:
                    c.run("lockstep", "down", "--dir", c.dir)
                    subprocess.run(["umount", "-l", mine], check=False)
                    shutil.rmtree(aside)
                    c.up()

    def test_nobody_reads_what_up_and_down_say(self):
        with Cluster(nodes=2, gpus=None, cpus=1) as c:
            for verb in ("down", "up"):
                read, write = os.pipe()
                os.close(read)
                said = subprocess.run(["lockstep", verb, "--dir", c.dir], env=c.env, stdout=write, stderr=write, timeout=120)
                os.close(write)
                self.assertEqual(said.returncode, 0, verb)
            self.assertEqual(c.ok("srun", "-N2", "true"), "")

    def nothing_can_be_written(self, c):
        """Whoever asks for a change is told why, and not that nobody was there."""
        job = c.wrap("sleep 600")
        c.wait(job, "RUNNING")
        filler = os.path.join(c.dir, "filler")
        try:
            while c.status()["controller"]["state"] != "read-only":
                with open(filler, "ab", buffering=0) as f:
                    try:
                        while True:
                            f.write(b"x" * 512)
                    except OSError:
                        pass
                if os.path.exists(os.path.join(c.dir, "reserve")):
                    os.unlink(os.path.join(c.dir, "reserve"))
                c.run("scontrol", "update", f"jobid={job}", "comment=" + "x" * 50_000)
            for command in (["sbatch", "--wrap", "true"], ["srun", "true"], ["salloc", "true"], ["scontrol", "suspend", job],
                            ["scontrol", "hold", job], ["scancel", job], ["lockstep", "node", "drain", c.status()["nodes"][0]["name"]]):
                said = c.run(*command)
                self.assertNotEqual(said.returncode, 0, command)
                self.assertEqual(said.stdout, "", command)
                self.assertIn("read-only until there is room on its disk again; nothing was changed", said.stderr)
                self.assertNotIn("Unable to contact", said.stderr)
        finally:
            os.unlink(filler)
        eventually(lambda: c.run("scancel", job).returncode == 0, what="room again")


class Places(unittest.TestCase):
    """Where a cluster may live."""

    def setUp(self):
        self.home = tempfile.mkdtemp(prefix="lockstep-e2e-")
        os.chmod(self.home, 0o755)
        self.dirs = []
        self.env = {k: v for k, v in os.environ.items() if not k.startswith("LOCKSTEP_")}

    def tearDown(self):
        for path in self.dirs:
            self.lockstep("down", "--dir", path, "--delete")
        shutil.rmtree(self.home, ignore_errors=True)

    def at(self, name):
        return os.path.join(self.home, name)

    def lockstep(self, *argv, cwd=None):
        return subprocess.run([os.path.join(BIN, "lockstep"), *argv], env=self.env, capture_output=True, text=True, timeout=120, cwd=cwd)

    def up(self, path, *more, **kwargs):
        self.dirs.append(os.path.abspath(os.path.join(kwargs.get("cwd") or "/", path)))
        return self.lockstep("up", "--dir", path, *more, **kwargs)

    def refused(self, path, *words, more=()):
        said = self.lockstep("up", "--dir", path, *more)
        if said.returncode == 0:
            self.lockstep("down", "--dir", path)
        self.assertEqual(said.returncode, 1, said.stdout)
        for word in words:
            self.assertIn(word, said.stderr)

    def test_one_that_others_may_write_to(self):
        for mode in (0o1777, 0o777, 0o775):
            path = self.at(f"open-{mode:o}")
            os.mkdir(path)
            os.chmod(path, mode)
            self.refused(path, "open to other users", f"{path}/lockstep" if mode & 0o1000 else f"chmod go-w {path}")
            self.assertIn("there is no cluster", self.lockstep("down", "--dir", path, "--delete").stderr)
            self.assertEqual((os.listdir(path), stat.S_IMODE(os.stat(path).st_mode)), ([], mode))

    def test_what_was_there_before_stays(self):
        path = self.at("found")
        os.mkdir(path, 0o755)
        for _ in range(2):
            self.assertEqual(self.up(path).returncode, 0)
            self.assertEqual(self.lockstep("down", "--dir", path).returncode, 0)
            self.assertEqual(self.up(path).returncode, 0)
            said = self.lockstep("down", "--dir", path, "--delete")
            self.assertIn("was there before and stays", said.stdout)
            self.assertEqual((os.listdir(path), stat.S_IMODE(os.stat(path).st_mode)), ([], 0o755))

    def test_not_in_another_clusters(self):
        outer = self.at("outer")
        self.assertEqual(self.up(outer).returncode, 0)
        for inner in ("outer/inner", "outer/public/inner", "outer/nodes/inner"):
            self.refused(self.at(inner), outer, "the state directory of another cluster")
            self.assertFalse(os.path.exists(self.at(inner)))
        self.assertIn("not empty", self.lockstep("up", "--dir", self.home).stderr)

    def test_not_where_nodes_see_nothing(self):
        os.symlink("/dev/shm", self.at("way"))
        for place in ("/run", "/var/run", "/dev/shm", self.at("way")):
            path = os.path.join(place, "lockstep-e2e-hidden")
            self.refused(path, "would not see", "/var/lib/lockstep", more=("--nodes", "1", "--cpus", "1"))
            self.assertFalse(os.path.exists(path), "nothing is left of it")
        # Where this machine is the node nothing is hidden.
        path = tempfile.mkdtemp(prefix="lockstep-e2e-", dir="/dev/shm")
        said = self.up(path)
        self.assertEqual(said.returncode, 0, said.stderr)
        self.assertIn("lies in memory", said.stderr)
        self.lockstep("down", "--dir", path, "--delete")
        os.rmdir(path)

    def test_spelled_in_other_ways(self):
        said = self.up("./a b//it's/.//", "--nodes", "1", "--cpus", "2", cwd=self.home)
        self.assertEqual(said.returncode, 0, said.stderr)
        path = self.at("a b/it's")
        line = said.stdout.split("point your shell at it:")[1].strip()
        out = subprocess.run(["bash", "-c", line + "; echo $LOCKSTEP_DIR; srun hostname"], env=self.env, capture_output=True, text=True,
                             timeout=60)
        self.assertEqual(out.stdout, path + "\nn1\n", out.stderr)
        os.unlink(os.path.join(path, "lockstep.id"))  # its processes are known by the name now
        self.assertEqual(self.lockstep("down", "--dir", "a b/./it's/", cwd=self.home).returncode, 0)
        left = subprocess.run(["ps", "-e", "-o", "stat=,args="], capture_output=True, text=True).stdout.split("\n")
        self.assertEqual([line for line in left if path in line and not line.startswith("Z")], [])

    def test_a_disk_that_is_full_from_the_first(self):
        disk = self.at("disk")
        os.mkdir(disk)
        subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m,mode=0755", "tmpfs", disk], check=True)
        self.addCleanup(subprocess.run, ["umount", "-l", disk])
        path = os.path.join(disk, "c")
        for filled, word in ((1024, "No space left"), (1000, "is full: "), (0, "the disk under the controller's state is full")):
            with open(os.path.join(disk, "filler"), "wb") as f:
                f.write(b"x" * (filled << 10))
            self.refused(path, word)
            if os.path.exists(path):  # nobody has asked it anything yet, so that it cannot even write down who does
                told = self.lockstep("status", "--dir", path).stdout
                self.assertRegex(told, r"controller +down" if filled else r"controller +read-only, pid \d+\n(.*\n)*notice +read-only: the disk")
                self.assertEqual(self.lockstep("down", "--dir", path, "--delete").returncode, 0)
            self.assertFalse(os.path.exists(path))

    def test_a_removal_that_did_not_come_to_its_end(self):
        """Nobody starts a cluster from what is left of it, until it is removed."""
        path = self.at("c")
        self.assertEqual(self.up(path).returncode, 0)
        self.assertEqual(self.lockstep("down", "--dir", path).returncode, 0)
        mounted = os.path.join(path, "nodes", os.listdir(os.path.join(path, "nodes"))[0], "state")
        subprocess.run(["mount", "-t", "tmpfs", "tmpfs", mounted], check=True)
        try:
            self.assertIn("another file system", self.lockstep("down", "--dir", path, "--delete").stderr)
            self.assertFalse(os.path.exists(os.path.join(path, "lockstep.db")), "some of it is removed")
            self.refused(path, "is half deleted", f"lockstep down --delete --dir {path}")
            self.assertIn("is half deleted", self.lockstep("down", "--dir", path).stdout)
            self.assertIn("lockstep.id", os.listdir(path))
        finally:
            subprocess.run(["umount", "-l", mounted], check=True)
        said = self.lockstep("down", "--dir", path, "--delete")
        self.assertEqual((said.returncode, os.path.exists(path)), (0, False), said.stderr)
        self.assertEqual(self.up(path).returncode, 0)

    def test_one_that_was_there_when_an_up_was_killed_as_it_began(self):
        path = self.at("found")
        for name, text in (("lockstep.dir.new", "fou"), ("lockstep.dir", "found empty, with mode 750\n")):
            os.mkdir(path)
            with open(os.path.join(path, name), "w") as f:
                f.write(text)
            os.chmod(path, 0o750 if name.endswith(".new") else 0o711)
            said = self.lockstep("down", "--dir", path, "--delete")
            self.assertIn("was interrupted as it began", said.stdout, said.stderr)
            self.assertEqual((os.listdir(path), stat.S_IMODE(os.stat(path).st_mode)), ([], 0o750))
            os.rmdir(path)

    def test_one_that_another_holds_is_not_called_empty(self):
        path = self.at("begun")
        os.mkdir(path, 0o700)
        Path(path, "lockstep.dir").write_text("made by lockstep\n")
        os.chmod(os.path.join(path, "lockstep.dir"), 0o600)
        holder = os.open(path, os.O_RDONLY)
        fcntl.flock(holder, fcntl.LOCK_EX)
        said = self.lockstep("down", "--dir", path, "--delete")
        self.assertEqual(said.returncode, 1)
        self.assertIn("is locked by another", said.stderr)
        os.close(holder)
        self.assertEqual(self.lockstep("down", "--dir", path, "--delete").returncode, 0)
        self.assertFalse(os.path.exists(path))

    def test_names_that_cannot_be(self):
        for name, word in (("two\nlines", "control characters"), ("tab\there", "control characters"), ("x" * 120, "too long")):
            self.refused(self.at(name), word)
            self.refused(self.at(name), word, more=("--nodes", "1"))
        self.assertEqual(os.listdir(self.home), [])

    def test_a_missing_program(self):
        programs = self.at("bin")
        os.mkdir(programs)
        shutil.copy(os.path.join(BIN, "lockstep"), programs)
        names = ("lockstepd", "lockstep-agent", "lockstep-shim")
        for missing in names:
            for name in names:
                if name != missing:
                    os.symlink(os.path.join(BIN, name), os.path.join(programs, name))
            said = subprocess.run([os.path.join(programs, "lockstep"), "up", "--dir", self.at("c")], env=self.env, capture_output=True,
                                  text=True, timeout=120)
            self.assertEqual(said.returncode, 1)
            self.assertIn(f"{programs}/{missing} is missing", said.stderr)
            self.assertFalse(os.path.exists(self.at("c")))
            for name in set(names) - {missing}:
                os.unlink(os.path.join(programs, name))

    def test_what_cannot_be_settled_leaves_nothing(self):
        programs = self.at("bin")  # without the lib/ beside it
        os.mkdir(programs)
        shutil.copy(os.path.join(BIN, "lockstep"), programs)
        for name in ("lockstepd", "lockstep-agent", "lockstep-shim"):
            os.symlink("/bin/false", os.path.join(programs, name))
        there = self.at("there")
        os.mkdir(there, 0o750)
        for path in (self.at("c"), there):
            said = subprocess.run([os.path.join(programs, "lockstep"), "up", "--dir", path, "--nodes", "2", "--gpus", "8xh100"],
                                  env=self.env, capture_output=True, text=True, timeout=120)
            self.assertEqual(said.returncode, 1)
            self.assertIn("libnvidia-ml.so.1 is missing", said.stderr)
            for words in ((), ("--delete",)):
                down = self.lockstep("down", "--dir", path, *words)
                self.assertEqual((down.returncode, down.stdout), (1, ""))
                self.assertIn(f"there is no cluster in {path}", down.stderr)
        self.assertFalse(os.path.exists(self.at("c")))
        self.assertEqual((os.listdir(there), os.stat(there).st_mode & 0o7777), ([], 0o750))

    def test_two_at_once(self):
        """One of them makes the cluster, the other finds it; with other settings it is told so. `down` waits for its turn."""
        path = self.at("both")
        for second in ("2", "1"):
            runs = [subprocess.Popen([os.path.join(BIN, "lockstep"), "up", "--dir", path, "--nodes", nodes, "--cpus", "1"], env=self.env,
                                     stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) for nodes in ("2", second)]
            said = [run.communicate(timeout=120) for run in runs]
            self.assertEqual(sorted(run.returncode for run in runs), [0, 0] if second == "2" else [0, 1], said)
            self.assertEqual(sum("is up: " in out for out, _ in said), 1)
            self.assertIn("is already up" if second == "2" else "already holds cluster", str(said))
            stops = [subprocess.Popen([os.path.join(BIN, "lockstep"), "down", "--dir", path, "--delete"], env=self.env,
                                      stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) for _ in range(2)]
            said = [stop.communicate(timeout=120) for stop in stops]
            self.assertIn(0, [stop.returncode for stop in stops], said)
            self.assertFalse(os.path.exists(path), said)

    def test_an_up_that_was_killed_as_it_began(self):
        """Whenever that was: the next one goes on, and `down --delete` leaves nothing."""
        path = self.at("half")
        for tenths in range(0, 12):
            with self.subTest(tenths=tenths):
                begun = subprocess.Popen([os.path.join(BIN, "lockstep"), "up", "--dir", path, "--nodes", "2", "--cpus", "2"], env=self.env,
                                         stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
                time.sleep(0.05 * tenths)
                begun.kill()
                begun.wait()
                if os.path.isdir(path) and not os.listdir(path):
                    os.rmdir(path)  # it had no time to note that it made it
                if tenths % 2:
                    said = self.up(path, "--nodes", "2", "--cpus", "2")
                    self.assertEqual(said.returncode, 0, said.stderr)
                is_marked = os.path.exists(os.path.join(path, "lockstep.id"))
                said = self.lockstep("down", "--dir", path, "--delete")
                if is_marked:
                    self.assertEqual((said.returncode, os.path.exists(path)), (0, False), said.stderr)
                left = subprocess.run(["ps", "-e", "-o", "stat=,args="], capture_output=True, text=True).stdout.split("\n")
                self.assertEqual([line for line in left if path in line and not line.startswith("Z")], [])


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

    def test_one_that_ends_while_we_look_is_no_strangers(self):
        """A `down` was killed: what it told to end may still be about to, and shows nothing of itself."""
        self.assertEqual(self.lockstep("down", "--dir", self.c.dir).returncode, 0)
        program = os.path.join(self.c.home, "lockstep")
        shutil.copy("/bin/sleep", program)
        ending = subprocess.Popen([program, "1000"], env={})
        with open(f"/proc/{ending.pid}/stat") as f:
            ticks = f.read().rsplit(")", 1)[1].split()[19]
        with open(os.path.join(self.c.dir, "nodes", "n1", "init.pid"), "w") as f:
            f.write(f"{ending.pid} {ticks}\n")
        down = subprocess.Popen([os.path.join(BIN, "lockstep"), "down", "--dir", self.c.dir], env=self.c.env, stdout=subprocess.PIPE,
                                stderr=subprocess.PIPE, text=True)
        held = f"grep -qs '^Pid:.{ending.pid}$' /proc/{down.pid}/fdinfo/*"
        eventually(lambda: down.poll() is not None or subprocess.run(held, shell=True).returncode == 0, what="it looks at the process")
        ending.kill()
        ending.wait()
        _, err = down.communicate(timeout=60)
        self.assertEqual((down.returncode, err), (0, ""))

    def test_a_directory_that_was_removed(self):
        for how in ("whole", "what is in it"):
            with self.subTest(how):
                job = self.c.wrap(f"sleep 600; : {self.c.home}")
                self.c.wait(job, "RUNNING")
                shutil.rmtree(self.c.dir)
                if how != "whole":
                    os.mkdir(self.c.dir)
                self.assertIn("was removed while its cluster runs", self.lockstep("status", "--dir", self.c.dir).stderr)
                self.assertEqual(self.lockstep("up", "--dir", self.c.dir).returncode, 1)
                above = self.lockstep("down", "--dir", self.c.home)
                self.assertIn("there is no cluster", above.stderr, "one that lies below is another")
                done = self.lockstep("down", "--dir", self.c.dir)
                self.assertEqual(done.returncode, 0, done.stderr)
                left = subprocess.run(["ps", "-e", "-o", "stat=,args="], capture_output=True, text=True).stdout.split("\n")
                self.assertEqual([line for line in left if self.c.home in line and not line.startswith("Z")], [])
                self.c.up()

    def test_a_stopped_controller_is_named(self):
        pid = self.c.controller_pid()
        send(pid, signal.SIGSTOP)
        try:
            for verb in ("status", "up"):
                child = subprocess.Popen(["lockstep", verb, "--dir", self.c.dir], env=self.c.env, stdout=subprocess.PIPE,
                                         stderr=subprocess.PIPE, text=True)
                line = child.stderr.readline()
                self.assertIsNone(child.poll(), "it is told while one waits, not afterwards")
                self.assertIn(f"process {pid} is stopped; `kill -CONT {pid}`", line)
                send(pid, signal.SIGCONT)
                child.communicate(timeout=30)
                self.assertEqual(child.returncode, 0)
                send(pid, signal.SIGSTOP)
            self.assertEqual(self.lockstep("down", "--dir", self.c.dir).returncode, 0)
            with open(os.path.join(self.c.dir, "log", "controller.log")) as f:
                self.assertTrue(f.read().rstrip().endswith("lockstepd: ending"), "it ended by itself, it was not killed")
        finally:
            if running(pid):
                send(pid, signal.SIGCONT)

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
            self.assertEqual(sorted(os.listdir(c.dir)), ["lockstep.dir", "lockstep.id", "work"])
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
