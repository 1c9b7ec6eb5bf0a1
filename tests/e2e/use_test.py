"""What work uses, while it runs and afterwards: sstat, sacct, seff, nodes' load, metrics; and GPUs that fail in the middle of a job."""
import json
import os
import re
import subprocess
import time
import unittest

from cluster import Cluster, eventually

USER = 60123


class Measured(Cluster):
    """Agents that measure every second."""

    def __init__(self, **more):
        super().__init__(**more)
        self.settings = os.path.join(self.home, "agent-settings.json")
        with open(self.settings, "w") as f:
            json.dump({"sampling": {"work_s": 1}, "health": {"look_s": 1}}, f)
        self.args += ["--agent-settings", self.settings]

    def parts(self, job, fields, *more, user=None):
        """sstat's rows as dictionaries, by JobID."""
        out = self.run("sstat", "-nPa", "-j", job, "-o", "jobid," + fields, *more, user=user).stdout
        rows = [line.split("|") for line in out.splitlines()]
        return {row[0]: dict(zip(fields.split(","), row[1:])) for row in rows}

    def row(self, job, fields):
        out = self.ok("sacct", "-nP", "-j", job, "-o", fields)
        return dict(zip(fields.split(","), out.splitlines()[0].split("|")))


def mib(text):
    return int(text.rstrip("K")) / 1024 if text else 0


def seconds(text):
    parts = [float(part) for part in text.split(":")] if text else [0]
    return sum(part * 60 ** i for i, part in enumerate(reversed(parts)))


def tres(text):
    return dict(part.split("=") for part in text.split(",")) if text else {}


HOLD = """import os, sys, time
held = bytearray(int(sys.argv[1]) << 20)
if os.fork() == 0:
    more = bytearray(int(sys.argv[1]) << 20)
    time.sleep(100)
end = time.process_time() + float(sys.argv[2])
while time.process_time() < end: pass
open(sys.argv[3], "w").close()
time.sleep(100)
"""


