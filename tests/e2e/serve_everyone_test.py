"""A controller that runs as a user of its own and serves everybody, as an installed one does; and a port that is taken."""
import contextlib
import json
import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time
import unittest

from cluster import BIN, Connection

CONTROLLER, ANN = 65534, 2000


@unittest.skipUnless(os.geteuid() == 0, "only root can be several users")
class ServeEveryone(unittest.TestCase):
    def setUp(self):
        self.home = tempfile.mkdtemp(prefix="lockstep-e2e-")
        os.chmod(self.home, 0o755)
        self.dir = os.path.join(self.home, "controller")
        os.mkdir(self.dir, 0o711)
        os.chown(self.dir, CONTROLLER, CONTROLLER)
        self.socket = os.path.join(self.dir, "public", "api.sock")
        self.running = []

    def tearDown(self):
        for process in self.running:
            process.send_signal(signal.SIGTERM)
            process.wait()
            process.stderr.close()
        shutil.rmtree(self.home)

    def start(self, *options, **more):
        process = subprocess.Popen(["setpriv", f"--reuid={CONTROLLER}", f"--regid={CONTROLLER}", "--clear-groups",
                                    os.path.join(BIN, "lockstepd"), "--dir", self.dir, *options],
                                   stderr=subprocess.PIPE, text=True, **more)
        self.running.append(process)
        return process

    def wait_for_socket(self):
        end = time.monotonic() + 30
        while not os.path.exists(self.socket) and time.monotonic() < end:
            time.sleep(0.02)

    def ask(self, uid, method, path, body=None):
        """The status of the answer to this user."""
        text = f"import sys; sys.path.insert(0, {os.path.dirname(os.path.abspath(__file__))!r})\n" \
               "from cluster import Connection\n" \
               f"c = Connection({self.socket!r}); c.request({method!r}, {path!r}, {json.dumps(body) if body else None!r})\n" \
               "print(c.getresponse().status)"
        done = subprocess.run(["setpriv", f"--reuid={uid}", f"--regid={uid}", "--clear-groups", "/usr/bin/python3", "-c", text],
                              capture_output=True, text=True, timeout=60)
        return done.stdout.strip() or done.stderr.strip().splitlines()[-1]

    def test_everybody_is_served_and_root_rules(self):
        self.start("--serve-everyone")
        self.wait_for_socket()
        self.assertEqual(os.stat(self.socket).st_mode & 0o777, 0o666)
        self.assertEqual([self.ask(uid, "GET", "/v1/status") for uid in (0, CONTROLLER, ANN)], ["200"] * 3)
        token = {"node": "n1"}
        self.assertEqual([self.ask(uid, "POST", "/v1/tokens", token) for uid in (0, CONTROLLER, ANN)], ["200", "200", "403"])
        job = {"name": "j", "groups": [{"tasks": 1}], "script": "#!/bin/sh\n", "work_dir": "/"}
        self.assertNotIn("runs work of its own user", self.ask(ANN, "POST", "/v1/jobs", job))
        self.assertEqual({mode: os.stat(os.path.join(self.dir, name)).st_mode & 0o777 for name, mode in
                          ((".", "passed"), ("public", "public"), ("pki", "closed"), ("lockstep.db", "file"))},
                         {"passed": 0o711, "public": 0o755, "closed": 0o700, "file": 0o600})

    def test_without_it_only_its_own_user_is(self):
        self.start()
        self.wait_for_socket()
        self.assertEqual(os.stat(self.socket).st_mode & 0o777, 0o600)
        self.assertIn("Permission denied", self.ask(ANN, "GET", "/v1/status"))

    def test_a_port_that_is_taken_is_named_and_what_to_do(self):
        with contextlib.closing(socket.socket()) as taken, \
                contextlib.closing(socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)) as manager:
            taken.bind(("127.0.0.1", 0))
            taken.listen()
            port = taken.getsockname()[1]
            manager.bind(os.path.join(self.home, "notify"))
            os.chmod(os.path.join(self.home, "notify"), 0o666)
            daemon = self.start("--listen", f"127.0.0.1:{port}",
                                env=dict(os.environ, NOTIFY_SOCKET=os.path.join(self.home, "notify")))
            self.assertEqual(daemon.wait(60), 1)
            for text in (daemon.stderr.read(), manager.recv(4096).decode()):
                self.assertIn(f"port {port} on 127.0.0.1 is taken", text)
                self.assertIn("LISTEN= in /etc/lockstep/lockstepd.conf", text)
                self.assertIn("error: ", text)


if __name__ == "__main__":
    unittest.main()
