"""Programs of the site around jobs: when they run, as whom and with what, what follows when they fail or hang, and that
an agent that is killed neither forgets one nor runs it twice. And the node's health: what closes it, and opens it again."""
import json
import os
import signal
import subprocess
import time
import unittest

from cluster import Cluster, eventually, send


class HookedCluster(Cluster):
    """Hooks are files that root owns; what they see they write down in `seen`."""

    def __init__(self, hooks=None, health=None, **kwargs):
        super().__init__(gpus=kwargs.pop("gpus", None), cpus=2, **kwargs)
        self.hooks = os.path.join(self.home, "hooks")
        os.mkdir(self.hooks, 0o755)
        self.seen_file = os.path.join(self.home, "seen")
        settings = {"hooks": {k: self.named(v) for k, v in (hooks or {}).items()},
                    "health": {k: self.named(v) for k, v in (health or {}).items()}}
        self.settings = os.path.join(self.home, "settings.json")
        with open(self.settings, "w") as f:
            json.dump(settings, f)
        self.args += ["--agent-settings", self.settings]

    def named(self, value):
        """HERE stands for the folder of the hooks."""
        if isinstance(value, list):
            return [self.named(v) for v in value]
        return value.replace("HERE", self.hooks) if isinstance(value, str) else value

    def hook(self, name, text, mode=0o755):
        path = os.path.join(self.hooks, name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path + ".new", "w") as f:
            f.write("#!/bin/bash\n" + text)
        os.chmod(path + ".new", mode)
        os.rename(path + ".new", path)
        return path

    def teller(self, name, words, rest=""):
        return self.hook(name, f'echo "{words}" >> {self.seen_file}\n{rest}\n')

    def seen(self):
        try:
            with open(self.seen_file) as f:
                return f.read().splitlines()
        except FileNotFoundError:
            return []

    def node_state(self, node):
        text = self.ok("scontrol", "-o", "show", "node", node)
        return text.split("State=")[1].split()[0]

    def reason(self, node):
        out = self.ok("scontrol", "-o", "show", "node", node)
        return out.split("Reason=")[1] if "Reason=" in out else ""

    def inside(self, node, *argv):
        pid = str(self.node(node)["agent_pid"])
        return subprocess.run(["nsenter", "-t", pid, "-m", "-p", *argv], capture_output=True, text=True)


BOTH = {"prolog": ["HERE/prolog"], "epilog": ["HERE/epilog"]}


