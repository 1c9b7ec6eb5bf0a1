"""Processes that stand still and go on: a pause of the controller, of an agent or of both costs no job anything."""
import os
import signal
import time
import unittest

from cluster import Cluster, eventually, send, turns

PAUSE_S = float(os.environ.get("PAUSE_S", "45"))  # longer than a node may be silent


class Stopped:
    """Processes that are stopped meanwhile."""

    def __init__(self, *pids):
        self.pids = pids

    def __enter__(self):
        for pid in self.pids:
            send(pid, signal.SIGSTOP)

    def __exit__(self, *exc):
        for pid in self.pids:
            send(pid, signal.SIGCONT)


class Pauses(unittest.TestCase):
    def setUp(self):
        self.c = Cluster(nodes=2, gpus=None, cpus=8)
        self.addCleanup(self.c.down)
        self.c.up()
        c = self.c
        gang = c.script("#!/bin/bash\nsrun -l sh -c 'while sleep 1; do date +%s; done'\n")
        self.jobs = [c.sbatch("-N2", "-o", "gang.out", gang),
                     c.wrap("while sleep 1; do :; done", "--requeue"),
                     c.wrap("while sleep 1; do :; done", "--no-requeue", "-w", "n2")]
        for job in self.jobs:
            c.wait(job, "RUNNING")
        eventually(lambda: os.path.exists(os.path.join(c.work, "gang.out")), what="output of the gang")
        self.begun = [self.facts(job) for job in self.jobs]

    def facts(self, job):
        shown = self.c.show(job)
        return shown["JobState"], shown["Restarts"], shown["StartTime"]

    def all_goes_on(self):
        c = self.c
        self.assertEqual([self.facts(job) for job in self.jobs], self.begun)
        out = os.path.join(c.work, "gang.out")
        size = os.path.getsize(out)
        eventually(lambda: os.path.getsize(out) > size, what="more output of the gang")
        self.assertNotIn("srun: error", c.output(self.jobs[0], "gang.out"))

    def node_states(self):
        return self.c.ok("sinfo", "-h", "-N", "-o", "%N %t")

    def nodes_are_up(self):
        states = self.node_states()
        return "down" not in states and "*" not in states

    def test_the_controller_stands_still(self):
        with Stopped(self.c.controller_pid()):
            time.sleep(PAUSE_S)
        end = time.monotonic() + 12
        while time.monotonic() < end:  # longer than a lease: what is to be lost would be by now
            self.assertNotIn("down", self.node_states(), "the controller's own silence was counted as a node's")
            time.sleep(0.2)
        eventually(self.nodes_are_up, what="agents that gave up on the connection are back")
        self.all_goes_on()
        longest, _ = turns(self.c)
        self.assertEqual(set(longest), {"core", "io"})
        self.assertGreater(longest["core"], 0)

    def test_an_agent_stands_still_and_the_controller_meanwhile(self):
        c = self.c
        with Stopped(c.node("n2")["agent_pid"]):
            eventually(lambda: not self.nodes_are_up(), timeout=PAUSE_S, what="n2 not responding")
            self.assertEqual([self.facts(job) for job in self.jobs], self.begun)
            with Stopped(c.controller_pid()):
                time.sleep(5)
        eventually(self.nodes_are_up, what="n2 back")
        self.all_goes_on()
        c.ok("scancel", *self.jobs)
        for job in self.jobs:
            c.wait(job, "CANCELLED")


class Ends(unittest.TestCase):
    """Work that ends while its agent cannot hear of it has ended when it ended, not when somebody asked."""

    def setUp(self):
        self.c = Cluster(nodes=1, gpus=None, cpus=4)
        self.addCleanup(self.c.down)
        self.c.up()

    def end_of(self, job):
        shown = self.c.show(job)["EndTime"]
        return time.mktime(time.strptime(shown, "%Y-%m-%dT%H:%M:%S"))

    def runs_until_let(self):
        job = self.c.wrap("touch began; while [ ! -e let ]; do sleep 0.1; done; touch over")
        eventually(lambda: os.path.exists(os.path.join(self.c.work, "began")), what="it runs")
        self.c.wait(job, "RUNNING")
        return job

    def let_it_end(self):
        """Returns a while after its end."""
        open(os.path.join(self.c.work, "let"), "w").close()
        eventually(lambda: os.path.exists(os.path.join(self.c.work, "over")), what="it is over")
        time.sleep(12)
        return time.time()

    def test_while_its_agent_stood_still(self):
        job = self.runs_until_let()
        with Stopped(self.c.node("n1")["agent_pid"]):
            returned = self.let_it_end()
        self.assertEqual(self.c.wait(job), "COMPLETED")
        self.assertLess(self.end_of(job), returned - 3, "it ended at its agent's return")

    def test_while_there_was_no_agent(self):
        job = self.runs_until_let()
        with Stopped(self.c.node("n1")["pid"]):
            self.c.kill_agent("n1")
            returned = self.let_it_end()
        self.assertEqual(self.c.wait(job), "COMPLETED")
        self.assertLess(self.end_of(job), returned - 3, "it ended at its next agent's first look")


class Costs(unittest.TestCase):
    """An ordinary user prepares commands that used to hold the core for seconds."""

    def setUp(self):
        self.c = Cluster(nodes=1, gpus=None, cpus=4)
        self.addCleanup(self.c.down)
        self.c.up()

    def as_user(self, *argv):
        return self.c.ok(*argv, user=1001).strip()

    def test_arrays_that_await_each_other_are_cancelled(self):
        submit = ("sbatch", "--parsable", "-o", "/dev/null", "--array=0-299999")
        first = self.as_user(*submit, "--hold", "--wrap", "true")
        second = self.as_user(*submit, f"--dependency=aftercorr:{first}", "--kill-on-invalid-dep=yes", "--wrap", "true")
        third = self.as_user(*submit, f"--dependency=aftercorr:{second}", "--kill-on-invalid-dep=yes", "--wrap", "true")
        self.as_user("scancel", first)
        eventually(lambda: self.c.ok("squeue", "-h", "-o", "%A").strip() == "", what="an empty queue")
        for job in (second, third):
            self.assertIn(self.c.state(job), ("CANCELLED", "FAILED"))
        _, slow = turns(self.c)
        self.assertEqual({what: us for what, us in slow.items() if what in ("cancel", "tick")}, {})

    def test_many_elements_are_held_changed_and_cancelled(self):
        job = self.as_user("sbatch", "--parsable", "-o", "/dev/null", "--array=0-9999", "--hold", "--wrap", "true")
        self.as_user("scontrol", "hold", f"{job}_[0-9999]")
        self.as_user("scontrol", "update", f"JobId={job}", "Comment=seen")
        self.as_user("scancel", job)
        eventually(lambda: self.c.ok("squeue", "-h", "-o", "%A").strip() == "", what="an empty queue")
        _, slow = turns(self.c)
        self.assertEqual({what: us for what, us in slow.items() if what in ("cancel", "hold", "update", "tick")}, {})


if __name__ == "__main__":
    unittest.main()
