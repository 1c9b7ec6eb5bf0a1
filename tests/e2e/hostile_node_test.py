"""What an ordinary user tries against the node that runs the job: inherit, hang, hide, flood. The node goes on."""
import os
import signal
import subprocess
import time
import unittest

from cluster import Cluster, eventually, running, send

USER = 1001


def processes(*words):
    """Pids whose command line holds all the words."""
    found = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{pid}/cmdline", "rb") as f:
                line = f.read().replace(b"\0", b" ").decode(errors="replace")
        except OSError:
            continue
        if all(word in line for word in words):
            found.append(int(pid))
    return found


def parent(pid):
    with open(f"/proc/{pid}/stat") as f:
        return int(f.read().rsplit(")", 1)[1].split()[1])


def comm(pid):
    try:
        with open(f"/proc/{pid}/comm") as f:
            return f.read().strip()
    except OSError:
        return ""


def shim_of(pid):
    while pid > 1 and comm(pid) != "lockstep-shim":
        pid = parent(pid)
    return pid


class LeakyShell(Cluster):
    """Started from a shell that has a file of root's and a key open, as an administrator's may."""

    def up(self):
        secret = os.open("/etc/shadow", os.O_RDONLY)
        os.dup2(secret, 100, inheritable=True)
        os.dup2(secret, 9, inheritable=True)
        try:
            return subprocess.run(["lockstep", "up", "--dir", self.dir, *self.args], env=self.env, check=True,
                                  stdout=subprocess.PIPE, stderr=subprocess.PIPE, pass_fds=(9, 100), timeout=120)
        finally:
            for fd in (9, 100, secret):
                os.close(fd)


