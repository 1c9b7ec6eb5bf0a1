"""The real kube-apiserver with its etcd, on loopback: what ours is compared with. Their programs come from the published modules (shared/peers/kubernetes)."""
import os
import shutil
import socket
import ssl
import subprocess
import tempfile
import time
import urllib.request

import yaml

PROGRAMS = ("kube-apiserver", "etcd")
TOKEN = "differential-token"
READY_S = 90


def programs():
    """The folder that has them, or None."""
    top = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    for folder in (os.environ.get("LOCKSTEP_KUBERNETES_PEER"), os.path.join(top, "build", "kubernetes"), os.path.join(top, "build", "kubernetes-peer")):
        if folder and all(os.access(os.path.join(folder, name), os.X_OK) for name in PROGRAMS):
            return folder
    return None


def free_ports(count):
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [one.getsockname()[1] for one in sockets]
    for one in sockets:
        one.close()
    return ports


class RealServer:
    def __init__(self):
        self.folder = programs()
        self.home = tempfile.mkdtemp(prefix="real-")
        self.running = []

    def __enter__(self):
        try:
            self.start()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_):
        for one in reversed(self.running):
            one.kill()
            one.wait()
        shutil.rmtree(self.home, ignore_errors=True)

    def at(self, name):
        return os.path.join(self.home, name)

    def run(self, name, *argv):
        with open(self.at(name + ".log"), "w") as log:
            self.running.append(subprocess.Popen(["nice", os.path.join(self.folder, name), *argv], stdout=log, stderr=log, stdin=subprocess.DEVNULL))

    def certificates(self):
        openssl = lambda *argv: subprocess.run(["openssl", *argv], check=True, capture_output=True)  # noqa: E731
        openssl("req", "-x509", "-newkey", "rsa:2048", "-nodes", "-keyout", self.at("server.key"), "-out", self.at("server.crt"), "-days", "30", "-subj", "/CN=real",
                "-addext", "subjectAltName=IP:127.0.0.1")
        openssl("genrsa", "-out", self.at("sa.key"), "2048")
        openssl("rsa", "-in", self.at("sa.key"), "-pubout", "-out", self.at("sa.pub"))
        with open(self.at("tokens.csv"), "w") as f:
            f.write(f"{TOKEN},admin,admin,system:masters\n")

    def start(self):
        self.certificates()
        client, peer, api = free_ports(3)
        self.run("etcd", "--name", "real", "--data-dir", self.at("etcd"), "--listen-client-urls", f"http://127.0.0.1:{client}", "--advertise-client-urls",
                 f"http://127.0.0.1:{client}", "--listen-peer-urls", f"http://127.0.0.1:{peer}", "--initial-advertise-peer-urls", f"http://127.0.0.1:{peer}",
                 "--initial-cluster", f"real=http://127.0.0.1:{peer}", "--unsafe-no-fsync")
        self.run("kube-apiserver", "--bind-address", "127.0.0.1", "--secure-port", str(api), "--advertise-address", "127.0.0.1", "--endpoint-reconciler-type", "none",
                 "--etcd-servers", f"http://127.0.0.1:{client}", "--tls-cert-file", self.at("server.crt"), "--tls-private-key-file", self.at("server.key"),
                 "--token-auth-file", self.at("tokens.csv"), "--authorization-mode", "RBAC", "--service-account-issuer", "https://kubernetes.default.svc.cluster.local",
                 "--service-account-key-file", self.at("sa.pub"), "--service-account-signing-key-file", self.at("sa.key"), "--service-cluster-ip-range", "10.96.0.0/16",
                 "--allow-privileged")
        self.url = f"https://127.0.0.1:{api}"
        tls = ssl.create_default_context(cafile=self.at("server.crt"))
        end = time.monotonic() + READY_S
        while True:
            try:
                with urllib.request.build_opener(urllib.request.ProxyHandler({}), urllib.request.HTTPSHandler(context=tls)).open(
                        urllib.request.Request(self.url + "/readyz", headers={"Authorization": "Bearer " + TOKEN}), timeout=5):
                    return
            except OSError as why:
                if time.monotonic() > end or any(one.poll() is not None for one in self.running):
                    raise AssertionError(f"the real API server is not ready: {why}") from why
                time.sleep(0.2)

    def kubeconfig(self):
        path = self.at("kubeconfig")
        with open(path, "w") as f:
            yaml.safe_dump({"apiVersion": "v1", "kind": "Config", "current-context": "real",
                            "clusters": [{"name": "real", "cluster": {"server": self.url, "certificate-authority": self.at("server.crt")}}],
                            "users": [{"name": "admin", "user": {"token": TOKEN}}],
                            "contexts": [{"name": "real", "context": {"cluster": "real", "user": "admin"}}]}, f)
        return path
