"""How jobs end: what their output says of it, who gets which signal, what a job may do to itself, and where one reads about it."""
import os
import re
import shutil
import signal
import subprocess
import time
import unittest

from cluster import Cluster, eventually

USER = 1001
STAMP = r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d"


class Ending(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.c = Cluster(nodes=2, gpus=None, cpus=16)
        cls.c.up()

    @classmethod
    def tearDownClass(cls):
        cls.c.down()

    def submit(self, text, *options):
        path = self.c.script("#!/bin/bash\n" + text, f"job{time.monotonic_ns()}.sh")
        return self.c.sbatch(*options, path, user=USER)

    def output_with(self, job, text, timeout=20):
        """The job's output once the text is in it."""
        def look():
            try:
                out = self.c.output(job)
            except OSError:
                return None
            return out if text in out else None
        return eventually(look, timeout, f"{text!r} in the output of job {job}")

    def cancel(self, job, *options):
        self.c.ok("scancel", *options, job, user=USER)

    # --- last words ---

    def test_a_cancelled_script_and_its_step_say_so(self):
        job = self.submit("srun -n1 sh -c 'echo up; sleep 100'\n")
        self.output_with(job, "up")
        self.cancel(job)
        self.assertEqual(self.c.wait(job), "CANCELLED")
        out = self.c.output(job)
        self.assertRegex(out, rf"(?m)^slurmstepd: error: \*\*\* JOB {job} ON n\d CANCELLED AT {STAMP} \*\*\*$")
        self.assertRegex(out, rf"slurmstepd: error: \*\*\* STEP {job}\.0 ON n\d CANCELLED AT {STAMP} \*\*\*")

    def test_a_time_limit_is_named(self):
        job = self.submit("echo up; sleep 300\n", "-t", "0:03")
        self.assertEqual(self.c.wait(job, timeout=100), "TIMEOUT")
        self.assertRegex(self.c.output(job), rf"\*\*\* JOB {job} ON n\d CANCELLED AT {STAMP} DUE TO TIME LIMIT \*\*\*")

    def test_a_requeue_is_named(self):
        job = self.submit("echo up; sleep 300\n", "--requeue", "--open-mode=append")
        self.output_with(job, "up")
        self.c.ok("scontrol", "requeue", job, user=USER)
        self.output_with(job, "DUE TO JOB REQUEUE ***")
        self.cancel(job)

    def test_what_a_step_writes_in_the_time_of_grace_arrives(self):
        for n in range(3):
            job = self.submit("""srun -n1 bash -c 'trap "sleep 0.5; echo saved; exit" TERM; echo up; while :; do sleep 0.1; done'\n""")
            self.output_with(job, "up")
            self.cancel(job)
            self.c.wait(job)
            self.assertIn("saved", self.c.output(job), n)

    # --- signals ---

    # The child lives until its shell has heard the signal, and a second more: one for both would end it.
    LISTENER = """sh -c 'until [ -e heard.$SLURM_JOB_ID ]; do sleep 0.1; done; sleep 1; echo the child lives' &
trap 'echo warned; touch heard.$SLURM_JOB_ID' USR1
echo up
wait; wait; wait
"""

    def test_a_signal_for_the_script_reaches_its_shell_alone(self):
        job = self.submit(self.LISTENER + "echo end\n")
        self.output_with(job, "up")
        self.cancel(job, "--batch", "-s", "USR1")
        self.assertEqual(self.c.wait(job), "COMPLETED")
        self.assertEqual(self.c.output(job), "up\nwarned\nthe child lives\nend\n")

    def test_a_full_signal_reaches_what_the_script_started(self):
        job = self.submit("sleep 600 &\ntrap 'echo warned' USR1\necho up\nwait; wait; wait\n")
        self.output_with(job, "up")
        self.cancel(job, "--full", "-s", "USR1")
        self.c.wait(job)  # for the child, too: nothing else ends it
        self.assertIn("warned", self.c.output(job))

    def test_a_plain_signal_reaches_the_steps_alone(self):
        job = self.submit("trap 'echo shell' USR1; echo up\n"
                          "srun -n1 bash -c 'trap \"echo step; exit\" USR1; echo step up; while :; do sleep 0.1; done'; wait\n")
        self.output_with(job, "step up")
        self.cancel(job, "-s", "USR1")
        self.c.wait(job)
        said = self.c.output(job).replace("User defined signal 1\n", "")  # of bash, when it was sleeping
        self.assertEqual(sorted(said.split("\n")), ["", "step", "step up", "up"])

    def test_the_warning_of_a_limit_reaches_the_shell_alone(self):
        # 25 seconds ahead would be 5 behind the start: it comes in the middle.
        job = self.submit(self.LISTENER + "echo end\n", "-t", "0:30", "--signal=B:USR1@25")
        self.assertEqual(self.c.wait(job, timeout=80), "COMPLETED")
        self.assertEqual(self.c.output(job), "up\nwarned\nthe child lives\nend\n")

    def test_a_cancel_wakes_those_who_stand_and_nobody_else(self):
        traps = "trap 'echo continued' CONT; trap 'echo saved; exit' TERM; echo up\n"
        job = self.submit(traps + "while :; do sleep 0.1; done\n")
        self.output_with(job, "up")
        self.cancel(job)
        self.c.wait(job)
        out = self.c.output(job)
        self.assertIn("saved", out)
        self.assertNotIn("continued", out)
        job = self.submit(traps + "kill -STOP $$; while :; do sleep 0.1; done\n")
        self.output_with(job, "up")
        self.cancel(job)
        self.c.wait(job)
        self.assertIn("saved", self.c.output(job))

    # --- what a job does to itself ---

    def test_a_requeue_from_inside_tells_that_it_worked(self):
        body = f"""
import os, signal, subprocess
signal.signal(signal.SIGTERM, lambda *_: None)
if os.environ.get("SLURM_RESTART_COUNT", "0") == "0":
    code = subprocess.call(["VERB", *"ARGS".split(), os.environ["SLURM_JOB_ID"]])
    with open("{self.c.work}/code." + os.environ["SLURM_JOB_ID"], "w") as f:
        f.write(str(code))
"""
        for verb, args in (("scontrol", "requeue"), ("scancel", "")):
            path = self.c.script("#!/usr/bin/python3\n" + body.replace("VERB", verb).replace("ARGS", args), "own.py")
            jobs = [self.c.sbatch("--requeue", path, user=USER) for _ in range(10)]

            def codes():
                paths = [os.path.join(self.c.work, f"code.{job}") for job in jobs]
                return [open(p).read() for p in paths] if all(os.path.exists(p) and os.path.getsize(p) for p in paths) else None
            self.assertEqual(eventually(codes, 30, verb), ["0"] * 10)
            for job in jobs:
                self.cancel(job)

    def test_a_folder_that_is_named_after_the_job(self):
        for _ in range(5):
            job = self.c.wrap("echo here", "-o", "%j/out", user=USER)
            time.sleep(0.2)
            made = os.path.join(self.c.work, "made")  # its owner's from the moment when it has its name
            os.mkdir(made)
            os.chown(made, USER, USER)
            os.rename(made, os.path.join(self.c.work, job))
            self.assertEqual(self.c.wait(job), "COMPLETED")
            self.assertEqual(self.c.output(job, "{}/out"), "here\n")

    def test_a_signal_of_the_number_that_means_not_started_is_a_signal(self):
        result = self.c.run("srun", "sh", "-c", "kill -53 $$", user=USER)
        self.assertEqual(result.returncode, 181, result.stderr)
        self.assertNotIn("not started", result.stderr)
        job = self.submit("kill -53 $$\n")
        self.assertEqual(self.c.wait(job), "FAILED")
        self.assertNotIn("could_not_be_opened", self.c.ok("scontrol", "show", "job", job))
        result = self.c.run("srun", "-o", "/no/such/folder/%t", "true", user=USER)
        self.assertEqual(result.returncode, 1)
        self.assertIn("not started (0:53)", result.stderr)

    # --- where one reads about it ---

    def logs(self, *argv):
        return self.c.run("lockstep", "logs", *argv)

    def test_logs_tell_what_happened_and_who_asked(self):
        job = self.submit("echo first; echo '1: of rank one'; exit 3\n")
        self.assertEqual(self.c.wait(job), "FAILED")
        held = self.c.wrap("true", "--hold", user=USER)
        self.cancel(held)
        self.assertNotEqual(self.c.run("scontrol", "hold", held, user=1002).returncode, 0)
        self.c.ok("lockstep", "node", "drain", "n2", "--reason", "bad dimm")
        self.c.ok("lockstep", "node", "resume", "n2")
        controller = eventually(lambda: (lambda t: t if "resume" in t else None)(self.logs("controller", "--since", "5m").stdout), 10)
        for line in (rf"Submitted job={job} user=\S+", rf"Allocated job={job} user=\S+ nodes=n\d: attempt 1",
                     rf"Ended job={job} user=\S+ state=failed exit=3:0", rf"Asked by=\S+: cancel {held}",
                     r'Asked by=root: update node n2 drain reason "bad dimm"', r"Asked by=root: update node n2 resume",
                     r"NodeRegistered node=n1"):
            self.assertRegex(controller, rf"(?m)^{STAMP}\.\d{{3}} info {line}")
        self.assertNotRegex(self.logs("controller", "--since", "2030-01-01").stdout, "job=")
        node = self.logs("n1").stdout + self.logs("n2").stdout
        self.assertRegex(node, rf"(?m)^{STAMP}\.\d{{3}} info start job={job} attempt=1 step=batch uid={USER}$")
        self.assertRegex(node, rf"end job={job} attempt=1 step=batch first failure: rank=0 exit=3:0")
        shown = self.logs(job)
        self.assertEqual(shown.stdout, "first\n1: of rank one\n")
        self.assertRegex(shown.stderr, rf"job {job} ended FAILED, exit code 3:0, reason NonZeroExitCode, on n\d")
        self.assertEqual(self.logs(job, "--rank", "1").stdout, "1: of rank one\n")
        self.assertEqual(self.logs("nosuch").returncode, 1)
        self.assertEqual(self.logs("../x").returncode, 1)
        for since in ("soon", "2026-xx-99", "2026-02-31", "abcd-01-01 ", "2026-01-01T25:00"):
            self.assertEqual(self.logs("controller", "--since", since).returncode, 2, since)
        self.assertEqual(self.logs("controller", "--since", "2030-01-01T12:00").stdout, "")

    def test_logs_show_the_output_of_a_job_whatever_its_name(self):
        secret = os.path.join(self.c.home, "secret")
        with open(secret, "w") as f:
            f.write("nobody's business\n")
        job = self.c.wrap("echo mine", "-J", f"x StdOut={secret} JobState=FAILED A=b", user=USER)
        self.assertEqual(self.c.wait(job), "COMPLETED")
        shown = self.logs(job)
        self.assertEqual((shown.returncode, shown.stdout, shown.stderr), (0, "mine\n", ""))

    def test_logs_follow_no_link_that_its_maker_could_not(self):
        """Whoever asks for a job's output may be root, and the path is the user's to choose."""
        secret = os.path.join(self.c.home, "roots")
        with open(secret, "w") as f:
            f.write("root's business\n")
        os.chmod(secret, 0o600)
        folder = os.path.join(self.c.work, "linked")
        os.mkdir(folder)
        os.chmod(folder, 0o777)
        job = self.c.wrap(f"rm {folder}/out; ln -s {secret} {folder}/out", "-o", f"{folder}/out", user=USER)
        self.assertEqual(self.c.wait(job), "COMPLETED")
        shown = self.logs(job)
        self.assertEqual((shown.returncode, shown.stdout), (1, ""))
        self.assertIn("Permission denied", shown.stderr)

    def test_logs_of_a_job_that_waits_or_is_paused_tell_no_end(self):
        held = self.c.wrap("true", "--hold", user=USER)
        self.assertEqual(self.logs(held).stderr, f"lockstep: job {held} has written nothing yet\n")
        self.cancel(held)
        job = self.submit("echo here; sleep 300\n")
        self.assertEqual(self.c.wait(job, "RUNNING"), "RUNNING")
        eventually(lambda: self.logs(job).stdout == "here\n", 10)
        self.c.ok("scontrol", "suspend", job)  # SIGNALING until the node has answered, then SUSPENDED
        while self.c.state(job) != "SUSPENDED":
            self.assertEqual(self.logs(job).stderr, "")
        self.assertEqual(self.logs(job).stderr, "")
        self.cancel(job)
        eventually(lambda: f"job {job} ended CANCELLED" in self.logs(job).stderr, 20)

    def test_logs_of_a_node_whose_name_begins_with_a_digit(self):
        folder = os.path.join(self.c.dir, "nodes", "1gpu")
        os.mkdir(folder)
        try:
            with open(os.path.join(folder, "log"), "w") as f:
                f.write("2026-01-01T00:00:00.000 info up\n")
            self.assertEqual(self.logs("1gpu").stdout, "2026-01-01T00:00:00.000 info up\n")
        finally:
            shutil.rmtree(folder)

    def test_logs_of_a_job_can_be_followed(self):
        job = self.submit("for i in 1 2 3 4; do echo $i; sleep 0.3; done\n")
        done = subprocess.run(["lockstep", "logs", job, "-f"], env=self.c.env, capture_output=True, text=True, timeout=30)
        self.assertEqual(done.stdout, "1\n2\n3\n4\n")
        self.assertEqual(self.c.wait(job), "COMPLETED")

    def test_a_log_begins_anew_when_it_is_long(self):
        log = os.path.join(self.c.dir, "log", "controller.log")
        with open(log, "ab") as f:
            f.write(b"2020-01-01T00:00:00.000 info old\n" * 600_000)
        eventually(lambda: os.path.getsize(log) < 1 << 20, 30, "the log begins anew")
        self.assertGreater(os.path.getsize(log + ".1"), 16 << 20)
        self.assertEqual(os.stat(log + ".1").st_mode & 0o777, 0o600)
        job = self.c.wrap("true")
        self.c.wait(job)
        eventually(lambda: f"Submitted job={job} " in self.logs("controller", "--since", "5m").stdout, 10)

    def test_who_follows_a_log_misses_nothing_when_it_begins_anew(self):
        log = os.path.join(self.c.dir, "nodes", "n1", "log")
        follower = subprocess.Popen(["lockstep", "logs", "n1", "-f"], env=self.c.env, stdout=subprocess.PIPE, text=True)
        try:
            with open(log, "a") as f:
                f.write("the first\n")
            for line in follower.stdout:
                if line == "the first\n":
                    break
            os.kill(follower.pid, signal.SIGSTOP)
            with open(log, "a") as f:
                f.write("before it began anew\n")
            shutil.copy(log, log + ".1")
            os.truncate(log, 0)
            with open(log, "a") as f:
                f.write("the last\n")
            os.kill(follower.pid, signal.SIGCONT)
            seen = []
            for line in follower.stdout:
                seen.append(line)
                if line == "the last\n":
                    break
            self.assertIn("before it began anew\n", seen)
            self.assertNotIn("the first\n", seen, "it is told once")
        finally:
            follower.kill()
            follower.communicate()


if __name__ == "__main__":
    unittest.main()
