"""Elastic groups that grow, shrink and give way, and jobs that are moved, with real agents and processes."""
import os
import unittest

from cluster import Cluster, eventually

TREE = "SwitchName=leaf1 Nodes=n[1-2]\nSwitchName=leaf2 Nodes=n[3-4]\nSwitchName=spine Switches=leaf[1-2]\n"


class Elastic(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.c = Cluster(nodes=4, gpus="2xh100", cpus=4)
        tree = os.path.join(cls.c.work, "topology.conf")
        with open(tree, "w") as f:
            f.write(TREE)
        cls.c.args += ["--defragment=1", "--topology", tree]
        cls.c.up()
        for words in (["low"], ["high", "Preempt=low"]):
            cls.c.ok("sacctmgr", "-i", "add", "qos", *words)

    @classmethod
    def tearDownClass(cls):
        cls.c.down()

    def tearDown(self):
        self.c.run("scancel", "-u", self.c.run("id", "-un").stdout.strip())
        eventually(lambda: self.c.run("squeue", "-h").stdout.strip() == "", 60)

    def elastic(self, least, most, qos="", **group):
        group = {"launch": "tasks", "restart": "always", "tasks": {"min": least, "max": most}, "argv": ["sleep", "600"],
                 "per_task": {"cores": 1, "devices": [{"count": 1}]}, **group}
        return self.c.api("POST", "/v1/jobs", {"spec": {"name": "elastic", "qos": qos, "groups": [group]}})["job_id"]

    def running(self, job):
        """Node of every task that runs."""
        detail = self.c.api("GET", f"/v1/jobs/{job}")
        grants = detail["job"].get("allocation", {}).get("grants", [])
        return [grants[task.get("grant", 0)]["node"] for task in detail["tasks"] if task.get("state") == "running"]

    def holds(self, job, tasks):
        eventually(lambda: len(self.running(job)) == tasks, 60, f"job {job} with {tasks} tasks")

    def filler(self, node, *options):
        return self.c.sbatch("--gpus-per-node=2", "-N1", "-w", node, *options, "--wrap", "sleep 600")

    def test_it_grows_where_it_is_bound_and_shrinks_with_a_node(self):
        fillers = {n: self.filler(n) for n in ("n2", "n3", "n4")}
        for job in fillers.values():
            self.c.wait(job, "RUNNING")
        job = self.elastic(1, 8)
        bound = self.elastic(1, 8, topology_level="!leaf")
        self.holds(job, 2)
        self.c.ok("scancel", fillers["n3"])
        self.holds(bound, 2)
        self.c.ok("scancel", str(job))
        self.c.wait(str(job), "CANCELLED")
        self.assertEqual(self.c.wait(self.c.wrap("true", "-w", "n1")), "COMPLETED")
        self.assertEqual(len(self.running(bound)), 2)  # n1 is free, and on the other leaf
        self.c.ok("scancel", fillers["n4"])
        self.holds(bound, 4)
        self.assertEqual(self.c.show(bound)["Restarts"], "0")
        self.c.pull_plug("n4")
        self.holds(bound, 2)
        self.assertEqual(self.c.state(bound), "RUNNING")
        self.c.ok("lockstep", "up", "--dir", self.c.dir, timeout=120)
        self.holds(bound, 4)
        self.assertEqual(self.c.show(bound)["Restarts"], "0")

    def test_it_gives_up_a_node_to_a_job_that_preempts_it_and_stays(self):
        job = self.elastic(2, 8, "low")
        self.holds(job, 8)
        high = self.c.sbatch("--gpus-per-node=2", "-N1", "-q", "high", "--wrap", "sleep 2")
        self.c.wait(high, "COMPLETED", timeout=60)
        self.assertEqual(self.c.state(job), "RUNNING")
        self.assertEqual(len(self.running(job)), 6)
        self.assertEqual(self.c.show(job)["Restarts"], "0")
        self.assertNotIn(self.c.show(high)["NodeList"], self.c.show(job)["NodeList"])
        whole = self.c.sbatch("--gpus-per-node=2", "-N4", "-q", "high", "--wrap", "sleep 2")  # takes more than it can spare
        self.c.wait(whole, "COMPLETED", timeout=60)
        self.assertEqual(self.c.show(job)["Restarts"], "1")
        self.holds(job, 8)

    def test_jobs_that_can_save_their_work_are_moved_for_one_that_fits_nowhere(self):
        script = "trap 'lockstep checkpoint; sleep 100' USR1; while :; do sleep 0.1; done"
        on = {}
        for _ in range(8):
            job = self.c.sbatch("--gpus=1", "-N1", "-t", "60", "--signal=B:USR1@60", "--requeue", "--wrap", script)
            self.c.wait(job, "RUNNING")
            on.setdefault(self.c.show(job)["NodeList"], []).append(job)
        self.assertEqual([len(jobs) for jobs in on.values()], [2] * 4)
        for jobs in on.values():
            self.c.ok("scancel", jobs.pop())
        left = [jobs[0] for jobs in on.values()]
        ran = lambda job: self.c.ok("squeue", "-h", "-j", job, "-o", "%M").strip()  # noqa: E731
        eventually(lambda: not {ran(job) for job in left} & {"0:00", "0:01"}, what="nobody is moved in the first second")
        whole = self.c.sbatch("--gpus=2", "-N1", "-t", "10", "--wrap", "sleep 2")
        self.c.wait(whole, "RUNNING", timeout=60)
        moved = [job for job in left if self.c.show(job)["Restarts"] != "0"]
        self.assertEqual(len(moved), 1)
        self.c.wait(moved[0], "RUNNING", timeout=60)


if __name__ == "__main__":
    unittest.main()