class Work(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.c = Measured(nodes=2, gpus="4xh100", cpus=8)
        cls.c.up()
        with open(os.path.join(cls.c.work, "hold.py"), "w") as f:
            f.write(HOLD)

    @classmethod
    def tearDownClass(cls):
        cls.c.down()

    def test_a_step_of_many_processes_on_two_nodes(self):
        c = self.c
        script = c.script("#!/bin/bash\n#SBATCH -N2 --ntasks-per-node=1\n"
                          "srun sh -c 'exec python3 hold.py $((60 + 40 * SLURM_PROCID)) 1 done.$SLURM_PROCID'\n")
        job = c.sbatch(script, user=USER)
        for rank in (0, 1):
            eventually(lambda: os.path.exists(os.path.join(c.work, f"done.{rank}")), 30, "both to have computed")
        step = f"{job}.0"
        fields = "ntasks,nodelist,maxrss,maxrsstask,maxrssnode,averss,avecpu,mincpu,tresusageintot"
        full = lambda row: row and row["maxrsstask"] == "1" and mib(row["maxrss"]) > 300 and seconds(row["mincpu"]) >= 1
        row = eventually(lambda: (lambda row: row if full(row) else None)(c.parts(job, fields).get(step)), 20, "what it uses")
        self.assertEqual((row["ntasks"], row["nodelist"]), ("2", "n[1-2]"))
        # The child has its own 100 MiB and the pages that it shares with its parent, which count for both, as in Slurm.
        self.assertLess(mib(row["maxrss"]), 340)
        self.assertIn(row["maxrssnode"], ("n1", "n2"))
        self.assertTrue(240 < mib(row["averss"]) < mib(row["maxrss"]), row)
        self.assertGreaterEqual(seconds(tres(row["tresusageintot"])["cpu"]), 2)

        # Its processes, as its nodes number them.
        pids = c.ok("sstat", "-nPi", "-j", step, user=USER).splitlines()
        self.assertEqual([line.rsplit("|", 1)[0] for line in pids], [f"{step}|n1", f"{step}|n2"])
        for line in pids:
            _, node, pid = line.split("|")
            inside = subprocess.run(["nsenter", "-t", str(c.node(node)["agent_pid"]), "-p", "-m", "cat", f"/proc/{pid}/cmdline"],
                                    capture_output=True, text=True).stdout
            self.assertIn("hold.py", inside)

        # What is left out is said; what Slurm has and nobody measures is an empty column.
        both = c.run("sstat", "-nPai", "-j", f"{job},99999", user=USER)
        self.assertEqual(both.returncode, 0)
        self.assertIn(f"sstat: error: {job}.batch: the processes of a job's script are not told\n", both.stderr)
        self.assertIn("sstat: error: no steps running for job 99999\n", both.stderr)
        self.assertEqual(c.ok("sstat", "-nP", "-j", step, "-o", "JobID,MaxVMSize,AveCPUFreq,NTasks", user=USER), f"{step}|||2\n")

        # A job alone means its lowest step; its own user and administrators see it, others do not.
        self.assertEqual(c.ok("sstat", "-nP", "-j", job, "-o", "jobid", user=USER), step + "\n")
        self.assertEqual(sorted(c.parts(job, "ntasks", user=USER)), [step, f"{job}.batch"])
        other = c.run("sstat", "-nP", "-j", job, user=USER + 1)
        self.assertEqual((other.returncode, other.stdout), (1, ""))
        self.assertIn(f"no steps running for job {job}", other.stderr)

        # At the end that is what accounting has, though no single process held so much.
        c.ok("scancel", job)
        c.wait(job)
        after = eventually(lambda: (lambda row: row if row["maxrss"] else None)(c.row(step, "maxrss,maxrsstask,totalcpu")))
        self.assertGreaterEqual(mib(after["maxrss"]), mib(row["maxrss"]))
        self.assertEqual(after["maxrsstask"], "1")
        self.assertGreaterEqual(seconds(after["totalcpu"]), 2)
        gone = c.run("sstat", "-j", step)
        self.assertEqual((gone.returncode, "no steps running" in gone.stderr), (1, True))

    def test_gpus(self):
        c = self.c
        # Of the shell, too: a sample of its first moment would find what a process does of which nothing is said.
        job = c.wrap("sleep 100; true", "-w", "n1", "--gpus=2", user=USER, env={"SIMULATED_GPU_LOAD": "50,3000"})
        part = f"{job}.batch"
        share = lambda: tres(c.parts(job, "tresusageinmax").get(part, {}).get("tresusageinmax"))
        used = eventually(lambda: (lambda t: t if int(t.get("gres/gpuutil", 0)) >= 60 else None)(share()), 30, "its GPU time")
        self.assertEqual(used["gres/gpumem"], "3000M")
        self.assertLessEqual(int(used["gres/gpuutil"]), 110)  # half of each of two
        metrics = lambda: c.ok("curl", "-s", "--unix-socket", c.env["LOCKSTEP_SOCKET"], "http://lockstep/metrics")
        busy = eventually(lambda: {m[1] for m in re.finditer(r'lockstep_gpu_busy_percent\{node="n1",gpu="(\d)"\} 50\n', metrics())}
                          or None, 20, "metrics of GPUs")
        self.assertEqual(len(busy), 2)
        devices = c.api("GET", "/v1/nodes/n1/use")["use"]["devices"]
        self.assertEqual(sorted(d["busy_percent"] for d in devices), [0, 0, 50, 50])
        self.assertEqual(c.api("GET", f"/v1/steps/{part}/use")["use"]["gpu_memory_peak"], 3000 << 20)
        self.assertRegex(metrics(), r'lockstep_node_memory_free_mb\{node="n2"\} \d+\n')
        time.sleep(1)
        c.ok("scancel", job)
        c.wait(job)
        said = eventually(lambda: (lambda t: t if "GPU Utilized" in t else None)(c.run("seff", job).stdout))
        self.assertIn("GPUs: 2\n", said)
        # Half of the time, but for what whole seconds and the interval of samples leave open in a job of a few seconds.
        self.assertRegex(said, r"GPU Efficiency: [3-7]\d\.\d\d% of 00:00:\d\d GPU-walltime\n")
        self.assertIn("GPU Memory Utilized: 2.93 GB", said)
        self.assertIn("gres/gpumem=3000M", c.row(part, "tresusageinmax")["tresusageinmax"])

    def test_load_and_memory_of_nodes(self):
        c = self.c
        node = eventually(lambda: (lambda m: m if m and m[1] != "N/A" else None)(
            re.search(r"CPULoad=(\S+)[\s\S]*FreeMem=(\S+)", c.ok("scontrol", "show", "node", "n2"))), 20, "its load")
        self.assertRegex(node[1], r"^\d+\.\d\d$")
        with open("/proc/meminfo") as f:
            total = int(re.search(r"MemTotal:\s+(\d+)", f.read())[1]) / 1024
        self.assertTrue(0 < int(node[2]) <= total)
        self.assertRegex(c.ok("sinfo", "-h", "-N", "-n", "n2", "-o", "%N %O %e"), r"^n2 \d+\.\d\d +\d+$")
        self.assertRegex(c.ok("sinfo", "-h", "-n", "n2", "-O", "cpusload,freemem"), r"^\d+\.\d\d +\d+ *$")
        self.assertIn('"free_mem"', c.ok("sinfo", "--json"))

    def test_use_outlives_the_agent(self):
        c = self.c
        job = c.wrap("export SIMULATED_GPU_LOAD=100,1000; sleep 100; true", "-w", "n2", "--gpus=1")
        gpu = lambda: int(tres(c.parts(job, "tresusageintot").get(f"{job}.batch", {}).get("tresusageintot")).get("gres/gpuutil", 0))
        eventually(lambda: gpu() >= 50, 20, "its GPU time")
        c.kill_agent("n2")
        eventually(lambda: c.state(job) == "RUNNING" and gpu() >= 50, 30, "the next agent to go on")
        c.ok("scancel", job)
        c.wait(job)
        eventually(lambda: "gres/gpuutil" in c.row(f"{job}.batch", "tresusageintot")["tresusageintot"])

    def test_sstat_wrongly(self):
        c = self.c
        for words, what in (((), "no job is named"), (("-j", "x"), "x"), (("-j", "1", "-o", "nothing"), "Invalid field"),
                            (("-j", "99999", "-i"), "no steps running for job 99999"), (("-j", "99999"), "no steps running for job 99999")):
            said = c.run("sstat", *words)
            self.assertEqual(said.returncode, 1, words)
            self.assertIn(what, said.stderr, words)
        self.assertIn("MaxRSSTask", c.ok("sstat", "-e"))
        self.assertIn("--allsteps", c.ok("sstat", "--help"))


class Faults(unittest.TestCase):
    def test_a_gpu_falls_off_the_bus(self):
        with Measured(nodes=1, gpus="4xh100", cpus=8) as c:
            # Of four jobs with a GPU each, the one whose GPU is lost ends, and says why.
            jobs = [c.wrap("echo $SLURM_JOB_GPUS; sleep 100", "--gpus=1", "--no-requeue") for _ in range(2)]
            again = c.wrap("echo run ${SLURM_RESTART_COUNT:-0}; sleep 100", "--gpus=1", "--requeue")
            for job in jobs + [again]:
                c.wait(job, "RUNNING")
            gpu = {job: int(c.show(job)["JOB_GRES"].split("IDX:")[1].rstrip(")")) if "IDX" in c.show(job).get("JOB_GRES", "")
                   else int(eventually(lambda: c.output(job).strip())) for job in jobs}
            lost = gpu[jobs[1]]
            c.ok("lockstep", "node", "fault", "n1", str(lost), "xid=79", "--dir", c.dir)
            self.assertEqual(c.wait(jobs[1], timeout=30), "NODE_FAIL")
            reason = eventually(lambda: c.row(jobs[1], "reason")["reason"])
            self.assertRegex(reason, rf"GPU {lost} \(GPU-\S+\) has fallen off the bus: Xid 79")
            # The node says what it has, stays open, and gives that GPU to nobody.
            said = eventually(lambda: (lambda t: t if "Xid 79" in t else None)(c.ok("scontrol", "show", "node", "n1")), 20)
            self.assertRegex(said, rf"suspect: gpu: GPU {lost} \(GPU-\S+\) has fallen off the bus: Xid 79")
            self.assertNotIn("DRAIN", said)
            self.assertEqual(c.state(jobs[0]), "RUNNING")
            more = c.wrap("echo $SLURM_JOB_GPUS; sleep 100", "--gpus=1")
            c.wait(more, "RUNNING")
            self.assertNotEqual(int(eventually(lambda: c.output(more).strip())), lost)
            self.assertEqual(c.state(c.wrap("true", "--gpus=1")), "PENDING")

            # One that may run again does so elsewhere; `lost` is told without any Xid.
            shown = eventually(lambda: c.output(again).strip())
            self.assertEqual(shown.split("\n")[-1], "run 0")
            taken = {int(i) for i in range(4)} - {gpu[jobs[0]], lost, int(c.output(more).strip())}
            c.ok("scancel", jobs[0], more)
            c.ok("lockstep", "node", "fault", "n1", str(taken.pop()), "lost", "--dir", c.dir)
            eventually(lambda: c.output(again).strip().split("\n")[-1] == "run 1", 40, "its second run")
            # What the run that the GPU ended has used is kept.
            runs = lambda: [line.split("|")[1] for line in c.ok("sacct", "-DnP", "-j", again, "-o", "jobid,maxrss").splitlines()
                            if line.startswith(f"{again}.batch|")]
            eventually(lambda: len(runs()) == 2 and runs()[0], 20, "the use of its first run")

            # Mended, the GPU gets work again.
            c.ok("lockstep", "node", "fault", "n1", str(lost), "none", "--dir", c.dir)
            eventually(lambda: f"GPU {lost} (" not in c.ok("scontrol", "show", "node", "n1"), 20, "the node to be whole")


if __name__ == "__main__":
    unittest.main()