class Hooks(unittest.TestCase):
    def test_they_run_around_a_job_in_their_order_as_root(self):
        with HookedCluster({"prolog": ["HERE/prolog.d/*"], "epilog": ["HERE/epilog.d/*"]}, nodes=2) as c:
            facts = ("$SLURM_JOB_ID $SLURMD_NODENAME $(id -u) $SLURM_JOB_UID $SLURM_JOB_USER $SLURM_JOB_NAME $SLURM_JOB_PARTITION "
                     "$SLURM_JOB_NODELIST $SLURM_SCRIPT_CONTEXT secret=$SECRET preload=$LD_PRELOAD")
            c.teller("prolog.d/10-first", "10 " + facts)
            c.teller("prolog.d/20-second", "20")
            c.hook("epilog.d/10-first", f'echo "10 left: $(ps -C sleep -o stat= -o args= | grep -v ^Z)" >> {c.seen_file}\n')
            c.teller("epilog.d/20-second", "20 " + facts)
            open(c.seen_file, "w").close()
            os.chmod(c.seen_file, 0o666)
            job = c.wrap(f"echo script >> {c.seen_file}; sleep 1000 & setsid sleep 1000 & true", "-w", "n1", "-J", "hooked",
                         env={"SECRET": "mine", "SLURM_JOB_GPUS": "made-up"})
            self.assertEqual(c.wait(job), "COMPLETED")
            user = c.show(job)["UserId"]
            name, uid = user.split("(")[0], user.split("(")[1].rstrip(")")
            def told(context):
                return f"{job} n1 0 {uid} {name} hooked {c.show(job)['Partition']} n1 {context} secret= preload="
            eventually(lambda: len(c.seen()) == 5, 10, "the epilog")
            self.assertEqual(c.seen(), ["10 " + told("prolog_slurmd"), "20", "script",
                                        "20 " + told("epilog_slurmd"), "10 left: "])

    def test_steps_wait_for_the_prolog_of_their_node(self):
        with HookedCluster(BOTH, nodes=2) as c:
            go = os.path.join(c.home, "go")
            c.teller("prolog", "prolog $SLURMD_NODENAME", f'[ $SLURMD_NODENAME = n1 ] || while [ ! -e {go} ]; do sleep 0.02; done')
            c.teller("epilog", "epilog $SLURMD_NODENAME")
            open(c.seen_file, "w").close()
            os.chmod(c.seen_file, 0o666)
            job = c.wrap(f"srun -n2 -N2 sh -c 'echo step $SLURMD_NODENAME >> {c.seen_file}'", "-N2", "-w", "n1,n2")
            eventually(lambda: "prolog n2" in c.seen() and "step n1" in c.seen(), 15, "a step on n1")
            self.assertNotIn("step n2", c.seen())
            open(go, "w").close()
            self.assertEqual(c.wait(job), "COMPLETED")
            eventually(lambda: sum("epilog" in line for line in c.seen()) == 2, 10, "the epilogs")
            seen = c.seen()
            for node in ("n1", "n2"):
                order = [line for line in seen if line.endswith(node)]
                self.assertEqual(order, [f"prolog {node}", f"step {node}", f"epilog {node}"])

    def test_a_prolog_that_fails_drains_its_node_and_the_job_runs_elsewhere(self):
        with HookedCluster(BOTH, nodes=2) as c:
            c.teller("prolog", "prolog $SLURMD_NODENAME", 'echo "no link"; [ $SLURMD_NODENAME != n1 ] || exit 3')
            c.teller("epilog", "epilog $SLURMD_NODENAME")
            job = c.wrap("hostname", "--no-requeue", "-x", "n2")
            eventually(lambda: "DRAIN" in c.node_state("n1"), 15, "n1 to be drained")
            self.assertIn(f"Prolog error: {c.hooks}/prolog: exit code 3: no link (job {job})", c.reason("n1"))
            c.ok("scontrol", "update", f"jobid={job}", "excnodelist=")
            self.assertEqual(c.wait(job), "COMPLETED")
            self.assertEqual(c.output(job), "n2\n")
            self.assertEqual(c.show(job)["Restarts"], "0")
            self.assertEqual(c.seen(), ["prolog n1", "epilog n1", "prolog n2", "epilog n2"])
            c.hook("prolog", "true\n")
            c.ok("scontrol", "update", "nodename=n1", "state=resume")
            self.assertEqual(c.wait(c.wrap("hostname", "-w", "n1")), "COMPLETED")
            self.assertNotIn("DRAIN", c.node_state("n1"))

    def test_one_that_fails_everywhere_holds_the_job(self):
        with HookedCluster(BOTH, nodes=5) as c:
            c.hook("prolog", "exit 1\n")
            c.hook("epilog", "true\n")
            job = c.wrap("hostname")
            eventually(lambda: c.show(job)["Reason"] == "launch_failed_requeued_held", 30, "the job to be held")
            drained = [n for n in ("n1", "n2", "n3", "n4", "n5") if "DRAIN" in c.node_state(n)]
            self.assertEqual(len(drained), 3, drained)

    def test_an_interactive_job_fails(self):
        with HookedCluster(BOTH, nodes=1) as c:
            c.hook("prolog", "exit 1\n")
            c.hook("epilog", "true\n")
            result = c.run("srun", "hostname")
            self.assertNotEqual(result.returncode, 0)
            self.assertNotIn("n1", result.stdout)
            self.assertIn("Prolog error", c.reason("n1"))

    def test_hooks_that_hang_are_ended_with_their_children(self):
        with HookedCluster({**BOTH, "timeout_s": 1}, nodes=2) as c:
            c.hook("prolog", "[ $SLURMD_NODENAME != n1 ] || { setsid sleep 4321 & sleep 4321; }\n")
            c.hook("epilog", "true\n")
            job = c.wrap("hostname")
            eventually(lambda: "DRAIN" in c.node_state("n1"), 20, "n1 to be drained")
            self.assertIn(f"Prolog error: {c.hooks}/prolog: it took longer than 1 s and was ended", c.reason("n1"))
            self.assertEqual(c.inside("n1", "pgrep", "-f", "sleep 4321").stdout, "")
            self.assertEqual(c.wait(job), "COMPLETED")
            self.assertEqual(c.output(job), "n2\n")

    def test_an_epilog_knows_how_its_job_ended(self):
        with HookedCluster({"epilog": ["HERE/epilog"]}, nodes=2) as c:
            c.teller("epilog", "$SLURMD_NODENAME $SLURM_JOB_EXIT_CODE $SLURM_JOB_EXIT_CODE2 $SLURM_JOB_DERIVED_EC")
            job = c.sbatch(c.script("#!/bin/bash\n#SBATCH -N2 -n2\nhostname > first\nsrun sh -c 'exit $((SLURM_PROCID * 3 + 2))'\nsrun true\nexit 7\n"))
            self.assertEqual(c.wait(job), "FAILED")
            eventually(lambda: len(c.seen()) == 2, 10, "the epilogs")
            with open(os.path.join(c.work, "first")) as f:
                first = f.read().strip()
            other = {"n1": "n2", "n2": "n1"}[first]
            self.assertEqual(sorted(c.seen()), sorted([f"{first} 1792 7:0 512", f"{other}   1280"]))
            os.unlink(c.seen_file)
            job = c.wrap("kill -9 $$", "-w", "n1")
            c.wait(job)
            eventually(lambda: c.seen() == ["n1 9 0:9 "], 10, "the epilog")

    def test_an_epilog_that_fails_drains_and_the_job_has_completed(self):
        with HookedCluster(BOTH, nodes=1) as c:
            c.hook("prolog", "true\n")
            c.hook("epilog", "echo 'scratch is not empty'\nexit 4\n")
            job = c.wrap("true")
            self.assertEqual(c.wait(job), "COMPLETED")
            eventually(lambda: "DRAIN" in c.node_state("n1"), 10, "n1 to be drained")
            self.assertIn(f"Epilog error: {c.hooks}/epilog: exit code 4: scratch is not empty (job {job})", c.reason("n1"))

    def test_agents_that_are_killed_in_the_middle(self):
        with HookedCluster(BOTH, nodes=1) as c:
            go = os.path.join(c.home, "go")
            wait = f'while [ ! -e {go}.$SLURM_SCRIPT_CONTEXT ]; do sleep 0.02; done'
            c.teller("prolog", "prolog", wait + f"; echo prolog done >> {c.seen_file}")
            c.teller("epilog", "epilog $SLURM_JOB_NAME", wait)
            job = c.wrap("hostname", "-J", "kept")
            for hook, line in (("prolog_slurmd", "prolog"), ("epilog_slurmd", "epilog kept")):
                eventually(lambda: line in c.seen(), 15, line)
                before = c.node("n1")["agent_pid"]
                c.kill_agent("n1")
                eventually(lambda: c.node("n1")["agent_pid"] not in (0, before) and c.node("n1")["state"] != "down", 20,
                           "a new agent")
                if hook == "epilog_slurmd":  # everything has ended, and its place is not free
                    self.assertEqual(c.state(job), "COMPLETING")
                    self.assertNotEqual(c.run("srun", "-c2", "--immediate=1", "hostname").returncode, 0)
                open(f"{go}.{hook}", "w").close()
            self.assertEqual(c.wait(job), "COMPLETED")
            self.assertEqual(c.output(job), "n1\n")
            self.assertEqual(c.seen(), ["prolog", "prolog done", "epilog kept"])

    def test_programs_of_others_are_refused(self):
        with HookedCluster(BOTH, nodes=1) as c:
            c.hook("prolog", "true\n", mode=0o777)
            c.hook("epilog", "true\n")
            job = c.wrap("hostname")
            eventually(lambda: "DRAIN" in c.node_state("n1"), 15, "n1 to be drained")
            self.assertIn(f"Prolog error: {c.hooks}/prolog can be written by others", c.reason("n1"))
            c.wait(job, "PENDING")

    def test_settings_that_mean_nothing_are_refused(self):
        c = HookedCluster({"prologue": ["HERE/prolog"]}, nodes=1)
        try:
            result = c.run("lockstep", "up", "--dir", c.dir, *c.args)
            self.assertEqual(result.returncode, 1)
            self.assertIn("hooks: there is no such setting: prologue", result.stderr)
        finally:
            c.down()


