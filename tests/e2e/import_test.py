"""A Slurm site's files, imported and applied to a cluster: what sinfo, scontrol and sacctmgr show then is what they said."""
import json
import os
import subprocess
import tempfile
import unittest

from cluster import BIN, Cluster

LOCKSTEP = os.path.join(BIN, "lockstep")

SLURM_CONF = """ClusterName=old
SlurmctldHost=ctl
SchedulerType=sched/backfill
SelectType=select/cons_tres
PriorityType=priority/multifactor
PriorityWeightQOS=5000
PriorityWeightAge=10
PriorityDecayHalfLife=14-0
PreemptType=preempt/partition_prio
PreemptMode=REQUEUE
AccountingStorageEnforce=associations,limits
Licenses=matlab:5
TopologyPlugin=topology/tree
KillWait=60
Prolog=/etc/slurm/prolog
Include nodes.conf
PartitionName=DEFAULT State=UP MaxTime=2-00:00:00
PartitionName=cpu Nodes=n[1-2] Default=YES DefaultTime=01:00:00 DefMemPerCPU=100
PartitionName=gpu Nodes=gpus MaxNodes=1 PriorityTier=5 PriorityJobFactor=7 AllowAccounts=physics QOS=part GraceTime=30 \\
    TRESBillingWeights="CPU=1.0,GRES/gpu=8.0"
PartitionName=off Nodes=ALL State=DOWN
"""
NODES_CONF = """NodeName=n[1-2] CPUs=4 RealMemory=1000 Feature=milan,ib Weight=10
NodeName=n3 CPUs=4 Gres=gpu:2 RealMemory=1000 Feature=nvlink Weight=50
NodeSet=gpus Feature=nvlink
"""
TOPOLOGY_CONF = """SwitchName=leaf1 Nodes=n[1-2]
SwitchName=leaf2 Nodes=n3
SwitchName=spine Switches=leaf[1-2]
"""
GRES_CONF = "Name=gpu Type=h100 File=/dev/nvidia[0-1]\n"
DUMP = """QOS - 'normal':Priority=10
QOS - 'high':Priority=1000:Preempt='normal':MaxTRESPU='gres/gpu=1'
QOS - 'part':MaxJobsPU=3:Flags='DenyOnLimit'
Cluster - 'old':Fairshare=1:QOS='normal'
Parent - 'root'
User - 'root':DefaultAccount='root':AdminLevel='Administrator':Fairshare=1
Account - 'physics':Description='physics':Organization='science':Fairshare=3:GrpTRES='cpu=8,gres/gpu=2':QOS='high,normal'
Parent - 'physics'
User - 'ann':DefaultAccount='physics':Fairshare=5:MaxJobs=10
"""


class Site:
    """The files of a site in a folder of their own."""

    def __init__(self, add_cleanup, **files):
        folder = tempfile.TemporaryDirectory(prefix="lockstep-import-")
        add_cleanup(folder.cleanup)
        self.path = folder.name
        for name, text in files.items():
            with open(os.path.join(self.path, name.replace("_", ".")), "wb") as f:
                f.write(text.encode() if isinstance(text, str) else text)

    def run(self, *words):
        return subprocess.run([LOCKSTEP, "import", *words], cwd=self.path, capture_output=True, text=True, timeout=30)

    def has(self, name):
        return os.path.exists(os.path.join(self.path, name))

    def read(self, name):
        with open(os.path.join(self.path, name)) as f:
            return f.read()


def whole_site(add_cleanup):
    return Site(add_cleanup, slurm_conf=SLURM_CONF, nodes_conf=NODES_CONF, topology_conf=TOPOLOGY_CONF, gres_conf=GRES_CONF, dump=DUMP)


