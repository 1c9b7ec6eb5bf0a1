"""What was asked for and acknowledged, and what the jobs themselves wrote down of their running."""
import os
import threading
from dataclasses import dataclass, field

FILLER = "abcdefghijklmnopqrstuvwxyz0123456789" * 2  # what lines of output are made of
BATCH = "b"  # the step name of a batch script


@dataclass
class Step:
    code: int
    seconds: float
    lines: int
    ranks: int
    words: str = ""
    options: tuple = ()


@dataclass
class Job:
    """One submission. All but the last fields is drawn from the seed before anything runs."""
    tag: str
    kind: str
    user: int
    options: list
    code: int = 0
    seconds: float = 1.0
    lines: int = 4
    words: str = ""
    steps: list = field(default_factory=list)  # empty: the script is the one rank
    together: bool = False
    indices: list = field(default_factory=list)  # of an array
    client: str = ""  # "srun", "salloc", "sbatch --wait": the command stays until the job has ended
    after: tuple = ()  # (word, tag): a dependency
    begin: int = 0  # seconds
    requeues: bool = True
    nodes: int = 1
    cpus: int = 1  # of the whole job
    gpus: int = 0  # of the whole job
    account: str = ""
    qos: str = "normal"
    licences: int = 0
    times_out: bool = False
    cut: list = field(default_factory=list)  # indices that are cancelled one by one
    # What happened.
    asked_at: float = 0.0
    answered_at: float = 0.0
    id: str = ""
    returned: int | None = None  # of the client, if one stays
    said: str = ""  # what the command wrote to stderr
    acts: list = field(default_factory=list)  # (time asked, time answered, what, went well)

    def units(self):
        """(id, name of the trace) of each element."""
        return [(f"{self.id}_{i}", f"{self.tag}.{i}") for i in self.indices] if self.indices else [(self.id, self.tag)]

    def did(self, what):
        return [a for a in self.acts if a[2] == what]

    def cancelled(self, unit):
        return self.did("cancel") or self.did("trim") and int(unit.rsplit(".", 1)[-1]) in self.cut

    def lines_of(self, step):
        return self.lines if step == BATCH else self.steps[int(step)].lines


@dataclass
class Fault:
    kind: str
    node: str
    begin: float
    end: float = 0.0
    jobs: tuple = ()  # ids of those whose shim it was
    note: str = ""


class Mark:
    """A line of a trace: see lib.sh."""

    def __init__(self, line):
        self.what, attempt, self.where, self.node, at, self.job, devices, self.word = line.split(" ")
        self.attempt, self.at = int(attempt), float(at)
        self.step, rank = self.where.split(".")
        self.rank = int(rank)
        self.devices = [] if devices == "-" else devices.split(",")


class Ledger:
    """Shared by the threads that submit, act, break things and watch."""

    def __init__(self, room):
        self.room = room
        self.jobs, self.faults, self.refused, self.findings, self.notes = {}, [], [], [], {}
        self.lock = threading.Lock()

    def add(self, job):
        with self.lock:
            self.jobs[job.tag] = job

    def find(self, check, unit, text):
        with self.lock:
            if not any(f[:2] == (check, unit) for f in self.findings):  # the first time tells enough
                self.findings.append((check, unit, text))

    def count(self, what, n=1):
        with self.lock:
            self.notes[what] = self.notes.get(what, 0) + n

    def accepted(self):
        with self.lock:
            return [job for job in self.jobs.values() if job.id]

    def trace(self, unit):
        try:
            with open(os.path.join(self.room, "trace", unit)) as f:
                return [Mark(line) for line in f.read().splitlines()]
        except FileNotFoundError:
            return []

    def output(self, unit):
        try:
            with open(os.path.join(self.room, "out", unit), "rb") as f:
                return f.read()
        except FileNotFoundError:
            return None


def line_of(unit, attempt, where, i):
    return f"{attempt} {where} {i} {unit} {FILLER[:i % 61]}"
