"""A cluster whose pods are made with the real kubectl, with images from registries of the test's own: what the tests of pods share."""
import json
import os
import subprocess
import unittest

import images
from cluster import Cluster, eventually

HERE = os.path.dirname(os.path.abspath(__file__))
SUITE = os.environ.get("LOCKSTEP_KUBERNETES_SUITE", os.path.join(HERE, "..", "..", "build", "kubernetes"))  # tests/kube/suite.py makes it
PORT = 5000  # of a registry on each node
IMAGE = f"127.0.0.1:{PORT}/test/box:v1"


def kubectl_path():
    for path in (os.path.join(SUITE, "kubectl"), *(os.path.join(folder, "kubectl") for folder in os.environ["PATH"].split(":"))):
        if os.path.exists(path):
            return path
    return None


def pod(name, *command, spec=None, container=None, **metadata):
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, **metadata},
            "spec": {"restartPolicy": "Never", "terminationGracePeriodSeconds": 1,
                     "containers": [{"name": "main", "image": IMAGE, "command": list(command) or ["sleep", "600"], **(container or {})}],
                     **(spec or {})}}


@unittest.skipUnless(os.geteuid() == 0, "virtual nodes need root")
@unittest.skipUnless(kubectl_path(), "kubectl is not installed")
@unittest.skipIf(images.missing(), f"these are not installed: {images.missing()}")
class KubeCluster(unittest.TestCase):
    NODES, GPUS, CPUS = 1, None, 4

    @classmethod
    def setUpClass(cls):
        cls.c = Cluster(nodes=cls.NODES, gpus=cls.GPUS, cpus=cls.CPUS, extra=cls.options())
        cls.c.up()
        cls.registries = [images.Registry(cls.c.home, cls.c.node(f"n{i + 1}")["agent_pid"], PORT) for i in range(cls.NODES)]
        cls.push_images()
        cls.config = os.path.join(cls.c.work, "kubeconfig")
        cls.c.ok("lockstep", "kubeconfig", cls.config)
        eventually(lambda: cls.try_kubectl("get", "serviceaccount", "default").returncode == 0, what="the first namespace is ready")

    @classmethod
    def tearDownClass(cls):
        for registry in cls.registries:
            registry.close()
        cls.c.down()

    @classmethod
    def options(cls):
        """More words for `lockstep up`."""
        return ()

    @classmethod
    def push_images(cls):
        cls.push("test/box:v1")

    @classmethod
    def push(cls, *names, files=None, **config):
        """One image under each of the names, in the registry of every node."""
        layout = os.path.join(cls.c.work, names[0].replace("/", "-").replace(":", "-"))
        images.make_layout(layout, "v1", files=files, config={"Env": ["PATH=/bin"], "Cmd": ["sleep", "600"], **config})
        for registry in cls.registries:
            for name in names:
                registry.push(f"oci:{layout}:v1", name)

    @classmethod
    def try_kubectl(cls, *words, given=None, timeout=60):
        return subprocess.run([kubectl_path(), "--kubeconfig", cls.config, *words], capture_output=True, text=True, timeout=timeout,
                              input=given if given is None or isinstance(given, str) else json.dumps(given))

    def kubectl(self, *words, given=None):
        done = self.try_kubectl(*words, given=given)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout

    def create(self, *args, ready=False, **more):
        """A pod as pod() makes it; it goes with the test. ready: it is waited for."""
        what = pod(*args, **more)
        name, namespace = what["metadata"]["name"], what["metadata"].get("namespace", "default")
        self.kubectl("create", "-f", "-", given=what)
        self.addCleanup(self.try_kubectl, "-n", namespace, "delete", "pod", name, "--grace-period=0", "--force", "--ignore-not-found")
        if ready:
            self.kubectl("-n", namespace, "wait", "--for=condition=Ready", f"pod/{name}", "--timeout=40s")
        return name

    def get(self, name, kind="pod"):
        return json.loads(self.kubectl("get", kind, name, "-o", "json"))
