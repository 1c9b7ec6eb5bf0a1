"""A cluster of two nodes with two pods that serve and two that ask, for tests of services and names."""
import json
import os
import re
import shutil
import subprocess

import images
from kube_cluster import KubeCluster, kubectl_path, pod

DNS = "10.96.0.10"


def curl_files():
    """curl and what it is linked with: busybox' own wget, linked statically, finds no names."""
    said = subprocess.run(["ldd", "/usr/bin/curl"], capture_output=True, text=True, check=True).stdout
    paths = ["/usr/bin/curl", *re.findall(r"(/\S+) \(0x", said)]
    files = {}
    for path in paths:
        with open(path, "rb") as f:
            files[path[1:]] = (f.read(), 0o755)
    return files


SERVE = "mkdir -p /tmp/www; echo $0 > /tmp/www/index.html; exec /bin/busybox httpd -f -p 8080 -h /tmp/www"


def missing():
    """What these tests need and this machine has not; "" if it has everything."""
    if os.geteuid() != 0:
        return "root, for virtual nodes"
    if not kubectl_path():
        return "kubectl"
    return images.missing() or ", ".join(name for name in ("nft", "dig") if not shutil.which(name))


class ServicesCluster(KubeCluster):
    NODES, CPUS = 2, 8

    @classmethod
    def push_images(cls):
        cls.push("test/box:v1", files=images.files_of_busybox(**curl_files()), Env=["PATH=/bin:/usr/bin"])

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        for name, node in (("a", "n1"), ("b", "n2")):
            cls.apply(pod(f"web-{name}", "sh", "-c", SERVE, f"web-{name}", labels={"app": "web", "one": name},
                          spec={"nodeName": node}))
            cls.apply(pod(f"client-{name}", spec={"nodeName": node}, labels={"app": "client"}))
        cls.service("web", ports=[{"name": "http", "port": 80, "targetPort": 8080, "nodePort": 30080}], type="NodePort")
        done = cls.try_kubectl("wait", "--for=condition=Ready", "pod", "--all", "--timeout=60s", timeout=90)
        assert done.returncode == 0, done.stderr + cls.try_kubectl("describe", "pods").stdout

    @classmethod
    def apply(cls, what):
        done = cls.try_kubectl("apply", "-f", "-", given=what)
        assert done.returncode == 0, done.stderr
        return what

    @classmethod
    def service(cls, name, selector=None, metadata=None, **spec):
        spec.setdefault("ports", [{"port": 80, "targetPort": 8080}])
        if selector is None:
            selector = {"app": "web"}
        return cls.apply({"apiVersion": "v1", "kind": "Service", "metadata": {"name": name, **(metadata or {})},
                          "spec": {**({"selector": selector} if selector else {}), **spec}})

    def own_service(self, name, *args, **more):
        self.addCleanup(self.try_kubectl, "delete", "service", name, "--ignore-not-found")
        return self.service(name, *args, **more)

    def get(self, *words):
        done = self.try_kubectl("get", *words, "-o", "json")
        self.assertEqual(done.returncode, 0, done.stderr)
        return json.loads(done.stdout)

    def inside(self, name, script):
        return self.try_kubectl("exec", name, "--", "sh", "-c", script)

    def on_node(self, name, *argv, timeout=20):
        return subprocess.run(["nsenter", "-t", str(self.c.node(name)["agent_pid"]), "-n", *argv], capture_output=True, text=True,
                              timeout=timeout)

    def node_address(self, name):
        return next(a["address"] for a in self.get("node", name)["status"]["addresses"] if a["type"] == "InternalIP")

    def address(self, name):
        return self.get("service", name)["spec"]["clusterIP"]

    def dig(self, *words, node="n1"):
        return self.on_node(node, "dig", f"@{DNS}", "+time=2", "+tries=2", *words).stdout

    def short(self, *words):
        return sorted(self.dig("+short", *words).split())

    def status_of(self, *words):
        return re.search(r"status: (\w+)", self.dig(*words)).group(1)

    def served(self, url, pod_name="client-a", times=16):
        done = self.inside(pod_name, f"for i in $(/bin/busybox seq {times}); do curl -sSm 5 {url}; done")
        self.assertEqual(done.returncode, 0, done.stderr)
        return set(done.stdout.split())

    def serving(self, node):
        inside = os.readlink(f"/proc/{self.c.node(node)['agent_pid']}/ns/net")
        for name in filter(str.isdigit, os.listdir("/proc")):
            try:
                with open(f"/proc/{name}/comm") as comm:
                    if comm.read() == "lockstep-svc\n" and os.readlink(f"/proc/{name}/ns/net") == inside:
                        return int(name)
            except OSError:
                pass
        return None
