"""Into a job that runs, and files to its nodes: lockstep shell and ssh, sbcast; and what a job made of what it held: seff.

As root, in a mount namespace of its own: an ordinary user with a shell is in its passwd.
"""
import ctypes
import os
import shutil
import subprocess
import tempfile
import unittest

from cluster import Cluster, eventually

GUEST = 31010
passwd = None  # our own


def setUpModule():
    global passwd
    if os.geteuid() != 0:
        return
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.unshare(0x00020000) != 0:  # CLONE_NEWNS
        raise OSError(ctypes.get_errno(), "unshare")
    subprocess.run(["mount", "--make-rprivate", "/"], check=True)
    with open("/etc/passwd") as f:
        text = f.read()
    passwd = tempfile.NamedTemporaryFile("w", prefix="lockstep-passwd-")
    passwd.write(text + f"lsguest:x:{GUEST}:{GUEST}::/:/bin/sh\n")
    passwd.flush()
    os.chmod(passwd.name, 0o644)
    subprocess.run(["mount", "--bind", passwd.name, "/etc/passwd"], check=True)


def tearDownModule():
    if passwd:
        subprocess.run(["umount", "/etc/passwd"], check=False)
        passwd.close()


class GettingIn(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.c = Cluster(nodes=3, gpus="4xh100", cpus=8)
        cls.c.up()
        cls.job = cls.c.wrap("sleep 1000", "-N2", "--ntasks-per-node=2", "--gpus-per-node=2", "-J", "held")
        eventually(lambda: cls.c.state(cls.job) == "RUNNING")

    @classmethod
    def tearDownClass(cls):
        cls.c.down()

    def nodes(self):
        return self.c.ok("squeue", "-h", "-j", self.job, "-o", "%N").strip()

    def test_a_command_in_a_job(self):
        said = self.c.ok("lockstep", "shell", self.job, "sh", "-c", "echo $SLURM_JOB_ID $SLURM_STEP_NUM_TASKS $CUDA_VISIBLE_DEVICES $(hostname)")
        job, tasks, gpus, host = said.split()
        self.assertEqual((job, tasks, gpus), (self.job, "1", "0,1"))
        second = self.c.ok("scontrol", "show", "hostnames", self.nodes()).split()[1]
        self.assertEqual(self.c.ok("lockstep", "shell", self.job, "-w", second, "hostname").strip(), second)
        failed = self.c.run("lockstep", "shell", self.job, "sh", "-c", "exit 7")
        self.assertEqual(failed.returncode, 7)

    def test_a_shell_on_a_terminal(self):
        said = subprocess.run(["script", "-qec", f"lockstep shell {self.job}", "/dev/null"], input="tty; echo in $SLURM_JOB_ID; exit\n",
                              text=True, capture_output=True, env={**self.c.env, "SHELL": "/bin/sh"}, cwd=self.c.work, timeout=60).stdout
        self.assertIn("/dev/pts/", said)
        self.assertIn(f"in {self.job}", said)

    def test_a_shell_nowhere(self):
        for words, what in ((("lockstep", "shell"), "which job?"), (("lockstep", "shell", "x"), "not the number of a job"),
                            (("lockstep", "ssh"), "which job?")):
            said = self.c.run(*words)
            self.assertEqual(said.returncode, 2, words)
            self.assertIn(what, said.stderr)
        gone = self.c.run("lockstep", "shell", "999999", "true")
        self.assertNotEqual(gone.returncode, 0)
        self.assertIn("Invalid job id", gone.stderr)

    def test_sbcast_to_every_node(self):
        source = os.path.join(self.c.work, "data.bin")
        with open(source, "wb") as f:
            f.write(os.urandom(3_000_000) + b"\0end")
        os.chmod(source, 0o750)
        there = os.path.join(self.c.work, "there")
        script = self.c.script(f"""#!/bin/sh
sbcast data.bin {there}.$SLURM_JOB_ID || exit 1
sbcast data.bin {there}.$SLURM_JOB_ID 2> refused && exit 2
sbcast -fp data.bin {there}.$SLURM_JOB_ID || exit 3
srun -l --ntasks-per-node=1 -n$SLURM_NNODES cmp data.bin {there}.$SLURM_JOB_ID
""", "bcast.sh")
        job = self.c.sbatch("-N1", "-n3", "--overcommit", script)
        self.assertEqual(self.c.wait(job), "COMPLETED", self.c.output(job))
        with open(os.path.join(self.c.work, "refused")) as f:
            self.assertIn("--force replaces it", f.read())
        copied = f"{there}.{job}"
        self.assertEqual(os.stat(copied).st_mode & 0o7777, 0o750)
        self.assertEqual(int(os.stat(copied).st_mtime), int(os.stat(source).st_mtime))
        self.assertFalse([name for name in os.listdir(self.c.work) if "lockstep-part" in name])

    def test_sbcast_wrongly(self):
        for words, what in ((("sbcast", "a"), "Need two file names, have 1 names"), (("sbcast", "a", "b"), "Need a job id"),
                            (("sbcast", "-j", self.job, "/no/such", "b"), "Can't open `/no/such`"),
                            (("sbcast", "-j", self.job, "/etc", "b"), "not a regular file")):
            said = self.c.run(*words)
            self.assertEqual(said.returncode, 1, words)
            self.assertIn(what, said.stderr)

    def test_seff(self):
        job = self.c.wrap("python3 -c 'import time\na = bytearray(50 << 20)\nend = time.process_time() + 0.5\nwhile time.process_time() < end: pass'; sleep 1",
                          "-c2", "--mem=1G")
        self.assertEqual(self.c.wait(job), "COMPLETED")
        said = eventually(lambda: self.c.run("seff", job).stdout)
        self.assertIn(f"Job ID: {job}\n", said)
        self.assertIn("State: COMPLETED (exit code 0)\nCores: 2\n", said)
        self.assertRegex(said, r"CPU Efficiency: \d+\.\d\d% of 00:00:0\d core-walltime")
        self.assertRegex(said, r"Memory Utilized: [56]\d\.\d\d MB\nMemory Efficiency: [456]\.\d\d% of 1\.00 GB\n")
        self.assertEqual(self.c.run("seff", "999999").returncode, 2)
        self.assertRegex(said, r"User/Group: \w+/[A-Za-z]\w*\n")
        for wrong in ("", f"{job}.batch", f"{job}.0", f"{job},{job}"):
            done = self.c.run("seff", wrong)
            self.assertEqual((done.returncode, done.stdout), (1, ""), wrong)
            self.assertIn(f"Invalid job id: {wrong}", done.stderr)
        array = self.c.wrap("true", "-a", "1-3")
        eventually(lambda: self.c.run("sacct", "-nXP", "-j", array, "-o", "state").stdout.split() == ["COMPLETED"] * 3)
        done = self.c.run("seff", array)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn(f"{array} has several jobs, of which this is {array}_", done.stderr)
        self.assertEqual(done.stdout.count("Job ID:"), 1)

    @unittest.skipUnless(shutil.which("ssh") and (shutil.which("sshd") or os.path.exists("/usr/sbin/sshd")), "openssh-client and openssh-server are not installed")
    def test_ssh_into_a_job(self):
        home = os.path.join(self.c.work, "home")
        os.makedirs(home + "/.ssh", mode=0o700)
        env = {"HOME": home}
        config = self.c.ok("lockstep", "ssh-config", env=env)
        self.assertEqual(self.c.ok("lockstep", "ssh-config", env=env), config)
        with open(home + "/.ssh/config", "w") as f:
            f.write(config)
        ssh = ("ssh", "-F", home + "/.ssh/config", f"job-{self.job}")
        said = self.c.run(*ssh, "echo $SLURM_JOB_ID $CUDA_VISIBLE_DEVICES $(id -u); exit 5", env=env)
        self.assertEqual(said.returncode, 5, said.stderr)
        self.assertEqual(said.stdout.split(), [self.job, "0,1", str(os.getuid())])
        sent = self.c.run(*ssh, "cat > got && wc -c < got", env=env, input="x" * 100_000)
        self.assertEqual(sent.stdout.strip(), "100000", sent.stderr)
        # A terminal, and what is left behind: until the job ends.
        for user in (0, GUEST) if passwd else (0,):
            with self.subTest(user=user):
                self.left_behind(home, ssh[:-1], user)
        tmp = os.path.join(self.c.work, "tmp")
        os.mkdir(tmp)
        said = self.c.run(*ssh, "pwd", env={**env, "TMPDIR": tmp})
        self.assertEqual(said.returncode, 0, said.stderr)
        eventually(lambda: not os.listdir(tmp))

    def left_behind(self, home, ssh, user):
        own = home
        if user:
            own = f"{home}-{user}"
            shutil.copytree(home, own)
            config = f"{own}/.ssh/config"
            with open(config) as f:
                text = f.read().replace(f"{home}/.ssh", f"{own}/.ssh")
            with open(config, "w") as f:
                f.write(text)
            subprocess.run(["chown", "-R", f"{user}:{user}", own], check=True)
            ssh = (*ssh[:-1], config)
        env = {"HOME": own}
        job = self.c.wrap("sleep 1000", user=user, env=env)
        eventually(lambda: self.c.state(job) == "RUNNING")
        to = (*ssh, f"job-{job}")
        mark = os.path.join(self.c.work, f"left-{user}")
        said = self.c.run(*to, f"nohup sleep 990 > /dev/null 2>&1 & echo $! > {mark}.1; setsid sh -c 'echo $$ > {mark}.2; exec sleep 991' > /dev/null 2>&1 & "
                               f"(sh -c 'echo $$ > {mark}.3; exec sleep 992' > /dev/null 2>&1 < /dev/null &) ; while ! [ -s {mark}.2 -a -s {mark}.3 ]; do sleep 0.05; done",
                          user=user or None, env=env)
        self.assertEqual(said.returncode, 0, said.stderr)
        terminal = self.c.run(*to[:1], "-tt", *to[1:], "tty; stat -c %G $(tty)", user=user or None, env=env, input="")
        self.assertRegex(terminal.stdout, r"/dev/pts/\d+\ntty\n", terminal.stderr)
        again = self.c.run(*to, f"for i in 1 2 3; do kill -0 $(cat {mark}.$i) && echo $i lives; done", user=user or None, env=env)
        self.assertEqual(again.stdout, "1 lives\n2 lives\n3 lives\n", again.stderr)
        eventually(lambda: len([step for step in self.c.ok("squeue", "-hs", "-j", job, "-o", "%i").split() if step.split(".")[1].isdigit()]) == 1,
                   what="one step, with what was left")
        self.c.ok("scancel", job)
        self.assertEqual(self.c.wait(job), "CANCELLED")
        eventually(lambda: not any(line in self.processes() for line in ("sleep 990", "sleep 991", "sleep 992")), what="the end of what was left")

    def processes(self):
        return subprocess.run(["ps", "-eo", "args"], capture_output=True, text=True, check=True).stdout.splitlines()


if __name__ == "__main__":
    unittest.main()
