"""lockstep up, down, env, status: side by side, again and again, and nothing left behind."""
import json
import os
import re
import shutil
import signal
import subprocess
import tempfile
import unittest
from pathlib import Path

from cluster import BIN, TOP, Cluster, eventually, running, send


def links():
    return subprocess.run(["ip", "-o", "link"], capture_output=True, text=True).stdout


def machine(home):
    """What a cluster could leave behind outside its directory, but interfaces."""
    mounts = open("/proc/self/mountinfo").read()
    processes = subprocess.run(["ps", "-e", "-o", "stat=,args="], capture_output=True, text=True).stdout.split("\n")
    groups = set()
    for root in ("/sys/fs/cgroup/unified", "/sys/fs/cgroup"):
        if os.path.isdir(root):
            groups |= {os.path.join(root, n) for n in os.listdir(root) if "lockstep" in n}
    return {
        "mounts": len(mounts.split("\n")),
        "processes": sorted(p for p in processes if home in p and not p.startswith("Z")),
        "cgroups": sorted(groups),
        "run": sorted(n for n in os.listdir("/run") if "lockstep" in n),
    }


class Local(unittest.TestCase):
    def test_nothing_is_left_behind(self):
        c = Cluster(nodes=2, gpus="8xh100")
        before = machine(c.home)
        with c:
            job = c.wrap(f"sh -c 'sleep 1000; : {c.home}' & sleep 1000", "-N2")
            c.wait(job, "RUNNING")
            self.assertNotEqual(machine(c.home)["processes"], [])
            mark = re.search(r"^id=(\w+)", Path(c.dir, "lockstep.id").read_text(), re.M).group(1)
            self.assertIn(mark, links())
        # Other clusters come and go meanwhile; interfaces say by their alias whose they are.
        self.assertNotIn(mark, links())
        self.assertEqual(machine(c.home), before)

    def test_two_clusters_side_by_side(self):
        with Cluster(nodes=2, gpus="2xa100") as a, Cluster(nodes=1, gpus="8xh200") as b:
            self.assertEqual(a.ok("sinfo", "-h", "-o", "%G").strip(), "gpu:a100:2")
            self.assertEqual(b.ok("sinfo", "-h", "-o", "%G").strip(), "gpu:h200:8")
            ja, jb = a.wrap("hostname"), b.wrap("hostname")
            self.assertEqual((a.wait(ja), b.wait(jb)), ("COMPLETED", "COMPLETED"))

    def test_clusters_made_at_once_get_networks_of_their_own(self):
        """All of them would choose the same one, by the names of their directories."""
        def octet(path):
            h = 0xcbf29ce484222325
            for c in path.encode():
                h = (h ^ c) * 0x100000001b3 & (1 << 64) - 1
            return h % 128
        c = Cluster(nodes=1)
        paths = [os.path.join(c.home, f"c{n}") for n in range(2000)]
        paths = [path for path in paths if octet(path) == octet(paths[0])][:4]
        try:
            ups = [subprocess.Popen(["lockstep", "up", "--nodes", "1", "--dir", path], env=c.env, stdout=subprocess.DEVNULL,
                                    stderr=subprocess.PIPE, text=True) for path in paths]
            for up in ups:
                self.assertEqual(up.wait(120), 0, up.stderr.read())
                up.stderr.close()
            networks = {line for path in paths for line in Path(path, "cluster.conf").read_text().splitlines()
                        if line.startswith("network=")}
            self.assertEqual(len(networks), 4)
        finally:
            for path in paths:
                c.run("lockstep", "down", "--dir", path)
            c.down()

    def test_plain_node_and_env(self):
        with Cluster(nodes=0) as c:
            exports = c.ok("lockstep", "env", "--dir", c.dir)
            out = subprocess.run(["bash", "-c", exports + "\nsbatch --wait --wrap 'exit 3'; echo $?"], capture_output=True,
                                 text=True, cwd=c.work, timeout=60, env={"PATH": "/usr/bin:/bin", "HOME": "/root"})
            self.assertEqual(out.stdout.split()[-1], "3", out.stderr)
            self.assertEqual(len(c.status()["nodes"]), 1)

    def test_up_twice_and_contradicting(self):
        with Cluster(nodes=2, gpus="8xh100") as c:
            self.assertIn("already up", c.up())
            result = c.run("lockstep", "up", "--dir", c.dir, "--nodes", "3")
            self.assertEqual(result.returncode, 1)
            self.assertIn("already holds", result.stderr)

    def test_status(self):
        with Cluster(nodes=2, gpus="8xh100") as c:
            status = c.status()
            self.assertEqual(status["controller"]["state"], "up")
            self.assertTrue(os.path.exists(f"/proc/{status['controller']['pid']}"))
            for node in status["nodes"]:
                self.assertEqual(node["devices"], 8)
                self.assertTrue(os.path.exists(f"/proc/{node['pid']}"))
                self.assertTrue(os.path.exists(f"/proc/{node['agent_pid']}"))
            c.kill_controller()
            result = c.run("lockstep", "status", "--dir", c.dir, "-o", "json")
            self.assertEqual(result.returncode, 3)
            self.assertEqual(json.loads(result.stdout)["controller"]["state"], "down")
            result = c.run("squeue")
            self.assertEqual(result.returncode, 1)
            self.assertIn("lockstep up", result.stderr)

    def test_status_for_who_does_not_own_the_cluster(self):
        with Cluster(nodes=2, gpus=None) as c:
            look = lambda *words: c.run("lockstep", "status", "--dir", c.dir, *words, user=1001)
            healthy = look()
            self.assertEqual(healthy.returncode, 0, healthy.stderr)
            self.assertNotIn("notice", healthy.stdout)
            c.kill_controller()
            away = look()
            self.assertEqual(away.returncode, 3, away.stderr)
            self.assertIn("cluster     name not known (", away.stdout)
            self.assertIn(f"only user root can see more of {c.dir} and start its controller: ask them for "
                          f"`lockstep up --dir {c.dir}`", away.stdout)
            self.assertEqual(away.stdout.count("notice"), 1, away.stdout)

    def test_a_directory_is_known_by_its_own_name(self):
        c = Cluster(nodes=0)
        way = os.path.join(c.home, "way")
        os.mkdir(way)
        try:
            c.ok("lockstep", "up", "--dir", "../cluster", cwd=way, timeout=120)
            os.rmdir(way)
            self.assertEqual(c.wait(c.wrap("true")), "COMPLETED")
            c.kill_controller(hold=False)
            eventually(c.answers)
        finally:
            c.down()

    def test_a_removed_socket_comes_back(self):
        with Cluster(nodes=0) as c:
            os.unlink(c.env["LOCKSTEP_SOCKET"])
            eventually(c.answers)
            self.assertEqual(c.wait(c.wrap("true")), "COMPLETED")

    def test_status_for_who_may_not_look(self):
        c = Cluster(nodes=0)
        inner = os.path.join(c.home, "closed")
        os.mkdir(inner, 0o700)
        try:
            said = c.run("lockstep", "status", "--dir", os.path.join(inner, "cluster"), user=1001)
            self.assertIn(f"no permission to look into {inner}/cluster", said.stderr)
            self.assertNotIn("lockstep up", said.stderr)
        finally:
            c.down()

    def test_not_root(self):
        c = Cluster(nodes=2, gpus="8xh100")
        try:
            os.chown(c.home, 65534, 65534)
            for asked in (["--nodes", "2", "--gpus", "8xh100"], ["--nodes", "2"]):
                result = c.run("lockstep", "up", "--dir", c.dir, *asked, user=65534, env={"HOME": c.home})
                self.assertEqual(result.returncode, 1, "something else than was asked for is no success")
                self.assertIn("need root", result.stderr)
                self.assertFalse(os.path.exists(c.dir))
            result = c.run("lockstep", "up", "--dir", c.dir, user=65534, env={"HOME": c.home})
            self.assertEqual(result.returncode, 0, result.stderr)
            job = c.run("sbatch", "--parsable", "--wrap", "id -u", user=65534).stdout.strip()
            self.assertEqual(c.wait(job), "COMPLETED")
            self.assertEqual(c.output(job), "65534\n")
        finally:
            c.run("lockstep", "down", "--dir", c.dir, user=65534)
            c.down()

    def test_several_nodes_are_drained_at_once(self):
        with Cluster(nodes=3, gpus=None, cpus=4) as c:
            def states():
                return [(n["state"], n["reason"]) for n in sorted(c.status()["nodes"], key=lambda n: n["name"])]

            said = c.run("lockstep", "node", "drain", "n1", "bad dimm")
            self.assertEqual(said.returncode, 1)
            self.assertIn("--reason", said.stderr)
            said = c.run("lockstep", "node", "drain", "n1", "n7")
            self.assertIn("there is no node n7", said.stderr)
            self.assertEqual([s for s, _ in states()], ["idle"] * 3, "nothing was done")
            c.ok("lockstep", "node", "drain", "n1", "n2", "--reason", "bad dimm")
            self.assertEqual(states(), [("drained", "bad dimm")] * 2 + [("idle", "")])
            c.ok("lockstep", "node", "resume", "n[1-2]")
            self.assertEqual([s for s, _ in states()], ["idle"] * 3)

    def test_several_nodes_are_killed_only_if_all_run(self):
        with Cluster(nodes=2, gpus=None, cpus=4) as c:
            pids = [c.node(name)["pid"] for name in ("n1", "n2")]
            for names in (["n1", "n7"], ["n[1-3]"]):
                said = c.run("lockstep", "node", "kill", *names)
                self.assertEqual((said.returncode, said.stdout), (1, ""))
                self.assertRegex(said.stderr, r"n[37] is not a running node of .*; nothing was done")
                self.assertEqual([c.node(name)["pid"] for name in ("n1", "n2")], pids)
            c.kill_controller()  # it is not asked
            self.assertEqual(c.ok("lockstep", "node", "kill", "n[1-2]").count("is off"), 2)
            self.assertEqual([pid for pid in pids if running(pid)], [])

    def test_the_readmes_commands(self):
        """Line by line, as an administrator would paste them."""
        with open(os.path.join(TOP, "README.md")) as f:
            block = f.read().split("## By hand")[1].split("```sh\n")[1].split("```")[0]
        lines = [line.split("  #")[0].strip() for line in block.splitlines() if line.strip()]
        self.assertGreater(len(lines), 5)
        home = tempfile.mkdtemp(prefix="lockstep-e2e-")
        bin_ = os.path.join(home, "build", "release")
        os.makedirs(bin_)
        os.symlink(BIN, os.path.join(bin_, "bin"))
        os.symlink(os.path.join(os.path.dirname(BIN), "lib"), os.path.join(bin_, "lib"))
        os.symlink(os.path.join(TOP, "examples"), os.path.join(home, "examples"))
        stand_in = os.path.join(home, "python")  # the training itself is what ./run shows
        with open(stand_in, "w") as f:
            f.write("#!/bin/sh\nfor a; do case $a in */train.py) [ -f \"$a\" ] && echo trained; esac; done\n")
        os.chmod(stand_in, 0o755)
        env = {k: v for k, v in os.environ.items() if not k.startswith(("SLURM_", "SBATCH_", "LOCKSTEP_"))}
        env.update(HOME=home, PYTHON=stand_in)
        wait = "while squeue -h | grep -q .; do sleep 0.1; done"
        script = "set -e\n" + "\n".join(f"echo '+ {line}'\n{line}" + (f"\n{wait}" if line.startswith("sbatch") else "")
                                        for line in lines)
        try:
            done = subprocess.run(["bash", "-c", script], cwd=home, env=env, capture_output=True, text=True, timeout=300)
            self.assertEqual(done.returncode, 0, done.stdout[-3000:] + done.stderr[-3000:])
            with open(os.path.join(home, "train-1.out")) as f:
                self.assertIn("trained", f.read())
            self.assertIn("COMPLETED", done.stdout)
        finally:
            subprocess.run([os.path.join(BIN, "lockstep"), "down"], env=env, capture_output=True)
            shutil.rmtree(home, ignore_errors=True)

    def test_help_everywhere(self):
        for name in ("lockstep", "sbatch", "srun", "salloc", "scancel", "squeue", "sinfo", "scontrol", "sacct"):
            result = subprocess.run([os.path.join(BIN, name), "--help"], capture_output=True, text=True)
            self.assertEqual(result.returncode, 0, name)
            self.assertGreater(len(result.stdout), 200, name)
        for verb in ("up", "down", "status", "env", "node"):
            result = subprocess.run([os.path.join(BIN, "lockstep"), verb, "--help"], capture_output=True, text=True)
            self.assertEqual(result.returncode, 0, verb)


