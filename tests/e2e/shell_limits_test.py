"""What the shell that ran `up` or a job's command hands on, and what it does not."""
import json
import os
import re
import shutil
import unittest

from cluster import Cluster

USER = 1001


class TheShellThatRanUp(unittest.TestCase):
    def test_its_hard_limit_of_file_sizes_is_a_full_disk(self):
        """An ordinary user's cluster cannot raise it: controller and agent live on, and say what they cannot write."""
        c = Cluster(nodes=0)
        os.chown(c.home, USER, USER)

        def lockstep(*argv):
            return c.run("lockstep", *argv, "--dir", c.dir, user=USER, env={"HOME": c.home}, timeout=100)

        try:
            self.assertEqual(lockstep("up").returncode, 0)
            lockstep("down")
            size = os.path.getsize(os.path.join(c.dir, "history.db")) // 1024 + 400
            limited = c.run("bash", "-c", f"ulimit -f {size}; exec lockstep up --dir {c.dir}", user=USER,
                            env={"HOME": c.home}, timeout=100)
            self.assertEqual(limited.returncode, 0, limited.stderr)
            pid = json.loads(lockstep("status", "-o", "json").stdout)["controller"]["pid"]
            for _ in range(40):  # scripts of 64 KiB, until the log is as large as it may be
                done = c.run("sbatch", "--hold", "--wrap", ": " + os.urandom(32768).hex(), user=USER)
                if done.returncode != 0:
                    break
            self.assertNotEqual(done.returncode, 0, "the limit was met")
            status = json.loads(lockstep("status", "-o", "json").stdout)
            self.assertEqual(status["controller"]["pid"], pid, status["controller"]["last_end"])
            self.assertEqual([n["agent_ends"] for n in status["nodes"]], [0])
        finally:
            lockstep("down")
            c.down()

    def test_its_limits_reach_nobody(self):
        c = Cluster(nodes=1, gpus=None, cpus=4)
        try:
            odd = ("ulimit -S -n 200; ulimit -S -f 400000; ulimit -S -s 1024; ulimit -S -c unlimited; trap '' INT HUP; umask 0; "
                   "exec nice -n 5 taskset -c 0 lockstep up --dir \"$0\" --nodes 1 --cpus 4")
            c.ok("bash", "-c", odd, c.dir, timeout=120)
            status = c.status()
            node = status["nodes"][0]
            with open("/proc/self/status") as f:
                cpus = re.search(r"Cpus_allowed:\t(\S+)", f.read()).group(1)
            for pid in (status["controller"]["pid"], status["controller"]["supervisor_pid"], node["pid"], node["agent_pid"]):
                with open(f"/proc/{pid}/limits") as f:
                    limits = f.read()
                self.assertRegex(limits, r"Max file size +unlimited")
                self.assertRegex(limits, r"Max stack size +8388608")
                self.assertRegex(limits, r"Max core file size +0 ")
                self.assertNotRegex(limits, r"Max open files +200 ")
                with open(f"/proc/{pid}/status") as f:
                    text = f.read()
                self.assertIn(f"Cpus_allowed:\t{cpus}\n", text)
                with open(f"/proc/{pid}/stat") as f:
                    self.assertEqual(f.read().rsplit(")", 1)[1].split()[16], "0", "nice")
            shown = "ulimit -S -n; ulimit -S -s; nice; grep Cpus_allowed: /proc/self/status"
            mine = c.ok("srun", "-n1", "bash", "-c", shown).split()
            self.assertEqual(mine[2:], ["0", "Cpus_allowed:", cpus])
            # Those of the shell that submits do.
            sent = c.ok("bash", "-c", f"ulimit -S -n 222; ulimit -S -s 2048; srun -n1 bash -c '{shown}'").split()
            self.assertEqual(sent[:2], ["222", "2048"])
            none = c.ok("bash", "-c", f"ulimit -S -n 222; ulimit -S -s 2048; srun --propagate=NONE -n1 bash -c '{shown}'").split()
            self.assertEqual(none[:2], ["1024", "8192"])
            one = c.ok("bash", "-c", f"ulimit -S -n 222; ulimit -S -s 2048; srun --propagate=STACK -n1 bash -c '{shown}; env'")
            self.assertEqual(one.split()[:2], ["1024", "2048"])
            self.assertNotIn("SLURM_RLIMIT", one)
            c.ok("bash", "-c", f"ulimit -S -n 333; sbatch --wait -o {c.work}/limits.out --wrap 'ulimit -S -n'")
            with open(f"{c.work}/limits.out") as f:
                self.assertEqual(f.read(), "333\n")
            bad = c.run("sbatch", "--propagate=SPEED", "--wrap", "true")
            self.assertNotEqual(bad.returncode, 0)
            self.assertIn("NOFILE", bad.stderr)
        finally:
            c.down()

    def test_names_that_cannot_be_written_are_refused(self):
        c = Cluster(nodes=0)
        try:
            for name in ("x\ny", "a=b", "#x", "a b", "", "x" * 65, "\x1b[2J"):
                said = c.run("lockstep", "up", "--dir", c.dir, "--name", name)
                self.assertEqual(said.returncode, 2, name)
                self.assertIn("letters, digits", said.stderr)
            said = c.run("lockstep", "up", "--dir", c.dir, "--nodes", "1", "--gpus", "8xh\nname=evil")
            self.assertEqual(said.returncode, 2)
            self.assertFalse(os.path.exists(c.dir), "nothing was made")
        finally:
            shutil.rmtree(c.home, ignore_errors=True)


if __name__ == "__main__":
    unittest.main()
