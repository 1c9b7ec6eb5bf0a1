"""Files that are copied to a job's nodes before it starts and from there when it has ended: as its user, whole, and past
agents that are killed; and what becomes of the job when that does not work."""
import json
import os
import stat
import subprocess
import unittest

from cluster import Cluster, eventually

USER = 2001


def tree(top):
    """What lies there: path -> (kind, mode, seconds, what is in it)."""
    found = {}
    for root, dirs, names in os.walk(top):
        for name in dirs + names:
            path = os.path.join(root, name)
            facts = os.lstat(path)
            where = os.path.relpath(path, top)
            if os.path.islink(path):
                found[where] = ("link", os.readlink(path))
            elif os.path.isdir(path):
                found[where] = ("directory", oct(facts.st_mode & 0o7777))
            elif stat.S_ISREG(facts.st_mode):
                with open(path, "rb") as f:
                    found[where] = ("file", oct(facts.st_mode & 0o7777), facts.st_mtime_ns, hash(f.read()))
    return found


@unittest.skipUnless(os.geteuid() == 0, "jobs of several users, and file systems that are full, are root's to make")
class Staging(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.c = Cluster(nodes=2, gpus=None, cpus=4)
        cls.small = os.path.join(cls.c.home, "small")
        os.mkdir(cls.small)
        cls.c.up()
        cls.data = os.path.join(cls.c.work, "data")
        os.makedirs(os.path.join(cls.data, "many", "deeper"))
        for i in range(2000):
            with open(os.path.join(cls.data, "many", f"file {i}"), "w") as f:
                f.write(f"{i}\n" * (i % 7))
        with open(os.path.join(cls.data, "sparse"), "wb") as f:
            f.seek(300 << 20)
            f.write(b"in the middle")
            f.truncate(1 << 30)
        os.symlink("/etc/shadow", os.path.join(cls.data, "secret"))
        os.symlink("many/file 3", os.path.join(cls.data, "near"))
        os.mkfifo(os.path.join(cls.data, "pipe"))
        program = os.path.join(cls.data, "program")
        with open(program, "w") as f:
            f.write("#!/bin/sh\necho runs\n")
        os.chmod(program, 0o750)
        os.chmod(os.path.join(cls.data, "many", "deeper"), 0o550)
        os.utime(program, ns=(10 ** 18, 10 ** 18 + 123_456_789))
        subprocess.run(["chown", "-hR", f"{USER}:{USER}", cls.data], check=True)

    @classmethod
    def tearDownClass(cls):
        cls.c.down()

    def place(self, name):
        """A directory of the user's."""
        path = os.path.join(self.c.work, name)
        os.makedirs(path, exist_ok=True)
        os.chown(path, USER, USER)
        return path

    def batch(self, command, *options, name="job.out"):
        return self.c.wrap(command, "-o", os.path.join(self.place("logs"), name), *options, user=USER)

    def said(self, name="job.out"):
        with open(os.path.join(self.c.work, "logs", name)) as f:
            return f.read()

    def reason(self, job):
        return self.c.ok("sacct", "-nPX", "-j", job, "-o", "Reason").strip()

    def idle(self):
        eventually(lambda: set(self.c.ok("sinfo", "-h", "-o", "%t").split()) == {"idle"}, what="no node is closed")

    def test_a_directory_comes_and_goes_as_it_is(self):
        self.place("kept")
        job = self.batch("cd $LOCKSTEP_SCRATCH; id -u; stat -c '%b' in/sparse; in/program; cp -a in out; date > out/when",
                         "-w", "n1", "--stage-in=data:in", "--stage-in=data/program", "--stage-out=out:kept/all",
                         "--stage-out=program:kept/")
        self.assertEqual(self.c.wait(job), "COMPLETED", self.said())
        lines = self.said().splitlines()
        at = lines.index(str(USER))
        self.assertIn("lockstep: stage-in: 1.0 GiB in 2005 files to copy", lines[:at])
        self.assertIn("lockstep: stage-in: 1 devices, pipes or sockets were passed over", lines[:at])
        self.assertRegex("\n".join(lines[:at]), r"stage-in: done: 1\.0 GiB in 2005 files in \d+ s")
        self.assertLess(int(lines[at + 1]) * 512, 10 << 20)  # holes stay
        self.assertEqual(lines[at + 2], "runs")
        self.assertRegex("\n".join(lines[at:]), r"stage-out: done: 1\.0 GiB in 2006 files in \d+ s")
        came, was = tree(os.path.join(self.c.work, "kept", "all")), tree(self.data)
        self.assertEqual(came.pop("when")[0], "file")
        self.assertEqual({name: (came.get(name), was.get(name)) for name in came.keys() | was.keys()
                          if came.get(name) != was.get(name)}, {})
        self.assertEqual(came["secret"], ("link", "/etc/shadow"))
        self.assertEqual(os.stat(os.path.join(self.c.work, "kept", "program")).st_uid, USER)
        self.assertEqual(os.lstat(os.path.join(self.c.work, "kept", "all", "many")).st_uid, USER)
        self.idle()

    def test_every_node_has_it_before_any_starts_and_the_clock_waits(self):
        self.place("each")
        script = self.c.script("#!/bin/bash\nsrun -l sh -c 'cat $LOCKSTEP_SCRATCH/one/file\\ 2; hostname > $LOCKSTEP_SCRATCH/host'\n",
                               "gang.sh")
        job = self.c.sbatch("-o", os.path.join(self.place("logs"), "gang.out"), "-N2", "--ntasks-per-node=1", "--stage-in=data/many:one",
                            "--stage-out=host:each/host", script, user=USER)
        self.assertEqual(self.c.wait(job), "COMPLETED", self.said("gang.out"))
        self.assertEqual(sorted(line for line in self.said("gang.out").splitlines() if ": 2" in line and line[0] in "01"),
                         ["0: 2", "0: 2", "1: 2", "1: 2"])
        names = sorted(os.listdir(os.path.join(self.c.work, "each", "host")))
        self.assertEqual(names, ["n1", "n2"])
        for name in names:
            with open(os.path.join(self.c.work, "each", "host", name)) as f:
                self.assertEqual(f.read(), name + "\n")

    def test_srun_and_salloc_stage_as_well(self):
        said = self.c.ok("srun", "-N2", "--stage-in=data/many:m", "sh", "-c", "ls $LOCKSTEP_SCRATCH/m | wc -l", user=USER)
        self.assertEqual(said.split(), ["2001", "2001"])
        said = self.c.ok("salloc", "-N1", "--stage-in=data/program", "srun", "sh", "-c", "$LOCKSTEP_SCRATCH/program", user=USER)
        self.assertIn("runs", said)

    def test_srun_and_salloc_wait_for_what_they_stage_out(self):
        place = self.place("interactive")
        os.chmod(place, 0o777)
        for n, words in enumerate((("srun",), ("salloc", "-N1", "srun"))):
            os.makedirs(os.path.join(place, f"f{n}"))
            make = ("sh", "-c", "head -c 60000000 /dev/zero > $LOCKSTEP_SCRATCH/x")
            first = (words[0], "-w", "n1", f"--stage-out=x:{place}/f{n}/y", *words[1:])
            self.c.ok(*first, *make)
            self.assertEqual(os.path.getsize(f"{place}/f{n}/y"), 60_000_000)
            wrong = self.c.run(words[0], "-w", "n1", f"--stage-out=none:{place}/z", *words[1:], "true")
            self.assertEqual(wrong.returncode, 1, wrong.stderr)
            self.assertRegex(wrong.stderr, rf"{words[0]}: error: job \d+: StageOutFailed n1: .*none: there is no such file")
            code = self.c.run(words[0], "-w", "n1", f"--stage-out=none:{place}/z", *words[1:], "sh", "-c", "exit 7").returncode
            self.assertEqual(code, 7)

    def test_a_step_says_that_nothing_is_staged_for_it(self):
        job = self.c.wrap("srun --stage-in=/no/such true; echo code $?")
        self.assertEqual(self.c.wait(job), "COMPLETED")
        said = self.c.output(job)
        self.assertIn("--stage-in is passed over inside an allocation", said)
        self.assertIn("code 0", said)

    def test_what_cannot_be_read_fails_the_job_and_no_node(self):
        private = self.place("private")
        path = os.path.join(private, "roots")
        with open(path, "w") as f:
            f.write("secret")
        os.chmod(path, 0o600)
        for source, why in ((path, f"{path}: Permission denied"), ("/etc/shadow", "/etc/shadow: Permission denied"),
                            # The link is copied where it lies in a directory, and followed where it is named.
                            ("data/secret:x", f"{self.data}/secret: Permission denied")):
            job = self.batch("echo it ran", f"--stage-in={source}", "-w", "n1", name="denied.out")
            self.assertEqual(self.c.wait(job), "FAILED")
            self.assertNotIn("it ran", self.said("denied.out"))
            self.assertIn(f"lockstep: error: stage-in: {why}", self.said("denied.out"))
            self.assertIn(f"StageInFailed n1: {why}", self.reason(job))
            show = self.c.ok("scontrol", "show", "job", job)
            self.assertIn("Reason=StageInFailed", show)
            self.assertIn(f"StageInFailed=n1: {why}", show)
            self.assertEqual(self.c.show(job)["Restarts"], "0")
        self.idle()

    def test_a_source_that_is_not_there_is_looked_for_again(self):
        job = self.batch("cat $LOCKSTEP_SCRATCH/late", "--stage-in=comes/late", "-w", "n1", name="late.out")
        eventually(lambda: os.path.exists(os.path.join(self.c.work, "logs", "late.out")) and "tried again" in self.said("late.out"),
                   what="a second try")
        os.makedirs(os.path.join(self.c.work, "comes"))
        with open(os.path.join(self.c.work, "comes", "late"), "w") as f:
            f.write("here I am\n")
        self.assertEqual(self.c.wait(job), "COMPLETED", self.said("late.out"))
        self.assertIn("here I am\n", self.said("late.out"))
        job = self.batch("true", "--stage-in=never", "-w", "n1", name="never.out")
        self.assertEqual(self.c.wait(job), "FAILED")
        self.assertEqual(self.said("never.out").count("tried again"), 3)
        self.assertIn(f"{self.c.work}/never: No such file or directory", self.reason(job))

    def test_a_job_that_fails_or_runs_out_of_time_is_staged_out(self):
        kept = self.place("ends")
        failed = self.batch("echo part > $LOCKSTEP_SCRATCH/r; exit 3", "-w", "n1", f"--stage-out=r:{kept}/failed")
        self.assertEqual(self.c.wait(failed), "FAILED")
        late = self.batch("echo part > $LOCKSTEP_SCRATCH/r; sleep 100", "-w", "n2", "-t", "0:01", f"--stage-out=r:{kept}/late",
                          name="late_end.out")
        self.assertEqual(self.c.wait(late), "TIMEOUT")
        for name in ("failed", "late"):
            with open(os.path.join(kept, name)) as f:
                self.assertEqual(f.read(), "part\n")

    def test_what_cannot_be_staged_out_is_told(self):
        job = self.batch("echo x > $LOCKSTEP_SCRATCH/x", "-w", "n1", "--stage-out=x:/etc/mine", "-J", "out", name="out.out")
        self.assertEqual(self.c.wait(job), "COMPLETED")
        self.assertIn("lockstep: error: stage-out: /etc/mine: Permission denied", self.said("out.out"))
        self.assertIn("StageOutFailed=n1: /etc/mine: Permission denied", self.c.ok("scontrol", "show", "job", job))
        self.assertIn("StageOutFailed n1: /etc/mine: Permission denied", self.reason(job))
        job = self.batch("ln -s /etc $LOCKSTEP_SCRATCH/e; false", "-w", "n1", "--stage-out=e/passwd:got", name="link.out")
        self.assertEqual(self.c.wait(job), "FAILED")
        self.assertIn("NonZeroExitCode", self.c.ok("scontrol", "show", "job", job))
        self.assertIn("StageOutFailed", self.reason(job))
        self.assertFalse(os.path.exists(os.path.join(self.c.work, "got")))
        self.idle()

    def test_one_path_that_fails_keeps_no_other_back(self):
        job = self.batch("cd $LOCKSTEP_SCRATCH; mkdir o; date > o/a; date > o/locked; chmod 0 o/locked; date > o/z; date > last", "-w", "n1",
                         "--stage-out=none:x", "--stage-out=o:kept_o", "--stage-out=last:kept_last", f"--chdir={self.place('rest')}", name="rest.out")
        self.assertEqual(self.c.wait(job), "COMPLETED")
        self.assertEqual(sorted(os.listdir(os.path.join(self.c.work, "rest", "kept_o"))), ["a", "z"])
        self.assertTrue(os.path.exists(os.path.join(self.c.work, "rest", "kept_last")))
        self.assertIn("2 left behind", self.said("rest.out"))
        self.assertIn("none: there is no such file or directory (and 1 more)", self.reason(job))

    def test_a_cancelled_job_stops_copying(self):
        job = self.batch("true", "--stage-in=never2", "-w", "n1", name="cancel.out")
        eventually(lambda: os.path.exists(os.path.join(self.c.work, "logs", "cancel.out")) and "tried again" in self.said("cancel.out"),
                   what="the copying")
        self.assertEqual(self.c.state(job), "CONFIGURING")
        self.c.ok("scancel", job)
        self.assertEqual(self.c.wait(job), "CANCELLED")
        self.idle()

    def test_an_agent_that_is_killed_in_the_middle(self):
        self.place("over")
        job = self.batch("ls $LOCKSTEP_SCRATCH | sort; cp $LOCKSTEP_SCRATCH/program $LOCKSTEP_SCRATCH/p2", "-w", "n1",
                         "--stage-in=data/program", "--stage-in=slow/late", "--stage-out=p2:over/p2", "--stage-out=program:over/p1",
                         name="killed.out")
        eventually(lambda: os.path.exists(os.path.join(self.c.work, "logs", "killed.out")) and "tried again" in self.said("killed.out"),
                   what="the copying")
        self.c.kill_agent("n1")
        os.makedirs(os.path.join(self.c.work, "slow"))
        with open(os.path.join(self.c.work, "slow", "late"), "w") as f:
            f.write("late\n")
        self.assertEqual(self.c.wait(job), "COMPLETED", self.said("killed.out"))
        said = self.said("killed.out")
        self.assertEqual(said.count("stage-in: done"), 1, said)
        self.assertEqual(said.count("stage-out: done"), 1, said)
        self.assertEqual(sorted(os.listdir(os.path.join(self.c.work, "over"))), ["p1", "p2"])

    def test_words_that_say_nothing_are_refused(self):
        for words in (["--stage-in=a:../b"], ["--stage-in=a:/b"], ["--stage-in=:x"], ["--stage-out=x"], ["--stage-out=../x:y"],
                      ["--stage-out=/etc/passwd:y"]):
            done = self.c.run("sbatch", *words, "--wrap", "true", user=USER)
            self.assertNotEqual(done.returncode, 0, words)
            self.assertIn("Invalid --stage-", done.stderr)


@unittest.skipUnless(os.geteuid() == 0, "file systems that are full are root's to make")
class FullScratch(unittest.TestCase):
    def test_the_job_fails_and_names_the_file(self):
        c = Cluster(nodes=1, gpus=None, cpus=2)
        scratch = os.path.join(c.home, "scratch")
        os.mkdir(scratch)
        settings = os.path.join(c.home, "settings.json")
        with open(settings, "w") as f:
            json.dump({"places": {"scratch": scratch}, "hooks": {"staging_timeout_s": 4}}, f)
        c.args += ["--agent-settings", settings]
        subprocess.run(["mount", "-t", "tmpfs", "-o", "size=8m,mode=0755", "tmpfs", scratch], check=True)
        try:
            with c:
                with open(os.path.join(c.work, "big"), "wb") as f:
                    f.write(b"x" * (20 << 20))
                job = c.wrap("true", "--stage-in=big", "-o", os.path.join(c.work, "full.out"), user=USER)
                self.assertEqual(c.wait(job), "FAILED")
                self.assertIn("big: No space left on device", c.output(job, "full.out"))
                self.assertIn("big: No space left on device", c.ok("scontrol", "show", "job", job))
                self.assertEqual(c.ok("sinfo", "-h", "-o", "%t").split(), ["idle"])
                # What takes longer than this node allows is ended.
                job = c.wrap("true", "--stage-in=is-not-there", "-o", os.path.join(c.work, "slow.out"), user=USER)
                self.assertEqual(c.wait(job), "FAILED")
                self.assertIn("it took longer than 4 s and was ended", c.ok("scontrol", "show", "job", job))
                self.assertEqual(c.ok("sinfo", "-h", "-o", "%t").split(), ["idle"])
        finally:
            subprocess.run(["umount", "-l", scratch], check=False)


if __name__ == "__main__":
    unittest.main()
