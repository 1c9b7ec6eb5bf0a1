"""Where pods go: parts of cores, spreading, affinities, taints, what users count on nodes, precedence, cordon and drain."""
import json
import os
import re
import time
import unittest

from cluster import Cluster, eventually
from kube_test import CORE, root_of

NODES = "/api/v1/nodes"
MERGE = "application/merge-patch+json"


def pod(name, cpu=None, app="a", **spec):
    container = {"name": "main", "image": "127.0.0.1:9/none"}  # where it goes is asked here, not what it runs
    if cpu:
        container["resources"] = {"requests": {"cpu": cpu}}
    if "requests" in spec:
        container["resources"] = {"requests": spec.pop("requests"), "limits": spec.pop("limits", {})}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "labels": {"app": app}},
            "spec": {"terminationGracePeriodSeconds": 0, "containers": [container], **spec}}


def term(app, level="kubernetes.io/hostname"):
    return {"labelSelector": {"matchLabels": {"app": app}}, "topologyKey": level}


def required(kind, *terms):
    return {"affinity": {kind: {"requiredDuringSchedulingIgnoredDuringExecution": list(terms)}}}


@unittest.skipIf(os.geteuid() != 0, "virtual nodes need root")
class KubePlacement(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.c = Cluster(nodes=3, gpus="", cpus=4)
        cls.c.up()
        cls.root = root_of(cls.c)
        eventually(lambda: len(cls.root.must("GET", NODES)["items"]) == 3, what="nodes have their objects")

    @classmethod
    def tearDownClass(cls):
        cls.c.down()

    def setUp(self):
        self.ns = f"{CORE}/t{abs(hash(self.id())) % 10**8}"
        self.name = self.ns.rsplit("/", 1)[1]
        self.root.must("POST", CORE, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": self.name}})
        eventually(lambda: self.root.ask("GET", self.ns + "/serviceaccounts/default")[0] == 200, what="the namespace is ready")
        self.addCleanup(self.empty)

    def empty(self):
        self.root.must("DELETE", self.ns)
        eventually(lambda: not self.root.must("GET", self.ns + "/pods")["items"], what="its pods have gone")
        eventually(lambda: not self.c.ok("squeue", "-h").strip(), what="their jobs have ended")

    def create(self, *args, **more):
        what = pod(*args, **more)
        self.root.must("POST", self.ns + "/pods", what)
        return what["metadata"]["name"]

    def get(self, name):
        return self.root.must("GET", f"{self.ns}/pods/{name}")

    def node_of(self, name):
        return self.get(name)["spec"].get("nodeName")

    def placed(self, *names):
        for name in names:
            eventually(lambda: self.node_of(name), what=f"{name} has a node: {self.get(name)['status']}")
        return [self.node_of(name) for name in names]

    def waits(self, name):
        """The message of a pod that has no node, once it has one."""
        def message():
            status = self.get(name)["status"]
            return next((c.get("message") for c in status.get("conditions", []) if c["type"] == "PodScheduled" and c["status"] == "False"), None)
        eventually(message, what=f"{name} says why it waits")
        self.assertIsNone(self.node_of(name))
        return message()

    def label(self, node, **labels):
        self.root.must("PATCH", f"{NODES}/{node}", {"metadata": {"labels": labels}}, kind=MERGE)
        self.addCleanup(self.root.must, "PATCH", f"{NODES}/{node}", {"metadata": {"labels": {key: None for key in labels}}}, kind=MERGE)

    def test_a_node_takes_as_many_parts_of_cores_as_it_has(self):
        at = {"nodeSelector": {"kubernetes.io/hostname": "n1"}}
        names = [self.create(f"p{i}", "900m", **at) for i in range(4)]
        self.assertEqual(set(self.placed(*names)), {"n1"})
        self.placed(self.create("rest", "400m", **at))
        said = self.waits(self.create("more", "100m", **at))
        self.assertIn("0/3 nodes are available: 1 Insufficient cpu, 2 node(s) didn't match Pod's node affinity/selector.", said)
        job = re.search(r"Job (\d+) waits: (\w+)", said)
        explained = self.c.ok("lockstep", "explain", "pod/more", "-n", self.name)
        self.assertRegex(explained, rf"^Job {job[1]} .*waits: {job[2]}")
        eventually(lambda: any(e["reason"] == "FailedScheduling" and "Insufficient cpu" in e["message"]
                               for e in self.root.must("GET", self.ns + "/events")["items"]), what="an event says so")
        self.assertIn("more", self.c.ok("squeue", "-h", "-o", "%j"))
        self.root.must("DELETE", f"{self.ns}/pods/rest")
        self.placed("more")

    def test_a_node_that_is_named_takes_a_pod_or_refuses_it(self):
        """Nobody schedules it: it fails in the node agents' words instead of waiting."""
        self.placed(self.create("first", "3", nodeName="n2"))
        def refused(name):
            status = self.get(name)["status"]
            return status["phase"] == "Failed" and status["reason"]
        self.assertEqual(refused(self.create("second", "2", nodeName="n2")), "OutOfcpu")
        self.assertIn("requested: 2000, used: 3000, capacity: 4000", self.get("second")["status"]["message"])
        self.assertEqual(refused(self.create("third", nodeName="n2", nodeSelector={"no": "such"})), "NodeAffinity")
        eventually(lambda: any(e["reason"] == "OutOfcpu" for e in self.root.must("GET", self.ns + "/events")["items"]), what="an event says so")
        # A set makes another one, after a pause, and keeps what failed.
        self.root.must("POST", f"/apis/apps/v1/namespaces/{self.name}/replicasets", {
            "apiVersion": "apps/v1", "kind": "ReplicaSet", "metadata": {"name": "web"},
            "spec": {"replicas": 1, "selector": {"matchLabels": {"app": "web"}},
                     "template": {"metadata": {"labels": {"app": "web"}}, "spec": pod("x", "2", nodeName="n2")["spec"]}}})
        of_set = lambda: [p for p in self.root.must("GET", self.ns + "/pods")["items"] if p["metadata"]["name"].startswith("web-")]
        time.sleep(2.5)
        self.assertLessEqual(len(of_set()), 3)
        self.root.must("DELETE", f"{self.ns}/pods/first")
        eventually(lambda: any(p["status"]["phase"] != "Failed" and p["spec"].get("nodeName") for p in of_set()), what="one has found room")

    def test_a_binding_that_the_node_refuses_is_told_with_its_place(self):
        """As a scheduler of others watches: pods that have not failed. Without the place it would believe it taken for ever."""
        self.placed(self.create("first", "3", nodeName="n2"))
        self.create("bound", "2", schedulerName="mine")
        seen = []
        watch = self.root.open("GET", f"{self.ns}/pods?watch=1&timeoutSeconds=60&fieldSelector=status.phase%21%3DFailed%2Cmetadata.name%3Dbound")
        self.addCleanup(watch.close)
        self.root.must("POST", f"{self.ns}/pods/bound/binding", {"apiVersion": "v1", "kind": "Binding", "metadata": {"name": "bound"},
                                                                "target": {"kind": "Node", "name": "n2"}})
        while not seen or seen[-1][0] != "DELETED":
            event = json.loads(watch.readline())
            seen.append((event["type"], event["object"]["spec"].get("nodeName")))
        self.assertEqual((seen[0], seen[-1]), (("ADDED", None), ("DELETED", "n2")))
        self.assertIn(("MODIFIED", "n2"), seen)
        self.assertEqual(self.get("bound")["status"]["reason"], "OutOfcpu")

    def test_a_node_that_is_deleted_comes_back_with_what_was_added(self):
        self.label("n3", team="vision")
        taint = {"key": "team", "value": "vision", "effect": "NoSchedule"}
        self.root.must("PATCH", f"{NODES}/n3", {"spec": {"taints": [taint]}}, kind=MERGE)
        self.addCleanup(self.root.must, "PATCH", f"{NODES}/n3", {"spec": {"taints": None}}, kind=MERGE)
        self.placed(self.create("stays", nodeName="n3"))
        account = self.root.must("POST", f"{self.ns}/serviceaccounts/default/token", {
            "apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest",
            "spec": {"boundObjectRef": {"apiVersion": "v1", "kind": "Pod", "name": "stays"}}})["status"]["token"]
        before = self.root.must("GET", NODES + "/n3")
        self.root.must("DELETE", NODES + "/n3")

        def again():
            status, node = self.root.ask("GET", NODES + "/n3")
            return node if status == 200 and node["metadata"]["uid"] != before["metadata"]["uid"] else None
        eventually(again, what="it is made anew")
        node = again()
        self.assertEqual(node["metadata"]["labels"]["team"], "vision")
        self.assertIn(taint, node["spec"]["taints"])
        self.assertEqual(self.node_of("stays"), "n3")
        review = self.root.must("POST", "/apis/authentication.k8s.io/v1/tokenreviews", {
            "apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview", "spec": {"token": account}})
        self.assertTrue(review["status"].get("authenticated"), "its pod is there")

    def test_a_written_condition_stays_until_the_agents_next_word(self):
        ready = lambda: next(c for c in self.root.must("GET", NODES + "/n3")["status"]["conditions"] if c["type"] == "Ready")

        def write():
            node = self.root.must("GET", NODES + "/n3")
            for one in node["status"]["conditions"]:
                if one["type"] == "Ready":
                    one.update(status="False", reason="Test")
            status, said = self.root.ask("PUT", NODES + "/n3/status", node)
            self.assertIn(status, (200, 409), said)
            return status == 200
        eventually(write, what="it is written")
        self.assertEqual((ready()["status"], ready()["reason"]), ("False", "Test"))
        eventually(lambda: ready()["status"] == "True", timeout=30, what="its agent has the next word")

    def test_an_eviction_and_a_word_of_others_are_seen(self):
        name = self.create("one")
        self.placed(name)
        path = f"{self.ns}/pods/{name}"
        self.root.must("PATCH", path, {"metadata": {"finalizers": ["x.org/y"]}}, kind=MERGE)
        eventually(lambda: any(c["type"] == "Ready" for c in self.get(name)["status"]["conditions"]), what="its node has a word")

        def write():
            written = self.get(name)
            for one in written["status"]["conditions"]:
                if one["type"] == "Initialized":
                    one.update(status="False", reason="SaidSo")
            status, said = self.root.ask("PUT", path + "/status", written)
            self.assertIn(status, (200, 409), said)  # its node has another word meanwhile
            told = status == 200 and ("Initialized", "False") in [(c["type"], c["status"]) for c in said["status"]["conditions"]]
            return said if told else None
        eventually(write, what="its status is written")
        self.root.must("POST", path + "/eviction", {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": name}})
        eventually(lambda: self.get(name)["status"]["phase"] == "Failed", what=f"it has ended: {self.get(name)['status']}")
        self.assertIn(("DisruptionTarget", "True", "EvictionByEvictionAPI"),
                      [(c["type"], c["status"], c.get("reason")) for c in self.get(name)["status"]["conditions"]])
        self.root.must("PATCH", path, {"metadata": {"finalizers": None}}, kind=MERGE)
        eventually(lambda: self.root.ask("GET", path)[0] == 404, what="it goes")

    def test_an_end_that_is_written_stops_the_pod(self):
        name = self.create("one")
        self.placed(name)
        self.root.must("PATCH", f"{self.ns}/pods/{name}/status", {"status": {"phase": "Failed"}}, kind=MERGE)
        self.assertEqual(self.get(name)["status"]["phase"], "Failed")
        eventually(lambda: not self.c.ok("squeue", "-h").strip(), what="its job ends")
        self.assertEqual(self.get(name)["status"]["phase"], "Failed")

    def test_pods_of_one_owner_are_spread(self):
        self.root.must("POST", f"/apis/apps/v1/namespaces/{self.name}/replicasets", {
            "apiVersion": "apps/v1", "kind": "ReplicaSet", "metadata": {"name": "web"},
            "spec": {"replicas": 6, "selector": {"matchLabels": {"app": "web"}},
                     "template": {"metadata": {"labels": {"app": "web"}}, "spec": pod("x", "100m")["spec"]}}})
        nodes = lambda: [p["spec"].get("nodeName") for p in self.root.must("GET", self.ns + "/pods")["items"]]
        eventually(lambda: len(got := nodes()) == 6 and None not in got, what="all have nodes")
        self.assertEqual(sorted(nodes()), ["n1", "n1", "n2", "n2", "n3", "n3"])

    def test_affinities_between_pods(self):
        for node, zone in (("n1", "east"), ("n2", "east"), ("n3", "west")):
            self.label(node, zone=zone)
        apart = [self.create(f"apart{i}", app="apart", **required("podAntiAffinity", term("apart"))) for i in range(3)]
        self.assertEqual(sorted(self.placed(*apart)), ["n1", "n2", "n3"])
        said = self.waits(self.create("fourth", app="apart", **required("podAntiAffinity", term("apart"))))
        self.assertIn("3 node(s) didn't match pod anti-affinity rules", said)
        web = self.create("web", app="web", **required("podAffinity", term("cache", "zone")))
        self.assertIn("3 node(s) didn't match pod affinity rules", self.waits(web))
        cache = self.create("cache", app="cache", nodeSelector={"zone": "west"})
        self.assertEqual(self.placed(cache, web), ["n3", "n3"])
        quiet = self.create("quiet", app="quiet", nodeSelector={"zone": "west"}, **required("podAntiAffinity", term("noisy", "zone")))
        self.placed(quiet)
        noisy = [self.create(f"noisy{i}", app="noisy") for i in range(3)]
        self.assertNotIn("n3", self.placed(*noisy))

    def test_topology_spread(self):
        for node, zone in (("n1", "east"), ("n2", "east"), ("n3", "west")):
            self.label(node, zone=zone)
        rule = {"topologySpreadConstraints": [{"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule",
                                               "labelSelector": {"matchLabels": {"app": "even"}}}]}
        names = [self.create(f"e{i}", "1500m", app="even", **rule) for i in range(4)]
        nodes = self.placed(*names)
        self.assertEqual(nodes.count("n3"), 2)
        self.placed(self.create("e4", "1500m", app="even", **rule))
        self.assertIn("didn't match pod topology spread constraints", self.waits(self.create("e5", "1500m", app="even", **rule)))

    def test_labels_and_taints_that_users_add_count_at_once(self):
        self.label("n2", disk="ssd")
        wants = {"affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [
            {"matchExpressions": [{"key": "disk", "operator": "In", "values": ["ssd"]}]}]}}}}
        self.assertEqual(self.placed(self.create("fast", **wants)), ["n2"])
        taint = {"spec": {"taints": [{"key": "team", "value": "vision", "effect": "NoSchedule"}]}}
        for node in ("n1", "n3"):
            self.root.must("PATCH", f"{NODES}/{node}", taint, kind=MERGE)
            self.addCleanup(self.root.must, "PATCH", f"{NODES}/{node}", {"spec": {"taints": None}}, kind=MERGE)
        self.assertEqual(set(self.placed(*[self.create(f"plain{i}") for i in range(3)])), {"n2"})
        bears = {"tolerations": [{"key": "team", "operator": "Equal", "value": "vision", "effect": "NoSchedule"}]}
        self.assertGreater(len(set(self.placed(*[self.create(f"bears{i}", "100m", **bears) for i in range(3)]))), 1)
        later = self.create("later", nodeSelector={"disk": "tape"})
        self.assertIn("2 node(s) had untolerated taint {team: vision}", self.waits(later))
        self.label("n2", disk="tape")
        self.assertEqual(self.placed(later), ["n2"])

    def count(self, name, amount):
        path = f"/status/capacity/{name.replace('/', '~1')}"
        change = [{"op": "add", "path": path, "value": amount}] if amount else [{"op": "remove", "path": path}]
        self.root.must("PATCH", f"{NODES}/n1/status", change, kind="application/json-patch+json")

    def test_what_users_count_on_a_node_is_given_out_and_preempted_for(self):
        foo = "scheduling.k8s.io/foo"
        self.count(foo, "5")
        self.addCleanup(self.count, foo, None)
        self.assertEqual(self.root.must("GET", NODES + "/n1")["status"]["allocatable"][foo], "5")
        for name, value in (("low", -1), ("high", 1000)):
            self.root.must("POST", "/apis/scheduling.k8s.io/v1/priorityclasses", {
                "apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": f"{self.name}-{name}"}, "value": value})
            self.addCleanup(self.root.must, "DELETE", f"/apis/scheduling.k8s.io/v1/priorityclasses/{self.name}-{name}")
        low = self.create("low", requests={foo: "3"}, limits={foo: "3"}, priorityClassName=f"{self.name}-low")
        middle = self.create("middle", requests={foo: "2"}, limits={foo: "2"})
        self.assertEqual(self.placed(low, middle), ["n1", "n1"])
        self.assertIn("Insufficient " + foo, self.waits(self.create("even", requests={foo: "1"}, limits={foo: "1"}, priorityClassName=f"{self.name}-low")))
        self.root.must("DELETE", f"{self.ns}/pods/even")
        high = self.create("high", requests={foo: "3"}, limits={foo: "3"}, priorityClassName=f"{self.name}-high")
        self.assertEqual(self.placed(high), ["n1"])
        eventually(lambda: self.root.ask("GET", f"{self.ns}/pods/{low}")[0] == 404, what="the lower one has gone")
        self.assertEqual(self.node_of(middle), "n1")

    def test_cordon_and_drain_are_one_act(self):
        self.root.must("PATCH", NODES + "/n1", {"spec": {"unschedulable": True}}, kind=MERGE)
        self.assertIn("drain", self.c.ok("sinfo", "-h", "-n", "n1", "-o", "%T"))
        self.assertIn("cordoned by", self.c.ok("scontrol", "show", "node", "n1"))
        said = self.waits(self.create("there", nodeSelector={"kubernetes.io/hostname": "n1"}))
        self.assertIn("1 node(s) were unschedulable", said)
        self.c.ok("scontrol", "update", "NodeName=n1", "State=RESUME")
        self.assertNotIn("unschedulable", self.root.must("GET", NODES + "/n1")["spec"])
        self.placed("there")
        self.c.ok("scontrol", "update", "NodeName=n1", "State=DRAIN", "Reason=fan")
        node = self.root.must("GET", NODES + "/n1")
        self.assertTrue(node["spec"]["unschedulable"])
        self.assertEqual(node["metadata"]["annotations"]["lockstep.io/reason"], "fan")
        self.assertIn("node.kubernetes.io/unschedulable", [t["key"] for t in node["spec"]["taints"]])
        self.label("n1", rack="r1")  # changes nothing of it
        self.root.must("PATCH", NODES + "/n1", {"spec": {"unschedulable": None}}, kind=MERGE)
        self.assertIn("n1 idle", re.sub(r"mixed|allocated|planned", "idle", self.c.ok("sinfo", "-h", "-N", "-n", "n1", "-o", "%N %T")))

    def test_sbatch_jobs_and_pods_share_cores(self):
        self.placed(self.create("half", "500m", nodeSelector={"kubernetes.io/hostname": "n1"}))
        job = self.c.wrap("sleep 60", "-w", "n1", "-n", "4")
        eventually(lambda: self.c.ok("squeue", "-h", "-j", job, "-o", "%r").strip() not in ("None", ""), what="it is said what the job waits for")
        self.assertEqual(self.c.state(job), "PENDING")
        self.root.must("DELETE", f"{self.ns}/pods/half")
        eventually(lambda: self.c.state(job) == "RUNNING", what="the whole node is the job's")
        free = lambda: self.root.must("GET", NODES + "/n1")["status"]["allocatable"]["cpu"]
        eventually(lambda: free() == "0", what="other schedulers see that nothing is left there")
        self.assertIn("Insufficient cpu", self.waits(self.create("again", "500m", nodeSelector={"kubernetes.io/hostname": "n1"})))
        self.c.ok("scancel", job)
        self.placed("again")
        eventually(lambda: free() == "4", what="they see it free again")

    def test_jobs_are_seen_and_cancelled_as_objects(self):
        job = self.c.wrap("sleep 60")
        path = f"/apis/lockstep.io/v1/jobs/{job}"
        eventually(lambda: self.root.must("GET", path)["status"]["state"] == "Running", what="it runs")
        answer = self.root.must("DELETE", path)
        self.assertEqual((answer["kind"], answer["status"]), ("Status", "Success"))
        self.assertNotIn("uid", answer["details"], "kubectl would wait for that one to go, which is listed for a while")
        eventually(lambda: self.root.must("GET", path)["status"]["state"] == "Cancelled", what="it is cancelled")


if __name__ == "__main__":
    unittest.main()
