#!/usr/bin/env python3
"""What a node adds to a program that it runs: isolation, containers, MPI; and what the node itself takes.

usage: node.py [ROW…]     rows: launch container images mpi wide idle slurm   (default: all)

Each figure stands beside what it is measured against in the same run, by turns: posix_spawn of the same program, the OCI
runtime alone, the same cluster where no control groups are mounted, Open MPI's own launcher, and Debian's Slurm with its
cgroup plug-ins (scripts of the peers folder, as for vs_slurm.py). Latencies are medians of whole commands, in milliseconds.
"""
import json
import os
import shutil
import statistics
import subprocess
import sys
import time

import vs_slurm
from vs_slurm import TOP, progress, rss_mib, show

import cluster as here
import images

PROGRAMS = os.path.join(TOP, "tests", "e2e", "programs")
rows = []


def add(name, figure, beside=None, against=None, wanted=""):
    """wanted: what the figure ought to be, in words."""
    rows.append((name, figure, beside, against or "", wanted))
    progress(f"{name}: {show(figure)}" + (f", {against} {show(beside)}" if against else ""))


class WithoutGroups(here.Cluster):
    """Its agents see no control groups, as on a machine without any."""

    def ok(self, *argv, **more):
        if argv[:2] == ("lockstep", "up"):
            argv = ("unshare", "-m", "sh", "-c", 'umount -R -l /sys/fs/cgroup; exec "$@"', "sh", *argv)
        return super().ok(*argv, **more)


def spent(argv, **more):
    start = time.monotonic()
    done = subprocess.run(argv, capture_output=True, text=True, timeout=120, **more)
    took = (time.monotonic() - start) * 1000
    if done.returncode != 0:
        raise RuntimeError(f"{argv} ended with {done.returncode}: {done.stderr}")
    return took


def by_turns(count, *measures):
    """The median of each, taken one after the other again and again; the first turn warms up."""
    found = [[] for _ in measures]
    for turn in range(count + 1):
        for measure, values in zip(measures, found):
            value = measure()
            if turn:
                values.append(value)
    return [statistics.median(values) for values in found]


def spawn(program="/bin/true"):
    start = time.monotonic()
    os.waitpid(os.posix_spawn(program, [program], os.environ), 0)
    return (time.monotonic() - start) * 1000


def command(c, *argv, **env):
    full = {**c.env, **env}
    return lambda: spent(argv, env=full, cwd=c.work)


class Allocation:
    """Of all nodes, for steps."""

    def __init__(self, c, nodes):
        self.c = c
        self.job = c.wrap("sleep 1000", f"-N{nodes}", "--exclusive", "--mem=0")
        c.wait(self.job, "RUNNING")

    def step(self, *argv):
        return command(self.c, "srun", *argv, SLURM_JOB_ID=self.job, SLURM_JOBID=self.job)


def row_launch():
    with here.Cluster(nodes=2, gpus=None, cpus=16) as with_groups, WithoutGroups(nodes=2, gpus=None, cpus=16) as without:
        one = ("--overlap", "-N1", "-n1", "true")
        a, b = Allocation(with_groups, 1), Allocation(without, 1)
        step, bare, start, spawned = by_turns(40, a.step(*one), b.step(*one), command(with_groups, "srun", "--version"), spawn)
        add("posix_spawn of true", spawned)
        add("srun --version: the command alone", start)
        add("a step of one task, isolated", step, bare, "without control groups")
        add("launching it, beyond the command and posix_spawn", step - start - spawned, wanted="at most 3")
        many = ("--overlap", "-N1", "-n16", "true")
        step16, bare16 = by_turns(20, a.step(*many), b.step(*many))
        add("each further task of the step", (step16 - step) / 15, (bare16 - bare) / 15, "without control groups")


def row_wide():
    with here.Cluster(nodes=64, gpus=None, cpus=4) as with_groups, WithoutGroups(nodes=64, gpus=None, cpus=4) as without:
        for n in (16, 64):
            words = ("srun", f"-N{n}", f"-n{n}", "true")
            mine, bare = by_turns(9, command(with_groups, *words), command(without, *words))
            add(f"srun -N{n} true, isolated", mine, bare, "without control groups", "at most twice that" if n == 64 else "")


