"""Preemption and suspension of real processes on a real cluster."""
import os
import time
import unittest

from cluster import Cluster, eventually


class Preemption(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.c = Cluster(nodes=1, gpus="4xh100", cpus=8)
        cls.c.up()
        for words in (["low"], ["gentle", "GraceTime=60", "PreemptMode=checkpoint"],
                      ["spare", "flags=Scavenger", "PreemptMode=cancel"], ["lazy", "PreemptMode=suspend"],
                      ["high", "Preempt=low,gentle,lazy"]):
            cls.c.ok("sacctmgr", "-i", "add", "qos", *words)

    @classmethod
    def tearDownClass(cls):
        cls.c.down()

    def tearDown(self):
        self.c.run("scancel", "-u", self.c.run("id", "-un").stdout.strip())
        eventually(lambda: self.c.run("squeue", "-h").stdout.strip() == "", 30)

    def batch(self, qos, command, *options):
        return self.c.ok("sbatch", "--parsable", "--gpus=4", "-q", qos, *options, "--wrap", command).strip()

    def state(self, job):
        return self.c.show(job)["JobState"]

    def wait(self, job, state):
        eventually(lambda: self.state(job) == state, 30)

    def test_requeue(self):
        low = self.batch("low", "echo restart=$SLURM_RESTART_COUNT; sleep 300", "-o", "low.out")
        self.wait(low, "RUNNING")
        high = self.batch("high", "sleep 3")
        self.wait(high, "RUNNING")
        self.assertEqual(self.state(low), "PENDING")
        self.wait(high, "COMPLETED")
        self.wait(low, "RUNNING")
        self.assertEqual(self.c.show(low)["Restarts"], "0")  # failures count, preemptions do not

    def test_a_checkpoint_ends_the_grace(self):
        low = self.batch("gentle", "trap 'lockstep checkpoint; sleep 100' USR1; while :; do sleep 0.1; done", "--signal=B:USR1@10")
        self.wait(low, "RUNNING")
        time.sleep(1)
        begin = time.time()
        high = self.batch("high", "sleep 1")
        self.wait(high, "RUNNING")
        self.assertLess(time.time() - begin, 50)
        self.wait(high, "COMPLETED")

    def test_scavengers_are_cancelled(self):
        spare = self.batch("spare", "sleep 300")
        self.wait(spare, "RUNNING")
        other = self.batch("low", "sleep 1")
        self.wait(other, "COMPLETED")
        self.assertEqual(self.state(spare), "PREEMPTED")
        self.assertIn("PREEMPTED", self.c.ok("sacct", "-X", "-n", "-j", spare, "-o", "state"))

    def test_suspend_and_resume(self):
        path = os.path.join(self.c.dir, "ticks")
        low = self.batch("lazy", f"while :; do echo x >> {path}; sleep 0.1; done")
        self.wait(low, "RUNNING")
        eventually(lambda: os.path.exists(path), 30)

        def still():
            before = os.path.getsize(path)
            time.sleep(1)
            return os.path.getsize(path) == before

        self.c.ok("scontrol", "suspend", low)
        self.assertEqual(self.state(low), "SUSPENDED")
        eventually(still, 30)
        self.c.ok("scontrol", "resume", low)
        self.assertEqual(self.state(low), "RUNNING")
        eventually(lambda: not still(), 30)
        # Preempted by suspension: it goes on by itself.
        high = self.batch("high", "sleep 3")
        self.wait(high, "RUNNING")
        self.assertEqual(self.state(low), "SUSPENDED")
        self.assertTrue(still())
        self.wait(high, "COMPLETED")
        self.wait(low, "RUNNING")
        eventually(lambda: not still(), 30)


if __name__ == "__main__":
    unittest.main()
