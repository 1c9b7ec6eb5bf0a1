"""nvidia-smi and NVIDIA's library on nodes with simulated GPUs, as programs of jobs find them."""
import csv
import os
import re
import unittest

from cluster import Cluster, eventually

USER = 1001


@unittest.skipIf(os.geteuid() != 0, "virtual nodes need root")
@unittest.skipIf(os.path.exists("/proc/driver/nvidia") or os.path.exists("/usr/bin/nvidia-smi"), "this machine has NVIDIA's own")
class NvidiaSmi(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.c = Cluster(nodes=2, gpus="4xh100", cpus=8)
        cls.c.up()

    @classmethod
    def tearDownClass(cls):
        cls.c.down()

    def srun(self, *words, **options):
        return self.c.ok("srun", "-Q", *words, user=USER, **options)

    def rows(self, text):
        return [[cell.strip() for cell in row] for row in csv.reader(text.splitlines())]

    def fault(self, *words):
        self.c.ok("lockstep", "node", "fault", "--dir", self.c.dir, *words)

    def test_files_of_the_node_that_are_replaced_on_the_machine_come_back(self):
        # ldconfig and useradd put a new file in the old one's place; the kernel then takes the mount away, as this does.
        node = ["nsenter", "-t", str(self.c.node("n1")["agent_pid"]), "-m", "-p"]
        files = ("/etc/ld.so.cache", "/etc/hosts", "/etc/hostname")

        def mounted():
            return self.c.ok(*node, "sh", "-c", "cut -d' ' -f2 /proc/1/mounts").split()
        shown = [name for name in files if name in mounted()]
        self.assertIn("/etc/ld.so.cache", shown)
        self.assertIn("/etc/hosts", shown)
        for name in shown:
            self.c.ok(*node, "umount", name)
        eventually(lambda: all(name in mounted() for name in shown), 15, "the node's own files")
        self.assertIn("GPU 0:", self.srun("-w", "n1", "--gpus=1", "nvidia-smi", "-L"))
        self.assertEqual(mounted().count("/etc/hosts"), 1)

    def test_lists_every_gpu_of_the_node_whatever_the_step_holds(self):
        out = self.srun("-w", "n1", "--gpus=2", "nvidia-smi", "-L")
        found = re.findall(r"^GPU (\d): NVIDIA H100 80GB HBM3 \(UUID: (GPU-[0-9a-f-]{36})\)$", out, re.M)
        self.assertEqual([index for index, _ in found], ["0", "1", "2", "3"], out)
        self.assertEqual(len({uuid for _, uuid in found}), 4)
        self.assertNotEqual(self.srun("-w", "n2", "nvidia-smi", "-L"), out, "each node has GPUs of its own")
        visible = self.srun("-w", "n1", "--gpus=2", "sh", "-c", "echo $CUDA_VISIBLE_DEVICES").strip()
        self.assertEqual(len(visible.split(",")), 2)

    def test_queries_parse(self):
        out = self.srun("-w", "n1", "nvidia-smi", "--query-gpu=index,name,memory.total,driver_version,mig.mode.current", "--format=csv")
        rows = self.rows(out)
        self.assertEqual(rows[0], ["index", "name", "memory.total [MiB]", "driver_version", "mig.mode.current"])
        self.assertEqual(rows[2], ["1", "NVIDIA H100 80GB HBM3", "81559 MiB", rows[1][3], "Disabled"])
        out = self.srun("-w", "n1", "nvidia-smi", "-i", "3", "--query-gpu=index,memory.total", "--format=csv,noheader,nounits")
        self.assertEqual(self.rows(out), [["3", "81559"]])
        table = self.srun("-w", "n1", "nvidia-smi").splitlines()
        self.assertEqual({len(line) for line in table[1:] if line}, {91}, "\n".join(table))
        self.assertIn("NV18", self.srun("-w", "n1", "nvidia-smi", "topo", "-m").splitlines()[1])

    def test_exit_codes(self):
        for words, code in ((("--no-such-option",), 2), (("-i", "9"), 6), (("--query-gpu=nothing", "--format=csv"), 2), (("-pm", "0"), 4)):
            result = self.c.run("srun", "-Q", "-w", "n1", "nvidia-smi", *words, user=USER)
            self.assertEqual(result.returncode, code, (words, result.stdout, result.stderr))

    def test_a_job_shows_as_user_of_its_gpus(self):
        job = self.c.wrap("export SIMULATED_GPU_LOAD=35,4000; sleep 100; true", "-w", "n2", "--gpus=2", user=USER)
        query = ("nvidia-smi", "--query-compute-apps=process_name,used_memory", "--format=csv,noheader,nounits")
        eventually(lambda: self.rows(self.srun("-w", "n2", *query)) == [["sleep", "4000"]] * 2, what="the job on both GPUs")
        used = self.rows(self.srun("-w", "n2", "nvidia-smi", "--query-gpu=utilization.gpu", "--format=csv,noheader,nounits"))
        self.assertEqual(sorted(row[0] for row in used), ["0", "0", "35", "35"])
        self.c.run("scancel", job, user=USER)
        self.c.wait(job)
        self.assertEqual(self.srun("-w", "n2", *query), "")

    def test_a_fault_shows_and_is_mended(self):
        query = ("nvidia-smi", "--query-gpu=index,ecc.errors.uncorrected.volatile.total,gpu_recovery_action", "--format=csv,noheader")
        self.fault("n1", "1", "xid=48")
        self.assertEqual(self.rows(self.srun("-w", "n1", *query))[1], ["1", "1", "Drain and Reset"])
        self.fault("n1", "1", "xid=79")
        result = self.c.run("srun", "-Q", "-w", "n1", "nvidia-smi", "-L", user=USER)
        self.assertEqual(result.returncode, 15, result.stdout + result.stderr)
        self.assertIn("Unable to determine the device handle for GPU1: GPU is lost", result.stdout)
        self.fault("n1", "1", "none")
        self.assertEqual(self.rows(self.srun("-w", "n1", *query))[1], ["1", "0", "None"])
        for words in (("n1", "1", "xid=0"), ("n9", "1", "lost"), ("n1", "64", "lost"), ("n1", "x", "lost"), ("../n1", "1", "lost"), ("n1",)):
            self.assertEqual(self.c.run("lockstep", "node", "fault", "--dir", self.c.dir, *words).returncode, 1, words)

    def test_mig_instances_are_the_node_s(self):
        root = lambda *words: self.c.ok("srun", "-Q", "-w", "n2", "nvidia-smi", *words)  # noqa: E731
        root("-i", "3", "-mig", "1")
        try:
            made = root("mig", "-i", "3", "-cgi", "3g.40gb,19", "-C")
            self.assertEqual(len(re.findall("^Successfully created GPU instance", made, re.M)), 2, made)
            seen = self.srun("-w", "n2", "nvidia-smi", "-L")
            self.assertEqual(re.findall(r"^  MIG (\S+) +Device +(\d): \(UUID: MIG-", seen, re.M), [("3g.40gb", "0"), ("1g.10gb", "1")])
            denied = self.c.run("srun", "-Q", "-w", "n2", "nvidia-smi", "mig", "-dci", user=USER)
            self.assertEqual(denied.returncode, 4, denied.stdout + denied.stderr)
            root("mig", "-dci")
            root("mig", "-dgi")
            self.assertNotIn("MIG", self.srun("-w", "n2", "nvidia-smi", "-L"))
        finally:
            root("-i", "3", "-mig", "0")


if __name__ == "__main__":
    unittest.main(verbosity=2)