def row_container():
    if images.missing() or not shutil.which("runc"):
        progress(f"not installed: {images.missing() or 'runc'}")
        return
    with here.Cluster(nodes=1, gpus=None, cpus=16) as c:
        layout, bundle = os.path.join(c.work, "layout"), os.path.join(c.work, "bundle")
        images.make_layout(layout, "v1")
        subprocess.run(["umoci", "unpack", "--image", f"{layout}:v1", bundle], check=True, stdout=subprocess.DEVNULL)
        path = os.path.join(bundle, "config.json")
        with open(path) as f:
            config = json.load(f)
        config["process"].update(terminal=False, args=["/bin/true"])
        with open(path, "w") as f:
            json.dump(config, f)
        job = Allocation(c, 1)
        inside = job.step("--overlap", "-n1", f"--container-image=oci:{layout}:v1", "/bin/true")
        number = iter(range(10**6))

        def runc():
            return spent(["runc", "--root", os.path.join(c.home, "runc"), "run", "--no-pivot", "--bundle", bundle, f"b{next(number)}"])
        try:
            runc()
        except RuntimeError as error:  # some machines give it no control groups
            progress(str(error))
            runc = None
        outside = job.step("--overlap", "-n1", "/bin/true")
        found = by_turns(20, inside, outside, *([runc] if runc else []))
        add("a step of one task in a warm container", found[0], found[1], "without container")
        if runc:
            add("container beyond the step and the runtime alone", found[0] - found[1] - found[2], found[2], "runc run", "at most 10")


