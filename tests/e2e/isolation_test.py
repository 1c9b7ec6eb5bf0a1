"""Jobs apart: memory and processes are the job's own, what it leaves behind is found, a pause holds whatever it does, and
what it used is told. Needs control groups that this user may make, which root has."""
import os
import re
import subprocess
import unittest

from cluster import Cluster, eventually

# Holds so many MiB; prints when it does.
HOG = "python3 -c 'import sys, time; a = bytearray({} << 20); a[::4096] = b\"x\" * len(a[::4096]); print(\"held\", flush=True)'"


def trees(c):
    """Directories of control groups that this cluster has made."""
    with open(os.path.join(c.dir, "lockstep.id")) as f:
        cluster = re.search("[0-9a-f]{32}", f.read()).group()
    found = []
    for root, names, _ in os.walk("/sys/fs/cgroup"):
        found += [os.path.join(root, name) for name in names if name.startswith("lockstep-" + cluster)]
    return found


@unittest.skipUnless(os.geteuid() == 0, "control groups are made by root")
class Isolation(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.c = Cluster(nodes=2, gpus="0", cpus=8)
        cls.c.up()
        if not trees(cls.c):
            log = cls.c.ok("lockstep", "logs", "n1", "-n", "50")
            cls.c.down()
            raise unittest.SkipTest("this machine lets us make no control groups: " + log.strip().splitlines()[-1])

    @classmethod
    def tearDownClass(cls):
        cls.c.down(delete=False)
        left = trees(cls.c)
        cls.c.up()
        cls.c.down()
        assert not left, f"groups are left behind: {left}"

    def account(self, job, *fields):
        eventually(lambda: self.c.ok("sacct", "-nPX", "-j", job, "-o", "End").strip() not in ("", "Unknown"))
        rows = self.c.ok("sacct", "-nP", "-j", job, "-o", ",".join(("JobID",) + fields)).splitlines()
        return {row.split("|")[0]: row.split("|")[1:] for row in rows}

    def test_memory_is_a_hard_limit_of_the_job_alone(self):
        neighbour = self.c.wrap(HOG.format(60) + "; sleep 2", "--mem=120", "-w", "n1")
        hog = self.c.wrap("exec " + HOG.format(200), "--mem=60", "-w", "n1")
        self.assertEqual(self.c.wait(hog), "OUT_OF_MEMORY")
        self.assertEqual(self.c.wait(neighbour), "COMPLETED")
        self.assertEqual(self.account(hog, "State")[hog], ["OUT_OF_MEMORY"])
        said = eventually(lambda: self.output(hog))
        self.assertIn(f"Detected 1 oom_kill event in StepId={hog}.batch", said)
        self.assertIn("python3", said)
        self.assertNotIn("held", said)

    def test_processes_leave_room_for_the_others(self):
        bounds = [os.path.join(tree, "pids.max") for tree in trees(self.c)]
        bounds = [path for path in bounds if os.path.exists(path)]
        if not bounds:
            self.skipTest("this machine does not bound processes")
        with open("/proc/sys/kernel/pid_max") as f:
            machine = int(f.read())
        self.assertEqual(int(self.c.ok("srun", "-w", "n1", "cat", "/proc/sys/kernel/pid_max")), machine)
        for path in bounds:
            with open(path) as f:
                self.assertLessEqual(int(f.read()), machine * 3 // 4)

    def test_a_user_cannot_fill_what_the_agent_writes_to(self):
        said = self.c.run("srun", "-w", "n1", "dd", "if=/dev/zero", "of=/run/lock/much", "bs=1M", "count=64", user=2001)
        self.assertIn("No space left on device", said.stderr)
        agent = self.c.node("n1")["agent_pid"]
        room = os.statvfs(f"/proc/{agent}/root/run/lockstep-agent")
        self.assertGreater(room.f_bavail, room.f_blocks // 2)

    def test_a_step_out_of_memory_says_so(self):
        job = self.c.script("#!/bin/sh\n"
                            f"srun -n1 {HOG.format(200)}\n"
                            "echo step $?\n")
        number = self.c.sbatch("--mem=100", "-w", "n1", job)
        self.c.wait(number)
        said = self.c.output(number)
        self.assertIn("task 0: Out Of Memory", said)
        self.assertEqual(self.account(number, "State")[f"{number}.0"], ["OUT_OF_MEMORY"])

    def test_who_traces_what_has_to_end_does_not_hold_it(self):
        mark = f"{os.getpid()}77"
        held = self.c.wrap(f"unshare -Urpf sh -c 'sleep {mark}; true'", "-w", "n1", user=2001)
        tracer = self.c.script("import ctypes, os, time\n"
                               "libc = ctypes.CDLL(None); libc.ptrace.argtypes = [ctypes.c_long] * 4\n"
                               "def words(p):\n"
                               "    try: return open(f'/proc/{p}/cmdline').read()\n"
                               "    except OSError: return ''\n"
                               f"while not (found := [p for p in os.listdir('/proc') if p.isdigit() and words(p).split('\\0')[:2] == ['sleep', '{mark}']]): time.sleep(0.05)\n"
                               "print(libc.ptrace(0x4206, int(found[0]), 0, 0), flush=True)\n"
                               "time.sleep(1000)\n", "tracer.py")
        holder = self.c.wrap(f"exec python3 {tracer}", "-w", "n1", "-o", "tracer.out", user=2001)
        eventually(lambda: os.path.exists(os.path.join(self.c.work, "tracer.out")) and self.c.output(holder, "tracer.out") == "0\n",
                   what="the tracer")
        self.c.ok("scancel", held)
        self.assertEqual(self.c.wait(held), "CANCELLED")
        self.assertEqual(self.c.wait(holder), "FAILED")
        self.assertEqual(self.c.run("sinfo", "-h", "-n", "n1", "-o", "%t").stdout.strip(), "idle")

    def test_a_step_that_is_the_whole_job(self):
        done = self.c.run("srun", "-w", "n1", "--mem=60", "-J", "whole", "sh", "-c", "exec " + HOG.format(200))
        self.assertIn("oom_kill event in StepId=", done.stderr)
        self.assertIn("(the last one: python3)", done.stderr)
        self.assertIn("task 0: Out Of Memory", done.stderr)
        done = self.c.run("srun", "-w", "n1", "--mem=60", "-J", "whole", "sh", "-c", HOG.format(200) + "; exit 0")
        self.assertIn("task 0: Out Of Memory", done.stderr)
        self.assertNotIn("one: sh", done.stderr)
        states = lambda: self.c.ok("sacct", "-nPXS", "now-1days", "--name=whole", "-o", "State").split()  # noqa: E731
        self.assertEqual(eventually(lambda: states() == ["OUT_OF_MEMORY"] * 2 and states()), ["OUT_OF_MEMORY"] * 2)

    def test_a_suspended_job_does_not_hold_up_its_nodes_end(self):
        def suspended():
            job = self.c.wrap("sleep 300", "-w", "n2")
            self.c.wait(job, "RUNNING")
            self.c.ok("scontrol", "suspend", job)
            self.c.wait(job, "SUSPENDED")
            return job
        jobs = [suspended()]
        self.c.pull_plug("n2")
        self.c.up()
        eventually(lambda: self.c.state(jobs[0]) in ("PENDING", "RUNNING"))
        jobs.append(suspended())
        self.c.down(delete=False)
        self.c.up()
        self.c.ok("scancel", *jobs)
        for job in jobs:
            self.c.wait(job)

    def test_a_child_that_is_killed_makes_the_job_out_of_memory(self):
        job = self.c.wrap(HOG.format(200) + " || true; sleep 0.2; exit 0", "--mem=60")
        self.assertEqual(self.c.wait(job), "OUT_OF_MEMORY")

    def test_a_daemon_is_held_to_the_limit_and_ends_with_the_job(self):
        mark = f"{os.getpid()}00"
        job = self.c.wrap(f"setsid sh -c 'trap \"\" TERM HUP; (sleep {mark}; :)' </dev/null >/dev/null 2>&1 & sleep 1", "--mem=200")
        self.assertEqual(self.c.wait(job), "COMPLETED")
        eventually(lambda: not subprocess.run(["pgrep", "-f", f"sleep {mark}"], capture_output=True).stdout)

    def test_a_fork_bomb_stays_with_its_job(self):
        bomb = self.c.wrap("python3 - <<'E'\nimport os, time\nn = 0\ntry:\n  while n < 2_000_000:\n    n += 1\n"
                           "    if os.fork() == 0: time.sleep(60)\nexcept OSError as e:\n  print('stopped', e.errno, flush=True)\n"
                           "  os._exit(7)\nE", "--mem=600", "-w", "n1", "-t", "2", user=None)
        neighbour = self.c.wrap("true", "-w", "n1")
        self.assertEqual(self.c.wait(neighbour), "COMPLETED")
        self.assertIn(self.c.wait(bomb), ("FAILED", "OUT_OF_MEMORY"))

    def test_a_pause_cannot_be_undone_by_the_job(self):
        job = self.c.wrap("( while :; do sleep 0.05; kill -CONT $$; done ) & i=0; while :; do i=$((i+1)); echo $i; sleep 0.05; done", "-w", "n2")
        eventually(lambda: len(self.output(job)) > 20)
        self.c.ok("scontrol", "suspend", job)
        eventually(lambda: self.c.state(job) == "SUSPENDED")
        eventually(lambda: "SUSPENDED" in self.c.ok("squeue", "-h", "-j", job, "-o", "%T"))
        here = self.steady_output(job)
        for pid in self.pids_of("sleep 0.05"):
            os.kill(pid, 18)
        self.assertEqual(self.output(job), here)
        self.c.ok("scontrol", "resume", job)
        eventually(lambda: len(self.output(job)) > len(here))
        self.c.ok("scontrol", "suspend", job)
        self.c.ok("scancel", job)
        self.assertEqual(self.c.wait(job), "CANCELLED")

    def output(self, job):
        try:
            return self.c.output(job)
        except FileNotFoundError:
            return ""

    def steady_output(self, job):
        """What was written before the pause was confirmed; nothing may follow."""
        last = [None]

        def same():
            now = self.output(job)
            same_as_before, last[0] = now == last[0], now
            return same_as_before
        eventually(same)
        return last[0]

    def pids_of(self, command):
        return [int(pid) for pid in subprocess.run(["pgrep", "-f", command], capture_output=True, text=True).stdout.split()]

    def test_what_it_used_is_told(self):
        job = self.c.script("#!/bin/sh\n"
                            f"srun -n2 -N2 {HOG.format(80)}\n"
                            "python3 -c 'import time\nend = time.process_time() + 0.4\nwhile time.process_time() < end: pass'\n")
        number = self.c.sbatch("-N2", "--ntasks-per-node=1", job)
        self.assertEqual(self.c.wait(number), "COMPLETED")
        rows = self.account(number, "MaxRSS", "MaxRSSTask", "TotalCPU", "UserCPU", "AveRSS", "NTasks")
        step, script = rows[f"{number}.0"], rows[f"{number}.batch"]
        self.assertTrue(80 << 10 <= int(step[0][:-1]) <= 160 << 10, step)
        self.assertIn(step[1], ("0", "1"))
        self.assertTrue(int(step[4][:-1]) >= 80 << 10, step)
        self.assertRegex(script[2], r"^00:0\d\.\d{3}$")
        seconds = float(script[2].split(":")[1])
        self.assertTrue(0.4 <= seconds < 5, script)
        total = float(rows[number][2].split(":")[1])
        self.assertTrue(total >= seconds, rows)
        self.assertEqual(rows[number][0], "")

    def test_groups_go_with_their_job_also_when_the_shim_was_killed(self):
        job = self.c.wrap("sleep 1000", "-w", "n2")
        eventually(lambda: self.c.state(job) == "RUNNING")
        group = eventually(lambda: [t for t in trees(self.c) if os.path.isdir(f"{t}/{job}-1/batch")])
        pid = int(subprocess.run(["pgrep", "-f", f"lockstep-shim.*{job}-1-batch"], capture_output=True, text=True).stdout.split()[0])
        os.kill(pid, 9)
        eventually(lambda: self.c.state(job) != "RUNNING")
        self.c.ok("scancel", job)
        eventually(lambda: not any(os.path.isdir(f"{t}/{job}-1") for t in group))


if __name__ == "__main__":
    unittest.main()
