"""Damaged files of a cluster: whatever lies in their places, `up`, `status` and `down` say what is wrong and what to do."""
import json
import os
import re
import shutil
import subprocess
import unittest

from cluster import Cluster, eventually, running

USER = 1001


def empty(path):
    open(path, "wb").close()


def truncated(path):
    os.truncate(path, max(1, os.path.getsize(path) * 2 // 3))


def flipped(path):
    with open(path, "r+b") as f:
        f.seek(min(70, os.path.getsize(path) - 2))
        byte = f.read(1)[0]
        f.seek(-1, os.SEEK_CUR)
        f.write(bytes([byte ^ 4]))


def garbage(path):
    with open(path, "wb") as f:
        f.write(bytes(range(7, 250)) * 40)


def directory(path):
    os.unlink(path)
    os.mkdir(path)


def missing(path):
    os.unlink(path)


DAMAGES = (empty, truncated, flipped, garbage, directory, missing)


class DamagedFiles(unittest.TestCase):
    def setUp(self):
        self.c = Cluster(nodes=1, gpus=None, cpus=4)
        self.addCleanup(self.c.down)

    def lockstep(self, verb, *more):
        return self.c.run("lockstep", verb, "--dir", self.c.dir, *more, timeout=120)

    def path(self, name):
        return os.path.join(self.c.dir, name)

    def processes(self):
        status = self.c.status()
        return [p for p in (status["controller"]["pid"], status["controller"].get("supervisor_pid"),
                            *(n["pid"] for n in status["nodes"]), *(n["agent_pid"] for n in status["nodes"])) if p]

    def assert_down(self, pids):
        self.assertEqual([p for p in pids if running(p)], [])
        self.assertEqual(self.links(), [])

    def links(self):
        """Interfaces with this cluster's name for its bridge."""
        with open(self.path("cluster.conf.good")) as f:
            bridge = re.search(r"^bridge=(\w+)", f.read(), re.M).group(1)
        out = subprocess.run(["ip", "-o", "link"], capture_output=True, text=True, check=True).stdout
        return [line for line in out.splitlines() if bridge in line]

    def keep(self, name):
        shutil.copy(self.path(name), self.path(name + ".good"))

    def put_back(self, name):
        path = self.path(name)
        if os.path.isdir(path):
            os.rmdir(path)
        with open(self.path(name + ".good"), "rb") as good:
            bytes_ = good.read()
        if os.path.exists(path):  # the same file: what belongs to it belongs to its inode
            with open(path, "wb") as f:
                f.write(bytes_)
        else:
            with open(path, "wb") as f:
                f.write(bytes_)
            os.chmod(path, 0o600)

    def test_settings_and_mark(self):
        """Each is damaged while the cluster runs: it is told, and stopped all the same; and then started, or told how."""
        self.c.up()
        self.keep("cluster.conf")
        for damage in DAMAGES:
            for names in (("cluster.conf",), ("cluster.conf", "cluster.conf.copy"), ("lockstep.id",)):
                with self.subTest(damage=damage.__name__, names=names):
                    pids = self.processes()
                    self.assertEqual(len(pids), 4)
                    self.keep("lockstep.id")
                    for name in names:
                        damage(self.path(name))
                    first = self.path(names[0])
                    told = self.lockstep("status")
                    if damage is not missing or names[0] == "lockstep.id" or len(names) == 2:
                        self.assertRegex(told.stdout, rf"notice +.*{re.escape(first)}")
                    self.assertEqual(told.returncode, 0, "the controller answers all the same")
                    stopped = self.lockstep("down")
                    self.assertEqual(stopped.returncode, 0, stopped.stderr)
                    self.assertIn(first, stopped.stderr, "it says which file")
                    self.assert_down(pids)
                    if names != ("cluster.conf",) and damage is not missing:
                        refused = self.lockstep("up")
                        self.assertEqual(refused.returncode, 1)
                        self.assertIn(f"{first}", refused.stderr)
                        self.assertRegex(refused.stderr, "remove|Restore", "what to do next")
                    if len(names) == 2:
                        for name in names:
                            shutil.rmtree(self.path(name)) if damage is directory else damage is missing or os.unlink(self.path(name))
                        self.c.up()  # with the options it was made with, as the message says
                    elif names == ("lockstep.id",):
                        if os.path.isdir(first):
                            os.rmdir(first)
                        elif os.path.exists(first):
                            os.unlink(first)
                        self.c.up()
                    else:
                        self.c.ok("lockstep", "up", "--dir", self.c.dir, timeout=120)
                    self.assertEqual(self.c.wait(self.c.wrap("true")), "COMPLETED")
                    self.keep("cluster.conf")
        pids = self.processes()
        self.c.ok("lockstep", "down", "--dir", self.c.dir)
        self.assert_down(pids)

    def test_notes_of_what_runs(self):
        self.c.up()
        self.keep("cluster.conf")
        for damage in (empty, truncated, garbage, missing):
            with self.subTest(damage=damage.__name__):
                pids = self.processes()
                for name in ("controller.run", "nodes/n1/init.pid"):
                    damage(self.path(name))
                told = self.lockstep("status")
                self.assertEqual(told.returncode, 0)
                if damage in (empty, garbage):  # two thirds of it are the note and some of its padding
                    self.assertIn(f"{self.path('controller.run')} is damaged", told.stdout)
                stopped = self.lockstep("down")
                self.assertEqual(stopped.returncode, 0, stopped.stderr)
                self.assert_down(pids)
                self.c.up()
                self.assertEqual(self.c.wait(self.c.wrap("true")), "COMPLETED")

    def test_accounting_keeps_nobody_from_starting(self):
        self.c.up()
        for damage in (*DAMAGES, None):
            with self.subTest(damage=damage):
                job = self.c.wrap("true")
                self.assertEqual(self.c.wait(job), "COMPLETED")
                eventually(lambda: job in self.c.run("sacct", "-n", "-X", "-o", "jobid").stdout.split(), 15, "it is accounted")
                self.c.ok("lockstep", "down", "--dir", self.c.dir)
                path = self.path("history.db")
                for rest in ("-wal", "-shm"):
                    if os.path.exists(path + rest):
                        os.unlink(path + rest)
                if damage:
                    damage(path)
                else:  # the first page of a table
                    with open(path, "r+b") as f:
                        f.seek(4096)
                        f.write(b"\xff" * 2000)
                self.c.up()
                told = self.lockstep("status")
                self.assertEqual(told.returncode, 0)
                self.assertRegex(told.stdout, r"notice +.*(accounting|history\.db).*made anew", damage)
                self.assertIn(job, eventually(lambda: self.c.run("sacct", "-n", "-X", "-o", "jobid").stdout.split(), 15),
                              "as far back as the log reaches")
        self.assertTrue([n for n in os.listdir(self.c.dir) if n.startswith("history.db.damaged-")], "the old ones are kept")

    def test_the_log_is_refused_and_named(self):
        self.c.up()
        self.c.wrap("true", "--hold")
        self.c.ok("lockstep", "down", "--dir", self.c.dir)
        self.keep("lockstep.db")
        for damage in DAMAGES:
            with self.subTest(damage=damage.__name__):
                for rest in ("-wal", "-shm"):
                    if os.path.exists(self.path("lockstep.db") + rest):
                        os.unlink(self.path("lockstep.db") + rest)
                damage(self.path("lockstep.db"))
                refused = self.lockstep("up")
                self.assertEqual(refused.returncode, 1, refused.stdout)
                self.assertIn(self.path("lockstep.db"), refused.stderr)
                self.assertRegex(refused.stderr, "restore it", "what to do next")
                told = self.lockstep("status")
                self.assertEqual(told.returncode, 3)
                self.assertIn("jobs        not known", told.stdout)
                self.assertNotIn("none", told.stdout)
                self.assertEqual(self.lockstep("down").returncode, 0)
                for rest in ("-wal", "-shm"):
                    if os.path.exists(self.path("lockstep.db") + rest):
                        os.unlink(self.path("lockstep.db") + rest)
                self.put_back("lockstep.db")
        self.c.up()

    def test_a_log_without_its_tip(self):
        self.c.up()
        for damage in (missing, flipped, empty, truncated):
            with self.subTest(damage=damage.__name__):
                self.c.ok("lockstep", "down", "--dir", self.c.dir)
                path = self.path("lockstep.tip")
                if damage is flipped:
                    with open(path, "r+b") as f:
                        f.seek(9)
                        f.write(b"\x77")
                else:
                    damage(path)
                self.c.up()
                what = "is missing" if damage is missing else "is damaged"
                self.assertIn("lockstep.tip " + what, self.lockstep("status").stdout)
                self.assertIn("lockstep.tip " + what, self.c.log_tail(100))
                self.c.ok("lockstep", "down", "--dir", self.c.dir)
                self.c.up()
                self.assertNotIn("notice", self.lockstep("status").stdout, "it has one again")

    def test_after_an_accepted_loss_no_id_is_given_out_again(self):
        self.c.up()
        kept = self.c.wrap("true", "--hold")
        self.c.ok("lockstep", "down", "--dir", self.c.dir)
        shutil.copy(self.path("lockstep.db"), self.path("older.db"))
        self.c.up()
        lost = [self.c.wrap("true", "--hold") for _ in range(5)]
        eventually(lambda: lost[-1] in self.c.run("sacct", "-n", "-X", "-o", "jobid").stdout.split(), 15, "accounting has it")
        late = self.c.wrap("true", "--hold")  # accounting may or may not
        self.c.kill_controller(hold=True)
        self.c.release_controller()
        self.lockstep("down")
        for name in ("lockstep.db-wal", "lockstep.db-shm"):
            if os.path.exists(self.path(name)):
                os.unlink(self.path(name))
        shutil.copy(self.path("older.db"), self.path("lockstep.db"))
        refused = self.lockstep("up")
        self.assertEqual(refused.returncode, 1)
        self.assertIn("lockstep.accept-loss", refused.stderr)
        self.lockstep("down")
        open(self.path("lockstep.accept-loss"), "w").close()
        self.c.up()
        told = self.lockstep("status").stdout
        self.assertRegex(told, r"notice +.*are lost, which was accepted")
        self.assertRegex(told, r"notice +.*LostFromLog")
        self.assertEqual(self.c.state(kept), "PENDING")
        fresh = self.c.wrap("true", "--hold")
        self.assertGreater(int(fresh), int(late), "an id was given out twice")
        rows = dict(line.split("|")[:2] for line in self.c.ok("sacct", "-n", "-X", "-P", "-o", "jobid,state").splitlines())
        for job in lost:
            self.assertIn("CANCELLED", rows[job], "it is not waiting any more")
        self.assertEqual(rows[kept], "PENDING")


class Unreadable(unittest.TestCase):
    """Root reads everything; an ordinary user does not."""

    def test_files_without_any_right(self):
        c = Cluster(nodes=0)
        os.chown(c.home, USER, USER)

        def lockstep(verb):
            return c.run("lockstep", verb, "--dir", c.dir, user=USER, env={"HOME": c.home}, timeout=120)

        try:
            self.assertEqual(lockstep("up").returncode, 0)
            for name in ("cluster.conf", "lockstep.id", "history.db", "lockstep.db", "lockstep.tip", "controller.run"):
                with self.subTest(name=name):
                    path = os.path.join(c.dir, name)
                    pid = c.run("sh", "-c", "lockstep status -o json", user=USER).stdout
                    pid = json.loads(pid)["controller"]["pid"]
                    os.chmod(path, 0)
                    told = lockstep("status")
                    self.assertEqual(told.returncode, 0, told.stderr)
                    if name in ("cluster.conf", "lockstep.id"):
                        self.assertIn(path, told.stdout)
                    stopped = lockstep("down")
                    self.assertEqual(stopped.returncode, 0, stopped.stderr)
                    self.assertFalse(running(pid))
                    os.path.exists(path) and os.chmod(path, 0)
                    started = lockstep("up")
                    if name == "lockstep.id":
                        self.assertEqual(started.returncode, 1)
                        self.assertIn("readable", started.stderr)
                        os.chmod(path, 0o600)
                        started = lockstep("up")
                    self.assertEqual(started.returncode, 0, started.stderr)
                    self.assertNotIn("notice", lockstep("status").stdout)
        finally:
            lockstep("down")
            c.down()


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

    def test_a_takeover_of_a_node_by_a_copied_key_is_named(self):
        """The machine of n2 starts an agent with n1's key."""
        stolen = os.path.join(self.c.home, "stolen")
        shutil.copytree(os.path.join(self.c.dir, "nodes", "n1", "pki"), stolen)
        with open(os.path.join(self.c.dir, "nodes", "n1", "agent.json")) as f:
            settings = json.load(f)
        for name in ("ca", "certificate", "key"):
            settings[name] = os.path.join(stolen, os.path.basename(settings[name]))
        settings.update(state_dir=os.path.join(stolen, "state"), run_dir=os.path.join(stolen, "run"),
                        socket=os.path.join(stolen, "api.sock"), address="", peer_port=0)
        path = os.path.join(stolen, "agent.json")
        with open(path, "w") as f:
            json.dump(settings, f)
        os.chmod(path, 0o600)
        addresses = {n["name"]: n["address"] for n in self.c.status()["nodes"]}
        thief = subprocess.Popen(["nsenter", "--target", str(self.c.node("n2")["pid"]), "--net", "lockstep-agent",
                                  "--settings", path], env=self.c.env, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            told = eventually(lambda: [line for line in self.lockstep("status", "--dir", self.c.dir).stdout.splitlines()
                                       if "has taken over from" in line], 30, "a notice")
            self.assertIn(addresses["n1"], told[0])
            self.assertIn(addresses["n2"], told[0])
            self.assertIn("lockstep node revoke n1", told[0])
            self.assertIn("has taken over from", self.c.log_tail(100))
        finally:
            thief.kill()
            thief.wait()

    def test_delete_leaves_what_lies_below_its_folders(self):
        mine = os.path.join(self.c.dir, "nodes", "n1", "results.txt")
        with open(mine, "w") as f:
            f.write("mine")
        said = self.c.ok("lockstep", "down", "--delete", "--dir", self.c.dir)
        self.assertIn("nodes/n1/results.txt", said)
        with open(mine) as f:
            self.assertEqual(f.read(), "mine")
        self.assertEqual(sorted(os.listdir(self.c.dir)), ["lockstep.id", "nodes"])
        self.assertEqual(os.listdir(os.path.join(self.c.dir, "nodes")), ["n1"])


class TheShellThatRanUp(unittest.TestCase):
    def test_its_limits_reach_nobody(self):
        c = Cluster(nodes=1, gpus=None, cpus=4)
        try:
            odd = ("ulimit -S -n 200; ulimit -S -f 400000; ulimit -S -s 1024; ulimit -S -c unlimited; trap '' INT HUP; umask 0; "
                   "exec nice -n 5 taskset -c 0 lockstep up --dir \"$0\" --nodes 1 --cpus 4")
            c.ok("bash", "-c", odd, c.dir, timeout=120)
            status = c.status()
            node = status["nodes"][0]
            with open("/proc/self/status") as f:
                cpus = re.search(r"Cpus_allowed:\t(\S+)", f.read()).group(1)
            for pid in (status["controller"]["pid"], status["controller"]["supervisor_pid"], node["pid"], node["agent_pid"]):
                with open(f"/proc/{pid}/limits") as f:
                    limits = f.read()
                self.assertRegex(limits, r"Max file size +unlimited")
                self.assertRegex(limits, r"Max stack size +8388608")
                self.assertRegex(limits, r"Max core file size +0 ")
                self.assertNotRegex(limits, r"Max open files +200 ")
                with open(f"/proc/{pid}/status") as f:
                    text = f.read()
                self.assertIn(f"Cpus_allowed:\t{cpus}\n", text)
                with open(f"/proc/{pid}/stat") as f:
                    self.assertEqual(f.read().rsplit(")", 1)[1].split()[16], "0", "nice")
            shown = "ulimit -S -n; ulimit -S -s; nice; grep Cpus_allowed: /proc/self/status"
            mine = c.ok("srun", "-n1", "bash", "-c", shown).split()
            self.assertEqual(mine[2:], ["0", "Cpus_allowed:", cpus])
            # Those of the shell that submits do.
            sent = c.ok("bash", "-c", f"ulimit -S -n 222; ulimit -S -s 2048; srun -n1 bash -c '{shown}'").split()
            self.assertEqual(sent[:2], ["222", "2048"])
            none = c.ok("bash", "-c", f"ulimit -S -n 222; ulimit -S -s 2048; srun --propagate=NONE -n1 bash -c '{shown}'").split()
            self.assertEqual(none[:2], ["1024", "8192"])
            one = c.ok("bash", "-c", f"ulimit -S -n 222; ulimit -S -s 2048; srun --propagate=STACK -n1 bash -c '{shown}; env'")
            self.assertEqual(one.split()[:2], ["1024", "2048"])
            self.assertNotIn("SLURM_RLIMIT", one)
            c.ok("bash", "-c", f"ulimit -S -n 333; sbatch --wait -o {c.work}/limits.out --wrap 'ulimit -S -n'")
            with open(f"{c.work}/limits.out") as f:
                self.assertEqual(f.read(), "333\n")
            bad = c.run("sbatch", "--propagate=SPEED", "--wrap", "true")
            self.assertNotEqual(bad.returncode, 0)
            self.assertIn("NOFILE", bad.stderr)
        finally:
            c.down()

    def test_names_that_cannot_be_written_are_refused(self):
        c = Cluster(nodes=0)
        try:
            for name in ("x\ny", "a=b", "#x", "a b", "", "x" * 65, "\x1b[2J"):
                said = c.run("lockstep", "up", "--dir", c.dir, "--name", name)
                self.assertEqual(said.returncode, 2, name)
                self.assertIn("letters, digits", said.stderr)
            said = c.run("lockstep", "up", "--dir", c.dir, "--nodes", "1", "--gpus", "8xh\nname=evil")
            self.assertEqual(said.returncode, 2)
            self.assertFalse(os.path.exists(c.dir), "nothing was made")
        finally:
            shutil.rmtree(c.home, ignore_errors=True)


if __name__ == "__main__":
    unittest.main()
