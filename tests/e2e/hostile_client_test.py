"""The commands in trouble: output that cannot be written, files that cannot be opened or never read, a controller that
is away or silent, no more threads, and what users call themselves and others."""
import os
import re
import signal
import subprocess
import time
import unittest

from cluster import BIN, Cluster, TOP, eventually, send

ANN = 1001  # an ordinary user


def reads(pid, sig):
    """Whether srun reads the signal when it likes. While it does not know whether its job was submitted, one ends it at
    once, and the job ends when its client is missed."""
    with open(f"/proc/{pid}/status") as f:
        blocked = next(line.split(":\t")[1] for line in f if line.startswith("SigBlk"))
    return bool(int(blocked, 16) >> (sig - 1) & 1)


def tell(process, sig):
    """Sends the signal and waits until the process has taken it: the next one of its kind would be the same one."""
    send(process.pid, sig)

    def is_taken():
        try:
            with open(f"/proc/{process.pid}/status") as f:
                pending = [int(line.split(":\t")[1], 16) for line in f if line.startswith(("SigPnd", "ShdPnd"))]
        except OSError:
            return True
        return not any(mask >> (sig - 1) & 1 for mask in pending)
    eventually(is_taken, 20, f"signal {sig} is taken")


def waits_for_an_answer(pid):
    """It sleeps, with a connection."""
    with open(f"/proc/{pid}/stat") as f:
        asleep = f.read().rsplit(")", 1)[1].split()[0] == "S"
    return asleep and any(os.readlink(f"/proc/{pid}/fd/{fd}").startswith("socket:") for fd in os.listdir(f"/proc/{pid}/fd"))


