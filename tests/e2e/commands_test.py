"""Slurm's commands on a real cluster of two virtual nodes: what scripts and tools rely on."""
import json
import os
import re
import signal
import subprocess
import time
import unittest

from cluster import Cluster, eventually


class Commands(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.c = Cluster(nodes=2, gpus="4xh100", cpus=16)
        cls.c.up()

    @classmethod
    def tearDownClass(cls):
        cls.c.down()

    # --- sbatch ---

    def test_submit_says_exactly_what_tools_parse(self):
        out = self.c.ok("sbatch", "--wrap", "true")
        self.assertRegex(out, r"^Submitted batch job \d+\n$")
        self.assertRegex(self.c.ok("sbatch", "--parsable", "--wrap", "true"), r"^\d+\n$")

    def test_output_and_exit_code(self):
        script = self.c.script("#!/bin/bash\n#SBATCH --job-name=hello  # a comment\n#SBATCH -o %x-%j.log\n"
                               "echo \"args $1 $2\"; echo to-stderr >&2; exit 7\n")
        job = self.c.sbatch(script, "one", "two words")
        self.assertEqual(self.c.wait(job), "FAILED")
        self.assertEqual(self.c.output(job, "hello-{}.log"), "args one two words\nto-stderr\n")
        fields = self.c.show(job)
        self.assertEqual(fields["ExitCode"], "7:0")
        self.assertEqual(fields["Reason"], "NonZeroExitCode")

    def test_script_on_stdin(self):
        job = self.c.ok("sbatch", "--parsable", input="#!/bin/sh\necho from stdin\n").strip()
        self.assertEqual(self.c.wait(job), "COMPLETED")
        self.assertEqual(self.c.output(job), "from stdin\n")

    def test_wait_returns_the_jobs_code(self):
        result = self.c.run("sbatch", "--wait", "--wrap", "exit 5")
        self.assertEqual(result.returncode, 5, result.stderr)

    def test_environment_of_a_batch_job(self):
        job = self.c.wrap("env -0 > env.out", "-N2", "--ntasks-per-node=2", "--gpus-per-node=4", "-c2", "-J", "envjob", "-t", "5")
        self.assertEqual(self.c.wait(job), "COMPLETED")
        env = dict(e.split("=", 1) for e in open(os.path.join(self.c.work, "env.out")).read().split("\0") if "=" in e)
        expect = {"SLURM_JOB_ID": job, "SLURM_JOBID": job, "SLURM_JOB_NAME": "envjob", "SLURM_JOB_NODELIST": "n[1-2]",
                  "SLURM_NNODES": "2", "SLURM_JOB_NUM_NODES": "2", "SLURM_NTASKS_PER_NODE": "2", "SLURM_TASKS_PER_NODE": "2(x2)",
                  "SLURM_CPUS_PER_TASK": "2", "SLURM_GPUS_PER_NODE": "4", "SLURM_GPUS_ON_NODE": "4",
                  "SLURM_JOB_GPUS": "0,1,2,3", "CUDA_VISIBLE_DEVICES": "0,1,2,3", "SLURM_PROCID": "0", "SLURM_LOCALID": "0",
                  "SLURM_NODEID": "0", "SLURMD_NODENAME": "n1", "SLURM_SUBMIT_DIR": self.c.work, "SLURM_JOB_PARTITION": "main",
                  "SLURM_NTASKS": "4"}
        self.assertEqual({k: env.get(k) for k in expect}, expect)
        self.assertNotIn("SLURM_RESTART_COUNT", env)
        self.assertNotIn("SLURM_ARRAY_TASK_ID", env)

    def test_export(self):
        job = self.c.wrap("echo \"[$KEEP][$NEW]\"", "--export=NEW=1", env={"KEEP": "yes"})
        self.c.wait(job)
        self.assertEqual(self.c.output(job), "[][1]\n")
        job = self.c.wrap("echo \"[$KEEP][$NEW]\"", "--export=ALL,NEW=1", env={"KEEP": "yes"})
        self.c.wait(job)
        self.assertEqual(self.c.output(job), "[yes][1]\n")

    def test_array_with_throttle(self):
        job = self.c.sbatch("--array=1-6:2%1", "-o", "a-%A_%a.out", "--wrap", "echo $SLURM_ARRAY_TASK_ID of $SLURM_ARRAY_TASK_COUNT; sleep 0.2")
        most = 0
        def done():
            nonlocal most
            states = self.c.run("squeue", "-h", "-r", "-t", "all", "-j", job, "-o", "%T").stdout.split()
            most = max(most, states.count("RUNNING"))
            return states.count("COMPLETED") == 3
        eventually(done, 30, "three elements completed")
        self.assertLessEqual(most, 1)
        texts = [open(os.path.join(self.c.work, f"a-{job}_{i}.out")).read() for i in (1, 3, 5)]
        self.assertEqual(texts, ["1 of 3\n", "3 of 3\n", "5 of 3\n"])

    def test_dependencies(self):
        first = self.c.wrap("sleep 0.3; exit 1", "--hold")
        ok = self.c.wrap("true", f"--dependency=afterok:{first}")
        not_ok = self.c.wrap("true", f"--dependency=afternotok:{first}")
        any_ = self.c.wrap("true", f"--dependency=afterany:{first}")
        self.assertEqual(self.c.ok("squeue", "-h", "-j", any_, "-o", "%r").strip(), "Dependency")
        self.c.ok("scontrol", "release", first)
        self.assertEqual(self.c.wait(not_ok), "COMPLETED")
        self.assertEqual(self.c.wait(any_), "COMPLETED")
        # As with Slurm it waits, and says why, unless it was to be ended.
        self.assertEqual(self.c.ok("squeue", "-h", "-j", ok, "-o", "%T %r").strip(), "PENDING DependencyNeverSatisfied")
        self.c.ok("scancel", ok)
        ended = self.c.wrap("true", f"--dependency=afterok:{first}", "--kill-on-invalid-dep=yes")
        self.assertEqual(self.c.wait(ended), "CANCELLED")

    def test_dependencies_on_elements_of_an_array(self):
        def submit(*words):
            done = self.c.run("sbatch", "--parsable", "-o", "/dev/null", *words, user=1001)
            self.assertEqual(done.returncode, 0, done.stderr)
            return done.stdout.strip()
        array = submit("--hold", "--array=0-1", "--wrap", "exit $SLURM_ARRAY_TASK_ID")
        good = submit(f"--dependency=afterok:{array}_0", "--wrap", "true")
        bad = submit(f"--dependency=afterok:{array}_1", "--wrap", "true")
        self.assertEqual(self.c.ok("squeue", "-h", "-j", good, "-o", "%E").strip(), f"afterok:{array}_0(unfulfilled)")
        self.assertEqual(self.c.run("scontrol", "release", array, user=0).returncode, 0)
        self.assertEqual(self.c.wait(good), "COMPLETED")
        eventually(lambda: self.c.ok("squeue", "-h", "-j", bad, "-o", "%T %r").strip() ==
                   "PENDING DependencyNeverSatisfied", 20, "the other can never run")
        self.c.ok("scancel", bad)
        none = self.c.run("sbatch", f"--dependency=afterok:{array}_7", "--wrap", "true", user=1001)
        self.assertIn("has no element 7", none.stderr)

    def test_requeue_heeds_no_requeue_and_cancelled_elements(self):
        def submit(*words):
            done = self.c.run("sbatch", "--parsable", "-o", "/dev/null", *words, "--wrap", "sleep 60", user=1001)
            self.assertEqual(done.returncode, 0, done.stderr)
            return done.stdout.strip()
        once = submit("--no-requeue")
        self.c.wait(once, "RUNNING")
        refused = self.c.run("scontrol", "requeue", once, user=1001)
        self.assertEqual(refused.returncode, 1)
        self.assertIn(f"Requested operation is presently disabled", refused.stderr)
        self.assertEqual(self.c.state(once), "RUNNING")
        array = submit("--array=0-1")
        eventually(lambda: self.c.ok("squeue", "-h", "-r", "-j", array, "-t", "R", "-o", "%K").split() == ["0", "1"], 20)
        self.c.ok("scancel", f"{array}_1")
        eventually(lambda: self.c.ok("squeue", "-h", "-r", "-j", array, "-t", "R", "-o", "%K").split() == ["0"], 20)
        self.assertEqual(self.c.run("scontrol", "requeue", array, user=1001).returncode, 0)
        eventually(lambda: self.c.ok("squeue", "-h", "-r", "-j", array, "-t", "R", "-o", "%K").split() == ["0"], 30)
        states = self.c.ok("squeue", "-h", "-r", "-t", "all", "-j", array, "-o", "%K %T").split("\n")
        self.assertIn("1 CANCELLED", states)
        self.c.ok("scancel", once, array)
        rows = lambda: sorted(self.c.ok("sacct", "-X", "-n", "-P", "-j", array, "-o", "jobid,state").split("\n"))[1:]
        eventually(lambda: all("CANCELLED" in row for row in rows()), 20, "accounting knows their ends")
        self.assertEqual([row.split("|")[0] for row in rows()], [f"{array}_0", f"{array}_1"])
        self.assertEqual(sorted(self.c.ok("squeue", "-h", "-t", "all", "-j", array, "-o", "%i").split()), [f"{array}_0", f"{array}_1"])

    def test_hold_release_begin(self):
        job = self.c.wrap("true", "--hold")
        self.assertEqual(self.c.state(job), "PENDING")
        self.assertEqual(self.c.ok("squeue", "-h", "-j", job, "-o", "%r").strip(), "JobHeldUser")
        self.c.ok("scontrol", "release", job)
        self.assertEqual(self.c.wait(job), "COMPLETED")
        later = self.c.wrap("true", "--begin=now+1hour")
        self.assertEqual(self.c.ok("squeue", "-h", "-j", later, "-o", "%r").strip(), "BeginTime")
        self.c.ok("scontrol", "update", f"jobid={later}", "starttime=now+2")
        self.assertEqual(self.c.wait(later), "COMPLETED")

    def test_time_limit_and_signal_ahead(self):
        job = self.c.sbatch(self.c.script("#!/bin/bash\n#SBATCH --time=0:08\n#SBATCH --signal=B:USR1@2\n"
                                          "trap 'echo warned' USR1\nfor i in $(seq 200); do sleep 0.1; done\n", "limit.sh"))
        self.assertEqual(self.c.wait(job, timeout=60), "TIMEOUT")
        self.assertIn("warned", self.c.output(job))

    def test_requeue_keeps_the_id(self):
        job = self.c.wrap("sleep 1.1; echo run $SLURM_RESTART_COUNT; sleep 30", "--requeue", "--open-mode=append")
        self.c.wait(job, "RUNNING")
        eventually(lambda: "run" in self.c.output(job), 10)
        self.c.ok("scontrol", "requeue", job)
        eventually(lambda: "run 1" in self.c.output(job), 30, "the second run")
        self.c.ok("scancel", job)
        self.assertEqual(self.c.wait(job), "CANCELLED")
        # The first run is a row of its own, with the time that it took.
        def first_run():
            rows = self.c.ok("sacct", "-nPDX", "-j", job, "-o", "State,ElapsedRaw,CPUTimeRAW,Start,End").splitlines()
            return rows[0].split("|") if len(rows) == 2 and rows[1].startswith("CANCELLED") else None
        state, elapsed, cpu, start, end = eventually(first_run, 10, "both rows")
        self.assertEqual(state, "REQUEUED")
        self.assertGreaterEqual(int(elapsed), 1)
        self.assertGreaterEqual(int(cpu), int(elapsed))
        self.assertLess(start, end)
        self.assertIn("REQUEUED", self.c.ok("sacct", "-nPDX", "-j", job, "-s", "RQ", "-o", "State"))

    def test_cancel_pending_and_running(self):
        running = self.c.wrap("sleep 60")
        self.c.wait(running, "RUNNING")
        held = self.c.wrap("true", "--hold")
        self.c.ok("scancel", running, held)
        self.assertEqual(self.c.wait(running), "CANCELLED")
        self.assertEqual(self.c.wait(held), "CANCELLED")

    # --- srun, salloc ---

    def test_a_step_of_no_job_cannot_be_cancelled(self):
        done = self.c.wrap("true", user=1001)
        self.c.wait(done, "COMPLETED")
        for target in ("999999.0", "999999.batch", f"{done}.0"):
            result = self.c.run("scancel", target, user=1001)
            self.assertEqual((result.returncode, result.stderr),
                             (1, f"scancel: error: Kill job error on job step id {target}: Invalid job id specified\n"))
        result = self.c.run("scancel", "-Q", "999999.0", user=1001)
        self.assertEqual((result.returncode, result.stderr), (1, ""))
        alive = self.c.wrap("sleep 600", user=1001)
        self.c.wait(alive, "RUNNING")
        result = self.c.run("scancel", f"{alive}.7", user=1001)
        self.assertEqual((result.returncode, result.stderr),
                         (1, f"scancel: error: Kill job error on job step id {alive}.7: Invalid job id specified\n"))
        result = self.c.run("scancel", "999999", user=1001)  # it may have ended just now
        self.assertEqual((result.returncode, result.stderr), (0, ""))
        for target in ("999999", done):
            result = self.c.run("scancel", "-s", "USR1", target, user=1001)
            self.assertEqual((result.returncode, result.stderr),
                             (1, f"scancel: error: Kill job error on job id {target}: Invalid job id specified\n"))
        for words in (("-u", ""), ("--state=", "--me")):
            self.assertEqual(self.c.run("scancel", *words, user=1001).returncode, 1)
        for words in (("--name=",), ("--reservation=", "--me"), ("-A", "", alive)):
            self.assertEqual(self.c.run("scancel", *words, user=1001).returncode, 0)
        self.assertEqual(self.c.ok("squeue", "-h", "-j", alive, "-o", "%T").strip(), "RUNNING")
        result = self.c.run("srun", "-r", "1", "true", user=1001)
        self.assertEqual((result.returncode, result.stderr),
                         (1, "srun: fatal: --relative option invalid for job allocation request\n"))
        self.c.ok("srun", "--het-group=1", "true", user=1001)
        self.c.ok("scancel", alive, user=1001)

    def test_srun_in_a_busy_job_says_so(self):
        out = self.c.run("salloc", "-n1", "-c1", "sh", "-c", "srun --exact -n1 sh -c 'touch here; sleep 600' & until [ -e here ]; do sleep 0.1; done;"
                         " srun --exact -n1 --immediate=1 true; code=$?; kill $!; wait; rm here; exit $code", user=1001)
        self.assertEqual(out.returncode, 1, out.stderr)
        self.assertRegex(out.stderr, r"srun: error: Unable to create step for job \d+: Requested nodes are busy\n")
        self.assertNotIn("contact", out.stderr)

    def test_sacct_refuses_an_end_before_the_start(self):
        for words in (["-S", "2030-01-02", "-E", "2030-01-01"], ["-S", "now+1days"], ["-j", "1", "-S", "now", "-E", "now-1hour"]):
            result = self.c.run("sacct", *words, user=1001)
            self.assertEqual((result.returncode, result.stdout), (1, ""), words)
            self.assertRegex(result.stderr, r"^sacct: error: Start time \(\S+\) requested is after end time \(\S+\)\.\n$")
        self.assertEqual(self.c.run("sacct", "-S", "now", user=1001).returncode, 0)

    def test_srun_labels_and_ranks(self):
        out = self.c.ok("srun", "-N2", "--ntasks-per-node=2", "-l", "sh", "-c", "echo $SLURM_PROCID $SLURM_LOCALID $SLURM_NODEID $(hostname) $SLURM_NTASKS")
        lines = sorted(out.strip().split("\n"))
        self.assertEqual(lines, ["0: 0 0 0 n1 4", "1: 1 1 0 n1 4", "2: 2 0 1 n2 4", "3: 3 1 1 n2 4"])

    def test_srun_exit_codes(self):
        self.assertEqual(self.c.run("srun", "-n2", "sh", "-c", "exit $((SLURM_PROCID + 3))").returncode, 4)
        self.assertEqual(self.c.run("srun", "sh", "-c", "kill -9 $$").returncode, 137)
        self.assertEqual(self.c.run("srun", "no-such-program-here").returncode, 2)
        self.assertEqual(self.c.run("srun", "true").returncode, 0)

    def test_srun_stdin_and_stdout(self):
        data = "".join(f"line {i}\n" for i in range(20000))
        result = self.c.run("srun", "cat", input=data)
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertEqual(result.stdout, data)

    def test_srun_output_per_task(self):
        self.c.ok("srun", "-n3", "-o", "t-%t.txt", "sh", "-c", "echo rank $SLURM_PROCID")
        self.assertEqual([open(os.path.join(self.c.work, f"t-{i}.txt")).read() for i in range(3)],
                         ["rank 0\n", "rank 1\n", "rank 2\n"])

    def test_gpus_are_never_shared(self):
        self.c.idle()
        out = self.c.ok("srun", "-N1", "--ntasks=4", "--gpus-per-task=1", "sh", "-c", "echo $CUDA_VISIBLE_DEVICES")
        self.assertEqual(sorted(out.split()), ["0", "1", "2", "3"])
        jobs = [self.c.wrap("echo $(hostname):$SLURM_JOB_GPUS; sleep 1", "--gpus=2") for _ in range(4)]
        for job in jobs:
            self.assertEqual(self.c.wait(job), "COMPLETED")
        seen = [self.c.output(job).strip() for job in jobs]
        taken = [f"{s.split(':')[0]}:{g}" for s in seen for g in s.split(":")[1].split(",")]
        self.assertEqual(len(taken), 8)
        self.assertEqual(len(set(taken)), 8, seen)

    def test_steps_inside_an_allocation(self):
        script = self.c.script("#!/bin/bash\n#SBATCH -N2 --ntasks-per-node=1\nsrun hostname\nsrun -N1 -n1 -w n2 hostname\n"
                               "srun --overlap -N1 -n1 sh -c 'echo step $SLURM_STEP_ID' &\nsrun --overlap -N1 -n1 sh -c 'echo step $SLURM_STEP_ID' &\nwait\n", "steps.sh")
        job = self.c.sbatch(script)
        self.assertEqual(self.c.wait(job), "COMPLETED", self.c.output(job))
        lines = self.c.output(job).split("\n")
        self.assertEqual(sorted(lines[:2]), ["n1", "n2"])
        self.assertEqual(lines[2], "n2")
        self.assertEqual(sorted(lines[3:5]), ["step 2", "step 3"])

    def test_a_step_has_no_more_tasks_than_the_job_has_cores(self):
        """As Slurm's, whether or not it overlaps with others; and a suspended job is not called a completing one."""
        job = self.c.wrap("sleep 60", "-n1")
        self.c.wait(job, "RUNNING")
        cores = int(self.c.show(job)["NumCPUs"])
        for words in (["--overlap"], []):
            result = self.c.run("srun", f"--jobid={job}", *words, f"-n{cores + 63}", "true")
            self.assertEqual(result.returncode, 1)
            self.assertIn(f"Unable to create step for job {job}: More processors requested than permitted: job {job} holds {cores} core",
                          result.stderr)
        self.assertEqual(len(self.c.ok("srun", f"--jobid={job}", "--overlap", "-O", "-n8", "hostname").split()), 8)
        self.c.ok("scontrol", "suspend", job)
        result = self.c.run("srun", f"--jobid={job}", "--overlap", "-n1", "true")
        self.assertIn(f"Job {job} is suspended", result.stderr)
        self.c.ok("scancel", job)

    def test_srun_forwards_signals(self):
        p = subprocess.Popen(["srun", "sh", "-c", "trap 'echo got; exit 9' TERM; echo ready; while :; do sleep 0.1; done"],
                             stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=self.c.env, cwd=self.c.work)
        self.assertEqual(p.stdout.readline(), "ready\n")
        p.send_signal(signal.SIGTERM)
        out, err = p.communicate(timeout=30)
        self.assertIn("got", out, err)
        self.assertEqual(p.returncode, 9, err)

    def test_salloc(self):
        result = self.c.run("salloc", "-N2", "--gpus-per-node=1", "sh", "-c", "echo $SLURM_JOB_NODELIST; srun hostname | sort; exit 7")
        self.assertEqual(result.returncode, 7, result.stderr)
        self.assertEqual(result.stdout, "n[1-2]\nn1\nn2\n")
        self.assertRegex(result.stderr, r"salloc: Granted job allocation \d+")
        named = self.c.run("salloc", "-N1", "sh", "-c", "echo $SLURM_JOB_NAME; squeue -h -j $SLURM_JOB_ID -o %j; env | grep -c SLURM_PROCID")
        self.assertEqual(named.stdout, "interactive\ninteractive\n0\n")

    def test_killed_srun_frees_its_allocation(self):
        p = subprocess.Popen(["srun", "-N2", "--exclusive", "-J", "orphan", "sleep", "600"], env=self.c.env, cwd=self.c.work)
        job = eventually(lambda: self.c.run("squeue", "-h", "-n", "orphan", "-t", "R", "-o", "%i").stdout.strip(), 20)
        p.terminate()
        p.wait(timeout=60)
        self.assertIn(self.c.wait(job, timeout=60), ("CANCELLED", "FAILED", "COMPLETED"))

    # --- queries ---

    def test_a_killed_srun_takes_its_step_along(self):
        """Inside a job, where nobody else would end it: the next step gets its GPUs, as an ordinary user sees it."""
        script = self.c.script("#!/bin/bash\nsrun --gpus=2 sleep 600 &\nuntil squeue -h -s -j $SLURM_JOB_ID -o %i | grep -q '\\.0$'; do sleep 0.2; done\n"
                               "kill -9 $!\nsrun --gpus=2 -t 5 echo next\n", "killed-srun.sh")
        job = self.c.sbatch("-N1", "--gpus=2", script, user=1001)
        self.assertEqual(self.c.wait(job, timeout=180), "COMPLETED")
        self.assertIn("next\n", self.c.output(job))
        states = self.c.ok("sacct", "-n", "-P", "-o", "JobID,State", "-j", job)
        self.assertIn(f"{job}.0|CANCELLED", states)
        self.assertIn(f"{job}.1|COMPLETED", states)

    def test_pages_know_their_names_and_each_column_once(self):
        """What the commands ask for is known to the pages; a misspelt filter is refused, not taken for none."""
        for argv in (("squeue", "--me", "-t", "all", "-u", "root", "-A", "x", "-p", "main", "-q", "normal", "-n", "x", "-r", "-w", "n1", "-L", "x", "-R", "x"),
                     ("squeue", "-s", "-u", "root"), ("squeue", "--json", "--me"), ("squeue", "--start"), ("sinfo", "-N", "-e", "-r", "-p", "main", "-n", "n1", "-t", "idle"),
                     ("sinfo", "-d"), ("sinfo", "-R"), ("sinfo", "-T"), ("sinfo", "--json", "-N"), ("sinfo", "--node=n1"), ("sinfo", "--nod", "n1"),
                     ("sacct", "-X", "-D", "-S", "now-1day", "-E", "now", "-A", "x", "-r", "main", "-s", "CD", "-q", "x", "-N", "n1", "--name", "x", "-u", "root"),
                     ("sacct", "-o", "jobid,state,jobid"), ("sacct", "--json", "-X"), ("sacct", "-l"), ("sshare", "-a", "-A", "x"), ("sshare", "-U"), ("sshare", "--json"),
                     ("sprio", "-w"), ("sprio", "-l", "-u", "root", "-p", "main"), ("sprio", "--json"), ("scontrol", "show", "config"), ("scontrol", "-d", "show", "nodes"),
                     ("scontrol", "show", "partitions"), ("scontrol", "show", "licenses"), ("scontrol", "show", "topology"), ("squeue", "-o", "%i %i %j")):
            result = self.c.run(*argv)
            self.assertNotIn("knows no", result.stderr, argv)
            self.assertNotIn("twice", result.stderr, argv)
        answer = self.c.run("curl", "-s", "--unix-socket", self.c.env["LOCKSTEP_SOCKET"], "http://l/slurm/v1/squeue?columns=jobid&usr=root").stdout
        self.assertIn("did you mean", answer)
        answer = self.c.run("curl", "-s", "--unix-socket", self.c.env["LOCKSTEP_SOCKET"], "http://l/slurm/v1/squeue?columns=jobid,name,jobid").stdout
        self.assertIn("asked for twice", answer)

    def test_squeue_formats(self):
        job = self.c.wrap("sleep 60", "-J", "fmt", "-N2", "-t", "10")
        self.c.wait(job, "RUNNING")
        self.assertEqual(self.c.ok("squeue", "-h", "-j", job, "-o", "%i|%j|%T|%t|%D|%N|%u|%P").strip(),
                         f"{job}|fmt|RUNNING|R|2|n[1-2]|root|main")
        self.assertEqual(self.c.ok("squeue", "-h", "-j", job, "--Format", "jobid:12 ,name:5|").rstrip("\n"), f"{job:<12} fmt  |")
        data = json.loads(self.c.ok("squeue", "--json", "-j", job))
        self.assertEqual(data["jobs"][0]["job_id"], int(job))
        self.assertIn("RUNNING", data["jobs"][0]["job_state"])
        header = self.c.ok("squeue").split("\n")[0]
        self.assertEqual(header.split(), ["JOBID", "PARTITION", "NAME", "USER", "ST", "TIME", "NODES", "NODELIST(REASON)"])
        self.c.ok("scancel", job)
        missing = self.c.run("squeue", "-j", "999999")
        self.assertEqual(missing.returncode, 1)
        self.assertIn("Invalid job id specified", missing.stderr)

    def test_sinfo(self):
        self.assertEqual(self.c.ok("sinfo", "-h", "-o", "%P|%D").strip(), "main*|2")
        out = self.c.ok("sinfo", "-h", "-N", "-o", "%n %G %c").strip().split("\n")
        self.assertEqual(out, ["n1 gpu:h100:4 16", "n2 gpu:h100:4 16"])
        json.loads(self.c.ok("sinfo", "--json"))

    def test_sacct(self):
        job = self.c.wrap("srun true; exit 3", "-J", "acct")
        self.assertEqual(self.c.wait(job), "FAILED")
        rows = eventually(lambda: (lambda r: r if len(r) >= 3 else None)(
            self.c.ok("sacct", "-n", "-P", "-j", job, "-o", "JobID,State,ExitCode").strip().split("\n")), 10)
        self.assertIn(f"{job}|FAILED|3:0", rows)
        self.assertIn(f"{job}.batch|FAILED|3:0", rows)
        self.assertIn(f"{job}.0|COMPLETED|0:0", rows)
        self.assertEqual(self.c.ok("sacct", "-X", "--parsable2", "-j", job, "-o", "JobID,State,NodeList").split("\n")[0], "JobID|State|NodeList")

    def test_hostnames_without_a_cluster(self):
        out = self.c.ok("scontrol", "show", "hostnames", "n[1-3,07],gpu1", env={"LOCKSTEP_SOCKET": "/nonexistent"})
        self.assertEqual(out.split(), ["n1", "n2", "n3", "n07", "gpu1"])

    def test_a_node_said_to_be_down_or_to_fail(self):
        resume = lambda: self.c.ok("scontrol", "update", "nodename=n2", "state=resume")  # noqa: E731
        self.addCleanup(resume)
        again, never = self.c.wrap("sleep 1000", "-w", "n2", "--requeue"), self.c.wrap("sleep 1000", "-w", "n2", "--no-requeue")
        for job in (again, never):
            self.c.wait(job, "RUNNING")
        self.c.ok("scontrol", "update", "nodename=n2", "state=fail", "reason=fan")
        self.assertEqual([self.c.state(job) for job in (again, never)], ["RUNNING", "RUNNING"])
        self.assertEqual(self.c.ok("sinfo", "-h", "-N", "-n", "n2", "-o", "%t %E").strip(), "drng fan")
        self.c.ok("scontrol", "update", "nodename=n2", "state=down", "reason=smoke")
        self.assertEqual(self.c.wait(never), "CANCELLED")
        self.c.wait(again, "PENDING")
        eventually(lambda: self.c.ok("sinfo", "-h", "-N", "-n", "n2", "-o", "%t %E").strip() == "drain smoke", what="nothing runs there")
        denied = self.c.run("scontrol", "update", "nodename=n2", "state=down")
        self.assertEqual((denied.returncode, "You must specify a reason when DOWNING a node" in denied.stderr), (1, True), denied.stderr)
        resume()
        self.c.wait(again, "RUNNING", timeout=150)
        self.c.ok("scancel", again)

    def test_all_fields(self):
        job = self.c.wrap("true", "-J", "every")
        self.c.wait(job)
        head, line = self.c.ok("squeue", "-t", "all", "-j", job, "-o", "%all").splitlines()
        self.assertTrue(head.startswith("ACCOUNT|"), head)
        self.assertEqual((head.count("|"), "|every|" in line), (line.count("|"), True), line)
        eventually(lambda: self.c.ok("sacct", "-nXP", "-j", job, "-o", "JobID"), what="accounting")
        head, line = self.c.ok("sacct", "-XP", "-j", job, "-o", "ALL").splitlines()
        names = self.c.ok("sacct", "-e").split()
        self.assertEqual((head.split("|"), len(line.split("|"))), (names, len(names)))

    def test_drain_and_resume(self):
        self.c.ok("scontrol", "update", "nodename=n2", "state=drain", "reason=test")
        self.assertIn(self.c.ok("sinfo", "-h", "-n", "n2", "-o", "%T").strip(), ("drained", "draining"))
        job = self.c.wrap("true", "-N2")
        eventually(lambda: "n2" in self.c.ok("squeue", "-h", "-j", job, "-o", "%R"), what="it is said what the job waits for")
        self.assertEqual(self.c.state(job), "PENDING")
        self.c.ok("scontrol", "update", "nodename=n2", "state=resume")
        self.assertEqual(self.c.wait(job), "COMPLETED")

    def test_scontrol_takes_options_and_keys_as_slurm_does(self):
        lines = self.c.ok("scontrol", "show", "nodes", "-oF").splitlines()
        self.assertEqual([line.split()[0] for line in lines], ["NodeName=n1", "NodeName=n2"])
        job = self.c.wrap("true", "--begin=now+1day", "-t", "90")
        self.c.ok("scontrol", "update", f"job={job}", "timel=5", "nic=7", "start=2031-01-01T10:00:00", env={"TZ": "UTC-9"})
        self.assertEqual((self.c.show(job)["TimeLimit"], self.c.show(job)["Nice"]), ("00:05:00", "7"))
        refused = self.c.run("scontrol", "update", f"job={job}", "time=5")
        self.assertEqual(refused.returncode, 1)
        self.assertIn("may mean timelimit, timemin", refused.stderr)
        self.c.ok("scontrol", "update", "node=n2", "stat=drain", "reas=fan")
        for zone, start in (("UTC", "2031-01-01T01:00:00"), ("UTC-9", "2031-01-01T10:00:00")):
            shown = self.c.ok("scontrol", "-o", "show", "job", job, env={"TZ": zone})
            self.assertIn(f" StartTime={start} ", shown)
            self.assertEqual(self.c.ok("squeue", "-h", "-j", job, "-o", "%S", env={"TZ": zone}), start + "\n")
        here, there = (self.c.ok("scontrol", "-o", "show", "node", "n2", env={"TZ": zone}) for zone in ("UTC", "UTC-9"))
        self.assertRegex(here, r"Reason=fan \[root@\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\]")
        self.assertNotEqual(here.split("BootTime=")[1].split()[0], there.split("BootTime=")[1].split()[0])
        self.c.ok("scontrol", "update", "nodename=n2", "state=resume")
        self.c.ok("scancel", job)
        self.c.ok("scontrol", "create", "reservation", "reservationname=kept", "start=2031-01-01T10:00:00", "duration=60", "users=root",
                  "nodes=n2", env={"TZ": "UTC-9"})
        times = {}
        for zone, start in (("UTC", "2031-01-01T01:00:00"), ("UTC-9", "2031-01-01T10:00:00")):
            env = {"TZ": zone}
            self.assertEqual(self.c.ok("sinfo", "-T", env=env).splitlines()[1].split()[:3], ["kept", "INACTIVE", start])
            self.assertIn(f" StartTime={start} ", self.c.ok("scontrol", "-o", "show", "reservation", "kept", env=env))
            said = [self.c.ok("scontrol", "show", "config", env=env).splitlines()[0],
                    self.c.run("sbatch", "--test-only", "-N1", "--wrap", "true", env=env).stderr,
                    self.c.run("srun", "--test-only", "-N1", "true", env=env).stderr]
            times[zone] = [re.search(r"\d{4}-\d\d-\d\dT(\d\d)", line).group(1) for line in said]
        for here, there in zip(times["UTC"], times["UTC-9"]):
            self.assertIn((int(there) - int(here)) % 24, (9, 10))
        self.c.ok("scontrol", "delete", "reservation=kept")

    def test_partitions_and_nodes_are_named_as_in_slurm(self):
        self.c.ok("scontrol", "create", "partition=spare", "nodes=n1")
        for verb, nodes in (("update", "n9"), ("create", "n[1,9]")):
            refused = self.c.run("scontrol", verb, f"partition={'spare' if verb == 'update' else 'other'}", f"nodes={nodes}")
            self.assertEqual(refused.returncode, 1)
            self.assertIn("Invalid node name specified: n9", refused.stderr)
        self.assertIn(" Nodes=n1 ", self.c.ok("scontrol", "-o", "show", "partition", "spare"))
        self.c.ok("scontrol", "delete", "partition=spare")
        self.assertNotIn("spare", self.c.ok("scontrol", "-o", "show", "partitions"))
        self.c.ok("scontrol", "update", "nodename=ALL", "state=drain", "reason=all")
        self.assertEqual(self.c.ok("sinfo", "-h", "-o", "%D %t").split(), ["2", "drain"])
        self.c.ok("scontrol", "update", "nodename=ALL", "state=resume")
        self.assertEqual(self.c.ok("sinfo", "-h", "-o", "%D %t").split(), ["2", "idle"])

    def test_states_of_partitions(self):
        c = self.c
        c.ok("scontrol", "create", "partitionname=night", "nodes=ALL")
        self.addCleanup(lambda: (c.idle(), c.ok("scontrol", "delete", "partitionname=night")))
        c.ok("scontrol", "update", "partitionname=night", "state=DOWN")
        waits, later = c.wrap("true", "-p", "night"), c.wrap("true", "-H", "-p", "night")
        for state, takes, starts, short in (("DRAIN", False, True, "drain"), ("INACTIVE", False, False, "inact"),
                                            ("DOWN", True, False, "down"), ("UP", True, True, "up")):
            c.ok("scontrol", "update", "partitionname=night", f"state={state}")
            self.assertIn(f" State={state} ", c.ok("scontrol", "-o", "show", "partition", "night"))
            self.assertEqual(c.ok("sinfo", "-h", "-p", "night", "-o", "%a").split(), [short])
            tried = c.run("sbatch", "--parsable", "-p", "night", "--wrap", "true")
            self.assertEqual(tried.returncode == 0, takes, tried.stderr)
            if takes:
                c.ok("scancel", tried.stdout.strip())
            else:
                self.assertIn("Batch job submission failed: Required partition not available (inactive or drain)\n", tried.stderr)
                held = c.wrap("true", "-H")
                moved = c.run("scontrol", "update", f"jobid={held}", "partition=night")
                self.assertIn("slurm_update error: Required partition not available (inactive or drain)\n", moved.stderr)
                c.ok("scancel", held)
            if state == "INACTIVE":
                c.ok("scontrol", "release", later)
                eventually(lambda: c.ok("squeue", "-h", "-j", later, "-o", "%r").strip() == "PartitionInactive")
            if starts:
                self.assertEqual(c.wait(waits), "COMPLETED")
        wrong = c.run("scontrol", "update", "partitionname=night", "state=asleep")
        self.assertNotEqual(wrong.returncode, 0)

    def test_steps_of_a_requeued_run_are_cancelled(self):
        job = self.c.wrap("srun sleep 60")
        eventually(lambda: self.c.run("squeue", "-hs", "-j", job).stdout.count(f"{job}.0"))
        self.c.ok("scontrol", "requeue", job)
        eventually(lambda: f"{job}.0|CANCELLED" in self.c.run("sacct", "-nPDj", job, "-o", "JobID,State").stdout, 20)
        self.c.ok("scancel", job)

    def test_an_array_that_has_started_is_not_said_to_wait(self):
        job = self.c.wrap("sleep 60", "--array=3-4")
        self.c.wait(f"{job}_4", ("RUNNING",))
        self.assertIn(f"All its elements have started. Ask for one of them, such as {job}_3.", self.c.ok("lockstep", "explain", job))
        self.c.ok("scancel", job)

    def test_output_of_others_is_not_said_to_be_none(self):
        job = self.c.wrap("true", "-H")
        refused = self.c.run("lockstep", "logs", job, user=1001)
        self.assertEqual(refused.returncode, 1)
        self.assertIn("another user's", refused.stderr)
        self.c.ok("scancel", job)

    def test_widths_are_those_of_a_terminal(self):
        job = self.c.wrap("true", "-H", "-J", "größe訓練")
        self.assertEqual(self.c.ok("squeue", "-h", "-j", job, "-o", "%.5j|%7j|%.12j|"), "größe|größe訓|   größe訓練|\n")
        self.c.ok("scancel", job)

    def test_ping_and_config(self):
        self.assertIn("is UP", self.c.ok("scontrol", "ping"))
        config = self.c.ok("scontrol", "show", "config")
        self.assertRegex(config, r"(?m)^ClusterName +=")
        self.assertRegex(config, r"(?m)^ProctrackType +  *= proctrack/cgroup$")
        self.assertIn(" [pyxis] ", self.c.ok("srun", "--help"))

    def test_an_empty_item_of_a_list_is_none(self):
        c = self.c
        job = c.wrap("true", "-H", "-p", "main,", "-w", "n1,", "--array=1,2,", "--gres=gpu:1,", "-d", "singleton,")
        for words in (("squeue", "-O", "jobid:8,", "-j", job + ","), ("squeue", "-O", ",jobid:8,", "-t", "PD,", "-j", job),
                      ("squeue", "-o", "%8A", "-p", ",main,", "-u", "root,", "-j", job),
                      ("squeue", "-o", "%8A", "-n", "wrap,", "-j", job)):
            with self.subTest(words=words):
                self.assertEqual({line.strip() for line in c.ok(*words, "-h").splitlines()}, {job})
        self.assertEqual(c.ok("squeue", "-h", "-r", "-j", job, "-o", "%K").split(), ["1", "2"])
        self.assertEqual(c.ok("sinfo", "-h", "-O", "nodehost:3,", "-n", "n1,", "-p", "main,", "-t", "idle,mixed,alloc,"), "n1 \n")
        c.ok("scontrol", "update", f"jobid={job},", "nice=1")
        self.assertEqual(c.ok("scontrol", "show", "hostnames", "n1,n2,").split(), ["n1", "n2"])
        done = c.wrap("true")
        c.wait(done)
        shown = eventually(lambda: c.ok("sacct", "-nXP", "-j", f"{done},", "-o", "jobid,state,", "-s", "CD,F,").strip())
        self.assertEqual(shown, f"{done}|COMPLETED")
        for states, said in (("CD,NONSENSE", "sacct: fatal: unrecognized job state value 'NONSENSE'\n"),
                             ("CG", "sacct: fatal: job state CG is not supported / accounted\n")):
            refused = c.run("sacct", "-j", done, "-s", states)
            self.assertEqual((refused.returncode, refused.stderr, refused.stdout), (1, said, ""))
        self.assertEqual(c.ok("sacct", "-nX", "-j", done, "-s", "RS"), "")
        c.ok("scancel", f"{job},,")
        self.assertEqual(c.ok("squeue", "-h", "-t", "PD", "-j", job), "")

    def test_what_tools_read_of_jobs_and_steps(self):
        c = self.c
        later = c.wrap("true", "-b", "2030-01-20T10:00:00")
        shown = c.ok("scontrol", "show", "jobid", "-dd", later)
        self.assertIn(f"JobId={later} ", shown)
        self.assertRegex(shown, r"EligibleTime=2030-01-20T10:00:00")
        self.assertRegex(shown, r"StartTime=2030-01-20T10:00:00")
        self.assertEqual(c.ok("squeue", "-h", "-j", later, "-O", "eligibletime:.19"), "2030-01-20T10:00:00\n")
        c.ok("scancel", later)
        job = c.wrap("srun true; srun sleep 100")
        eventually(lambda: f"StepId={job}.1 " in c.run("scontrol", "-o", "show", "step", job).stdout, what="the second step")
        self.assertNotIn(f"StepId={job}.0 ", c.ok("scontrol", "-o", "show", "step", job))
        self.assertEqual(c.ok("squeue", "--only-job-state", "-h", "-j", job, "-o", "%T"), "RUNNING\n")
        cluster = c.ok("scontrol", "show", "config").split("ClusterName")[1].split()[1]
        self.assertTrue(c.ok("squeue", "-M", cluster).startswith(f"CLUSTER: {cluster}\n"))
        c.ok("scancel", job)

    def test_a_folder_for_temporary_files(self):
        c = self.c
        own = os.path.join(c.work, "own-tmp")
        for tmpdir, said in ((None, "/tmp\n/tmp\n"), (own, f"{own}\n{own}\n")):
            env = {**c.env, **({"TMPDIR": tmpdir} if tmpdir else {})}
            env = env if tmpdir else {k: v for k, v in env.items() if k != "TMPDIR"}
            job = subprocess.run(["sbatch", "--parsable", "--wrap", "echo $TMPDIR; srun sh -c 'echo $TMPDIR'"], env=env, cwd=c.work,
                                 capture_output=True, text=True, check=True).stdout.strip()
            self.assertEqual(c.wait(job), "COMPLETED")
            self.assertEqual(c.output(job), said)
        self.assertTrue(os.path.isdir(own))

    def test_a_signal_to_all_of_a_job_comes_once(self):
        c = self.c
        script = c.script("#!/bin/bash\ntrap 'echo script' USR1\n"
                          "srun bash -c \"trap 'echo step >> $PWD/full.out' USR1; touch $PWD/full.up; while :; do sleep 0.05; done\" &\n"
                          "while :; do wait; done\n", "full.sh")
        job = c.sbatch(script)
        eventually(lambda: os.path.exists(os.path.join(c.work, "full.up")), what="the step")
        told = os.path.join(c.work, "full.out")
        for count in (1, 2):  # a second one that came late would have been counted before the next
            c.ok("scancel", "--full", "--signal=USR1", job)
            eventually(lambda: os.path.exists(told) and len(open(told).readlines()) >= count, what="the signal")
            eventually(lambda: c.output(job).count("script\n") >= count, what="the signal to the script")
        c.ok("srun", f"--jobid={job}", "--overlap", "true")
        self.assertEqual(open(told).readlines(), ["step\n"] * 2)
        c.ok("scancel", job)


if __name__ == "__main__":
    unittest.main()
