"""snakemake's Slurm executor, unmodified: a workflow with dependencies, its logs, a rule that fails."""
import os
import unittest

from client import ClientTest

FLOW = """
rule all:
    input: "total.txt"

rule part:
    output: "part-{n}.txt"
    resources: runtime=5, mem_mb=500
    threads: 2
    shell: "echo {wildcards.n} on $(hostname) job $SLURM_JOB_ID cpus ${{SLURM_CPUS_PER_TASK:-unset}} > {output}"

rule total:
    input: expand("part-{n}.txt", n=range(3))
    output: "total.txt"
    resources: runtime=5, mem_mb=500, tasks=1
    shell: "cat {input} > {output}"

rule bad:
    output: "bad.txt"
    resources: runtime=5, mem_mb=500
    shell: "echo on purpose >&2; exit 7"
"""


class Snakemake(ClientTest):
    def flow(self, folder, *words):
        place = os.path.join(self.home, folder)
        os.makedirs(place, exist_ok=True)
        with open(os.path.join(place, "Snakefile"), "w") as f:
            f.write(FLOW)
        for path in (place, os.path.join(place, "Snakefile")):
            os.chown(path, 1001, 1001)
        return place, self.as_user("snakemake", "--directory", place, "--snakefile", f"{place}/Snakefile", "--executor", "slurm", "--jobs", "10",
                                   "--default-resources", "slurm_partition=main", "--slurm-init-seconds-before-status-checks", "1",
                                   "--latency-wait", "5", "--seconds-between-status-checks", "1", *words, timeout=240)

    def good(self, folder, *words):
        place, result = self.flow(folder, *words)
        self.assertEqual(result.returncode, 0, result.stdout[-2000:] + result.stderr[-5000:])
        with open(os.path.join(place, "total.txt")) as f:
            lines = [line.split() for line in f]
        self.assertEqual([line[0] for line in lines], [str(n) for n in range(3)])
        self.assertTrue(all(line[2].startswith("n") for line in lines), lines)
        return lines

    def test_a_workflow(self):
        lines = self.good("flow")
        self.assertEqual(len({line[4] for line in lines}), 3, "a job each")
        self.assertEqual({line[6] for line in lines}, {"2"})
        names = self.as_user("sacct", "-X", "-n", "-P", "-o", "JobName", "-j", ",".join(line[4] for line in lines)).stdout
        self.assertEqual(len(set(names.split())), 1, "one run of a workflow is one name of jobs")

    def test_a_workflow_asked_by_squeue(self):
        self.good("flow-squeue", "--slurm-status-command", "squeue")

    def test_a_workflow_as_arrays(self):
        """It asks for JobIDRaw alone, and takes what has the array's id for the state of every element."""
        lines = self.good("flow-arrays", "--slurm-array-jobs", "part", "--latency-wait", "60")  # takes the variables of steps away
        self.assertEqual(len({line[4] for line in lines}), 3, "an element each")

    def test_a_rule_that_fails(self):
        _, result = self.flow("flow-bad", "bad.txt")
        self.assertNotEqual(result.returncode, 0)
        said = result.stdout + result.stderr
        self.assertIn("FAILED", said)


if __name__ == "__main__":
    unittest.main()
