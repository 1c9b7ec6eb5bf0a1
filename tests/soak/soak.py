#!/usr/bin/env python3
"""A soak on real processes: soak.py [MINUTES] [--seed N]. Ordinary users, every kind of job, and faults, all drawn from the seed; checked all the
time and at the end. Prints a table, each failure with its job, command and log lines, and the seed. Exit code 1 if anything failed."""
import argparse
import os
import random
import re
import signal
import sys
import threading
import time
from collections import Counter

from world import BIN, World  # first: it says where the harness of the end-to-end tests is
from acts import Actor
from faults import Breaker
from ledger import Ledger
import plan
from verdict import Row, Verdict
from watch import Watch, growing

QUIET_S = 400  # by then everything must have ended, once all is healed
TOLD = 4  # findings of one check that are told with all that is known of them


class Soak:
    def __init__(self, minutes, seed, pace=1.0):
        self.minutes, self.seed = minutes, seed
        self.events = plan.make(seed, minutes * 60, pace)
        self.world = World(disk_mb=160 + int(3 * minutes))
        self.ledger = Ledger(self.world.room)
        self.actor, self.breaker = Actor(self.world, self.ledger), Breaker(self.world, self.ledger)
        self.watch = Watch(self.world, self.ledger, self.breaker)
        self.verdict, self.left, self.logs = None, [], {}

    def run(self):
        begin = time.time()
        try:
            self.world.up()
            self.world.furnish()
            self.begin_at = time.time()
            self.watch.start()
            self.storm()
            self.calm()
            self.judge()
        finally:
            self.watch.stop.set()
            if self.watch.is_alive():
                self.watch.join(timeout=130)
            self.logs = read_logs(self.world.dir)
            self.left = self.world.close()
        for text in self.left:
            self.ledger.find("left behind", text.split(":")[0], text)
        failed = self.report(time.time() - begin)
        self.world.remove()
        return failed

    def storm(self):
        threads, told = [], 0
        for at, what, words in self.events:
            if at // 60 > told:
                told = int(at // 60)
                self.progress(told)
            time.sleep(max(0.0, self.begin_at + at - time.time()))
            if what == "submit":
                call = (self.actor.submit, (words,))
            elif what == "fault":
                call = (self.breaker.fault, words)
            else:
                call = (self.actor.act, (what, words))
            thread = threading.Thread(target=self.guarded, args=call, daemon=True)
            thread.start()
            threads.append(thread)
        for thread in threads:
            thread.join(timeout=200)

    def progress(self, minute):
        with self.ledger.lock:
            failed = Counter(f[0] for f in self.ledger.findings)
            print(f"minute {minute}: {len(self.ledger.jobs)} submissions, {len(self.ledger.faults)} faults, "
                  + (", ".join(f"{n} x {check} FAILED" for check, n in failed.items()) or "all well"), flush=True)

    def guarded(self, call, words):
        try:
            call(*words)
        except Exception as e:
            self.ledger.find("soak", type(e).__name__, f"{call.__name__}{words}: {e!r}"[:600])

    def calm(self):
        """Everything is healed; then everything ends, and nothing is held any more."""
        self.breaker.up("calm")
        for n in range(1, plan.NODES + 1):
            self.world.run("lockstep", "node", "resume", f"n{n}", "--dir", self.world.dir)
        for thread in self.actor.clients:
            thread.join(timeout=QUIET_S)
        end = time.monotonic() + QUIET_S
        while time.monotonic() < end and (left := self.queue()):
            for line in left:
                unit_id, state, reason = line.split("|")
                if state == "SUSPENDED" or reason == "JobHeldUser":  # by an act whose answer was lost, or that came in vain
                    self.world.run("scontrol", "resume" if state == "SUSPENDED" else "release", unit_id)
            time.sleep(1)
        for line in self.queue():
            unit_id, state, reason = line.split("|")
            if "Dependency" not in reason:
                self.ledger.find("ends", unit_id, f"{line} {QUIET_S} s after everything was healed: "
                                 + self.world.run("scontrol", "show", "job", unit_id).stdout)
        self.freed()

    def queue(self):
        return self.world.run("squeue", "-h", "-r", "-o", "%i|%T|%r", timeout=100).stdout.split("\n")[:-1]

    def freed(self):
        """Nothing runs: nothing may be held on any node."""
        if not self.queue():
            deadline = time.monotonic() + 30
            while time.monotonic() < deadline and any(n["cores_used"] or n["devices_used"] for n in self.world.status()["nodes"]):
                time.sleep(1)
            for n in self.world.status()["nodes"]:
                if n["cores_used"] or n["devices_used"] or n["state"] not in ("idle", "reserved", "mixed", "allocated"):
                    self.ledger.find("freed", n["name"], f"{n['name']} is {n['state']} ({n['reason']}) with {n['cores_used']} cores and {n['devices_used']} devices in use, and nothing runs")

    def judge(self):
        wanted = {unit_id for job in self.ledger.accepted() for unit_id, _ in job.units()}
        rows = {}
        for _ in range(20):  # accounting follows the log
            text = self.world.ok("sacct", "-X", "-n", "-P", "-S", "now-2days", "-o", Row.FIELDS, timeout=100)
            rows = {row.id: row for row in map(Row, text.splitlines())}
            if not wanted - set(rows) and all(r.end for r in rows.values()):
                break
            time.sleep(1)
        self.verdict = Verdict(self.ledger, rows)
        self.verdict.judge()
        self.own_rows()
        self.sums()
        self.growth()

    def own_rows(self):
        """Each user sees exactly the own jobs."""
        for user in plan.USERS:
            shown = self.world.run("sacct", "-X", "-n", "-P", "-S", "now-2days", "-o", "JobID", user=user, timeout=100).stdout.split()
            mine = {unit_id.split("_")[0] for job in self.ledger.accepted() if job.user == user for unit_id, _ in job.units()}
            seen = {unit_id.split("_")[0] for unit_id in shown}
            if not mine <= seen:
                self.ledger.find("own rows", f"uid{user}", f"sacct as uid {user} shows {len(seen)} jobs, {len(mine)} are theirs")

    def sums(self):
        """What each user is charged, beside the rows: only attempts that were requeued are charged and have no row."""
        shown = self.world.run("sshare", "-a", "-n", "-P", "-o", "User,RawUsage", timeout=100).stdout
        charged = {words[0]: int(words[1]) for words in (line.strip().split("|") for line in shown.splitlines()) if words[0]}
        for user in plan.USERS:
            rows = [row for row in self.verdict.rows.values() if row.user == f"uid{user}" and row.elapsed is not None]
            total, slack = sum(row.cpu_time for row in rows), sum(row.cpus for row in rows if row.start)
            again = sum(row.cpus * row.restarts * 60 for row in rows)
            got = charged.get(f"uid{user}", 0)
            if not 0.95 * total - slack <= got <= 1.05 * total + slack + again:
                self.ledger.find("sums", f"uid{user}", f"sshare charges {got} core-seconds, the rows of sacct add up to {total} (+- {slack} for parts of seconds, {again} at most for requeued attempts)")

    def growth(self):
        if self.minutes >= 10:
            for name, early, late in growing(self.watch.sizes):
                self.ledger.find("growth", name, f"{name}: {early:.0f} in the second quarter, {late:.0f} in the last")

    # --- what is told ---

    def report(self, took):
        jobs = list(self.ledger.jobs.values())
        kinds, accepted = Counter(j.kind for j in jobs), Counter(j.kind for j in jobs if j.id)
        print(f"\n{'kind':<12} asked  taken")
        for kind in sorted(kinds):
            print(f"{kind:<12} {kinds[kind]:5}  {accepted[kind]:5}")
        faults = Counter(f.kind for f in self.ledger.faults if not f.note.startswith("not done"))
        print("\nfaults: " + ", ".join(f"{n} x {kind}" for kind, n in sorted(faults.items())))
        if self.verdict:
            states = Counter(row.state for row in self.verdict.rows.values())
            print("states: " + ", ".join(f"{n} {state}" for state, n in sorted(states.items())))
            print("checks: " + ", ".join(f"{n} {check}" for check, n in sorted(self.verdict.checked.items())) + f", {self.watch.looks} looks")
        print("most at once: " + ", ".join(f"{name} {most} of {plan.LIMITS[name][2]}" for name, most in self.watch.most.items()))
        for name in ("controller MiB", "controller fds", "agent n1 MiB", "agent n1 fds", "state MiB", "state files"):
            values = [s[name] for _, s in self.watch.sizes if name in s]
            if values:
                print(f"{name}: {values[0]:.0f} at first, {max(values):.0f} at most, {values[-1]:.0f} at last")
        refusals = {}
        for j in self.ledger.refused:
            refusals.setdefault(re.sub(r"\d+", "N", j.said.strip().split("\n")[0])[:150], []).append(j.answered_at - j.asked_at)
        for said, waits in refusals.items():
            print(f"refused {len(waits)} x after {min(waits):.1f} to {max(waits):.1f} s: {said}")
        for what, n in sorted(self.ledger.notes.items()):
            print(f"{n} x {what}")
        failed = Counter()
        for check, unit, text in sorted(self.ledger.findings, key=lambda f: f[0]):
            failed[check] += 1
            if failed[check] <= TOLD:
                self.tell(check, unit, text)
            else:
                print(f"FAILED {check}: {unit}: {text[:160]}")
        print(f"\nsoak: {len(jobs)} submissions, {sum(accepted.values())} taken, {sum(faults.values())} faults in {took:.0f} s, "
              + (", ".join(f"{n} x {check} FAILED" for check, n in failed.items()) or "all checks passed") + f"; seed {self.seed}")
        return 1 if failed else 0

    def tell(self, check, unit, text):
        print(f"\nFAILED {check}: {unit}: {text}")
        job = self.ledger.jobs.get(unit.split(".")[0]) or next((j for j in self.ledger.accepted() if j.id == unit.split("_")[0]), None)
        if not job:
            return
        print(f"  job {job.id or '-'} of uid {job.user}, asked {job.asked_at:.2f}, answered {job.answered_at:.2f}: "
              f"{job.client or 'sbatch'} {' '.join(self.actor.words(job) if job.id else job.options)} {' '.join(map(str, self.actor.script(job)))}")
        for act in job.acts:
            print(f"  {act[2]} asked {act[0]:.2f} answered {act[1]:.2f}: {'done' if act[3] else 'refused'}")
        ended = [self.verdict.rows[i].end or 0 for i, _ in job.units() if i in self.verdict.rows] if self.verdict else []
        end = max([job.answered_at, *ended] + [m.at for _, u in job.units() for m in self.ledger.trace(u)])
        for f in self.ledger.faults:
            if job.asked_at - 15 < f.begin < end + 15:
                print(f"  fault {f.begin:.2f}-{f.end:.2f} {f.kind} {f.node} {f.note}")
        for _, u in job.units()[:8]:
            if u == unit or "." not in unit:
                for m in [m for m in self.ledger.trace(u) if m.what != "B"][:12]:
                    print(f"  trace {u}: {m.what} attempt {m.attempt} {m.where} {m.node} {m.at:.3f} {m.word}")
        for _, u in job.units()[:8]:
            self.stderr_of(u, unit)
        for name, lines in self.logs.items():
            about = [line for line in lines if job.id and re.search(rf"\b(job )?{job.id}\b", line)]
            for line in about[:8]:
                print(f"  {name}: {line.rstrip()[:240]}")


    def stderr_of(self, name, unit):
        if name != unit and "." in unit:
            return
        path = os.path.join(self.ledger.room, "err", name)
        text = open(path, errors="replace").read() if os.path.exists(path) else ""
        for line in text.split("\n")[-9:]:
            if line:
                print(f"  stderr of {name}: {line[:240]}")


def read_logs(folder):
    logs = {}
    for root, _, names in os.walk(folder):
        for name in names:
            if name in ("log", "controller.log"):
                path = os.path.join(root, name)
                with open(path, errors="replace") as f:
                    logs[os.path.relpath(path, folder)] = f.readlines()
    return logs


def main():
    words = argparse.ArgumentParser(prog="./dev soak", description="A soak on real processes, with faults.")
    words.add_argument("minutes", nargs="?", type=float, default=60, help="default 60")
    words.add_argument("--seed", type=int, default=random.randrange(1, 10**6))
    words.add_argument("--pace", type=float, default=1.0, help="submissions a second, about (default 1)")
    asked = words.parse_args()
    if os.geteuid() != 0:
        sys.exit("soak: run this as root: virtual nodes, several users and a small disk need it")
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(130))
    print(f"soak: {asked.minutes:g} minutes, seed {asked.seed}, {BIN}", flush=True)
    sys.exit(Soak(asked.minutes, asked.seed, asked.pace).run())


if __name__ == "__main__":
    main()
