"""Real GPUs: what Lockstep finds, shows and measures, against NVIDIA's nvidia-smi. Run it where there are some, after ./dev build -p release:

    python3 tests/hardware/gpus_test.py

What it cannot check there it skips, and says why. It changes no setting of a GPU."""
import csv
import json
import os
import re
import shutil
import subprocess
import sys
import unittest

TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, os.path.join(TOP, "tests", "e2e"))
OURS = os.path.join(TOP, "build", "release", "lib", "simulated-gpus", "nvidia-smi")
THEIRS = shutil.which("nvidia-smi")


def query(program, fields, *options):
    """Rows of --query-gpu, by field."""
    env = {k: v for k, v in os.environ.items() if k not in ("LD_LIBRARY_PATH", "LOCKSTEP_STANDIN_NVML")}
    done = subprocess.run([program, "--query-gpu=" + ",".join(fields), "--format=csv,noheader,nounits", *options], capture_output=True,
                          text=True, timeout=60, env=env)
    if done.returncode != 0:
        raise AssertionError(f"{program} ended with {done.returncode}: {done.stdout}{done.stderr}")
    return [dict(zip(fields, (cell.strip() for cell in row))) for row in csv.reader(done.stdout.splitlines())]


@unittest.skipIf(not THEIRS or subprocess.run([THEIRS or "false", "-L"], capture_output=True).returncode != 0,
                 "no NVIDIA GPU here: nvidia-smi is missing or finds none")
