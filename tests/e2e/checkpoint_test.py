"""Checkpoints that a job tells by a file it touches or a line it prints, and the one notice that comes before every stop."""
import os
import re
import unittest

from cluster import Cluster, eventually

USER = 2001


@unittest.skipUnless(os.geteuid() == 0, "jobs of another user are root's to start")
class Checkpoints(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.c = Cluster(nodes=1, gpus=None, cpus=4)
        cls.c.up()
        for words in (["low"], ["high", "Preempt=low"]):
            cls.c.ok("sacctmgr", "-i", "add", "qos", *words)

    @classmethod
    def tearDownClass(cls):
        cls.c.down()

    def tearDown(self):
        for job in self.c.ok("squeue", "-h", "-o", "%A").split():
            self.c.run("scancel", job)
        eventually(lambda: self.c.run("squeue", "-h").stdout.strip() == "")

    def batch(self, command, *options):
        return self.c.wrap(command, *options, user=USER)

    def last(self, job):
        return self.c.show(job).get("LastCheckpoint")

    def test_a_file_that_is_touched(self):
        job = self.batch("sleep 4; touch saved.$SLURM_JOB_ID; sleep 100", "--checkpoint-file=saved.%j")
        self.c.wait(job, "RUNNING")
        self.assertIsNone(self.last(job))
        eventually(lambda: self.last(job), what="a checkpoint")
        saved = os.path.join(self.c.work, f"saved.{job}")
        self.assertEqual(os.stat(saved).st_uid, USER)
        first = self.last(job)
        os.utime(saved)
        eventually(lambda: self.last(job) != first, what="another one")

    def test_a_file_its_user_may_not_see_tells_nothing(self):
        hidden = os.path.join(self.c.work, "hidden")
        os.makedirs(hidden, mode=0o700, exist_ok=True)
        job = self.batch("sleep 100", f"--checkpoint-file={hidden}/x")
        seen = self.batch("sleep 3; while sleep 1; do touch seen; done", "--checkpoint-file=seen")
        self.c.wait(job, "RUNNING")
        with open(os.path.join(hidden, "x"), "w"):
            pass
        eventually(lambda: self.last(seen), what="a checkpoint of the other one")
        self.assertIsNone(self.last(job))

    def test_a_line_of_a_scripts_output(self):
        job = self.batch("echo no saved yet; sleep 3; echo saved step 5; sleep 100", "--checkpoint-line=saved", "-o", "lines.out")
        self.c.wait(job, "RUNNING")
        self.assertIsNone(self.last(job))
        eventually(lambda: self.last(job), what="a checkpoint")
        self.assertIn("saved step 5", self.c.output(job, "lines.out"))

    def test_a_line_of_a_tasks_output_to_its_client(self):
        job = self.c.wrap("srun --checkpoint-line=other sh -c 'sleep 2; echo saved 1 >&2; sleep 100' 2> /dev/null",
                          "--checkpoint-line=saved", "-o", "/dev/null", user=USER)
        eventually(lambda: self.last(job), what="a checkpoint")

    def test_few_of_many_are_told(self):
        job = self.batch("for i in $(seq 200); do echo saved $i; sleep 0.05; done; sleep 100", "--checkpoint-line=saved")
        eventually(lambda: self.last(job), what="a checkpoint")
        with open(os.path.join(self.c.dir, "nodes", "n1", "log")) if os.path.exists(os.path.join(self.c.dir, "nodes", "n1", "log")) \
                else open(os.devnull) as log:
            self.assertNotIn("refused", log.read())
        first = self.last(job)
        eventually(lambda: self.last(job) != first, what="the last of them, later")

    def test_the_agent_may_end_in_between(self):
        job = self.batch("while [ ! -e go ]; do sleep 0.1; done; touch over; sleep 100", "--checkpoint-file=over")
        self.c.wait(job, "RUNNING")
        self.c.kill_agent("n1")
        with open(os.path.join(self.c.work, "go"), "w"):
            pass
        eventually(lambda: self.last(job), what="a checkpoint")

    # --- one notice, whatever stops a job ---

    WAITS = ("trap 'at=$(date +%s); [ -e $LOCKSTEP_STOP_FILE ] && { cat $LOCKSTEP_STOP_FILE; echo told at $at; }; exit 0' TERM; "
             "echo ready; while :; do sleep 0.05; done")

    def told(self, job, name):
        """Reason and seconds of grace that the job read in its file when the signal came."""
        text = eventually(lambda: "told at" in self.c.output(job, name) and self.c.output(job, name), what="a notice")
        at = int(re.search(r"^LOCKSTEP_STOP_AT=(\d+)$", text, re.M).group(1))
        return re.search(r"^LOCKSTEP_STOP_REASON=(\w+)$", text, re.M).group(1), at - int(re.search(r"told at (\d+)", text).group(1))

    def waiting(self, name, *options):
        job = self.batch(self.WAITS, "-o", name, *options)
        path = os.path.join(self.c.work, name)
        eventually(lambda: os.path.exists(path) and "ready" in self.c.output(job, name), what="the job")
        return job

    def test_cancelled(self):
        job = self.waiting("cancelled.out")
        self.c.ok("scancel", job)
        reason, grace = self.told(job, "cancelled.out")
        self.assertEqual(reason, "cancelled")
        self.assertIn(grace, range(28, 32))

    def test_time_limit(self):
        job = self.waiting("limit.out", "-t", "0:02")
        self.assertEqual(self.told(job, "limit.out")[0], "time_limit")

    def test_preempted(self):
        job = self.waiting("preempted.out", "-q", "low", "-c", "4")
        high = self.c.wrap("true", "-q", "high", "-c", "4")
        self.assertIn(self.told(job, "preempted.out")[0], ("preempted", "requeued"))
        self.assertEqual(self.c.wait(high), "COMPLETED")

    def test_requeued(self):
        job = self.waiting("requeued.out", "--open-mode=append")
        self.c.ok("scontrol", "requeue", job)
        self.assertEqual(self.told(job, "requeued.out")[0], "requeued")


if __name__ == "__main__":
    unittest.main()
