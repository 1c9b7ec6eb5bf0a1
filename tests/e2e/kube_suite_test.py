"""The first of Kubernetes' own conformance tests, where the suite's programs are there (./dev peers kubernetes --build)."""
import os
import sys
import tempfile
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "kube"))
import compatibility  # noqa: E402
import suite  # noqa: E402


@unittest.skipIf(os.geteuid() != 0, "virtual nodes need root")
class KubeSuite(unittest.TestCase):
    def test_the_dozen(self):
        if not suite.programs():
            self.skipTest("Kubernetes' suite is not built here: ./dev peers kubernetes --build")
        with tempfile.TemporaryDirectory() as out:
            passed, failed = suite.judge(suite.tests_of("dozen"), out)
            self.assertEqual(failed, [])
            self.assertEqual(len(passed), 16)

    def test_the_table_is_whole(self):
        rows = list(suite.rows())
        self.assertEqual(len(rows), 424)
        self.assertEqual(len({row["test"] for row in rows}), 424)
        self.assertEqual({row["shard"] for row in rows}, set(range(1, 9)))
        self.assertLessEqual(compatibility.passed(), {row["test"] for row in rows})
        self.assertTrue(compatibility.is_current(rows), "./dev peers kubernetes --document makes it anew")
        self.assertEqual([len(suite.tests_of(name)) for name in ("dozen", "api", "fake-pods")], [16, 107, 61])


if __name__ == "__main__":
    unittest.main()
