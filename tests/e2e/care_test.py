"""Taking care of a cluster: backups made while it runs, restored beside it and in its place, and what the doctor finds."""
import base64
import contextlib
import glob
import hashlib
import http.server
import json
import os
import re
import shlex
import shutil
import signal
import socket
import socketserver
import subprocess
import threading
import time
import unittest

from cluster import BIN, Cluster, eventually, running, send

NOBODY = 65534


def read(path):
    with open(path, encoding="utf-8") as f:
        return f.read()


def write(path, text):
    with open(path, "w", encoding="utf-8") as f:
        f.write(text)


def fill(path, size):
    with contextlib.suppress(OSError), open(path, "wb", buffering=0) as f:
        for _ in range(size >> 12):
            f.write(bytes(4096))


@contextlib.contextmanager
def tmpfs(path, *options):
    os.makedirs(path, exist_ok=True)
    subprocess.run(["mount", "-t", "tmpfs", "-o", ",".join(("mode=700",) + options), "none", path], check=True)
    try:
        yield path
    finally:
        subprocess.run(["umount", "-l", path], check=True)


class OfOneCluster(unittest.TestCase):
    """The tests of a class share a cluster."""
    ARGS = dict(nodes=1, gpus=None, cpus=4)

    @classmethod
    def setUpClass(cls):
        cls.c = Cluster(**cls.ARGS)
        cls.addClassCleanup(cls.c.down)
        cls.c.up()

    def place(self, name):
        return os.path.join(self.c.home, name)

    def lockstep(self, *words, **kwargs):
        return self.c.run("lockstep", *words, **kwargs)

    def refused(self, *words, says, **kwargs):
        """It fails with 1, says so, and the cluster goes on."""
        done = self.lockstep(*words, **kwargs)
        self.assertEqual(done.returncode, 1, done.stdout + done.stderr)
        self.assertIn(says, done.stderr)
        self.assertTrue(self.c.answers())
        return done.stderr

    def backup(self, name, *options):
        path = self.place(name)
        done = self.lockstep("backup", path, *options)
        self.assertEqual(done.returncode, 0, done.stderr)
        return path


