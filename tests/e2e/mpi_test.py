"""Programs of MPICH, Open MPI and of Slurm's PMI-2 library that srun starts as one world, on one node and over several, and
worlds that come to a bad end."""
import glob
import os
import re
import shutil
import subprocess
import unittest

from cluster import Cluster, eventually

PROGRAMS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "programs")
ANN = 2000
KINDS = {"mpich": ("pmi2", "mpicc.mpich"), "openmpi": ("pmix", "mpicc.openmpi")}
LINE = re.compile(r"rank (\d+) of (\d+) on (\S+) beside (\d+) sum (\d+) from (\d+)")


class Mpi(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.cluster = Cluster(nodes=4, gpus=None, cpus=8)
        cls.cluster.up()
        cls.built = {}
        for name, (_, compiler) in KINDS.items():
            if shutil.which(compiler):
                cls.built[name] = cls.build(name, "mpi_world.c", compiler)
        if os.path.exists("/usr/include/slurm/pmi2.h"):
            cls.built["pmi2"] = cls.build("pmi2", "pmi2_world.c", "cc", "-lpmi2")

    @classmethod
    def build(cls, name, source, compiler, *more):
        program = os.path.join(cls.cluster.work, name)
        subprocess.run([compiler, os.path.join(PROGRAMS, source), "-o", program, *more], check=True, capture_output=True)
        return program

    @classmethod
    def tearDownClass(cls):
        cls.cluster.down()

    def servers(self):
        """Those of this cluster's jobs: other tests have worlds of their own meanwhile."""
        def is_ours(pid):
            try:
                with open(f"/proc/{pid}/environ") as f:
                    return f"LOCKSTEP_SCRATCH={self.cluster.home}/" in f.read()
            except OSError:  # it has ended
                return False
        found = subprocess.run(["pgrep", "-f", "^[^ ]*/lockstep-pmi "], capture_output=True, text=True).stdout.split()
        return [int(pid) for pid in found if is_ours(pid)]

    def program(self, name):
        if name not in self.built:
            self.skipTest(f"{name} is not installed: scripts/install-packages")
        return self.built[name]

    def srun(self, name, *options, what=(), **more):
        kind = KINDS[name][0] if name in KINDS else "pmi2"
        env = {"OMPI_MCA_btl_base_warn_component_unused": "0", "OMPI_ALLOW_RUN_AS_ROOT": "1"}
        return self.cluster.run("srun", f"--mpi={kind}", *options, self.program(name), *what, env=env, **more)

    def check_world(self, done, nodes, each):
        """All of one world, each with the right neighbours, as many on each node."""
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        size = nodes * each
        ranks = {}
        for line in done.stdout.splitlines():
            found = LINE.fullmatch(line)
            if found:
                rank, of, host, beside, total, before = found.groups()
                ranks[int(rank)] = host
                self.assertEqual((int(of), int(beside), int(total), int(before)),
                                 (size, each, size * (size - 1) // 2, (int(rank) + size - 1) % size), line)
        self.assertEqual(sorted(ranks), list(range(size)))
        self.assertEqual(sorted(list(ranks.values()).count(host) for host in set(ranks.values())), [each] * nodes)
        return ranks

    def check_end(self, done, code, words):
        self.assertEqual(done.returncode, code, done.stdout + done.stderr)
        self.assertIn(words, done.stderr)
        self.assertNotIn("rank", done.stdout)


class Worlds(Mpi):
    def both(self):
        for name in KINDS:
            with self.subTest(name):
                self.program(name)
                yield name

    def test_one_node(self):
        for name in self.both():
            self.check_world(self.srun(name, "-N1", "-n4"), 1, 4)

    def test_four_nodes(self):
        for name in self.both():
            ranks = self.check_world(self.srun(name, "-N4", "-n8"), 4, 2)
            self.assertEqual([ranks[0], ranks[1]], [ranks[0]] * 2)

    def test_ranks_dealt_out_in_turn(self):
        for name in self.both():
            ranks = self.check_world(self.srun(name, "-N2", "-n4", "-m", "cyclic"), 2, 2)
            self.assertEqual((ranks[0], ranks[1]), (ranks[2], ranks[3]))

    def test_alone(self):
        for name in self.both():
            self.check_world(self.srun(name, "-N1", "-n1"), 1, 1)

    def test_a_late_rank_is_waited_for(self):
        for name in self.both():
            self.check_world(self.srun(name, "-N2", "-n4", what=["late"]), 2, 2)

    def test_abort(self):
        for name in self.both():
            self.check_end(self.srun(name, "-N2", "-n4", what=["abort"]), 3, "task 1 on n1 called MPI_Abort (exit code 3)")

    def test_a_rank_that_is_killed(self):
        for name in self.both():
            self.check_end(self.srun(name, "-N2", "-n4", what=["die"]), 137, "task 1 on n1 ended without MPI_Finalize (signal 9)")

    def test_a_rank_that_goes_without_a_word(self):
        for name in self.both():
            self.check_end(self.srun(name, "-N2", "-n4", what=["exit"]), 1,
                           "task 1 on n1 ended without MPI_Finalize (exit code 0)")

    def test_a_rank_that_never_begins(self):
        for name in self.both():
            self.check_end(self.srun(name, "-N2", "-n4", what=["leave"]), 5,
                           "task 1 on n1 ended before it called MPI_Init, which the others wait for (exit code 5)")

    def test_programs_without_mpi(self):
        for kind in ("pmi2", "pmix"):
            done = self.cluster.run("srun", f"--mpi={kind}", "-N2", "-n4", "sh", "-c", "echo $SLURM_PROCID $SLURM_MPI_TYPE; exit $SLURM_PROCID")
            self.assertEqual(sorted(done.stdout.splitlines()), [f"{rank} {kind}" for rank in range(4)], done.stderr)
            self.assertEqual(done.returncode, 3)
            self.assertNotIn("MPI_Init", done.stderr)

    def test_ranks_without_a_processor_each_give_it_up_while_they_wait(self):
        here = len(os.sched_getaffinity(0))
        for ranks, told in ((1, "no"), (here + 1, "1")):
            said = self.cluster.run("srun", "--mpi=pmix", "-N1", f"-n{ranks}", "--overcommit", "sh", "-c",
                                    "echo ${OMPI_MCA_mpi_oversubscribe:-no}")
            self.assertEqual(said.stdout.splitlines(), [told] * ranks, said.stderr)

    def test_the_name_of_a_world_is_no_guess(self):
        """Its server is asked over TCP, and believes whoever knows that name."""
        names = [self.cluster.run("srun", "--mpi=pmix", "-N2", "-n2", "printenv", "PMIX_NAMESPACE").stdout.split() for _ in range(2)]
        for one in names:
            self.assertEqual(len(one), 2)
            self.assertEqual(one[0], one[1])
            self.assertRegex(one[0], r"^slurm\.pmix\.\d+\.0\.[0-9a-f]{32}$")
        self.assertNotEqual(names[0][0][-32:], names[1][0][-32:])

    def test_a_job_of_another_user(self):
        for name in self.both():
            self.check_world(self.srun(name, "-N2", "-n4", user=ANN), 2, 2)

    def test_in_a_script_by_the_environment(self):
        self.program("openmpi")
        script = self.cluster.script("#!/bin/bash\n#SBATCH -N2 --ntasks-per-node=2 -o script.out\n"
                                     "export SLURM_MPI_TYPE=pmix OMPI_ALLOW_RUN_AS_ROOT=1\n" f"srun {self.program('openmpi')}\n")
        job = self.cluster.sbatch(script)
        self.assertEqual(self.cluster.wait(job), "COMPLETED")
        lines = [line for line in self.cluster.output(job, "script.out").splitlines() if LINE.fullmatch(line)]
        self.assertEqual({LINE.fullmatch(line).group(2) for line in lines}, {"4"})
        self.assertEqual(len(lines), 4)

    def test_names_of_interfaces(self):
        self.assertIn("\tpmi2\n\tpmix\n", self.cluster.ok("srun", "--mpi=list"))
        done = self.cluster.run("srun", "--mpi=lam", "true")
        self.assertEqual(done.returncode, 1)
        self.assertIn("Invalid MPI type 'lam', --mpi=list for acceptable types", done.stderr)
        self.assertEqual(self.cluster.run("srun", "--mpi=pmix_v4", "-n2", "true").returncode, 0)

    def test_slurms_own_client(self):
        done = self.srun("pmi2", "-N2", "-n4")
        self.assertEqual(done.returncode, 0, done.stderr)
        node = {rank: "n1" if rank < 2 else "n2" for rank in range(4)}
        self.assertEqual(sorted(done.stdout.splitlines()),
                         [f"rank {rank} of 4, universe 4, mapping (vector,(0,2,2)), leader {node[rank]}" for rank in range(4)])
        self.check_end(self.srun("pmi2", "-N2", "-n4", what=["abort"]), 1, "task 1 on n1 called MPI_Abort: enough")

    def test_who_is_cancelled_blames_no_rank(self):
        self.program("openmpi")
        srun = subprocess.Popen(["srun", "--mpi=pmix", "-N2", "-n4", "-J", "cancelled", self.program("openmpi"), "wait", "never"],
                                stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=self.cluster.work,
                                env=dict(self.cluster.env, OMPI_ALLOW_RUN_AS_ROOT="1"))
        for _ in range(3):
            self.assertIn("here", srun.stdout.readline())
        self.cluster.ok("scancel", "-n", "cancelled")
        out, err = srun.communicate(timeout=60)
        self.assertEqual(srun.returncode, 143, err)
        self.assertNotIn("MPI_", err)

    def test_nothing_is_left(self):
        for name in self.both():
            self.check_world(self.srun(name, "-N2", "-n2"), 2, 1)
        eventually(lambda: not self.servers(), 20, "the end of all lockstep-pmi")


class Broken(Mpi):
    """Connections and processes that end while tasks find each other."""

    def wait_in_init(self, name, *victims):
        go, out = (os.path.join(self.cluster.work, f"{what}-{self._testMethodName}-{name}") for what in ("go", "out"))
        with open(out, "w") as f:
            srun = subprocess.Popen(["srun", f"--mpi={KINDS[name][0]}", "-N4", "-n8", self.program(name), "wait", go],
                                    stdout=f, stderr=subprocess.STDOUT, cwd=self.cluster.work,
                                    env=dict(self.cluster.env, OMPI_ALLOW_RUN_AS_ROOT="1"))

        def text():
            with open(out) as f:
                return f.read()
        eventually(lambda: text().count("here") == 7, 30, "the tasks")
        for victim in victims:
            victim()
        with open(go, "w"):
            pass
        code = srun.wait(60)
        return subprocess.CompletedProcess([], code, text(), "")

    def kill_agents(self):
        for node in ("n1", "n2", "n4"):
            self.cluster.kill_agent(node)

    def test_agents(self):
        for name in KINDS:
            with self.subTest(name):
                self.program(name)
                self.check_world(self.wait_in_init(name, self.kill_agents), 4, 2)

    def test_the_controller(self):
        name = "openmpi"
        self.program(name)
        kill = lambda: self.cluster.kill_controller(hold=False)
        self.check_world(self.wait_in_init(name, kill), 4, 2)

    def test_the_process_that_serves_them(self):
        name = "openmpi"
        self.program(name)
        behind = []

        def kill():
            servers = self.servers()
            self.assertEqual(len(servers), 4)
            open_files = glob.glob(f"/proc/{servers[1]}/fd/*")
            behind.extend({path for path in map(os.readlink, open_files) if re.fullmatch(r"/tmp/lockstep-pmi-[^/]{6}", path)})
            os.kill(servers[1], 9)
        done = self.wait_in_init(name, kill)
        self.assertEqual(done.returncode, 1, done.stdout)
        self.assertIn("lockstep-pmi, by which the tasks find each other, was ended by signal 9", done.stdout)
        # It had no last word: the next one of the user's clears up behind it, and leaves alone what is another's or in use.
        self.assertEqual([os.path.isdir(path) for path in behind], [True])
        other = "/tmp/lockstep-pmi-others"
        os.mkdir(other)
        self.addCleanup(shutil.rmtree, other)
        os.chown(other, 2001, 2001)
        for folder in (*behind, other):
            os.utime(folder, (0, 0))
        self.check_world(self.srun(name, "-N1", "-n2"), 1, 2)
        self.assertFalse(os.path.exists(behind[0]))
        self.assertTrue(os.path.exists(other))


del Mpi

if __name__ == "__main__":
    unittest.main()
