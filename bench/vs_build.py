#!/usr/bin/env python3
"""This build beside another checkout's, in pairs in one run: is what people wait for slower than it was?

usage: vs_build.py CHECKOUT [ROW…]     rows: launch sbatch api e2e queue   (default: all)

CHECKOUT holds a release build (build/release/bin) of another state. Both have a cluster of their own at the same time,
and take turns with single commands, so that whatever else the machine does meets both. Printed: the medians, and the
median of the pairs' ratios (under 1: ours takes less) with its quartiles.
"""
import importlib.util
import os
import statistics
import sys
import time

import vs_slurm
from vs_slurm import Lockstep, eventually, progress, rss_mib, show

rows = []


def load(checkout):
    """The cluster module of another checkout: it knows where that state keeps its files and sockets."""
    path = os.path.join(os.path.abspath(checkout), "tests", "e2e", "cluster.py")
    spec = importlib.util.spec_from_file_location("cluster_before", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    module.BIN = os.path.join(os.path.abspath(checkout), "build", "release", "bin")
    return module


def pairs(name, unit, measure, count):
    """measure(peer) -> a time or another figure of which less is better; who begins takes turns."""
    found = {ours: [], theirs: []}
    for i in range(count + 1):
        for peer in (ours, theirs) if i % 2 else (theirs, ours):
            value = measure(peer)
            if i:  # the first pair warms both up
                found[peer].append(value)
    ratios = sorted(a / b for a, b in zip(found[ours], found[theirs]))
    quarter = [ratios[int(q * (len(ratios) - 1))] for q in (0.25, 0.5, 0.75)]
    rows.append((f"{name} [{unit}]", statistics.median(found[ours]), statistics.median(found[theirs]), quarter))
    progress(f"{name}: {show(rows[-1][1])} now, {show(rows[-1][2])} before, ratio {quarter[1]:.3f}")


def up(nodes, real):
    for peer in (ours, theirs):
        peer.up(nodes, real=real)


def timed(*argv):
    def measure(peer):
        start = time.monotonic()
        result = peer.run(*argv, timeout=120)
        took = (time.monotonic() - start) * 1000
        if result.returncode != 0:
            raise RuntimeError(f"{peer.name}: {argv}: {result.stderr}")
        time.sleep(0.05)
        return took
    return measure


def row_launch():
    up(64, real=True)
    for n, count in ((1, 60), (16, 30), (64, 15)):
        pairs(f"srun -N{n} true", "ms", timed("srun", f"-N{n}", f"-n{n}", "true"), count)
    pairs("salloc -N1 true", "ms", timed("salloc", "-Q", "-N1", "true"), 40)

    def steps(n):
        script = (f"for i in 1 2 3 4 5; do a=$(date +%s%N); srun -N{n} -n{n} true > /dev/null; b=$(date +%s%N); "
                  "echo $(( (b - a) / 1000 )); done")

        def measure(peer):
            out = peer.run("salloc", "-Q", "-N64", "-n4096", "bash", "-c", script, timeout=120)
            return statistics.median(int(x) / 1000 for x in out.stdout.split())
        return measure
    for n in (1, 16, 64):
        pairs(f"step inside an allocation, -N{n}", "ms", steps(n), 8)


def row_sbatch():
    up(64, real=False)
    pairs("100 x sbatch in a shell", "ms",
          timed("bash", "-c", "for i in $(seq 100); do sbatch -o /dev/null --wrap=true > /dev/null || exit 1; done"), 10)


def row_api():
    up(64, real=False)
    pairs("API submit, 8 clients, one request at a time", "us a job", lambda p: 1e6 / p.api_submit(4000, 8), 8)
    pairs("API submit, 8 clients, 32 requests under way", "us a job", lambda p: 1e6 / p.api_submit(20000, 8, 32), 5)


def row_e2e():
    up(4, real=True)

    def whole(peer, jobs=500):
        before = peer.completed()
        start = time.monotonic()
        peer.api_submit(jobs, 8)
        eventually(lambda: peer.completed() - before >= jobs, 120, "all jobs completed")
        return (time.monotonic() - start) / jobs * 1e6
    pairs("no-op jobs, submit to completed, 4 nodes", "us a job", whole, 6)


def row_queue():
    up(64, real=False)
    for peer in (ours, theirs):
        peer.api_submit(50000, 8, 32)
    pairs("controller memory, 50,000 queued jobs", "MiB", lambda p: rss_mib(p.pid()), 1)
    pairs("squeue, 50,000 jobs", "ms", timed("squeue", "-r"), 10)
    pairs("squeue -j one", "ms", timed("squeue", "-j", "100"), 10)
    pairs("controller restart, 50,000 jobs", "ms", lambda p: p.restart(vs_slurm.signal.SIGTERM) * 1000, 3)


def main():
    global ours, theirs
    if len(sys.argv) < 2 or sys.argv[1] in ("-h", "--help") or not os.path.isdir(sys.argv[1]):
        sys.exit(__doc__)
    wanted = sys.argv[2:] or ["launch", "sbatch", "api", "e2e", "queue"]
    ours, theirs = Lockstep("now"), Lockstep("before", load(sys.argv[1]))
    try:
        for name in wanted:
            globals()["row_" + name]()
    finally:
        ours.down()
        theirs.down()
    print(f"\n{'':58} {'now':>9} {'before':>9}   ratio (quartiles)")
    for name, now, before, (low, middle, high) in rows:
        print(f"{name:58} {show(now):>9} {show(before):>9}   {middle:.3f} ({low:.3f} - {high:.3f})")


if __name__ == "__main__":
    main()