class Backups(OfOneCluster):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        with open(os.path.join(cls.c.work, "long.sh"), "wb") as f:  # three MiB that hardly compress
            f.write(b"#!/bin/sh\nexit 0\n#" + base64.b85encode(os.urandom(5 << 19)) + b"\n")
        cls.waits = cls.c.sbatch("--hold", "-J", "waits", "long.sh")
        cls.ended = cls.c.wrap("echo once >>$HOME/ran-$SLURM_JOB_ID", "-J", "ended", env={"HOME": cls.c.work})
        cls.c.wait(cls.ended)

    def slow(self, name):
        """A backup that takes some seconds; once it writes."""
        path = self.place(name)
        process = subprocess.Popen(["lockstep", "backup", path, "--rate", "1"], env=self.c.env, text=True,
                                   stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        self.addCleanup(process.kill)
        eventually(lambda: os.path.exists(os.path.join(path, "lockstep.db")), what="a backup that has begun")
        return path, process

    def child(self, process):
        return int(eventually(lambda: read(f"/proc/{process.pid}/task/{process.pid}/children").split(), what="lockstepd")[0])

    def test_of_a_running_cluster_is_whole_and_closed_to_others(self):
        done = self.lockstep("backup", self.place("whole"), "-o", "json")
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        made = json.loads(done.stdout)
        self.assertEqual((made["path"], made["cluster"], made["accounting"]), (self.place("whole"), "lockstep", True))
        names = {os.path.relpath(path, made["path"]) for path in glob.glob(made["path"] + "/**", recursive=True)}
        self.assertLessEqual({"lockstep.db", "lockstep.tip", "history.db", "cluster.conf", "pki/ca.pem", "pki/ca.key",
                              "manifest", "SHA256SUMS"}, names)
        self.assertFalse({"UNFINISHED", "lockstep.db-wal", "lockstep.db-shm"} & names)
        for name in names:
            mode = os.stat(os.path.join(made["path"], name)).st_mode
            self.assertEqual(mode & 0o077, 0, name)
        sums = subprocess.run(["sha256sum", "--quiet", "-c", "SHA256SUMS"], cwd=made["path"], capture_output=True, text=True)
        self.assertEqual((sums.returncode, sums.stdout), (0, ""))
        self.refused("backup", made["path"], says="is not empty")

    def test_keeps_as_many_as_it_is_told(self):
        base = self.place("dated")
        for _ in range(3):
            self.backup("dated", "--keep", "2")
        os.mkdir(os.path.join(base, "mine"))
        first = sorted(name for name in os.listdir(base) if name != "mine")
        self.assertEqual(len(first), 2)
        self.backup("dated", "--keep", "1")
        left = set(os.listdir(base))
        self.assertEqual(len(left), 2)
        self.assertIn("mine", left)
        self.assertFalse(left & set(first))

    def test_what_it_removes_is_older_and_of_this_cluster(self):
        base = self.place("shared")
        self.backup("shared", "--keep", "1")
        [mine] = os.listdir(base)
        os.rename(os.path.join(base, mine), os.path.join(base, "20990101-000000"))  # of a clock that was wrong once
        theirs = os.path.join(base, "20200101-000000")
        shutil.copytree(os.path.join(base, "20990101-000000"), theirs)
        manifest = os.path.join(theirs, "manifest")
        write(manifest, re.sub("(?m)^mark=.*$", "mark=another", read(manifest)))
        half = os.path.join(base, "20200102-000000")
        os.mkdir(half, 0o700)
        write(os.path.join(half, "UNFINISHED.new"), "This")
        self.backup("shared", "--keep", "1")
        left = sorted(os.listdir(base))
        self.assertIn("20200101-000000", left, "of another cluster, which has the same name")
        self.assertNotIn("20200102-000000", left)
        [fresh] = [name for name in left if name[:4] not in ("2020", "2099")]
        self.assertTrue(os.path.exists(os.path.join(base, fresh, "SHA256SUMS")), "the one that was just made")

    def test_bad_places_are_refused_and_nothing_is_left(self):
        home = self.c.home
        self.refused("backup", os.path.join(self.c.dir, "backup"), says="lies in the cluster's own directory")
        os.symlink(self.c.dir, self.place("link"))
        self.refused("backup", self.place("link") + "/x", says="lies in the cluster's own directory")
        write(self.place("file"), "")
        self.refused("backup", self.place("file"), says="file")
        self.refused("backup", self.place("dir"), "--dir", home + "/nothing", says="there is no cluster in")
        with tmpfs(self.place("read-only"), "ro") as path:
            self.refused("backup", path + "/x", says="Read-only file system")
        with tmpfs(self.place("small"), "size=1m") as path:
            self.refused("backup", path + "/x", says="MiB free, and the backup takes")
            self.assertEqual(os.listdir(path), [])
        others = self.place("others")
        os.mkdir(others, 0o777)
        os.chown(others, NOBODY, NOBODY)
        said = self.refused("backup", others + "/x", says="another user's", user=NOBODY)
        self.assertNotIn("Permission denied", said)
        self.assertEqual(os.listdir(others), [])
        self.assertEqual(self.lockstep("backup").returncode, 2)
        self.assertEqual(self.lockstep("backup", self.place("x"), "--keep", "0").returncode, 2)
        self.assertFalse(os.path.exists(self.place("x")))

    def test_a_disk_that_fills_in_the_middle_leaves_nothing(self):
        with tmpfs(self.place("fills"), "size=8m") as path:
            target, process = self.slow("fills/here")
            fill(path + "/filler", 8 << 20)
            said = process.communicate(timeout=60)[1]
            self.assertEqual(process.returncode, 1)
            self.assertIn("full", said)
            self.assertIn("No backup was made", said)
            self.assertEqual(os.listdir(path), ["filler"])
        self.assertTrue(self.c.answers())

    def test_one_that_is_killed_is_no_backup_and_the_next_one_takes_its_place(self):
        target, process = self.slow("killed")
        os.kill(self.child(process), signal.SIGKILL)
        said = process.communicate(timeout=60)[1]
        self.assertEqual(process.returncode, 1)
        self.assertIn("killed (signal 9)", said)
        self.assertIn("UNFINISHED", os.listdir(target))
        self.refused("restore", target, "--dir", self.place("of-killed"), says="was interrupted")
        self.assertFalse(os.path.exists(self.place("of-killed")))
        self.backup("killed")

    def test_one_that_is_interrupted_leaves_nothing(self):
        target, process = self.slow("interrupted")
        os.kill(self.child(process), signal.SIGTERM)
        self.assertIn("it was interrupted", process.communicate(timeout=60)[1])
        self.assertEqual(process.returncode, 1)
        self.assertFalse(os.path.exists(target))

    def test_one_whose_command_is_killed_ends_too_and_the_directory_is_as_it_was(self):
        path = self.place("client-killed")
        os.mkdir(path, 0o755)
        os.chmod(path, 0o755)
        target, process = self.slow("client-killed")
        child = self.child(process)
        process.kill()
        process.communicate(timeout=60)
        eventually(lambda: not running(child), what="the end of the one that writes")
        self.assertEqual(os.listdir(target), [])
        self.assertEqual(os.stat(target).st_mode & 0o777, 0o755)

    def test_the_controller_may_be_killed_meanwhile(self):
        target, process = self.slow("meanwhile")
        self.c.kill_controller(hold=False)
        eventually(self.c.answers)
        job = self.c.wrap("true")
        self.assertEqual(self.c.wait(job), "COMPLETED")
        said = process.communicate(timeout=60)[1]
        self.assertEqual(process.returncode, 0, said)
        restored = self.place("of-meanwhile")
        self.assertEqual(self.lockstep("restore", target, "--dir", restored).returncode, 0)

    def test_damage_is_found_before_anything_is_written(self):
        whole = self.backup("to-damage")
        into = self.place("damaged-into")

        def tried(change, says):
            copy = self.place("damaged")
            shutil.rmtree(copy, ignore_errors=True)
            shutil.copytree(whole, copy)
            change(copy)
            self.refused("restore", copy, "--dir", into, says=says)
            self.assertFalse(os.path.exists(into))

        def flip(name):
            def change(copy):
                with open(os.path.join(copy, name), "r+b") as f:
                    f.seek(os.path.getsize(f.name) // 2)
                    byte = f.read(1)[0]
                    f.seek(-1, os.SEEK_CUR)
                    f.write(bytes([byte ^ 1]))
            return change

        def newer(copy):
            path = os.path.join(copy, "manifest")
            text = read(path).replace("format=1", "format=99")
            write(path, text)
            sums = os.path.join(copy, "SHA256SUMS")
            digest = hashlib.sha256(text.encode()).hexdigest()
            write(sums, re.sub(r"\w+  manifest", f"{digest}  manifest", read(sums)))

        for name in ("lockstep.db", "history.db", "pki/ca.key", "manifest", "cluster.conf"):
            tried(flip(name), f"{name} is damaged")
        tried(flip("SHA256SUMS"), "damaged")
        for name in ("lockstep.db", "manifest", "pki/ca.pem"):
            tried(lambda copy: os.unlink(os.path.join(copy, name)), "is missing")
        tried(lambda copy: os.unlink(os.path.join(copy, "SHA256SUMS")), "is no backup")
        tried(newer, "a newer version made it (format 99")
        self.refused("restore", self.place("nowhere"), "--dir", into, says="cannot read")
        self.assertEqual(self.lockstep("restore", whole).returncode, 2)

    def test_nothing_is_restored_over_a_cluster(self):
        whole = self.backup("over")
        self.refused("restore", whole, "--dir", self.c.dir, says="runs (process")
        self.refused("restore", whole, "--dir", self.c.dir, "--replace", says="runs (process")
        taken = self.place("taken")
        self.assertEqual(self.lockstep("restore", whole, "--dir", taken).returncode, 0)
        self.refused("restore", whole, "--dir", taken, says="holds a cluster")
        self.refused("restore", whole, "--dir", os.path.join(self.c.dir, "inner"), says="state directory of another cluster")
        os.mkdir(self.place("full"))
        write(self.place("full/mine"), "")
        self.refused("restore", whole, "--dir", self.place("full"), says="not empty")
        with tmpfs(self.place("no-room"), "size=4m") as path:
            self.refused("restore", whole, "--dir", path + "/x", says="MiB free, and the cluster takes")
        self.refused("restore", "--take-over", "--dir", self.c.dir, says="holds no cluster that was restored")

    def test_a_restore_that_was_interrupted_starts_nothing(self):
        whole = self.backup("half")
        into = self.place("half-into")
        self.assertEqual(self.lockstep("restore", whole, "--dir", into).returncode, 0)
        note = os.path.join(into, "lockstep.restored")
        write(note, read(note).replace("restored=whole", "restored=begun"))
        self.refused("up", "--dir", into, says="a restore into")
        self.refused("restore", "--take-over", "--dir", into, says="a restore into")
        # The same in the middle: the database is aside already, and what SQLite keeps beside it is not.
        write(note, read(note).replace("restored=whole", "restored=begun"))
        os.rename(os.path.join(into, "lockstep.db"), os.path.join(into, "lockstep.db.replaced-x"))
        log = os.path.join(into, "lockstep.db-wal")
        write(log, "of what was there before")
        self.assertEqual(self.lockstep("restore", whole, "--dir", into).returncode, 0)
        self.assertNotIn("of what was there before", read(log) if os.path.exists(log) else "")
        self.assertTrue(glob.glob(os.path.join(into, "lockstep.db.replaced-*-wal")))
        self.lockstep("down", "--dir", into)

    def test_a_backup_is_no_cluster(self):
        whole = self.backup("no-cluster")
        before = sorted(os.listdir(whole))
        for words in (("up",), ("down",), ("down", "--delete")):
            self.refused(*words, "--dir", whole, says="is a backup")
        self.refused("restore", whole, "--dir", os.path.join(whole, "into"), says="lies in the backup itself")
        self.refused("restore", whole, "--dir", os.path.join(self.c.work, "long.sh"), says="is no directory")
        self.assertEqual(sorted(os.listdir(whole)), before)

    @unittest.skipIf(os.geteuid() != 0, "needs two users")
    def test_a_backup_that_somebody_else_can_write_is_refused(self):
        whole = self.backup("theirs")
        into = self.place("theirs-into")
        os.chown(os.path.join(whole, "lockstep.db"), NOBODY, NOBODY)
        self.refused("restore", whole, "--dir", into, says="lockstep.db belongs to user 65534")
        os.chown(os.path.join(whole, "lockstep.db"), 0, 0)
        os.chmod(whole, 0o777)
        self.refused("restore", whole, "--dir", into, says=f"{whole} can be written by everybody")
        os.chmod(whole, 0o770)
        self.refused("restore", whole, "--dir", into, says=f"{whole} can be written by group {os.stat(whole).st_gid}")
        self.assertFalse(os.path.exists(os.path.join(into, "lockstep.db")))


class Restored(unittest.TestCase):
    def setUp(self):
        self.c = Cluster(nodes=1, gpus=None, cpus=4)
        self.addCleanup(self.c.down)
        self.c.up()
        self.script = self.c.script("#!/bin/sh\necho >>ran-$SLURM_JOB_ID\nwhile [ -e hold-$SLURM_JOB_ID ]; do sleep 0.1; done\n")

    def ran(self, job):
        path = os.path.join(self.c.work, "ran-" + job)
        return len(read(path).splitlines()) if os.path.exists(path) else 0

    def at(self, directory):
        return {"LOCKSTEP_DIR": directory, "LOCKSTEP_SOCKET": os.path.join(directory, "public", "api.sock")}

    def test_beside_the_original_it_shows_what_was_and_runs_nothing(self):
        c = self.c
        ended, runs, waits = (c.sbatch("--hold", self.script) for _ in range(3))
        open(os.path.join(c.work, "hold-" + runs), "w").close()
        for job in (ended, runs):
            c.ok("scontrol", "release", job)
        self.assertEqual(c.wait(ended), "COMPLETED")
        eventually(lambda: self.ran(runs), what="a job that runs")
        ready = [c.sbatch("--begin", "now+3", self.script) for _ in range(3)]
        backup, copy = os.path.join(c.home, "backup"), os.path.join(c.home, "copy")
        c.ok("lockstep", "backup", backup)
        before = c.ok("squeue", "-h", "-t", "all", "-o", "%i %T %r").splitlines()
        later = c.wrap("true")
        self.assertEqual(c.wait(later), "COMPLETED")

        c.ok("lockstep", "restore", backup, "--dir", copy)
        self.addCleanup(c.run, "lockstep", "down", "--dir", copy)
        said = c.ok("lockstep", "up", "--dir", copy, timeout=120)
        self.assertIn("is quiet", said)
        env = self.at(copy)
        shown = c.ok("squeue", "-h", "-t", "all", "-o", "%i %T %r", env=env).splitlines()
        self.assertEqual([line.split()[0] for line in shown], [line.split()[0] for line in before])
        self.assertIn(f"{waits} PENDING JobHeldUser", shown)
        self.assertNotIn(later, [line.split()[0] for line in shown])
        self.assertIn(f"{ended}|COMPLETED", c.ok("sacct", "-nXS", "now-1days", "-P", "-o", "jobid,state", env=env).splitlines())
        for words in (("sbatch", "--wrap", "true"), ("scancel", waits), ("scontrol", "release", waits)):
            refused = c.run(*words, env=env)
            self.assertNotEqual(refused.returncode, 0, words)
            self.assertIn("is quiet", refused.stderr)
        status = json.loads(c.run("lockstep", "status", "--dir", copy, "-o", "json").stdout)
        self.assertTrue(any("is quiet" in notice for notice in status["notices"]), status["notices"])
        doctor = json.loads(c.run("lockstep", "doctor", "--dir", copy, "-o", "json").stdout)
        self.assertEqual([one for one in doctor["findings"] if one["severity"] in ("error", "warning")], [])
        # Those that were ready run in the original, and in the original only.
        for job in ready:
            self.assertEqual(c.wait(job), "COMPLETED")
        time.sleep(1)
        self.assertEqual([self.ran(job) for job in (ended, runs, waits, *ready)], [1, 1, 0, 1, 1, 1])
        self.assertEqual({c.ok("squeue", "-h", "-t", "all", "-o", "%T", "-j", job, env=env).strip() for job in ready}, {"PENDING"})

        # Two of one cluster are not let loose on its jobs.
        both = c.run("lockstep", "restore", "--take-over", "--dir", copy)
        self.assertEqual(both.returncode, 1)
        self.assertIn("both would run the same jobs", both.stderr)
        os.unlink(os.path.join(c.work, "hold-" + runs))
        self.assertEqual(c.wait(runs), "COMPLETED")
        c.ok("lockstep", "down", "--dir", c.dir, timeout=60)
        c.ok("lockstep", "restore", "--take-over", "--dir", copy, timeout=120)
        c.ok("scontrol", "release", waits, env=env)
        eventually(lambda: c.run("squeue", "-h", "-t", "all", "-j", waits, "-o", "%T", env=env).stdout.strip() == "COMPLETED")
        self.assertEqual(self.ran(waits), 1)
        self.assertFalse(os.path.exists(os.path.join(copy, "lockstep.restored")))

    def test_in_place_of_what_was_lost(self):
        c = self.c
        first = c.wrap("true")
        c.wait(first)
        waits = c.sbatch("--hold", self.script)
        backup = os.path.join(c.home, "backup")
        c.ok("lockstep", "backup", backup)
        later = c.wrap("true")
        self.assertEqual(c.wait(later), "COMPLETED")
        eventually(lambda: later in c.run("sacct", "-nXS", "now-1days", "-o", "jobid").stdout.split(), what="accounting")
        c.ok("lockstep", "down", "--dir", c.dir, timeout=60)
        with open(os.path.join(c.dir, "lockstep.db"), "r+b") as f:
            f.write(b"lost" * 100)
        self.assertEqual(c.run("lockstep", "up", "--dir", c.dir, timeout=60).returncode, 1)
        c.run("lockstep", "down", "--dir", c.dir, timeout=60)
        said = c.ok("lockstep", "restore", backup, "--dir", c.dir, "--replace", "--take-over", timeout=120)
        self.assertIn("the accounting that was there is kept", said)
        self.assertTrue(glob.glob(os.path.join(c.dir, "lockstep.db.replaced-*")))
        eventually(c.answers)
        self.assertEqual(c.state(waits), "PENDING")
        fresh = c.wrap("true")
        self.assertGreater(int(fresh), int(later), "an id was given out twice")
        self.assertEqual(c.wait(fresh), "COMPLETED")
        states = dict(line.split("|") for line in c.ok("sacct", "-nXS", "now-1days", "-P", "-o", "jobid,state").splitlines())
        self.assertEqual((states[first], states[later]), ("COMPLETED", "COMPLETED"))
        c.ok("scontrol", "release", waits)
        self.assertEqual(c.wait(waits), "COMPLETED")
        self.assertEqual(self.ran(waits), 1)


class Doctor(OfOneCluster):
    ARGS = dict(nodes=2, gpus="2xh100", cpus=4)

    def doctor(self, *words, **kwargs):
        done = self.lockstep("doctor", *words, "-o", "json", **kwargs)
        self.assertIn(done.returncode, (0, 1), done.stderr)
        told = json.loads(done.stdout)
        bad = [one for one in told["findings"] if one["severity"] in ("error", "warning")]
        self.assertEqual(done.returncode, 1 if bad else 0)
        for one in told["findings"]:
            self.assertIn(one["check"], told["checks"] + ["agent"])
        return told, bad

    def finds(self, check, which, what, **kwargs):
        _, bad = self.doctor(check, **kwargs)
        found = [one for one in bad if one["check"] == check and which in one["which"] and what in one["what"]]
        self.assertTrue(found, bad)
        return found[0]

    def healthy(self):
        return self.doctor()[1] == []

    def test_a_healthy_cluster_has_nothing_that_needs_work(self):
        eventually(self.healthy, what=f"health: {self.doctor()[1]}")
        table = self.lockstep("doctor")
        self.assertEqual(table.returncode, 0, table.stdout)
        self.assertIn("nothing needs work", table.stdout)
        self.assertLess(max(len(line) for line in table.stdout.splitlines()), 100)

    def test_checks_are_listed_and_chosen_by_name(self):
        listed = self.c.ok("lockstep", "doctor", "--list").splitlines()[1:]
        told, _ = self.doctor()
        self.assertEqual([line.split()[0] for line in listed], told["checks"])
        self.assertEqual(self.doctor("disks", "ports")[0]["checks"], ["disks", "ports"])
        for words, says in ((["disk"], 'did you mean "disks"'), (["-o", "xml"], "write table or json"),
                            (["--settings", "/nowhere"], "there is no /nowhere"),
                            (["--dir", self.c.home], "there is no cluster")):
            done = self.lockstep("doctor", *words)
            self.assertEqual(done.returncode, 2, words)
            self.assertIn(says, done.stderr)

    def test_modes_and_owners(self):
        path = os.path.join(self.c.dir, "pki", "ca.key")
        os.chmod(path, 0o644)
        self.addCleanup(os.chmod, path, 0o600)
        found = self.finds("modes", path, "open to others")
        subprocess.run(shlex.split(found["mend"]), check=True)
        self.assertEqual(self.doctor("modes")[1], [])
        os.chown(path, NOBODY, NOBODY)
        self.addCleanup(os.chown, path, 0, 0)
        found = self.finds("modes", path, f"belongs to user {NOBODY}")
        subprocess.run(shlex.split(found["mend"]), check=True)
        os.chmod(self.c.home, 0o777)
        self.finds("modes", self.c.home, "others may write")
        os.chmod(self.c.home, 0o755)

    def test_certificates(self):
        path = os.path.join(self.c.dir, "nodes", "n1", "pki", "node.crt")
        text = read(path)
        self.addCleanup(os.chmod, path, 0o600)
        self.addCleanup(write, path, text)
        write(path, "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n")
        self.finds("certificates", path, "damaged")
        key, soon = self.place("k.pem"), self.place("soon.pem")
        for days, what in (("7", "ends in "), ("365", None)):
            subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-keyout",
                            key, "-subj", "/CN=n1", "-days", days, "-out", soon], check=True, capture_output=True)
            write(path, read(soon))
            if what:
                self.finds("certificates", path, what)
            else:
                self.assertEqual([one for one in self.doctor("certificates")[1] if one["which"] == path], [])
        os.unlink(path)
        self.finds("certificates", path, "missing")

    def test_what_ended_and_what_is_refused(self):
        path = os.path.join(self.c.dir, "applying.list")
        write(path, "u0 submit 7\n")
        self.addCleanup(os.unlink, path)
        self.finds("controller", "u0 submit 7", "is refused")
        self.c.kill_controller(hold=False)
        eventually(self.c.answers)
        self.finds("controller", "", "was started again, last: signal 9")
        self.c.kill_agent("n2")
        eventually(lambda: self.c.node("n2")["state"] == "idle")
        self.finds("nodes", "n2", "its agent ended")

    def test_what_a_node_offers(self):
        path = os.path.join(self.c.dir, "nodes", "n1", "gpus")
        text = read(path)
        for content in (text.replace("count = 2", "count = 1"), text):
            write(path, content)
            self.c.kill_agent("n1")
            offered = 1 if content != text else 2
            eventually(lambda: self.c.node("n1")["devices"] == offered and self.c.node("n1")["state"] == "idle", what=content)
            if offered == 1:
                self.finds("gpus", "n1", "it offers 1 of 2 GPUs")
        self.assertEqual(self.doctor("gpus")[1], [])

    def test_without_a_supervisor(self):
        send(self.c.supervisor_pid())
        eventually(lambda: self.c.supervisor_pid() == 0)
        found = self.finds("controller", "", "nobody starts it again if it ends")
        subprocess.run(shlex.split(found["mend"]), check=True, env=self.c.env, capture_output=True)
        self.assertNotEqual(self.c.supervisor_pid(), 0)

    def test_without_a_controller(self):
        self.c.kill_controller(hold=True)
        self.addCleanup(lambda: eventually(self.c.answers))
        self.addCleanup(self.c.release_controller)
        found = self.finds("controller", "", "does not run")
        self.assertEqual(found["mend"], "lockstep up --dir " + self.c.dir)
        told, _ = self.doctor("ports")
        where = json.loads(read(os.path.join(self.c.dir, "controller.json")))
        with socket.socket() as taken:
            taken.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            taken.bind((where["address"], where["port"]))
            taken.listen()
            found = self.finds("ports", str(where["port"]), "is taken by")
            self.assertIn(f"(process {os.getpid()})", found["what"])

    def test_a_node_that_is_down_and_a_disk_that_is_full(self):
        self.c.pull_plug("n2")
        eventually(lambda: self.c.node("n2")["state"] in ("down", "unknown"))
        self.finds("nodes", "n2", "it is ")
        self.c.up()
        full = self.place("full-agent")
        with tmpfs(full, "size=1m") as path:
            fill(path + "/x", 2 << 20)
            settings = json.loads(read(os.path.join(self.c.dir, "nodes", "n1", "agent.json")))
            settings.update(state_dir=path, run_dir=self.place("work"), fence_hook=False)
            os.chmod(path, 0o700)
            write(self.place("agent.json"), json.dumps(settings))
            os.chmod(self.place("agent.json"), 0o644)
            asked = ("--settings", self.place("agent.json"))
            bad = self.doctor(*asked)[1]
            told = {(one["check"], one["which"]): one["what"] for one in bad}
            self.assertIn("is full", told[("disks", path)])
            self.assertIn("on a disk", told[("disks", self.place("work"))])
            self.assertIn("does not run", told[("agent", "n1")])
            self.assertIn("open to others", told[("modes", self.place("agent.json"))])

    def test_who_has_no_rights_is_told_what_was_not_looked_at(self):
        told, _ = self.doctor("modes", "nodes", "controller", user=NOBODY)
        self.assertIn((self.c.dir, "only its owner and root can see more than the controller tells"),
                      [(one["which"], one["what"]) for one in told["findings"] if one["severity"] == "unknown"])


