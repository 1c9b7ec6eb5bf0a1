"""Parts of GPUs on nodes with simulated ones: MIG slices come and go with their jobs, and shares of computing time have a control
daemon of NVIDIA's Multi-Process Service, which a program of this test's plays."""
import os
import re
import subprocess
import unittest

from cluster import Cluster, eventually

ANN, BOB = 1001, 1002
# Speaks as NVIDIA's does: -f serves in the foreground, by a "control" in the folder of its pipes.
DAEMON = """#!/bin/sh
[ "$1" = -f ] || exit 2
echo "$(id -u) $CUDA_VISIBLE_DEVICES" > "$CUDA_MPS_LOG_DIRECTORY/control.log"
: > "$CUDA_MPS_PIPE_DIRECTORY/control"
exec sleep 8640%d
""" % os.getpid()
SHOWN = "echo $CUDA_VISIBLE_DEVICES; nvidia-smi -L"


def needs_simulated_gpus(what):
    what = unittest.skipIf(os.path.exists("/proc/driver/nvidia") or os.path.exists("/usr/bin/nvidia-smi"), "this machine has NVIDIA's own")(what)
    return unittest.skipIf(os.geteuid() != 0, "virtual nodes need root")(what)


class Sharing(unittest.TestCase):
    def write_program(self, text):
        folder = os.path.join(self.c.home, "programs")
        os.makedirs(folder, exist_ok=True)
        os.chmod(folder, 0o755)
        with open(os.path.join(folder, "nvidia-cuda-mps-control"), "w") as f:
            f.write(text)
        os.chmod(f.name, 0o755)
        # Where an agent looks for it, on the node alone.
        mount = ["nsenter", "-t", str(self.c.node("n1")["agent_pid"]), "-m", "mount", "--bind", folder, "/usr/local/sbin"]
        subprocess.run(mount, check=True)

    def ended(self, *jobs):
        for job in jobs:
            self.assertEqual(self.c.wait(job), "COMPLETED", self.c.output(job))
        eventually(lambda: self.c.run("squeue", "-h").stdout == "", what="nothing runs any more")

    def said(self, job):
        try:
            return self.c.output(job)
        except FileNotFoundError:
            return ""