class Output(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.c = Cluster(nodes=1, gpus=None, cpus=4)
        cls.c.up()

    @classmethod
    def tearDownClass(cls):
        cls.c.down()

    def shell(self, command, **kwargs):
        return self.c.run("bash", "-c", command, user=ANN, **kwargs)

    def start(self, *argv, **kwargs):
        return subprocess.Popen(("setpriv", f"--reuid={ANN}", f"--regid={ANN}", "--clear-groups", *argv), env=self.c.env,
                                cwd=self.c.work, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                stderr=subprocess.PIPE, text=True, **kwargs)

    def fifo(self, name):
        path = os.path.join(self.c.work, name)
        os.mkfifo(path)
        os.chown(path, ANN, ANN)
        return path

    def no_jobs(self):
        eventually(lambda: self.c.ok("squeue", "-h") == "", 20, "an empty queue")

    def test_lost_output_is_a_failure(self):
        job = self.c.wrap("true")
        for command in ("squeue", "sinfo", "sacct -a", "scontrol show node", f"scontrol show job {job}", "sprio", "sshare",
                        "squeue --json", "squeue --help", "srun --help", "sbatch --version", "lockstep help",
                        "lockstep status", "sacctmgr show qos", "scontrol ping", "squeue -i 1"):
            for where in ("/dev/full", "&-"):
                with self.subTest(command=command, where=where):
                    result = self.shell(f"{command} >{where}", timeout=20)
                    self.assertEqual(result.returncode, 1, result.stderr)
                    self.assertIn("standard output could not be written", result.stderr)
        result = self.shell("sbatch --parsable --wrap true >/dev/full")
        self.assertEqual(result.returncode, 1)
        self.assertRegex(result.stderr, r"job \d+ was submitted, and nobody was told")
        self.no_jobs()

    def test_a_reader_that_has_seen_enough_is_no_failure(self):
        result = self.shell("set -o pipefail; for i in $(seq 20); do squeue --help; done | head -1")
        self.assertEqual(result.stderr, "")
        result = self.shell("trap '' PIPE; squeue --help | true")
        self.assertEqual((result.returncode, result.stderr), (0, ""))

    def test_srun_says_that_output_is_lost(self):
        for command in ("srun echo x >/dev/full", "srun -o /dev/full echo x", "srun echo x >&-"):
            with self.subTest(command=command):
                result = self.shell(command)
                self.assertEqual(result.returncode, 1, result.stderr)
                self.assertIn("could not be written", result.stderr)
        self.assertEqual(self.shell("srun -o /dev/full sh -c 'echo x; exit 7'").returncode, 7)
        self.assertEqual(self.shell("srun yes | head -1").stdout, "y\n")

    def test_a_file_that_cannot_be_opened_runs_nothing(self):
        mark = os.path.join(self.c.work, "ran")
        os.mkdir(os.path.join(self.c.work, "closed"), 0o700)
        for where in ("closed/out", "closed/out-%j", "closed/out-%J.%s"):
            with self.subTest(where=where):
                result = self.shell(f"srun -o {where} touch {mark}")
                self.assertEqual(result.returncode, 1)
                self.assertIn("Could not open stdout file closed/out", result.stderr)
                result = self.shell(f"salloc -Q srun -o {where} touch {mark}")
                self.assertEqual(result.returncode, 1)
        self.assertFalse(os.path.exists(mark))
        self.no_jobs()
        self.c.ok("srun", "-n2", "-o", "good-%j.%s", "echo", "x", user=ANN)
        name, = [n for n in os.listdir(self.c.work) if n.startswith("good-")]
        self.assertRegex(name, r"^good-\d+\.0$")
        with open(os.path.join(self.c.work, name)) as f:
            self.assertEqual(f.read(), "x\nx\n")

    def test_a_pipe_nobody_reads_for_output(self):
        path = self.fifo("out.pipe")
        for option in ("-o", "-e"):
            with self.subTest(option=option):
                srun = self.start("srun", option, path, "sh", "-c", "echo out; echo err >&2")
                self.assertIn("waiting for somebody to read " + path, srun.stderr.readline())
                self.no_jobs()  # step and allocation have ended, whoever reads or not
                self.assertIsNone(srun.poll())
                with open(path) as f:
                    self.assertEqual(f.read(), "out\nerr\n" if option == "-o" else "err\n")
                out, err = srun.communicate(timeout=60)
                self.assertEqual(srun.returncode, 0, err)

    def test_an_input_file_that_is_not_there_runs_nothing(self):
        for command in ("srun -i nofile cat", "salloc -Q srun -i nofile cat", "SRUN_INPUT=nofile srun cat"):
            with self.subTest(command=command):
                result = self.shell(command)
                self.assertEqual((result.returncode, result.stderr),
                                 (1, "srun: error: Could not open stdin file nofile: No such file or directory\n"))
        result = self.shell("srun -i nofile-%t cat")  # opened where the task runs
        self.assertEqual(result.returncode, 1)
        self.assertIn("nofile-0: No such file or directory\n", result.stderr)
        self.assertIn("task 0: not started (0:53)", result.stderr)

    def test_signals_end_it_all_the_same(self):
        path = self.fifo("dead.pipe")
        for signals in ([signal.SIGINT, signal.SIGINT], [signal.SIGTERM]):
            for command in ("sleep 600; echo x", "yes"):
                with self.subTest(signals=signals, command=command):
                    srun = self.start("srun", "-o", path, "sh", "-c", command)
                    eventually(lambda: self.c.ok("squeue", "-h", "-s") != "" and reads(srun.pid, signals[0]), 10, "a running step")
                    for s in signals:
                        tell(srun, s)
                    srun.communicate(timeout=20)
                    self.assertNotEqual(srun.returncode, 0)
                    self.no_jobs()

    def test_a_pipe_nobody_writes_for_input(self):
        path = self.fifo("in.pipe")
        srun = self.start("srun", "-i", path, "cat")
        eventually(lambda: self.c.ok("squeue", "-h") != "" and reads(srun.pid, signal.SIGINT), 10, "a job")
        for _ in range(2):
            tell(srun, signal.SIGINT)
        srun.communicate(timeout=20)
        self.assertNotEqual(srun.returncode, 0)
        self.no_jobs()

    def test_a_batch_job_without_its_file_says_so(self):
        job = self.c.wrap("true", "-o", "no/such/folder/out")
        self.assertEqual(self.c.wait(job), "FAILED")
        shown = self.c.ok("scontrol", "show", "job", job)
        self.assertIn("ExitCode=0:53", shown)
        self.assertIn("could not be opened on n1", shown.replace("_", " "))
        self.assertIn("could not be opened on n1", self.c.ok("sacct", "-n", "-X", "-j", job, "-o", "reason%200").replace("_", " "))

    def test_no_more_threads(self):
        # Processes count for the user: those that run count against the limit.
        for limit in range(1, 8):
            with self.subTest(limit=limit):
                for command in ("srun -Q true", "salloc -Q true"):
                    result = self.c.run("setpriv", "--reuid=1002", "--regid=1002", "--clear-groups", "prlimit",
                                        f"--nproc={limit}", *command.split(), timeout=60)
                    self.assertGreaterEqual(result.returncode, 0, (command, result.stderr))
                    if result.returncode:
                        self.assertRegex(result.stderr, "makes no more threads|Resource temporarily unavailable")
                    self.no_jobs()
        result = self.c.run("setpriv", "--reuid=1002", "--regid=1002", "--clear-groups", "prlimit", "--nproc=1", "srun",
                            "true")
        self.assertEqual(result.returncode, 1)
        self.assertIn("makes no more threads", result.stderr)

    def test_no_more_descriptors(self):
        for limit in range(3, 12):
            for command in ("srun -Q true", "salloc -Q true", "squeue"):
                result = self.c.run("prlimit", f"--nofile={limit}", *command.split(), user=ANN)
                self.assertGreaterEqual(result.returncode, 0, (limit, command, result.stderr))
        self.no_jobs()


class Names(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.c = Cluster(nodes=1, gpus=None, cpus=4)
        cls.c.up()

    @classmethod
    def tearDownClass(cls):
        cls.c.down()

    def test_ones_own_history_and_by_uid(self):
        job = self.c.wrap("true", user=ANN)
        self.c.wait(job)
        for command in (("sacct", "-n", "-X", "-o", "jobid"), ("lockstep", "history", "-n", "-X", "-o", "jobid"),
                        ("sacct", "-n", "-X", "-o", "jobid", "-u", str(ANN)), ("sacct", "-n", "-X", "-o", "jobid", "-a")):
            with self.subTest(command=command):
                eventually(lambda: job in self.c.ok(*command, user=ANN), 10, "the job in the history")
        self.assertNotIn(job, self.c.ok("sacct", "-n", "-X", "-o", "jobid", user=1003))

    def test_waiting_jobs_by_uid(self):
        self.c.ok("squeue", user=ANN)
        held = self.c.wrap("true", "-H", user=ANN)
        for command in (("squeue", "-h", "-o", "%i"), ("sprio", "-h", "-o", "%i")):
            self.assertIn(held, self.c.ok(*command, "-u", str(ANN)))
            self.assertNotIn(held, self.c.ok(*command, "-u", "4711"))
        self.c.ok("scancel", "-u", str(ANN), user=ANN)
        eventually(lambda: self.c.state(held) == "CANCELLED", 10, "cancelled")

    def test_nobody_of_that_name(self):
        for command, words in (("sprio -u nosuch", "sprio: error: Invalid user: nosuch"),
                               ("sacct -u nosuch", "Invalid user id: nosuch"),
                               ("scancel -u nosuch", "scancel: error: Invalid user name: nosuch"),
                               ("scancel -v -u nosuch", "scancel: error: Invalid user name: nosuch")):
            with self.subTest(command=command):
                result = self.c.run(*command.split(), user=ANN)
                self.assertEqual(result.returncode, 1)
                self.assertIn(words, result.stderr)

    def test_squeue_names_unknown_users_and_lists_the_others_jobs(self):
        """As Slurm's: a header and exit code 0, and never everybody's jobs."""
        job = self.c.wrap("true", "-H", user=ANN)
        for users, listed in (("nosuch", []), ("4711x,nosuch", []), (",nosuch", []), (f"nosuch,{ANN}", [job])):
            with self.subTest(users=users):
                result = self.c.run("squeue", "-u", users, "-o", "%i", user=ANN)
                self.assertEqual((result.returncode, result.stdout.split()), (0, ["JOBID", *listed]))
                self.assertIn("squeue: error: Invalid user: nosuch\n", result.stderr)
        for words in (["-s", "-u", "nosuch"], ["--start", "-u", "nosuch"], ["-p", "nosuch"], ["-A", "nosuch"]):
            result = self.c.run("squeue", "-h", *words, user=ANN)
            self.assertEqual((result.returncode, result.stdout), (0, ""), words)
        self.c.ok("scancel", job, user=ANN)

    def test_a_refusal_names_the_person(self):
        job = self.c.wrap("true", "-H")
        result = self.c.run("scontrol", "release", job, user=1004)
        self.assertEqual(result.returncode, 1)
        result = self.c.run("scontrol", "update", f"JobId={job}", "Name=x", user=1004)
        self.assertNotRegex(result.stderr, r"user \d+ may")
        self.c.ok("scancel", job)

    def test_too_much_memory(self):
        result = self.c.run("sbatch", "--mem=9999T", "--wrap", "true")
        self.assertEqual(result.returncode, 255, "a word that is no amount, as in Slurm")
        self.assertIn("--mem", result.stderr)
        self.assertNotIn("memory_mb", result.stderr)


class WhatBecomesOfAStep(unittest.TestCase):
    def test_a_step_whose_only_node_dies_has_failed(self):
        with Cluster(nodes=2, gpus=None, cpus=4) as c:
            srun = subprocess.Popen(["srun", "-w", "n2", "sh", "-c", "echo started; sleep 60"], env=c.env, cwd=c.work,
                                    stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
            self.assertEqual(srun.stdout.readline(), "started\n")
            c.pull_plug("n2")
            _, said = srun.communicate(timeout=60)
            self.assertNotEqual(srun.returncode, 0, said)
            self.assertRegex(said, "Node failure|task 0: Killed")  # the latter where the step's record had ended before srun asked for it

    def test_a_node_that_does_not_answer_keeps_nobody(self):
        with Cluster(nodes=2, gpus=None, cpus=8) as c:
            endings = {"TERM": [signal.SIGTERM], "Ctrl-C": [signal.SIGINT] * 2, "force": [signal.SIGINT] * 3,
                       "QUIT": [signal.SIGQUIT]}
            start = lambda *argv: subprocess.Popen(
                ("setpriv", f"--reuid={ANN}", f"--regid={ANN}", "--clear-groups", *argv), env=c.env, cwd=c.work,
                stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
            sruns = {name: start("srun", "-w", "n2", "sleep", "600") for name in endings}
            slow = start("srun", "-w", "n1", "sh", "-c", "trap 'sleep 8; echo saved; exit 3' TERM; echo up; while :; do sleep 0.1; done")
            self.assertEqual(slow.stdout.readline(), "up\n")
            eventually(lambda: len(c.ok("squeue", "-h", "-s").split("\n")) == 6, 20, "running steps")
            agent = c.node("n2")["agent_pid"]
            send(agent, signal.SIGSTOP)
            try:
                send(slow.pid, signal.SIGTERM)
                for name, signals in endings.items():
                    for s in signals:
                        tell(sruns[name], s)
                for name, srun in sruns.items():
                    _, said = srun.communicate(timeout=30)
                    self.assertEqual(srun.returncode, 1, (name, said))
                    if name != "force":
                        self.assertIn("no answer of task 0 on n2", said)
                out, said = slow.communicate(timeout=30)  # it answers, and takes its time
                self.assertEqual((slow.returncode, out), (3, "saved\n"), said)
            finally:
                send(agent, signal.SIGCONT)
            eventually(lambda: c.ok("squeue", "-h") == "", 30, "an empty queue")

    def test_few_descriptors_are_the_programs_business(self):
        with Cluster(nodes=1, gpus=None, cpus=4) as c:
            out = c.ok("bash", "-c", "ulimit -Sn 16; srun bash -c 'ulimit -n'")
            self.assertEqual(out.strip(), "16")
            script = c.script("#!/bin/sh\nexec true\n")
            job = c.ok("bash", "-c", f"ulimit -Sn 12; sbatch --parsable -o {c.work}/few.out {script}").strip()
            self.assertEqual(c.wait(job), "COMPLETED")

    def test_without_a_cluster_nobody_waits_long(self):
        env = {**os.environ, "PATH": BIN + ":" + os.environ["PATH"], "LOCKSTEP_SOCKET": "/tmp/no-such-socket-here"}
        for command in (["squeue"], ["sinfo"], ["sacct"], ["scontrol", "show", "config"]):
            result = subprocess.run(command, env=env, capture_output=True, text=True, timeout=60)
            self.assertEqual(result.returncode, 1)
            self.assertNotIn("waiting", result.stderr, "where there was never a socket, nobody waits for one")


class Away(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.c = Cluster(nodes=1, gpus=None, cpus=4)
        cls.c.up()

    @classmethod
    def tearDownClass(cls):
        cls.c.release_controller()
        cls.c.down()

    def test_commands_straight_after_a_crash(self):
        for command in ("squeue", "sinfo", "sacct", "sbatch --parsable --wrap true", "srun true", "scontrol show config",
                        "lockstep node drain n1", "lockstep node resume n1"):
            with self.subTest(command=command):
                self.c.kill_controller(hold=False)
                result = self.c.run(*command.split())
                if result.returncode and command.startswith("s"):  # it died with a submission in its hand
                    self.assertIn("Whether it was carried out is not known", result.stderr)
                else:
                    self.assertEqual(result.returncode, 0, result.stderr)

    def test_one_that_stays_away_is_told_of(self):
        self.c.kill_controller()
        try:
            began = time.monotonic()
            result = self.c.run("squeue")
            self.assertGreater(time.monotonic() - began, 10)
            self.assertEqual(result.returncode, 1)
            self.assertRegex(result.stderr, r"\Aslurm_load_jobs error: Unable to contact slurm controller "
                                            r"\(connect failure\)\nsqueue: error: no cluster answers")
            self.assertIn("`lockstep status`", result.stderr)
            said = self.c.at_terminal("squeue")
            self.assertEqual(said.count("squeue: waiting for the controller at "), 1)
            for command, words in (("sinfo", "slurm_load_partitions: "),
                                   ("scontrol show job 1", "slurm_load_jobs error: "),
                                   ("scontrol show node", "slurm_load_node error: "),
                                   ("sacct", "sacct: error: Problem talking to the database: "),
                                   ("scancel 1", "scancel: error: Kill job error on job id 1: "),
                                   ("scancel -u root", "slurm_load_jobs error: ")):
                with self.subTest(command=command):
                    result = self.c.run(*command.split(), env={"LOCKSTEP_SOCKET": self.c.work + "/none"})
                    self.assertEqual(result.returncode, 1)
                    self.assertTrue(result.stderr.startswith(
                        words + "Unable to contact slurm controller (connect failure)\n"), result.stderr)
        finally:
            self.c.up()

    def test_a_silent_one_can_be_left(self):
        pid = self.c.controller_pid()
        send(pid, signal.SIGSTOP)
        try:
            began = [(command, subprocess.Popen(command.split(), env=self.c.env, cwd=self.c.work, stdout=subprocess.PIPE,
                                                stderr=subprocess.PIPE, text=True))
                     for command in ("srun true", "salloc true", "sbatch --wrap true", "scancel 1")]
            for command, process in began:
                eventually(lambda: waits_for_an_answer(process.pid), 20, command + " waits")
                send(process.pid, signal.SIGTERM)
                _, said = process.communicate(timeout=60)
                self.assertEqual(process.returncode, -signal.SIGTERM, command)
                if command in ("srun true", "salloc true"):
                    self.assertIn("Whether the job was submitted is not known", said)
        finally:
            send(pid, signal.SIGCONT)
        # A client that never had its answer might still ask for it again: its job is kept for a minute.
        eventually(lambda: self.c.run("squeue", "-h", "-n", "true").stdout == "", 180, "jobs without their clients to end")

    def test_a_silent_one_is_told_of(self):
        pid = self.c.controller_pid()
        send(pid, signal.SIGSTOP)
        try:
            submission = subprocess.Popen(["sbatch", "--parsable", "--wrap", "true"], env=self.c.env, cwd=self.c.work,
                                          stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
            result = self.c.run("squeue", timeout=50)
            self.assertEqual(result.returncode, 1)
            self.assertTrue(result.stderr.startswith("slurm_load_jobs error: Socket timed out on send/recv operation\n"),
                            result.stderr)
            self.assertIn("overloaded or stopped", result.stderr)
        finally:
            send(pid, signal.SIGCONT)
        out, err = submission.communicate(timeout=30)
        self.assertRegex(out, r"^\d+\n$")
        self.assertIn("sbatch: waiting for the controller", err)


class Verbs(unittest.TestCase):
    """Every verb that help or a document names is there."""

    def setUp(self):
        self.env = dict(os.environ, PATH=BIN + ":" + os.environ["PATH"], LOCKSTEP_DIR="/no/such", HOME="/no/such",
                        LOCKSTEP_SOCKET="/no/such/socket")

    def run_verb(self, *words):
        return subprocess.run(["lockstep", *words], env=self.env, capture_output=True, text=True, timeout=30)

    def texts(self):
        for folder in (TOP, os.path.join(TOP, "docs"), os.path.join(TOP, "docs", "decisions")):
            for name in sorted(os.listdir(folder)):
                if name.endswith(".md"):
                    with open(os.path.join(folder, name)) as f:
                        yield name, f.read()
        yield "lockstep help", self.run_verb("help").stdout
        for verb in ("up", "down", "status", "env", "node", "topology", "checkpoint", "explain", "whatif"):
            yield verb, self.run_verb(verb, "--help").stdout

    def test_all_of_them(self):
        verbs = re.findall(r"^  ([a-z-]+) ", self.run_verb("help").stdout.partition("\nExamples")[0], re.M)
        self.assertIn("node", verbs)
        for verb in verbs:
            result = self.run_verb(verb, "--help")
            self.assertNotIn("no such verb", result.stderr)
            self.assertEqual(result.returncode, 0, (verb, result.stderr))
        second = {v: re.findall(r"^  ([a-z]+) ", self.run_verb(v, "help").stdout, re.M) for v in ("node", "topology")}
        for verb, words in second.items():
            self.assertTrue(words)
            for word in set(words):
                self.assertNotIn("no such verb", self.run_verb(verb, word).stderr, (verb, word))
        # The one line in which `lockstep help` sums up what node does.
        line, = re.findall(r"^  node +(.*)$", self.run_verb("help").stdout, re.M)
        for word in re.findall(r"\b(list|drain|join|resume|remove|revoke|kill|update|token)\b", line):
            self.assertIn(word, second["node"])
        for name, text in self.texts():
            for verb, word in re.findall(r"(?:`|^ *|\$ )lockstep ([a-z][a-z-]*)(?: ([a-z]+)\b)?", text, re.M):
                if name == "lockstep help" and verb in ("runs",):
                    continue
                self.assertIn(verb, verbs + ["help", "version"], f"{name}: lockstep {verb}")
                if verb in second and word:
                    self.assertIn(word, second[verb] + ["help"], f"{name}: lockstep {verb} {word}")


if __name__ == "__main__":
    unittest.main()
