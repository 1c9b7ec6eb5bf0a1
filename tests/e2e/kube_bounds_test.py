"""What a tenant of Kubernetes' API may cost the others and how nodes show that they are heard."""
import concurrent.futures
import os
import time
import unittest

from cluster import Cluster, eventually
from kube_test import CORE, config_map, root_of

SHARE = 150  # objects of a namespace here
APPS, BATCH = "/apis/apps/v1/namespaces", "/apis/batch/v1/namespaces"
LEASES = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases"
TEMPLATE = {"metadata": {"labels": {"app": "w"}}, "spec": {"containers": [{"name": "a", "image": "none.invalid/a", "resources": {"requests": {"cpu": "900"}}}]}}


def deployment(name, replicas):
    return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": name},
            "spec": {"replicas": replicas, "selector": {"matchLabels": {"app": "w"}}, "template": TEMPLATE}}


def job(name, parallelism):
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": name},
            "spec": {"parallelism": parallelism, "completions": parallelism,
                     "template": {"spec": {**TEMPLATE["spec"], "restartPolicy": "Never"}}}}


@unittest.skipIf(os.geteuid() != 0, "virtual nodes need root")
class KubeBounds(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.c = Cluster(nodes=1, gpus="", cpus=2, extra=("--namespace-objects", str(SHARE)))
        cls.c.up()
        cls.root = root_of(cls.c)

    @classmethod
    def tearDownClass(cls):
        cls.c.down()

    def namespace(self, name, **labels):
        self.root.must("POST", CORE, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": labels}})
        eventually(lambda: self.root.ask("GET", f"{CORE}/{name}/serviceaccounts/default")[0] == 200, what="the namespace is ready")
        return f"{CORE}/{name}"

    def items(self, path):
        return self.root.must("GET", path)["items"]

    def events(self, room, reason):
        return [one["message"] for one in self.items(room + "/events") if one["reason"] == reason]

    def conditions(self, path):
        return {one["type"]: one for one in self.root.must("GET", path).get("status", {}).get("conditions", [])}

    def test_a_tenant_fills_its_own_share_only(self):
        room, other = self.namespace("hog"), self.namespace("quiet")
        self.root.must("POST", f"{BATCH}/hog/jobs", job("huge", 1_000_000_000))
        eventually(lambda: self.events(room, "FailedCreate"), what="the job says that it makes no more")
        self.assertIn("pods is forbidden: namespace hog has objects that number", self.events(room, "FailedCreate")[0])
        # In steps of what is made together, up to the share and never beyond.
        everything = len(self.items(room + "/pods"))
        self.assertGreater(everything, 64)
        self.assertLess(everything, SHARE)
        filled = 0
        while self.root.ask("POST", room + "/configmaps", config_map(f"m{filled}"))[0] == 201:
            filled += 1
        status, refused = self.root.ask("POST", room + "/configmaps", config_map("one-more"))
        self.assertEqual((status, refused["reason"]), (403, "Forbidden"))
        self.assertIn(f"namespace hog has objects that number {SHARE} and may be {SHARE}: delete what is not needed", refused["message"])
        status, refused = self.root.ask("POST", room + "/pods", {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": TEMPLATE["spec"]})
        self.assertEqual((status, refused["reason"]), (403, "Forbidden"))
        # Others notice nothing.
        begun = time.monotonic()
        self.root.must("POST", f"{APPS}/quiet/deployments", deployment("d", 3))
        eventually(lambda: len(self.items(other + "/pods")) == 3, what="another tenant's pods are made")
        self.assertLess(time.monotonic() - begun, 10)
        # What is there may change, and go.
        self.root.must("PUT", room + "/configmaps/m0", config_map("m0", a="b"))
        self.root.must("DELETE", room + "/configmaps/m0")
        self.root.must("POST", room + "/configmaps", config_map("again"))
        self.root.must("DELETE", f"{BATCH}/hog/jobs/huge?propagationPolicy=Background")
        self.root.must("DELETE", f"{CORE}/hog")
        eventually(lambda: self.root.ask("GET", f"{CORE}/hog")[0] == 404, what="the full namespace goes")

    def test_a_deployment_says_why_it_has_too_few(self):
        self.namespace("wide")
        self.root.must("POST", f"{APPS}/wide/deployments", deployment("d", 2_000_000_000))
        path = f"{APPS}/wide/deployments/d"
        eventually(lambda: "ReplicaFailure" in self.conditions(path), what="the deployment tells")
        self.assertIn("namespace wide has objects that number", self.conditions(path)["ReplicaFailure"]["message"])
        scaled = self.root.must("GET", path)
        scaled["spec"]["replicas"] = 1
        del scaled["metadata"]["resourceVersion"]
        self.root.must("PUT", path, scaled)
        eventually(lambda: len(self.items(f"{CORE}/wide/pods")) == 1, what="the others go")
        eventually(lambda: "ReplicaFailure" not in self.conditions(path), what="it fails no more")

    def test_long_bodies(self):
        room = self.namespace("long")
        maps = room + "/configmaps"
        many = config_map("many", **{f"k{i}": "v" for i in range(40_000)})
        made = self.root.must("POST", maps, many)
        self.assertEqual(len(made["data"]), 40_000)
        # A short patch of a long object is a long change, and one that another overtakes is tried again.
        def patch(i):
            return self.root.must("PATCH", maps + "/many", {"data": {"k1": None, f"new{i}": "x"}}, "application/merge-patch+json")
        with concurrent.futures.ThreadPoolExecutor(4) as pool:
            list(pool.map(patch, range(4)))
        now = self.root.must("GET", maps + "/many")
        self.assertEqual((len(now["data"]), [now["data"].get(f"new{i}") for i in range(4)], "k1" in now["data"]), (40_003, ["x"] * 4, False))
        self.assertEqual(self.root.ask("PUT", maps + "/many", {**made, "data": {}})[0], 409)
        # Applied, as JSON and as YAML of as many lines.
        path, kind = maps + "/applied?fieldManager=me", "application/apply-patch+yaml"
        lines = "".join(f"  k{i}: v\n" for i in range(14_000))
        applied = self.root.must("PATCH", path, f"apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: applied}}\ndata:\n{lines}", kind)
        self.assertEqual(len(applied["data"]), 14_000)
        applied = self.root.must("PATCH", path, {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "applied"}, "data": {"k0": "v"}}, kind)
        self.assertEqual(applied["data"], {"k0": "v"})

    def test_long_bodies_that_are_refused(self):
        room = self.namespace("evil")
        ports = [{"name": f"p{i}", "port": i % 70_000} for i in range(20_000)]
        status, refused = self.root.ask("POST", room + "/services", {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "s"}, "spec": {"ports": ports}})
        self.assertEqual((status, refused["details"]["causes"][0]["field"]), (422, "spec.ports[0].port"))
        status, refused = self.root.ask("POST", room + "/configmaps", '{"apiVersion":"v1","kind":"ConfigMap","x":[' + ",".join(["{}"] * 300_000) + "]}")
        self.assertEqual((status, refused["reason"]), (413, "RequestEntityTooLarge"))
        self.assertEqual(refused["message"], "Request entity too large: it has 300004 values, limit is 100000")
        for path in ("/serviceaccounts/default/token", "/bindings"):
            status, refused = self.root.ask("POST", room + path, "{" + " " * 20_000)
            self.assertEqual((status, refused["reason"]), (400, "BadRequest"))
        status, refused = self.root.ask("DELETE", room + "/configmaps/none", '{"kind":"DeleteOptions","apiVersion":"v1","dryRun":["' + "x" * 70_000 + '"]}')
        self.assertEqual((status, refused["message"]), (413, "Request entity too large: limit is 65536"))
        status, refused = self.root.ask("POST", room + "/configmaps", config_map("a_b", **{f"k{i}": "v" for i in range(1_000)}))
        self.assertEqual((status, refused["details"]["causes"][0]["field"]), (422, "metadata.name"))

    def test_nodes_renew_their_leases(self):
        first = self.root.must("GET", LEASES + "/n1")
        self.assertEqual((first["spec"]["holderIdentity"], first["metadata"]["ownerReferences"][0]["kind"]), ("n1", "Node"))
        eventually(lambda: self.root.must("GET", LEASES + "/n1")["spec"]["renewTime"] > first["spec"]["renewTime"], what="a beat")
        self.assertEqual(self.root.must("GET", LEASES + "/n1")["metadata"]["resourceVersion"], first["metadata"]["resourceVersion"], "no entry in the log")
        self.root.must("DELETE", LEASES + "/n1")
        eventually(lambda: self.root.ask("GET", LEASES + "/n1")[0] == 200, what="it comes back")
        beat = {one["type"]: one for one in self.root.must("GET", "/api/v1/nodes/n1")["status"]["conditions"]}["Ready"]["lastHeartbeatTime"]
        self.assertGreaterEqual(beat, first["spec"]["renewTime"][:19] + "Z")


if __name__ == "__main__":
    unittest.main()
