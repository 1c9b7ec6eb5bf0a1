#!/usr/bin/env python3
"""Ours and Debian's Slurm, measured in the same run on this machine, as a table with ratios.

usage: vs_slurm.py [ROW…]     rows: api sbatch e2e launch queue crash slow-disk   (default: all)

Slurm comes from the scripts of the peers folder (PEERS, default ../shared/peers/slurm beside the repository): real
slurmctld and slurmd on loopback, default settings except where a row says so. Latencies are medians of whole commands.
"""
import os
import re
import signal
import statistics
import subprocess
import sys
import tempfile
import time

TOP = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
sys.path.insert(0, os.path.join(TOP, "tests", "e2e"))
import cluster as here  # noqa: E402
from cluster import eventually  # noqa: E402

PEERS = os.environ.get("PEERS", os.path.join(os.path.dirname(TOP), "shared", "peers", "slurm"))
rows = []


def progress(text):
    print(f"[{time.strftime('%T')}] {text}", file=sys.stderr, flush=True)


def add(name, unit, ours, theirs, more_is_better=False):
    ratio = None
    if ours and theirs:
        ratio = ours / theirs if more_is_better else theirs / ours
    rows.append((name, unit, ours, theirs, ratio))
    progress(f"{name}: ours {show(ours)}, Slurm {show(theirs)} {unit}" + (f", {ratio:.1f}x better" if ratio else ""))


def show(value):
    if value is None:
        return "-"
    if isinstance(value, str):
        return value
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"


def rss_mib(pid):
    text = open(f"/proc/{pid}/status").read()
    return int(re.search(r"VmRSS:\s+(\d+)", text).group(1)) / 1024


