"""Accounts, limits, licences and reservations through Slurm's commands on a real cluster."""
import json
import unittest

from cluster import Cluster, eventually


class Accounting(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.c = Cluster(nodes=2, gpus="4xh100", cpus=16)
        cls.c.up()

    @classmethod
    def tearDownClass(cls):
        cls.c.down()

    def sacctmgr(self, *words):
        return self.c.ok("sacctmgr", "-i", *words)

    def table(self, *words):
        return [line.split("|") for line in self.c.ok("sacctmgr", "-n", "-P", *words).strip().split("\n") if line]

    def reason(self, job):
        return self.c.run("squeue", "-h", "-j", job, "-o", "%r").stdout.strip()

    def me(self):
        return self.c.ok("sbatch", "--parsable", "--wrap", "true") and self.c.run("id", "-un").stdout.strip()

    def test_accounts_users_and_qos(self):
        me = self.me()
        out = self.sacctmgr("add", "account", "science", "Description=all of it", "Organization=uni")
        self.assertTrue(out.startswith(" Adding Account(s)\n  science\n"), out)
        self.sacctmgr("add", "account", "physics", "parent=science", "fairshare=3", "GrpTRES=gres/gpu=6,mem=100G")
        self.assertIn("already exists", self.c.run("sacctmgr", "-i", "add", "account", "physics").stdout)
        self.sacctmgr("add", "user", me, "account=physics", "fairshare=5", "MaxJobs=10")
        self.sacctmgr("add", "qos", "gold", "priority=100", "flags=DenyOnLimit", "MaxTRESPU=cpu=12", "MaxWall=1-00:00:00")
        self.assertEqual(self.table("show", "account", "physics", "format=account,descr,org,parentname,share,grptres"),
                         [["physics", "", "", "science", "3", "mem=100G,gres/gpu=6"]])
        self.assertEqual(self.table("show", "qos", "gold", "format=name,priority,flags,maxtrespu,maxwall"),
                         [["gold", "100", "DenyOnLimit", "cpu=12", "1-00:00:00"]])
        rows = self.table("list", "associations", "format=account,user,share,maxjobs")
        self.assertEqual(rows, [["root", "", "1", ""], ["science", "", "1", ""], ["physics", "", "3", ""],
                                ["physics", me, "5", "10"]])
        self.assertEqual(self.table("show", "user", me, "format=user,defaultaccount"), [[me, "physics"]])
        header = self.c.ok("sacctmgr", "show", "account").split("\n")
        self.assertEqual(header[0].split(), ["Account", "Descr", "Org"])
        self.assertTrue(header[1].startswith("---------- ----"))
        self.assertEqual(self.c.ok("sacctmgr", "-P", "show", "user").split("\n")[0], "User|Def Acct|Admin")

        job = self.c.ok("sbatch", "--parsable", "--wrap", "true").strip()
        self.assertEqual(self.c.show(job)["Account"], "physics")
        self.assertEqual(self.c.show(job)["QOS"], "normal")
        bad = self.c.run("sbatch", "-q", "nothing", "--wrap", "true")
        self.assertIn("Invalid qos specification", bad.stderr)
        denied = self.c.run("sbatch", "-q", "gold", "-n", "16", "--wrap", "true")
        self.assertNotEqual(denied.returncode, 0)
        self.assertIn("Job violates accounting/QOS policy", denied.stderr)

        self.sacctmgr("modify", "account", "physics", "set", "GrpTRES=gres/gpu=4")
        self.sacctmgr("modify", "qos", "gold", "set", "flags=", "MaxTRESPU=cpu=4")
        first = self.c.wrap("sleep 30", "--gpus=4")
        second = self.c.wrap("sleep 30", "--gpus=2")
        self.c.wait(first, "RUNNING")
        eventually(lambda: self.c.ok("squeue", "-h", "-j", first, "-o", "%M").strip() not in ("0:00", "0:01"), what="whole seconds are charged")
        self.assertEqual(self.c.run("squeue", "-h", "-j", second, "-o", "%t").stdout.strip(), "PD")
        self.assertIn("Job(s) active", self.c.run("sacctmgr", "-i", "delete", "account", "physics").stderr)
        self.c.ok("scancel", first)
        self.c.wait(second, "RUNNING")
        self.c.ok("scancel", second)
        self.c.wait(second)

        rows = [line.split("|") for line in self.c.ok("sshare", "-a", "-P", "-n", "-o", "account,user,rawshares,rawusage").strip().split("\n")]
        rows = [r for r in rows if r[0].strip() != "root" or not r[1]]  # root's own jobs outside all accounts
        self.assertEqual([r[0].strip() for r in rows], ["root", "science", "physics", "physics"])
        self.assertGreater(int(rows[-1][3]), 0)
        self.assertEqual([r["user"] for r in json.loads(self.c.ok("lockstep", "shares", "-a", "-o", "json"))["shares"]][-1], me)

        waits = self.c.wrap("true", "--hold")
        out = self.c.ok("sprio", "-h", "-j", waits, "-o", "%i %F %Q %N")
        self.assertEqual(out.split()[0], waits)
        self.assertGreater(int(out.split()[1]), 0)
        self.c.ok("scancel", waits)
        self.sacctmgr("delete", "user", me, "account=physics")
        self.sacctmgr("delete", "account", "physics")
        self.sacctmgr("delete", "account", "science")
        self.sacctmgr("delete", "qos", "gold")
        self.assertEqual(self.table("show", "account", "format=account"), [["root"]])

    def submit(self, *words, user=1001):
        done = self.c.run("sbatch", "--parsable", "-o", "/dev/null", *words, "--wrap", "sleep 60", user=user)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout.strip()

    def test_what_a_partition_decides(self):
        self.sacctmgr("add", "qos", "part", "MaxJobsPU=1")
        self.c.ok("scontrol", "create", "PartitionName=bound", "Nodes=ALL", "QOS=part", "MaxTime=60", "DefMemPerCPU=300")
        first, second = self.submit("-p", "bound", "-n2"), self.submit("-p", "bound")
        self.c.wait(first, "RUNNING")
        self.assertIn("mem=600M", self.c.show(first)["AllocTRES"])
        eventually(lambda: self.reason(second).startswith("QOSMaxJobsPerUserLimit"), 20, "the partition's QOS binds")
        too_long = self.submit("-p", "bound", "-t", "120")
        eventually(lambda: self.reason(too_long) == "PartitionTimeLimit", 20, "it waits for the partition to allow it")
        refused = self.c.run("scontrol", "update", "JobId=" + second, "TimeLimit=3:00:00", user=1001)
        self.assertIn("180 minutes are more than the 60 that partition bound allows", refused.stderr)
        self.c.ok("scancel", first, second, too_long)
        for job in (first, second, too_long):
            self.c.wait(job)
        self.c.ok("scontrol", "delete", "PartitionName=bound")
        self.sacctmgr("delete", "qos", "part")

    def test_a_node_for_oneself_counts_with_its_gpus(self):
        self.sacctmgr("add", "qos", "few", "MaxTRESPU=gres/gpu=3")
        mine = self.submit("--exclusive", "-N1")
        self.c.wait(mine, "RUNNING")
        self.assertIn("gres/gpu=4", self.c.show(mine)["AllocTRES"])
        barred = self.submit("--exclusive", "-N1", "-q", "FEW")
        eventually(lambda: self.reason(barred).startswith("QOSMaxGRESPerUser"), 20, "its GPUs count")
        wide = self.submit("--gpus=8")  # four on each of two nodes
        self.c.ok("scancel", mine, barred)
        self.c.wait(wide, "RUNNING")
        self.assertEqual(self.c.show(wide)["NumNodes"], "2")
        self.c.ok("scancel", wide)
        for job in (mine, barred, wide):
            self.c.wait(job)
        self.sacctmgr("delete", "qos", "few")

    def test_licences(self):
        self.assertIn("Invalid license specification", self.c.run("sbatch", "-L", "matlab", "--wrap", "true").stderr)
        self.sacctmgr("add", "resource", "name=matlab", "count=2", "type=license")
        first = self.c.wrap("sleep 30", "-L", "matlab:2")
        second = self.c.wrap("sleep 30", "-L", "matlab:1")
        self.c.wait(first, "RUNNING")
        shown = self.c.ok("scontrol", "-o", "show", "licenses")
        self.assertIn("LicenseName=matlab Total=2 Used=2 Free=0", shown)
        self.assertEqual(self.c.run("squeue", "-h", "-j", second, "-o", "%t").stdout.strip(), "PD")
        self.c.ok("scancel", first)
        self.c.wait(second, "RUNNING")
        self.c.ok("scancel", second)
        self.c.wait(second)
        self.sacctmgr("delete", "resource", "matlab")

    def test_reservations(self):
        me = self.me()
        self.assertEqual(self.c.ok("scontrol", "show", "reservation"), "No reservations in the system\n")
        out = self.c.ok("scontrol", "create", "reservation", "ReservationName=class", "StartTime=now", "Duration=60",
                        "Users=" + me, "Nodes=n1", "Flags=IGNORE_JOBS")
        self.assertEqual(out, "Reservation created: class\n")
        shown = self.c.ok("scontrol", "-o", "show", "reservation", "class")
        for part in ("ReservationName=class", "Nodes=n1", "NodeCnt=1", "Duration=01:00:00", "Users=" + me, "State=ACTIVE",
                     "Flags=IGNORE_JOBS,SPEC_NODES"):
            self.assertIn(part, shown)
        inside = self.c.wrap("true", "--reservation=class", "-t", "5")
        self.assertEqual(self.c.wait(inside), "COMPLETED")
        self.assertEqual(self.c.show(inside)["NodeList"], "n1")
        self.assertIn("Requested reservation is invalid",
                      self.c.run("sbatch", "--reservation=other", "--wrap", "true").stderr)
        self.assertEqual(self.c.ok("scontrol", "update", "ReservationName=class", "Duration=2:00:00"), "Reservation updated.\n")
        self.assertIn("Duration=02:00:00", self.c.ok("scontrol", "-o", "show", "reservation", "class"))
        again = self.c.run("scontrol", "create", "reservation", "StartTime=now", "Duration=10", "Users=" + me, "Nodes=n1")
        self.assertNotEqual(again.returncode, 0)
        self.assertIn("busy", again.stderr)
        self.c.ok("scontrol", "delete", "ReservationName=class")
        self.assertEqual(self.c.ok("scontrol", "show", "reservation"), "No reservations in the system\n")


if __name__ == "__main__":
    unittest.main()
