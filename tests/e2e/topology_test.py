"""A tree of switches on a real cluster: files, levels, few switches, segments, and what is said of all that."""
import json
import os
import unittest

from cluster import Cluster

TREE = """# six nodes on three leaves
SwitchName=leaf1 Nodes=n[1-2]
SwitchName=leaf2 Nodes=n[3-4]
SwitchName=leaf3 Nodes=n[5-6]
SwitchName=spine Switches=leaf[1-3]
"""


class Topology(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.c = Cluster(nodes=6, gpus="2xh100", cpus=4)
        cls.c.up()
        cls.load(TREE)

    @classmethod
    def tearDownClass(cls):
        cls.c.down()

    @classmethod
    def file(cls, text):
        path = os.path.join(cls.c.work, "topology.conf")
        with open(path, "w") as f:
            f.write(text)
        return path

    @classmethod
    def load(cls, text):
        return cls.c.ok("lockstep", "topology", "load", cls.file(text))

    def nodes(self, job):
        return self.c.show(job)["NodeList"]

    def setUp(self):
        self.c.run("scancel", "-u", self.c.run("id", "-un").stdout.strip())
        self.load(TREE)

    def test_files(self):
        self.assertIn("6 nodes on 3 leaves; levels: spine, leaf", self.load(TREE))
        for text, why in [("SwitchName=a Switches=b\nSwitchName=b Switches=a\n", ":1: a cycle: a hangs on b, which hangs on a"),
                          ("SwitchName=a Nodes=n1\nSwitchName=b Nodes=n2\nSwitchName=s Switches=a\n",
                           ":2: switch b hangs on no other switch"),
                          ("SwitchName=a Nodes=n[1-2]\nSwitchName=b Nodes=n2\n", ":2: node n2 is on a already, in line 1"),
                          ("SwitchName=a Nodes=n[1-5000000]\n", ":1: "),
                          ("", "no SwitchName=")]:
            bad = self.c.run("lockstep", "topology", "load", self.file(text))
            self.assertEqual(bad.returncode, 1)
            self.assertIn("topology.conf" + why if why[0] == ":" else why, bad.stderr)
        strange = "SwitchName=a Nodes=n[1-2],x9\n"
        self.assertIn(":1: x9 is no node of this cluster yet",
                      self.c.run("lockstep", "topology", "check", self.file(strange)).stderr)
        strict = self.c.run("lockstep", "topology", "load", "--strict", self.file(strange))
        self.assertEqual(strict.returncode, 1)
        self.assertIn("n[3-6] hang on no switch", strict.stderr)
        self.assertEqual(self.c.ok("lockstep", "topology", "show").splitlines()[1:], TREE.splitlines()[1:])
        self.assertIn("SwitchName=leaf2 Level=0 LinkSpeed=1 Nodes=n[3-4]\n", self.c.ok("scontrol", "show", "topology", "n3"))

    def test_few_switches(self):
        one = self.c.wrap("sleep 100", "-N1", "--exclusive", "-w", "n1")
        self.c.wait(one, "RUNNING")
        two = self.c.wrap("echo $SLURM_TOPOLOGY_ADDR $SLURM_TOPOLOGY_ADDR_PATTERN; sleep 100", "-N2", "--exclusive", "--switches=1",
                          "-o", "addr.txt")
        self.c.wait(two, "RUNNING")
        self.assertIn(self.nodes(two), ("n[3-4]", "n[5-6]"))
        shown = self.c.show(two)
        self.assertEqual((shown["Topology"], shown["BestTopology"], shown["Leaves"], shown["Switches"]), ("leaf", "leaf", "1", "1"))
        entry = [j for j in json.loads(self.c.ok("squeue", "--json"))["jobs"] if j["job_id"] == int(two)][0]
        self.assertEqual(entry["topology"], {"level": "leaf", "best_level": "leaf", "leaves": 1})
        other = self.c.wrap("sleep 100", "-N2", "--exclusive", "--topology=leaf")
        self.c.wait(other, "RUNNING")
        self.c.ok("scancel", two)
        self.c.wait(two)
        half = self.c.wrap("sleep 100", "-N1", "--exclusive", "-w", self.c_first(two))
        self.c.wait(half, "RUNNING")
        later = self.c.wrap("sleep 100", "-N2", "--exclusive", "--switches=1@0:02")
        waits = self.c.wrap("sleep 100", "-N2", "--exclusive", "--switches=1")
        self.assertEqual(self.c.run("squeue", "-h", "-j", waits, "-o", "%t").stdout.strip(), "PD")
        self.c.wait(later, "RUNNING")  # on what is left, two leaves
        self.assertEqual(self.c.show(later)["Leaves"], "2")
        self.assertEqual(self.c.run("squeue", "-h", "-j", waits, "-o", "%t").stdout.strip(), "PD")

    def c_first(self, job):
        return self.c.ok("scontrol", "show", "hostnames", self.c.show(job)["NodeList"]).split()[0]

    def test_impossible(self):
        for words, why in [(["-N3", "--switches=1"], "asks for 3 nodes on at most 1 leaf; the largest, leaf1, has 2 nodes"),
                           (["-N3", "--topology=leaf"], "asks for 3 nodes under one leaf; the largest leaf, leaf1, has 2"),
                           (["-N2", "--topology=rack"], "there is no level rack; the levels are spine, leaf"),
                           (["-N6", "--segment=3"], "asks for 6 nodes in segments of 3 within one leaf"),
                           (["-N3", "--segment=2"], "3 nodes are no multiple of segments of 2 nodes"),
                           (["-N2", "--switches=0"], "Invalid numeric value \"0\" for --switches")]:
            bad = self.c.run("sbatch", *words, "--wrap", "true")
            self.assertNotEqual(bad.returncode, 0, words)
            self.assertIn(why, bad.stderr)
        for words in [["-N3", "--switches=1@1"], ["-N4", "--segment=2"], ["-N6", "--topology=spine"]]:
            self.c.ok("sbatch", *words, "--wrap", "true")

    def test_ranks_follow_the_tree(self):
        self.load("SwitchName=a Nodes=n[5-6]\nSwitchName=b Nodes=n[1-4]\nSwitchName=s Switches=a,b\n")
        job = self.c.wrap("srun -l sh -c 'echo $SLURMD_NODENAME' | sort -n; echo $SLURM_JOB_NODELIST", "-N6", "-o", "ranks.txt")
        self.c.wait(job)
        with open(os.path.join(self.c.work, "ranks.txt")) as f:
            lines = f.read().split("\n")
        self.assertEqual([line.split()[1] for line in lines[:6]], ["n5", "n6", "n1", "n2", "n3", "n4"])
        self.assertEqual(lines[6], "n[5-6,1-4]")
        self.c.ok("lockstep", "topology", "clear")
        self.assertEqual(self.c.ok("scontrol", "show", "topology"), "No topology information available\n")


if __name__ == "__main__":
    unittest.main()
