"""hydra's submitit launcher, unmodified: a sweep becomes an array, its outputs lie where hydra says."""
import os
import unittest

from client import ClientTest

APP = """
import os
import hydra

@hydra.main(version_base=None, config_path=None, config_name="config")
def main(cfg):
    folder = hydra.core.hydra_config.HydraConfig.get().runtime.output_dir
    with open(os.path.join(folder, "result.txt"), "w") as f:
        f.write(f"{cfg.x * cfg.y} {os.environ['SLURM_JOB_ID']} {os.environ.get('SLURM_ARRAY_TASK_ID')}")
    if cfg.x == cfg.fails_at:
        raise ValueError("on purpose")

if __name__ == "__main__":
    from hydra.core.config_store import ConfigStore
    ConfigStore.instance().store(name="config", node={"x": 1, "y": 1, "fails_at": -1})
    main()
"""
LAUNCHER = ("--multirun", "hydra/launcher=submitit_slurm", "hydra.launcher.partition=main", "hydra.launcher.timeout_min=5",
            "hydra.launcher.cpus_per_task=1", "hydra.launcher.mem_gb=1")


class Hydra(ClientTest):
    def app(self):
        path = os.path.join(self.home, "app.py")
        with open(path, "w") as f:
            f.write(APP)
        return path

    def test_a_sweep(self):
        result = self.as_user("python", self.app(), *LAUNCHER, "x=1,2,3", "y=10,20", "hydra.sweep.dir=sweep",
                              "hydra.launcher.array_parallelism=3")
        self.assertEqual(result.returncode, 0, result.stdout[-3000:] + result.stderr[-3000:])
        values, ids = [], set()
        for k in range(6):
            with open(os.path.join(self.home, "sweep", str(k), "result.txt")) as f:
                value, job, index = f.read().split()
            values.append(int(value))
            ids.add(index)
        self.assertEqual(values, [10, 20, 20, 40, 30, 60])
        self.assertEqual(ids, {str(k) for k in range(6)}, "one array, an element each")

    def test_a_run_that_fails_is_told(self):
        result = self.as_user("python", self.app(), *LAUNCHER, "x=1,2", "fails_at=2", "hydra.sweep.dir=failing")
        self.assertNotEqual(result.returncode, 0)
        self.assertIn("on purpose", result.stderr + result.stdout)


if __name__ == "__main__":
    unittest.main()