class TaskPrograms(unittest.TestCase):
    def test_around_each_task(self):
        hooks = {"task_prolog": "HERE/task_prolog", "task_epilog": "HERE/task_epilog"}
        with HookedCluster(hooks, nodes=1) as c:
            open(c.seen_file, "w").close()
            os.chmod(c.seen_file, 0o666)
            c.hook("task_prolog", "echo export FROM_SITE=a site\necho unset GONE\necho print hello\necho silence\n")
            c.teller("task_epilog", "epilog $SLURM_PROCID of $FROM_SITE")
            mine = c.hook("mine", 'echo "export FROM_USER=[$FROM_SITE] $SLURM_PROCID"\n')
            show = 'echo "$FROM_SITE, $FROM_USER, $GONE."'
            out = c.ok("srun", f"--task-prolog={mine}", "sh", "-c", show, env={"GONE": "still here"})
            self.assertEqual(out, "hello\na site, [a site] 0, .\n")
            self.assertEqual(c.seen(), ["epilog 0 of a site"])
            job = c.wrap(show)
            self.assertEqual(c.wait(job), "COMPLETED")
            self.assertEqual(c.output(job), "hello\na site, , .\n")
            # The end of a task stays its own.
            self.assertEqual(c.run("srun", "sh", "-c", "exit 7").returncode, 7)
            self.assertEqual(c.run("srun", "sh", "-c", "kill -9 $$").returncode, 137)
            self.assertEqual(c.run("srun", "no-such-program").returncode, 2)
            self.assertEqual(len(c.seen()), 5)
            bad = c.hook("bad", "exit 5\n")
            result = c.run("srun", f"--task-prolog={bad}", "echo", "never")
            self.assertEqual((result.returncode, "never" in result.stdout), (5, False))
            self.assertIn(f"task prolog {bad}: exit code 5", result.stderr)

    def test_signals_reach_the_task_once(self):
        with HookedCluster({"task_epilog": "HERE/task_epilog"}, nodes=1) as c:
            c.hook("task_epilog", "true\n")
            job = c.sbatch(c.script("#!/bin/bash\ntrap 'echo one' USR1\necho ready\n"
                                    "for i in $(seq 200); do sleep 0.05; [ ! -e done ] || break; done\n"))
            out = os.path.join(c.work, f"slurm-{job}.out")
            eventually(lambda: os.path.exists(out) and "ready" in c.output(job), 15, "the script")
            c.ok("scancel", "--batch", "--signal=USR1", job)
            eventually(lambda: "one" in c.output(job), 15, "the signal")
            c.ok("scancel", "--full", "--signal=USR1", job)
            eventually(lambda: c.output(job).count("one") == 2, 15, "the second signal")
            open(os.path.join(c.work, "done"), "w").close()
            self.assertEqual(c.wait(job), "COMPLETED")
            said = [line for line in c.output(job).splitlines() if "User defined" not in line]  # of the sleep, by bash
            self.assertEqual(said, ["ready", "one", "one"])

    def test_beside_srun(self):
        with HookedCluster(nodes=1) as c:
            before = c.teller("before", "before $SLURM_JOB_ID $*")
            after = c.teller("after", "after $SLURM_JOB_ID $*")
            out = c.ok("srun", f"--prolog={before}", f"--epilog={after}", "sh", "-c", f"echo $SLURM_JOB_ID; cat {c.seen_file}")
            job = out.splitlines()[0]
            self.assertEqual(out.splitlines()[1].split(" sh ")[0], f"before {job}")
            self.assertEqual([line.split(" sh ")[0] for line in c.seen()], [f"before {job}", f"after {job}"])