def row_images(mib=1024, layers=4):
    """A large image, new to every node, from a registry on the first one."""
    if images.missing():
        progress(f"not installed: {images.missing()}")
        return
    with here.Cluster(nodes=4, gpus=None, cpus=4) as c:
        layout = os.path.join(c.work, "layout")
        images.make_layout(layout, "v1", more_layers=(
            images.tar_of({f"part{n}": (os.urandom(mib // layers << 20), 0o644)}) for n in range(layers)))
        registry = images.Registry(c.home, c.node("n1")["agent_pid"], 5000)
        try:
            registry.push(f"oci:{layout}:v1", "large:v1")
            shutil.rmtree(layout)
            times = {}
            for nodes in (1, 4):
                for node in c.status()["nodes"]:
                    for name in ("images", "blobs"):
                        shutil.rmtree(os.path.join(c.dir, "nodes", node["name"], "state", "containers", "0", name), ignore_errors=True)
                before = sum(registry.reads("blobs").values())
                times[nodes] = spent(["srun", f"-N{nodes}", "--container-image=127.0.0.1:5000#large:v1", "true"], env=c.env, cwd=c.work)
                add(f"blobs read from the registry by {nodes} nodes", sum(registry.reads("blobs").values()) - before,
                    wanted=f"{layers + 2}: each once")
            add(f"a new image of {mib} MiB on 4 nodes, to the end of its step", times[4], times[1], "on one node")
        finally:
            registry.close()


def row_mpi():
    compilers = {"mpich": ("pmi2", "mpicc.mpich", "mpiexec.mpich"), "openmpi": ("pmix", "mpicc.openmpi", "mpirun.openmpi")}
    with here.Cluster(nodes=4, gpus=None, cpus=16) as c:
        for name, (kind, compiler, launcher) in compilers.items():
            if not shutil.which(compiler) or not shutil.which(launcher):
                progress(f"not installed: {compiler}, {launcher}")
                continue
            program = os.path.join(c.work, name)
            subprocess.run([compiler, os.path.join(PROGRAMS, "mpi_world.c"), "-o", program], check=True, capture_output=True)
            env = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1", "OMPI_MCA_btl_base_warn_component_unused": "0",
                   "OMPI_MCA_btl": "self,vader,tcp", "OMPI_MCA_rmaps_base_oversubscribe": "1"}
            for nodes in (1, 4):
                ranks = str(16 * nodes)
                # Its own launcher has no other nodes here: as many ranks on one take as long on the same cores.
                found = by_turns(5, command(c, "srun", f"--mpi={kind}", f"-N{nodes}", "-n", ranks, program, **env),
                                 command(c, launcher, "-n", ranks, program, **env))
                add(f"{name}: {nodes} node{'s' if nodes > 1 else ''} x 16 ranks, from srun to its end", found[0],
                    found[1], f"{launcher} -n {ranks} on one", "under 1000" if nodes == 4 else "")


def cpu_seconds(pid):
    with open(f"/proc/{pid}/stat") as f:
        fields = f.read().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def row_idle(seconds=60):
    with here.Cluster(nodes=1, gpus="8xh100") as c:
        agent = c.node("n1")["agent_pid"]
        time.sleep(5)
        before = cpu_seconds(agent)
        time.sleep(seconds)
        add("idle agent with 8 GPUs: CPU, percent of a core", (cpu_seconds(agent) - before) / seconds * 100, wanted="under 0.1")
        add("idle agent with 8 GPUs: memory, MiB", rss_mib(agent), wanted="under 20")
        job = c.wrap("sleep 1000", "--gpus=1")
        c.wait(job, "RUNNING")
        found = subprocess.run(["pgrep", "-f", f"lockstep-shim.*/{job}-1-batch"], capture_output=True, text=True).stdout.split()
        if not found:  # a copy of the nursery goes by its folder alone
            found = [pid for pid in subprocess.run(["pgrep", "lockstep-shim"], capture_output=True, text=True).stdout.split()
                     if any(f"/{job}-1-batch" in os.path.realpath(f"/proc/{pid}/{what}") for what in ("cwd", "exe"))]
        if found:
            add("a shim with a script: memory, MiB", max(rss_mib(int(pid)) for pid in found), wanted="under 4")


def row_slurm():
    """The same launches by Slurm, with its cgroup plug-ins and without."""
    if not os.path.isdir(vs_slurm.PEERS) or os.environ.get("NO_PEER") == "1":
        progress(f"no peer scripts in {vs_slurm.PEERS}")
        return
    slurm = vs_slurm.Slurm()
    if subprocess.run(["bash", os.path.join(vs_slurm.PEERS, "setup.sh")], env=slurm.env, stdout=subprocess.DEVNULL,
                      stderr=subprocess.DEVNULL).returncode != 0:
        progress("Slurm could not be set up")
        return
    groups = "ConstrainCores=no\\nConstrainRAMSpace=yes\\nCgroupPlugin=cgroup/v1"
    kinds = {"without control groups": "gen_conf tuned $(nodes_real 16)",
             "with them": "EXTRA='ProctrackType=proctrack/cgroup\\nTaskPlugin=task/cgroup' gen_conf tuned $(nodes_real 16); "
                          "sed -i -e '0,/^ProctrackType/{/^ProctrackType/d}' -e '0,/^TaskPlugin/{/^TaskPlugin/d}' $B/slurm.conf; "
                          f"echo -e '{groups}' >> $B/cgroup.conf"}
    try:
        for name, configure in kinds.items():
            slurm.down()
            slurm.lib(f"start_munge; clean_state; {configure}; start_ctld; start_slurmds 16")
            time.sleep(2)
            for n in (1, 16):
                try:
                    add(f"Slurm: srun -N{n} true, {name}", vs_slurm.median_ms(slurm, ["srun", f"-N{n}", f"-n{n}", "true"]))
                except (RuntimeError, subprocess.TimeoutExpired) as error:
                    progress(f"Slurm {name}: {error}")
    finally:
        slurm.down()
        slurm.lib("stop_pidfile $B/run/munged.pid")


def main():
    wanted = sys.argv[1:] or ["launch", "container", "images", "mpi", "wide", "idle", "slurm"]
    if set(wanted) & {"-h", "--help"} or any("row_" + name not in globals() for name in wanted):
        sys.exit(__doc__)
    for name in wanted:
        globals()["row_" + name]()
    print(f"\n{'ms, unless it says otherwise':64} {'measured':>10}   beside{'':30} wanted")
    for name, figure, beside, against, wish in rows:
        there = f"{show(beside)} {against}" if against else ""
        print(f"{name:64} {show(figure):>10}   {there:36} {wish}")


if __name__ == "__main__":
    main()