class RealGpus(unittest.TestCase):
    """Our nvidia-smi reads NVML by the same library as the agent; on a real driver both must say the same."""

    def same(self, *fields):
        ours, theirs = query(OURS, ["index", *fields]), query(THEIRS, ["index", *fields])
        self.assertEqual(len(ours), len(theirs))
        for mine, its in zip(ours, theirs):
            unknown = [f for f in fields if its[f] in ("[N/A]", "[Not Supported]", "[Unknown Error]") or mine[f] == "[N/A]"]
            for field in unknown:
                print(f"GPU {its['index']}: {field} is not compared: NVIDIA's says {its[field]}, ours {mine[field]}", file=sys.stderr)
            self.assertEqual({f: mine[f] for f in fields if f not in unknown}, {f: its[f] for f in fields if f not in unknown})

    def near(self, field, slack):
        ours, theirs = query(OURS, [field]), query(THEIRS, [field])
        for index, (mine, its) in enumerate(zip(ours, theirs)):
            if "[" in mine[field] + its[field]:
                print(f"GPU {index}: {field} is not compared: NVIDIA's says {its[field]}, ours {mine[field]}", file=sys.stderr)
                continue
            self.assertLessEqual(abs(float(mine[field]) - float(its[field])), slack, (index, field, mine, its))

    def test_inventory(self):
        self.same("name", "uuid", "pci.bus_id", "memory.total", "driver_version", "vbios_version", "serial", "compute_cap")

    def test_modes(self):
        self.same("persistence_mode", "compute_mode", "ecc.mode.current", "mig.mode.current")

    def test_errors(self):
        self.same("ecc.errors.uncorrected.volatile.total", "ecc.errors.corrected.volatile.total", "remapped_rows.uncorrectable",
                  "remapped_rows.pending", "remapped_rows.failure")

    def test_telemetry(self):
        self.same("clocks.max.sm", "clocks.max.memory", "power.default_limit", "enforced.power.limit")
        self.near("temperature.gpu", 5)
        self.near("power.draw", 150)
        self.near("memory.used", 1024)
        self.near("clocks.mem", 5000)

    def test_visibility_changes_nothing_for_nvidia_smi(self):
        env = dict(os.environ, CUDA_VISIBLE_DEVICES="")
        seen = subprocess.run([OURS, "-L"], capture_output=True, text=True, env=env).stdout
        self.assertEqual(len([line for line in seen.splitlines() if line.startswith("GPU ")]), len(query(THEIRS, ["index"])))

    def test_topology_parses(self):
        out = subprocess.run([OURS, "topo", "-m"], capture_output=True, text=True)
        self.assertEqual(out.returncode, 0, out.stdout)
        count = len(query(THEIRS, ["index"]))
        if count < 2:
            self.skipTest("one GPU here: nothing is joined")
        theirs = subprocess.run([THEIRS, "topo", "-m"], capture_output=True, text=True).stdout
        cells = lambda text: [line.split()[1:count + 1] for line in text.splitlines() if line.startswith("GPU")][:count]  # noqa: E731
        self.assertEqual(cells(out.stdout), cells(theirs))

    def test_the_agent_s_node(self):
        """A node of this machine has the GPUs that nvidia-smi lists, and a job sees as many as it asks for."""
        from cluster import Cluster
        with Cluster(nodes=0) as c:
            theirs = query(THEIRS, ["uuid", "mig.mode.current"])
            whole = [gpu for gpu in theirs if gpu["mig.mode.current"] != "Enabled"]
            if not whole:
                self.skipTest("every GPU here is in MIG mode")
            shown = c.ok("scontrol", "show", "node")
            self.assertRegex(shown, rf"gpu:\w+:{len(theirs)}|gres/gpu={len(theirs)}")
            visible = c.ok("srun", "-Q", "--gpus=1", "sh", "-c", "echo $CUDA_VISIBLE_DEVICES").strip()
            self.assertEqual(len(visible.split(",")), 1)
            try:
                import torch
            except ImportError:
                self.skipTest("torch is not installed: whether CUDA sees one GPU was not tried")
            if not torch.version.cuda:
                self.skipTest("this torch has no CUDA: whether CUDA sees one GPU was not tried")
            seen = c.ok("srun", "-Q", "--gpus=1", sys.executable, "-c", "import torch; print(torch.cuda.device_count())", timeout=120)
            self.assertEqual(seen.strip(), "1")

    def test_a_mig_slice_comes_and_goes_with_its_job(self):
        from cluster import Cluster, eventually
        in_mode = [gpu["index"] for gpu in query(THEIRS, ["index", "mig.mode.current"]) if gpu["mig.mode.current"] == "Enabled"]
        if not in_mode or os.geteuid() != 0:
            self.skipTest("no GPU here is in MIG mode (nvidia-smi -mig 1), or this is not root: no slice was made")
        instances = lambda: subprocess.run([THEIRS, "mig", "-lgi"], capture_output=True, text=True).stdout  # noqa: E731
        profiles = subprocess.run([THEIRS, "mig", "-i", in_mode[0], "-lgip"], capture_output=True, text=True).stdout
        smallest = re.search(r"MIG (1g\.\d+gb) ", profiles).group(1)
        before = instances()
        with Cluster(nodes=0) as c:
            seen = c.ok("srun", "-Q", f"--gres=gpu:{smallest}:1", "sh", "-c", "echo $CUDA_VISIBLE_DEVICES; nvidia-smi -L", timeout=120)
            visible = seen.splitlines()[0]
            self.assertTrue(visible.startswith("MIG-"), seen)
            self.assertIn(visible, seen.split("\n", 1)[1])
            eventually(lambda: instances() == before, what="the slice is gone")

    def test_a_share_is_served_by_nvidia_s_daemon(self):
        from cluster import Cluster
        if not shutil.which("nvidia-cuda-mps-control", path="/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"):
            self.skipTest("nvidia-cuda-mps-control is not installed: no daemon was started")
        with Cluster(nodes=0) as c:
            out = c.ok("srun", "-Q", "--gres=mps:50", "sh", "-c", "echo get_default_active_thread_percentage | nvidia-cuda-mps-control; "
                       "echo $CUDA_MPS_ACTIVE_THREAD_PERCENTAGE", timeout=120)
            self.assertEqual([float(line) for line in out.split()], [100.0, 50.0], "the daemon answers, and the task has its share")


