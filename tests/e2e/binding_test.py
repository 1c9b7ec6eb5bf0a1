"""Tasks beside their GPUs: which GPUs a task sees, that all of its job's stay open to it, and where its memory comes from. The
node's two sockets are played: what the kernel shows of its NUMA nodes is exchanged in the node's own view."""
import os
import re
import subprocess
import unittest

from cluster import Cluster, eventually

ANN = 1001
VISIBLE = "echo $SLURM_PROCID $CUDA_VISIBLE_DEVICES"


@unittest.skipIf(os.geteuid() != 0, "virtual nodes need root")
@unittest.skipIf(os.path.exists("/proc/driver/nvidia"), "this machine has NVIDIA's own GPUs")
class Binding(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.c = Cluster(nodes=1, gpus="4xh100", cpus=8)
        cls.c.up()

    @classmethod
    def tearDownClass(cls):
        cls.c.down()

    def by_rank(self, *options, command=VISIBLE):
        self.c.idle()
        out = self.c.ok("srun", "-Q", *options, "sh", "-c", command, user=ANN)
        return [line.partition(" ")[2] for line in sorted(out.splitlines())]

    def test_gpus_of_tasks(self):
        for options, seen in (
                (("-n4", "--gpus-per-task=1"), ["0", "1", "2", "3"]),
                (("-n2", "--gpus=4", "--gpu-bind=per_task:2"), ["0,1", "2,3"]),
                (("-n4", "--gpus=2", "--gpu-bind=single:2"), ["0", "0", "1", "1"]),
                (("-n4", "--gpus=2", "--ntasks-per-gpu=2"), ["0", "0", "1", "1"]),
                (("-n3", "--gpus=4", "--gpu-bind=map_gpu:3*2,1"), ["3", "3", "1"]),
                (("-n2", "--gpus=4", "--gpu-bind=verbose,mask_gpu:0x3,0xc"), ["0,1", "2,3"]),
                (("-n2", "--gpus=4", "--gpu-bind=none"), ["0,1,2,3"] * 2),
                (("-n2", "--gpus=4"), ["0,1,2,3"] * 2)):
            with self.subTest(options=options):
                self.assertEqual(self.by_rank(*options), seen)

    def test_bindings_are_said_where_that_is_asked_for(self):
        self.c.idle()
        done = self.c.run("srun", "-Q", "-n2", "--cpu-bind=verbose,map_cpu:0,1", "--mem-bind=verbose,map_mem:0", "sh", "-c", "echo $$")
        self.assertEqual(done.returncode, 0, done.stderr)
        pids = done.stdout.split()
        lines = re.findall(r"(cpu|mem)-bind=(\w+) - n1, task  (\d)  (\d) \[(\d+)\]: mask (0x[0-9a-f]+)( set)?\n", done.stderr)
        self.assertEqual((len(lines), "".join(done.stderr).count("\n")), (4, 4), done.stderr)
        self.assertEqual(sorted((what, rank, local) for what, _, rank, local, *_ in lines),
                         [(what, n, n) for what in ("cpu", "mem") for n in "01"])
        self.assertEqual({pid for *_, pid, _, _ in lines}, set(pids))
        self.assertEqual({(kind, mask, done) for what, kind, _, _, _, mask, done in lines if what == "mem"}, {("MASK", "0x1", " set")})
        said = self.c.run("srun", "-n2", "--gpus=4", "--gpu-bind=map_gpu:1,7", "true").stderr
        self.assertIn("srun: warning: --gpu-bind=map_gpu:1,7 names GPU 7, and the step has 4 on a node: what is not there binds nothing\n", said)
        self.assertNotIn("warning", self.c.run("srun", "-n2", "--gpus=4", "--gpu-bind=mask_gpu:0x8,0x1", "true").stderr)
        said = self.c.run("srun", "-Q", "-n2", "--gpus=4", "--gpu-bind=verbose,per_task:2", "sh", "-c", "env | grep -c GPU_BINDING")
        self.assertEqual((said.stdout, sorted(said.stderr.splitlines())[:2]), ("0\n0\n", [
            "gpu-bind: usable_gres=0x3; bit_alloc=0xf; local_inx=2; global_list=0,1; local_list=0,1",
            "gpu-bind: usable_gres=0xc; bit_alloc=0xf; local_inx=2; global_list=2,3; local_list=2,3"]))
        quiet = self.c.run("srun", "-Q", "-n2", "--cpu-bind=map_cpu:0,1", "true")
        self.assertEqual((quiet.returncode, quiet.stderr), (0, ""))
        bad = self.c.run("srun", "-n1", "--cpu-bind=map_cpu:0,x", "true")
        self.assertNotEqual(bad.returncode, 0)
        self.assertIn('Unable to satisfy cpu bind request: "x" in --cpu-bind=map_cpu is no number', bad.stderr)

    def test_every_task_may_open_all_gpus_of_its_job_and_no_others(self):
        """NCCL's peers and CUDA's IPC open what is their neighbours'; the variable alone says which one is a task's own."""
        # Character devices that the machine lets anybody open play NVIDIA's; their numbers are what the node denies.
        node = ["nsenter", "-t", str(self.c.node("n1")["agent_pid"]), "-m"]
        names = [f"/dev/nvidia{i}" for i in range(4)]
        if any(os.path.exists(name) for name in names):
            self.skipTest("this machine has files of NVIDIA's")
        made = subprocess.run([*node, "sh", "-c", "umask 0; for i in 0 1 2 3; do mknod /dev/nvidia$i c 1 $((i < 2 ? 5 : i == 2 ? 7 : 9)) || exit 1; done"],
                              capture_output=True, text=True)
        self.addCleanup(subprocess.run, [*node, "rm", "-f", *names])
        if made.returncode != 0:
            self.skipTest("device files cannot be made here: " + made.stderr.strip())
        opens = ("for i in 0 1 2 3; do (: < /dev/nvidia$i) 2>/dev/null && o=$o$i; done; "
                 "echo $SLURM_PROCID $o $CUDA_VISIBLE_DEVICES")
        log = self.c.log_tail(200)
        if "not held to their memory" in log:
            self.skipTest("this machine lets us make no control groups")
        self.c.idle()
        out = self.c.run("srun", "-Q", "-n2", "--gpus-per-task=1", "sh", "-c", opens, user=ANN)
        if "bpf" in out.stderr:
            self.skipTest("this machine's kernel lets us deny no devices: " + out.stderr.strip())
        self.assertEqual(out.returncode, 0, out.stderr)
        self.assertEqual(sorted(out.stdout.splitlines()), ["0 01 0", "1 01 1"])

    def test_memory_comes_from_where_the_step_says(self):
        policy = "echo $SLURM_PROCID $(head -1 /proc/self/numa_maps | cut -d' ' -f2)"
        for options, said in (((), "default"), (("--mem-bind=local",), "(local|default)"), (("--mem-bind=map_mem:0",), "bind:0"),
                              (("--mem-bind=prefer,mask_mem:0x1",), "prefer:0"), (("--mem-bind=map_mem:77",), "default"),
                              (("--mem-bind=none",), "default")):
            with self.subTest(options=options):
                for one in self.by_rank("-n2", *options, command=policy):
                    self.assertRegex(one, f"^{said}$")
        out = self.c.ok("srun", "-Q", "--mem-bind=verbose,prefer,map_mem:0,1", "sh", "-c", "env | grep ^SLURM_MEM_BIND | sort", user=ANN)
        self.assertEqual(out.splitlines(), ["SLURM_MEM_BIND=verbose,prefer,map_mem:0,1", "SLURM_MEM_BIND_LIST=0,1",
                                            "SLURM_MEM_BIND_PREFER=prefer", "SLURM_MEM_BIND_TYPE=map_mem:", "SLURM_MEM_BIND_VERBOSE=verbose"])

    def test_what_scripts_say_of_cores_is_taken(self):
        for options in (("--threads-per-core=2",), ("--hint=nomultithread",), ("--hint=compute_bound",), ("--hint=memory_bound",),
                        ("--distribution=block:cyclic",), ("--distribution=cyclic:fcyclic",), ("-m", "plane=2"), ("-m", "block:block:block")):
            with self.subTest(options=options):
                self.assertEqual(self.by_rank("-n2", *options, command="echo $SLURM_PROCID here"), ["here", "here"])


@unittest.skipIf(os.geteuid() != 0, "virtual nodes need root")
@unittest.skipIf(os.path.exists("/proc/driver/nvidia"), "this machine has NVIDIA's own GPUs")
class Closest(unittest.TestCase):
    def test_gpus_near_the_cores_of_a_task(self):
        with Cluster(nodes=1, gpus="4xh100") as c:
            with open(os.path.join(c.dir, "nodes", "n1", "gpus"), "a") as f:
                f.write("numa = 2\n")
            shown = os.path.join(c.home, "node")
            for number, cores in ((0, "0"), (1, "1-511")):
                os.makedirs(os.path.join(shown, f"node{number}"))
                with open(os.path.join(shown, f"node{number}", "cpulist"), "w") as f:
                    f.write(cores + "\n")
            with open(os.path.join(shown, "online"), "w") as f:
                f.write("0-1\n")
            agent = c.node("n1")["agent_pid"]
            subprocess.run(["nsenter", "-t", str(agent), "-m", "mount", "--bind", shown, "/sys/devices/system/node"], check=True)
            c.kill_agent("n1")
            eventually(lambda: c.node("n1")["agent_pid"] not in (0, agent) and c.node("n1")["state"] != "down", 20, "a new agent")
            if int(re.search(r"CPUTot=(\d+)", c.ok("scontrol", "show", "node", "n1")).group(1)) < 2:
                self.skipTest("this machine has one processor")
            out = c.ok("srun", "-Q", "-n2", "--gpus=4", "--cpu-bind=map_cpu:0,1", "--gpu-bind=closest", "sh", "-c", VISIBLE, user=ANN)
            self.assertEqual(sorted(out.splitlines()), ["0 0,1", "1 2,3"])
            c.idle()
            out = c.ok("srun", "-Q", "-n1", "--gpus=4", "--gpu-bind=closest", "sh", "-c", VISIBLE, user=ANN)
            self.assertIn(out.strip(), ("0 0,1", "0 2,3"))


if __name__ == "__main__":
    unittest.main()
