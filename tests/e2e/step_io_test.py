"""A step's input and output between nodes: straight from agent to agent, as a tree, and over agents that are killed."""
import hashlib
import os
import signal
import subprocess
import unittest

from cluster import Cluster, eventually, handles


def connections(cluster, node, to_port_of_controller):
    """Addresses that processes of the node have connections to, the controller's left out."""
    pid = cluster.node(node)["agent_pid"]
    out = subprocess.run(["nsenter", "-t", str(pid), "-n", "ss", "-Htn", "state", "established"], capture_output=True,
                         text=True).stdout
    ends = [line.split()[-2:] for line in out.splitlines() if line.split()]
    own = cluster.node(node)["address"]
    return {there for here, there in ends if not there.endswith(f":{to_port_of_controller}") and not there.startswith(own + ":")}


class ManyNodes(unittest.TestCase):
    def test_a_tree_of_forty(self):
        with Cluster(nodes=40, gpus=None, cpus=2) as c:
            data = "".join(f"{i} {hashlib.sha1(str(i).encode()).hexdigest()}\n" for i in range(3000))
            with open(os.path.join(c.work, "data"), "w") as f:
                f.write(data)
            script = c.script("#!/bin/bash\n#SBATCH -N40 --ntasks-per-node=1 -o tree.out\n"
                              "srun cat < data > copies\nsrun --label hostname\n"
                              "srun sh -c 'exit $((SLURM_PROCID == 37 ? 5 : 0))' 2> /dev/null; echo code $?\nsleep 5\n")
            job = c.sbatch(script)
            port = int(c.ok("sh", "-c", f"sed 's/.*\"port\":\\([0-9]*\\).*/\\1/' {c.dir}/controller.json").strip())
            eventually(lambda: "code" in c.output(job, "tree.out") if os.path.exists(os.path.join(c.work, "tree.out")) else False,
                       60, "the steps")
            first = c.show(job)["BatchHost"]
            there = connections(c, first, port)
            self.assertEqual(c.wait(job), "COMPLETED")
            lines = c.output(job, "tree.out").split("\n")
            self.assertIn("code 5", lines)
            hosts = {line.split(": ")[1] for line in lines if ": n" in line}
            self.assertEqual(len(hosts), 40)
            with open(os.path.join(c.work, "copies")) as f:
                copies = f.read()
            self.assertEqual(len(copies), 40 * len(data))
            self.assertEqual(sorted(copies.splitlines()), sorted(data.splitlines() * 40))
            self.assertEqual(len(there), 32, there)  # the fan-out, whatever the size of the step


