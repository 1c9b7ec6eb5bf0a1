"""The judge of the soak must notice: each rule is shown a run that breaks it, beside one that does not."""
import fcntl
import os
import shutil
import tempfile
import unittest

from ledger import Fault, Job, Ledger, Step, line_of
import plan
from verdict import Row, Verdict, hosts
from watch import Watch, growing

T0 = 1_700_000_000.0


class Judge(unittest.TestCase):
    def setUp(self):
        self.room = tempfile.mkdtemp(prefix="lockstep-judge-")
        self.addCleanup(shutil.rmtree, self.room)
        for name in ("trace", "out", "err", "live"):
            os.mkdir(os.path.join(self.room, name))
        self.ledger, self.rows, self.ids = Ledger(self.room), {}, 0

    def job(self, tag="a", begin=0.0, end=2.0, state="COMPLETED", code="0:0", nodes="n1", restarts=0, elapsed=None, trace=True, user=1002, **words):
        """A job that ran from BEGIN to END and all is well with it; WORDS make it otherwise."""
        self.ids += 1
        job = Job(tag=tag, kind="batch", user=user, options=[], lines=3, id=str(self.ids), asked_at=T0 + begin, answered_at=T0 + begin)
        for key, value in words.items():
            setattr(job, key, value)
        self.ledger.add(job)
        self.row(job.id, begin, end, state, code, nodes, restarts, elapsed)
        if trace:
            self.trace(tag, f"S 0 b.0 n1 {T0 + begin} {job.id} - -")
            self.trace(tag, f"E 0 b.0 n1 {T0 + end} {job.id} - {job.code}")
            self.write(tag, [line_of(tag, 0, "b.0", i) for i in range(3)])
        return job

    def row(self, job_id, begin, end, state, code, nodes, restarts, elapsed):
        day = lambda at: __import__("datetime").datetime.fromtimestamp(T0 + at).isoformat(timespec="seconds")
        took = int(end - begin) if elapsed is None else elapsed
        self.rows[job_id] = Row(f"{job_id}|{state}|{code}|{took}|{day(begin)}|{day(end)}|{nodes}|{restarts}|1|cpu=1|u|00:00:00|{took}")

    def trace(self, unit, line):
        with open(os.path.join(self.room, "trace", unit), "a") as f:
            f.write(line + "\n")

    def write(self, unit, lines):
        with open(os.path.join(self.room, "out", unit), "w") as f:
            f.write("".join(line + "\n" for line in lines))

    def found(self):
        Verdict(self.ledger, self.rows).judge()
        return sorted({check for check, *_ in self.ledger.findings})

    # --- rules ---

    def test_all_is_well(self):
        self.job("a")
        self.job("b", begin=3, end=5, code="3:0", state="FAILED", after=("afterany", "a"))
        self.ledger.jobs["b"].code = 3
        with open(os.path.join(self.room, "trace", "b")) as f:
            text = f.read()
        with open(os.path.join(self.room, "trace", "b"), "w") as f:
            f.write(text.replace("- 0\n", "- 3\n"))
        self.assertEqual(self.found(), [])

    def test_an_acknowledged_id_is_gone(self):
        self.rows.pop(self.job().id)
        self.assertEqual(self.found(), ["known"])

    def test_a_wrong_code(self):
        self.job(code="1:0", state="FAILED")
        self.assertEqual(self.found(), ["code"])

    def test_ended_for_no_reason(self):
        self.job(state="TIMEOUT")
        self.assertEqual(self.found(), ["code"])

    def test_never_ran(self):
        self.job(trace=False)
        self.assertEqual(self.found(), ["runs"])

    def test_ended_in_the_middle(self):
        self.job(state="NODE_FAIL", trace=False)
        self.trace("a", f"S 0 b.0 n1 {T0} 1 - -")
        self.write("a", [])
        self.assertEqual(self.found(), ["state"])

    def test_ended_in_the_middle_as_its_node_was_lost(self):
        self.job(state="NODE_FAIL", trace=False)
        self.trace("a", f"S 0 b.0 n1 {T0} 1 - -")
        self.write("a", [])
        self.ledger.faults.append(Fault("lose node", "n1", T0 + 1, T0 + 5, note="lost"))
        self.assertEqual(self.found(), [])

    def test_a_limit_that_passed_after_an_end_that_died_with_its_node(self):
        job = self.job(end=52, state="TIMEOUT", elapsed=63, options=["-t", "1"])
        self.assertIn("code", self.found())
        self.ledger.findings.clear()
        self.ledger.faults.append(Fault("lose node", "n1", T0 + 60, T0 + 70, note="lost"))
        self.assertNotIn("code", self.found())
        job.options = ["-t", "2"]
        self.assertIn("code", self.found(), "that limit had not passed")

    def test_begun_twice(self):
        self.job()
        self.trace("a", f"S 0 b.0 n2 {T0 + 1} 1 - -")
        self.assertIn("once", self.found())

    def test_requeued_for_no_reason(self):
        self.job(restarts=1)
        self.assertEqual(self.found(), ["once"])

    def test_a_lost_line(self):
        self.job()
        self.write("a", [line_of("a", 0, "b.0", i) for i in (0, 2)])
        self.assertEqual(self.found(), ["output"])

    def test_a_doubled_line(self):
        self.job()
        self.write("a", [line_of("a", 0, "b.0", i) for i in (0, 1, 1, 2)])
        self.assertEqual(self.found(), ["output"])

    def test_a_changed_byte(self):
        self.job()
        self.write("a", [line_of("a", 0, "b.0", i).replace("ab", "aX") for i in range(3)])
        self.assertEqual(self.found(), ["output"])

    def test_a_dependent_before_its_time(self):
        self.job("a")
        self.job("b", begin=1, end=3, after=("afterok", "a"))
        self.assertEqual(self.found(), ["order"])

    def test_a_dependent_of_a_failure(self):
        self.job("a", state="FAILED", code="1:0")
        self.job("b", begin=3, end=5, after=("afterok", "a"))
        self.assertIn("order", self.found())

    def test_two_of_one_name(self):
        for tag, begin in (("a", 0), ("b", 1)):
            self.job(tag, begin=begin, end=begin + 2, after=("singleton", ""), options=["-J", "alone"])
        self.assertEqual(self.found(), ["order"])

    def test_a_shared_device(self):
        for tag, begin in (("a", 0), ("b", 1)):
            job = self.job(tag, begin=begin, end=begin + 2, trace=False)
            for what, at in (("S", begin), ("E", begin + 2)):
                self.trace(tag, f"{what} 0 b.0 n1 {T0 + at} {job.id} 0,1 0")
            self.write(tag, [line_of(tag, 0, "b.0", i) for i in range(3)])
        self.assertEqual(self.found(), ["shared"])

    def test_a_lock_that_was_taken(self):
        self.job()
        self.trace("a", f"X 0 b.0 n1 {T0} 1 - shared:n1.0")
        self.assertEqual(self.found(), ["shared"])

    def test_a_reserved_node(self):
        self.job(nodes=plan.RESERVED, trace=False)
        self.trace("a", f"S 0 b.0 {plan.RESERVED} {T0} 1 - -")
        self.trace("a", f"E 0 b.0 {plan.RESERVED} {T0 + 2} 1 - 0")
        self.write("a", [line_of("a", 0, "b.0", i) for i in range(3)])
        self.assertEqual(self.found(), ["reservation"])

    def test_a_start_on_a_drained_node(self):
        self.job(begin=10, end=12)
        self.ledger.faults.append(Fault("drain", "n1", T0 + 5, T0 + 20, note="drained"))
        self.assertEqual(self.found(), ["drain"])

    def test_a_begin_before_its_time(self):
        self.job(begin=0, end=2)
        self.ledger.jobs["a"].begin = 5
        self.assertEqual(self.found(), ["begin"])

    def test_a_wrong_elapsed_time(self):
        self.job(elapsed=9)
        self.assertEqual(self.found(), ["elapsed"])

    def test_an_end_that_counts_from_the_return_of_its_agent(self):
        self.job(elapsed=9)
        self.ledger.faults.append(Fault("stop agent", "n1", T0 + 1, T0 + 9))
        self.assertEqual(self.found(), ["elapsed"], "its shim knew better")
        self.ledger.jobs["a"].client = "srun"
        self.ledger.findings.clear()
        self.assertNotIn("elapsed", self.found(), "its client could not know")

    def test_life_in_a_pause(self):
        job = self.job(end=9)
        job.acts = [(T0 + 1, T0 + 2, "suspend", True), (T0 + 6, T0 + 7, "resume", True)]
        self.trace("a", f"B 0 b.0 n1 {T0 + 4} 1 - -")
        self.assertEqual(self.found(), ["pause"])

    def test_a_client_that_says_0(self):
        job = self.job(state="NODE_FAIL", trace=False, client="srun", returned=0, steps=[Step(0, 1, 3, 1)])
        self.trace("a", f"s 0 0.0 n1 {T0} {job.id} - -")
        self.write("a", [])
        self.assertIn("client", self.found())

    def test_refused_and_run(self):
        job = self.job()
        del self.ledger.jobs["a"]
        job.said = "sbatch: error: Batch job submission failed"
        self.ledger.refused.append(job)
        self.assertEqual(self.found(), ["refused"])


