"""What must hold of every acknowledged job once all is quiet: the ledger and the jobs' own traces beside accounting and outputs."""
import re
from collections import Counter
from datetime import datetime

from ledger import BATCH, line_of
import plan

NEAR_S = 20  # a fault explains the end of what it hit that long
HURT = {"node", "shim"}  # what happened to it was violent
SLACK_S = 2.5  # whole seconds on both sides, and a launch


def hosts(text):
    """n[1-3,6] as a set of names."""
    found = set()
    for part in re.findall(r"n(\d+)|n\[([^\]]*)\]", text or ""):
        for piece in (part[0] or part[1]).split(","):
            first, _, last = piece.partition("-")
            found |= {f"n{i}" for i in range(int(first), int(last or first) + 1)}
    return found


def seconds(text):
    try:
        return datetime.fromisoformat(text).timestamp()
    except ValueError:
        return None


class Row:
    """A line of sacct -X."""
    FIELDS = "JobID,State,ExitCode,ElapsedRaw,Start,End,NodeList,Restarts,AllocCPUS,AllocTRES,User,Suspended,CPUTimeRAW"

    def __init__(self, line):
        (self.id, state, self.code, elapsed, start, end, nodes, restarts, cpus, self.tres, self.user, self.suspended, cpu_time) = line.split("|")
        self.state = state.split(" ")[0]
        self.elapsed, self.restarts, self.cpus, self.cpu_time = (int(x or 0) for x in (elapsed, restarts, cpus, cpu_time))
        self.start, self.end, self.nodes = seconds(start), seconds(end), hosts(nodes)

    def __str__(self):
        return f"{self.id} {self.state} {self.code} elapsed={self.elapsed} restarts={self.restarts} on {','.join(sorted(self.nodes))}"


