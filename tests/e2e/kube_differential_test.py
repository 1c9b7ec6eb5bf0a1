"""The real API server and ours are sent the same writes and patches, where its programs are here; and manifests with mistakes."""
import contextlib
import os
import sys
import unittest

from cluster import Cluster

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "kube"))
import answers  # noqa: E402
import differential  # noqa: E402
import real_server  # noqa: E402

SEEDS = range(1, 16)


@unittest.skipUnless(real_server.programs(), "kube-apiserver and etcd are not here (shared/peers/kubernetes builds them)")
class Differential(unittest.TestCase):
    def test_a_slice_of_the_sequences_and_what_people_write(self):
        with contextlib.ExitStack() as stack:
            real = stack.enter_context(real_server.RealServer())
            cluster = stack.enter_context(Cluster(nodes=0))
            config = os.path.join(cluster.home, "kubeconfig")
            cluster.ok("lockstep", "kubeconfig", config)
            ours, theirs = answers.Server("ours", config), answers.Server("real", real.kubeconfig())
            self.assertEqual(differential.compare(ours, theirs, SEEDS), 0)
            self.assertEqual(differential.compare_manifests(ours, theirs), [])


if __name__ == "__main__":
    unittest.main()