class Command(unittest.TestCase):
    """What needs no cluster."""

    def test_writes_a_file_and_says_what_became_of_every_line(self):
        site = whole_site(self.addCleanup)
        done = site.run("slurm.conf", "--accounts", "dump", "-o", "cluster.yaml", "--report", "report.txt")
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertIn("KillWait=60", done.stdout)
        self.assertNotIn("PriorityWeightQOS", done.stdout)
        self.assertIn("without equal, 0 unknown", done.stdout)
        report = site.read("report.txt")
        for words in ("PriorityWeightQOS=5000", "Include=nodes.conf", "\nnodes.conf\n", "\ntopology.conf\n", "\ndump\n"):
            self.assertIn(words, report)
        self.assertTrue(all(len(line) <= 100 for line in report.splitlines()), report)
        again = site.run("slurm.conf", "-o", "cluster.yaml")
        self.assertEqual(again.returncode, 1)
        self.assertIn("cluster.yaml is there already", again.stderr)
        self.assertEqual(site.run("slurm.conf", "-o", "cluster.yaml", "--force").returncode, 0)

    def test_prints_the_file_and_the_report_apart(self):
        site = whole_site(self.addCleanup)
        done = site.run("slurm.conf")
        self.assertEqual(done.returncode, 0)
        self.assertTrue(done.stdout.startswith("# Made by `lockstep import` of slurm.conf.\n"), done.stdout)
        self.assertIn("KillWait=60", done.stderr)
        whole = json.loads(site.run("slurm.conf", "-o", "json").stdout)
        self.assertEqual(sorted(whole), ["no_equal", "notes", "same", "settings", "taken", "unknown"])
        self.assertEqual(len(whole["settings"]), sum(whole[k] for k in ("taken", "same", "no_equal", "unknown")))
        row = [s for s in whole["settings"] if s["key"] == "KillWait"][0]
        self.assertEqual((row["file"], row["line"], row["column"], row["verdict"]), ("slurm.conf", 14, 1, "no equal"))

    def test_strict(self):
        site = whole_site(self.addCleanup)
        strict = site.run("slurm.conf", "--strict", "-o", "cluster.yaml")
        self.assertEqual(strict.returncode, 1)
        self.assertFalse(site.has("cluster.yaml"))
        plain = Site(self.addCleanup, slurm_conf="ClusterName=x\nNodeName=n1 CPUs=2\nPartitionName=p Nodes=n1\n")
        self.assertEqual(plain.run("slurm.conf", "--strict", "-o", "cluster.yaml").returncode, 0)
        self.assertTrue(plain.has("cluster.yaml"))

    def test_bad_input_is_refused_and_nothing_written(self):
        cases = [("", "there is no setting in it: is this a slurm.conf?"),
                 ("partitions:\n- name: x\n", 'slurm.conf:1:1: "partitions:" is not KEY=VALUE'),
                 (b"\x7fELF\x02\x01\x01\0\0", "slurm.conf:1:8: a zero byte: this is no text file"),
                 ("NodeName=n1\nNodeName=n1\n", "slurm.conf:2:1: node n1 is there already, in slurm.conf:1"),
                 ("NodeName=n1\nPartitionName=p Nodes=n2\n", "slurm.conf:2:1: partition p: no NodeName line has node n2"),
                 ("Include slurm.conf\n", "slurm.conf:1:1: a circle of files that include each other"),
                 ("Include none.conf\n", "slurm.conf:1:1: none.conf cannot be included: none.conf: there is no such file")]
        for text, why in cases:
            site = Site(self.addCleanup, slurm_conf=text)
            bad = site.run("slurm.conf", "-o", "cluster.yaml", "--report", "report.txt")
            self.assertEqual((bad.returncode, bad.stdout), (1, ""), text)
            self.assertIn("lockstep import: " + why if "there is no setting" not in why else why, bad.stderr)
            self.assertFalse(site.has("cluster.yaml") or site.has("report.txt"))
        site = whole_site(self.addCleanup)
        for words, why in [(("none.conf",), "none.conf: there is no such file"), ((".",), ".: this is no regular file"),
                           (("slurm.conf", "--gres", "none"), "none: there is no such file"),
                           (("slurm.conf", "--accounts", "slurm.conf"), "KIND - 'NAME' is meant"),
                           (("slurm.conf", "--topology", "dump"), "dump:1: "),
                           (("slurm.conf", "-o", "none/x"), "cannot write none/x.new: No such file or directory")]:
            bad = site.run(*words)
            self.assertEqual(bad.returncode, 1, words)
            self.assertIn(why, bad.stderr)
        os.chmod(site.path, 0o755)
        os.chmod(os.path.join(site.path, "slurm.conf"), 0)
        somebody = ("setpriv", "--reuid=65534", "--regid=65534", "--clear-groups") if os.getuid() == 0 else ()
        bad = subprocess.run([*somebody, LOCKSTEP, "import", "slurm.conf"], cwd=site.path, capture_output=True, text=True)
        self.assertEqual((bad.returncode, bad.stdout), (1, ""))
        self.assertIn("slurm.conf", bad.stderr)
        self.assertIn("Permission denied", bad.stderr)

    def test_wrong_usage(self):
        site = whole_site(self.addCleanup)
        for words in (("a", "b"), ("--bogus",), ("--report",)):
            self.assertEqual(site.run(*words).returncode, 2, words)
        self.assertIn("Examples", site.run("--help").stdout)


