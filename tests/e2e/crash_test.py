"""kill -9 of controller, agents and nodes at any moment: nothing acknowledged is lost, no exit code, no output."""
import glob
import os
import random
import signal
import subprocess
import threading
import time
import unittest

from cluster import Cluster, eventually

KILLS = int(os.environ.get("CRASH_KILLS", "100"))


class Crash(unittest.TestCase):
    def test_controller_killed_while_jobs_are_submitted_and_run(self):
        """100 times; every acknowledged job runs exactly once and its exit code is the one it returned."""
        rng = random.Random(1)
        with Cluster(nodes=3, gpus=None, cpus=32) as c:
            acked, refused, stop = {}, {}, threading.Event()
            ran = os.path.join(c.work, "ran")
            os.mkdir(ran)

            def submit(worker):
                n = 0
                while not stop.is_set():
                    n += 1
                    code = (worker * 7 + n) % 5
                    tag = f"{worker}.{n}"
                    result = c.run("sbatch", "--parsable", "-o", "/dev/null", "--no-requeue", "--wrap",
                                   f"echo x >> {ran}/{tag}; sleep 0.{n % 4}; exit {code}")
                    if result.returncode == 0:
                        acked[result.stdout.strip()] = (tag, code)
                    else:
                        refused[tag] = result.stderr
                    time.sleep(0.05)

            workers = [threading.Thread(target=submit, args=(w,)) for w in range(2)]
            for w in workers:
                w.start()
            for _ in range(KILLS):
                time.sleep(rng.uniform(0.02, 0.25))
                c.kill_controller()
                c.up()
            stop.set()
            for w in workers:
                w.join()
            self.assertGreater(len(acked), KILLS // 4)

            def all_ended():
                left = c.run("squeue", "-h", "-o", "%i %T").stdout.strip()
                return not left
            eventually(all_ended, 120, "every job ended")
            rows = {}
            for line in eventually(lambda: (lambda t: t if len(t) >= len(acked) else None)(
                    c.ok("sacct", "-nXS", "now-1days", "-P", "-o", "JobID,State,ExitCode").strip().split("\n")), 20, "history"):
                job, state, code = line.split("|")
                rows[job] = (state, code)
            for job, (tag, code) in acked.items():
                self.assertIn(job, rows, "an acknowledged job is gone")
                self.assertEqual(rows[job], ("COMPLETED" if code == 0 else "FAILED", f"{code}:0"), (job, tag))
                with open(os.path.join(ran, tag)) as f:
                    self.assertEqual(f.read(), "x\n", f"job {job} did not run exactly once")
            self.assertEqual(len(set(acked)), len(acked), "a job id was given twice")
            # A submission that meets a dying controller is sent again under its name: its end is known, and it ran once.
            self.assertEqual({t: e for t, e in refused.items() if "is not known" in e}, {}, "submissions of unknown fate")
            self.assertEqual({t for t in refused if os.path.exists(os.path.join(ran, t))}, set(), "refused, and ran")
            tags = os.listdir(ran)
            self.assertEqual(sorted(tags), sorted(tag for tag, _ in acked.values()))
            for tag in tags:
                with open(os.path.join(ran, tag)) as f:
                    self.assertEqual(f.read(), "x\n", f"{tag} ran more than once")
            print(f"{len(acked)} acknowledged jobs over {KILLS} kills")

    def test_step_output_survives_agent_and_controller(self):
        """srun's own output, while the controller and the agent of the node are killed in its middle."""
        with Cluster(nodes=2, gpus=None, cpus=8) as c:
            p = subprocess.Popen(["srun", "-N2", "sh", "-c", "for i in $(seq 1 300); do echo $SLURM_PROCID:$i; echo $i > at.$SLURM_PROCID; sleep 0.02; done; exit 3"],
                                 stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=c.env, cwd=c.work)

            def at():
                """How far the slower rank is."""
                words = [open(path).read().strip() for path in glob.glob(os.path.join(c.work, "at.*"))]
                return min(map(int, words)) if len(words) == 2 and all(words) else 0

            eventually(lambda: at() > 20, 30, "both ranks write")
            c.kill_controller()
            until = at() + 20
            eventually(lambda: at() > until, 30, "they go on meanwhile")
            c.up()
            eventually(lambda: "*" not in c.ok("sinfo", "-h", "-o", "%T"), 30, "both nodes are heard again")
            c.kill_agent("n2")
            out, err = p.communicate(timeout=90)
            self.assertEqual(p.returncode, 3, err)
            for rank in (0, 1):
                got = [line for line in out.split("\n") if line.startswith(f"{rank}:")]
                self.assertEqual(got, [f"{rank}:{i}" for i in range(1, 301)], f"rank {rank}: output lost or doubled\n{err}")

    def test_agent_killed_while_a_job_runs(self):
        with Cluster(nodes=2, gpus=None, cpus=8) as c:
            job = c.wrap("for i in $(seq 30); do echo $i; sleep 0.1; done; exit 4", "-w", "n1")
            c.wait(job, "RUNNING")
            for kills in range(3):
                eventually(lambda: len(c.output(job).split()) > 4 * (kills + 1), 30, "it goes on")
                eventually(lambda: c.node("n1")["agent_pid"], 20)
                c.kill_agent("n1")
            self.assertEqual(c.wait(job, timeout=60), "FAILED")
            self.assertEqual(c.show(job)["ExitCode"], "4:0")
            self.assertEqual(c.output(job), "".join(f"{i}\n" for i in range(1, 31)))

    def test_controller_away_for_three_lease_terms(self):
        with Cluster(nodes=2, gpus=None, cpus=8) as c:
            job = c.wrap("srun sh -c 'echo > runs.$SLURM_PROCID; sleep 34; echo rank $SLURM_PROCID done'; exit 6", "-N2", "--ntasks-per-node=1")
            eventually(lambda: len(glob.glob(os.path.join(c.work, "runs.*"))) == 2, 30, "both ranks run")
            c.kill_controller()
            time.sleep(28)  # three terms of 9 s
            c.up()
            self.assertEqual(c.wait(job, timeout=60), "FAILED")
            self.assertEqual(c.show(job)["ExitCode"], "6:0")
            lines = sorted(line for line in c.output(job).split("\n") if line and not line.startswith("srun: "))
            self.assertEqual(lines, ["rank 0 done", "rank 1 done"], c.output(job))

    def test_node_loss_without_requeue_and_with(self):
        with Cluster(nodes=3, gpus="8xh100") as c:
            stays = c.wrap("sleep 600", "--no-requeue", "-w", "n2")
            moves = c.wrap("echo on $(hostname) restart ${SLURM_RESTART_COUNT:-0}; sleep 600", "-N2", "--gpus-per-node=8",
                           "--open-mode=append", "-x", "n1")
            c.wait(stays, "RUNNING")
            c.wait(moves, "RUNNING")
            self.assertEqual(c.ok("squeue", "-h", "-j", moves, "-o", "%N").strip(), "n[2-3]")
            c.pull_plug("n2")
            self.assertEqual(c.wait(stays, timeout=60), "NODE_FAIL")
            eventually(lambda: c.state(moves) == "PENDING", 60, "waits for two nodes")
            c.ok("scontrol", "show", "job", moves)
            c.up()  # n2 is back
            self.assertEqual(c.wait(moves, "RUNNING", timeout=60), "RUNNING")
            eventually(lambda: "restart 1" in c.output(moves), 20)
            c.ok("scancel", moves)

    def test_stopped_cluster_starts_again(self):
        c = Cluster(nodes=2, gpus="8xh100")
        try:
            c.up()
            held = c.wrap("true", "--hold", "-J", "kept")
            done = c.wrap("exit 2")
            c.wait(done, "FAILED")
            c.down(delete=False)
            c.up()
            self.assertEqual(c.state(held), "PENDING")
            c.ok("scontrol", "release", held)
            self.assertEqual(c.wait(held), "COMPLETED")
            self.assertGreater(int(c.wrap("true")), int(done))
            self.assertIn("|FAILED|2:0", c.ok("sacct", "-n", "-X", "-P", "-j", done, "-o", "JobID,State,ExitCode"))
        finally:
            c.down()


if __name__ == "__main__":
    unittest.main()
