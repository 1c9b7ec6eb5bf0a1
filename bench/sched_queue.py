#!/usr/bin/env python3
"""./dev bench sched queue: published schedulers and ours on the same job logs, by lockstep-sim.

Prints what was published, what lockstep-sim reproduces of it, and the default policy with its ratios to EASY in the
same loop: mean wait, mean bounded slowdown (10 s), 99th percentile, longest wait, wait weighted by work, utilisation.
The default policy is the real core and the real planner under a virtual clock; its oracle row is their order alone. A last table says
who pays: waits by how much of the machine a job takes, on these logs and on some that nobody tuned for (queue_logs.py). The logs lie where
LOCKSTEP_TRACES says; docs/decisions/0004-order-among-equals.md tells where they come from.
"""
import json
import os
import subprocess
import sys
import tempfile

import queue_logs

SIM = "build/release/bin/lockstep-sim"
LUBLIN_WINDOWS = [1981, 2756, 4299, 8850, 3316, 2714, 5228, 7762, 4022, 7085]
SCALINGS = [-2, -1, 0, 1, 2]

LOGS = {
    "SDSC-SP2": ["queue", "hpc/SDSC-SP2-1998_cqsim.csv.gz", "--procs", "128"],
    "KTH-SP2": ["queue", "hpc/KTH-SP2-1996-2.2.swf.gz", "--procs", "100"],
    "Lublin-1": ["queue", "hpc/lublin-1_256.swf.gz", "--procs", "256",
                 "--window", ",".join(f"{w}:1024" for w in LUBLIN_WINDOWS)],
    "Philly-main": ["gpu", "gpu/philly_main_limits.csv.gz", "--nodes", "67", "--gpus-per-node", "8"],
    "Chronus": ["gpu", "gpu/chronus_mix1_limits.csv.gz", "--nodes", "160", "--gpus-per-node", "8"],
}
# log, words, published wait, slowdown (None: not published)
PUBLISHED = [
    ("SDSC-SP2", "conservative --oracle", 14205.8, 64.11, "CQSim"),
    ("SDSC-SP2", "easy", 17812.0, 84.03, "traces README"),
    ("SDSC-SP2", "conservative", 21149.5, 94.32, "traces README"),
    ("SDSC-SP2", "easy-sjbf", 17458.7, 75.16, "traces README"),
    ("SDSC-SP2", "easy --oracle", 13931.4, 65.32, "traces README"),
    ("SDSC-SP2", "easy-sjbf --oracle", 12880.4, 50.35, "traces README"),
    ("KTH-SP2", "easy", 6855.2, 90.78, "traces README"),
    ("KTH-SP2", "conservative", 8077.4, 101.86, "traces README"),
    ("KTH-SP2", "easy-sjbf", 5964.4, 68.19, "traces README"),
    ("KTH-SP2", "easy --oracle", 5795.7, 67.63, "traces README"),
    ("KTH-SP2", "easy-sjbf --oracle", 4946.2, 49.46, "traces README"),
    ("Philly-main", "fifo", 171225, 1181, "traces README"),
    ("Philly-main", "easy", 13702, 62.5, "traces README"),
    ("Chronus", "fifo", 16286, 7.51, "traces README"),
    ("Chronus", "easy", 2717, 1.74, "traces README"),
]
HEURISTICS = {  # slowdown and utilisation, without and with backfilling
    "fcfs": (7273.77, 235.82, 0.657, 0.868),
    "wfp3": (19753.53, 133.87, 0.747, 0.864),
    "unicep": (22274.74, 307.23, 0.691, 0.883),
    "sjf": (277.35, 73.31, 0.762, 0.778),
    "f1": (258.37, 75.07, 0.816, 0.840),
}
TARGETS = {"SDSC-SP2": (11600, 34), "KTH-SP2": (4350, 37), "Lublin-1": (None, 41), "Philly-main": (5600, 3.7),
           "Chronus": (1410, 1.30)}


def traces():
    folder = os.environ.get("LOCKSTEP_TRACES")
    if not folder or not os.path.isdir(folder):
        sys.exit("bench sched queue: set LOCKSTEP_TRACES to the folder with hpc/ and gpu/ job logs in it")
    for words in LOGS.values():
        path = os.path.join(folder, words[1])
        if not os.path.exists(path):
            sys.exit(f"bench sched queue: {path} is missing")
    return folder


def run(folder, log, policy, *more):
    command, path, *rest = LOGS[log]
    words = [SIM, command, "--log", os.path.join(folder, path), *rest, "--json", "--policy", *policy.split(), *more]
    done = subprocess.run(words, capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"bench sched queue: {' '.join(words)}\n{done.stderr}")
    return json.loads(done.stdout)


def share(ours, theirs):
    return f"{ours / theirs:.2f}" if theirs else "-"


