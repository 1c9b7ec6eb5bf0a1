"""Steps inside of GPU jobs: every way to ask a job for GPUs against every way to ask a step, beside what Slurm does.

TABLE was taken from Debian's Slurm 22.05.8 (select/cons_tres, CR_Core, task/none) on two nodes of 16 cores and 4 GPUs, whose
device files were stand-ins: each job an salloc, each step an srun in it that prints CUDA_VISIBLE_DEVICES of every task. (Its
daemons must be called slurmctld and slurmd: under Debian's names with "-wlm" they read no Gres from slurm.conf.)

A cell holds the number of devices that each task saw, by rank; "-": refused, or not begun within 4 s. "A|B": Slurm gives A
and we B, on purpose, for one of three reasons. Slurm lets the job's variable win over the step's command line (--gpus=1 in a
job of --gpus-per-node=4 holds all four; --gpus=0 gives everything), we take the command line at its word. Slurm refuses what
could run. Or Slurm's own answer depends on the node a task came to (2,1).
"""
import unittest

from cluster import Cluster, eventually

JOBS = [
    '-N1 -n4 --gpus=4',
    '-N1 -n4 --gpus=2',
    '-N1 -n4 --gpus-per-node=4',
    '-N2 -n4 --gpus-per-node=2',
    '-N1 -n4 --gpus-per-task=1',
    '-N1 -n2 --gpus-per-task=2',
    '-N1 -n4 --gres=gpu:4',
    '-N2 -n4 --gres=gpu:2',
    '-N2 -n2 --gpus=4',
]

