"""The cluster of a soak: virtual nodes, accounts and limits, a directory that can be filled up, and what the jobs' scripts need."""
import os
import shutil
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(os.path.dirname(HERE), "e2e"))

from cluster import BIN, Cluster  # noqa: E402, F401
from ledger import FILLER  # noqa: E402
import plan  # noqa: E402


class World(Cluster):
    def __init__(self, disk_mb=160):
        super().__init__(nodes=plan.NODES, gpus=f"{plan.GPUS}xh100", cpus=plan.CPUS)
        self.room = os.path.join(self.work, "soak")  # what jobs read and write
        for name in ("", "trace", "live", "devices", "out", "err"):
            path = os.path.join(self.room, name)
            os.makedirs(path)
            os.chmod(path, 0o777)
        for name in ("lib.sh", "task.sh", "steps.sh"):
            shutil.copy(os.path.join(HERE, name), self.room)
        for n in range(1, plan.NODES + 1):
            for k in range(plan.GPUS):
                path = os.path.join(self.room, "devices", f"n{n}.{k}")
                with open(path, "w"):
                    os.chmod(path, 0o666)
        self.env.update(SOAK=self.room, SOAK_FILLER=FILLER, HOME=self.work)
        os.mkdir(self.dir, 0o700)
        subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={disk_mb}m,mode=0700", "tmpfs", self.dir], check=True)

    def furnish(self):
        """Accounts, limits, licences, the reservation."""
        account = lambda *words: self.ok("sacctmgr", "-i", *words)
        account("add", "account", "ml", "GrpTRES=gres/gpu=8")
        account("add", "account", "bio")
        for user, name in plan.USERS.items():
            account("add", "user", f"uid{user}", f"account={name}", *(["MaxJobs=4"] if user == 1001 else []))
        account("add", "qos", "small", "MaxTRESPU=cpu=6")
        account("add", "qos", "pair", "MaxJobsPU=2")
        account("add", "qos", "low")
        account("add", "qos", "lazy", "PreemptMode=suspend")
        account("add", "qos", "spare", "flags=Scavenger", "PreemptMode=cancel")
        account("add", "qos", "high", "Preempt=low,lazy", "priority=1000")
        account("add", "resource", "name=lic", "count=3", "type=license")
        self.ok("scontrol", "create", "reservation", "ReservationName=class", "StartTime=now", "Duration=1-00:00:00",
                f"Users=uid{plan.RESERVED_FOR}", f"Nodes={plan.RESERVED}", "Flags=IGNORE_JOBS")

    def close(self):
        """Stops the cluster; says what it left behind."""
        identity = ""
        try:
            with open(os.path.join(self.dir, "lockstep.id")) as f:
                identity = next((w[3:] for w in f.read().split() if w.startswith("id=")), "")
        except OSError:
            pass
        result = self.run("lockstep", "down", "--dir", self.dir, timeout=120)
        left = [] if result.returncode == 0 else [f"down ended with {result.returncode}: {result.stderr.strip()}"]
        left += self.processes() + self.mounts() + self.interfaces(identity)
        self.run("lockstep", "down", "--delete", "--dir", self.dir, timeout=120)
        return left + [f"file {os.path.join(root, name)}" for root, _, names in os.walk(self.dir) for name in names]

    def remove(self):
        subprocess.run(["umount", "-l", self.dir], check=False)
        shutil.rmtree(self.home, ignore_errors=True)

    def processes(self):
        """Processes of the cluster or of its jobs that are left, by their environment and arguments."""
        left, home = [], self.home.encode()
        for pid in filter(str.isdigit, os.listdir("/proc")):
            try:
                with open(f"/proc/{pid}/environ", "rb") as e, open(f"/proc/{pid}/cmdline", "rb") as c:
                    words = c.read()
                    if int(pid) != os.getpid() and (home in e.read() or home in words):
                        left.append(f"process {pid}: {words.replace(bytes(1), b' ').decode(errors='replace')[:150]}")
            except OSError:
                continue
        return left

    def mounts(self):
        with open("/proc/mounts") as f:
            return [f"mount {line.strip()}" for line in f if self.home in line and line.split()[1] != self.dir]

    def interfaces(self, identity):
        links = subprocess.run(["ip", "-o", "-d", "link"], capture_output=True, text=True).stdout.split("\n")
        return [f"interface{line.split(':')[1]}" for line in links if identity and identity in line]
