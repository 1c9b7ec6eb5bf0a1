"""The main job: an unmodified sbatch training script, as a gang over four nodes, and healed when a node dies."""
import os
import re
import time
import unittest

from cluster import TOP, Cluster, eventually

TRAIN = os.path.join(TOP, "examples", "train")


class MainJob(unittest.TestCase):
    def test_training_heals(self):
        with Cluster(nodes=5, gpus="8xh100") as c:
            job = c.sbatch(os.path.join(TRAIN, "train.sbatch"), "--steps", "260", "--step-seconds", "0.03", env={"TRAIN_DIR": TRAIN})
            name = f"train-{job}.out"
            path = os.path.join(c.work, name)
            read = lambda: open(path).read() if os.path.exists(path) else ""
            eventually(lambda: re.search(r"step +100 ", read()) or c.state(job) not in ("PENDING", "CONFIGURING", "RUNNING"), 120,
                       "step 100 of the first attempt")
            self.assertEqual(c.state(job), "RUNNING", read())
            nodes = c.ok("scontrol", "show", "hostnames", c.ok("squeue", "-h", "-j", job, "-o", "%N").strip()).split()
            self.assertEqual(len(nodes), 4)
            victim = nodes[2]
            c.pull_plug(victim)
            killed = time.monotonic()
            eventually(lambda: "resumed from checkpoint" in read(), 120, "the second attempt")
            print(f"healed in {time.monotonic() - killed:.1f} s")
            self.assertEqual(c.wait(job, timeout=180), "COMPLETED", read())
            text = read()
            print(text)

            # The same job id, the spare node in the dead one's place, and the training goes on where it was saved.
            second = c.ok("sacct", "-n", "-X", "-P", "-j", job, "-o", "NodeList,State").strip().split("\n")[-1]
            new_nodes = c.ok("scontrol", "show", "hostnames", second.split("|")[0]).split()
            self.assertNotIn(victim, new_nodes)
            self.assertEqual(len(new_nodes), 4)
            saved = int(re.search(r"resumed from checkpoint at step (\d+) \(restart 1\)", text).group(1))
            self.assertGreaterEqual(saved, 100)
            losses = [(int(s), float(v)) for s, v in re.findall(r"step +(\d+) +loss ([\d.]+)", text)]
            self.assertLess(losses[-1][1], losses[0][1] - 0.5, "the loss falls")
            after = [s for s, _ in losses[[s for s, _ in losses].index(100) + 1:]]
            self.assertEqual(after, sorted(set(after)), "no step is shown twice after the checkpoint")
            self.assertEqual(losses[-1][0], 260)
            # Every rank ran on a node of its own, each seeing its eight GPUs.
            ranks = re.findall(r"rank (\d) of 4 on (\S+), CUDA_VISIBLE_DEVICES=(\S*)", text)
            self.assertEqual(len({(n, r) for r, n, _ in ranks[-4:]}), 4)
            self.assertTrue(all(d == "0,1,2,3,4,5,6,7" for _, _, d in ranks), ranks)
            self.assertIn("training finished", text)


if __name__ == "__main__":
    unittest.main()
