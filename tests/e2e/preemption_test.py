"""Preemption and suspension of real processes on a real cluster."""
import os
import signal
import time
import unittest

from cluster import Cluster, eventually, send


class Preemption(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.c = Cluster(nodes=1, gpus="4xh100", cpus=8)
        cls.c.up()
        for words in (["low"], ["gentle", "GraceTime=900", "PreemptMode=checkpoint"],
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
        self.assertEqual(self.c.show(low)["Restarts"], "1")  # every requeue counts, whatever it was for
        self.assertIn("restart=1", eventually(lambda: "restart=1" in self.c.output(low, "low.out") and
                                              self.c.output(low, "low.out")))

    def test_a_checkpoint_ends_the_grace(self):
        ready = os.path.join(self.c.work, "gentle-is-ready")
        low = self.batch("gentle", f"trap 'lockstep checkpoint; sleep 100' USR1; echo > {ready}; while :; do sleep 0.1; done", "--signal=B:USR1@10")
        self.wait(low, "RUNNING")
        eventually(lambda: os.path.exists(ready), 30, "its trap is set")
        high = self.batch("high", "sleep 1")
        self.wait(high, "RUNNING")  # long before the grace is over
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

    def test_resume_waits_for_room(self):
        first = self.batch("lazy", "sleep 300")
        self.wait(first, "RUNNING")
        self.c.ok("scontrol", "suspend", first)
        other = self.batch("lazy", "sleep 300")
        self.wait(other, "RUNNING")
        said = self.c.run("scontrol", "resume", first)
        self.assertEqual(said.returncode, 0, said.stderr)
        self.assertIn("as soon as there is room", said.stderr)
        self.assertEqual(self.state(first), "SUSPENDED")
        self.assertEqual(self.c.show(first)["Reason"], "Resources")
        self.c.ok("scancel", other)
        self.wait(first, "RUNNING")

    def test_a_pause_is_told_when_it_is_true(self):
        job = self.batch("lazy", "sleep 300")
        self.wait(job, "RUNNING")
        agent = self.c.node("n1")["agent_pid"]
        send(agent, signal.SIGSTOP)
        try:
            said = self.c.run("scontrol", "suspend", job)
            self.assertEqual(said.returncode, 0, said.stderr)
            self.assertIn("is asked to stop", said.stderr)
            self.assertEqual(self.state(job), "SIGNALING")
            self.assertEqual(self.c.ok("squeue", "-h", "-j", job, "-o", "%t").strip(), "SI")
        finally:
            send(agent, signal.SIGCONT)
        self.wait(job, "SUSPENDED")
        self.assertEqual(self.c.run("scontrol", "resume", job).stderr, "")

    def test_nothing_starts_before_the_last_has_stopped(self):
        """The preemptor's first act is to look whether anything of the suspended job can run."""
        pids, states = (os.path.join(self.c.work, name) for name in ("pids", "states"))
        low = self.batch("lazy", "for i in 1 2; do (while :; do :; done) & done; "
                                 f"jobs -p > {pids}.tmp; echo $$ >> {pids}.tmp; mv {pids}.tmp {pids}; wait")
        self.wait(low, "RUNNING")
        eventually(lambda: os.path.exists(pids), 30)
        ticks = f"for p in $(cat {pids}); do sed 's/.*) //' /proc/$p/stat | cut -d' ' -f12,13; done"
        high = self.batch("high", f"a=$({ticks}); sleep 0.3; b=$({ticks}); echo \"$a\" > {states}.tmp; [ \"$a\" = \"$b\" ] || "
                                  f"echo ran >> {states}.tmp; mv {states}.tmp {states}; sleep 2")
        self.wait(high, "RUNNING")
        eventually(lambda: os.path.exists(states), 30)
        with open(states) as f:
            lines = f.read().splitlines()
        self.assertEqual((len(lines), "ran" in lines), (3, False), lines)
        self.wait(high, "COMPLETED")
        self.wait(low, "RUNNING")

    def test_a_pause_outlives_the_agent_and_is_not_charged(self):
        path = os.path.join(self.c.work, "beats")
        low = self.batch("lazy", f"while :; do echo x >> {path}; sleep 0.1; done")
        self.wait(low, "RUNNING")
        eventually(lambda: os.path.exists(path), 30)
        self.c.ok("scontrol", "suspend", low)
        size = lambda: os.path.getsize(path)
        eventually(lambda: [size(), time.sleep(0.5), size()][::2] == [size()] * 2, 30)
        before = size()
        times = lambda: self.c.ok("sacct", "-X", "-n", "-P", "-j", low, "-o", "elapsedraw,suspended").strip().split("|")
        ran = eventually(lambda: times()[1] != "00:00:00" and times()[0], what="accounting of the pause")
        agent = self.c.node("n1")["agent_pid"]
        self.c.kill_agent("n1")
        eventually(lambda: self.c.node("n1").get("agent_pid", agent) not in (agent, 0), 30)
        time.sleep(4)  # longer than an agent takes to say what it holds
        self.assertEqual(self.state(low), "SUSPENDED")
        self.assertEqual(size(), before)
        self.assertEqual(times()[0], ran, "no second of its time has passed since it stands still")
        self.c.ok("scontrol", "resume", low)
        eventually(lambda: size() > before, 30)
        self.c.ok("scontrol", "suspend", low)
        self.c.ok("scancel", low)
        self.wait(low, "CANCELLED")


if __name__ == "__main__":
    unittest.main()