class DoctorOfANode(OfOneCluster):
    """A machine that is a node: the controller is somebody else's."""
    ARGS = dict(nodes=0)

    def doctor(self, settings=None):
        settings = settings or glob.glob(os.path.join(self.c.dir, "nodes", "*", "agent.json"))[0]
        told = json.loads(self.lockstep("doctor", "--settings", settings, "-o", "json").stdout)
        self.assertFalse(told["controller"])
        # Whether this machine's clock follows a server is not the test's to say.
        return {one["check"]: one["what"] for one in told["findings"]
                if one["severity"] in ("error", "warning") and "follows no other" not in one["what"]}

    def test_what_it_finds_while_its_controller_is_away(self):
        self.assertEqual(self.doctor(), {})
        self.c.kill_controller(hold=True)
        found = self.doctor()
        self.c.release_controller()
        eventually(self.c.answers)
        self.assertIn("nothing comes back from the controller", found["agent"])
        eventually(lambda: self.doctor() == {}, what="health")

    def test_a_clock_that_is_off(self):
        """The controller is played, an hour ahead."""
        class Ahead(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self):
                body = json.dumps({"cluster": "x", "version": "1", "seq": 1, "read_only": False, "pid": 1,
                                   "wall_us": int((time.time() + 3600) * 1e6)}).encode()
                self.send_response(200)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *args):
                pass

            def address_string(self):
                return "?"

        path = self.place("ahead.sock")
        server = socketserver.UnixStreamServer(path, Ahead)
        self.addCleanup(server.server_close)
        self.addCleanup(server.shutdown)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        settings = json.loads(read(glob.glob(os.path.join(self.c.dir, "nodes", "*", "agent.json"))[0]))
        settings["socket"] = path
        write(self.place("agent.json"), json.dumps(settings))
        os.chmod(self.place("agent.json"), 0o600)
        self.assertRegex(self.doctor(self.place("agent.json"))["clock"], r"its clock is 3(599|600) s behind the controller's")
        settings["hooks"]["timeout_s"] = 0
        write(self.place("agent.json"), json.dumps(settings))
        self.assertEqual(self.doctor(self.place("agent.json"))["agent"], "hooks.timeout_s: write a number from 1 to 86400")


class Measured(OfOneCluster):
    """Commits do not wait for a backup. How long they take is for the notes; here it is enough that none stands still."""

    def test_commits_go_on_while_a_backup_is_made(self):
        for _ in range(20):
            self.c.wrap("true", "--hold", "--array", "0-9")
        process = subprocess.Popen(["lockstep", "backup", self.place("b"), "--rate", "1"], env=self.c.env,
                                   stdout=subprocess.DEVNULL)
        longest = 0.0
        while process.poll() is None:
            begin = time.monotonic()
            self.c.wrap("true", "--hold")
            longest = max(longest, time.monotonic() - begin)
        self.assertEqual(process.returncode, 0)
        self.assertLess(longest, 2)


if __name__ == "__main__":
    unittest.main()
