"""Hostile callers of the socket, of TLS and of upgrades, as an ordinary user, from the network and as root on a node:
the controller and its agents stay up, and root, the nodes and other users still get in."""
import json
import os
import socket
import ssl
import subprocess
import sys
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from cluster import Cluster, eventually, running

USER, OTHER = 1001, 1002

# A client that may be as rude as it likes, run as somebody else: opens COUNT connections to the socket, sends BYTES on
# each, says how many were still open when all had been looked at, and keeps them until its input ends.
FLOOD = r"""
import resource, socket, select, sys, time
path, count, data = sys.argv[1], int(sys.argv[2]), sys.argv[3].encode().decode("unicode_escape").encode()
soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
held = []
for i in range(count):
    s = socket.socket(socket.AF_UNIX)
    try:
        s.connect(path)
        s.send(data)
    except OSError:
        pass
    held.append(s)
def waiting():
    count = 0
    for s in held:
        s.setblocking(False)
        try:
            s.recv(1, socket.MSG_PEEK)  # an answer, or the end: it was not kept waiting
        except BlockingIOError:
            count += 1
        except OSError:
            pass
    return count
alive = -1
for tries in range(20):  # a busy machine needs more than a moment to look at all
    time.sleep(0.5)
    before, alive = alive, waiting()
    if alive == before:
        break
print(alive, flush=True)
sys.stdin.read()
"""


