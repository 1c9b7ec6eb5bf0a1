"""What people meet on the first day at the command line: limits of steps, components, words of time, wrong use and what is
said of it, terminals, completion and manual pages. As an ordinary user, beside what Debian's Slurm 22.05 does."""
import fcntl
import os
import pty
import re
import shutil
import struct
import subprocess
import termios
import time
import unittest

from cluster import Cluster

ANN = 1001


class FirstDay(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.c = Cluster(nodes=2, gpus=None, cpus=4)
        cls.c.up()

    @classmethod
    def tearDownClass(cls):
        cls.c.down()

    def ann(self, *argv, **kwargs):
        return self.c.run(*argv, user=ANN, **kwargs)

    def script(self, text, name):
        path = self.c.script(text, name)
        os.chmod(path, 0o755)
        return path

    # --- steps ---

    def test_a_step_has_a_time_limit_of_its_own(self):
        result = self.ann("salloc", "-Q", "srun", "-t", "0:02", "sleep", "300")
        self.assertNotEqual(result.returncode, 0)
        self.assertRegex(result.stderr, r"srun: error: \*\*\* STEP \d+\.0 CANCELLED DUE TO TIME LIMIT \*\*\*")
        self.assertEqual(self.ann("salloc", "-Q", "srun", "-t", "1", "echo", "in time").stdout, "in time\n")

    def test_components_from_the_command_line_and_their_steps(self):
        path = self.script("#!/bin/sh\n"
                           "echo size $SLURM_HET_SIZE\n"
                           "srun --het-group=0 sh -c 'echo zero of $SLURM_NTASKS'\n"
                           "srun --het-group=1 sh -c 'echo one of $SLURM_NTASKS'\n"
                           "srun --het-group=1 -n1 sh -c 'echo single of $SLURM_NTASKS'\n"
                           "echo args $1 $2\n", "het.sh")
        job = self.c.sbatch("-N1", "-n1", ":", "-N1", "-n2", path, ":", "x", user=ANN)
        self.assertEqual(self.c.wait(job), "COMPLETED")
        self.assertEqual(self.c.output(job).split("\n")[:-1],
                         ["size 2", "zero of 1", "one of 2", "one of 2", "single of 1", "args : x"])

    def test_directives_meet_components_of_the_command_line(self):
        path = self.script("#!/bin/sh\n#SBATCH -N1 -n1 -J first\n#SBATCH hetjob\n#SBATCH -N1 -n3\n"
                           "srun --het-group=1 echo x | wc -l\n", "het2.sh")
        job = self.c.sbatch("-c1", ":", "-n2", path, user=ANN)
        self.assertEqual(self.c.wait(job), "COMPLETED")
        self.assertEqual(self.c.output(job), "2\n")

    def test_a_command_instead_of_a_script_stands_in_any_component(self):
        job = self.c.sbatch("-N1", ":", "-N1", "--wrap", "echo $SLURM_HET_SIZE", user=ANN)
        self.assertEqual(self.c.wait(job), "COMPLETED")
        self.assertEqual(self.c.output(job), "2\n")

    def test_several_programs_in_one_step(self):
        words = ["sh", "-c", "echo a $SLURM_PROCID of $SLURM_NTASKS", ":", "-n2", "sh", "-c",
                 "echo b $SLURM_PROCID of $SLURM_NTASKS"]
        said = ["a 0 of 3", "b 1 of 3", "b 2 of 3"]
        self.assertEqual(sorted(self.c.ok("srun", *words, user=ANN).splitlines()), said)
        self.assertEqual(sorted(self.c.ok("salloc", "-Q", "-n3", "srun", *words, user=ANN).splitlines()), said)
        result = self.ann("srun", "-c2", "true", ":", "true")
        self.assertEqual(result.returncode, 1)
        self.assertIn("--cpus-per-task", result.stderr)

    def test_tasks_run_where_a_file_says(self):
        with open(os.path.join(self.c.work, "hosts"), "w") as f:
            f.write("n2\nn1\nn2\n")
        where = ("sh", "-c", "echo $SLURM_PROCID $SLURMD_NODENAME")
        listed = ["0 n2", "1 n1", "2 n2"]
        hosts = {"SLURM_HOSTFILE": "hosts"}
        out = self.c.ok("salloc", "-Q", "-N2", "-n3", "srun", *where, user=ANN, env=hosts)
        self.assertEqual(sorted(out.splitlines()), listed)
        self.assertEqual(sorted(self.c.ok("srun", *where, user=ANN, env=hosts).splitlines()), listed)
        self.assertEqual(sorted(self.c.ok("salloc", "-Q", "srun", *where, user=ANN, env=hosts).splitlines()), listed)
        out = self.c.ok("salloc", "-Q", "-m", "arbitrary", "-w", "n2,n1,n2", "srun", *where, user=ANN)
        self.assertEqual(sorted(out.splitlines()), listed)
        self.assertEqual(self.c.ok("srun", "-w", "n1", *where, user=ANN, env=hosts).splitlines(), ["0 n1"])
        out = self.c.ok("salloc", "-Q", "-N2", "-n4", "srun", "-n3", "-m", "arbitrary", "-w", "n2,n1,n2", *where, user=ANN)
        self.assertEqual(sorted(out.splitlines()), listed)
        out = self.c.ok("salloc", "-Q", "-N2", "-n8", "srun", "-m", "plane=2", *where, user=ANN)
        self.assertEqual([line.split()[1] for line in sorted(out.splitlines())], ["n1", "n1", "n2", "n2"] * 2)
        result = self.ann("srun", "true", env={"SLURM_HOSTFILE": "nofile"})
        self.assertEqual(result.returncode, 1)
        self.assertIn("Failure getting NodeNames from hostfile", result.stderr)
        result = self.ann("srun", "-n4", "true", env=hosts)
        self.assertIn("Asked for 4 tasks have 3 in the nodelist", result.stderr)

    def test_files_of_the_environment(self):
        for name in ("out", "err", "in"):
            path = os.path.join(self.c.work, "env." + name)
            with open(path, "w") as f:
                f.write("input\n" if name == "in" else "")
            os.chown(path, ANN, ANN)
        self.c.ok("srun", "sh", "-c", "cat; echo e >&2", user=ANN,
                  env={"SRUN_OUTPUT": "env.out", "SRUN_ERROR": "env.err", "SRUN_INPUT": "env.in"})
        with open(os.path.join(self.c.work, "env.out")) as out, open(os.path.join(self.c.work, "env.err")) as err:
            self.assertEqual((out.read(), err.read()), ("input\n", "e\n"))

    def test_steps_of_a_job_that_appends_do_so_too(self):
        path = self.script("#!/bin/sh\nenv | grep SLURM_OPEN_MODE\nsrun -o steps.txt echo one\nsrun -o steps.txt echo two\n",
                           "append.sh")
        for mode, kept in (("append", "one\ntwo\n"), ("truncate", "two\n")):
            steps = os.path.join(self.c.work, "steps.txt")
            if os.path.exists(steps):
                os.unlink(steps)
            job = self.c.sbatch("--open-mode=" + mode, path, user=ANN)
            self.assertEqual(self.c.wait(job), "COMPLETED")
            self.assertEqual(self.c.output(job), f"SLURM_OPEN_MODE={mode[0]}\n")
            with open(steps) as f:
                self.assertEqual(f.read(), kept)

    # --- wrong use ---

    def test_wrong_use_ends_as_slurm_ends_it(self):
        path = self.script("#!/bin/sh\ntrue\n", "good.sh")
        for code, command in ((255, "sbatch --nosuch"), (255, "srun --nosuch"), (255, "salloc --nosuch"), (255, "sbatch -p"),
                              (1, "squeue --nosuch"), (1, "sinfo --nosuch"), (1, "scancel --nosuch"), (1, "scontrol --nosuch"),
                              (1, "sacct --nosuch"), (255, f"sbatch -t abc {path}"), (255, "srun -t abc true"),
                              (255, f"sbatch --mem=abc {path}"), (255, f"sbatch -N abc {path}"), (255, "salloc -N abc"),
                              (255, f"sbatch --begin=purple {path}"), (255, f"sbatch --signal=foo {path}"),
                              (255, f"sbatch --open-mode=foo {path}"), (255, f"sbatch --exclusive=foo {path}"),
                              (255, f"sbatch -mfoo {path}"), (1, f"sbatch -n abc {path}"), (1, f"sbatch -c 0 {path}"),
                              (1, "srun --wait=abc true"), (1, f"sbatch --switches=abc {path}"), (1, "sbatch nofile"),
                              (1, f"sbatch --array=abc {path}"), (1, f"sbatch -d abc {path}"), (1, "srun"),
                              (1, f"sbatch -p nosuch {path}"), (1, f"sbatch --gres=a:b:c:d {path}"),
                              (1, f"sbatch --gpus=abc {path}"), (1, "scancel"), (1, "scancel abc"), (1, "squeue -j abc"),
                              (1, "squeue -t bogus"), (1, "scontrol bogus"), (1, "sacct -S purple")):
            with self.subTest(command=command):
                self.assertEqual(self.ann(*command.split()).returncode, code)
        self.assertEqual(self.ann("srun", "--nosuch", env={"SLURM_EXIT_ERROR": "9"}).returncode, 9)

    def test_did_you_mean(self):
        for command, meant in (("sbatch --ntask-per-node=2 x", "did you mean '--ntasks-per-node'?"),
                               ("srun --gpu-per-task=1 x", "did you mean '--gpus-per-task'?"),
                               ("squeue --formt=x", "Did you mean --format?"), ("scancel --usr=x", "Did you mean --user?"),
                               ("lockstep stauts", "Did you mean `lockstep status`?"),
                               ("lockstep submti", "Did you mean `lockstep submit`?")):
            with self.subTest(command=command):
                self.assertIn(meant, self.ann(*command.split()).stderr)
        self.assertNotIn("you mean", self.ann("srun", "--purpleness", "x").stderr)

    def test_a_program_is_no_script(self):
        path = os.path.join(self.c.work, "train.py")
        with open(path, "w") as f:
            f.write("print('x')\n")
        for command in ("sbatch", "lockstep submit"):
            result = self.ann(*command.split(), "train.py", "--lr=3")
            self.assertEqual(result.returncode, 1)
            self.assertIn("sbatch --wrap 'python3 train.py --lr=3'", result.stderr)

    def test_help_of_a_verb(self):
        for verb in ("node", "submit", "explain", "up", "completion", "man"):
            self.assertEqual(self.ann("lockstep", "help", verb).stdout, self.ann("lockstep", verb, "--help").stdout, verb)
            self.assertNotEqual(self.ann("lockstep", "help", verb).stdout, "")
        result = self.ann("lockstep", "help", "nosuch")
        self.assertEqual(result.returncode, 2)
        self.assertIn("no such verb: nosuch", result.stderr)

    def test_words_of_time(self):
        env = {"TZ": "UTC"}
        for words, shown in (("tomorrow", r"T00:00:00$"), ("noon", r"T12:00:00$"), ("16:00 tomorrow", r"T16:00:00$"),
                             ("2030-01-20", r"^2030-01-20T00:00:00$"), ("4:30pm", r"T16:30:00$"), ("0120", r"-01-20T00:00:00$")):
            with self.subTest(words=words):
                job = self.c.sbatch("-H", "--begin=" + words, "--wrap", "true", user=ANN, env=env)
                shown_by = re.search(r"(?:EligibleTime|StartTime)=(\S*T\S*)", self.c.ok("scontrol", "show", "job", job, env=env))
                self.assertRegex(shown_by.group(1), shown)
                self.c.ok("scancel", job)

    # --- terminals ---

    def on_terminal(self, *argv, env=None, columns=80):
        """What a terminal gets from a command that is started on one."""
        master, slave = pty.openpty()
        fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
        process = subprocess.Popen(("setpriv", f"--reuid={ANN}", f"--regid={ANN}", "--clear-groups", *argv),
                                   env={**self.c.env, "TERM": "xterm", **(env or {})}, cwd=self.c.work, stdin=slave, stdout=slave, stderr=slave, start_new_session=True)
        os.close(slave)
        text = b""
        try:
            while chunk := os.read(master, 4096):
                text += chunk
        except OSError:  # the last one has closed it
            pass
        os.close(master)
        return process.wait(timeout=30), text.decode()

    def test_lines_beside_a_raw_terminal_begin_at_its_left(self):
        code, text = self.on_terminal("srun", "--pty", "sh", "-c", "echo hello; exit 3")
        self.assertEqual(code, 3)
        self.assertIn("Exited with exit code 3\r\n", text)
        self.assertNotRegex(text, r"(?<!\r)\n")

    def test_colour_is_for_terminals(self):
        held = self.c.wrap("true", "-H", "-J", "a-name-longer-than-eight", user=ANN)
        try:
            for parsed in (("squeue", "-h"), ("squeue", "-o", "%i %T"), ("squeue", "-O", "jobid,state"), ("sinfo", "-h"),
                           ("sinfo", "-o", "%n %T"), ("sinfo", "-O", "statelong"), ("squeue", "--json"), ("sinfo", "--json")):
                _, text = self.on_terminal(*parsed, env={"TERM": "xterm"})
                self.assertNotIn("\x1b", text, parsed)
            for command in (("squeue",), ("sinfo",), ("lockstep", "jobs")):
                self.assertNotIn("\x1b", self.c.ok(*command, user=ANN))
                for env, coloured in (({"TERM": "xterm"}, True), ({"TERM": "dumb"}, False),
                                      ({"TERM": "xterm", "NO_COLOR": "1"}, False)):
                    _, text = self.on_terminal(*command, env=env)
                    self.assertEqual("\x1b[3" in text, coloured, (command, env, text))
                    self.assertNotRegex(text, r"(?<!\r)\n")
            _, text = self.on_terminal("squeue", env={"TERM": "xterm"}, columns=120)
            self.assertIn("a-name-longer-than-eight", text)
            self.assertNotIn("a-name-longer-than-eight", self.c.ok("squeue", user=ANN))
        finally:
            self.c.ok("scancel", held)

    def test_who_waits_is_told_for_how_long(self):
        holder = self.c.sbatch("-N2", "--exclusive", "-t", "10", "--wrap", "sleep 600", user=ANN)
        try:
            self.c.wait(holder, "RUNNING")
            waiting = subprocess.Popen(("setpriv", f"--reuid={ANN}", f"--regid={ANN}", "--clear-groups", "srun", "-t", "1",
                                        "echo", "done"), env=self.c.env, cwd=self.c.work, stdin=subprocess.DEVNULL,
                                       stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
            said = waiting.stderr.readline() + waiting.stderr.readline()
            self.assertIn("expected start", said)
        finally:
            self.c.ok("scancel", holder)
        out, more = waiting.communicate(timeout=120)
        said += more
        self.assertEqual((waiting.returncode, out), (0, "done\n"))
        self.assertRegex(said, r"srun: job (\d+) queued and waiting for resources\n"
                               r"srun: job \1: expected start \d{4}-\d\d-\d\dT[\d:]+; `lockstep explain \1` says why it waits\n"
                               r"srun: job \1 has been allocated resources\n")

    # --- completion, manual pages ---

    def bash(self, *words):
        text = 'eval "$(lockstep completion bash)"; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _lockstep; ' \
               'printf "%s\\n" "${COMPREPLY[@]}"'
        return self.ann("bash", "-c", text, "bash", *words).stdout.split()

    def test_bash_completes_with_what_is_there(self):
        held = self.c.wrap("true", "-H", user=ANN)
        self.assertEqual(self.bash("sbatch", "-p", ""), ["main"])
        self.assertEqual(self.bash("sbatch", "--partition", "=", "m"), ["main"])
        self.assertEqual(self.bash("srun", "-w", "n"), ["n1", "n2"])
        self.assertNotIn("PENDING", self.bash("srun", "-t", ""))  # a time, not a state
        self.assertIn("PENDING", self.bash("squeue", "-t", "P"))
        self.assertEqual(self.bash("sbatch", "-N", ""), [])  # a number, not names of nodes
        self.assertEqual(self.bash("scancel", "--state", "=", ""), ["PENDING", "RUNNING", "SUSPENDED"])
        self.assertIn("idle", self.bash("sinfo", "-t", "i"))
        self.assertIn(held, self.bash("scancel", ""))
        self.assertIn(held, self.bash("scontrol", "release", ""))
        self.assertEqual(self.bash("lockstep", "expl"), ["explain"])
        self.assertEqual(self.bash("lockstep", "submit", "-p", "m"), ["main"])
        self.assertIn("--gpus-per-task", self.bash("sbatch", "--gpus-"))
        self.assertIn("--noheader", self.bash("squeue", "--no"))
        self.c.ok("scancel", held)

    @unittest.skipUnless(shutil.which("zsh"), "zsh is not installed")
    def test_zsh_takes_it(self):
        text = 'autoload -Uz compinit; compinit -u -D; eval "$(lockstep completion zsh)"; ' \
               'print -r -- $_comps[srun] $_comps[lockstep]; ' \
               'COMP_WORDS=(srun -w n); COMP_CWORD=2; setopt ksharrays; _lockstep; print -r -- "${COMPREPLY[@]}"'
        out = self.ann("zsh", "-f", "-c", text, env={"HOME": self.c.work})
        self.assertEqual(out.stdout, "_bash_complete -o default -F _lockstep _bash_complete -o default -F _lockstep\nn1 n2\n", out.stderr)

    @unittest.skipUnless(shutil.which("fish"), "fish is not installed")
    def test_fish_completes_with_what_is_there(self):
        def fish(line):
            out = self.ann("fish", "--no-config", "-c", f"lockstep completion fish | source; complete -C '{line}'",
                           env={"HOME": self.c.work})
            self.assertEqual(out.stderr, "")
            return [words.split("\t")[0] for words in out.stdout.splitlines()]
        self.assertEqual(fish("sbatch --partition "), ["main"])
        self.assertEqual(fish("srun -w n"), ["n1", "n2"])
        self.assertIn("--gpus-per-task", fish("sbatch --gpus-"))
        self.assertEqual(fish("lockstep expl"), ["explain"])
        self.assertIn("--noheader", fish("squeue --no"))

    def test_manual_pages(self):
        page = self.ann("lockstep", "man", "srun").stdout
        self.assertTrue(page.startswith(".TH SRUN 1 "))
        self.assertIn("\\fB\\-\\-gpus\\-per\\-task\\fR=\\fI[TYPE:]N\\fR", page)
        self.assertIn("\\fBSLURM_GPUS\\fR", page)
        folder = os.path.join(self.c.work, "manuals")
        self.c.ok("lockstep", "man", "--dir", folder)
        names = sorted(os.listdir(os.path.join(folder, "man1")))
        for command in ("lockstep", "sbatch", "srun", "salloc", "squeue", "sinfo", "scancel", "scontrol", "sacct", "sacctmgr"):
            self.assertIn(command + ".1", names)
        if shutil.which("groff"):
            for name in names:
                shown = subprocess.run(["groff", "-man", "-Tascii", "-ww", os.path.join(folder, "man1", name)],
                                       capture_output=True, text=True)
                self.assertEqual((shown.returncode, shown.stderr), (0, ""), name)
        self.assertEqual(self.ann("lockstep", "man", "nosuch").returncode, 1)


if __name__ == "__main__":
    unittest.main()