class Applied(unittest.TestCase):
    """The commands show what the files said."""

    @classmethod
    def setUpClass(cls):
        cls.c = Cluster(nodes=3, gpus="2xh100", cpus=4)
        cls.addClassCleanup(cls.c.down)
        cls.c.up()
        site = whole_site(cls.addClassCleanup)
        site.run("slurm.conf", "--accounts", "dump", "-o", "cluster.yaml")
        cls.file = os.path.join(site.path, "cluster.yaml")
        cls.c.ok("lockstep", "apply", "-f", cls.file)

    def partition(self, name):
        words = self.c.ok("scontrol", "-o", "show", "partition", name).split()
        return dict(word.split("=", 1) for word in words if "=" in word)

    def table(self, *words):
        return [line.split("|") for line in self.c.ok("sacctmgr", "-n", "-P", *words).strip().split("\n") if line]

    def test_partitions(self):
        rows = self.c.ok("sinfo", "-h", "-o", "%R %l %a %N").splitlines()
        for row in ("cpu 2-00:00:00 up n[1-2]", "gpu 2-00:00:00 up n3", "off 2-00:00:00 down n[1-3]"):
            self.assertIn(row, rows)
        cpu = self.partition("cpu")
        self.assertEqual((cpu["Default"], cpu["DefaultTime"], cpu["DefMemPerCPU"]), ("YES", "01:00:00", "100"))
        gpu = self.partition("gpu")
        self.assertEqual((gpu["MaxNodes"], gpu["PriorityTier"], gpu["PriorityJobFactor"], gpu["AllowAccounts"], gpu["QoS"],
                          gpu["GraceTime"], gpu["PreemptMode"]), ("1", "5", "7", "physics", "part", "30", "REQUEUE"))

    def test_nodes(self):
        for name, features, weight in (("n1", "milan,ib", "10"), ("n3", "nvlink", "50")):
            shown = self.c.ok("sinfo", "-h", "-N", "-n", name, "-o", "%f %w").split("\n")[0].split()
            self.assertEqual(set(shown[0].split(",")) & set(features.split(",")), set(features.split(",")))
            self.assertEqual(shown[1], weight)

    def test_accounts(self):
        self.assertEqual(self.table("show", "assoc", "format=account,user,share,maxjobs,grptres"),
                         [["root", "", "1", "", ""], ["physics", "", "3", "", "cpu=8,gres/gpu=2"], ["physics", "ann", "5", "10", ""]])
        qos = {row[0]: row[1:] for row in self.table("show", "qos", "format=name,priority,preempt,maxtrespu,maxjobspu,flags")}
        self.assertEqual(qos["high"], ["1000", "normal", "gres/gpu=1", "", ""])
        self.assertEqual(qos["part"], ["0", "", "", "3", "DenyOnLimit"])

    def test_the_rest(self):
        self.assertIn("SwitchName=leaf2 Level=0 LinkSpeed=1 Nodes=n3\n", self.c.ok("scontrol", "show", "topology", "n3"))
        self.assertIn("LicenseName=matlab", self.c.ok("scontrol", "show", "licenses"))
        config = self.c.ok("scontrol", "show", "config")
        self.assertRegex(config, r"PreemptMode\s*= REQUEUE\nPreemptType\s*= preempt/partition_prio\n")
        weights = self.c.ok("sprio", "-w", "-o", "%A %F %Q").split("\n")[1].split()
        self.assertEqual(weights, ["10", "0", "5000"])

    def test_nothing_differs_afterwards(self):
        same = self.c.run("lockstep", "diff", "-f", self.file)
        self.assertEqual(same.returncode, 0, same.stdout + same.stderr)


if __name__ == "__main__":
    unittest.main()