@unittest.skipIf(os.geteuid() != 0, "runs jobs of another user")
class HostileJobs(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.c = LeakyShell(nodes=2, gpus=None, cpus=8)
        cls.c.__enter__()

    @classmethod
    def tearDownClass(cls):
        cls.c.__exit__(None, None, None)

    def wrap(self, command, *options, **kwargs):
        return self.c.wrap(command, *options, user=USER, **kwargs)

    def test_a_job_inherits_three_descriptors_and_no_rights(self):
        job = self.wrap("ls -l /proc/self/fd; cat /proc/self/status; ls -l /proc/$PPID/fd; cat /proc/keys; ulimit -n -l; "
                        "echo done", "-N1")
        self.assertEqual(self.c.wait(job), "COMPLETED")
        text = self.c.output(job)
        opened = [line for line in text.splitlines() if " -> " in line and not line.endswith("/fd")]
        self.assertEqual(len(opened), 3, text)
        self.assertNotIn("shadow", text)
        self.assertNotIn("socket:", text)
        for field in ("CapInh", "CapPrm", "CapEff", "CapAmb", "SigBlk", "SigIgn"):
            self.assertIn(f"{field}:\t0000000000000000", text)
        self.assertIn("Groups:", text)
        self.assertIn("done", text)
        step = self.c.ok("srun", "-N1", "ls", "-l", "/proc/self/fd", user=USER)
        self.assertNotIn("shadow", step)
        self.assertNotIn("socket:", step)

    def test_the_node_is_closed_to_its_jobs(self):
        job = self.wrap("for f in /run/lockstep-agent/shims/*/record /run/lockstep-agent/shims/*/io.sock "
                        "/run/lockstep-agent/lease; do cat $f && echo OPEN $f; done; ls /run/lockstep-agent/shims/ && "
                        "cat /proc/$PPID/environ && echo OPEN environ; kill -9 $PPID && echo OPEN kill; echo end")
        self.assertEqual(self.c.wait(job), "COMPLETED")
        text = self.c.output(job)
        self.assertNotIn("OPEN", text)
        self.assertIn("end", text)

    def test_fifos_hang_nobody_but_their_job(self):
        fifo = os.path.join(self.c.work, "fifo")
        os.mkfifo(fifo)
        os.chmod(fifo, 0o666)
        for option in ("-i", "-o", "-e"):
            job = self.wrap("cat", option, fifo)
            self.c.wait(job, "RUNNING")
            self.c.ok("scancel", job, user=USER)
            self.assertEqual(self.c.wait(job), "CANCELLED")
            self.assertEqual(self.c.show(job)["ExitCode"], "0:15", "the first signal ended it, nobody had to kill it")
        result = self.c.run("timeout", "50", "srun", "-N1", "-i", fifo, "-t", "0:02", "cat", user=USER)
        self.assertNotIn(result.returncode, (0, 124), "its limit ended it")
        # Somebody who writes later is heard.
        job = self.wrap("cat", "-i", fifo)
        self.c.wait(job, "RUNNING")
        with open(fifo, "w") as f:
            f.write("late words\n")
        self.assertEqual(self.c.wait(job), "COMPLETED")
        self.assertEqual(self.c.output(job), "late words\n")

    def test_a_job_that_ignores_term_ends(self):
        job = self.wrap("trap '' TERM INT HUP; echo deaf; while :; do sleep 0.1; done")
        path = os.path.join(self.c.work, f"slurm-{job}.out")  # which is there once the job has begun
        eventually(lambda: os.path.exists(path) and self.c.output(job) == "deaf\n", 30, "it ignores signals")
        self.c.ok("scancel", job, user=USER)
        self.assertEqual(self.c.wait(job, timeout=45), "CANCELLED")  # kill_wait is 30 s

    def test_output_that_nobody_reads_stops_its_writer(self):
        srun = subprocess.Popen(["setpriv", f"--reuid={USER}", f"--regid={USER}", "--clear-groups", "srun", "-N1", "-n4",
                                 "-J", "flood", "cat", "/dev/zero"], env=self.c.env, cwd=self.c.work, stdout=subprocess.PIPE)
        try:
            srun.stdout.read(1000)
            send(srun.pid, signal.SIGSTOP)
            writers = eventually(lambda: [p for p in processes("cat", "/dev/zero") if comm(p) == "cat"], 10, "writers")
            shim = shim_of(writers[0])
            sizes = []
            for _ in range(8):
                time.sleep(0.5)
                sizes.append(sum(os.stat(f"/proc/{shim}/fd/{fd}").st_blocks * 512 for fd in os.listdir(f"/proc/{shim}/fd")
                                 if "output." in os.readlink(f"/proc/{shim}/fd/{fd}")))
            self.assertLess(max(sizes), 300 << 20, sizes)
            self.assertEqual(sizes[-1], sizes[-2], sizes)
        finally:
            self.c.ok("scancel", "-n", "flood")
            srun.kill()
            srun.wait()
            srun.stdout.close()
        eventually(lambda: not [p for p in processes("cat", "/dev/zero") if running(p)], 30, "the end of the writers")

    def test_a_killed_shim_leaves_nothing(self):
        job = self.wrap("(setsid sh -c 'setsid env -i sleep 98761 & env -i sleep 98761 &' &); exec sleep 98761", "-w", "n1")
        eventually(lambda: len(processes("sleep", "98761")) >= 3, 20, "the processes")
        send(shim_of(processes("sleep", "98761")[0]))
        self.assertEqual(self.c.wait(job), "FAILED")
        self.assertEqual(self.c.show(job)["Reason"], "RaisedSignal:9")
        self.assertEqual([p for p in processes("sleep", "98761") if running(p)], [])

    def test_a_shim_killed_while_the_agent_is_away_leaves_nothing(self):
        job = self.wrap("(setsid sh -c 'setsid env -i sleep 98762 & env -i sleep 98762 &' &); exec sleep 98762", "-w", "n2")
        other = self.wrap("sleep 5; echo lives", "-w", "n2")
        eventually(lambda: len(processes("sleep", "98762")) >= 3, 20, "the processes")
        self.c.wait(other, "RUNNING")
        shim = shim_of(processes("sleep", "98762")[0])
        self.c.kill_agent("n2")
        send(shim)
        self.assertEqual(self.c.wait(job), "FAILED")
        self.assertEqual([p for p in processes("sleep", "98762") if running(p)], [])
        self.assertEqual(self.c.wait(other), "COMPLETED")
        self.assertEqual(self.c.output(other), "lives\n")

    def test_more_steps_than_a_job_may_have_say_why(self):
        script = self.c.script("#!/bin/bash\n#SBATCH -N1 -n1 -o steps.out\n"
                               "for i in $(seq 1 280); do srun --overlap -n1 sleep 60 2>> step.err & done\n"
                               "while sleep 0.3; do grep -q 'most it may' step.err && break; done\n"
                               "jobs -r | wc -l; kill %1; exit 0\n", "steps.sh")
        job = self.c.sbatch(script, user=USER)
        self.assertEqual(self.c.wait(job, timeout=90), "COMPLETED")
        with open(os.path.join(self.c.work, "step.err")) as f:
            self.assertIn("the job runs 256 steps on node", f.read())


if __name__ == "__main__":
    unittest.main()