class Onlookers(unittest.TestCase):
    """sattach, beside the srun that accompanies the step."""

    def setUp(self):
        self.c = Cluster(nodes=2, gpus=None, cpus=4)
        self.c.up()
        self.addCleanup(self.c.down)

    def start(self, *argv):
        process = subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                                   env=self.c.env, cwd=self.c.work)
        self.addCleanup(process.kill)
        return process

    def test_it_hears_and_speaks_and_leaves_no_trace(self):
        c = self.c
        says = "echo begin; read a; echo got $a; read b; echo got $b; exit $((3 + SLURM_PROCID))"
        srun = self.start("srun", "-N2", "-n2", "-l", "sh", "-c", says)
        self.assertEqual({srun.stdout.readline() for _ in range(2)}, {"0: begin\n", "1: begin\n"})
        step = c.ok("squeue", "-h", "-s", "-o", "%i").strip()
        self.assertIn("\t2 tasks, 2 nodes (n[1-2])\n\n\tNode 0 (n1), 1 task(s): 0 \n", c.ok("sattach", "--layout", step))

        # One that is ended, and one that stands still, change nothing for the others.
        leaves, stopped = self.start("sattach", step), self.start("sattach", step)
        eventually(lambda: handles(leaves.pid, signal.SIGINT), what="sattach is there")
        leaves.send_signal(signal.SIGINT)
        self.assertEqual(leaves.wait(10), 130)
        stopped.send_signal(signal.SIGSTOP)
        looks = self.start("sattach", "-l", step)
        looks.stdin.write("one\n")
        looks.stdin.close()
        self.assertEqual({looks.stdout.readline() for _ in range(2)}, {"0: got one\n", "1: got one\n"})
        self.assertEqual({srun.stdout.readline() for _ in range(2)}, {"0: got one\n", "1: got one\n"})
        srun.stdin.write("two\n")
        srun.stdin.flush()
        self.assertEqual({srun.stdout.readline() for _ in range(2)}, {"0: got two\n", "1: got two\n"})
        self.assertEqual({looks.stdout.readline() for _ in range(2)}, {"0: got two\n", "1: got two\n"})
        self.assertEqual((srun.wait(20), looks.wait(20)), (4, 4))
        stopped.send_signal(signal.SIGCONT)

        # Filters, and who is to hear what is said.
        srun = self.start("srun", "-n2", "sh", "-c", "echo begin >&2; read a; echo got $a; sleep 1")
        srun.stderr.readline()
        step = c.ok("squeue", "-h", "-s", "-o", "%i").strip()
        looks = self.start("sattach", "-l", "--input-filter=1", "--output-filter=1", step)
        looks.stdin.write("for one\n")
        looks.stdin.flush()
        self.assertEqual(looks.stdout.readline(), "1: got for one\n")
        srun.stdin.write("for both\n")
        srun.stdin.close()
        self.assertEqual(sorted(srun.stdout.read().splitlines()), ["got for both", "got for one"])
        self.assertEqual((srun.wait(20), looks.wait(20)), (0, 0))

    def test_it_leaves_when_nobody_reads_any_more(self):
        c = self.c
        srun = self.start("srun", "sh", "-c", "echo begin; read a; echo got $a")
        srun.stdout.readline()
        step = c.ok("squeue", "-h", "-s", "-o", "%i").strip()
        looks = self.start("sattach", step)
        eventually(lambda: handles(looks.pid, signal.SIGINT), what="sattach is there")
        self.assertIsNone(looks.poll())
        looks.stdout.close()
        self.assertEqual(looks.wait(10), 128 + signal.SIGPIPE)
        srun.stdin.write("all\n")
        srun.stdin.close()
        self.assertEqual(srun.stdout.read(), "got all\n")
        self.assertEqual(srun.wait(20), 0)

    def test_a_step_ends_with_its_srun_all_the_same(self):
        c = self.c
        job = c.wrap("srun sleep 1000 & echo $! > pid; wait; echo over")
        eventually(lambda: os.path.exists(os.path.join(c.work, "pid")) and c.run("squeue", "-h", "-s", "-o", "%i").stdout.strip(), 20, "a step")
        step = f"{job}.0"
        looks = self.start("sattach", step)
        eventually(lambda: handles(looks.pid, signal.SIGINT), what="sattach is there")
        with open(os.path.join(c.work, "pid")) as f:
            agent = str(c.node(c.show(job)["BatchHost"])["agent_pid"])
            subprocess.run(["nsenter", "-t", agent, "-p", "-m", "kill", "-9", f.read().strip()], check=True)
        self.assertNotEqual(looks.wait(30), 0)

    def test_what_it_cannot_attach_to(self):
        c = self.c
        job = c.wrap("sleep 1000")
        c.wait(job, "RUNNING")
        for words, what in (((), "which step? Name one"), (("12",), "names no step"), (("x.1",), "Invalid job id"),
                            ((f"{job}.batch",), "goes into its file"), ((f"{job}.7",), "there is no step"),
                            (("999999.0",), "there is no step")):
            said = c.run("sattach", *words)
            self.assertEqual(said.returncode, 1, words)
            self.assertIn(what, said.stderr)
        srun = self.start("srun", "--jobid", job, "--overlap", "sh", "-c", "echo begin; read a")
        srun.stdout.readline()
        step = c.ok("squeue", "-h", "-s", "-o", "%i", "-j", job).split()[-1]
        for words, what in (("--output-filter=5", "no such task"), ("--pty", "has no terminal")):
            said = c.run("sattach", words, step)
            self.assertEqual(said.returncode, 1, words)
            self.assertIn(what, said.stderr)
        other = c.run("sattach", step, user=1234, timeout=20)
        self.assertNotEqual(other.returncode, 0)
        self.assertEqual(other.stdout, "")
        c.ok("scancel", job)


class AgentsThatEnd(unittest.TestCase):
    def test_output_goes_on(self):
        with Cluster(nodes=3, gpus=None, cpus=4) as c:
            script = c.script("#!/bin/bash\n#SBATCH -N3 --ntasks-per-node=1 -o through.out\n"
                              "srun sh -c 'for i in $(seq 1 400); do echo $SLURM_PROCID:$i; sleep 0.01; done; exit 3' 2> err\n"
                              "echo code $?\n")
            job = c.sbatch(script)
            out = os.path.join(c.work, "through.out")
            eventually(lambda: os.path.exists(out) and os.path.getsize(out) > 500, 20, "some output")
            first = c.show(job)["BatchHost"]
            others = [n for n in ("n1", "n2", "n3") if n != first]
            for victim in (others[0], first, others[1]):
                before = c.node(victim)["agent_pid"]
                c.kill_agent(victim)
                eventually(lambda: c.node(victim).get("agent_pid", before) not in (before, 0), 30, "another agent")
            c.wait(job)
            lines = sorted(line for line in c.output(job, "through.out").split("\n") if ":" in line)
            self.assertEqual(lines, sorted(f"{rank}:{i}" for rank in range(3) for i in range(1, 401)))
            self.assertIn("code 3", c.output(job, "through.out"))


if __name__ == "__main__":
    unittest.main()