TABLE = """\
                                  ; 4,4,4,4         ; 2,2,2,2         ; 4,4,4,4         ; 2,2,2,2         ; 1,1,1,1         ; 2,2     ; 4,4,4,4     ; 2,2,2,2         ; 3,1
-n1                               ; 4               ; 2               ; 4               ; 2               ; 1               ; 2       ; 4           ; 2               ; -
-N1 -n1                           ; 4               ; 2               ; 4               ; 2               ; 1               ; 2       ; 4           ; 2               ; -
--gpus=1                          ; 1,1,1,1         ; 1,1,1,1         ; 4,4,4,4|1,1,1,1 ; -               ; 1,1,1,1         ; 2,2|1,1 ; 1,1,1,1     ; -               ; -
--gpus=2                          ; 2,2,2,2         ; 2,2,2,2         ; 4,4,4,4|2,2,2,2 ; 2,2,2,2|1,1,1,1 ; 1,1,1,1         ; 2,2     ; 2,2,2,2     ; 1,1,1,1         ; 1,1
--gpus=4                          ; 4,4,4,4         ; -               ; 4,4,4,4         ; 2,2,2,2         ; 1,1,1,1         ; 2,2     ; 4,4,4,4     ; 2,2,2,2         ; 3,1
-n1 --gpus=1                      ; 1               ; 1               ; 4|1             ; 2|1             ; 1               ; 2|1     ; 1           ; 1               ; 1
-n2 --gpus=2                      ; 2,2             ; 2,2             ; 4,4|2,2         ; 2,2|1,1         ; 1,1             ; 2,2     ; 2,2         ; 1,1             ; 1,1
--gpus-per-node=1                 ; 1,1,1,1         ; 1,1,1,1         ; 1,1,1,1         ; 1,1,1,1         ; 1,1,1,1         ; 1,1     ; 1,1,1,1     ; 1,1,1,1         ; 1,1
--gpus-per-node=2                 ; 2,2,2,2         ; 2,2,2,2         ; 2,2,2,2         ; 2,2,2,2         ; 1,1,1,1         ; 2,1|2,2 ; 2,2,2,2     ; 2,2,2,2         ; -
-n1 --gpus-per-node=1             ; 1               ; 1               ; 1               ; 1               ; 1               ; 1       ; 1           ; 1               ; -|1
--gpus-per-task=1                 ; 1,1,1,1         ; -               ; 1,1,1,1         ; -|1,1,1,1       ; 1,1,1,1         ; 1,1     ; 1,1,1,1     ; -|1,1,1,1       ; 1,1
-n1 --gpus-per-task=1             ; 1               ; 1               ; 4|1             ; 2|1             ; 1               ; 1       ; 1           ; 1               ; -|1
-n2 --gpus-per-task=1             ; 1,1             ; 1,1             ; 1,1             ; 2,2|1,1         ; 1,1             ; 1,1     ; 1,1         ; 1,1             ; 1,1
-n1 --gpus-per-task=2             ; 2               ; 2               ; 4|2             ; 2               ; -|2             ; 2       ; 2           ; 2               ; -|2
--gres=gpu:1                      ; 1,1,1,1         ; 1,1,1,1         ; 1,1,1,1         ; 1,1,1,1         ; 1,1,1,1         ; 1,1     ; 1,1,1,1     ; 1,1,1,1         ; 1,1
--gres=gpu:2                      ; 2,2,2,2         ; 2,2,2,2         ; 2,2,2,2         ; 2,2,2,2         ; 1,1,1,1         ; 2,1|2,2 ; 2,2,2,2     ; 2,2,2,2         ; -
-n1 --gres=gpu:1                  ; 1               ; 1               ; 1               ; 1               ; 1               ; 1       ; 1           ; 1               ; -|1
-N1 -n1 --gres=gpu:1              ; 1               ; 1               ; 1               ; 1               ; 1               ; 1       ; 1           ; 1               ; -|1
--gres=gpu:4                      ; 4,4,4,4         ; -               ; 4,4,4,4         ; -               ; 1,1,1,1         ; 2,2     ; 4,4,4,4     ; -               ; -
--gres=none                       ; 0,0,0,0         ; 0,0,0,0         ; -|0,0,0,0       ; -|0,0,0,0       ; 0,0,0,0         ; 0,0     ; 0,0,0,0     ; 0,0,0,0         ; 0,0
--gpus=0                          ; 0,0,0,0         ; 0,0,0,0         ; 4,4,4,4|0,0,0,0 ; 2,2,2,2|0,0,0,0 ; 1,1,1,1|0,0,0,0 ; 2,2|0,0 ; 0,0,0,0     ; 0,0,0,0         ; 0,0
-n1 --gpus=0                      ; 0               ; 0               ; 4|0             ; 2|0             ; 1|0             ; 2|0     ; 0           ; 0               ; 0
--gres=gpu:0                      ; 4,4,4,4|0,0,0,0 ; 2,2,2,2|0,0,0,0 ; 4,4,4,4|0,0,0,0 ; 2,2,2,2|0,0,0,0 ; 1,1,1,1|0,0,0,0 ; 2,2|0,0 ; 0,0,0,0     ; 0,0,0,0         ; 3,1|0,0
--gpus-per-node=0                 ; 4,4,4,4|0,0,0,0 ; 2,2,2,2|0,0,0,0 ; 0,0,0,0         ; 0,0,0,0         ; 1,1,1,1|0,0,0,0 ; 2,2|0,0 ; 0,0,0,0     ; 0,0,0,0         ; 3,1|0,0
--gpus-per-task=0                 ; 0,0,0,0         ; 0,0,0,0         ; 0,0,0,0         ; 0,0,0,2|0,0,0,0 ; 0,0,0,0         ; 0,0     ; 0,0,0,0     ; 0,0,0,0         ; 3,1|0,0
-n2 --ntasks-per-gpu=1            ; 1,1,1,1|1,1     ; 1,1             ; 1,1,1,1|1,1     ; 2,2|1,1         ; -|1,1           ; -|1,1   ; 1,1,1,1|1,1 ; 2,2|1,1         ; -|1,1
-n4 --ntasks-per-gpu=2            ; -|1,1,1,1       ; 1,1,1,1         ; -|1,1,1,1       ; 1,1,1,2|1,1,1,1 ; -|1,1,1,1       ; -       ; -|1,1,1,1   ; 1,1,1,2|1,1,1,1 ; -
-n2 --gpus=1 --ntasks-per-gpu=2   ; 1,1             ; 1,1             ; -|1,1           ; -               ; -|1,1           ; -|1,1   ; 1,1         ; -               ; -
-n2 --gpu-bind=single:1           ; 1,1             ; 1,1             ; 1,1             ; 2,2|1,1         ; 1,1             ; 1,1     ; 1,1         ; 2,2|1,1         ; 3,1|1,1
-n2 --gpu-bind=map_gpu:1,0        ; 1,1             ; 1,1             ; 1,1             ; 2,2|1,1         ; 1,1             ; 1,1     ; 1,1         ; 2,2|1,1         ; 3,1|1,1
"""