@needs_simulated_gpus
class MigSlices(Sharing):
    @classmethod
    def setUpClass(cls):
        cls.c = Cluster(nodes=1, gpus="2xh100", cpus=8)
        cls.c.up()
        with open(cls.gpus(), "a") as f:
            f.write("mig = 0\n")
        cls.c.down(delete=False)
        cls.c.up()

    @classmethod
    def tearDownClass(cls):
        cls.c.down()

    @classmethod
    def gpus(cls):
        return os.path.join(cls.c.dir, "nodes", "n1", "gpus")

    def setUp(self):
        self.addCleanup(self.none_is_left)

    def none_is_left(self):
        for user in (ANN, BOB):
            self.c.run("scancel", "--me", user=user)
        eventually(lambda: self.c.run("squeue", "-h").stdout == "" and self.instances() == [], what="no job and no slice is left")

    def instances(self):
        """(profile, first slice) of the GPU instances on the node, as the driving file holds them."""
        with open(self.gpus()) as f:
            return sorted(re.findall(r"^gpu_instance = (.*)$", f.read(), re.M))

    def new_agent(self):
        before = self.c.node("n1")["agent_pid"]
        self.c.kill_agent("n1")
        eventually(lambda: self.c.node("n1")["agent_pid"] not in (0, before) and self.c.node("n1")["state"] != "down", 20, "a new agent")

    def test_each_job_has_a_slice_of_its_own_while_it_runs(self):
        go = os.path.join(self.c.work, "go")
        job = lambda user: self.c.wrap(SHOWN + f"; while [ ! -e {go} ]; do sleep 0.05; done", "--gres=gpu:1g.10gb:1", user=user)
        first, second = job(ANN), job(BOB)
        for one in (first, second):
            eventually(lambda: "MIG 1g.10gb" in self.said(one), what="its slice is shown")
        whole = self.c.wrap("echo $CUDA_VISIBLE_DEVICES", "--gres=gpu:h100:1")
        self.assertEqual(self.c.wait(whole), "COMPLETED")
        self.assertEqual(self.c.output(whole).strip(), "1", "the GPU in MIG mode is given out in slices alone")
        seen = []
        for one in (first, second):
            visible = self.c.output(one).splitlines()[0]
            self.assertRegex(visible, "^MIG-[0-9a-f-]{36}$")
            self.assertIn(visible, self.c.output(one).split("\n", 1)[1])
            seen.append(visible)
        self.assertEqual(len(set(seen)), 2, seen)
        self.assertEqual(len(self.instances()), 2)
        show = self.c.ok("scontrol", "show", "node", "n1", "-d")
        self.assertIn("gpu:h100:1,gpu:h100_mig:1", show)
        open(go, "w").close()
        self.ended(first, second)
        eventually(lambda: self.instances() == [], what="no slice is left")
        os.remove(go)

    def test_tasks_have_slices_of_their_own(self):
        out = self.c.ok("srun", "-Q", "-n2", "--gpus-per-task=1g.10gb:1", "sh", "-c", "echo $SLURM_PROCID $CUDA_VISIBLE_DEVICES", user=ANN)
        rows = sorted(out.splitlines())
        self.assertEqual(len(rows), 2, out)
        names = [row.split()[1] for row in rows]
        self.assertEqual(len(set(names)), 2, out)
        for name in names:
            self.assertRegex(name, "^MIG-[0-9a-f-]{36}$")
        eventually(lambda: self.instances() == [], what="the slices are gone")

    def test_steps_divide_the_slices_of_their_job(self):
        script = ("srun -Q -n1 -c1 --exact --gres=gpu:1g.10gb:1 sh -c 'echo $CUDA_VISIBLE_DEVICES; touch held$SLURM_STEP_ID; until [ $(ls held* | wc -l) = 2 ]; do sleep 0.05; done' > one &\n"
                  "srun -Q -n1 -c1 --exact --gres=gpu:1g.10gb:1 sh -c 'echo $CUDA_VISIBLE_DEVICES; touch held$SLURM_STEP_ID; until [ $(ls held* | wc -l) = 2 ]; do sleep 0.05; done' > two &\n"
                  "wait; srun -Q -n1 sh -c 'echo $CUDA_VISIBLE_DEVICES'; srun -Q -n1 --gres=none sh -c 'echo none:$CUDA_VISIBLE_DEVICES'\n"
                  "srun -Q -n1 --gres=gpu:1g.10gb:3 true; echo $?")
        folder = os.path.join(self.c.work, "slices")
        os.mkdir(folder)
        os.chown(folder, ANN, ANN)
        job = self.c.wrap(script, "--gres=gpu:1g.10gb:2", "-n2", f"--chdir={folder}", f"--output={folder}/out", user=ANN)
        self.assertEqual(self.c.wait(job), "COMPLETED")
        said = {}
        for name in ("one", "two", "out"):
            with open(os.path.join(folder, name)) as f:
                said[name] = f.read().splitlines()
        one, two = said["one"][0], said["two"][0]
        self.assertRegex(one, "^MIG-[0-9a-f-]{36}$")
        self.assertRegex(two, "^MIG-[0-9a-f-]{36}$")
        self.assertNotEqual(one, two)
        self.assertEqual(sorted(said["out"][0].split(",")), sorted([one, two]), "a step that asks for none has all")
        self.assertEqual(said["out"][1], "none:")
        self.assertIn("are too few for the step", "\n".join(said["out"]))

    def test_a_new_agent_keeps_what_runs_and_removes_what_nobody_has(self):
        go = os.path.join(self.c.work, "go-on")
        job = self.c.wrap(SHOWN + f"; while [ ! -e {go} ]; do sleep 0.05; done; {SHOWN}", "--gres=gpu:2g.20gb:1", user=ANN)
        eventually(lambda: "MIG 2g.20gb" in self.said(job), what="its slice is shown")
        before = self.instances()
        self.c.ok("srun", "-Q", "-w", "n1", "nvidia-smi", "mig", "-i", "0", "-cgi", "19", "-C")
        self.assertEqual(len(self.instances()), 2, "somebody makes one by hand")
        self.new_agent()
        self.assertEqual(len(self.instances()), 2, "what an administrator made is left alone")
        uuid = re.search(r"GPU 0: .*UUID: (GPU-[^)]*)", self.c.output(job)).group(1)
        other = (set(self.instances()) - set(before)).pop()
        with open(os.path.join(self.c.dir, "nodes", "n1", "state", "mig_slices"), "a") as f:
            f.write(f"{uuid} 1g.10gb {other.split()[3]}\n")
        self.new_agent()
        eventually(lambda: self.instances() == before, what="one that the agent made and no job has is gone")
        open(go, "w").close()
        self.ended(job)
        lines = self.c.output(job).splitlines()
        self.assertEqual(lines[: len(lines) // 2], lines[len(lines) // 2:], "nothing has changed for the job")
        eventually(lambda: self.instances() == [], what="no slice is left")

    def test_what_cannot_be_made_closes_the_node(self):
        self.c.ok("srun", "-Q", "-w", "n1", "nvidia-smi", "mig", "-i", "0", "-cgi", "0", "-C")
        job = self.c.wrap("true", "--gres=gpu:1g.10gb:1", user=ANN)
        eventually(lambda: "MIG slice 1g.10gb" in self.c.ok("scontrol", "show", "node", "n1"), what="the reason stands at the node")
        self.assertEqual(self.c.state(job), "PENDING")
        self.c.ok("scancel", job, user=ANN)
        self.c.ok("scontrol", "update", "nodename=n1", "state=resume")
        for what in ("-dci", "-dgi"):
            self.c.ok("srun", "-Q", "-w", "n1", "nvidia-smi", "mig", "-i", "0", what)
        self.ended(self.c.wrap("true", "--gres=gpu:1g.10gb:1", user=ANN))


@needs_simulated_gpus
class Shares(Sharing):
    def setUp(self):
        self.c = Cluster(nodes=1, gpus="1xh100", cpus=8)
        self.addCleanup(self.c.down)
        self.c.up()

    def test_each_job_has_a_daemon_of_its_own(self):
        self.write_program(DAEMON)
        go = os.path.join(self.c.work, "go")
        says = ("echo $CUDA_VISIBLE_DEVICES $CUDA_MPS_ACTIVE_THREAD_PERCENTAGE $CUDA_MPS_PINNED_DEVICE_MEM_LIMIT; echo $CUDA_MPS_PIPE_DIRECTORY; "
                "ls $CUDA_MPS_PIPE_DIRECTORY; cat $CUDA_MPS_LOG_DIRECTORY/control.log; echo said; "
                f"while [ ! -e {go} ]; do sleep 0.05; done")
        ann, bob = (self.c.wrap(says, f"--gres=mps:{share}", user=user) for user, share in ((ANN, 50), (BOB, 25)))
        folders = []
        for job, user, share in ((ann, ANN, 50), (bob, BOB, 25)):
            eventually(lambda: "said" in self.said(job), what=f"job {job} runs")
            lines = self.c.output(job).splitlines()
            gpu, percent, memory = lines[0].split()
            self.assertRegex(gpu, "^GPU-[0-9a-f-]{36}$")
            self.assertEqual(percent, str(share))
            self.assertEqual(memory, f"0={81559 * share // 100}M")
            self.assertIn("control", lines)
            self.assertIn(f"{user} {gpu}", lines, "the daemon is the user's, and serves this GPU")
            folders.append(lines[1])
        self.assertNotEqual(*folders)
        denied = self.c.run("srun", "-Q", "--gres=none", "ls", folders[0], user=BOB)
        self.assertNotEqual(denied.returncode, 0, "nobody else reaches it")
        agent = self.c.node("n1")["agent_pid"]
        self.c.kill_agent("n1")
        eventually(lambda: self.c.node("n1")["agent_pid"] not in (0, agent), 20, "a new agent")
        open(go, "w").close()
        self.ended(ann, bob)
        pattern = f"^sleep 8640{os.getpid()}$"
        eventually(lambda: not subprocess.run(["pgrep", "-f", pattern], capture_output=True).stdout, what="the daemons are gone")
        eventually(lambda: self.c.ok("srun", "-Q", "ls", os.path.dirname(folders[0])) == "", what="so are their folders")

    def test_without_the_program_the_driver_shares_time(self):
        job = self.c.wrap("env | grep -c CUDA_MPS; echo $CUDA_VISIBLE_DEVICES", "--gres=mps:50", user=ANN)
        self.ended(job)
        said = self.c.output(job).splitlines()
        self.assertEqual(said[1:], ["0", "0"], said)
        self.assertIn("time slicing alone: nvidia-cuda-mps-control is not in the PATH", said[0])

    def test_a_daemon_that_fails_holds_nobody_up(self):
        self.write_program("#!/bin/sh\nexit 1\n")
        job = self.c.wrap("env | grep -c CUDA_MPS; true", "--gres=mps:50", user=ANN)
        self.ended(job)
        said = self.c.output(job).splitlines()
        self.assertEqual(said[1:], ["0"], said)
        self.assertIn("time slicing alone: nvidia-cuda-mps-control ended by itself", said[0])

    def test_shards_are_used_in_turns(self):
        self.write_program(DAEMON)
        jobs = [self.c.wrap("env | grep -c CUDA_MPS; echo $CUDA_VISIBLE_DEVICES $SLURM_SHARDS_ON_NODE; sleep 0.5", "--gres=shard:4", user=user) for user in (ANN, BOB)]
        eventually(lambda: all(self.c.state(job) == "RUNNING" for job in jobs), what="both run on the one GPU")
        self.ended(*jobs)
        for job in jobs:
            self.assertEqual(self.c.output(job).split(), ["0", "0", "4"])


if __name__ == "__main__":
    unittest.main()