class Verdict:
    def __init__(self, ledger, rows):
        self.ledger, self.rows = ledger, rows
        self.checked = Counter()  # check: how many times it was made

    def judge(self):
        for job in self.ledger.accepted():
            for unit_id, unit in job.units():
                self.unit(job, unit_id, unit)
        for job in self.ledger.accepted():
            if job.after:
                self.order(job)
        self.devices()
        self.unasked()

    def find(self, check, unit, text):
        self.ledger.find(check, unit, text)

    def made(self, check):
        self.checked[check] += 1

    # --- one job ---

    def unit(self, job, unit_id, unit):
        marks = self.ledger.trace(unit)
        row = self.rows.get(unit_id) or self.range_row(unit_id)
        self.made("known")
        if row is None:
            return self.find("known", unit, f"{unit_id} was acknowledged and accounting does not know it")
        for mark in marks:
            if mark.what == "X":
                self.find("shared" if "shared" in mark.word else "alone", unit, f"{mark.word} seen on {mark.node} at {mark.at:.2f} by attempt {mark.attempt}")
        last = max((m.attempt for m in marks), default=0)
        final = [m for m in marks if m.attempt == last]
        self.state(job, unit, row, final)
        self.attempts(job, unit, row, marks)
        self.output(job, unit, row, marks)
        self.places(job, unit, row, final)
        self.times(job, unit, row, final)
        if job.client in ("srun", "salloc", "sbatch --wait"):
            self.client(job, unit, row, final)

    def range_row(self, unit_id):
        """Elements that ended together while they waited may be one row: 12_[3-5]."""
        head, _, index = unit_id.partition("_")
        for key, row in self.rows.items():
            if index and key.startswith(head + "_["):
                inside = re.sub(r"%\d+", "", key[len(head) + 2:-1])
                for piece in inside.split(","):
                    first, _, last = piece.partition("-")
                    if first.isdigit() and int(first) <= int(index) <= int(last or first):
                        return row
        return None

    def ended(self, job, final):
        """The code that the job itself came to, or None."""
        if job.client == "srun":
            codes = [int(m.word) for m in final if m.what == "e"]
            return max(codes) if len(codes) == job.nodes else None
        return next((int(m.word) for m in final if m.what == "E"), None)

    def state(self, job, unit, row, final):
        self.made("state")
        code = self.ended(job, final)
        if row.state in ("RUNNING", "PENDING", "COMPLETING", "SUSPENDED"):
            if not (row.state == "PENDING" and job.after):
                self.find("ends", unit, f"{row} when all should have ended")
            return
        why = self.excuses(job, unit, row, final)
        if code is None:
            if not (final or job.after or row.state == "CANCELLED" and job.cancelled(unit)) and not HURT & set(why):
                return self.find("runs", unit, f"{row}: it never ran")
            legal = set(why.values())
            if job.after and not final:
                legal.add("CANCELLED")
            if row.state not in legal:
                self.find("state", unit, f"{row}: it was ended in the middle; what happened to it: {why or 'nothing'}")
            return
        expect = "COMPLETED" if code == 0 else "FAILED", f"0:{code - 128}" if 128 < code < 160 and not job.steps else f"{code}:0"
        if (row.state, row.code) != expect and row.state not in set(why.values()):
            self.find("code", unit, f"{row}: it came to code {code} itself; what happened to it: {why or 'nothing'}")
        hurt = HURT & set(why) or "cancel" in why
        if code != job.code and not hurt and not (job.steps and self.faulted(job, row, final)):
            self.find("steps", unit, f"{row}: steps came to {code}, they were to end with {job.code}")

    def excuses(self, job, unit, row, final):
        """What happened to a job, and the state it may end in for that."""
        why = {}
        if job.cancelled(unit):
            why["cancel"] = "CANCELLED"
        if job.times_out:
            why["limit"] = "TIMEOUT"
        if job.qos == "spare" or job.qos == "low" and not job.requeues:
            why["preempted"] = "PREEMPTED"
        begin = min((m.at for m in final), default=row.start or 0)
        nodes = row.nodes | {m.node for m in final}
        for fault in self.ledger.faults:
            over = begin - NEAR_S < fault.begin < (row.end or 0) + NEAR_S
            if fault.kind == "lose node" and fault.note == "lost" and over and fault.node in nodes:
                why["node"] = "NODE_FAIL"
                if "-t" in job.options and row.elapsed >= 60 * int(job.options[job.options.index("-t") + 1]):
                    # It died with its word on an earlier end.
                    why["late"] = "TIMEOUT"
            if fault.kind == "kill shim" and row_ids(row, final) & set(fault.jobs):
                why["shim"] = "FAILED"
        return why

    def faulted(self, job, row, final):
        return any(f.kind in ("kill shim", "lose node") for f in self.near(row))

    def near(self, row):
        return [f for f in self.ledger.faults if row.start and row.start - NEAR_S < f.begin < (row.end or 0) + NEAR_S]

    def attempts(self, job, unit, row, marks):
        self.made("once")
        begun = Counter((m.attempt, m.where) for m in marks if m.what in "Ss")
        for (attempt, where), times in begun.items():
            if times > 1:
                self.find("once", unit, f"{row}: attempt {attempt} began {times} times at {where}")
        if row.restarts and not self.may_restart(job, row):
            self.find("once", unit, f"{row}: requeued, though nobody asked and no node of its was lost")

    def may_restart(self, job, row):
        lost = [f for f in self.ledger.faults if f.kind == "lose node" and f.note == "lost" and f.end > job.answered_at]
        return job.did("requeue") or lost or job.qos in ("low", "spare", "lazy")

    # --- output ---

    def output(self, job, unit, row, marks):
        if job.client == "salloc" or not marks:
            return
        self.made("output")
        data = self.ledger.output(unit)
        if data is None:
            return self.find("output", unit, f"{row}: it ran and there is no output file")
        got, strange = {}, []
        for line in data.decode(errors="replace").split("\n"):
            words = line.split(" ")
            if len(words) == 5 and words[0].isdigit() and words[2].isdigit() and line == line_of(unit, words[0], words[1], int(words[2])):
                got.setdefault((int(words[0]), words[1]), []).append(int(words[2]))
            elif line:
                strange.append(line)
        whole = {m.attempt for m in marks if m.what == "E" and int(m.word) == job.code} if job.client != "srun" else set()
        if job.client == "srun" and job.returned == job.code and row.state in ("COMPLETED", "FAILED"):
            whole = {0}
        places = {(m.attempt, m.where, m.step) for m in marks if m.what in "Ss" and (m.step != BATCH or not job.steps)}
        for attempt, where, step in places:
            lines = got.pop((attempt, where), [])
            wanted = job.lines_of(step)
            if lines != list(range(len(lines))) or len(lines) > wanted or (attempt in whole and len(lines) != wanted and not self.excuses(job, unit, row, marks)):
                self.find("output", unit, f"{row}: attempt {attempt} wrote at {where} {short(lines)} of {wanted} lines")
        if got:
            self.find("output", unit, f"{row}: lines of who never began: {list(got)[:3]}")
        if len(strange) > (0 if whole else 1 + len(places)) and not any(m.what == "s" for m in marks) or len(strange) > len(places) + 1:
            self.find("output", unit, f"{row}: lines that nobody wrote: {strange[:3]}")

    # --- where and when ---

    def places(self, job, unit, row, final):
        self.made("places")
        nodes = {m.node for m in final if m.node != "here"}
        if plan.RESERVED in nodes and job.kind != "reserved":
            self.find("reservation", unit, f"{row}: ran on {plan.RESERVED}, which is reserved")
        if job.kind == "reserved" and nodes - {plan.RESERVED}:
            self.find("reservation", unit, f"{row}: ran outside its reservation, on {nodes}")
        if final and not nodes <= row.nodes and row.nodes:
            self.find("places", unit, f"{row}: ran on {nodes}")
        for fault in self.ledger.faults:
            if fault.kind == "drain" and fault.note == "drained" and fault.node in row.nodes and row.start and fault.begin + 1 < row.start < fault.end - 1:
                self.find("drain", unit, f"{row}: started at {row.start:.0f} on {fault.node}, drained from {fault.begin:.1f} to {fault.end:.1f}")

    def heard_by(self, job, row, end):
        """A script's shim tells when it ended, however late somebody asks. A client, and a script that waits for its steps,
        go on only when an agent that stood still has passed on what they wait for."""
        if job.client in ("", "sbatch --wait") and not job.steps:
            return end
        return max([end] + [f.end for f in self.ledger.faults
                            if f.kind in ("stop agent", "kill agent") and f.node in row.nodes and f.begin - 1 <= end <= f.end])

    def times(self, job, unit, row, final):
        begin = min((m.at for m in final if m.what in "Ss"), default=None)
        if begin and job.begin:
            self.made("begin")
            if begin < job.asked_at + job.begin - 1:
                self.find("begin", unit, f"{row}: began {begin - job.asked_at:.1f} s after its submission, not before {job.begin}")
        end = next((m.at for m in final if m.what == "E"), None)
        if begin and end and row.state in ("COMPLETED", "FAILED") and not job.did("suspend") and job.qos != "lazy" and not self.stood_still(row, final):
            self.made("elapsed")
            if not end - begin - SLACK_S <= row.elapsed <= self.heard_by(job, row, end) - begin + SLACK_S:
                self.find("elapsed", unit, f"{row}: it ran for {end - begin:.2f} s, {self.happened(begin, end)}")
        if row.elapsed and row.cpu_time != row.elapsed * row.cpus:
            self.find("cputime", unit, f"{row}: CPUTimeRAW={row.cpu_time} is not {row.elapsed} x {row.cpus}")
        for act in job.did("suspend"):
            self.pauses(job, unit, row, act, final)

    def stood_still(self, row, final):
        """Its shim was stopped, which alone could have told when it ended."""
        return any(f.kind == "stop shim" and row_ids(row, final) & set(f.jobs) for f in self.ledger.faults)

    def pauses(self, job, unit, row, act, final):
        again = [a for a in job.did("resume") if a[0] > act[1]]
        if not act[3] or not again:
            return
        self.made("pause")
        if not any(m.what == "S" and m.at < act[0] for m in final):
            return  # its node was lost meanwhile: this is another run
        inside = [m.at for m in final if m.what in "BE" and act[1] + 1 < m.at < again[0][0]]
        if inside:
            self.find("pause", unit, f"{row}: alive at {inside[0]:.1f}, suspended from {act[1]:.1f} to {again[0][0]:.1f}, {self.happened(act[0], again[0][0])}")

    def happened(self, begin, end):
        names = [f"{f.kind} {f.node}" for f in self.ledger.faults if begin - 10 < f.begin < end + 10]
        return "near it: " + (", ".join(names) or "no fault")

    def client(self, job, unit, row, final):
        """What the command that stayed with its job returned."""
        self.made("client")
        code = self.ended(job, final)
        said = job.said.strip().replace("\n", "; ")[:300]
        if code is None and job.returned == 0:
            self.find("client", unit, f"{job.client} returned 0 though its job did not come to its end: {row}; it said: {said}")
        if code is not None and job.returned != code and not self.excuses(job, unit, row, final):
            self.find("client", unit, f"{job.client} returned {job.returned}, its job came to {code}: {row}; {self.happened(job.asked_at, job.answered_at)}; it said: {said}")

    # --- jobs among each other ---

    def order(self, job):
        word, tag = job.after
        for (unit_id, unit), index in zip(job.units(), job.indices or [None]):
            begin = min((m.at for m in self.ledger.trace(unit) if m.what == "S"), default=None)
            if begin is None or not tag:
                continue
            self.made("order")
            first = self.ledger.jobs[tag]
            before_id, before = first.units()[first.indices.index(index)] if index is not None else first.units()[0]
            row, marks = self.rows.get(before_id), self.ledger.trace(before)
            late = [m.at for m in marks if m.at > begin]
            if late:
                self.find("order", unit, f"{unit_id} began at {begin:.2f}, {before_id}, which it waits for, was alive at {max(late):.2f}")
            good = row is not None and row.state == "COMPLETED"
            if row is not None and (word in ("afterok", "aftercorr") and not good or word == "afternotok" and good):
                self.find("order", unit, f"{unit_id} ran after {word}:{before_id}, which ended as {row}")
        if word == "singleton":
            self.singleton(job)

    def singleton(self, job):
        """No two of one name at one time: judged once, by the first of them."""
        name = job.options[job.options.index("-J") + 1]
        spans = []
        for other in self.ledger.accepted():
            if name in other.options:
                marks = self.ledger.trace(other.tag)
                if marks:
                    spans.append((min(m.at for m in marks), max(m.at for m in marks), other.tag))
        spans.sort()
        self.made("order")
        for (_, end, one), (begin, _, two) in zip(spans, spans[1:]):
            if begin < end:
                self.find("order", two, f"{one} and {two} of one name ({name}) ran at one time")

    def devices(self):
        """By the traces: no device in two hands. The locks of task.sh see it at the moment; this sees what they may have missed."""
        spans = {}
        for job in self.ledger.accepted():
            for _, unit in job.units():
                marks = self.ledger.trace(unit)
                ends = {(m.attempt, m.where): m.at for m in marks if m.what in "Ee"}
                for m in marks:
                    if m.what in "Ss" and m.devices and (m.attempt, m.where) in ends and not (job.steps and m.step == BATCH):
                        for device in m.devices:
                            spans.setdefault((m.node, device), []).append((m.at, ends[m.attempt, m.where], unit))
        for place, held in spans.items():
            held.sort()
            self.made("devices")
            for (_, end, one), (begin, _, two) in zip(held, held[1:]):
                if begin < end and one != two:
                    self.find("shared", two, f"device {place[1]} of {place[0]}: {two} from {begin:.3f}, {one} until {end:.3f}")

    def unasked(self):
        """Submissions that were refused and ran all the same."""
        for job in self.ledger.refused:
            self.made("refused")
            units = [f"{job.tag}.{i}" for i in job.indices] or [job.tag]
            if any(self.ledger.trace(unit) for unit in units) and "may" not in job.said:
                self.find("refused", job.tag, f"was answered as refused and ran: {job.said.strip()[:300]}")


def row_ids(row, final):
    return {row.id.split("_")[0]} | {m.job for m in final}


def short(lines):
    return f"{lines[:3]}…{lines[-3:]} ({len(lines)})" if len(lines) > 8 else str(lines)
