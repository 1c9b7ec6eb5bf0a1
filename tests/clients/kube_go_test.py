"""client-go: informers, a work queue and leader election, while connections are cut and the controller is killed. tests/clients/go/make builds it."""
import json
import os
import subprocess
import time
import unittest

from client import Cluster
from kube_clients_test import GO_BUILT

PROGRAM = os.path.join(GO_BUILT, "informers")
SECONDS = 12


@unittest.skipUnless(os.access(PROGRAM, os.X_OK), "the program is not built: tests/clients/go/make does it")
class Informers(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.c = Cluster(nodes=0)
        cls.c.up()
        cls.config = os.path.join(cls.c.work, "kubeconfig")
        cls.c.ok("lockstep", "kubeconfig", cls.config)

    @classmethod
    def tearDownClass(cls):
        cls.c.down()

    def outlive(self, protocol):
        running = subprocess.Popen([PROGRAM, "-kubeconfig", self.config, "-seconds", str(SECONDS), "-protocol", protocol], stdout=subprocess.PIPE,
                                   stderr=subprocess.PIPE, text=True)
        for _ in range(2):
            time.sleep(SECONDS / 3)
            self.c.kill_controller(hold=False)
        said, log = running.communicate(timeout=180)
        self.assertEqual(running.returncode, 0, said + log[-2000:])
        told = json.loads(said)
        self.assertGreater(told["written"], 100)
        self.assertGreater(told["cuts"], 5)
        self.assertGreater(told["terms"], 1)

    def test_over_http_2(self):
        self.outlive("h2")

    def test_over_http_1(self):
        self.outlive("http/1.1")


if __name__ == "__main__":
    unittest.main()