def reproduced(folder):
    print("Reproduced: mean wait in s / mean bounded slowdown")
    print(f"  {'log':12} {'policy':22} {'given':>19} {'here':>19}  by")
    for log, policy, wait, slowdown, source in PUBLISHED:
        got = run(folder, log, policy)
        same = f", {got['starts_as_published']} of {got['published_starts']} starts" if source == "CQSim" else ""
        print(f"  {log:12} {policy:22} {wait:10.1f} / {slowdown:6.2f} {got['avg_wait_s']:10.1f} / {got['avg_bsld']:6.2f}"
              f"  {source}{same}")
    print("\nRLScheduler's loop on Lublin-1, ten windows: slowdown without | with backfilling, utilisation likewise")
    for policy, given in HEURISTICS.items():
        bare, filled = (run(folder, "Lublin-1", policy, "--loop", "rl", *words) for words in (["--no-backfill"], []))
        print(f"  {policy:8} given {given[0]:9.2f} | {given[1]:7.2f}  {given[2]:.3f} | {given[3]:.3f}   here "
              f"{bare['avg_bsld']:9.2f} | {filled['avg_bsld']:7.2f}  {bare['utilization_to_last_start']:.3f} | "
              f"{filled['utilization_to_last_start']:.3f}")
    got, easy = (run(folder, "Lublin-1", policy, "--loop", "rl") for policy in ("default", "fcfs"))
    print(f"  default  RL 58.64, to reach 54:  {got['avg_bsld']:.2f}; against fcfs p99 {share(got['p99_wait_s'], easy['p99_wait_s'])}"
          f" max {share(got['max_wait_s'], easy['max_wait_s'])}")


def ratios(got, easy):
    gangs = f" {share(got['gang_wait_s'], easy['gang_wait_s']):>6}" if "gang_wait_s" in got else f" {'-':>6}"
    lost = 100 * (got["utilization"] / easy["utilization"] - 1)
    return (f"{share(got['avg_wait_s'], easy['avg_wait_s']):>6} {share(got['avg_bsld'], easy['avg_bsld']):>6} "
            f"{share(got['p99_wait_s'], easy['p99_wait_s']):>6} {share(got['max_wait_s'], easy['max_wait_s']):>6} "
            f"{share(got['area_wait_s'], easy['area_wait_s']):>6} {lost:+6.2f}%{gangs}")


def mean(results):
    return {key: sum(one[key] for one in results) / len(results) for key in results[0] if isinstance(results[0][key], (int, float))}


def ours(folder):
    head = f"{'wait':>6} {'bsld':>6} {'p99':>6} {'max':>6} {'area':>6} {'util.':>7} {'gangs':>6}"
    print("\nThe default policy, limits and learned predictions only, one set of parameters; ratios to EASY in the same loop")
    print(f"  {'log':12} {'':10} {'to reach':>15} {'wait s / bsld':>19}  {head}")
    for log in LOGS:
        wait, slowdown = TARGETS[log]
        target = f"{wait or '-'} / {slowdown}"
        scaled = [[run(folder, log, policy, "--scale-submit", str(percent)) for percent in SCALINGS]
                  for policy in ("default", "easy")]
        for name, got, easy in (("as logged", scaled[0][2], scaled[1][2]), ("mean of 5", mean(scaled[0]), mean(scaled[1]))):
            print(f"  {log:12} {name:10} {target:>15} {got['avg_wait_s']:10.1f} / {got['avg_bsld']:6.2f}  {ratios(got, easy)}")
        oracle, easy = run(folder, log, "turns", "--oracle"), scaled[1][2]
        print(f"  {log:12} {'oracle':10} {'':>15} {oracle['avg_wait_s']:10.1f} / {oracle['avg_bsld']:6.2f}  {ratios(oracle, easy)}")
    print("  mean of 5: submit times stretched by -2, -1, 0, 1 and 2 %. oracle: run times known, for comparison only.")


WIDTHS = ["1/8", "1/4", "1/2", "all"]
MEAN_MOST, LONGEST_MOST = 1.2, 1.5  # what those wider than half of the machine may wait, beside EASY


def by_width(folder):
    print("\nWaits by width: jobs of up to so much of the machine, mean and longest wait, ratios to EASY in the same loop")
    print(f"  {'log':14} {'wait':>6} {'gangs':>6}  " + " ".join(f"{w:>12}" for w in WIDTHS))
    late = []
    with tempfile.TemporaryDirectory() as made:
        LOGS.update(queue_logs.make(folder, made))
        for log in LOGS:
            got, easy = (run(folder, log, policy) for policy in ("default", "easy"))
            cells = []
            for own, theirs in zip(got["by_width"], easy["by_width"]):
                mean_ratio, longest = (own[key] / theirs[key] if theirs[key] else 1.0 for key in ("avg_wait_s", "max_wait_s"))
                cells.append(f"{mean_ratio:5.2f} / {longest:4.2f}" if theirs["jobs"] else f"{'-':>12}")
                if own["up_to"] == 1 and theirs["jobs"] and (mean_ratio > MEAN_MOST or longest > LONGEST_MOST):
                    late.append(log)
            gangs = share(got["gang_wait_s"], easy["gang_wait_s"]) if "gang_wait_s" in got else "-"
            print(f"  {log:14} {share(got['avg_wait_s'], easy['avg_wait_s']):>6} {gangs:>6}  " + " ".join(f"{c:>12}" for c in cells))
    print(f"  the widest wait over {MEAN_MOST} times as long as under EASY, or the longest of them over {LONGEST_MOST} times: "
          + (", ".join(late) or "on none"))


if __name__ == "__main__":
    where = traces()
    if sys.argv[1:] == ["--widths"]:
        sys.exit(by_width(where))
    reproduced(where)
    ours(where)
    by_width(where)
