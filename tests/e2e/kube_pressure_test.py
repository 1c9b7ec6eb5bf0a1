"""Nodes that run short of memory, disk or addresses: what they say, which pods go and which wait; and folders of claims that go with their
volumes. Two virtual nodes share this machine, so each is measured by its own work (agent.json, "pressure")."""
import json
import os
import shutil
import tempfile
import time
import unittest

from cluster import eventually
from kube_cluster import KubeCluster

SETTINGS = {"pressure": {"look_s": 1, "lasts_s": 4, "disk_mb": 300, "disk": "60Mi", "disk_files": "", "images": "", "image_files": ""}}
HOLD = "busybox head -c {0}m /dev/zero | busybox tail -c {0}m | sleep 600"


class KubePressure(KubeCluster):
    NODES = 2

    @classmethod
    def options(cls):
        folder = tempfile.mkdtemp(prefix="lockstep-e2e-")
        cls.addClassCleanup(shutil.rmtree, folder)
        settings = os.path.join(folder, "settings.json")
        with open(settings, "w") as f:
            json.dump(SETTINGS, f)
        return "--memory", "400M", "--agent-settings", settings

    def create(self, name, *command, node=None, spec=None, ready=True, **more):
        spec = dict(spec or {}, **({"nodeSelector": {"kubernetes.io/hostname": node}} if node else {}))
        return super().create(name, *command, spec=spec, ready=ready, **more)

    def reason(self, name):
        return self.get(name)["status"].get("reason")

    def condition(self, of, kind, type_):
        return next((one["status"] for one in self.get(of, kind)["status"].get("conditions", []) if one["type"] == type_), None)

    def taints(self, node):
        return [one["key"].split("/")[1] for one in self.get(node, "node")["spec"].get("taints", [])]

    def events(self, name):
        return [(e["reason"], e["message"]) for e in json.loads(self.kubectl("get", "events", "-o", "json"))["items"]
                if e["involvedObject"]["name"] == name]

    def calm(self, node, type_):
        eventually(lambda: self.condition(node, "node", type_) == "False", timeout=30, what=f"{node} has no {type_}")

    def test_memory_pressure_drives_out_who_uses_more_than_it_asked_for(self):
        job = self.c.wrap("sleep 300", "-w", "n1", "--mem=20", "-n1")
        self.addCleanup(self.c.run, "scancel", job)
        self.create("modest", node="n1", container={"resources": {"requests": {"memory": "50Mi"}}})
        self.create("greedy", "sh", "-c", "sleep 3; " + HOLD.format(330), node="n1")
        eventually(lambda: self.condition("n1", "node", "MemoryPressure") == "True", timeout=40, what="n1 is short of memory")
        # At once: it is short for half a minute behind the eviction, and a busy machine takes as long for the rest.
        self.create("late", node="n1", ready=False)
        self.create("asks", node="n1", container={"resources": {"requests": {"memory": "10Mi"}}})
        self.assertEqual(self.get("late")["status"]["phase"], "Pending")
        eventually(lambda: self.reason("greedy") == "Evicted", timeout=60, what="the greedy one is evicted")
        status = self.get("greedy")["status"]
        self.assertEqual(status["phase"], "Failed")
        self.assertRegex(status["message"], r"^The node was low on resource: memory\. Threshold quantity: 100Mi, available: \d+Ki\. "
                                            r"Container main was using \d+\w*, request is 0, has larger consumption of memory\. $")
        self.assertEqual(self.condition("greedy", "pod", "DisruptionTarget"), "True")
        eventually(lambda: self.get("greedy")["status"]["containerStatuses"][0]["state"].get("terminated"), what="its containers have ended")
        eventually(lambda: not self.c.ok("squeue", "-h", "-n", "greedy").strip(), what="its job has ended")
        self.assertEqual(self.get("greedy")["status"]["reason"], "Evicted")
        self.assertIn("terminated", self.get("greedy")["status"]["containerStatuses"][0]["state"])
        self.assertIn("Evicted", [reason for reason, _ in self.events("greedy")])
        self.assertEqual(self.taints("n1"), ["memory-pressure"])
        words = r"[Ss]hort of memory: \d+ MiB left, 100 MiB wanted"
        for said in (self.c.ok("sinfo", "-R", "-h", "-o", "%E %N"), self.c.ok("scontrol", "show", "node", "n1"), self.c.ok("lockstep", "status"),
                     self.c.run("lockstep", "doctor").stdout):
            self.assertRegex(said, words)
        self.assertEqual(self.condition("n2", "node", "MemoryPressure"), "False", "its neighbour has its own memory")
        self.calm("n1", "MemoryPressure")
        self.kubectl("wait", "--for=condition=Ready", "pod/late", "--timeout=40s")
        self.assertEqual(self.get("modest")["status"]["phase"], "Running")
        self.assertEqual(self.c.state(job), "RUNNING", "what a job holds was reserved for it")

    def test_disk_pressure_drives_out_who_has_most_there(self):
        data = {"spec": {"volumes": [{"name": "d", "emptyDir": {}}]}, "container": {"volumeMounts": [{"name": "d", "mountPath": "/data"}]}}
        fill = "sleep 3; busybox dd if=/dev/zero of=/data/big bs=1048576 count={}; sleep 600"
        self.create("small", "sh", "-c", fill.format(5), node="n2", **data)
        self.create("large", "sh", "-c", fill.format(260), node="n2", **data)
        eventually(lambda: self.condition("n2", "node", "DiskPressure") == "True", timeout=40, what="n2 is short of disk")
        eventually(lambda: self.reason("large") == "Evicted", timeout=60, what="the large one is evicted")
        self.assertRegex(self.get("large")["status"]["message"], r"^The node was low on resource: ephemeral-storage\. Threshold quantity: 60Mi")
        self.assertEqual(self.condition("n1", "node", "DiskPressure"), "False")
        self.calm("n2", "DiskPressure")
        self.assertEqual(self.get("small")["status"]["phase"], "Running")

    def test_ephemeral_storage_is_counted(self):
        node = self.get("n1", "node")["status"]
        free = int(node["allocatable"]["ephemeral-storage"].removesuffix("Mi"))
        self.assertLess(free, int(node["capacity"]["ephemeral-storage"].removesuffix("Mi")))
        ask = lambda amount: {"resources": {"requests": {"ephemeral-storage": f"{amount}Mi"}}}
        self.create("half", node="n1", container=ask(free * 2 // 3))
        self.create("other", node="n1", container=ask(free // 2), ready=False)
        eventually(lambda: any("Insufficient ephemeral-storage" in words for _, words in self.events("other")), what="it waits for disk")
        self.kubectl("delete", "pod", "half", "--grace-period=0", "--force")
        self.kubectl("wait", "--for=condition=Ready", "pod/other", "--timeout=40s")

    # --- addresses ---

    def test_a_pod_waits_for_an_address(self):
        self.create("first", node="n1")
        agent = self.c.node("n1")["agent_pid"]
        folder = f"/proc/{agent}/root/run/lockstep-agent/addresses/lockstep"
        prefix = self.get("first")["status"]["podIP"].rsplit(".", 1)[0]
        taken = set(os.listdir(folder))
        ours = [f"{prefix}.{last}" for last in range(256) if f"{prefix}.{last}" not in taken]
        free = lambda: [os.unlink(os.path.join(folder, a)) for a in ours if os.path.exists(os.path.join(folder, a))]
        self.addCleanup(free)
        for address in ours:  # as if others had them
            with open(os.path.join(folder, address), "w") as f:
                f.write("9999-1-task-0.0.1\r\neth0")
        self.create("waits", node="n1", ready=False)
        eventually(lambda: "FailedCreatePodSandBox" in [reason for reason, _ in self.events("waits")], what="it says what it waits for")
        self.assertEqual(self.get("waits")["status"]["phase"], "Pending")
        self.assertEqual(self.get("waits")["status"]["containerStatuses"][0]["state"]["waiting"]["reason"], "ContainerCreating")
        self.create("gives-up", node="n1", ready=False)
        eventually(lambda: "FailedCreatePodSandBox" in [reason for reason, _ in self.events("gives-up")], what="the other one waits, too")
        begun = time.monotonic()
        self.kubectl("delete", "pod", "gives-up")
        self.assertLess(time.monotonic() - begun, 15, "who waits for an address can be deleted")
        free()
        self.kubectl("wait", "--for=condition=Ready", "pod/waits", "--timeout=40s")
        self.assertTrue(self.get("waits")["status"]["podIP"].startswith(prefix + "."))

    # --- claims ---

    def claim(self, name, amount, **more):
        self.kubectl("create", "-f", "-", given={"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": name}, "spec": {
            "accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": amount}}, **more}})
        self.addCleanup(self.try_kubectl, "delete", "pvc", name, "--wait=false", "--ignore-not-found")
        return {"spec": {"volumes": [{"name": "d", "persistentVolumeClaim": {"claimName": name}}]},
                "container": {"volumeMounts": [{"name": "d", "mountPath": "/data"}]}}

    def test_folders_of_claims_go_with_their_volumes(self):
        default = json.loads(self.kubectl("get", "storageclass", "-o", "json"))["items"][0]
        self.kubectl("create", "-f", "-", given={"apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "metadata": {"name": "keep"},
                                                 "provisioner": default["provisioner"], "reclaimPolicy": "Retain",
                                                 "volumeBindingMode": "WaitForFirstConsumer"})
        self.addCleanup(self.try_kubectl, "delete", "storageclass", "keep")
        folders = {}
        for name, more in (("goes", {}), ("stays", {"storageClassName": "keep"})):
            made = self.claim(name, "10Mi", **more)
            self.create("writes-" + name, "sh", "-c", "echo x > /data/x; sleep 600", node="n1", **{**made, "spec": dict(made["spec"])})
            volume = eventually(lambda: self.get(name, "pvc")["spec"].get("volumeName"), what="it is bound")
            folders[name] = os.path.join(self.c.dir, "nodes", "n1", "state", "containers", "0", "lasting", volume)
            self.assertTrue(os.path.exists(os.path.join(folders[name], "x")))
        marks = os.path.join(os.path.dirname(folders["goes"]), ".passing")
        eventually(lambda: os.path.exists(os.path.join(marks, os.path.basename(folders["goes"]))), timeout=45, what="the node has asked")
        for name in folders:
            self.kubectl("delete", "pod", "writes-" + name, "--grace-period=0", "--force")
            self.kubectl("delete", "pvc", name)
        eventually(lambda: not os.path.exists(folders["goes"]), timeout=60, what="the folder goes")
        self.assertTrue(os.path.exists(os.path.join(folders["stays"], "x")), "what is retained stays")

    def test_a_claim_that_outgrows_its_capacity_costs_its_pod(self):
        made = self.claim("narrow", "4Mi")
        self.create("fills", "sh", "-c", "busybox dd if=/dev/zero of=/data/big bs=1048576 count=8; sleep 600", node="n1", ready=False, **made)
        eventually(lambda: self.reason("fills") == "Evicted", timeout=40, what="it is evicted")
        self.assertIn('Usage of volume "d" exceeds the capacity of its claim "4Mi"', self.get("fills")["status"]["message"])

    # --- labels ---

    def test_changed_labels_of_a_running_pod_count(self):
        apart = {"affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [
            {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {"shy": "yes"}}}]}}}
        self.create("there", node="n1")
        self.kubectl("label", "pod", "there", "shy=yes")
        self.create("keeps-off", node="n1", spec=apart, ready=False)
        eventually(lambda: "FailedScheduling" in [reason for reason, _ in self.events("keeps-off")], what="it says why it waits")
        self.assertEqual(self.get("keeps-off")["status"]["phase"], "Pending")
        self.kubectl("label", "pod", "there", "shy-")
        self.kubectl("wait", "--for=condition=Ready", "pod/keeps-off", "--timeout=40s")


if __name__ == "__main__":
    unittest.main()
