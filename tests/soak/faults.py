"""Breaks things as the plan says: kills, stops, lost nodes, a full disk, drained nodes. Heals each of them, too."""
import os
import signal
import time

from cluster import running, send
from ledger import Fault

BACK_S = 45  # a healed node must take work again within


class Breaker:
    def __init__(self, world, ledger):
        self.world, self.ledger = world, ledger

    def fault(self, kind, node, length, draw):
        fault = Fault(kind, node, time.time())
        self.ledger.faults.append(fault)
        try:
            getattr(self, kind.replace(" ", "_"))(fault, length, draw)
        except (AssertionError, OSError, ValueError, KeyError, StopIteration) as e:
            fault.note = f"not done: {str(e)[:100]}"
        fault.end = fault.end or time.time()

    def kill_controller(self, fault, length, draw):
        self.world.kill_controller(hold=False)

    def controller_away(self, fault, length, draw):
        self.world.kill_controller(hold=True)
        time.sleep(length)
        self.up("controller away")

    def stop_controller(self, fault, length, draw):
        self.pause(self.world.controller_pid(), length)

    def kill_agent(self, fault, length, draw):
        self.world.kill_agent(fault.node)

    def stop_agent(self, fault, length, draw):
        self.pause(self.world.node(fault.node)["agent_pid"], length)

    def kill_shim(self, fault, length, draw):
        pid, fault.jobs = self.shim(draw)
        fault.note = f"pid {pid} of job {','.join(fault.jobs)}"
        send(pid)

    def stop_shim(self, fault, length, draw):
        pid, fault.jobs = self.shim(draw)
        fault.note = f"pid {pid} of job {','.join(fault.jobs)}"
        self.pause(pid, length)

    def kill_nursery(self, fault, length, draw):
        send(self.nursery(fault.node))

    def stop_nursery(self, fault, length, draw):
        self.pause(self.nursery(fault.node), length)

    def lose_node(self, fault, length, draw):
        self.world.pull_plug(fault.node)
        fault.note = "lost"
        time.sleep(length)
        self.up(f"{fault.node} lost")
        end = time.monotonic() + BACK_S
        while time.monotonic() < end and not self.takes_work(fault.node):
            time.sleep(0.5)
        if not self.takes_work(fault.node):
            self.ledger.find("comes back", fault.node, f"{fault.node} was lost at {fault.begin:.1f}, `up` was called, after {BACK_S} s: "
                             + self.world.run("sinfo", "-h", "-N", "-o", "%N %T %E").stdout)

    def disk_full(self, fault, length, draw):
        path = os.path.join(self.world.dir, "filler-of-the-soak")
        try:
            with open(path, "wb", buffering=0) as f:
                while True:
                    f.write(bytes(65536))
        except OSError:
            time.sleep(length)
        finally:
            os.unlink(path)

    def drain(self, fault, length, draw):
        self.world.ok("lockstep", "node", "drain", fault.node, "--reason", "soak", "--dir", self.world.dir)
        fault.begin, fault.note = time.time(), "drained"
        time.sleep(length)
        fault.end = time.time()  # from here on work may start there again
        end = fault.end + 60
        while self.world.run("lockstep", "node", "resume", fault.node, "--dir", self.world.dir).returncode and time.time() < end:
            time.sleep(1)

    # ---

    def up(self, why):
        """`lockstep up` right away, as an administrator would; it may take a second call, which is a finding."""
        self.world.release_controller()
        for again in range(3):
            result = self.world.run("lockstep", "up", "--dir", self.world.dir, timeout=150)
            if result.returncode == 0:
                break
            self.ledger.find("up", why, f"`lockstep up` ended with {result.returncode}: {result.stdout.strip()} {result.stderr.strip()}")
            time.sleep(3)

    def takes_work(self, node):
        state = self.world.run("sinfo", "-h", "-N", "-n", node, "-o", "%T").stdout.split()
        return bool(state) and state[0].rstrip("-") in ("idle", "mixed", "allocated", "draining", "drained", "reserved")

    def pause(self, pid, length):
        send(pid, signal.SIGSTOP)
        try:
            time.sleep(length)
        finally:
            if running(pid):
                send(pid, signal.SIGCONT)

    def shim(self, draw):
        """(pid, ids of the jobs whose processes it started): one of the shims that have any."""
        found = []
        for node in self.world.status()["nodes"]:
            found += shims_below(node["pid"])
        if not found:
            raise AssertionError("no shim has processes now")
        found.sort()
        return found[int(draw * len(found))]

    def nursery(self, node):
        """The agent's own shim, which makes the others."""
        return next(pid for pid, name, _ in below(self.world.node(node)["pid"]) if name == "shim-nursery")


def below(init):
    """(pid, name, pids of its children) of every process of a node."""
    children, names = {}, {}
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{pid}/stat") as f:
                text = f.read()
        except OSError:
            continue
        names[int(pid)] = text[text.index("(") + 1:text.rindex(")")]
        children.setdefault(int(text[text.rindex(")") + 2:].split()[1]), []).append(int(pid))
    todo = list(children.get(init, []))
    for pid in todo:
        todo += children.get(pid, [])
        yield pid, names[pid], children.get(pid, [])


def shims_below(init):
    """(pid, ids of the jobs whose processes it started) of each shim of a node that has any."""
    found = [(pid, {job_of(child) for child in children} - {""}) for pid, name, children in below(init) if name.startswith("lockstep-shim")]
    return [(pid, tuple(sorted(jobs))) for pid, jobs in found if jobs]


def job_of(pid):
    try:
        with open(f"/proc/{pid}/environ", "rb") as f:
            words = dict(w.split(b"=", 1) for w in f.read().split(b"\0") if b"=" in w)
    except OSError:
        return ""
    return words.get(b"SLURM_JOB_ID", b"").decode()
