"""Nodes that are heard all the time and do not stop what they were told to: real work waits for a disk that is away."""
import os
import time
import unittest

from cluster import Cluster, eventually, running, send
from stuck import StuckFolder

KILL_WAIT_S, UNKILLABLE_AFTER_S = 1, 2


# Follows the process of that command line, and never waits for it.
TRACER = r"""
import ctypes, os, time
libc = ctypes.CDLL(None, use_errno=True)
for pid in filter(str.isdigit, os.listdir("/proc")):
    if open(f"/proc/{pid}/cmdline", "rb").read() == b"sleep\x007654\x00":
        assert libc.ptrace(0x4206, int(pid), None, None) == 0  # PTRACE_SEIZE
        print("traces", flush=True)
        time.sleep(600)
"""


class Unconfirmed(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.c = Cluster(nodes=2, gpus="2xh100", extra=["--unkillable-after", str(UNKILLABLE_AFTER_S)])
        tests = unittest.defaultTestLoader.getTestCaseNames(cls)
        cls.folders = {test: StuckFolder(os.path.join(cls.c.home, test)) for test in tests}  # nodes see what is there now
        cls.c.up()
        for words in (["low"], ["high", "Preempt=low"]):
            cls.c.ok("sacctmgr", "-i", "add", "qos", *words)

    @classmethod
    def tearDownClass(cls):
        for folder in cls.folders.values():
            folder.release()
        cls.c.down()

    def setUp(self):
        self.stuck = self.folders.pop(self._testMethodName)
        self.addCleanup(self.c.run, "scancel", "-u", "root")
        self.addCleanup(self.stuck.release)

    def start(self, command, nodes=(), **spec):
        """A job on both GPUs of a node, which is told to end in a second."""
        body = {"spec": {"name": "j", "kill_wait_us": KILL_WAIT_S * 1_000_000, "work_dir": self.c.work,
                         "groups": [{"launch": "script", "only_nodes": list(nodes),
                                     "per_task": {"cores": 1, "devices": [{"count": 2}]}}], **spec},
                "script": f"#!/bin/sh\n{command}\n"}
        return str(self.c.api("POST", "/v1/jobs", body)["job_id"])

    def hang(self, then="", **spec):
        """A job that nothing ends, and its node."""
        job = self.start(f"cat {self.stuck.path}/file{then}", **spec)
        self.assertTrue(self.stuck.asked.wait(20))
        return job, self.c.show(job)["BatchHost"]

    def reason(self, name):
        return self.c.ok("sinfo", "-hn", name, "-o", "%100E").strip()

    def closes(self, node, job):
        words = f"Kill task failed: job {job} (drained while that lasts)"
        eventually(lambda: self.reason(node) == words, 30, f"{node} tells why it is closed")

    def opens(self, node):
        self.stuck.release()
        eventually(lambda: self.reason(node) == "none", 30, f"{node} takes work again")
        eventually(lambda: self.c.ok("sinfo", "-hn", node, "-o", "%t").strip() == "idle", 30, f"{node} is idle")

    def test_a_job_that_does_not_end_closes_its_node_until_it_has(self):
        job, node = self.hang()
        self.c.ok("scancel", job)
        self.closes(node, job)
        self.assertEqual(self.c.ok("sinfo", "-hn", node, "-o", "%t").strip(), "drng")
        self.assertIn(f"Kill task failed: job {job}", self.c.ok("sinfo", "-hR", "-o", "%100E"))
        self.assertIn(f"Kill task failed: job {job}", self.c.ok("scontrol", "show", "node", node))
        others = [self.c.wrap("hostname", "--gpus=2") for _ in range(3)]
        for other in others:
            self.assertEqual(self.c.wait(other), "COMPLETED")
            self.assertNotEqual(self.c.show(other)["NodeList"], node)
        waits = self.c.wrap("true", "-w", node, "--gpus=2")
        self.assertIn(node, self.c.ok("lockstep", "explain", waits))
        self.assertIn(f"Kill task failed: job {job}", self.c.ok("lockstep", "explain", waits))
        self.assertEqual(self.c.state(job), "COMPLETING")
        # It is known after a restart, of the controller as of the agent.
        self.c.kill_controller(hold=False)
        eventually(self.c.answers)
        self.c.kill_agent(node)
        self.closes(node, job)
        self.opens(node)
        self.assertEqual(self.c.wait(job), "CANCELLED")
        self.assertEqual(self.c.wait(waits), "COMPLETED")

    def test_who_preempts_it_is_given_another_place(self):
        job, node = self.hang(qos="low")
        other = self.start("exec sleep 600", qos="high")  # nobody may have its place yet
        urgent = self.start("exec true", qos="high")
        self.closes(node, job)
        self.c.ok("scancel", other)
        self.assertEqual(self.c.wait(urgent), "COMPLETED")
        self.assertNotEqual(self.c.show(urgent)["NodeList"], node)
        self.opens(node)
        self.c.ok("scancel", job)
        self.c.wait(job)

    def test_what_waits_in_the_kernel_counts_as_paused_and_does_not_go_on_by_itself(self):
        mark = os.path.join(self.c.work, "went_on")
        job, node = self.hang(then=f"; echo > {mark}")
        self.c.ok("scontrol", "suspend", job)
        eventually(lambda: self.c.state(job) == "SUSPENDED")
        self.assertEqual(self.reason(node), "none")
        self.stuck.release()
        time.sleep(1)
        self.assertFalse(os.path.exists(mark))
        self.c.ok("scontrol", "resume", job)
        self.c.wait(job)
        self.assertTrue(os.path.exists(mark))

    def test_a_node_that_does_not_come_to_its_end_is_not_started_anew(self):
        job, name = self.hang("; sleep 600")
        waits = self.start("exec true", [name])
        node = next(node for node in self.c.status()["nodes"] if node["name"] == name)
        send(node["pid"])
        for what in ("up", "up", "down", "up"):
            tried = self.c.run("lockstep", what, "--dir", self.c.dir)
            self.assertEqual(tried.returncode, 1, tried.stdout)
            self.assertRegex(tried.stderr, rf"process {node['pid']} ends, and does not come to its end")
        self.assertNotEqual(self.c.state(waits), "COMPLETED", "the devices are still held")
        self.stuck.release()
        eventually(lambda: not running(node["pid"]))
        self.c.up()
        self.c.ok("scancel", job)
        self.assertEqual(self.c.wait(waits), "COMPLETED")

    def test_who_traces_a_task_of_another_job_of_his_keeps_no_node(self):
        tracer = os.path.join(self.c.work, "tracer.py")
        with open(tracer, "w") as f:
            f.write(TRACER)
        job = self.start("exec sleep 7654")
        eventually(lambda: self.c.state(job) == "RUNNING")
        keeps = self.c.wrap(f"exec python3 {tracer}", "-w", self.c.show(job)["BatchHost"], "-o", "tracer.out")
        said = os.path.join(self.c.work, "tracer.out")
        eventually(lambda: os.path.exists(said) and os.path.getsize(said) > 0, what="it traces")
        self.c.ok("scancel", job)
        self.assertEqual(self.c.wait(job), "CANCELLED")
        self.c.ok("scancel", keeps)
        self.c.wait(keeps)


if __name__ == "__main__":
    unittest.main()
