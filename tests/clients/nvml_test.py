"""pynvml (nvidia-ml-py), unmodified, in jobs on nodes with simulated GPUs: what it reads, MIG, and events."""
import json
import os
import threading
import unittest

from client import ClientTest, eventually

HEAD = """
import json, os
import pynvml as n
n.nvmlInit()
gpus = [n.nvmlDeviceGetHandleByIndex(i) for i in range(n.nvmlDeviceGetCount())]
def say(**words):
    print(json.dumps(words))
"""
EVERYTHING = HEAD + """
d = gpus[1]
names = '''Name UUID Serial PciInfo Brand Architecture CudaComputeCapability PersistenceMode ComputeMode EccMode MemoryInfo BAR1MemoryInfo
  UtilizationRates PowerUsage PowerManagementLimit PowerManagementDefaultLimit PowerManagementLimitConstraints EnforcedPowerLimit
  TotalEnergyConsumption PerformanceState CurrentClocksThrottleReasons CurrentClocksEventReasons RemappedRows MigMode MinorNumber Index
  VbiosVersion CurrPcieLinkGeneration MaxPcieLinkWidth ComputeRunningProcesses GraphicsRunningProcesses MPSComputeRunningProcesses
  MaxMigDeviceCount SupportedEventTypes'''.split()
failed = {}
for name in names:
    try:
        getattr(n, "nvmlDeviceGet" + name)(d)
    except n.NVMLError as e:
        failed[name] = str(e)
v2 = n.nvmlDeviceGetMemoryInfo(d, n.nvmlMemory_v2)
fields = n.nvmlDeviceGetFieldValues(d, [n.NVML_FI_DEV_POWER_INSTANT, n.NVML_FI_DEV_GET_GPU_RECOVERY_ACTION, (n.NVML_FI_DEV_NVLINK_GET_STATE, 17)])
try:
    n.nvmlDeviceSetComputeMode(d, n.NVML_COMPUTEMODE_PROHIBITED)
    denied = False
except n.NVMLError_NoPermission:
    denied = True
say(count=len(gpus), failed=failed, name=n.nvmlDeviceGetName(d), total=v2.total >> 20, uuid=n.nvmlDeviceGetUUID(d), denied=denied,
    by_uuid=n.nvmlDeviceGetIndex(n.nvmlDeviceGetHandleByUUID(n.nvmlDeviceGetUUID(d))),
    by_bus=n.nvmlDeviceGetIndex(n.nvmlDeviceGetHandleByPciBusId(n.nvmlDeviceGetPciInfo(d).busId)),
    fields=[[f.nvmlReturn, f.value.uiVal] for f in fields],
    nvlink=n.nvmlDeviceGetP2PStatus(gpus[0], d, n.NVML_P2P_CAPS_INDEX_NVLINK), near=n.nvmlDeviceGetTopologyCommonAncestor(gpus[0], d),
    far=n.nvmlDeviceGetTopologyCommonAncestor(gpus[0], gpus[3]), links=sum(n.nvmlDeviceGetNvLinkState(d, i) for i in range(18)),
    profiles=[n.nvmlDeviceGetGpuInstanceProfileInfo(d, p).name for p in (0, 2, 4)])
"""
WATCH = HEAD + """
events = n.nvmlEventSetCreate()
for d in gpus:
    n.nvmlDeviceRegisterEvents(d, n.nvmlEventTypeXidCriticalError, events)
open("watching", "w").close()
told = n.nvmlEventSetWait(events, 60000)
try:
    n.nvmlEventSetWait(events, 100)
    once = False
except n.NVMLError_Timeout:
    once = True
say(type=told.eventType, xid=told.eventData, once=once, ecc=n.nvmlDeviceGetTotalEccErrors(gpus[2], n.NVML_MEMORY_ERROR_TYPE_UNCORRECTED, n.NVML_VOLATILE_ECC))
"""
MIG = HEAD + """
d = gpus[3]
n.nvmlDeviceSetMigMode(d, n.NVML_DEVICE_MIG_ENABLE)
profile = n.nvmlDeviceGetGpuInstanceProfileInfo(d, n.NVML_GPU_INSTANCE_PROFILE_3_SLICE)
gi = n.nvmlDeviceCreateGpuInstance(d, profile.id)
info = n.nvmlGpuInstanceGetInfo(gi)
ci_profile = n.nvmlGpuInstanceGetComputeInstanceProfileInfo(gi, n.NVML_COMPUTE_INSTANCE_PROFILE_3_SLICE, 0)
ci = n.nvmlGpuInstanceCreateComputeInstance(gi, ci_profile.id)
mig = n.nvmlDeviceGetMigDeviceHandleByIndex(d, 0)
out = dict(start=info.placement.start, size=info.placement.size, name=n.nvmlDeviceGetName(mig), uuid=n.nvmlDeviceGetUUID(mig)[:4],
           sms=n.nvmlDeviceGetAttributes(mig).multiprocessorCount, parent=n.nvmlDeviceGetIndex(n.nvmlDeviceGetDeviceHandleFromMigDeviceHandle(mig)))
n.nvmlComputeInstanceDestroy(ci)
n.nvmlGpuInstanceDestroy(gi)
n.nvmlDeviceSetMigMode(d, n.NVML_DEVICE_MIG_DISABLE)
say(**out)
"""


