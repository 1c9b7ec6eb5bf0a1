"""What belongs to which cluster and to which node: bridges, keys, files below a cluster's folders."""
import contextlib
import json
import os
import re
import shutil
import subprocess
import unittest

from cluster import Cluster, eventually


class WhatBelongsToWhom(unittest.TestCase):
    def setUp(self):
        self.c = Cluster(nodes=2, gpus=None, cpus=4)
        self.addCleanup(self.c.down)
        self.c.up()
        with open(os.path.join(self.c.dir, "cluster.conf")) as f:
            self.bridge = re.search(r"^bridge=(\w+)", f.read(), re.M).group(1)

    def lockstep(self, *argv):
        return self.c.run("lockstep", *argv, timeout=120)

    def ip(self, *argv):
        return subprocess.run(["ip", *argv], capture_output=True, text=True)

    def test_a_copy_of_a_stopped_cluster_has_a_network_of_its_own(self):
        self.c.ok("lockstep", "down", "--dir", self.c.dir)
        copy = self.c.dir + "-copy"
        subprocess.run(["cp", "-a", self.c.dir, copy], check=True)
        self.c.up()
        self.assertEqual(self.lockstep("down", "--dir", copy).returncode, 0, "nothing of the copy runs")
        self.assertEqual(self.ip("link", "show", self.bridge).returncode, 0, "the original's bridge was removed")
        self.assertEqual(self.c.wait(self.c.wrap("true", "-N2")), "COMPLETED")
        try:
            started = self.lockstep("up", "--dir", copy)
            self.assertEqual(started.returncode, 0, started.stderr)
            self.assertIn("is another cluster's", started.stderr)
            self.assertEqual(self.c.wait(self.c.wrap("true", "-N2")), "COMPLETED")
            self.assertEqual(self.lockstep("status", "--dir", copy).returncode, 0)
        finally:
            self.lockstep("down", "--dir", copy, "--delete")
        self.assertEqual(self.ip("link", "show", self.bridge).returncode, 0)
        self.assertEqual(self.c.wait(self.c.wrap("true", "-N2")), "COMPLETED")

    def test_up_plugs_missing_cables_in_again(self):
        job = self.c.wrap("sleep 100", "-N2")
        self.c.wait(job, "RUNNING")
        for cut in (["link", "del", self.bridge + "n0"], ["link", "del", self.bridge],
                    ["link", "set", self.bridge + "n1", "nomaster"], ["link", "set", self.bridge, "down"],
                    ["addr", "flush", "dev", self.bridge]):
            with self.subTest(cut=cut):
                done = self.ip(*cut)
                self.assertEqual(done.returncode, 0, done.stderr)
                self.c.ok("lockstep", "up", "--dir", self.c.dir, timeout=120)
                out = self.c.ok("srun", "-N2", "hostname", timeout=60).split()
                self.assertEqual(sorted(out), ["n1", "n2"])
        self.assertEqual(self.c.state(job), "RUNNING")
        self.c.ok("lockstep", "down", "--dir", self.c.dir)
        self.assertNotIn(self.bridge, self.ip("-o", "link").stdout)

    @contextlib.contextmanager
    def thief(self, **says):
        """The machine of n2 starts an agent with n1's key."""
        stolen = os.path.join(self.c.home, "stolen")
        shutil.copytree(os.path.join(self.c.dir, "nodes", "n1", "pki"), stolen)
        with open(os.path.join(self.c.dir, "nodes", "n1", "agent.json")) as f:
            settings = json.load(f)
        for name in ("ca", "certificate", "key"):
            settings[name] = os.path.join(stolen, os.path.basename(settings[name]))
        settings.update(state_dir=os.path.join(stolen, "state"), run_dir=os.path.join(stolen, "run"),
                        socket=os.path.join(stolen, "api.sock"), address="", peer_port=0)
        settings.update(says)
        path = os.path.join(stolen, "agent.json")
        with open(path, "w") as f:
            json.dump(settings, f)
        os.chmod(path, 0o600)
        agent = subprocess.Popen(["nsenter", "--target", str(self.c.node("n2")["pid"]), "--net", "unshare", "--mount", "lockstep-agent",
                                  "--settings", path], env=self.c.env, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            yield agent
        finally:
            agent.kill()
            agent.wait()
            shutil.rmtree(stolen)

    def test_a_takeover_of_a_node_by_a_copied_key_is_named(self):
        addresses = {n["name"]: n["address"] for n in self.c.status()["nodes"]}
        with self.thief():
            told = eventually(lambda: [line for line in self.lockstep("status", "--dir", self.c.dir).stdout.splitlines()
                                       if "has taken over from" in line], 30, "a notice")
            self.assertIn(addresses["n1"], told[0])
            self.assertIn(addresses["n2"], told[0])
            self.assertIn("lockstep node revoke n1", told[0])
            self.assertIn("has taken over from", self.c.log_tail(100))

    @unittest.skipUnless(os.access("/usr/lib/cni/ptp", os.X_OK), "containernetworking-plugins is not installed")
    def test_a_node_leads_nobodys_packets_to_itself(self):
        """It says that the controller's address is one of its tasks', that it is found on the loopback, and more."""
        n1 = self.c.api("GET", "/v1/nodes/n1")
        host = n1["address"].split(".")[:2] + ["0"]
        inside = ["nsenter", "--target", str(self.c.node("n2")["pid"]), "--net", "ip", "route"]
        routes = lambda *words: subprocess.run([*inside, *words], capture_output=True, text=True, check=True).stdout  # noqa: E731
        before = routes("get", ".".join(host + ["1"]))
        eventually(lambda: n1["task_range"] in routes("show", "proto", "76"), 30, "n2 is told of n1's range")
        with self.thief(address="127.0.0.1", task_range=".".join(host + ["0/25"]), features=["h200"], resources=["fpga=8"]):
            told = eventually(lambda: (lambda n: n if "says that task_range is" in n.get("word", "") else None)(
                self.c.api("GET", "/v1/nodes/n1")), 30, "it is told")
            self.assertEqual((told["address"], told.get("task_range", "")), (n1["address"], ""))
            self.assertIn("lockstep node update n1 --task-range", told["word"])
            counted = [one for one in told.get("counted", []) if one["name"] != "ephemeral-storage"]  # which pods' own controller counts
            self.assertEqual((told.get("features", []), counted), ([], []))
            eventually(lambda: n1["task_range"] not in routes("show", "proto", "76"), 30, "nothing leads to a range that n1 does not use")
            self.assertEqual(routes("get", ".".join(host + ["1"])), before)
            self.assertNotIn("127.0.0.1", routes("show", "proto", "76"))
        eventually(lambda: self.c.api("GET", "/v1/nodes/n1").get("task_range") == n1["task_range"], 60, "the node itself is back")
        eventually(lambda: n1["task_range"] in routes("show", "proto", "76"), 30, "and its tasks are reached")

    def test_a_folder_of_a_cluster_is_no_cluster(self):
        """Nothing that runs for the whole is taken for what a removed cluster left there."""
        job = self.c.wrap("sleep 600")
        self.c.wait(job, "RUNNING")
        pids = [n["pid"] for n in self.c.status()["nodes"]]
        for path in ("nodes", "nodes/n1", "nodes/n1/state", "nodes/gone", "public"):
            folder = os.path.join(self.c.dir, path)
            for words in (["down"], ["down", "--delete"], ["status"], ["env"], ["logs", "controller"]):
                with self.subTest(folder=path, words=words):
                    said = self.lockstep(*words, "--dir", folder)
                    self.assertEqual(said.returncode, 1)
                    self.assertIn(f"there is no cluster in {folder}, which is part of the cluster in {self.c.dir}", said.stderr)
                    self.assertNotIn("removed", said.stderr)
                    self.assertNotIn("lockstep up", said.stderr)
            self.assertNotIn("lockstep down", self.lockstep("up", "--dir", folder).stderr)
        self.assertEqual(self.c.state(job), "RUNNING")
        self.assertEqual([n["pid"] for n in self.c.status()["nodes"]], pids)

    def test_delete_leaves_what_lies_below_its_folders(self):
        mine = os.path.join(self.c.dir, "nodes", "n1", "results.txt")
        with open(mine, "w") as f:
            f.write("mine")
        said = self.c.ok("lockstep", "down", "--delete", "--dir", self.c.dir)
        self.assertIn("nodes/n1/results.txt", said)
        with open(mine) as f:
            self.assertEqual(f.read(), "mine")
        self.assertEqual(sorted(os.listdir(self.c.dir)), ["lockstep.dir", "lockstep.id", "nodes"])
        self.assertEqual(os.listdir(os.path.join(self.c.dir, "nodes")), ["n1"])


if __name__ == "__main__":
    unittest.main()