class OneNodeOfMany(unittest.TestCase):
    """What is wrong with one node is that node's business."""

    def setUp(self):
        self.c = Cluster(nodes=3, gpus=None, cpus=2)
        self.addCleanup(self.c.down)
        self.c.up()

    def up(self):
        return self.c.run("lockstep", "up", "--dir", self.c.dir, timeout=150)

    def node(self, name, *more):
        return os.path.join(self.c.dir, "nodes", name, *more)

    def works(self, *names):
        out = self.c.ok("srun", "-N", str(len(names)), "-w", ",".join(names), "hostname", timeout=100)
        self.assertEqual(sorted(out.split()), sorted(names))

    def test_one_that_cannot_be_started_keeps_no_other_from_it(self):
        self.c.run("lockstep", "down", "--dir", self.c.dir)
        aside = self.c.dir + "-n1"
        os.rename(self.node("n1"), aside)
        with open(self.node("n1"), "w"):
            pass
        said = self.up()
        self.assertEqual(said.returncode, 1)
        self.assertRegex(said.stderr, r"only 2 of 3 nodes are up:\n  n1: it cannot be started: .*nodes/n1 is not a directory")
        self.works("n2", "n3")
        self.assertEqual(self.up().returncode, 1, "it is not said once only")
        os.unlink(self.node("n1"))
        os.rename(aside, self.node("n1"))
        self.assertEqual(self.up().returncode, 0)
        self.works("n1", "n2", "n3")

    def test_a_cable_that_cannot_be_plugged_in(self):
        self.c.run("lockstep", "down", "--dir", self.c.dir)
        with open(os.path.join(self.c.dir, "cluster.conf")) as f:
            bridge = next(line.split("=")[1].strip() for line in f if line.startswith("bridge="))
        fake = os.path.join(self.c.work, "bin")
        os.mkdir(fake)
        with open(os.path.join(fake, "ip"), "w") as f:
            f.write("#!/bin/sh\nin=$(cat)\ncase $in in *" + bridge + "n1' type'*) echo no such cable >&2; exit 1;; esac\n"
                    "echo \"$in\" | exec /sbin/ip \"$@\"\n")
        os.chmod(os.path.join(fake, "ip"), 0o755)
        path = dict(os.environ)["PATH"]
        said = self.c.run("lockstep", "up", "--dir", self.c.dir, env={"PATH": fake + ":" + BIN + ":" + path}, timeout=150)
        self.assertEqual(said.returncode, 1)
        self.assertRegex(said.stderr, r"only 2 of 3 nodes are up:\n  n2: it cannot be started: .*no such cable")
        self.works("n1", "n3")
        self.assertEqual(self.up().returncode, 0)
        self.works("n1", "n2", "n3")

    def test_lost_files_of_a_node_that_held_work(self):
        for lost in ("pki/node.crt", "pki/node.key", "pki", ""):
            with self.subTest(lost=lost):
                job = self.c.wrap("sleep 600", "-w", "n2", "--requeue")
                self.c.wait(job, "RUNNING")
                self.c.pull_plug("n2")
                path = self.node("n2", lost)
                shutil.rmtree(path) if os.path.isdir(path) else os.unlink(path)
                said = self.up()
                self.assertEqual(said.returncode, 0, said.stderr)
                self.works("n2")
                self.c.wait(job, "RUNNING")
                self.assertEqual(self.c.show(job)["Restarts"], "1")
                self.c.ok("scancel", job)

    def test_a_folder_lost_while_its_node_runs(self):
        before = self.c.node("n3")
        while os.path.exists(self.node("n3")):  # its agent goes on writing there
            shutil.rmtree(self.node("n3"), ignore_errors=True)
        job = self.c.wrap("sleep 600", "-w", "n3", "--requeue")
        said = self.up()
        self.assertEqual(said.returncode, 0, said.stderr)
        self.assertIn("the folder of node n3 is gone while it ran", said.stderr)
        self.assertFalse(running(before["pid"]))
        self.c.wait(job, "RUNNING")
        self.works("n1", "n2", "n3")

    def test_a_lost_note_of_a_node_that_runs(self):
        before = self.c.node("n3")
        job = self.c.wrap("sleep 600", "-w", "n3", "--no-requeue")
        self.c.wait(job, "RUNNING")
        os.unlink(self.node("n3", "init.pid"))
        self.assertIn("not known whether node n3 runs", self.c.ok("lockstep", "status", "--dir", self.c.dir))
        said = self.up()
        self.assertEqual(said.returncode, 0, said.stderr)
        self.assertEqual((self.c.node("n3")["pid"], self.c.state(job)), (before["pid"], "RUNNING"), "it was found, not started again")

    def test_a_killed_first_process_is_named(self):
        pid = self.c.node("n2")["pid"]
        told = lambda: self.c.run("lockstep", "status", "--dir", self.c.dir).stdout
        self.assertNotIn("first process", told())
        send(pid, signal.SIGSTOP)
        stopped = f"the first process of node n2 (process {pid}) is stopped; `kill -CONT {pid}`"
        eventually(lambda: stopped in told(), what="the stop is seen")  # the kernel stops it a moment after the signal
        send(pid, signal.SIGCONT)
        send(pid)
        eventually(lambda: not running(pid))
        self.assertIn("the first process of node n2 has ended, and nothing runs there; `lockstep up` starts it", told())
        self.assertEqual(self.up().returncode, 0)
        self.assertNotIn("first process", told())


if __name__ == "__main__":
    unittest.main()
