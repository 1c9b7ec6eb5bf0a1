"""Health checks that run as jobs: on idle nodes only, out of the way of users, and what they find closes and opens nodes."""
import json
import os
import unittest

from cluster import Cluster, eventually

NOBODY = 65534


class HealthJobs(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.c = Cluster(nodes=2, gpus="2xh100", cpus=4)
        cls.c.up()
        cls.c.ok("squeue", user=NOBODY)  # from its first command on the cluster knows the user

    @classmethod
    def tearDownClass(cls):
        cls.c.down()

    def setUp(self):
        self.marks = os.path.join(self.c.work, self.id().rsplit(".", 1)[1])
        os.mkdir(self.marks)
        os.chmod(self.marks, 0o1777)

    def tearDown(self):
        self.apply("health_checks: {}\n", "--prune")
        self.c.idle()

    def apply(self, text, *options):
        return self.c.ok("lockstep", "apply", "-f", "-", *options, input=text)

    def check(self, script, **keys):
        """The only check of the cluster: a shell's script that knows its folder as $D."""
        lines = "".join(f"    {key}: {value}\n" for key, value in {"nodes": "ALL", "user": "nobody", "every": "10s", **keys}.items())
        body = "".join(f"      {line}\n" for line in [f"D={self.marks}", *script.strip().splitlines()])
        self.apply(f"health_checks:\n  gpus:\n{lines}    script: |\n{body}", "--prune")

    def health(self, node=None):
        rows = json.loads(self.c.ok("lockstep", "health", *([node] if node else []), "-o", "json"))["rows"]
        return {row["node"]: row for row in rows if row.get("check") == "gpus"}

    def node_state(self, name):
        return self.c.node(name)["state"]

    def test_each_idle_node_is_checked_by_a_job_that_all_can_see(self):
        self.check("touch $D/began-$LOCKSTEP_NODE\nwhile [ ! -e $D/go ]; do sleep 0.1; done\n"
                   "id -un > $D/who",
                   gpus="true")
        row = eventually(lambda: self.c.ok("squeue", "-h", "-t", "R", "-o", "%i|%j|%u|%D").strip(), what="a run")
        job, name, user, nodes = row.split("|")
        self.assertEqual((name, user, nodes), ("health:gpus", "nobody", "1"))
        eventually(lambda: len(os.listdir(self.marks)) == 1, what="the run has begun")
        grant, = self.c.api("GET", f"/v1/jobs/{job}")["job"]["allocation"]["grants"]
        self.assertEqual((grant["devices"], grant["cores"], grant["whole_node"]), ("0-1", "0-3", True))
        open(os.path.join(self.marks, "go"), "w").close()
        healthy = eventually(lambda: (lambda h: h if all(r["verdict"] == "healthy" for r in h.values()) else None)(self.health()),
                             what="both nodes were checked")
        self.assertEqual(set(healthy), {"n1", "n2"})
        self.assertEqual({row["evidence"] for row in healthy.values()}, {f"exit code 0 (job {r['job']})" for r in healthy.values()})
        with open(os.path.join(self.marks, "who")) as f:
            self.assertEqual(f.read().strip(), "nobody")
        line = eventually(lambda: self.c.ok("sacct", "-n", "-X", "-P", "-a", "-j", job, "-o", "jobname,user,state,exitcode").strip(),
                          what="the run is accounted")
        self.assertEqual(line, "health:gpus|nobody|COMPLETED|0:0")
        table = self.c.ok("lockstep", "health", "n1").splitlines()
        self.assertEqual(table[0].split(), ["NODE", "CHECK", "VERDICT", "CLOSED", "AT", "JOB", "EVIDENCE"])
        self.assertEqual([line.split()[:4] for line in table[1:]], [["n1", "node", "healthy", "no"], ["n1", "gpus", "healthy", "no"]])

    def test_a_users_job_has_the_node_at_once(self):
        self.check("sleep 300 & sleep 300")
        run = eventually(lambda: self.c.ok("squeue", "-h", "-t", "R", "-n", "health:gpus", "-o", "%i").strip(), what="a run")
        job = self.c.sbatch("-N2", "--exclusive", "--wrap", "sleep 1")
        self.c.wait(job, "RUNNING", timeout=10)
        self.assertEqual(self.c.state(run), "PREEMPTED")
        self.assertEqual(self.c.ok("squeue", "-h", "-t", "R,CG", "-n", "health:gpus").strip(), "", "no run where work is")
        self.assertEqual(self.c.wait(job), "COMPLETED")
        self.assertEqual({row["verdict"] for row in self.health().values()}, {"unknown"})

    def test_a_failure_closes_the_node_and_a_success_opens_it(self):
        self.check("[ $LOCKSTEP_NODE = n1 ] || exit 0\n[ -e $D/mended ] || exit 3")
        bad = eventually(lambda: (lambda row: row if row["verdict"] == "bad" else None)(self.health()["n1"]), what="n1 is bad")
        self.assertTrue(bad["closes"])
        why = f"Health check gpus: exit code 3 (job {bad['job']})"
        self.assertEqual(self.node_state("n1"), "drained")
        self.assertIn(why, self.c.ok("scontrol", "show", "node", "n1"))
        self.assertIn(why, self.c.ok("sinfo", "-R", "-h", "-o", "%E"))
        job = self.c.sbatch("-w", "n1", "--wrap", "true")
        eventually(lambda: why in self.c.run("lockstep", "explain", job).stdout, what="explain says why")
        self.assertEqual(self.c.state(job), "PENDING")
        self.c.kill_agent("n1")  # what was found outlives the agent
        eventually(lambda: self.c.node("n1")["agent_pid"] and self.node_state("n1") == "drained", 30, "the agent is back")
        self.assertIn(why, self.c.ok("scontrol", "show", "node", "n1"))

        open(os.path.join(self.marks, "mended"), "w").close()
        self.assertEqual(self.c.wait(job, timeout=40), "COMPLETED")
        self.assertEqual(self.health("n1")["n1"]["verdict"], "healthy")
        self.assertNotIn("Health check", self.c.ok("scontrol", "show", "node", "n1"))

    def test_what_an_administrator_drained_is_not_checked_and_stays(self):
        self.c.ok("scontrol", "update", "nodename=n2", "state=drain", "reason=fan")
        self.check("touch $D/$LOCKSTEP_NODE")
        eventually(lambda: self.health()["n1"]["verdict"] == "healthy", what="n1 is checked")
        self.assertEqual(os.listdir(self.marks), ["n1"])
        self.assertEqual(self.health()["n2"]["verdict"], "unknown")
        self.assertEqual(self.node_state("n2"), "drained")
        self.c.ok("scontrol", "update", "nodename=n2", "state=resume")
        eventually(lambda: self.health()["n2"]["verdict"] == "healthy", what="n2 is checked")

    def test_the_time_limit_is_a_failure_and_telling_closes_nothing(self):
        self.check("sleep 300", time_limit="1s", on_failure="tell", nodes="n1")
        row = eventually(lambda: (lambda row: row if row["verdict"] == "suspect" else None)(self.health()["n1"]), what="n1 is suspect")
        self.assertEqual(row["evidence"], f"over its time limit (job {row['job']})")
        self.assertEqual(self.node_state("n1"), "idle")

    def test_root_and_strangers(self):
        refused = self.c.run("lockstep", "apply", "-f", "-",
                             input="health_checks:\n  bad: {nodes: ALL, user: root, script: 'true'}\n")
        self.assertNotEqual(refused.returncode, 0)
        self.assertIn("health check bad cannot run as root", refused.stdout + refused.stderr)
        by_user = self.c.run("lockstep", "apply", "-f", "-", user=NOBODY,
                             input="health_checks:\n  mine: {nodes: ALL, user: nobody, script: 'true'}\n")
        self.assertNotEqual(by_user.returncode, 0)
        with self.assertRaisesRegex(AssertionError, "runs of health checks are the cluster's own"):
            self.c.api("POST", "/v1/jobs", {"spec": {"name": "x", "health_check": "gpus", "work_dir": "/",
                                                     "groups": [{"launch": "tasks", "argv": ["true"]}]}})


if __name__ == "__main__":
    unittest.main(verbosity=2)