BUSY = """
import sys, time, torch
a = torch.randn(8192, 8192, device="cuda", dtype=torch.bfloat16)
end = time.monotonic() + float(sys.argv[1])
while time.monotonic() < end:
    for _ in range(50):
        b = a @ a
    torch.cuda.synchronize()
print("sum", torch.isfinite(b).all().item(), flush=True)
"""

SHARED = """
import os, pickle, sys, time, torch
from torch.multiprocessing.reductions import reduce_tensor
path, rank = sys.argv[1], int(os.environ["SLURM_PROCID"])
def wait(name):
    for _ in range(600):
        if os.path.exists(name):
            return
        time.sleep(0.1)
    sys.exit("waited in vain for " + name)
if rank == 0:
    tensor = torch.arange(1000, device="cuda", dtype=torch.float64)
    torch.cuda.synchronize()
    with open(path + ".new", "wb") as f:
        pickle.dump(reduce_tensor(tensor), f)
    os.rename(path + ".new", path)
    wait(path + ".read")
    print("first now", tensor[0].item())
else:
    wait(path)
    with open(path, "rb") as f:
        make, args = pickle.load(f)
    other = make(*args)
    print("the other's sum", other.sum().item())
    other[0] = 7
    torch.cuda.synchronize()
    open(path + ".read", "w").close()
"""


def cuda_python():
    done = subprocess.run([sys.executable, "-c", "import torch; print(torch.version.cuda, torch.cuda.is_available())"], capture_output=True, text=True)
    return done.returncode == 0 and done.stdout.split()[-1] == "True"