class Health(unittest.TestCase):
    def test_a_program_closes_the_node_and_opens_it(self):
        with HookedCluster(health={"program": "HERE/health", "interval_s": 1}, nodes=1) as c:
            c.hook("health", f"[ ! -e {c.home}/sick ] || {{ echo fan 3 stands still; exit 1; }}\n")
            self.assertEqual(c.wait(c.wrap("true")), "COMPLETED")
            open(os.path.join(c.home, "sick"), "w").close()
            eventually(lambda: "DRAIN" in c.node_state("n1"), 15, "n1 to be closed")
            self.assertIn("health check failed: program: fan 3 stands still", c.reason("n1"))
            self.assertIn("fan 3 stands still", c.ok("sinfo", "-R", "-o", "%100E"))
            os.unlink(os.path.join(c.home, "sick"))
            eventually(lambda: "DRAIN" not in c.node_state("n1"), 15, "n1 to be open")
            self.assertEqual(c.wait(c.wrap("true")), "COMPLETED")

    def test_a_program_drains_its_node_and_opens_it_again(self):
        with HookedCluster(health={"program": "HERE/health", "interval_s": 1}, nodes=2) as c:
            c.hook("health", f"""say() {{ scontrol update NodeName=$SLURMD_NODENAME State=$1 ${{2:+Reason="$2"}}; }}
[ "$SLURMD_NODENAME" = n1 ] || exit 0
if [ -e {c.home}/sick ]; then say DRAIN "NHC: fan 3"; else say RESUME; fi
scontrol update NodeName=n2 State=DRAIN Reason=mine 2> {c.home}/other
exit 0
""")
            open(os.path.join(c.home, "sick"), "w").close()
            eventually(lambda: c.reason("n1").startswith("NHC: fan 3 (said on n1)"), 15, "n1 to be drained")
            os.unlink(os.path.join(c.home, "sick"))
            eventually(lambda: "DRAIN" not in c.node_state("n1"), 15, "n1 to be open")
            eventually(lambda: "Access/permission denied" in open(os.path.join(c.home, "other")).read(), 10, "what it was told of n2")
            self.assertNotIn("DRAIN", c.node_state("n2"))
            # What an administrator drained stays, and so do the words.
            c.ok("scontrol", "update", "NodeName=n1", "State=DRAIN", "Reason=new fan")
            open(os.path.join(c.home, "sick"), "w").close()
            for _ in range(2):
                at = os.stat(os.path.join(c.home, "other")).st_mtime_ns
                eventually(lambda: os.stat(os.path.join(c.home, "other")).st_mtime_ns != at, 15, "the program once more")
                if os.path.exists(os.path.join(c.home, "sick")):
                    os.unlink(os.path.join(c.home, "sick"))
            self.assertTrue(c.reason("n1").startswith("new fan"), c.reason("n1"))
            self.assertIn("DRAIN", c.node_state("n1"))

    def test_gpus_that_are_missing_or_faulty(self):
        with HookedCluster(health={"look_s": 1}, nodes=1, gpus="4xh100") as c:
            gpus = os.path.join(c.dir, "nodes", "n1", "gpus")
            with open(gpus) as f:
                whole = f.read()

            def put(fault):
                with open(gpus + ".new", "w") as f:
                    f.write(whole + fault)
                os.rename(gpus + ".new", gpus)

            put("fault = 1 ecc\n")
            eventually(lambda: "suspect: gpu: GPU 1 (" in c.reason("n1"), 15, "the fault to be told")
            self.assertNotIn("DRAIN", c.node_state("n1"))  # the others do work
            put("fault = 1 missing\nfault = 2 missing\n")
            eventually(lambda: "health check failed: gpu: 2 of 4 GPUs are missing" in c.reason("n1"), 15, "n1 to be closed")
            self.assertIn("DRAIN", c.node_state("n1"))
            put("")
            eventually(lambda: c.reason("n1") == "" and "DRAIN" not in c.node_state("n1"), 15, "n1 to be open")

    def test_an_agent_does_not_wait_for_its_program(self):
        cluster = HookedCluster(health={"program": "HERE/health", "interval_s": 1}, nodes=1)
        cluster.teller("health", "begun", "exec sleep 50")
        with cluster as c:
            eventually(lambda: c.seen(), 15, "the program")
            agent = c.node("n1")["agent_pid"]
            send(agent, signal.SIGTERM)
            begun = time.monotonic()
            eventually(lambda: c.node("n1")["agent_pid"] not in (0, agent), 20, "the next agent")
            self.assertLess(time.monotonic() - begun, 20)
            self.assertEqual(c.reason("n1"), "")

    def test_a_full_disk_and_a_lost_mount(self):
        small = os.path.join("/tmp", f"lockstep-small-{os.getpid()}")
        os.mkdir(small)
        try:
            with HookedCluster(health={"look_s": 1, "disks": [small], "mounts": [small]}, nodes=1) as c:
                eventually(lambda: "is not mounted" in c.reason("n1"), 15, "the mount to be missed")
                self.assertEqual(c.inside("n1", "mount", "-t", "tmpfs", "-o", "size=1m", "small", small).returncode, 0)
                eventually(lambda: "DRAIN" not in c.node_state("n1"), 15, "n1 to be open")
                c.inside("n1", "dd", "if=/dev/zero", f"of={small}/fill", "bs=64k")
                eventually(lambda: "DRAIN" in c.node_state("n1"), 15, "n1 to be closed")
                self.assertIn(f"health check failed: disk: {small} is 100 % full", c.reason("n1"))
                c.inside("n1", "rm", f"{small}/fill")
                eventually(lambda: "DRAIN" not in c.node_state("n1"), 15, "n1 to be open again")
        finally:
            os.rmdir(small)


if __name__ == "__main__":
    unittest.main()