STEP = "echo @ $SLURM_PROCID ${CUDA_VISIBLE_DEVICES-}"
LINES = """\
number=0
while read -r step; do
  timeout -k 1 20 srun -Q $step sh -c '%s' >out.$number 2>err.$number </dev/null || echo - >out.$number
  number=$((number + 1))
done
""" % STEP


def rows():
    for line in TABLE.splitlines():
        step, *cells = [part.strip() for part in line.split(";")]
        assert len(cells) == len(JOBS), line
        yield step, [cell.split("|")[-1] for cell in cells]


def counts(text):
    """"@ RANK 0,1" of every task -> "2,1,…" by rank; "-" as it is."""
    if text.startswith("-") or "\n-" in text:
        return "-"
    tasks = sorted((int(words[1]), len(words[2].split(",")) if len(words) > 2 else 0)
                   for words in (line.split() for line in text.splitlines()) if words and words[0] == "@")
    return ",".join(str(count) for _, count in tasks)


class GpuSteps(unittest.TestCase):
    def test_the_whole_matrix(self):
        steps = [step for step, _ in rows()]
        with Cluster(nodes=2, gpus="4xh100", cpus=16) as c:
            for column, job in enumerate(JOBS):
                c.ok("salloc", "-Q", *job.split(), "bash", "-c", LINES, input="".join(s + "\n" for s in steps), user=1001,
                     timeout=240)
                eventually(lambda: c.run("squeue", "-h").stdout == "", what="all devices are free for the next job")
                for number, (step, cells) in enumerate(rows()):
                    with self.subTest(job=job, step=step):
                        with open(f"{c.work}/out.{number}") as out, open(f"{c.work}/err.{number}") as err:
                            self.assertEqual(counts(out.read()), cells[column], err.read())

    def test_every_step_that_slurm_runs_is_run(self):
        for line in TABLE.splitlines():
            for cell in line.split(";")[1:]:
                theirs, _, ours = cell.strip().partition("|")
                self.assertFalse(ours == "-" and theirs != "-", line)


class WhatIsMissing(unittest.TestCase):
    def test_devices_are_named(self):
        with Cluster(nodes=2, gpus="4xh100", cpus=16) as c:
            result = c.run("sbatch", "-N2", "-n20", "--gpus-per-task=1", "--wrap", "true", user=1001)
            self.assertEqual(result.returncode, 1)
            self.assertIn("asks for 20 task(s) on 2 node(s); the 2 nodes it may use have room for 8 when empty and 8 devices: "
                          "devices are what is missing", result.stderr)
            result = c.run("sbatch", "-N2", "-n40", "--wrap", "true", user=1001)
            self.assertIn("have room for 32 when empty\n", result.stderr)
            result = c.run("salloc", "-Q", "-N1", "--gpus=2", "srun", "--gpus=3", "true", user=1001)
            self.assertIn("the 2 device(s) that job", result.stderr)
            for step in ("--gpus=a100:1", "--gres=gpu:a100:1", "--gpus-per-node=a100:1", "--gpus-per-task=a100:1"):
                with self.subTest(step=step):
                    result = c.run("salloc", "-Q", "-N1", "--gres=gpu:h100:2", "srun", step, "true", user=1001)
                    self.assertEqual(result.returncode, 1)
                    self.assertIn("Invalid generic resource (gres) specification: gpu:a100", result.stderr)
                    c.ok("salloc", "-Q", "-N1", "--gres=gpu:h100:2", "srun", step.replace("a100", "h100"), "true", user=1001)


