"""Damaged files of a cluster: whatever lies in their places, `up`, `status` and `down` say what is wrong and what to do."""
import json
import os
import re
import shutil
import signal
import stat
import subprocess
import time
import unittest

from cluster import Cluster, eventually, running, send

USER = 1001


def empty(path):
    open(path, "wb").close()


def truncated(path):
    os.truncate(path, max(1, os.path.getsize(path) * 2 // 3))


def flipped(path):
    with open(path, "r+b") as f:
        f.seek(min(70, os.path.getsize(path) - 2))
        byte = f.read(1)[0]
        f.seek(-1, os.SEEK_CUR)
        f.write(bytes([byte ^ 4]))


def garbage(path):
    with open(path, "wb") as f:
        f.write(bytes(range(7, 250)) * 40)


def directory(path):
    os.unlink(path)
    os.mkdir(path)


def missing(path):
    os.unlink(path)


DAMAGES = (empty, truncated, flipped, garbage, directory, missing)


class DamagedFiles(unittest.TestCase):
    def setUp(self):
        self.c = Cluster(nodes=1, gpus=None, cpus=4)
        self.addCleanup(self.c.down)

    def lockstep(self, verb, *more):
        return self.c.run("lockstep", verb, "--dir", self.c.dir, *more, timeout=120)

    def path(self, name):
        return os.path.join(self.c.dir, name)

    def processes(self):
        status = self.c.status()
        return [p for p in (status["controller"]["pid"], status["controller"].get("supervisor_pid"),
                            *(n["pid"] for n in status["nodes"]), *(n["agent_pid"] for n in status["nodes"])) if p]

    def assert_down(self, pids):
        self.assertEqual([p for p in pids if running(p)], [])
        self.assertEqual(self.links(), [])

    def links(self):
        """Interfaces with this cluster's name for its bridge."""
        with open(self.path("cluster.conf.good")) as f:
            bridge = re.search(r"^bridge=(\w+)", f.read(), re.M).group(1)
        out = subprocess.run(["ip", "-o", "link"], capture_output=True, text=True, check=True).stdout
        return [line for line in out.splitlines() if bridge in line]

    def keep(self, name):
        shutil.copy(self.path(name), self.path(name + ".good"))

    def put_back(self, name):
        path = self.path(name)
        if os.path.isdir(path):
            os.rmdir(path)
        with open(self.path(name + ".good"), "rb") as good:
            bytes_ = good.read()
        if os.path.exists(path):  # the same file: what belongs to it belongs to its inode
            with open(path, "wb") as f:
                f.write(bytes_)
        else:
            with open(path, "wb") as f:
                f.write(bytes_)
            os.chmod(path, 0o600)

    def test_settings_and_mark(self):
        """Each is damaged while the cluster runs: it is told, and stopped all the same; and then started, or told how."""
        self.c.up()
        self.keep("cluster.conf")
        for damage in DAMAGES:
            for names in (("cluster.conf",), ("cluster.conf", "cluster.conf.copy"), ("lockstep.id",)):
                with self.subTest(damage=damage.__name__, names=names):
                    pids = self.processes()
                    self.assertEqual(len(pids), 4)
                    self.keep("lockstep.id")
                    for name in names:
                        damage(self.path(name))
                    first = self.path(names[0])
                    told = self.lockstep("status")
                    if damage is not missing or names[0] == "lockstep.id" or len(names) == 2:
                        self.assertRegex(told.stdout, rf"notice +.*{re.escape(first)}")
                    self.assertEqual(told.returncode, 0, "the controller answers all the same")
                    stopped = self.lockstep("down")
                    self.assertEqual(stopped.returncode, 0, stopped.stderr)
                    self.assertIn(first, stopped.stderr, "it says which file")
                    self.assert_down(pids)
                    if names != ("cluster.conf",) and damage is not missing:
                        refused = self.lockstep("up")
                        self.assertEqual(refused.returncode, 1)
                        self.assertIn(f"{first}", refused.stderr)
                        self.assertRegex(refused.stderr, "remove|Restore", "what to do next")
                    if len(names) == 2:
                        for name in names:
                            shutil.rmtree(self.path(name)) if damage is directory else damage is missing or os.unlink(self.path(name))
                        self.c.up()  # with the options it was made with, as the message says
                    elif names == ("lockstep.id",):
                        if os.path.isdir(first):
                            os.rmdir(first)
                        elif os.path.exists(first):
                            os.unlink(first)
                        self.c.up()
                    else:
                        self.c.ok("lockstep", "up", "--dir", self.c.dir, timeout=120)
                    self.assertEqual(self.c.wait(self.c.wrap("true")), "COMPLETED")
                    self.keep("cluster.conf")
        pids = self.processes()
        self.c.ok("lockstep", "down", "--dir", self.c.dir)
        self.assert_down(pids)

    def said_by(self, child, name, waits):
        """What it said at its end. `up` waits a minute for a node whose agent cannot start: that is left as soon as the
        node's note says what keeps it."""
        try:
            return "".join(child.communicate(timeout=1)) + " "
        except subprocess.TimeoutExpired:
            if not waits or name not in (end := self.c.status()["nodes"][0].get("agent_last_end", "")):
                return None
        child.kill()
        child.communicate()
        return end

    def test_a_mark_that_cannot_be_read_is_no_dead_end(self):
        """Nothing runs, so nobody knows whose the directory is: `up` names `down`, and that says what to do."""
        self.c.up()
        self.c.ok("lockstep", "down", "--dir", self.c.dir)
        mark = self.path("lockstep.id")
        for damage in (os.mkfifo, os.mkdir, garbage):
            with self.subTest(damage=damage.__name__):
                subprocess.run(["rm", "-r", mark], check=True)
                damage(mark)
                refused = self.lockstep("up")
                self.assertEqual(refused.returncode, 1)
                self.assertIn("lockstep down", refused.stderr)
                stopped = self.lockstep("down")
                self.assertEqual(stopped.returncode, 0, stopped.stderr)
                self.assertIn(f"nothing runs for {self.c.dir}", stopped.stderr)
                self.assertIn(f"rm -r {mark}", stopped.stderr)
                refused = self.lockstep("down", "--delete")
                self.assertEqual(refused.returncode, 1)
                self.assertIn(f"nothing was deleted: nothing runs for {self.c.dir}", refused.stderr)
                self.assertIn(f"rm -r {mark}", refused.stderr)
                self.assertTrue(os.path.exists(self.path("lockstep.db")), "nobody knows that it is ours")
                subprocess.run(["rm", "-r", mark], check=True)
                self.c.up()
                self.assertEqual(self.c.wait(self.c.wrap("true")), "COMPLETED")
                self.c.ok("lockstep", "down", "--dir", self.c.dir)

    def test_a_lost_authority_is_told_with_what_to_do(self):
        self.c.up()
        notices = lambda: " ".join(line for line in self.lockstep("status").stdout.splitlines() if line.startswith("notice"))
        self.assertEqual(notices(), "")
        os.rename(self.path("pki"), self.path("pki.aside"))
        self.assertIn("pki/ca.pem is missing", notices())
        self.assertIn("pki/ca.pem is missing", self.lockstep("up").stderr)
        os.rename(self.path("pki.aside"), self.path("pki"))
        self.assertEqual(notices(), "")
        shutil.rmtree(self.path("pki"))
        self.c.kill_controller(hold=False)
        eventually(self.c.answers, 60, "a new controller")
        self.assertIn("has a new CA since this start", notices())
        self.assertIn("node n1 runs without a certificate of this cluster's CA", notices())
        self.c.ok("lockstep", "down", "--dir", self.c.dir)
        self.c.up()
        self.assertEqual(self.c.wait(self.c.wrap("true")), "COMPLETED")
        self.assertEqual(notices(), "")

    def test_a_fifo_in_the_place_of_a_file_holds_nobody_up(self):
        """Whatever of ours it is: the cluster is started, or refused with the file's name."""
        self.c.up()
        self.c.ok("lockstep", "down", "--dir", self.c.dir)
        names = ["cluster.conf", "lockstep.id", "lockstep.tip", "controller.run", "applying", "applying.list", "lock",
                 "lockstep.db", "history.db", "public/ca.pem", "pki/ca.pem", "pki/ca.key", "log/controller.log"]
        names += ["nodes/n1/" + name for name in ("agent.json", "agent.run", "boot_id", "init.pid", "log", "state/journal", "state/lock")]
        for name in names:
            with self.subTest(name=name):
                path, aside = self.path(name), self.path(name) + ".aside"
                if os.path.exists(path):
                    os.rename(path, aside)
                os.mkfifo(path, 0o600)
                for verb in ("up", "status", "down"):
                    child = subprocess.Popen(["lockstep", verb, "--dir", self.c.dir], env=self.c.env, text=True,
                                             stdout=subprocess.PIPE, stderr=subprocess.PIPE)
                    waits = verb == "up" and name.startswith("nodes/")
                    said = eventually(lambda: self.said_by(child, os.path.basename(name), waits), what=f"{verb} with {name}")
                    if child.returncode not in (0, 3):
                        self.assertIn(os.path.basename(name), said, verb)
                if os.path.lexists(path) and stat.S_ISFIFO(os.lstat(path).st_mode):
                    os.unlink(path)
                if os.path.exists(aside):
                    os.rename(aside, path)
                self.c.run("lockstep", "down", "--dir", self.c.dir)
        self.c.up()
        self.assertEqual(self.c.wait(self.c.wrap("true")), "COMPLETED")

    def test_notes_of_what_runs(self):
        self.c.up()
        self.keep("cluster.conf")
        for damage in (empty, truncated, garbage, missing):
            with self.subTest(damage=damage.__name__):
                pids = self.processes()
                for name in ("controller.run", "nodes/n1/init.pid"):
                    damage(self.path(name))
                told = self.lockstep("status")
                self.assertEqual(told.returncode, 0)
                if damage in (empty, garbage):  # two thirds of it are the note and some of its padding
                    self.assertIn(f"{self.path('controller.run')} is damaged", told.stdout)
                stopped = self.lockstep("down")
                self.assertEqual(stopped.returncode, 0, stopped.stderr)
                self.assert_down(pids)
                self.c.up()
                self.assertEqual(self.c.wait(self.c.wrap("true")), "COMPLETED")

    def test_accounting_keeps_nobody_from_starting(self):
        self.c.up()
        for damage in (*DAMAGES, None):
            with self.subTest(damage=damage):
                job = self.c.wrap("true")
                self.assertEqual(self.c.wait(job), "COMPLETED")
                eventually(lambda: job in self.c.run("sacct", "-n", "-X", "-o", "jobid").stdout.split(), 15, "it is accounted")
                self.c.ok("lockstep", "down", "--dir", self.c.dir)
                path = self.path("history.db")
                for rest in ("-wal", "-shm"):
                    if os.path.exists(path + rest):
                        os.unlink(path + rest)
                if damage:
                    damage(path)
                else:  # the first page of a table
                    with open(path, "r+b") as f:
                        f.seek(4096)
                        f.write(b"\xff" * 2000)
                self.c.up()
                told = self.lockstep("status")
                self.assertEqual(told.returncode, 0)
                self.assertRegex(told.stdout, r"notice +.*(accounting|history\.db).*made anew", damage)
                self.assertIn(job, eventually(lambda: self.c.run("sacct", "-n", "-X", "-o", "jobid").stdout.split(), 15),
                              "as far back as the log reaches")
        self.assertTrue([n for n in os.listdir(self.c.dir) if n.startswith("history.db.damaged-")], "the old ones are kept")

    def test_the_log_is_refused_and_named(self):
        self.c.up()
        self.c.wrap("true", "--hold")
        self.c.ok("lockstep", "down", "--dir", self.c.dir)
        self.keep("lockstep.db")
        for damage in DAMAGES:
            with self.subTest(damage=damage.__name__):
                for rest in ("-wal", "-shm"):
                    if os.path.exists(self.path("lockstep.db") + rest):
                        os.unlink(self.path("lockstep.db") + rest)
                damage(self.path("lockstep.db"))
                refused = self.lockstep("up")
                self.assertEqual(refused.returncode, 1, refused.stdout)
                self.assertIn(self.path("lockstep.db"), refused.stderr)
                self.assertRegex(refused.stderr, "restore it", "what to do next")
                told = self.lockstep("status")
                self.assertEqual(told.returncode, 3)
                self.assertIn("jobs        not known", told.stdout)
                self.assertNotIn("none", told.stdout)
                self.assertEqual(self.lockstep("down").returncode, 0)
                for rest in ("-wal", "-shm"):
                    if os.path.exists(self.path("lockstep.db") + rest):
                        os.unlink(self.path("lockstep.db") + rest)
                self.put_back("lockstep.db")
        self.c.up()

    def test_a_log_without_its_tip(self):
        self.c.up()
        for damage in (missing, flipped, empty, truncated):
            with self.subTest(damage=damage.__name__):
                self.c.ok("lockstep", "down", "--dir", self.c.dir)
                path = self.path("lockstep.tip")
                if damage is flipped:
                    with open(path, "r+b") as f:
                        f.seek(9)
                        f.write(b"\x77")
                else:
                    damage(path)
                self.c.up()
                what = "is missing" if damage is missing else "is damaged"
                self.assertIn("lockstep.tip " + what, self.lockstep("status").stdout)
                self.assertIn("lockstep.tip " + what, self.c.log_tail(100))
                self.c.ok("lockstep", "down", "--dir", self.c.dir)
                self.c.up()
                self.assertNotIn("notice", self.lockstep("status").stdout, "it has one again")

    def test_after_an_accepted_loss_no_id_is_given_out_again(self):
        self.c.up()
        kept = self.c.wrap("true", "--hold")
        self.c.ok("lockstep", "down", "--dir", self.c.dir)
        shutil.copy(self.path("lockstep.db"), self.path("older.db"))
        self.c.up()
        lost = [self.c.wrap("true", "--hold") for _ in range(5)]
        eventually(lambda: lost[-1] in self.c.run("sacct", "-n", "-X", "-o", "jobid").stdout.split(), 15, "accounting has it")
        late = self.c.wrap("true", "--hold")  # accounting may or may not
        self.c.kill_controller(hold=True)
        self.c.release_controller()
        self.lockstep("down")
        for name in ("lockstep.db-wal", "lockstep.db-shm"):
            if os.path.exists(self.path(name)):
                os.unlink(self.path(name))
        shutil.copy(self.path("older.db"), self.path("lockstep.db"))
        refused = self.lockstep("up")
        self.assertEqual(refused.returncode, 1)
        self.assertIn("lockstep.accept-loss", refused.stderr)
        self.lockstep("down")
        open(self.path("lockstep.accept-loss"), "w").close()
        self.c.up()
        told = self.lockstep("status").stdout
        self.assertRegex(told, r"notice +.*are lost, which was accepted")
        self.assertRegex(told, r"notice +.*LostFromLog")
        self.assertEqual(self.c.state(kept), "PENDING")
        fresh = self.c.wrap("true", "--hold")
        self.assertGreater(int(fresh), int(late), "an id was given out twice")
        rows = dict(line.split("|")[:2] for line in self.c.ok("sacct", "-n", "-X", "-P", "-o", "jobid,state").splitlines())
        for job in lost:
            self.assertIn("CANCELLED", rows[job], "it is not waiting any more")
        self.assertEqual(rows[kept], "PENDING")


class NodesState(unittest.TestCase):
    """What a node keeps of its jobs is lost or damaged while they run: nothing runs twice, and nothing is given out twice."""

    SCRIPT = r"""#!/bin/sh
srun sh -c 'exec 9>"lock-$SLURM_PROCID"; flock -n 9 || echo "$SLURM_PROCID" >>twice
echo $$ >>"started-$SLURM_PROCID"; while [ ! -e go ]; do sleep 0.1; done'
"""

    def setUp(self):
        self.c = Cluster(nodes=2, gpus="2xh100", cpus=4)
        self.addCleanup(self.c.down)
        self.c.up()
        self.state = os.path.join(self.c.dir, "nodes", "n1", "state")
        self.journal = os.path.join(self.state, "journal")

    def gang(self):
        job = self.c.sbatch("-N2", "--gres=gpu:2", self.c.script(self.SCRIPT))
        for rank in "01":
            eventually(lambda: os.path.exists(os.path.join(self.c.work, "started-" + rank)), 60, "the gang runs")
        return job

    def without_agent(self, deed):
        """Does it while n1 has no agent; another one is up again when this returns."""
        node = self.c.node("n1")
        os.kill(node["pid"], signal.SIGSTOP)
        send(node["agent_pid"])
        while running(node["agent_pid"]):
            time.sleep(0.01)
        try:
            deed(f"/proc/{node['pid']}/root/run/lockstep-agent")
        finally:
            os.kill(node["pid"], signal.SIGCONT)
        eventually(lambda: self.c.node("n1")["agent_pid"] not in (0, node["agent_pid"]), 60, "another agent")

    def reason(self):
        return self.c.node("n1")["reason"]

    def count(self, name):
        path = os.path.join(self.c.work, name)
        if not os.path.exists(path):
            return 0
        with open(path) as f:
            return len(f.readlines())

    def test_a_lost_or_damaged_journal_starts_nothing_twice(self):
        before = os.path.join(self.c.home, "older-journal")
        shutil.copy(self.journal, before)
        job = self.gang()
        waiting = self.c.wrap("true", "-N2", "--gres=gpu:2")
        damages = {d.__name__: (lambda path, d=d: d(path)) for d in (empty, truncated, flipped, garbage, missing)}
        damages["older"] = lambda path: shutil.copy(before, path)
        for name, damage in damages.items():
            with self.subTest(damage=name):
                self.without_agent(lambda run: damage(self.journal))
                eventually(lambda: self.journal in self.reason(), 60, "the damage is named")
                self.assertIn("journal", self.c.log_tail(200))
                self.assertEqual(self.c.state(job), "RUNNING")
                self.assertEqual(self.c.state(waiting), "PENDING", "its GPUs are in use")
        with self.subTest(damage="while the agent runs"):
            os.unlink(self.journal)
            self.c.ok("srun", "--overlap", f"--jobid={job}", "-N1", "-w", "n1", "true", timeout=60)
            eventually(lambda: os.path.exists(self.journal), 30, "it is written anew")
            self.without_agent(lambda run: None)
            eventually(lambda: self.c.run("srun", "--overlap", f"--jobid={job}", "-N1", "-w", "n1", "true").returncode == 0, 60)
        with self.subTest(damage="nothing but the shims is left"):
            def forget(run):
                os.unlink(self.journal)
                for name in ("journal.tip", "lease"):
                    os.unlink(os.path.join(run, name))
            self.without_agent(forget)
            eventually(lambda: self.journal in self.reason(), 60, "the damage is named")
        self.assertEqual(self.c.state(job), "RUNNING")
        self.assertEqual([self.count("started-0"), self.count("started-1"), self.count("twice")], [1, 1, 0])
        open(os.path.join(self.c.work, "go"), "w").close()
        self.assertEqual(self.c.wait(job), "COMPLETED")
        self.assertEqual(self.c.wait(waiting), "COMPLETED")

    def test_work_whose_files_are_gone_is_ended_before_it_runs_again(self):
        job = self.gang()

        def forget(run):
            os.unlink(self.journal)
            shutil.rmtree(run)
            os.mkdir(run, 0o711)

        self.without_agent(forget)
        for rank in "01":
            eventually(lambda: self.count("started-" + rank) == 2, 90, "it runs again")
        self.assertEqual(self.count("twice"), 0, "while the first still ran")
        self.assertIn("were ended and are reported as lost", self.reason())
        open(os.path.join(self.c.work, "go"), "w").close()
        self.assertEqual(self.c.wait(job), "COMPLETED")
        self.assertEqual(self.c.show(job)["Restarts"], "1")

    def test_a_full_disk_takes_no_work_and_says_so(self):
        self.c.ok("lockstep", "down", "--dir", self.c.dir)
        subprocess.run(["mount", "-t", "tmpfs", "-o", "size=4m", "tmpfs", self.state], check=True)
        self.addCleanup(subprocess.run, ["umount", "-l", self.state], check=False)
        self.c.up()
        filler = os.path.join(self.state, "filler")

        def fill(run):
            os.truncate(self.journal, os.path.getsize(self.journal))  # what was set aside
            with open(filler, "wb", buffering=0) as f:
                try:
                    while True:
                        f.write(bytes(4096))
                except OSError:
                    pass

        self.without_agent(fill)
        eventually(lambda: "is full" in self.reason(), 60, "the node says so")
        self.assertIn("drain", self.c.node("n1")["state"])
        job = self.c.wrap("hostname", "-w", "n1")
        other = self.c.wrap("hostname", "-w", "n2")
        self.assertEqual(self.c.wait(other), "COMPLETED")
        self.assertEqual(self.c.state(job), "PENDING", "it is not lost, and does not hang")
        os.unlink(filler)
        self.assertEqual(self.c.wait(job), "COMPLETED")
        self.assertNotIn("is full", self.reason())

    def test_a_full_place_for_shims_takes_no_work_and_says_so(self):
        """A node's /run is small and in memory."""
        pid = str(self.c.node("n1")["pid"])
        in_node = ["nsenter", "--target", pid, "--mount"]
        subprocess.run([*in_node, "mount", "-o", "remount,size=16m", "/run"], check=True)
        filled = subprocess.run([*in_node, "dd", "if=/dev/zero", "of=/run/filler", "bs=1M"], capture_output=True, text=True)
        self.assertIn("No space left", filled.stderr)
        eventually(lambda: "is full" in self.reason(), 60, "the node says so")
        self.assertIn("/run/lockstep-agent", self.reason())
        job = self.c.wrap("hostname", "-w", "n1")
        other = self.c.wrap("hostname")
        self.assertEqual(self.c.wait(other), "COMPLETED")
        self.assertEqual(self.c.state(job), "PENDING", "it is not lost, and does not hang")
        subprocess.run([*in_node, "rm", "/run/filler"], check=True)
        self.assertEqual(self.c.wait(job), "COMPLETED")
        self.assertNotIn("is full", self.reason())

    def test_lost_certificates_are_named_in_the_status(self):
        pki = os.path.join(self.c.dir, "nodes", "n1", "pki")
        for name in sorted(os.listdir(pki)):
            with self.subTest(name=name):
                path = os.path.join(pki, name)
                os.rename(path, path + ".aside")
                self.addCleanup(lambda: os.path.exists(path + ".aside") and os.rename(path + ".aside", path))
                self.assertIn("node n1 runs without a certificate", self.c.run("lockstep", "status").stdout)
                before = self.c.node("n1")
                send(before["agent_pid"])

                def told():  # of an end after this one: what is told may be of the file before
                    node = self.c.node("n1")
                    said = node["agent_last_end"]
                    is_new = node["agent_ends"] > before["agent_ends"] + 1
                    return is_new and name in said and f"or `lockstep down --dir {self.c.dir}` and" in said

                eventually(told, 60, "the status names it, as the notice does")
                os.rename(path + ".aside", path)
                eventually(lambda: self.c.run("srun", "-w", "n1", "true").returncode == 0, 90, "it is back")

    def test_what_is_no_file_of_gpus_holds_no_agent_up(self):
        gpus = os.path.join(self.c.dir, "nodes", "n1", "gpus")
        os.rename(gpus, gpus + ".aside")
        os.mkfifo(gpus)
        self.without_agent(lambda run: None)
        self.c.ok("srun", "-w", "n1", "true", timeout=60)
        self.assertIn("gpus is no regular file", self.c.log_tail(200))


class PutBack(unittest.TestCase):
    """The log was put back from a backup, while the nodes went on."""

    def setUp(self):
        self.c = Cluster(nodes=1, gpus=None, cpus=4)
        self.addCleanup(self.c.down)
        self.c.up()

    def path(self, name):
        return os.path.join(self.c.dir, name)

    def copy(self, names, to, back=False):
        os.makedirs(to, exist_ok=True)
        for name in names:
            for ending in ("", "-wal", "-shm") if name.endswith(".db") else ("",):
                source, target = os.path.join(to, name + ending), self.path(name + ending)
                if not back:
                    source, target = target, source
                if os.path.exists(target):
                    os.unlink(target)
                if os.path.exists(source):
                    shutil.copy(source, target)

    def notices(self):
        return self.c.run("lockstep", "status", "--dir", self.c.dir).stdout

    LOG = ("lockstep.db", "lockstep.tip")
    ALL = LOG + ("history.db",)

    def backup(self, names):
        self.c.kill_controller(hold=True)
        self.copy(names, os.path.join(self.c.home, "backup"))
        self.c.release_controller()
        eventually(self.c.answers)

    def put_back(self, names):
        self.c.kill_controller(hold=True)
        self.copy(names, os.path.join(self.c.home, "backup"), back=True)
        self.c.release_controller()
        eventually(self.c.answers)

    def there(self, name):
        return os.path.exists(os.path.join(self.c.work, name))

    def make(self, name):
        open(os.path.join(self.c.work, name), "w").close()

    def rows(self, *jobs):
        """What accounting has of every run of these jobs: (id, state, reason)."""
        text = self.c.ok("sacct", "-n", "-P", "-D", "-j", ",".join(jobs), "-o", "jobid,state,reason")
        return [tuple(line.split("|")) for line in text.splitlines()]

    def test_steps_of_a_job_that_goes_on_get_numbers_of_their_own(self):
        for names in (self.LOG, self.ALL):
            with self.subTest(names=names):
                for name in os.listdir(self.c.work):
                    os.unlink(os.path.join(self.c.work, name))
                job = self.c.sbatch(self.c.script(
                    "#!/bin/sh\nfor n in 1 2; do\n  while [ ! -e go-$n ]; do sleep 0.1; done\n"
                    "  for i in 1 2 3; do srun sh -c 'echo $SLURM_STEP_ID >>steps'; done\n  touch done-$n\ndone\n"
                    "while [ ! -e end ]; do sleep 0.1; done\n"))
                self.c.wait(job, "RUNNING")
                self.backup(names)
                self.make("go-1")
                eventually(lambda: (f"{job}.2", "COMPLETED") in [row[:2] for row in self.rows(job)],
                           what="steps before the backup is put back, in accounting")
                self.put_back(names)
                self.make("go-2")
                eventually(lambda: self.there("done-2"), what="steps after it")
                self.c.ok("srun", "--jobid", job, "--overlap", "sh", "-c", "echo $SLURM_STEP_ID >>steps")
                with open(os.path.join(self.c.work, "steps")) as f:
                    self.assertEqual(f.read().split(), [str(n) for n in range(7)])
                self.make("end")
                self.assertEqual(self.c.wait(job), "COMPLETED")
                wanted = range(7) if names == self.LOG else range(3, 7)
                eventually(lambda: self.rows(job)[0][1] == "COMPLETED")
                self.assertEqual([row[:2] for row in self.rows(job)][2:], [(f"{job}.{n}", "COMPLETED") for n in wanted])

    def test_a_step_made_before_its_node_could_say_what_it_had_does_not_hang(self):
        job = self.c.wrap("while [ ! -e end ]; do sleep 0.1; done")
        self.c.wait(job, "RUNNING")
        self.backup(self.ALL)
        for _ in range(3):
            self.c.ok("srun", "--jobid", job, "--overlap", "true")
        agent = self.c.status()["nodes"][0]["agent_pid"]
        send(agent, signal.SIGSTOP)
        try:
            self.put_back(self.ALL)
            srun = subprocess.Popen(["srun", "--jobid", job, "--overlap", "true"], env=self.c.env, cwd=self.c.work,
                                    stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
            self.addCleanup(srun.kill)
            eventually(lambda: f"{job}.0" in self.c.run("squeue", "-h", "-s", "-o", "%i").stdout.split(), what="a step")
        finally:
            send(agent, signal.SIGCONT)
        said = srun.communicate(timeout=120)
        self.assertNotEqual(srun.returncode, 0, said)
        self.c.ok("srun", "--jobid", job, "--overlap", "true")
        self.make("end")
        self.assertEqual(self.c.wait(job), "COMPLETED")

    def test_accounting_keeps_what_ran_meanwhile(self):
        name = {}
        script = "while [ ! -e end-$SLURM_JOB_NAME ]; do sleep 0.1; done"
        name["over"] = self.c.wrap(script, "-J", "over", "--no-requeue")
        self.c.wait(name["over"], "RUNNING")
        for job in ("first", "open"):
            name[job] = self.c.wrap(script, "-J", job, "--hold", "--no-requeue")
        self.backup(self.LOG)
        self.make("end-over")
        self.assertEqual(self.c.wait(name["over"]), "COMPLETED")
        for job in ("first", "open"):
            self.c.ok("scontrol", "release", name[job])
            self.c.wait(name[job], "RUNNING")
        self.make("end-first")
        self.assertEqual(self.c.wait(name["first"]), "COMPLETED")
        srun = subprocess.Popen(["srun", "--jobid", name["open"], "--overlap", "sleep", "600"], env=self.c.env, cwd=self.c.work,
                                stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        self.addCleanup(srun.kill)
        eventually(lambda: (f"{name['open']}.0", "RUNNING") in [row[:2] for row in self.rows(name["open"])], what="a step")

        self.put_back(self.LOG)
        srun.wait(timeout=120)
        self.c.wait(name["over"], "NODE_FAIL")  # the log has it running, and nobody knows of it
        self.make("end-open")
        for job in ("first", "open"):
            self.assertEqual(self.c.state(name[job]), "PENDING")
            self.c.ok("scontrol", "release", name[job])
            self.assertEqual(self.c.wait(name[job]), "COMPLETED")
        runs = lambda job: [row for row in self.rows(name[job]) if row[0] == name[job]]
        eventually(lambda: len(runs("open")) == 2 and runs("open")[1][1] == "COMPLETED", what=f"accounting: {runs('open')}")
        self.assertEqual([row[1] for row in runs("over")], ["COMPLETED"])
        self.assertEqual([row[1] for row in runs("first")], ["COMPLETED", "COMPLETED"])
        self.assertEqual(runs("open")[0][1:], ("NODE_FAIL", "LostFromLog"))
        self.assertEqual([row[1] for row in self.rows(name["open"]) if row[0] == name["open"] + ".0"], ["CANCELLED"])
        # And a further start finds nothing to change.
        before = self.rows(*name.values())
        self.c.kill_controller(hold=False)
        eventually(self.c.answers)
        self.assertEqual(self.rows(*name.values()), before)

    def test_a_job_whose_id_its_node_has_seen_starts_with_a_number_above(self):
        self.backup(self.ALL)
        used = [self.c.wrap("true") for _ in range(3)]
        for job in used:
            self.assertEqual(self.c.wait(job), "COMPLETED")
        agent = self.c.status()["nodes"][0]["agent_pid"]
        send(agent, signal.SIGSTOP)
        try:
            self.put_back(self.ALL)
            again = self.c.wrap("touch ran-again", "--no-requeue")  # before the node could say what it has seen
            self.assertEqual(again, used[0])
        finally:
            send(agent, signal.SIGCONT)
        self.assertEqual(self.c.wait(again), "COMPLETED")
        self.assertTrue(self.there("ran-again"))

    def test_no_id_is_given_out_twice_and_nothing_hangs(self):
        for names, told in ((("lockstep.db", "lockstep.tip"), "put back from a backup"),
                            (("lockstep.db", "lockstep.tip", "history.db"), "the log ends before job")):
            with self.subTest(names=names):
                backup = os.path.join(self.c.home, f"backup-{len(names)}")
                script = self.c.script("#!/bin/sh\nexec 9>lock-$SLURM_JOB_ID; flock -n 9 || touch twice\n"
                                       "echo >>ran-$SLURM_JOB_ID; [ ! -e long-$SLURM_JOB_ID ] || sleep 600\n")
                ended, runs, waits = (self.c.sbatch("--hold", script) for _ in range(3))
                long = os.path.join(self.c.work, "long-" + runs)
                open(long, "w").close()
                self.c.kill_controller(hold=True)
                self.copy(names, backup)
                self.c.release_controller()
                eventually(self.c.answers)
                for job in (ended, runs):
                    self.c.ok("scontrol", "release", job)
                self.assertEqual(self.c.wait(ended), "COMPLETED")
                eventually(lambda: os.path.exists(os.path.join(self.c.work, "ran-" + runs)), 60)
                later = [self.c.wrap("true") for _ in range(5)]
                for job in later:
                    self.assertEqual(self.c.wait(job), "COMPLETED")
                eventually(lambda: later[-1] in self.c.run("sacct", "-n", "-X", "-o", "jobid").stdout.split(), 30)

                self.c.kill_controller(hold=True)
                self.copy(names, backup, back=True)
                self.c.release_controller()
                eventually(self.c.answers)
                eventually(lambda: told in self.notices(), 60, "it is said")
                self.assertIn(told, self.c.log_tail(300))
                fresh = self.c.wrap("true")
                self.assertGreater(int(fresh), int(later[-1]), "an id was given out twice")
                self.assertEqual(self.c.wait(fresh), "COMPLETED")
                os.unlink(long)
                for job in (ended, runs, waits):
                    self.assertEqual(self.c.state(job), "PENDING")
                    self.c.ok("scontrol", "release", job)
                    self.assertEqual(self.c.wait(job), "COMPLETED", "a start that the node takes for an old one")
                self.assertFalse(os.path.exists(os.path.join(self.c.work, "twice")))
                states = dict(line.split("|")[:2] for line in self.c.ok("sacct", "-n", "-X", "-P", "-o", "jobid,state").splitlines())
                if len(names) == 2:
                    self.assertEqual([states[job] for job in later], ["COMPLETED"] * 5, "accounting has kept what it knew")


class Unreadable(unittest.TestCase):
    """Root reads everything; an ordinary user does not."""

    def test_files_without_any_right(self):
        c = Cluster(nodes=0)
        os.chown(c.home, USER, USER)

        def lockstep(verb):
            return c.run("lockstep", verb, "--dir", c.dir, user=USER, env={"HOME": c.home}, timeout=120)

        try:
            self.assertEqual(lockstep("up").returncode, 0)
            for name in ("cluster.conf", "lockstep.id", "history.db", "lockstep.db", "lockstep.tip", "controller.run"):
                with self.subTest(name=name):
                    path = os.path.join(c.dir, name)
                    pid = c.run("sh", "-c", "lockstep status -o json", user=USER).stdout
                    pid = json.loads(pid)["controller"]["pid"]
                    os.chmod(path, 0)
                    told = lockstep("status")
                    self.assertEqual(told.returncode, 0, told.stderr)
                    if name in ("cluster.conf", "lockstep.id"):
                        self.assertIn(path, told.stdout)
                    stopped = lockstep("down")
                    self.assertEqual(stopped.returncode, 0, stopped.stderr)
                    self.assertFalse(running(pid))
                    os.path.exists(path) and os.chmod(path, 0)
                    started = lockstep("up")
                    if name == "lockstep.id":
                        self.assertEqual(started.returncode, 1)
                        self.assertIn("readable", started.stderr)
                        os.chmod(path, 0o600)
                        started = lockstep("up")
                    self.assertEqual(started.returncode, 0, started.stderr)
                    self.assertNotIn("notice", lockstep("status").stdout)
        finally:
            lockstep("down")
            c.down()


class WhatBelongsToWhom(unittest.TestCase):
    def setUp(self):
        self.c = Cluster(nodes=2, gpus=None, cpus=4)
        self.addCleanup(self.c.down)
        self.c.up()
        with open(os.path.join(self.c.dir, "cluster.conf")) as f:
            self.bridge = re.search(r"^bridge=(\w+)", f.read(), re.M).group(1)

    def lockstep(self, *argv):
        return self.c.run("lockstep", *argv, timeout=120)

    def ip(self, *argv):
        return subprocess.run(["ip", *argv], capture_output=True, text=True)

    def test_a_copy_of_a_stopped_cluster_has_a_network_of_its_own(self):
        self.c.ok("lockstep", "down", "--dir", self.c.dir)
        copy = self.c.dir + "-copy"
        subprocess.run(["cp", "-a", self.c.dir, copy], check=True)
        self.c.up()
        self.assertEqual(self.lockstep("down", "--dir", copy).returncode, 0, "nothing of the copy runs")
        self.assertEqual(self.ip("link", "show", self.bridge).returncode, 0, "the original's bridge was removed")
        self.assertEqual(self.c.wait(self.c.wrap("true", "-N2")), "COMPLETED")
        try:
            started = self.lockstep("up", "--dir", copy)
            self.assertEqual(started.returncode, 0, started.stderr)
            self.assertIn("is another cluster's", started.stderr)
            self.assertEqual(self.c.wait(self.c.wrap("true", "-N2")), "COMPLETED")
            self.assertEqual(self.lockstep("status", "--dir", copy).returncode, 0)
        finally:
            self.lockstep("down", "--dir", copy, "--delete")
        self.assertEqual(self.ip("link", "show", self.bridge).returncode, 0)
        self.assertEqual(self.c.wait(self.c.wrap("true", "-N2")), "COMPLETED")

    def test_up_plugs_missing_cables_in_again(self):
        job = self.c.wrap("sleep 100", "-N2")
        self.c.wait(job, "RUNNING")
        for cut in (["link", "del", self.bridge + "n0"], ["link", "del", self.bridge],
                    ["link", "set", self.bridge + "n1", "nomaster"], ["link", "set", self.bridge, "down"],
                    ["addr", "flush", "dev", self.bridge]):
            with self.subTest(cut=cut):
                done = self.ip(*cut)
                self.assertEqual(done.returncode, 0, done.stderr)
                self.c.ok("lockstep", "up", "--dir", self.c.dir, timeout=120)
                out = self.c.ok("srun", "-N2", "hostname", timeout=60).split()
                self.assertEqual(sorted(out), ["n1", "n2"])
        self.assertEqual(self.c.state(job), "RUNNING")
        self.c.ok("lockstep", "down", "--dir", self.c.dir)
        self.assertNotIn(self.bridge, self.ip("-o", "link").stdout)

    def test_a_takeover_of_a_node_by_a_copied_key_is_named(self):
        """The machine of n2 starts an agent with n1's key."""
        stolen = os.path.join(self.c.home, "stolen")
        shutil.copytree(os.path.join(self.c.dir, "nodes", "n1", "pki"), stolen)
        with open(os.path.join(self.c.dir, "nodes", "n1", "agent.json")) as f:
            settings = json.load(f)
        for name in ("ca", "certificate", "key"):
            settings[name] = os.path.join(stolen, os.path.basename(settings[name]))
        settings.update(state_dir=os.path.join(stolen, "state"), run_dir=os.path.join(stolen, "run"),
                        socket=os.path.join(stolen, "api.sock"), address="", peer_port=0)
        path = os.path.join(stolen, "agent.json")
        with open(path, "w") as f:
            json.dump(settings, f)
        os.chmod(path, 0o600)
        addresses = {n["name"]: n["address"] for n in self.c.status()["nodes"]}
        thief = subprocess.Popen(["nsenter", "--target", str(self.c.node("n2")["pid"]), "--net", "lockstep-agent",
                                  "--settings", path], env=self.c.env, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            told = eventually(lambda: [line for line in self.lockstep("status", "--dir", self.c.dir).stdout.splitlines()
                                       if "has taken over from" in line], 30, "a notice")
            self.assertIn(addresses["n1"], told[0])
            self.assertIn(addresses["n2"], told[0])
            self.assertIn("lockstep node revoke n1", told[0])
            self.assertIn("has taken over from", self.c.log_tail(100))
        finally:
            thief.kill()
            thief.wait()

    def test_delete_leaves_what_lies_below_its_folders(self):
        mine = os.path.join(self.c.dir, "nodes", "n1", "results.txt")
        with open(mine, "w") as f:
            f.write("mine")
        said = self.c.ok("lockstep", "down", "--delete", "--dir", self.c.dir)
        self.assertIn("nodes/n1/results.txt", said)
        with open(mine) as f:
            self.assertEqual(f.read(), "mine")
        self.assertEqual(sorted(os.listdir(self.c.dir)), ["lockstep.dir", "lockstep.id", "nodes"])
        self.assertEqual(os.listdir(os.path.join(self.c.dir, "nodes")), ["n1"])


class TheShellThatRanUp(unittest.TestCase):
    def test_its_hard_limit_of_file_sizes_is_a_full_disk(self):
        """An ordinary user's cluster cannot raise it: controller and agent live on, and say what they cannot write."""
        c = Cluster(nodes=0)
        os.chown(c.home, USER, USER)

        def lockstep(*argv):
            return c.run("lockstep", *argv, "--dir", c.dir, user=USER, env={"HOME": c.home}, timeout=100)

        try:
            self.assertEqual(lockstep("up").returncode, 0)
            lockstep("down")
            size = os.path.getsize(os.path.join(c.dir, "history.db")) // 1024 + 400
            limited = c.run("bash", "-c", f"ulimit -f {size}; exec lockstep up --dir {c.dir}", user=USER,
                            env={"HOME": c.home}, timeout=100)
            self.assertEqual(limited.returncode, 0, limited.stderr)
            pid = json.loads(lockstep("status", "-o", "json").stdout)["controller"]["pid"]
            for _ in range(40):  # scripts of 64 KiB, until the log is as large as it may be
                done = c.run("sbatch", "--hold", "--wrap", ": " + os.urandom(32768).hex(), user=USER)
                if done.returncode != 0:
                    break
            self.assertNotEqual(done.returncode, 0, "the limit was met")
            status = json.loads(lockstep("status", "-o", "json").stdout)
            self.assertEqual(status["controller"]["pid"], pid, status["controller"]["last_end"])
            self.assertEqual([n["agent_ends"] for n in status["nodes"]], [0])
        finally:
            lockstep("down")
            c.down()

    def test_its_limits_reach_nobody(self):
        c = Cluster(nodes=1, gpus=None, cpus=4)
        try:
            odd = ("ulimit -S -n 200; ulimit -S -f 400000; ulimit -S -s 1024; ulimit -S -c unlimited; trap '' INT HUP; umask 0; "
                   "exec nice -n 5 taskset -c 0 lockstep up --dir \"$0\" --nodes 1 --cpus 4")
            c.ok("bash", "-c", odd, c.dir, timeout=120)
            status = c.status()
            node = status["nodes"][0]
            with open("/proc/self/status") as f:
                cpus = re.search(r"Cpus_allowed:\t(\S+)", f.read()).group(1)
            for pid in (status["controller"]["pid"], status["controller"]["supervisor_pid"], node["pid"], node["agent_pid"]):
                with open(f"/proc/{pid}/limits") as f:
                    limits = f.read()
                self.assertRegex(limits, r"Max file size +unlimited")
                self.assertRegex(limits, r"Max stack size +8388608")
                self.assertRegex(limits, r"Max core file size +0 ")
                self.assertNotRegex(limits, r"Max open files +200 ")
                with open(f"/proc/{pid}/status") as f:
                    text = f.read()
                self.assertIn(f"Cpus_allowed:\t{cpus}\n", text)
                with open(f"/proc/{pid}/stat") as f:
                    self.assertEqual(f.read().rsplit(")", 1)[1].split()[16], "0", "nice")
            shown = "ulimit -S -n; ulimit -S -s; nice; grep Cpus_allowed: /proc/self/status"
            mine = c.ok("srun", "-n1", "bash", "-c", shown).split()
            self.assertEqual(mine[2:], ["0", "Cpus_allowed:", cpus])
            # Those of the shell that submits do.
            sent = c.ok("bash", "-c", f"ulimit -S -n 222; ulimit -S -s 2048; srun -n1 bash -c '{shown}'").split()
            self.assertEqual(sent[:2], ["222", "2048"])
            none = c.ok("bash", "-c", f"ulimit -S -n 222; ulimit -S -s 2048; srun --propagate=NONE -n1 bash -c '{shown}'").split()
            self.assertEqual(none[:2], ["1024", "8192"])
            one = c.ok("bash", "-c", f"ulimit -S -n 222; ulimit -S -s 2048; srun --propagate=STACK -n1 bash -c '{shown}; env'")
            self.assertEqual(one.split()[:2], ["1024", "2048"])
            self.assertNotIn("SLURM_RLIMIT", one)
            c.ok("bash", "-c", f"ulimit -S -n 333; sbatch --wait -o {c.work}/limits.out --wrap 'ulimit -S -n'")
            with open(f"{c.work}/limits.out") as f:
                self.assertEqual(f.read(), "333\n")
            bad = c.run("sbatch", "--propagate=SPEED", "--wrap", "true")
            self.assertNotEqual(bad.returncode, 0)
            self.assertIn("NOFILE", bad.stderr)
        finally:
            c.down()

    def test_names_that_cannot_be_written_are_refused(self):
        c = Cluster(nodes=0)
        try:
            for name in ("x\ny", "a=b", "#x", "a b", "", "x" * 65, "\x1b[2J"):
                said = c.run("lockstep", "up", "--dir", c.dir, "--name", name)
                self.assertEqual(said.returncode, 2, name)
                self.assertIn("letters, digits", said.stderr)
            said = c.run("lockstep", "up", "--dir", c.dir, "--nodes", "1", "--gpus", "8xh\nname=evil")
            self.assertEqual(said.returncode, 2)
            self.assertFalse(os.path.exists(c.dir), "nothing was made")
        finally:
            shutil.rmtree(c.home, ignore_errors=True)


if __name__ == "__main__":
    unittest.main()
