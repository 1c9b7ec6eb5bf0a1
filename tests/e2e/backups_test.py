"""A backup of the log is put back beside nodes that went on."""
import os
import shutil
import signal
import subprocess
import unittest

from cluster import BIN, Cluster, eventually, send


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
                eventually(lambda: later[-1] in self.c.run("sacct", "-nXS", "now-1days", "-o", "jobid").stdout.split(), 30)

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
                states = dict(line.split("|")[:2] for line in self.c.ok("sacct", "-nXS", "now-1days", "-P", "-o", "jobid,state").splitlines())
                if len(names) == 2:
                    self.assertEqual([states[job] for job in later], ["COMPLETED"] * 5, "accounting has kept what it knew")


def read(path):
    with open(path, encoding="utf-8") as f:
        return f.read()


class TakenOver(unittest.TestCase):
    def test_a_controller_whose_log_another_one_writes_ends_and_says_why(self):
        with Cluster(nodes=1, gpus=None, cpus=4) as c:
            first = c.wrap("true")
            c.wait(first)
            os.unlink(os.path.join(c.dir, "lock"))  # with it nobody could
            socket = os.path.join(c.home, "other.sock")
            other = subprocess.Popen([os.path.join(BIN, "lockstepd"), "--dir", c.dir, "--socket", socket],
                                     stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            try:
                eventually(lambda: os.path.exists(socket), what="the other controller")
                waiting = subprocess.Popen(["sbatch", "--parsable", "--wrap", "true"], env=c.env, cwd=c.work, text=True,
                                           stdout=subprocess.PIPE, stderr=subprocess.PIPE)
                log = os.path.join(c.dir, "log", "controller.log")
                eventually(lambda: "another controller writes this log: its term is 2, ours was 1" in read(log),
                           what="the reason in its log")
            finally:
                other.terminate()
                other.wait(60)
            eventually(c.answers)
            second, said = waiting.communicate(timeout=120)
            self.assertEqual(waiting.returncode, 0, said)
            self.assertEqual(c.wait(second.strip()), "COMPLETED")
            self.assertEqual(c.ok("sacct", "-nXS", "now-1days", "-P", "-o", "jobid").split(), [first, second.strip()])


if __name__ == "__main__":
    unittest.main()
