"""submitit, unmodified: functions as jobs, arrays, gangs, cancel, and checkpoints that are requeued on timeout and preemption."""
import unittest

from client import ClientTest

HEAD = """
import json, os, time
import submitit

def executor(folder="logs", **words):
    e = submitit.AutoExecutor(folder=folder, cluster="slurm")
    e.update_parameters(slurm_partition="main", timeout_min=5, **words)
    return e

def state(job):
    # What submitit asked last may be older than the result.
    while job.watcher.get_state(job.job_id, mode="force") in ("RUNNING", "PENDING"):
        time.sleep(0.2)
    return job.state

def say(**words):
    print(json.dumps(words))
"""
CHECKPOINT = HEAD + """
class Training:
    def __init__(self):
        self.step = 0
    def __call__(self, path, steps):
        while self.step < steps:
            with open(path, "a") as f:
                f.write(f"{os.environ.get('SLURM_RESTART_COUNT', '0')} {self.step}\\n")
            self.step += 1
            time.sleep(0.5)
        return self.step, os.environ.get("SLURM_RESTART_COUNT", "0")
    def checkpoint(self, path, steps):
        return submitit.helpers.DelayedSubmission(self, path, steps)
"""


class Submitit(ClientTest):
    def test_a_function_and_its_result(self):
        said = self.python(HEAD + """
job = executor().submit(lambda a, b: (print("hello from the job"), a + b)[1], 20, 22)
result = job.result()
say(result=result, out=job.stdout(), state=state(job), info=job.get_info()["NodeList"])
""")
        self.assertEqual(said["result"], 42)
        self.assertIn("hello from the job", said["out"])
        self.assertEqual(said["state"], "COMPLETED")
        self.assertRegex(said["info"], r"^n\d$")

    def test_a_folder_named_by_the_job(self):
        said = self.python(HEAD + """
jobs = [executor("by-id/%j").submit(lambda x: x * x, x) for x in range(8)]
say(results=[j.result() for j in jobs], names=sorted(n for n in os.listdir("by-id") if n[0] != "."), ids=sorted(j.job_id for j in jobs))
""")
        self.assertEqual(said["results"], [x * x for x in range(8)])
        self.assertEqual(said["names"], said["ids"])

    def test_an_exception_comes_back(self):
        said = self.python(HEAD + """
def bad():
    raise ValueError("on purpose")
job = executor().submit(bad)
try:
    job.result()
    say(error="")
except submitit.core.utils.FailedJobError as e:
    say(error=str(e), state=job.state)
""")
        self.assertIn("on purpose", said["error"])

    def test_an_array(self):
        said = self.python(HEAD + """
jobs = executor(slurm_array_parallelism=2).map_array(lambda a, b: a * b, range(1, 8), range(11, 18))
say(results=[j.result() for j in jobs], ids=[j.job_id for j in jobs], states=sorted({state(j) for j in jobs}))
""")
        self.assertEqual(said["results"], [a * (a + 10) for a in range(1, 8)])
        self.assertEqual([i.split("_")[1] for i in said["ids"]], [str(i) for i in range(7)])
        self.assertEqual(said["states"], ["COMPLETED"])

    def test_a_batch_of_submissions(self):
        said = self.python(HEAD + """
e = executor()
with e.batch():
    jobs = [e.submit(pow, x, 2) for x in range(5)]
say(results=[j.result() for j in jobs])
""")
        self.assertEqual(said["results"], [0, 1, 4, 9, 16])

    def test_a_gang(self):
        said = self.python(HEAD + """
def rank():
    env = submitit.JobEnvironment()
    return env.global_rank, env.local_rank, env.num_tasks, env.num_nodes, env.node, len(env.hostnames)
job = executor(nodes=2, tasks_per_node=2).submit(rank)
say(results=job.results(), tasks=len(job._sub_jobs))
""")
        self.assertEqual([r[:4] for r in said["results"]], [[0, 0, 4, 2], [1, 1, 4, 2], [2, 0, 4, 2], [3, 1, 4, 2]])
        self.assertEqual({r[5] for r in said["results"]}, {2})

    def test_cancel(self):
        said = self.python(HEAD + """
job = executor().submit(time.sleep, 600)
while job.state != "RUNNING":
    time.sleep(0.2)
job.cancel()
while not job.done():
    time.sleep(0.2)
say(state=job.watcher.get_state(job.job_id, mode="force"))
""")
        self.assertEqual(said["state"].split()[0], "CANCELLED")

    def test_a_timeout_is_checkpointed_and_requeued(self):
        # The first run waits for its warning where it has done half, so that a slow machine needs no more runs than a quick one.
        said = self.python(CHECKPOINT + """
class Slow(Training):
    def __call__(self, path, steps):
        if os.environ.get("SLURM_RESTART_COUNT", "0") == "0":
            super().__call__(path, steps // 2)
            time.sleep(600)
        return super().__call__(path, steps)
e = executor(slurm_signal_delay_s=30)
e.update_parameters(timeout_min=1)
job = e.submit(Slow(), "steps.txt", 20)
say(result=job.result(), steps=open("steps.txt").read().split("\\n"), log=job.stderr() or "")
""")
        self.assertEqual(said["result"][0], 20, said["log"])
        self.assertGreaterEqual(int(said["result"][1]), 1, said["log"])
        steps = [line.split() for line in said["steps"] if line]
        self.assertEqual([int(s[1]) for s in steps][-1], 19)
        self.assertIn("0", {s[0] for s in steps})
        self.assertGreater(int([s for s in steps if s[0] != "0"][0][1]), 5, "it began again from the checkpoint, not from nothing")

    def test_an_interruption_is_checkpointed_and_requeued(self):
        """Twenty of them at once, as a job that requeues itself from inside must not die of its own TERM."""
        said = self.python(CHECKPOINT + """
jobs = executor().map_array(Training(), [f"many-{i}.txt" for i in range(20)], [12] * 20)
for i, job in enumerate(jobs):
    while not os.path.exists(f"many-{i}.txt"):
        time.sleep(0.1)
    job._interrupt(timeout=False)
results = []
for job in jobs:
    try:
        results.append(job.result())
    except Exception as e:
        results.append(repr(e)[-300:])
say(results=results)
""")
        self.assertEqual(said["results"], [[12, "1"]] * 20)

    def test_logs_of_both_runs_are_kept(self):
        said = self.python(CHECKPOINT + """
class Loud(Training):
    def __call__(self, path, steps):
        print("run", os.environ.get("SLURM_RESTART_COUNT", "0"), flush=True)
        return super().__call__(path, steps)
job = executor().submit(Loud(), "loud.txt", 10)
while not os.path.exists("loud.txt"):
    time.sleep(0.1)
job._interrupt(timeout=False)
job.result()
say(out=job.stdout())
""")
        self.assertIn("run 0", said["out"])
        self.assertIn("run 1", said["out"])


if __name__ == "__main__":
    unittest.main()
