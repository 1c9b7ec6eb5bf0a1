"""Webhooks about pods that controllers make: they are asked, what they say holds, and what the core refuses does not go round."""
import base64
import json
import os
import time
import unittest

from cluster import Cluster, eventually
from kube_admission_test import POLICIES, Webhooks
from kube_test import CORE, root_of

APPS, BATCH = "/apis/apps/v1/namespaces", "/apis/batch/v1/namespaces"


def template(**requests):
    return {"metadata": {"labels": {"app": "w"}}, "spec": {"containers": [{"name": "a", "image": "none.invalid/a", "resources": {"requests": requests}}]}}


def deployment(name, replicas, **requests):
    return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": name},
            "spec": {"replicas": replicas, "selector": {"matchLabels": {"app": "w"}}, "template": template(**requests)}}


def job(name):
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": name}, "spec": {"template": {"spec": {**template()["spec"], "restartPolicy": "Never"}}}}


@unittest.skipIf(os.geteuid() != 0, "virtual nodes need root")
class KubeMadePods(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.c = Cluster(nodes=1, gpus="", cpus=2)
        cls.c.up()
        cls.root = root_of(cls.c)

    @classmethod
    def tearDownClass(cls):
        cls.c.down()

    def setUp(self):
        self.name = self.id().split("test_")[-1].replace("_", "-")
        self.room = f"{CORE}/{self.name}"
        self.root.must("POST", CORE, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": self.name, "labels": {"hooked": "yes"}}})
        eventually(lambda: self.root.ask("GET", f"{self.room}/serviceaccounts/default")[0] == 200, what="the namespace is ready")
        self.hooks = Webhooks()
        self.addCleanup(self.hooks.close)

    def configure(self, kind, name, **more):
        path = f"{POLICIES}/{kind.lower()}webhookconfigurations"
        made = self.hooks.configuration(kind, name, resources=("pods",), **more)
        self.root.must("POST", path, made)
        self.addCleanup(lambda: self.root.ask("DELETE", f"{path}/{name}"))
        return made

    def items(self, what):
        return self.root.must("GET", f"{self.room}/{what}")["items"]

    def events(self, reason):
        return [one["message"] for one in self.items("events") if one["reason"] == reason]

    def adds_a_container(self):
        changes = [{"op": "add", "path": "/spec/containers/-", "value": {"name": "proxy", "image": "none.invalid/proxy"}},
                   {"op": "add", "path": "/metadata/labels/injected", "value": "yes"}]
        patch = base64.b64encode(json.dumps(changes).encode()).decode()
        self.hooks.say = lambda request: {"patchType": "JSONPatch", "patch": patch} if len(request["object"]["spec"]["containers"]) == 1 else {}

    def test_what_they_add(self):
        self.adds_a_container()
        self.configure("Mutating", "inject")
        self.root.must("POST", f"{APPS}/{self.name}/deployments", deployment("d", 3))
        eventually(lambda: len(self.items("pods")) == 3, what="pods")
        for made in self.items("pods"):
            self.assertEqual([one["name"] for one in made["spec"]["containers"]], ["a", "proxy"])
            self.assertEqual(made["metadata"]["labels"]["injected"], "yes")
        asked = self.hooks.asked[0]
        self.assertEqual((asked["operation"], asked["namespace"], asked["kind"]["kind"]), ("CREATE", self.name, "Pod"))
        self.assertTrue(asked["object"]["metadata"]["generateName"].startswith("d-"))
        self.assertEqual(len(self.hooks.asked), 3)

    def test_what_they_refuse(self):
        self.hooks.say = lambda request: {"allowed": False, "status": {"message": "not here", "code": 403}}
        self.configure("Validating", "judge")
        self.root.must("POST", f"{BATCH}/{self.name}/jobs", job("j"))
        eventually(lambda: self.events("FailedCreate"), what="the job says what the webhook said")
        self.assertIn('admission webhook "judge.example.com" denied the request: not here', self.events("FailedCreate")[0])
        self.root.must("DELETE", POLICIES + "/validatingwebhookconfigurations/judge")
        eventually(lambda: self.items("pods"), what="the job's pod")

    def test_who_cannot_be_reached(self):
        dead = self.configure("Validating", "dead", timeoutSeconds=1)
        dead["webhooks"][0]["clientConfig"]["url"] = "https://127.0.0.1:9/"
        self.root.must("PUT", POLICIES + "/validatingwebhookconfigurations/dead", dead)
        self.root.must("POST", f"{BATCH}/{self.name}/jobs", job("k"))
        eventually(lambda: any('failed calling webhook "dead.example.com"' in one for one in self.events("FailedCreate")), what="why there is no pod")
        dead["webhooks"][0]["failurePolicy"] = "Ignore"
        self.root.must("PUT", POLICIES + "/validatingwebhookconfigurations/dead", dead)
        eventually(lambda: self.items("pods"), what="a pod although nobody answers")

    def test_a_pod_that_no_node_can_hold(self):
        self.adds_a_container()
        self.configure("Mutating", "large")
        self.root.must("POST", f"{APPS}/{self.name}/deployments", deployment("d", 2, cpu="900"))
        eventually(lambda: len(self.items("pods")) == 2, what="pods, which wait for ever")
        for made in self.items("pods"):
            self.assertEqual([one["name"] for one in made["spec"]["containers"]], ["a", "proxy"])
            self.assertEqual(made["status"]["conditions"][0]["reason"], "Unschedulable")
        asked = len(self.hooks.asked)
        time.sleep(1.5)
        self.assertEqual(len(self.hooks.asked), asked, "nobody goes round")
        self.assertLessEqual(asked, 6)


if __name__ == "__main__":
    unittest.main(verbosity=2)