class HostileHttp(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.cluster = Cluster(nodes=2, gpus=None, cpus=4)
        try:
            cls.cluster.up()
        except Exception:
            cls.cluster.down(delete=False)
            raise

    @classmethod
    def tearDownClass(cls):
        cls.cluster.down()

    def setUp(self):
        self.controller = self.cluster.controller_pid()
        self.agents = {n["name"]: n["agent_pid"] for n in self.cluster.status()["nodes"]}

    def tearDown(self):
        self.assertTrue(running(self.controller), "the controller is gone\n" + self.cluster.log_tail())
        for name, pid in self.agents.items():
            self.assertTrue(running(pid), f"the agent of {name} is gone\n" + self.cluster.log_tail())
        self.cluster.ok("squeue")

    # --- helpers ---

    def api(self):
        return self.cluster.env["LOCKSTEP_SOCKET"]

    def sockets(self):
        """The controller's and every agent's."""
        found = [self.api()]
        for root, _, names in os.walk(self.cluster.dir):
            for name in names:
                path = os.path.join(root, name)
                if name.endswith(".sock") and path not in found and os.path.exists(path):
                    found.append(path)
        return found

    def ask(self, path, request, seconds=5, until=b"\r\n\r\n"):
        """What comes back for raw bytes, as USER."""
        script = ("import socket,sys\n"
                  "s=socket.socket(socket.AF_UNIX); s.settimeout(float(sys.argv[2])); s.connect(sys.argv[1])\n"
                  "s.sendall(sys.stdin.buffer.read()); out=b''\n"
                  "try:\n"
                  "  while sys.argv[3].encode().decode('unicode_escape').encode() not in out:\n"
                  "    piece=s.recv(65536)\n"
                  "    if not piece: break\n"
                  "    out+=piece\n"
                  "except OSError: pass\n"
                  "sys.stdout.buffer.write(out)\n")
        return self.cluster.run("/usr/bin/python3", "-c", script, path, str(seconds), until.decode("unicode_escape").encode(
            "unicode_escape").decode(), input=request, text=False, user=USER, timeout=30).stdout

    def flood(self, path, count, data, user=USER):
        env = dict(self.cluster.env)
        return subprocess.Popen(["setpriv", f"--reuid={user}", f"--regid={user}", "--clear-groups", sys.executable,
                                 "-c", FLOOD, path, str(count), data], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                text=True, env=env)

    def end(self, process):
        process.stdin.close()
        process.wait(20)
        process.stdout.close()

    def tls(self):
        with open(os.path.join(self.cluster.dir, "controller.json")) as f:
            where = json.load(f)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
        raw = socket.create_connection((where["address"], where["port"]), timeout=60)
        return context.wrap_socket(raw)

    # --- row 4 ---

    def test_upgrades_that_cannot_be(self):
        job = self.cluster.wrap("sleep 60", "-N1", user=USER)
        self.cluster.wait(job, "RUNNING")
        step = f"/v1/steps/{job}.0/io"
        half = f"GET {step} HTTP/1.1\r\nUpgrade: lockstep-stepio/1\r\n\r\n".encode()
        piped = (f"GET /v1/jobs/{job}/wait?timeout_s=2 HTTP/1.1\r\n\r\nGET {step} HTTP/1.1\r\nConnection: Upgrade\r\n"
                 "Upgrade: lockstep-stepio/1\r\n\r\n").encode()
        srun = subprocess.Popen(["setpriv", f"--reuid={USER}", f"--regid={USER}", "--clear-groups", "srun", "--overlap",
                                 f"--jobid={job}", "sleep", "30"], env=self.cluster.env, cwd=self.cluster.work,
                                stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            eventually(lambda: b"200 OK" in self.ask(self.api(), f"GET /v1/steps/{job}.0 HTTP/1.1\r\n\r\n".encode()),
                       what="the step's record")
            for path in self.sockets():
                # 403: a node where the job has nothing
                self.assertRegex(self.ask(path, half, until=b"\r\n\r\n"), rb"HTTP/1.1 (426|403) ", path)
                self.ask(path, piped, seconds=4, until=b"\r\n\r\n{\"never")
                for target in ("/v1/link", "/v1/peer", "/v1/jobs", "/v1/watch"):
                    self.ask(path, f"GET {target} HTTP/1.1\r\nUpgrade: lockstep-link/1\r\n\r\n".encode(), seconds=1)
                    self.ask(path, f"GET {target} HTTP/1.1\r\nUpgrade: lockstep-link/1\r\nConnection: Upgrade\r\n\r\n"
                             .encode(), seconds=1)
        finally:
            srun.terminate()
            srun.wait(20)
            self.cluster.run("scancel", job)

    # --- row 14 ---

    def test_half_requests_lock_nobody_out(self):
        floods = [self.flood(self.api(), 16_000, r"GET / HT", user) for user in (USER, OTHER)]
        try:
            alive = [int(f.stdout.readline()) for f in floods]
            # Root, somebody else, and the flooding user's own commands get in.
            for user in (None, 1003, USER):
                self.cluster.ok("squeue", user=user)
                self.assertEqual([f.poll() for f in floods], [None, None], "while the floods hold what they have")
            self.assertLessEqual(max(alive), 4_000)
            self.assertGreater(max(alive), 0)
        finally:
            for f in floods:
                self.end(f)

    # --- row 13 ---

    def test_strangers_bodies_are_refused_before_they_are_read(self):
        before = self.memory()
        held = []
        for _ in range(32):
            s = self.tls()
            s.sendall(b"POST /v1/join HTTP/1.1\r\nContent-Length: 60000000\r\n\r\n")
            held.append(s)
        for s in held:
            self.assertTrue(s.recv(100).startswith(b"HTTP/1.1 413 "))
            s.close()
        self.assertLess(self.memory() - before, 64 << 20)

    def test_users_bodies_have_a_total(self):
        before = self.memory()
        data = r"POST /v1/jobs HTTP/1.1\r\nContent-Length: 1000000\r\n\r\n" + "x" * 100_000
        flood = self.flood(self.api(), 2_000, data)
        try:
            flood.stdout.readline()
            self.cluster.ok("sbatch", "--parsable", "--wrap", "true", user=OTHER)
            self.assertIsNone(flood.poll())
            self.assertLess(self.memory() - before, 400 << 20)
        finally:
            self.end(flood)

    def memory(self):
        with open(f"/proc/{self.controller}/statm") as f:
            return int(f.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")

    # --- a node comes back while strangers hold connections ---

    def test_nodes_reconnect_while_strangers_hold_tls(self):
        with open(os.path.join(self.cluster.dir, "controller.json")) as f:
            where = json.load(f)
        held = []
        for _ in range(900):
            s = socket.socket()
            s.setblocking(False)
            try:
                s.connect((where["address"], where["port"]))
            except BlockingIOError:
                pass
            held.append(s)
        try:
            self.cluster.kill_controller()
            self.cluster.up()
            self.controller = self.cluster.controller_pid()
            for _ in range(900):
                s = socket.socket()
                s.setblocking(False)
                try:
                    s.connect((where["address"], where["port"]))
                except BlockingIOError:
                    pass
                held.append(s)
            job = self.cluster.wrap("true", "-N2")
            self.assertEqual(self.cluster.wait(job, timeout=30), "COMPLETED")
        finally:
            for s in held:
                s.close()


if __name__ == "__main__":
    unittest.main()
