"""Explanations on a real cluster: why a job waits, what is suggested, and that it holds when it is followed."""
import json
import os
import re
import unittest

from cluster import Cluster, eventually


class Explain(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.c = Cluster(nodes=4, gpus="4xh100", cpus=16)
        cls.c.up()

    @classmethod
    def tearDownClass(cls):
        cls.c.down()

    def tearDown(self):
        self.c.ok("scancel", "-u", "root", "--quiet") if os.geteuid() == 0 else self.c.run("scancel", "--me")
        eventually(lambda: not self.c.ok("squeue", "-h").strip(), 30, "an empty queue")

    def explain(self, job):
        return json.loads(self.c.ok("lockstep", "explain", str(job), "-o", "json"))

    def fill(self, nodes, minutes=120):
        job = self.c.wrap("sleep 600", f"-N{nodes}", "--ntasks-per-node=1", "--gpus-per-node=4", f"-t{minutes}")
        self.c.wait(job, "RUNNING")
        return job

    def test_a_suggestion_is_followed_and_holds(self):
        holder = self.fill(2)
        job = self.c.wrap("sleep 600", "-N4", "--gpus-per-node=4", "-t60", "-J", "big")
        told = self.explain(job)
        self.assertEqual(told["expected"]["reason"], "Resources")
        self.assertIn("4 nodes are needed, 2 are free now", told["because"])
        filters = {f["name"]: f["left"] for f in told["funnels"][0]["filters"]}
        self.assertEqual((filters["up"], filters["large enough"], filters["free now"]), (4, 4, 2))
        self.assertEqual([j["job"] for j in told["in_the_way"]], [int(holder)])
        text = self.c.ok("lockstep", "explain", job)
        self.assertIn(f"Job {job} big", text)
        now = next(s for s in told["suggestions"] if s["then"]["started"])
        self.assertEqual(now["change"], "2 nodes instead of 4")
        self.assertIn("2 nodes instead of 4", text)
        self.c.ok(*now["command"].split())
        self.assertEqual(self.c.wait(job, "RUNNING"), "RUNNING")
        self.assertEqual(self.explain(job)["because"], "It has its nodes.")

    def test_a_shorter_limit_before_the_head(self):
        self.fill(3)
        head = self.c.wrap("sleep 600", "-N4", "--gpus-per-node=4", "-t60")
        self.c.ok("scontrol", "update", f"JobId={head}", "Priority=4000000000")
        job = self.c.wrap("sleep 600", "-N1", "--gpus-per-node=4", "-t300")
        told = self.explain(job)
        self.assertEqual(told["ahead"], 1)
        now = next(s for s in told["suggestions"] if s["change"].startswith("limit"))
        self.assertTrue(now["then"]["started"], told["suggestions"])
        self.c.ok(*now["command"].split())
        self.assertEqual(self.c.wait(job, "RUNNING"), "RUNNING")

    def test_start_times(self):
        self.fill(4, minutes=120)
        job = self.c.wrap("true", "-N4", "--gpus-per-node=4", "-t60")

        def promised():
            start, nodes = self.c.ok("squeue", "--start", "-h", "-j", job, "-o", "%S|%Y").strip().split("|")
            return nodes == "n[1-4]" and re.match(r"^\d{4}-\d\d-\d\dT", start) and start
        start = eventually(promised, 20, "a promised start")
        self.assertEqual(self.explain(job)["expected"]["nodes"], "n[1-4]")
        out = self.c.run("sbatch", "--test-only", "-N4", "--gpus-per-node=4", "-t60", "--wrap", "true")
        self.assertEqual(out.returncode, 0, out.stderr)
        self.assertRegex(out.stderr, r"^sbatch: Job \d+ to start at \d{4}-\d\d-\d\dT\S+ using \d+ processors on nodes n\[1-4\] in partition main\n$")
        self.assertGreater(out.stderr.split(" to start at ")[1][:19], start)

    def test_test_only_now_and_never(self):
        out = self.c.run("sbatch", "--test-only", "-N2", "--wrap", "true")
        self.assertEqual(out.returncode, 0, out.stderr)
        self.assertRegex(out.stderr, r"to start at \S+ using 2 processors on nodes n\[\S+ in partition main")
        out = self.c.run("srun", "--test-only", "-N1", "true")
        self.assertEqual(out.returncode, 0, out.stderr)
        self.assertRegex(out.stderr, r"^srun: Job \d+ to start at ")
        out = self.c.run("sbatch", "--test-only", "-N9", "--wrap", "true")
        self.assertEqual(out.returncode, 1)
        self.assertIn("sbatch: error:", out.stderr)
        self.assertEqual(self.c.ok("squeue", "-h").strip(), "")

    def test_a_weekly_window_and_no_limit(self):
        """The example of docs/accounting.md, tried by an ordinary user."""
        self.c.ok("scontrol", "create", "reservation", "ReservationName=maint", "StartTime=now+30hours", "Duration=4:00:00",
                  "Nodes=ALL", "Users=root", "Flags=MAINT,WEEKLY")
        self.addCleanup(self.c.ok, "scontrol", "delete", "ReservationName=maint")
        who = {"user": 1001} if os.geteuid() == 0 else {}
        quiet = ("--gpus=1", "-D", "/tmp", "-o", "/dev/null", "--wrap", "true")
        done = self.c.run("sbatch", "--parsable", *quiet, **who)
        self.assertEqual(done.returncode, 0, done.stderr)
        job = done.stdout.strip()
        self.addCleanup(self.c.run, "scancel", job)
        self.assertIn(f"sbatch: warning: job {job}: reservation maint comes again every week", done.stderr)
        self.assertIn("6-20:00:00 or less", done.stderr)
        why = "ReqNodeNotAvail, Reserved for maintenance"
        eventually(lambda: self.c.ok("squeue", "-h", "-j", job, "-o", "%r").strip() == why, 20, why)
        self.assertEqual(self.c.ok("squeue", "--start", "-h", "-j", job, "-o", "%S").strip(), "N/A")
        told = json.loads(self.c.ok("lockstep", "explain", job, "-o", "json", **who))
        self.assertIn("6-20:00:00 or less", told["because"])
        brief = self.c.run("sbatch", "--parsable", "-t", "60", *quiet, **who)
        self.assertEqual(brief.stderr, "")
        self.c.wait(brief.stdout.strip(), "COMPLETED")  # nobody waits behind it
        self.c.ok("scontrol", "update", f"JobId={job}", "TimeLimit=6-20:00:00", **who)
        self.assertNotEqual(self.explain(job)["expected"]["start_us"], 0)
        self.c.ok("scontrol", "update", f"JobId={job}", "TimeLimit=60", **who)
        self.c.wait(job, "COMPLETED")

    def test_a_time_and_another_job(self):
        later = self.c.wrap("true", "--gpus=1", "--begin=now+3hours")
        text = self.c.ok("lockstep", "explain", later)
        self.assertRegex(text, r"waits: BeginTime\n  It may not begin before the time its owner named \(--begin\).\n"
                               r"  Not before \d{4}-\d\d-\d\dT\S+ \(in 2 h 59 min\)|in 3 h 00 min")
        after = self.c.wrap("true", "--gpus=1", f"--dependency=afterok:{later}")
        text = self.c.ok("lockstep", "explain", after)
        self.assertIn(f"waits: Dependency\n  It waits for job {later} to end well (pending).\n  Its start is foreseen once", text)
        self.c.ok("scancel", later)
        text = self.c.ok("lockstep", "explain", later)
        self.assertIn("It was cancelled", text)
        self.assertIn(f"sacct -j {later}", text)

    def test_what_if(self):
        holder = self.fill(4)
        job = self.c.wrap("true", "-N3", "--gpus-per-node=4", "-t60")
        path = os.path.join(self.c.work, "changes.yaml")
        with open(path, "w") as f:
            f.write(f"# more of the same\n- add_nodes: {{like: n1, count: 3}}\n")
        answer = json.loads(self.c.ok("lockstep", "whatif", "--file", path, "-o", "json"))
        mine = next(j for j in answer["jobs"] if j["job"] == int(job))
        self.assertFalse(mine["before"]["started"])
        self.assertTrue(mine["after"]["started"])
        self.assertEqual(mine["after"]["nodes"], "n[5-7]")
        self.assertIn("start at once", self.c.ok("lockstep", "whatif", "--file", path))
        text = self.c.ok("lockstep", "whatif", "--file", "-", "-o", "json", input=f"remove_jobs: {holder}\n")
        self.assertEqual(json.loads(text)["after"]["start_now"], 1)
        self.assertEqual(self.c.state(job), "PENDING")
        self.assertEqual(self.c.state(holder), "RUNNING")

    def test_replay_of_its_own_history(self):
        jobs = [self.c.wrap("sleep 0.3", f"-N{1 + i % 3}", "--gpus-per-node=4", "-t5") for i in range(6)]
        for job in jobs:
            self.assertEqual(self.c.wait(job), "COMPLETED")
        path = os.path.join(self.c.work, "half.yaml")
        with open(path, "w") as f:
            f.write("remove_nodes: n4\n")

        def replay(*more):  # beside the controller that is using the files
            return json.loads(self.c.ok("lockstep-sim", "replay", "--dir", self.c.dir, "--json", *more))
        told = eventually(lambda: (r := replay())["replayed"]["jobs"] >= 6 and r, 20, "history to have them")
        self.assertEqual(told["sizes"], "gpus")
        self.assertEqual(told["recorded"]["jobs"], told["replayed"]["jobs"])
        self.assertGreaterEqual(replay("--changes", path)["replayed"]["avg_wait_s"], told["replayed"]["avg_wait_s"])
        self.assertEqual(replay("--policy", "easy")["policy"], "easy")
        past = json.loads(self.c.ok("lockstep", "whatif", "--file", path, "--history", "1", "-o", "json"))
        self.assertGreaterEqual(past["jobs"], 6)
        self.assertGreaterEqual(past["changed"]["mean_wait_s"], past["as_is"]["mean_wait_s"])
        self.assertIn("mean wait", self.c.ok("lockstep", "whatif", "--file", path, "--history", "1"))
        bad = self.c.run("lockstep-sim", "replay", "--dir", self.c.work)
        self.assertEqual(bad.returncode, 2)
        self.assertIn("lockstep.db is not there", bad.stderr)
        bad = self.c.run("lockstep-sim", "replay", "--dir", self.c.dir, "--changes", "-nowhere")
        self.assertNotEqual(bad.returncode, 0)

    def test_errors_say_where(self):
        def refused(text):
            out = self.c.run("lockstep", "whatif", "--file", "-", input=text)
            self.assertEqual(out.returncode, 1, out.stdout)
            return out.stderr
        self.assertIn("line 2: ", refused("- drain: n1\n- explode: n2\n"))
        self.assertIn("line 3: ", refused("- drain: n1\n- partition:\n    tme_max: 3\n    name: main\n"))
        self.assertIn("line 2: ", refused("- drain: n1\n- drain: n99\n"))  # the controller's own word
        self.assertIn("standard input: line ", refused("{"))
        self.assertEqual(self.c.run("lockstep", "explain", "99999").returncode, 1)
        self.assertEqual(self.c.run("lockstep", "explain").returncode, 2)


if __name__ == "__main__":
    unittest.main()