class AskedForTwice(unittest.TestCase):
    """What Debian's Slurm gives where a job asks for the same GPUs in two ways, or leaves it to GPUs where its tasks are: node and
    CUDA_VISIBLE_DEVICES of every rank."""

    def test_the_same_gpus_are_meant(self):
        four = ["n1 0", "n1 1", "n1 2", "n1 3"]
        eight = four + ["n2 0", "n2 1", "n2 2", "n2 3"]
        pairs = ["n1 0", "n1 0", "n1 1", "n1 1", "n2 0", "n2 0", "n2 1", "n2 1"]
        cases = [
            ("--gres=gpu:4 --gpus-per-task=1 -n4", "", four),
            ("--gres=gpu:4 --ntasks-per-node=4 --gpus-per-task=1", "", four),
            ("--gres=gpu:4 --gpus-per-task=1 -n8", "", eight),
            ("--gpus-per-node=h100:4 --gpus-per-task=h100:1 --ntasks-per-node=4 -N2", "", eight),
            ("--gpus=8 --gpus-per-node=4 --gpus-per-task=1", "", eight),
            ("--gres=gpu:4 -n4", "--gres=gpu:4 --gpus-per-task=1", four),
            ("--gres=gpu:4 -n4", "--gpus=4 --gpus-per-task=1", four),
            ("--gpus=4 -N2 -n4", "--gpu-bind=single:1", ["n1 0", "n1 1", "n1 2", "n2 0"]),
            ("--gpus=4 -N2 --ntasks-per-gpu=2", "", pairs),
            ("--ntasks-per-gpu=1 -n8", "", eight),
            ("--gres=gpu:2 -N2 -n8", "--gpus=4 -n4 -N2 --gpu-bind=single:1", ["n1 0", "n1 1", "n2 0", "n2 1"]),
        ]
        refused = {
            "--gres=gpu:h100:4 --gpus-per-task=1 -n4": "with and without type identification",
            "--gpus=4 --gres=gpu:3": "not a multiple",
            "--gpus=4 --gpus-per-task=1 -n2": "Invalid generic resource (gres) specification",
            "--ntasks-per-gpu=1 --gpus-per-task=1 -n4": "mutually exclusive",
        }
        with Cluster(nodes=2, gpus="4xh100", cpus=16) as c:
            for job, step, expected in cases:
                with self.subTest(job=job, step=step):
                    c.idle()
                    out = c.ok("salloc", "-Q", *job.split(), "srun", "-Q", *step.split(), "sh", "-c",
                               "echo $SLURM_PROCID $SLURMD_NODENAME $CUDA_VISIBLE_DEVICES", user=1001)
                    by_rank = sorted(out.splitlines(), key=lambda line: int(line.split()[0]))
                    self.assertEqual([line.split(" ", 1)[1] for line in by_rank], expected)
            self.assertEqual(c.ok("salloc", "-Q", "--gpus=4", "--gpus-per-task=1", "sh", "-c", "echo $SLURM_NTASKS", user=1001), "4\n")
            for job, words in refused.items():
                with self.subTest(job=job):
                    self.assertIn(words, c.run("sbatch", *job.split(), "--wrap", "true", user=1001).stderr)
            job = c.sbatch("--gpus=4", "--cpus-per-gpu=8", "--wrap", "true", user=1001)  # a node has cores for two
            c.wait(job)
            self.assertIn("NumNodes=2 ", c.ok("scontrol", "show", "job", job))


class GpuStepsSideBySide(unittest.TestCase):
    def test_steps_with_gpus_of_their_own_do_not_share_them(self):
        with Cluster(nodes=1, gpus="4xh100", cpus=16) as c:
            for job in ("--gpus=4", "--gpus-per-node=4", "--gres=gpu:4", "--gpus-per-task=1"):
                with self.subTest(job=job):
                    c.idle()
                    out = c.ok("salloc", "-Q", "-N1", "-n4", job, "bash", "-c",
                               "for i in 1 2 3 4; do srun -Q --exact -n1 --gpus=1 sh -c "
                               "'echo $CUDA_VISIBLE_DEVICES; sleep 1' & done; wait", user=1001)
                    self.assertEqual(sorted(out.split()), ["0", "1", "2", "3"])


if __name__ == "__main__":
    unittest.main()
