"""HTTP/2 on the one port: chosen by ALPN, many watches over one connection, and clients that mean harm."""
import os
import re
import shutil
import ssl
import socket
import struct
import subprocess
import tempfile
import time
import unittest

import yaml
from cluster import Cluster, eventually
from kube_test import CORE, Client, config_map

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
HEADERS, RST, SETTINGS, PING, GOAWAY = 1, 3, 4, 6, 7


def frame(kind, flags, stream, payload=b""):
    return struct.pack(">I", len(payload))[1:] + bytes([kind, flags]) + struct.pack(">I", stream) + payload


def head(path):
    """GET https://x/path, in fields that name nothing of the table but what is fixed."""
    return b"\x82\x87" + b"\x04" + bytes([len(path)]) + path.encode() + b"\x01\x01x"


@unittest.skipIf(os.geteuid() != 0, "virtual nodes need root")
class KubeHttp2(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.c = Cluster(nodes=1, gpus="")
        cls.c.up()
        cls.config = yaml.safe_load(cls.c.ok("lockstep", "kubeconfig"))
        cls.root = Client(cls.config)
        eventually(lambda: cls.root.ask("GET", CORE + "/default/serviceaccounts/default")[0] == 200, what="the first namespace is ready")

    @classmethod
    def tearDownClass(cls):
        cls.c.down()

    def connect(self):
        context = ssl.create_default_context()
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        context.set_alpn_protocols(["h2"])
        made = context.wrap_socket(socket.create_connection((self.root.host, int(self.root.port)), timeout=20))
        self.addCleanup(made.close)
        self.assertEqual(made.selected_alpn_protocol(), "h2")
        made.sendall(PREFACE + frame(SETTINGS, 0, 0))
        return made

    def read_until_end(self, made):
        """The error code of GOAWAY; None: the connection ended without one."""
        data, code = b"", None
        try:
            while part := made.recv(65536):
                data += part
        except OSError:
            pass
        while len(data) >= 9:
            size = int.from_bytes(data[:3], "big")
            if data[3] == GOAWAY and len(data) >= 9 + 8:
                code = struct.unpack(">I", data[13:17])[0]
            data = data[9 + size:]
        return code

    def still_served(self):
        self.assertEqual(self.root.ask("GET", "/version")[0], 200)

    @unittest.skipUnless(shutil.which("curl"), "curl is not installed")
    def test_spaces_around_a_value_are_no_reason_to_refuse(self):
        """Go's clients call themselves by the name of a test, which may end with a space."""
        for version in ("--http2", "--http1.1"):
            done = subprocess.run(["curl", "-sk", version, "--max-time", "10", "-H", "User-Agent: one two ", "-o", "/dev/null", "-w", "%{http_code} %{http_version}",
                                   f"https://{self.root.host}:{self.root.port}/version"], capture_output=True, text=True)
            self.assertIn(done.stdout, ("200 2", "200 1.1"), done.stderr)

    @unittest.skipUnless(shutil.which("curl"), "curl is not installed")
    def test_requests_bodies_and_streams_of_one_connection(self):
        token = self.root.must("POST", CORE + "/default/serviceaccounts/default/token", {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}})["status"]["token"]
        self.root.must("POST", "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings", {
            "metadata": {"name": "all"}, "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"},
            "subjects": [{"kind": "ServiceAccount", "name": "default", "namespace": "default"}]})
        where = f"https://{self.root.host}:{self.root.port}"
        base = ["curl", "-sk", "--max-time", "20", "-H", "Authorization: Bearer " + token, "-w", "\n%{http_version} %{http_code} %{num_connects}\n"]
        done = subprocess.run([*base, where + "/version", where + CORE], capture_output=True, text=True)
        self.assertEqual(re.findall(r"^2 200 \d$", done.stdout, re.M), ["2 200 1", "2 200 0"], done.stdout)
        with tempfile.NamedTemporaryFile("w") as body:
            body.write('{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"big"},"data":{"k":"' + "x" * 900_000 + '"}}')
            body.flush()
            made = subprocess.run([*base, "-H", "Content-Type: application/json", "--data-binary", "@" + body.name, where + CORE + "/default/configmaps"], capture_output=True, text=True)
        self.assertIn("\n2 201 ", made.stdout[-200:])
        self.assertEqual(len(self.root.must("GET", CORE + "/default/configmaps/big")["data"]["k"]), 900_000)
        # A hundred watches share a connection, and each hears of everything.
        count = 100
        config = "".join(f'url = "{where}{CORE}/default/configmaps?watch=true&fieldSelector=metadata.name%3Dw&n={n}"\noutput = "{self.c.work}/w{n}"\n' for n in range(count))
        watching = subprocess.Popen(["curl", "-skN", "--parallel", "--parallel-max", "150", "--max-time", "40", "-H", "Authorization: Bearer " + token, "-K", "-"],
                                    stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        self.addCleanup(watching.wait)
        self.addCleanup(watching.kill)
        watching.stdin.write(config.encode())
        watching.stdin.close()

        def sockets():
            return len([one for one in os.listdir(f"/proc/{watching.pid}/fd") if os.readlink(f"/proc/{watching.pid}/fd/{one}").startswith("socket:")])

        self.root.must("POST", CORE + "/default/configmaps", config_map("w", number="1"))

        def heard():
            return sum(1 for n in range(count) if os.path.exists(f"{self.c.work}/w{n}") and '"number":"1"' in open(f"{self.c.work}/w{n}").read())

        eventually(lambda: heard() == count, what="every watch has heard of it")
        self.assertLess(sockets(), 20)

    def test_floods_end_their_connection_and_no_other(self):
        for what, flood in (("resets", b"".join(frame(HEADERS, 5, 2 * n + 1, head("/version")) + frame(RST, 0, 2 * n + 1, struct.pack(">I", 8)) for n in range(5000))),
                            ("settings", frame(SETTINGS, 0, 0, struct.pack(">HI", 3, 100)) * 20_000),
                            ("pings", frame(PING, 0, 0, b"12345678") * 200_000)):
            made = self.connect()
            try:
                made.sendall(flood)  # nothing is read meanwhile
            except OSError:
                pass
            begun = time.monotonic()
            code = self.read_until_end(made) if what != "pings" else None
            self.assertLess(time.monotonic() - begun, 15, what)
            if what == "resets":
                self.assertIn(code, (2, 11, None))  # where it could still be read
            self.still_served()

    def test_what_is_no_http2(self):
        made = self.connect()
        made.sendall(b"\xff" * 100)
        self.assertIn(self.read_until_end(made), (1, 6, None))
        endless = self.connect()  # a head that never ends
        try:
            endless.sendall(frame(HEADERS, 0, 1, head("/version")))
            for _ in range(2000):
                endless.sendall(frame(9, 0, 1, b"\x00\x01a\x7f\x81\x7f" + b"v" * 255))
        except OSError:
            pass
        self.read_until_end(endless)
        self.still_served()


if __name__ == "__main__":
    unittest.main()
