"""Helm 3, unmodified, with a chart as people write them: hooks that are Jobs, a definition, claims, autoscalers; as an administrator and as a tenant.

Helm comes from its Go module: tests/clients/go/make builds it below build/ (some minutes)."""
import json
import os
import subprocess
import unittest

from client import HERE, Cluster, eventually
from kube_clients_test import programs

import images  # of the end-to-end tests, whose folder client.py names

CHART = os.path.join(HERE, "chart")
IMAGE = "127.0.0.1:5000/test/box:v1"
ANN = 1001
ACCESS = """
apiVersion: v1
kind: Namespace
metadata: {name: lab}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: ann, namespace: lab}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: admin}
subjects: [{apiGroup: rbac.authorization.k8s.io, kind: User, name: "%s"}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: lamps, labels: {rbac.authorization.k8s.io/aggregate-to-edit: "true"}}
rules: [{apiGroups: [shop.example.com], resources: [lamps], verbs: ["*"]}]
"""


@unittest.skipUnless(os.geteuid() == 0, "virtual nodes need root")
@unittest.skipUnless(programs("helm"), "Helm is not here: tests/clients/go/make builds it")
@unittest.skipUnless(programs("kubectl"), "kubectl is not installed")
@unittest.skipIf(images.missing(), f"these are not installed: {images.missing()}")
class Helm(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.c = c = Cluster(nodes=1, gpus=None, cpus=4)
        c.up()
        cls.registry = images.Registry(c.home, c.node("n1")["agent_pid"], 5000)
        layout = os.path.join(c.work, "box")
        images.make_layout(layout, "v1", config={"Env": ["PATH=/bin"], "Cmd": ["sleep", "600"]})
        cls.registry.push(f"oci:{layout}:v1", "test/box:v1")
        cls.root = cls.user_of("root")
        eventually(lambda: cls.call(cls.root, "kubectl", "get", "serviceaccount", "default").returncode == 0, what="the first namespace is ready")

    @classmethod
    def tearDownClass(cls):
        cls.registry.close()
        cls.c.down()

    @classmethod
    def user_of(cls, name, **who):
        """What a user's programs run with: a home of his own, and his kubeconfig."""
        home = os.path.join(cls.c.work, name)
        os.makedirs(home, exist_ok=True)
        config = os.path.join(home, "config")
        with open(config, "w") as f:
            f.write(cls.c.ok("lockstep", "kubeconfig", **who))
        os.chmod(config, 0o600)
        return {**os.environ, "KUBECONFIG": config, "HOME": home}

    @classmethod
    def call(cls, env, name, *argv, given=None, timeout=120):
        return subprocess.run([programs(name)[0], *argv], env=env, capture_output=True, text=True, timeout=timeout, input=given, cwd=env.get("HOME"))

    def ok(self, env, *argv, **words):
        done = self.call(env, *argv, **words)
        self.assertEqual(done.returncode, 0, f"{argv}: {done.stdout[-1500:]} {done.stderr[-3000:]}")
        return done.stdout

    def install(self, env, name, namespace, *more):
        return self.ok(env, "helm", "install", name, CHART, "--set", "image=" + IMAGE, "--wait", "--timeout", "60s", "-n", namespace, *more)

    def value(self, env, namespace, kind, name, path):
        return self.ok(env, "kubectl", "-n", namespace, "get", kind, name, "-o", "jsonpath={" + path + "}")

    def life(self, env, namespace, *more):
        """A release from its installation to its end."""
        helm = lambda *argv: self.ok(env, "helm", *argv, "-n", namespace)  # noqa: E731
        self.install(env, "s", namespace, *more)
        self.assertEqual(self.value(env, namespace, "deployment", "s", ".status.readyReplicas"), "2")
        self.assertEqual(self.value(env, namespace, "job", "s-pre-install", ".status.succeeded"), "1", "the hook ran, and stays until its next time")
        self.assertEqual(self.value(env, namespace, "lamp", "s", ".spec.watts"), "5")
        self.assertEqual(self.value(env, namespace, "configmap", "s-settings", ".data.autoscaling"), "true")
        password = self.value(env, namespace, "secret", "s-password", ".data.password")
        self.assertIn("it sells", self.ok(env, "helm", "test", "s", "--logs", "-n", namespace))

        helm("upgrade", "s", CHART, "--reuse-values", "--set", "greeting=again", "--wait", "--timeout", "60s")
        self.assertEqual(self.value(env, namespace, "configmap", "s-settings", ".data.greeting"), "again")
        self.assertEqual(self.value(env, namespace, "secret", "s-password", ".data.password"), password, "looked up, and kept")
        self.assertEqual(self.call(env, "kubectl", "-n", namespace, "get", "job", "s-post-upgrade").returncode, 1, "the hook succeeded, and is gone")

        failed = self.call(env, "helm", "upgrade", "s", CHART, "--reuse-values", "--set", "fails=true", "--atomic", "--timeout", "8s", "-n", namespace)
        self.assertEqual(failed.returncode, 1, failed.stdout)
        self.assertIn("rolled back", failed.stderr)
        states = [one["status"] for one in json.loads(helm("history", "s", "-o", "json"))]
        self.assertEqual(states, ["superseded", "superseded", "failed", "deployed"])
        self.assertEqual(self.value(env, namespace, "deployment", "s", ".spec.template.spec.containers[0].command[0]"), "sleep")

        helm("rollback", "s", "1", "--wait", "--timeout", "60s")
        self.assertEqual(self.value(env, namespace, "configmap", "s-settings", ".data.greeting"), "hello")
        self.assertIn("kind: HorizontalPodAutoscaler", helm("get", "manifest", "s"))
        self.assertIn("shop-0.1.0", helm("list"))
        helm("uninstall", "s", "--wait", "--timeout", "60s")
        self.assertEqual(json.loads(helm("list", "-o", "json")), [])
        left = self.ok(env, "kubectl", "-n", namespace, "get", "deployments,services,secrets,hpa,pvc", "-l", "app.kubernetes.io/instance=s", "-o", "name")
        self.assertEqual(left, "")

    def test_an_administrator_keeps_a_release(self):
        self.ok(self.root, "kubectl", "create", "namespace", "shop")
        self.life(self.root, "shop")

    def test_a_tenant_keeps_a_release_in_a_namespace(self):
        ann = self.user_of("ann", user=ANN)
        who = json.loads(self.ok(ann, "kubectl", "auth", "whoami", "-o", "json"))["status"]["userInfo"]["username"]
        self.ok(self.root, "kubectl", "apply", "-f", "-", given=ACCESS % who)
        self.ok(self.root, "kubectl", "apply", "-f", os.path.join(CHART, "crds"))
        self.life(ann, "lab", "--skip-crds")
        refused = self.call(ann, "helm", "install", "s", CHART, "-n", "default", "--skip-crds")
        self.assertIn("forbidden", refused.stderr)

    def test_a_hook_that_fails_stops_the_installation(self):
        done = self.call(self.root, "helm", "install", "bad", CHART, "--set", f"image={IMAGE},migrates=false", "--timeout", "30s")
        self.assertIn("failed pre-install", done.stderr)
        self.assertEqual(self.call(self.root, "kubectl", "get", "deployment", "bad").returncode, 1)
        self.ok(self.root, "helm", "uninstall", "bad")

    def test_what_is_rendered_is_applied(self):
        text = self.ok(self.root, "helm", "template", "t", CHART, "--no-hooks", "--set", "replicas=0", "--include-crds")
        definition = [part for part in text.split("---\n") if "kind: CustomResourceDefinition" in part][0]
        self.ok(self.root, "kubectl", "apply", "-f", "-", given=definition)
        self.ok(self.root, "kubectl", "wait", "--for", "condition=established", "crd/lamps.shop.example.com", "--timeout=20s")
        for how in ((), ("--server-side",)):
            self.ok(self.root, "kubectl", "apply", *how, "-f", "-", given=text.replace("minReplicas: 0", "minReplicas: 1"))
        self.ok(self.root, "kubectl", "delete", "-f", "-", given="---\n".join(part for part in text.split("---\n") if "CustomResourceDefinition" not in part))


if __name__ == "__main__":
    unittest.main()
