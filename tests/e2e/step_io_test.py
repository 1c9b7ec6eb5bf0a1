"""A step's input and output between nodes: straight from agent to agent, as a tree, and over agents that are killed."""
import hashlib
import os
import subprocess
import time
import unittest

from cluster import Cluster, eventually


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
                c.kill_agent(victim)
                time.sleep(0.7)
            c.wait(job)
            lines = sorted(line for line in c.output(job, "through.out").split("\n") if ":" in line)
            self.assertEqual(lines, sorted(f"{rank}:{i}" for rank in range(3) for i in range(1, 401)))
            self.assertIn("code 3", c.output(job, "through.out"))


if __name__ == "__main__":
    unittest.main()
