#!/usr/bin/env python3
"""./dev bench sched pack: GPUs allocated by packing on the nine openb mixes, by lockstep-sim.

Prints the published FGD, ours, and the default policy, which is the real core and the real planner, told the mix and learning it,
paired by seed. The traces lie in the directory that --traces or LOCKSTEP_TRACES names (it holds openb/); --mixes default,gpuspec33 and --seeds 42-44 make it short.
"""
import argparse
import csv
import gzip
import json
import math
import os
import subprocess
import sys

SIM = "build/release/bin/lockstep-sim"
MIXES = ["default", "cpu050", "cpu100", "gpushare100", "gpushare40", "gpuspec10", "gpuspec33", "multigpu20", "multigpu50"]
AT = ["80", "100", "130"]


def find(directory, *names):
    """The path of a file below the traces' directory, packed or not."""
    path = os.path.join(directory, *names)
    for candidate in (path, path + ".gz"):
        if os.path.exists(candidate):
            return candidate
    sys.exit(f"sched: {path}(.gz) is not there: name the traces' directory with --traces or LOCKSTEP_TRACES")


def mean(values):
    return sum(values) / len(values)


def standard_error(values):
    if len(values) < 2:
        return float("nan")
    middle = mean(values)
    return math.sqrt(sum((v - middle) ** 2 for v in values) / (len(values) - 1) / len(values))


def published_fgd(directory):
    """mix -> percent -> mean over the published seeds."""
    path = find(directory, "openb", "published_alloc_pct_by_seed.csv")
    opened = gzip.open(path, "rt") if path.endswith(".gz") else open(path)
    found = {}
    with opened as file:
        for row in csv.DictReader(file):
            if row["sc_policy"].endswith("FGD"):
                mix = row["workload"].removeprefix("openb_pod_list_")
                for at in AT:
                    found.setdefault(mix, {}).setdefault(at, []).append(float(row[at]))
    return {mix: {at: mean(values) for at, values in by.items()} for mix, by in found.items()}


def main():
    parser = argparse.ArgumentParser(prog="./dev bench sched pack")
    parser.add_argument("--traces", default=os.environ.get("LOCKSTEP_TRACES"))
    parser.add_argument("--mixes", default=",".join(MIXES), help="of openb_pod_list_*")
    parser.add_argument("--seeds", default="42-51")
    options = parser.parse_args()
    if not options.traces:
        sys.exit("sched: where are the traces? Name their directory with --traces or LOCKSTEP_TRACES")
    published = published_fgd(options.traces)
    nodes = find(options.traces, "openb", "openb_node_list_gpu_node.csv")

    def run(mix, *policy):
        pods = find(options.traces, "openb", f"openb_pod_list_{mix}.csv")
        command = [SIM, "pack", "--nodes", nodes, "--pods", pods, "--seeds", options.seeds, "--json", "--policy", *policy]
        print(f"{mix}: {' '.join(policy)}", file=sys.stderr)
        answer = json.loads(subprocess.run(command, stdout=subprocess.PIPE, check=True).stdout)
        return [seed["alloc_pct"] for seed in answer["seeds"]]

    mixes = options.mixes.split(",")
    runs = {mix: (run(mix, "bestfit"), run(mix, "fgd"), run(mix, "default", "--mix", "known"), run(mix, "default", "--mix", "online"))
            for mix in mixes}
    print(f"GPUs allocated, % of the cluster; seeds {options.seeds}; differences to our FGD paired by seed, ± standard error")
    for at in AT:
        print(f"\nat {at} % asked   FGD published   BestFit   FGD    known  online   known - FGD    online - FGD")
        sums = [0.0, 0.0]
        for mix in mixes:
            best_fit, fgd, known, online = ([seed[at] for seed in by_seed] for by_seed in runs[mix])
            line = f"{mix:<13} {published.get(mix, {}).get(at, float('nan')):14.2f} {mean(best_fit):11.2f} "
            line += f"{mean(fgd):6.2f} {mean(known):7.2f} {mean(online):7.2f}"
            for n, ours in enumerate((known, online)):
                differences = [a - b for a, b in zip(ours, fgd)]
                sums[n] += mean(differences) / len(mixes)
                line += f"   {mean(differences):+5.2f} ± {standard_error(differences):4.2f}"
            print(line, flush=True)
        print(f"{'mean':<62} {sums[0]:+5.2f}          {sums[1]:+5.2f}")


if __name__ == "__main__":
    main()