class Watching(unittest.TestCase):
    def setUp(self):
        self.room = tempfile.mkdtemp(prefix="lockstep-judge-")
        self.addCleanup(shutil.rmtree, self.room)
        os.mkdir(os.path.join(self.room, "live"))
        self.ledger = Ledger(self.room)
        self.watch = Watch(None, self.ledger, None)

    def jobs(self, n, **words):
        for k in range(n):
            job = Job(tag=f"a{k}", kind="many", user=1001, options=[], id=str(k + 1), account="ml")
            for key, value in words.items():
                setattr(job, key, value)
            self.ledger.add(job)

    def hold(self, name):
        file = open(os.path.join(self.room, "live", name), "a")
        self.addCleanup(file.close)
        fcntl.flock(file, fcntl.LOCK_EX)

    def test_more_alive_than_a_limit_lets(self):
        self.jobs(5)
        for k in range(4):
            self.hold(f"a{k}.b.0")
        open(os.path.join(self.room, "live", "a4.b.0"), "a").close()  # ended: nobody has its lock
        self.watch.limits_by_locks()
        self.assertEqual(self.ledger.findings, [])
        self.hold("a4.b.0")
        self.watch.limits_by_locks()
        self.assertEqual([f[0] for f in self.ledger.findings], ["limits"])

    def test_more_shown_than_a_limit_lets(self):
        self.jobs(5)
        self.watch.limits_by_queue([[str(k + 1), "RUNNING", "n1", "None"] for k in range(5)])
        self.assertEqual([f[0] for f in self.ledger.findings], ["limits"])

    def test_gpus_of_an_account(self):
        self.jobs(3, user=1002, gpus=4)
        self.watch.limits_by_queue([[str(k + 1), "RUNNING", "n1", "None"] for k in range(2)])
        self.assertEqual(self.ledger.findings, [])
        self.watch.limits_by_queue([[str(k + 1), "RUNNING", "n1", "None"] for k in range(3)])
        self.assertEqual([f[0] for f in self.ledger.findings], ["limits"])

    def test_an_end_that_changes(self):
        self.jobs(1)
        for state in ("RUNNING", "FAILED", "FAILED"):
            self.watch.states([["1", state, "n1", "None"]])
        self.assertEqual(self.ledger.findings, [])
        self.watch.states([["1", "COMPLETED", "n1", "None"]])
        self.assertEqual([f[0] for f in self.ledger.findings], ["states"])

    def test_what_grows(self):
        flat = [(t, {"controller fds": 24 + t % 3, "controller MiB": 40}) for t in range(40)]
        self.assertEqual(growing(flat), [])
        leak = [(t, {"controller fds": 24 + 4 * t, "controller MiB": 40}) for t in range(40)]
        self.assertEqual([name for name, *_ in growing(leak)], ["controller fds"])


class Plans(unittest.TestCase):
    def test_a_seed_gives_one_plan(self):
        self.assertEqual(repr(plan.make(5, 180)), repr(plan.make(5, 180)))
        self.assertNotEqual(repr(plan.make(5, 180)), repr(plan.make(6, 180)))

    def test_three_minutes_have_every_kind_and_every_fault(self):
        events = plan.make(7, 180)
        self.assertEqual({words[0] for _, what, words in events if what == "fault"}, {name for name, _ in plan.Draw.FAULTS})
        self.assertEqual({what for _, what, _ in events}, {"submit", "fault", "cancel", "requeue", "release", "suspend", "resume", "trim"})

    def test_host_lists(self):
        self.assertEqual(hosts("n[1-3,6],n9"), {"n1", "n2", "n3", "n6", "n9"})


if __name__ == "__main__":
    unittest.main()
