"""What is no record survives a restart all the same: what predictions were made from comes back from accounting."""
import http.client
import json
import socket
import unittest

from cluster import Cluster, eventually


class OverUnix(http.client.HTTPConnection):
    def __init__(self, path):
        super().__init__("localhost")
        self.path = path

    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.connect(self.path)


def predicted_s(c, job):
    connection = OverUnix(c.status()["socket"])
    connection.request("GET", f"/v1/jobs/{job}")
    reply = json.loads(connection.getresponse().read())
    return reply["job"]["predicted_us"] / 1e6


class Restart(unittest.TestCase):
    def test_predictions_are_learned_again(self):
        with Cluster(nodes=1, gpus=None, cpus=8) as c:
            for _ in range(12):
                self.assertEqual(c.wait(c.wrap("true", "-J", "short", "-t", "60")), "COMPLETED")
            ask = ["-J", "short", "-t", "60", "--hold"]
            before = predicted_s(c, c.wrap("true", *ask))
            self.assertLess(before, 1800)  # learned: far below the limit
            # Accounting has seen them all.
            eventually(lambda: c.ok("sacct", "-n", "-X").count("COMPLETED") == 12, what="accounting")
            c.kill_controller()
            c.up()
            after = predicted_s(c, c.wrap("true", *ask))
            self.assertLess(after, 1.25 * before + 1)
            self.assertLess(predicted_s(c, c.wrap("true", *ask)), 1800)


if __name__ == "__main__":
    unittest.main()
