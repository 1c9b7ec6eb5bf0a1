#!/usr/bin/env python3
"""What planning a large cluster costs, as a table: ./dev bench sched scale [small]"""
import json
import subprocess
import sys

SIM = "build/release/bin/lockstep-sim"
ROWS = [  # nodes, queued, events of every class, first ms, p50 ms, max ms, more words
    (10_000, 10_000, 100, 2_000, 20, 200, []),
    (10_000, 10_000, 100, 2_000, 20, 200, ["--limits"]),
    (100_000, 1_000_000, 20, 60_000, 50, 1_000, []),
]


def line(name, value, target):
    verdict = "" if target is None else ("ok" if value <= target else f"{value / target:.2f} x")
    print(f"  {name:<26}{value:>12,.2f}{'' if target is None else f'{target:>12,}':>12}   {verdict}")


for nodes, queued, events, first, p50, most, words in ROWS[: 2 if "small" in sys.argv[1:] else None]:
    out = subprocess.run([SIM, "scale", "--nodes", str(nodes), "--gpus-per-node", "8", "--pending", str(queued), "--events", str(events),
                          "--seed", "1", "--json", *words], check=True, stdout=subprocess.PIPE)
    got = json.loads(out.stdout)
    print(f"{nodes:,} nodes x 8, {got['busy']:.1%} busy, {got['queued']:,} queued of {got['shapes']:,} shapes, {got['promised']:,} promised; "
          f"{got['us_per_job']:.2f} us a job" + ("; with accounts, limits and multifactor priority" if got["limits"] else ""))
    print(f"  {'ms of processor time':<26}{'measured':>12}{'target':>12}")
    line("first full plan", got["cycle_ms"]["first"], first)
    line("every event, p50", got["cycle_ms"]["p50"], p50)
    line("every event, max", got["cycle_ms"]["max"], most)
    for name, times in got["by_event"].items():
        line(f"{name}, p50", times["p50"], p50)
        line(f"{name}, max", times["max"], most)
    line("fits in mid-pass, max", got["fit_in_pass_ms"]["max"], 5)
    line("gang of 3, committed (ms)", got["gang_us"]["commit"] / 1e3, 0.1)
    line("victims: 2,000 nodes, 700", got["victims_ms"]["max"], 20)
    line("a job on 10,000 nodes", got["wide_ms"]["job"], 300)
    line("its plan", got["wide_ms"]["plan"], 25)
    line("a step on 10,000 nodes", got["wide_ms"]["step"], 300)
    line("a task on each of 10,000", got["wide_ms"]["tasks"], 300)
    line("a renewal of each of them", got["wide_ms"]["renewals"], 300)
    line("new kind submitted, max", got["new_kind_ms"]["max"], None)
    line("longest slice", got["slice_ms_max"], None)
    line("memory, MiB", got["rss_mib"], 4096)
