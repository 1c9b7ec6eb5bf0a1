"""Damaged files of a cluster: whatever lies in their places, `up`, `status` and `down` say what is wrong and what to do."""
import json
import os
import re
import shutil
import stat
import subprocess
import unittest

from cluster import Cluster, eventually, running
from damages import DAMAGES, directory, empty, flipped, garbage, missing, truncated

USER = 1001


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

    def test_lost_settings_of_what_runs_are_not_made_up(self):
        """What would be written in their place fits to nothing that runs, and its bridge would be nobody's."""
        self.c.up()
        self.keep("cluster.conf")
        pids = self.processes()
        for name in ("cluster.conf", "cluster.conf.copy"):
            os.unlink(self.path(name))
        told = re.search("notice +(.*)", self.lockstep("status").stdout).group(1)
        self.assertIn("Restore one of them from a backup", told)
        for options in ([], self.c.args):
            refused = self.lockstep("up", *options)
            self.assertEqual(refused.returncode, 1)
            self.assertIn(told, refused.stderr)
            self.assertIn(f"`lockstep down --dir {self.c.dir}` comes first", refused.stderr)
            self.assertFalse(os.path.exists(self.path("cluster.conf")))
        self.assertEqual(self.processes(), pids)
        self.c.ok("lockstep", "down", "--dir", self.c.dir)
        self.assert_down(pids)
        self.c.up()
        self.assertEqual(self.c.wait(self.c.wrap("true")), "COMPLETED")

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

    def test_an_authority_that_is_changed_under_the_controller_is_told(self):
        """It is put back after the controller has made another one, and one file of it is exchanged."""
        self.c.up()
        notices = lambda: " ".join(line for line in self.lockstep("status").stdout.splitlines() if line.startswith("notice"))
        shutil.copytree(self.path("pki"), self.path("pki.aside"))
        shutil.rmtree(self.path("pki"))
        self.c.kill_controller(hold=False)
        eventually(self.c.answers, 60, "a controller with a new CA")
        told = "goes on with the CA of its start"
        self.assertNotIn(told, notices())
        self.keep("pki/ca.key")
        shutil.copy(self.path("pki.aside/ca.key"), self.path("pki/ca.key"))
        self.assertIn(told, notices())
        self.put_back("pki/ca.key")
        self.assertNotIn(told, notices())
        shutil.rmtree(self.path("pki"))
        os.rename(self.path("pki.aside"), self.path("pki"))
        self.assertIn(told, notices())
        self.c.ok("lockstep", "down", "--dir", self.c.dir)
        self.c.up()
        self.assertEqual(notices(), "")
        self.assertEqual(self.c.wait(self.c.wrap("true")), "COMPLETED")

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
                eventually(lambda: job in self.c.run("sacct", "-nXS", "now-1days", "-o", "jobid").stdout.split(), 15, "it is accounted")
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
                self.assertIn(job, eventually(lambda: self.c.run("sacct", "-nXS", "now-1days", "-o", "jobid").stdout.split(), 15),
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
                why = re.search(r"the controller did not start: .*", refused.stderr).group(0)
                self.assertRegex(told.stdout, r"(?m)^notice +" + re.escape(why) + "$")
                self.assertNotIn("ended 1 time", told.stdout, "it is said once")
                self.assertEqual(self.lockstep("down").returncode, 0)
                self.assertNotIn("did not start", self.lockstep("status").stdout, "it is down since somebody wished so")
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
        eventually(lambda: lost[-1] in self.c.run("sacct", "-nXS", "now-1days", "-o", "jobid").stdout.split(), 15, "accounting has it")
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
        rows = dict(line.split("|")[:2] for line in self.c.ok("sacct", "-nXS", "now-1days", "-P", "-o", "jobid,state").splitlines())
        for job in lost:
            self.assertIn("CANCELLED", rows[job], "it is not waiting any more")
        self.assertEqual(rows[kept], "PENDING")


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


if __name__ == "__main__":
    unittest.main()