@unittest.skipUnless(THEIRS and cuda_python(), "no NVIDIA GPU here, or no torch that sees it: jobs were not run on one")
class JobsOnRealGpus(unittest.TestCase):
    """What jobs find on a real GPU: their own, nobody else's, and as much of it as they were promised."""

    @classmethod
    def setUpClass(cls):
        from cluster import Cluster
        cls.c = Cluster(nodes=0)
        cls.c.up()
        for name, text in (("busy.py", BUSY), ("shared.py", SHARED)):
            with open(os.path.join(cls.c.work, name), "w") as f:
                f.write(text)

    @classmethod
    def tearDownClass(cls):
        cls.c.down()

    def python(self, *words):
        return [sys.executable, *words]

    def test_who_asked_for_none_opens_none(self):
        opens = "import os\ntry:\n os.open('/dev/nvidia0', os.O_RDWR); print('open')\nexcept OSError as e:\n print(e.errno)"
        self.assertEqual(self.c.ok("srun", "-Q", "--gpus=1", *self.python("-c", opens)).strip(), "open")
        said = self.c.ok("srun", "-Q", *self.python("-c", opens)).strip()
        with open("/proc/self/cgroup") as f:
            if said == "open" and self.c.ok("srun", "-Q", "cat", "/proc/self/cgroup") == f.read():
                self.skipTest("no control groups here (lockstep doctor says why): device files are open to everybody")
        self.assertEqual(said, "1")
        self.assertEqual(self.c.ok("srun", "-Q", *self.python("-c", "import torch; print(torch.cuda.is_available())"), timeout=120).strip(), "False")

    def test_whole_gpus_are_one_jobs_at_a_time(self):
        count = len(query(THEIRS, ["index"]))
        holds = [self.c.wrap("sleep 3", "--gpus=1") for _ in range(count + 1)]
        for job in holds:
            self.assertEqual(self.c.wait(job), "COMPLETED")
        times = [self.c.ok("sacct", "-nXPj", job, "-oStart,End").strip().split("|") for job in holds]
        self.assertGreaterEqual(max(start for start, _ in times), min(end for _, end in times))

    def test_what_it_used_is_told(self):
        job = self.c.wrap(f"srun --gpus=1 {sys.executable} {self.c.work}/busy.py 12", "--gpus=1")
        self.assertEqual(self.c.wait(job, timeout=120), "COMPLETED")
        self.assertIn("sum True", self.c.output(job))
        told = self.c.ok("sacct", "-nPj", f"{job}.0", "-oTRESUsageInAve,TRESUsageInMax").strip()
        print(f"sacct says of 12 s of matrix products: {told}", file=sys.stderr)
        average, most = (dict(pair.split("=") for pair in part.split(",")) for part in told.split("|"))
        self.assertGreater(int(average["gres/gpuutil"]), 20)
        self.assertRegex(most["gres/gpumem"], r"^[1-9]")

    def test_tasks_of_one_job_share_memory_of_a_gpu(self):
        said = self.c.ok("srun", "-Q", "-n2", "--gpus=1", *self.python(os.path.join(self.c.work, "shared.py"), os.path.join(self.c.work, "handle")), timeout=180)
        self.assertEqual(sorted(said.splitlines()), ["first now 7.0", "the other's sum 499500.0"])

    def test_a_container_computes(self):
        """The machine's own programs in another root, with the GPU's device files as the driver's libraries need them."""
        if not shutil.which("runc") and not shutil.which("crun"):
            self.skipTest("neither runc nor crun is installed: no container was tried")
        bundle = os.path.join(self.c.work, "bundle")
        os.makedirs(os.path.join(bundle, "rootfs", "etc"))
        for name in ("passwd", "group", "ld.so.cache"):
            shutil.copy(os.path.join("/etc", name), os.path.join(bundle, "rootfs", "etc"))
        with open(os.path.join(bundle, "config.json"), "w") as f:
            json.dump({"ociVersion": "1.0.2", "root": {"path": "rootfs"},
                       "process": {"args": ["sh"], "cwd": "/", "env": ["PATH=/usr/local/bin:/usr/bin:/bin"]}}, f)
        folders = [folder for folder in ("/usr", "/bin", "/lib", "/lib64", "/opt") if os.path.isdir(folder)]
        done = self.c.run("srun", "-Q", "--gpus=1", f"--container={bundle}", "--container-mounts=" + ",".join(f"{x}:{x}:ro" for x in folders),
                          sys.executable, "-c", "import torch; a = torch.ones(1000, device='cuda'); print(a.sum().item())", timeout=120)
        self.assertEqual(done.stdout, "1000.0\n", done.stderr)

    def test_shards_run_side_by_side(self):
        jobs = [self.c.wrap(f"{sys.executable} {self.c.work}/busy.py 8", "--gres=shard:4") for _ in range(2)]
        for job in jobs:
            self.assertEqual(self.c.wait(job, timeout=120), "COMPLETED")
            self.assertIn("sum True", self.c.output(job))
        (start, end), (other_start, other_end) = (self.c.ok("sacct", "-nXPj", job, "-oStart,End").strip().split("|") for job in jobs)
        self.assertLess(max(start, other_start), min(end, other_end))

    def test_mps_holds_a_job_to_its_threads(self):
        if not shutil.which("nvidia-cuda-mps-control"):
            self.skipTest("nvidia-cuda-mps-control is not installed: a share by MPS was not tried")
        count = "import torch; print('processors', torch.cuda.get_device_properties(0).multi_processor_count)"
        whole = int(subprocess.run(self.python("-c", count), capture_output=True, text=True).stdout.split()[-1])
        job = self.c.wrap(f"{sys.executable} -c \"{count}\"; env | grep CUDA_MPS", "--gres=mps:50")
        self.assertEqual(self.c.wait(job, timeout=120), "COMPLETED", self.c.output(job))
        said = self.c.output(job)
        print(f"under mps:50 of {whole} multiprocessors: {said}", file=sys.stderr)
        self.assertLessEqual(int(re.search(r"processors (\d+)", said).group(1)), (whole + 1) // 2 + 1)


if __name__ == "__main__":
    unittest.main(verbosity=2)
