"""Records of any size, and a damaged write-ahead log: the controller is not stopped, and loses nothing without a word."""
import contextlib
import http.client
import json
import os
import re
import signal
import socket
import unittest

from cluster import Cluster, eventually, running, send

USER = 1001


class UnixHttp(http.client.HTTPConnection):
    def __init__(self, path):
        super().__init__("localhost")
        self.path = path

    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.connect(self.path)


def call(cluster, method, target, body):
    with contextlib.closing(UnixHttp(cluster.env["LOCKSTEP_SOCKET"])) as connection:
        connection.request(method, target, body=body)
        answer = connection.getresponse()
        return answer.status, answer.read().decode(errors="replace")


class HostileLog(unittest.TestCase):
    def assert_taken_or_refused_with_the_number(self, result):
        """Whatever the size, a request is taken, or refused in words that say how much is too much."""
        if result.returncode != 0:
            self.assertRegex(result.stderr, r"\d{3,}", result.stderr)
            self.assertNotRegex(result.stderr, "quarantined|connection|read-only", result.stderr)

    def assert_same_controller(self, cluster, pid):
        self.assertEqual(cluster.controller_pid(), pid, "the controller was stopped")

    def test_records_of_more_than_an_entry(self):
        """Row 1: each of these ended the controller, the second one at every start again."""
        with Cluster(nodes=2, gpus=None, cpus=8) as c:
            pid = c.controller_pid()
            c.script("#!/bin/sh\necho $#\n")
            many = c.run("bash", "-c", "ulimit -s unlimited; sbatch --parsable --hold job.sh $(seq 1000000 1130000)",
                         user=USER)
            self.assert_taken_or_refused_with_the_number(many)
            self.assert_same_controller(c, pid)

            wide = c.run("timeout", "60", "srun", "-N1", "-O", "-n", "200000", "true", user=USER, timeout=90)
            self.assertNotEqual(wide.returncode, 0, "nobody starts so many here")
            self.assert_same_controller(c, pid)
            # The step it left may still try: its job goes.
            c.run("scancel", "-u", str(USER), "-n", "true")

            long = c.run("bash", "-c", "ulimit -s unlimited; timeout 40 srun -n1 true $(seq 1000000 1150000)", user=USER)
            if "Argument list too long" not in long.stderr:  # the node's kernel has a bound of its own
                self.assert_taken_or_refused_with_the_number(long)
            self.assert_same_controller(c, pid)

            spec = {"name": "chatty", "hold": True, "comment": "c" * (2 << 20), "groups": [{"launch": "script"}]}
            status, body = call(c, "POST", "/v1/jobs", json.dumps({"spec": spec, "script": "#!/bin/sh\ntrue\n"}))
            self.assertIn(status // 100, (2, 4), body)
            self.assert_same_controller(c, pid)

            spec = {"name": "giant", "hold": True, "comment": "c" * (5 << 20), "groups": [{"launch": "script"}]}
            status, body = call(c, "POST", "/v1/jobs", json.dumps({"spec": spec, "script": "#!/bin/sh\ntrue\n"}))
            self.assertEqual(status // 100, 4, "more than a record may take")
            self.assertRegex(body, r"comment.*\d{3,}|\d{3,}.*comment")
            self.assert_same_controller(c, pid)

            before = c.ok("squeue", "-h", "-a", "-o", "%i %j %T")
            for sig in (signal.SIGTERM, signal.SIGKILL):
                c.kill_controller(sig)
                c.up()
                self.assertEqual(c.ok("squeue", "-h", "-a", "-o", "%i %j %T"), before, "what was taken is read back")
            if many.returncode == 0:
                job = many.stdout.strip()
                c.ok("scontrol", "release", job)
                c.wait(job)

    def test_a_flipped_bit_in_the_write_ahead_log(self):
        """Row 24: one acknowledged job was lost without a word."""
        with Cluster(nodes=1, gpus=None, cpus=4) as c:
            kept = c.wrap("true", "--hold")
            lost = c.wrap("true", "--hold", user=USER)
            for pid in (c.status()["controller"]["supervisor_pid"], c.controller_pid()):  # nobody starts it again meanwhile
                send(pid)
                eventually(lambda: not running(pid), what="its end")
            wal = os.path.join(c.dir, "lockstep.db-wal")
            size = os.path.getsize(wal)
            # The newest frame is not always the last of the file: its salt tells the frames of this round.
            with open(wal, "r+b") as f:
                head = f.read(32)
                page, salts = int.from_bytes(head[8:12], "big"), head[16:24]
                frame = 24 + page
                newest = None
                for at in range(32, size - frame + 1, frame):
                    f.seek(at)
                    if f.read(24)[8:16] != salts:
                        break
                    newest = at
                f.seek(newest + 24 + page - 40)
                byte = f.read(1)[0]
                f.seek(-1, os.SEEK_CUR)
                f.write(bytes([byte ^ 4]))
            refused = c.run("lockstep", "up", "--dir", c.dir, *c.args, timeout=120)
            self.assertNotEqual(refused.returncode, 0, "it started without what it had acknowledged")
            self.assertRegex(refused.stderr + c.log_tail(), r"ends at entry \d+, but entries up to \d+ were acknowledged")
            accept = re.search(r"make a file (\S+accept-loss)", refused.stderr + c.log_tail())
            self.assertTrue(accept, "the way out is named")
            open(accept.group(1), "w").close()
            c.up()
            self.assertEqual(c.state(kept), "PENDING")
            self.assertEqual(c.wait(c.wrap("true")), "COMPLETED")
            self.assertNotEqual(lost, kept)


if __name__ == "__main__":
    unittest.main()
