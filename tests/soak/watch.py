"""Looks at the cluster all the time: limits, ids, states that may not change any more, memory and descriptors of the daemons."""
import errno
import fcntl
import os
import statistics
import threading
import time

import plan
from verdict import hosts

FINAL = ("COMPLETED", "FAILED", "CANCELLED", "TIMEOUT", "NODE_FAIL", "PREEMPTED", "OUT_OF_MEMORY", "DEADLINE", "BOOT_FAIL")
LISTED_S = 200  # ended jobs stay listed for 300 s


class Watch(threading.Thread):
    def __init__(self, world, ledger, breaker):
        super().__init__(daemon=True)
        self.world, self.ledger, self.breaker = world, ledger, breaker
        self.stop, self.looks = threading.Event(), 0
        self.most = {name: 0 for name in plan.LIMITS}  # seen at once
        self.last, self.old = {}, set()  # final states seen; locks that nobody will take again
        self.sizes = []  # (time, {what: value})

    def run(self):
        while not self.stop.wait(1.0):
            try:
                self.look()
            except Exception as e:  # the watch must outlive what it watches
                self.ledger.count(f"watch: {type(e).__name__}")

    def look(self):
        self.looks += 1
        self.limits_by_locks()
        rows = self.rows()
        if rows is not None:
            self.limits_by_queue(rows)
            self.states(rows)
            self.ids(rows)
        if self.looks % 5 == 1:
            self.sizes.append((time.time(), self.measure()))

    # --- limits ---

    def limits_by_locks(self):
        """Who is alive by the kernel's word. Seen alive in two rounds, all of them were alive at the moment between."""
        first = self.alive()
        second = self.alive(first)
        self.limits(first & second, "alive at once", lambda unit: self.ledger.jobs.get(unit.split(".")[0]))

    def alive(self, names=None):
        folder = os.path.join(self.ledger.room, "live")
        names = os.listdir(folder) if names is None else names
        return {name for name in names if name not in self.old and self.locked(os.path.join(folder, name))}

    def locked(self, path):
        try:
            fd = os.open(path, os.O_RDONLY)
        except OSError:
            return False
        try:
            fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
            if time.time() - os.fstat(fd).st_mtime > 900:
                self.old.add(os.path.basename(path))
            return False
        except OSError as e:
            return e.errno == errno.EWOULDBLOCK
        finally:
            os.close(fd)

    def limits(self, names, how, job_of):
        units = {}
        for name in names:
            unit = name.rsplit(".", 2)[0] if how == "alive at once" else name
            job = job_of(unit)
            if job and not job.did("suspend") and job.qos != "lazy":  # who pauses counts no more, but is alive
                units[unit] = job
        for name, (counts, amount, most) in plan.LIMITS.items():
            these = {unit: amount(job) for unit, job in units.items() if counts(job)}
            total = sum(these.values())
            self.most[name] = max(self.most[name], total)
            if total > most:
                self.ledger.find("limits", f"{name}, {how}", f"{total} {how} where {most} may: {these} at {time.time():.2f}")

    def limits_by_queue(self, rows):
        running = {row[0]: row for row in rows if row[1] == "RUNNING"}
        by_id = {unit_id: job for job in self.ledger.accepted() for unit_id, _ in job.units()}
        self.limits(running, "shown as running", by_id.get)
        for unit_id, row in running.items():
            job = by_id.get(unit_id)
            if job and plan.RESERVED in hosts(row[2]) and job.kind != "reserved":
                self.ledger.find("reservation", job.tag, f"{unit_id} runs on {row[2]}, which is reserved")

    # --- the queue ---

    def rows(self):
        result = self.world.run("squeue", "-h", "-r", "-t", "all", "-o", "%i|%T|%N|%r", timeout=100)
        return [line.split("|") for line in result.stdout.splitlines()] if result.returncode == 0 else None

    def states(self, rows):
        again = {unit_id for job in self.ledger.accepted() if job.did("requeue") for unit_id, _ in job.units()}
        for unit_id, state, *_ in rows:
            before = self.last.get(unit_id)
            if before and before != state and unit_id not in again:
                self.ledger.find("states", unit_id, f"{unit_id} had ended as {before} and is {state} at {time.time():.1f}")
            if state in FINAL:
                self.last[unit_id] = state

    def ids(self, rows):
        listed = {row[0].split("_")[0] for row in rows}
        asked = time.time()
        for job in self.ledger.accepted():
            if asked - LISTED_S < job.answered_at < asked - 5 and job.id not in listed and not self.listed_alone(job):
                self.ledger.find("known", job.tag, f"acknowledged id {job.id} is not listed at {asked:.1f}")

    def listed_alone(self, job):
        return self.world.state(job.id) != ""

    # --- the daemons ---

    def measure(self):
        """Memory, descriptors and threads of the daemons; files and bytes of the state directory."""
        sizes = {}
        try:
            status = self.world.status()
        except ValueError:
            return sizes
        pids = {"controller": status["controller"]["pid"], **{f"agent {n['name']}": n["agent_pid"] for n in status["nodes"]}}
        for name, pid in pids.items():
            if pid:
                try:
                    sizes[f"{name} fds"] = len(os.listdir(f"/proc/{pid}/fd"))
                    with open(f"/proc/{pid}/status") as f:
                        sizes[f"{name} MiB"] = next(int(line.split()[1]) for line in f if line.startswith("VmRSS")) / 1024
                except (OSError, StopIteration):
                    continue
        files = size = 0
        for root, _, names in os.walk(self.world.dir):
            for name in names:
                try:
                    size += os.lstat(os.path.join(root, name)).st_blocks * 512
                    files += 1
                except OSError:
                    continue
        sizes["state files"], sizes["state MiB"] = files, size / 2**20
        return sizes


def growing(sizes):
    """What grows without end: (name, median of the second quarter, median of the last)."""
    sizes = [values for _, values in sizes if values]
    quarter, found = len(sizes) // 4, []
    for name in sorted({n for values in sizes for n in values}):
        early, late = ([values[name] for values in part if name in values] for part in (sizes[quarter:2 * quarter], sizes[3 * quarter:]))
        if early and late:
            a, b = statistics.median(early), statistics.median(late)
            if b > a * 1.5 + (16 if "MiB" in name else 20):
                found.append((name, a, b))
    return found