class Slurm:
    """Debian's Slurm through the functions of the peers' lib.sh."""
    name = "Slurm"

    def __init__(self):
        self.home = os.environ.get("SLURM_BENCH_DIR", os.path.join(tempfile.gettempdir(), "slurmbench"))
        self.env = {k: v for k, v in os.environ.items() if not k.startswith(("SLURM_", "LOCKSTEP_"))}
        self.env.update(B=self.home, SLURM_CONF=os.path.join(self.home, "slurm.conf"), NOSETSID="1")
        self.work = tempfile.mkdtemp(prefix="slurm-work-")

    def lib(self, text, timeout=300):
        return subprocess.run(["bash", "-c", f'. "{PEERS}/lib.sh"; {text}'], env=self.env, timeout=timeout,
                              stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL).returncode

    def up(self, nodes, real, profile="default"):
        self.down()
        start = f"start_munge; clean_state; gen_conf {profile} $(nodes_real {nodes}); start_ctld"
        self.lib(start + (f"; start_slurmds {nodes}" if real else ""))
        time.sleep(2 if real else 0.2)

    def down(self):
        self.lib("stop_slurmds; stop_ctld")

    def run(self, *argv, **kw):
        return subprocess.run(argv, env=self.env, cwd=self.work, capture_output=True, text=True, **kw)

    def pid(self):
        return int(open(os.path.join(self.home, "run", "slurmctld.pid")).read())

    def api_submit(self, jobs, processes):
        start = time.monotonic()
        ps = [subprocess.Popen([os.path.join(self.home, "submit"), str(jobs // processes), "0", str(i)], env=self.env,
                               stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) for i in range(processes)]
        for p in ps:
            p.wait()
        return jobs / (time.monotonic() - start)

    def completed(self):
        out = self.run("sdiag").stdout
        return int(re.search(r"Jobs completed:\s+(\d+)", out).group(1))

    def queued(self):
        return len(self.run("squeue", "-h", "-r", "-o", "%i").stdout.split())

    def restart(self, sig):
        self.lib("stop_ctld" if sig == signal.SIGTERM else "stop_pidfile $B/run/slurmctld.pid -KILL")
        start = time.monotonic()
        self.lib("start_ctld")
        return time.monotonic() - start

    def kill(self):
        os.kill(self.pid(), signal.SIGKILL)
        time.sleep(0.2)
        try:
            os.unlink(os.path.join(self.home, "run", "slurmctld.pid"))
        except FileNotFoundError:
            pass

    def recover(self):
        self.lib("start_ctld")

    def acked_load(self, path):
        return subprocess.Popen(["bash", "-c", f'STOPFAIL=1 "{self.home}/submit" 100000 0 1 3>"{path}"'], env=self.env,
                                stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


class Lockstep:
    def __init__(self, name="Lockstep", build=here):
        """build: the cluster module of the checkout whose programs run."""
        self.name, self.build, self.cluster = name, build, None

    def up(self, nodes, real, env=None):
        self.down()
        self.cluster = self.build.Cluster(nodes=nodes, gpus=None, cpus=64)
        self.cluster.env.update(env or {})
        self.cluster.up()
        self.env, self.work = self.cluster.env, self.cluster.work
        if not real:  # jobs must queue: take every node out of service
            for n in range(1, nodes + 1):
                self.run("scontrol", "update", f"nodename=n{n}", "state=drain", "reason=bench")

    def down(self):
        if self.cluster:
            self.cluster.down()
            self.cluster = None

    def run(self, *argv, **kw):
        return subprocess.run(argv, env=self.env, cwd=self.work, capture_output=True, text=True, **kw)

    def pid(self):
        return self.cluster.controller_pid()

    def api_submit(self, jobs, connections, window=1, *flags):
        out = self.run(os.path.join(self.build.BIN, "bench-submit"), self.env["LOCKSTEP_SOCKET"], str(jobs), str(connections), str(window),
                       *flags)
        found = re.search(r"(\d+) jobs/s", out.stdout)
        if not found:
            raise RuntimeError(out.stdout + out.stderr)
        return float(found.group(1))

    def completed(self):
        text = self.run("lockstep", "status", "--dir", self.cluster.dir, "-o", "json").stdout
        return int((re.search(r'"completed":(\d+)', text) or [0, 0])[1])

    def queued(self):
        return len(self.run("squeue", "-h", "-r", "-o", "%i").stdout.split())

    def restart(self, sig):
        self.cluster.kill_controller(sig)
        start = time.monotonic()
        self.recover()
        return time.monotonic() - start

    def kill(self):
        self.cluster.kill_controller()

    def recover(self):
        self.cluster.up()

    def acked_load(self, path):
        return subprocess.Popen([os.path.join(self.build.BIN, "bench-submit"), self.env["LOCKSTEP_SOCKET"], "200000", "8", "8", "--acked", path],
                                env=self.env, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def median_ms(peer, argv, count=9, gap=0.1):
    times = []
    for _ in range(count):
        start = time.monotonic()
        result = peer.run(*argv, timeout=120)
        times.append((time.monotonic() - start) * 1000)
        if result.returncode != 0:
            raise RuntimeError(f"{peer.name}: {argv}: {result.stderr}")
        time.sleep(gap)
    return statistics.median(times)


def both(measure):
    """[ours, theirs], each tried on its own: a peer that fails a row leaves a dash, not the end of the run."""
    out = []
    for peer in (ours, slurm):
        try:
            out.append(measure(peer) if peer else None)
        except Exception as error:  # noqa: BLE001
            progress(f"{peer.name}: {error}")
            out.append(None)
    return out


def row_api():
    for peer in (ours, slurm):
        if peer:
            peer.up(64, real=False)
    add("API submit, 8 clients, one request at a time", "jobs/s", *both(lambda p: p.api_submit(8000, 8)), more_is_better=True)
    add("API submit, 8 clients, 32 requests under way each (durable)", "jobs/s",
        ours.api_submit(60000, 8, 32), rows[-1][3], more_is_better=True)


def row_sbatch():
    for peer in (ours, slurm):
        if peer:
            peer.up(64, real=False)

    def loop(peer):
        start = time.monotonic()
        peer.run("bash", "-c", "for i in $(seq 500); do sbatch -o /dev/null --wrap=true > /dev/null || echo FAIL; done")
        return 500 / (time.monotonic() - start)
    add("sbatch loop in a shell", "jobs/s", *both(loop), more_is_better=True)


def row_e2e():
    for nodes in (4, 16):
        for peer in (ours, slurm):
            if peer:
                peer.up(nodes, real=True, **({"profile": "tuned"} if peer is slurm else {}))

        def whole(peer, jobs=1000):
            before = peer.completed()
            start = time.monotonic()
            peer.api_submit(jobs, 8)
            eventually(lambda: peer.completed() - before >= jobs, 120, "all jobs completed")
            return jobs / (time.monotonic() - start)
        add(f"1,000 no-op jobs submit to completed, {nodes} nodes", "jobs/s", *both(whole), more_is_better=True)


def row_launch():
    for peer in (ours, slurm):
        if peer:
            peer.up(64, real=True)
    for n in (1, 16, 64):
        add(f"srun -N{n} true", "ms", *both(lambda p: median_ms(p, ["srun", f"-N{n}", f"-n{n}", "true"])))
    add("salloc -N1 true", "ms", *both(lambda p: median_ms(p, ["salloc", "-Q", "-N1", "true"])))

    def steps(peer, n):
        script = (f"for i in $(seq 9); do a=$(date +%s%N); srun -N{n} -n{n} true > /dev/null; b=$(date +%s%N); "
                  "echo $(( (b - a) / 1000 )); done")
        out = peer.run("salloc", "-Q", "-N64", "-n4096", "bash", "-c", script, timeout=120)
        return statistics.median([int(x) / 1000 for x in out.stdout.split()])
    for n in (1, 16, 64):
        add(f"step inside an allocation, -N{n}", "ms", *both(lambda p: steps(p, n)))


def row_queue():
    for peer in (ours, slurm):
        if peer:
            peer.up(64, real=False)
    both(lambda p: p.api_submit(50000, 8))
    add("queued jobs", "jobs", *both(lambda p: float(p.queued())), more_is_better=True)
    add("controller memory, 50,000 queued jobs", "MiB", *both(lambda p: rss_mib(p.pid())))
    add("squeue, 50,000 jobs", "ms", *both(lambda p: median_ms(p, ["squeue", "-r"], 5)))
    add("squeue -j one", "ms", *both(lambda p: median_ms(p, ["squeue", "-j", "100"], 5)))
    add("controller restart, 50,000 jobs", "ms", *both(lambda p: p.restart(signal.SIGTERM) * 1000))
    add("kill -9 and restart, 50,000 jobs", "ms", *both(lambda p: p.restart(signal.SIGKILL) * 1000))
    add("memory after restart", "MiB", *both(lambda p: rss_mib(p.pid())))

    def cancel(peer):
        start = time.monotonic()
        peer.run("scancel", "-u", "root", timeout=300)
        return (time.monotonic() - start) * 1000
    add("scancel of all 50,000", "ms", *both(cancel))
    ours.up(64, real=False)
    ours.api_submit(50000, 8, 32, "--distinct")
    add("controller memory, 50,000 queued jobs that all differ", "MiB", rss_mib(ours.pid()), None)


def row_crash(rounds=20):
    def lost(peer):
        total_acked = total_lost = 0
        for r in range(rounds if peer is ours else 4):
            peer.up(4, real=False)
            path = os.path.join(peer.work, "acked")
            load = peer.acked_load(path)
            time.sleep((0.4 + 0.07 * r) if peer is ours else 3 + 1.37 * r)
            peer.kill()
            load.kill()
            load.wait()
            acked = {line for line in open(path).read().split("\n")[:-1] if line}
            peer.recover()
            there = set(peer.run("squeue", "-h", "-r", "-t", "all", "-o", "%A").stdout.split())
            total_acked += len(acked)
            total_lost += len(acked - there)
        progress(f"{peer.name}: {total_lost} of {total_acked} acknowledged jobs lost")
        return f"{total_lost:,} of {total_acked:,}"
    mine, theirs = both(lost)
    rows.append(("acknowledged jobs lost over kill -9 (20 x ours, 4 x Slurm)", "jobs", mine, theirs, None))


def row_slow_disk():
    ours.up(4, real=False, env={"LOCKSTEP_SYNC_DELAY_US": "5000"})
    add("API submit with 5 ms added to every sync, 8 x 32 under way", "jobs/s", ours.api_submit(20000, 8, 32), None, True)
    add("the same, one request at a time of 8 clients", "jobs/s", ours.api_submit(800, 8, 1), None, True)


def main():
    global ours, slurm
    wanted = sys.argv[1:] or ["api", "sbatch", "e2e", "launch", "queue", "crash", "slow-disk"]
    ours = Lockstep()
    slurm = None
    if os.path.isdir(PEERS) and os.environ.get("NO_PEER") != "1":
        progress("installing Debian's Slurm, privately")
        slurm = Slurm()
        if subprocess.run(["bash", os.path.join(PEERS, "setup.sh")], env=slurm.env, stdout=subprocess.DEVNULL,
                          stderr=subprocess.DEVNULL).returncode != 0:
            progress("Slurm could not be set up: only our figures follow")
            slurm = None
    else:
        progress(f"no peer scripts in {PEERS}: only our figures follow")
    try:
        for name in wanted:
            globals()["row_" + name.replace("-", "_")]()
    finally:
        ours.down()
        if slurm:
            slurm.down()
            slurm.lib("stop_pidfile $B/run/munged.pid")
    print(f"\n{'':62} {'Lockstep':>14} {'Slurm':>16} {'ratio':>8}")
    for name, unit, mine, theirs, ratio in rows:
        print(f"{name + ' [' + unit + ']':62} {show(mine):>14} {show(theirs):>16} {f'{ratio:.1f}x' if ratio else '':>8}")


if __name__ == "__main__":
    main()
