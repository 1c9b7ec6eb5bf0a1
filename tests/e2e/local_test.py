"""lockstep up, down, env, status: side by side, again and again, and nothing left behind."""
import json
import os
import subprocess
import unittest

from cluster import BIN, Cluster


def machine(home):
    """What a cluster could leave behind outside its directory."""
    links = subprocess.run(["ip", "-o", "link"], capture_output=True, text=True).stdout
    mounts = open("/proc/self/mountinfo").read()
    processes = subprocess.run(["ps", "-e", "-o", "stat=,args="], capture_output=True, text=True).stdout.split("\n")
    groups = set()
    for root in ("/sys/fs/cgroup/unified", "/sys/fs/cgroup"):
        if os.path.isdir(root):
            groups |= {os.path.join(root, n) for n in os.listdir(root) if "lockstep" in n}
    return {
        "links": sorted(line.split(":")[1].split("@")[0].strip() for line in links.strip().split("\n")),
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
        self.assertEqual(machine(c.home), before)

    def test_two_clusters_side_by_side(self):
        with Cluster(nodes=2, gpus="2xa100") as a, Cluster(nodes=1, gpus="8xh200") as b:
            self.assertEqual(a.ok("sinfo", "-h", "-o", "%G").strip(), "gpu:a100:2")
            self.assertEqual(b.ok("sinfo", "-h", "-o", "%G").strip(), "gpu:h200:8")
            ja, jb = a.wrap("hostname"), b.wrap("hostname")
            self.assertEqual((a.wait(ja), b.wait(jb)), ("COMPLETED", "COMPLETED"))

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

    def test_not_root(self):
        c = Cluster(nodes=2, gpus="8xh100")
        try:
            os.chown(c.home, 65534, 65534)
            result = c.run("lockstep", "up", "--dir", c.dir, "--nodes", "2", "--gpus", "8xh100", user=65534, env={"HOME": c.home})
            self.assertEqual(result.returncode, 0, result.stderr)
            self.assertIn("need root", result.stderr)
            job = c.run("sbatch", "--parsable", "--wrap", "id -u", user=65534).stdout.strip()
            self.assertEqual(c.wait(job), "COMPLETED")
            self.assertEqual(c.output(job), "65534\n")
        finally:
            c.run("lockstep", "down", "--dir", c.dir, user=65534)
            c.down()

    def test_help_everywhere(self):
        for name in ("lockstep", "sbatch", "srun", "salloc", "scancel", "squeue", "sinfo", "scontrol", "sacct"):
            result = subprocess.run([os.path.join(BIN, name), "--help"], capture_output=True, text=True)
            self.assertEqual(result.returncode, 0, name)
            self.assertGreater(len(result.stdout), 200, name)
        for verb in ("up", "down", "status", "env", "node"):
            result = subprocess.run([os.path.join(BIN, "lockstep"), verb, "--help"], capture_output=True, text=True)
            self.assertEqual(result.returncode, 0, verb)


if __name__ == "__main__":
    unittest.main()
