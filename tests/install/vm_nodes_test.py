"""`lockstep up --vm`: a node that is a machine of its own, with a kernel, systemd and control groups of version 2. What a
node made of namespaces cannot show: limits of version 2, devices closed by a program in the kernel, real reboots, and a plug
that is pulled. The guest is emulated where need be, so there is one, and much happens in it."""
import os
import re
import subprocess
import sys
import tempfile
import time
import unittest

TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, os.path.join(TOP, "tests", "e2e"))
from cluster import Cluster, eventually  # noqa: E402

ANN = 2001
LIBRARY = os.path.join(TOP, "build", "release", "lib", "libnvidia-ml.so.1")
GROUPS = "/sys/fs/cgroup/system.slice/lockstep-jobs.service"

# Two simulated GPUs with device files of NVIDIA's numbers: without its driver an open that is let through ends with
# ENXIO, and one that the kernel's program refuses with EPERM.
GPUS = """
printf 'count = 2\\ntype = h100\\n' > /etc/lockstep/gpus
for n in 0 1; do mknod -m 666 /dev/nvidia$n c 195 $n; done
mkdir -p /etc/systemd/system/lockstep-agent.service.d
printf '[Service]\\nEnvironment=LOCKSTEP_STANDIN_NVML=/etc/lockstep/gpus\\n' > /etc/systemd/system/lockstep-agent.service.d/gpus.conf
mv /root/libnvidia-ml.so.1 /usr/lib/x86_64-linux-gnu/
mkdir -m 1777 /shared
systemctl daemon-reload
systemctl restart lockstep-agent
"""


