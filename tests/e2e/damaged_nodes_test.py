"""What a node keeps is lost, damaged, or has no room: nothing runs twice, and the status says what is wrong."""
import os
import shutil
import signal
import subprocess
import time
import unittest

from cluster import Cluster, eventually, running, send
from damages import empty, flipped, garbage, missing, truncated


class NodesState(unittest.TestCase):
    """What a node keeps of its jobs is lost or damaged while they run: nothing runs twice, and nothing is given out twice."""

    SCRIPT = r"""#!/bin/sh
srun sh -c 'exec 9>"lock-$SLURM_PROCID"; flock -n 9 || echo "$SLURM_PROCID" >>twice
echo $$ >>"started-$SLURM_PROCID"; while [ ! -e go ]; do sleep 0.1; done'
"""

    def setUp(self):
        self.c = Cluster(nodes=2, gpus="2xh100", cpus=4)
        self.addCleanup(self.c.down)
        self.c.up()
        self.state = os.path.join(self.c.dir, "nodes", "n1", "state")
        self.journal = os.path.join(self.state, "journal")

    def gang(self):
        job = self.c.sbatch("-N2", "--gres=gpu:2", self.c.script(self.SCRIPT))
        for rank in "01":
            eventually(lambda: os.path.exists(os.path.join(self.c.work, "started-" + rank)), 60, "the gang runs")
        return job

    def without_agent(self, deed):
        """Does it while n1 has no agent; another one is up again when this returns."""
        node = self.c.node("n1")
        os.kill(node["pid"], signal.SIGSTOP)
        send(node["agent_pid"])
        while running(node["agent_pid"]):
            time.sleep(0.01)
        try:
            deed(f"/proc/{node['pid']}/root/run/lockstep-agent")
        finally:
            os.kill(node["pid"], signal.SIGCONT)
        eventually(lambda: self.c.node("n1")["agent_pid"] not in (0, node["agent_pid"]), 60, "another agent")

    def reason(self):
        return self.c.node("n1")["reason"]

    def count(self, name):
        path = os.path.join(self.c.work, name)
        if not os.path.exists(path):
            return 0
        with open(path) as f:
            return len(f.readlines())

    def test_a_lost_or_damaged_journal_starts_nothing_twice(self):
        before = os.path.join(self.c.home, "older-journal")
        shutil.copy(self.journal, before)
        job = self.gang()
        waiting = self.c.wrap("true", "-N2", "--gres=gpu:2")
        damages = {d.__name__: (lambda path, d=d: d(path)) for d in (empty, truncated, flipped, garbage, missing)}
        damages["older"] = lambda path: shutil.copy(before, path)
        for name, damage in damages.items():
            with self.subTest(damage=name):
                self.without_agent(lambda run: damage(self.journal))
                eventually(lambda: self.journal in self.reason(), 60, "the damage is named")
                self.assertIn("journal", self.c.log_tail(200))
                self.assertEqual(self.c.state(job), "RUNNING")
                self.assertEqual(self.c.state(waiting), "PENDING", "its GPUs are in use")
        with self.subTest(damage="while the agent runs"):
            os.unlink(self.journal)
            self.c.ok("srun", "--overlap", f"--jobid={job}", "-N1", "-w", "n1", "true", timeout=60)
            eventually(lambda: os.path.exists(self.journal), 30, "it is written anew")
            self.without_agent(lambda run: None)
            eventually(lambda: self.c.run("srun", "--overlap", f"--jobid={job}", "-N1", "-w", "n1", "true").returncode == 0, 60)
        with self.subTest(damage="nothing but the shims is left"):
            def forget(run):
                os.unlink(self.journal)
                for name in ("journal.tip", "lease"):
                    os.unlink(os.path.join(run, name))
            self.without_agent(forget)
            eventually(lambda: self.journal in self.reason(), 60, "the damage is named")
        self.assertEqual(self.c.state(job), "RUNNING")
        self.assertEqual([self.count("started-0"), self.count("started-1"), self.count("twice")], [1, 1, 0])
        open(os.path.join(self.c.work, "go"), "w").close()
        self.assertEqual(self.c.wait(job), "COMPLETED")
        self.assertEqual(self.c.wait(waiting), "COMPLETED")

    def test_work_whose_files_are_gone_is_ended_before_it_runs_again(self):
        job = self.gang()

        def forget(run):
            os.unlink(self.journal)
            shutil.rmtree(run)
            os.mkdir(run, 0o711)

        self.without_agent(forget)
        for rank in "01":
            eventually(lambda: self.count("started-" + rank) == 2, 90, "it runs again")
        self.assertEqual(self.count("twice"), 0, "while the first still ran")
        self.assertIn("were ended and are reported as lost", self.reason())
        open(os.path.join(self.c.work, "go"), "w").close()
        self.assertEqual(self.c.wait(job), "COMPLETED")
        self.assertEqual(self.c.show(job)["Restarts"], "1")

    def test_a_full_disk_takes_no_work_and_says_so(self):
        self.c.ok("lockstep", "down", "--dir", self.c.dir)
        subprocess.run(["mount", "-t", "tmpfs", "-o", "size=4m", "tmpfs", self.state], check=True)
        self.addCleanup(subprocess.run, ["umount", "-l", self.state], check=False)
        self.c.up()
        filler = os.path.join(self.state, "filler")

        def fill(run):
            os.truncate(self.journal, os.path.getsize(self.journal))  # what was set aside
            with open(filler, "wb", buffering=0) as f:
                try:
                    while True:
                        f.write(bytes(4096))
                except OSError:
                    pass

        self.without_agent(fill)
        eventually(lambda: "is full" in self.reason(), 60, "the node says so")
        self.assertIn("drain", self.c.node("n1")["state"])
        job = self.c.wrap("hostname", "-w", "n1")
        other = self.c.wrap("hostname", "-w", "n2")
        self.assertEqual(self.c.wait(other), "COMPLETED")
        self.assertEqual(self.c.state(job), "PENDING", "it is not lost, and does not hang")
        os.unlink(filler)
        self.assertEqual(self.c.wait(job), "COMPLETED")
        self.assertNotIn("is full", self.reason())

    def test_a_full_place_for_shims_takes_no_work_and_says_so(self):
        """A node's /run is small and in memory."""
        pid = str(self.c.node("n1")["pid"])
        in_node = ["nsenter", "--target", pid, "--mount"]
        subprocess.run([*in_node, "mount", "-o", "remount,size=16m", "/run"], check=True)
        filled = subprocess.run([*in_node, "dd", "if=/dev/zero", "of=/run/filler", "bs=1M"], capture_output=True, text=True)
        self.assertIn("No space left", filled.stderr)
        eventually(lambda: "is full" in self.reason(), 60, "the node says so")
        self.assertIn("/run/lockstep-agent", self.reason())
        job = self.c.wrap("hostname", "-w", "n1")
        other = self.c.wrap("hostname")
        self.assertEqual(self.c.wait(other), "COMPLETED")
        self.assertEqual(self.c.state(job), "PENDING", "it is not lost, and does not hang")
        subprocess.run([*in_node, "rm", "/run/filler"], check=True)
        self.assertEqual(self.c.wait(job), "COMPLETED")
        self.assertNotIn("is full", self.reason())

    def test_lost_certificates_are_named_in_the_status(self):
        pki = os.path.join(self.c.dir, "nodes", "n1", "pki")
        for name in sorted(os.listdir(pki)):
            with self.subTest(name=name):
                path = os.path.join(pki, name)
                os.rename(path, path + ".aside")
                self.addCleanup(lambda: os.path.exists(path + ".aside") and os.rename(path + ".aside", path))
                self.assertIn("node n1 runs without a certificate", self.c.run("lockstep", "status").stdout)
                before = self.c.node("n1")
                send(before["agent_pid"])

                def told():  # of an end after this one: what is told may be of the file before
                    node = self.c.node("n1")
                    said = node["agent_last_end"]
                    is_new = node["agent_ends"] > before["agent_ends"] + 1
                    return is_new and name in said and f"or `lockstep down --dir {self.c.dir}` and" in said

                eventually(told, 60, "the status names it, as the notice does")
                os.rename(path + ".aside", path)
                eventually(lambda: self.c.run("srun", "-w", "n1", "true").returncode == 0, 90, "it is back")

    def test_unusable_certificates_are_made_anew(self):
        """Down and up heal them as they do lost ones, which is what the status promises."""
        pki = os.path.join(self.c.dir, "nodes", "n1", "pki")
        other = os.path.join(self.c.dir, "nodes", "n2", "pki")

        def anothers(path):
            shutil.copy(os.path.join(other, os.path.basename(path)), path)

        for name, damage in (("node.crt", garbage), ("node.crt", empty), ("node.key", truncated), ("node.key", empty),
                             ("node.key", anothers), ("ca.crt", garbage)):
            with self.subTest(name=name, damage=damage.__name__):
                self.c.ok("lockstep", "down", "--dir", self.c.dir)
                path = os.path.join(pki, name)
                damage(path)
                started = self.c.run("lockstep", "up", "--dir", self.c.dir, timeout=120)
                self.assertEqual(started.returncode, 0, started.stderr)
                if name != "ca.crt":
                    self.assertIn("the certificate of node n1 cannot be used, and it gets a new one", started.stderr)
                    self.assertIn(path, started.stderr)
                self.assertNotIn("node n2", started.stderr)
                self.c.ok("srun", "-w", "n1", "true")

    def test_what_is_no_file_of_gpus_holds_no_agent_up(self):
        gpus = os.path.join(self.c.dir, "nodes", "n1", "gpus")
        os.rename(gpus, gpus + ".aside")
        os.mkfifo(gpus)
        self.without_agent(lambda run: None)
        self.c.ok("srun", "-w", "n1", "true", timeout=60)
        self.assertIn("gpus is no regular file", self.c.log_tail(200))


if __name__ == "__main__":
    unittest.main()
