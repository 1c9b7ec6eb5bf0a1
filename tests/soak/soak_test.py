"""Three minutes of the soak, as every run of the tests has it; `./dev soak` runs as long as one likes."""
import os
import unittest

from soak import Soak

MINUTES = float(os.environ.get("SOAK_MINUTES", "3"))
SEED = int(os.environ.get("SOAK_SEED", "7"))


class ThreeMinutes(unittest.TestCase):
    @unittest.skipIf(os.geteuid() != 0, "virtual nodes and several users need root")
    def test_a_storm_and_what_it_left(self):
        self.assertEqual(Soak(MINUTES, SEED).run(), 0, f"findings above; ./dev soak {MINUTES:g} --seed {SEED} runs the same schedule")


if __name__ == "__main__":
    unittest.main()