@unittest.skipUnless(os.geteuid() == 0, "virtual machines hang on a bridge, which root makes")
class VmNodes(unittest.TestCase):
    """The tests tell one story, in the order of their names."""

    @classmethod
    def setUpClass(cls):
        cls.c = Cluster(nodes=1, gpus=None, cpus=2, extra=["--vm", "1", "--vm-memory", "1G", "--vm-cpus", "2"])
        cls.addClassCleanup(cls.c.down)
        os.environ["LOCKSTEP_VM_GUESTS"] = os.path.join(cls.c.dir, "vms")
        import guests
        guests.must_be_possible()
        guests.vm.base()
        cls.began = time.monotonic()
        said = cls.c.ok("lockstep", "up", "--dir", cls.c.dir, *cls.c.args, timeout=guests.vm.BOOT_S)
        assert "2 node(s)" in said, said
        cls.tell("the machine is a node")
        cls.machine = guests.Machine("vm1")
        cls.machine.copy(os.path.realpath(LIBRARY))
        cls.machine.ok(f"mv /root/libnvidia-ml.so* /root/libnvidia-ml.so.1 2> /dev/null; {GPUS}")
        eventually(lambda: cls.c.ok("sinfo", "-h", "-n", "vm1", "-o", "%t %G").startswith("idle gpu:h100:2"), what="its GPUs", timeout=60)

    @classmethod
    def tell(cls, what):
        print(f"[{time.monotonic() - cls.began:.0f} s] {what}", file=sys.stderr, flush=True)

    def tearDown(self):
        self.tell(self.id().rsplit(".", 1)[1])

    def on_vm(self, command, *options, **more):
        return self.c.wrap(command, "-D", "/shared", "-o", "/shared/%j.out", "-w", "vm1", *options, user=ANN, **more)

    def runs(self, job, node="vm1"):
        self.c.wait(job, "RUNNING")
        self.assertEqual(self.c.ok("squeue", "-h", "-j", job, "-o", "%N").strip(), node)

    def test_1_it_is_a_machine_of_its_own(self):
        said = self.c.ok("srun", "-w", "vm1", "-D", "/", "sh", "-c",
                         "cat /proc/sys/kernel/random/boot_id; stat -f -c %T /sys/fs/cgroup; cat /proc/self/cgroup", user=ANN)
        boot, kind, group = said.splitlines()
        self.assertEqual((boot, kind), (self.machine.boot_id(), "cgroup2fs"))
        self.assertRegex(group, r"^0::/system\.slice/lockstep-jobs\.service/\S+")
        with open("/proc/sys/kernel/random/boot_id") as f:
            self.assertNotEqual(boot, f.read().strip())
        self.assertEqual(self.c.ok("srun", "-w", "vm1", "-D", "/", "getent", "hosts", "n1").split()[1], "n1")

    def test_2_a_limit_kills_who_passes_it_and_nobody_else(self):
        neighbour = self.on_vm("sleep 1000", "--mem=60")
        self.runs(neighbour)
        hog = self.on_vm("tail /dev/zero", "--mem=100")
        self.assertEqual(self.c.wait(hog), "OUT_OF_MEMORY")
        self.assertIn("CONSTRAINT_MEMCG", self.machine.ok("dmesg | grep oom-kill: | tail -n 1"))
        self.assertEqual(self.c.state(neighbour), "RUNNING")
        self.assertEqual(self.machine.ok(f"find {GROUPS} -name memory.max | xargs cat | grep -cx {60 << 20}").strip(), "1")
        self.c.ok("scancel", neighbour)

    def test_3_devices_are_closed_by_a_program_in_the_kernel(self):
        look = "for n in 0 1; do head -c1 /dev/nvidia$n 2>&1 | sed 's/.*: //'; done; echo $CUDA_VISIBLE_DEVICES"
        opened, closed = "No such device or address", "Operation not permitted"
        srun = lambda *options: self.c.ok("srun", "-w", "vm1", "-D", "/", *options, "sh", "-c", look, user=ANN).splitlines()  # noqa: E731
        self.assertEqual(srun(), [closed, closed, ""])
        self.assertEqual(srun("--gres=gpu:2"), [opened, opened, "0,1"])
        one = srun("--gres=gpu:1")
        self.assertEqual(one, [opened, closed, "0"])

    def test_4_what_is_suspended_cannot_be_woken_by_its_user(self):
        job = self.on_vm("while :; do date +%s%N > /shared/tick; sleep 0.1; done")
        tick = lambda: self.machine.ok("cat /shared/tick 2> /dev/null || true")  # noqa: E731
        eventually(tick, what="the job")
        self.c.ok("scontrol", "suspend", job)
        self.c.wait(job, "SUSPENDED")
        eventually(lambda: self.machine.ok(f"find {GROUPS} -name cgroup.freeze | xargs grep -lx 1 | wc -l").strip() != "0",
                   what="the freezer")
        before = tick()
        self.machine.ok(f"setpriv --reuid={ANN} --regid={ANN} --clear-groups kill -CONT -1; sleep 1")
        self.assertEqual(tick(), before)
        self.c.ok("scontrol", "resume", job)
        eventually(lambda: tick() != before, what="the job goes on")
        self.c.ok("scancel", job)
        self.c.wait(job)

    def test_5_a_reboot_under_a_job(self):
        mark = "cat /proc/sys/kernel/random/boot_id >> /shared/boots; sync; sleep 1000"
        again, never = self.on_vm(mark, "--requeue"), self.on_vm("sleep 1000", "--no-requeue")
        for job in (again, never):
            self.runs(job)
        eventually(lambda: self.machine.ok("wc -l < /shared/boots || true").strip() == "1", what="its mark")
        before = self.machine.boot_id()
        self.c.ok("lockstep", "node", "fault", "vm1", "reboot")
        self.machine.guest.hang_up()
        self.assertEqual(self.c.wait(never, timeout=240), "NODE_FAIL")
        # Nobody brings the node back but itself.
        self.c.wait(again, "RUNNING", timeout=60)
        self.assertEqual(self.c.show(again)["Restarts"], "1")
        eventually(lambda: len(self.machine.ok("cat /shared/boots").split()) == 2, what="its second mark", timeout=60)
        boots = self.machine.ok("cat /shared/boots").split()
        self.assertEqual(boots, [before, self.machine.boot_id()])
        self.assertNotEqual(boots[0], boots[1])
        self.c.ok("scancel", again)
        self.c.wait(again)

    def test_6_a_plug_that_is_pulled(self):
        self.c.ok("scontrol", "update", "nodename=n1", "state=drain", "reason=first")
        job = self.c.wrap("sleep 1000", "-D", "/", "-o", "/dev/null", "--requeue", user=ANN)
        self.runs(job)
        self.c.ok("scontrol", "update", "nodename=n1", "state=resume")
        self.c.ok("lockstep", "node", "fault", "vm1", "power-off")
        # The machine is proven off, so that nobody waits for the fence's fifteen minutes.
        eventually(lambda: self.c.ok("squeue", "-h", "-j", job, "-o", "%T %N").strip() == "RUNNING n1", what="the job elsewhere", timeout=90)
        self.assertEqual(self.c.ok("sinfo", "-h", "-n", "vm1", "-o", "%t").strip(), "down*")
        said = self.c.run("lockstep", "node", "fault", "vm1", "reboot")
        self.assertEqual((said.returncode, "vm1 is off" in said.stderr), (1, True), said.stderr)
        said = self.c.run("lockstep", "node", "fault", "n1", "reboot")
        self.assertEqual((said.returncode, "n1 is no virtual machine" in said.stderr), (1, True), said.stderr)

    def test_7_down_leaves_nothing(self):
        folder = os.path.join(self.c.dir, "vms")
        with open(os.path.join(self.c.dir, "cluster.conf")) as f:
            bridge = re.search("^bridge=(.*)$", f.read(), re.M)[1]
        self.assertTrue(os.path.exists("/sys/class/net/" + bridge))
        self.c.ok("lockstep", "down", "--dir", self.c.dir, "--delete", timeout=120)
        self.assertFalse(os.path.exists(self.c.dir))
        self.assertEqual(subprocess.run(["pgrep", "-f", folder], capture_output=True, text=True).stdout, "")
        self.assertEqual([name for name in os.listdir("/sys/class/net") if name.startswith(bridge)], [])


if __name__ == "__main__":
    unittest.main()