class Nvml(ClientTest):
    NODES, GPUS = 1, "4xh100"

    def in_job(self, text):
        """Runs a program in a step on the node; what it prints last is the answer."""
        script = "import subprocess, sys\n" \
                 f"text = {text!r}\n" \
                 "done = subprocess.run(['srun', '-Q', '--gpus=1', sys.executable, '-c', text], capture_output=True, text=True)\n" \
                 "sys.stderr.write(done.stderr)\nprint(done.stdout)\nsys.exit(done.returncode)\n"
        return self.python(script)

    def test_what_it_reads(self):
        said = self.in_job(EVERYTHING)
        self.assertEqual(said["failed"], {})
        self.assertEqual((said["count"], said["name"], said["total"]), (4, "NVIDIA H100 80GB HBM3", 81559))
        self.assertRegex(said["uuid"], "^GPU-[0-9a-f-]{36}$")
        self.assertEqual((said["by_uuid"], said["by_bus"]), (1, 1))
        self.assertTrue(said["denied"])
        self.assertEqual(said["fields"][1:], [[0, 0], [0, 1]])
        self.assertEqual((said["nvlink"], said["near"], said["far"], said["links"]), (0, 20, 50, 18))
        self.assertEqual(said["profiles"], ["MIG 1g.10gb", "MIG 3g.40gb", "MIG 7g.80gb"])

    def test_an_xid_is_an_event(self):
        watching = os.path.join(self.home, "watching")
        answer = {}
        thread = threading.Thread(target=lambda: answer.update(self.in_job(WATCH)))
        thread.start()
        eventually(lambda: os.path.exists(watching), what="the watch")
        self.c.ok("lockstep", "node", "fault", "--dir", self.c.dir, "n1", "2", "xid=94")
        thread.join(90)
        self.c.ok("lockstep", "node", "fault", "--dir", self.c.dir, "n1", "2", "none")
        self.assertEqual(answer, {"type": 8, "xid": 94, "once": True, "ecc": 1})

    def test_mig_by_root(self):
        said = json.loads(self.c.ok("srun", "-Q", f"{self.venv}/bin/python", "-c", MIG, cwd=self.c.work).strip().split("\n")[-1])
        self.assertEqual(said, {"start": 4, "size": 4, "name": "NVIDIA H100 80GB HBM3 MIG 3g.40gb", "uuid": "MIG-", "sms": 60, "parent": 3})


if __name__ == "__main__":
    unittest.main(verbosity=2)
