"""Pods through the real kubectl: made, scheduled, shown, evicted and ended, with images from a registry of the test's own."""
import json
import os
import subprocess
import time
import unittest

from cluster import eventually
from kube_cluster import KubeCluster, kubectl_path, pod


class KubePods(KubeCluster):
    def phase(self, name):
        return self.get(name)["status"]["phase"]

    def condition(self, name, kind):
        return next((one for one in self.get(name)["status"].get("conditions", []) if one["type"] == kind), {})

    def await_phase(self, name, phase):
        eventually(lambda: self.phase(name) == phase, what=f"pod {name} is {phase}")

    def test_a_pod_runs_and_its_end_is_kept(self):
        name = self.create("three", "sh", "-c", "exit 3")
        self.await_phase(name, "Failed")
        status = self.get(name)["status"]
        ended = status["containerStatuses"][0]["state"]["terminated"]
        self.assertEqual((ended["exitCode"], ended["reason"]), (3, "Error"))
        self.assertEqual(status["qosClass"], "BestEffort")
        self.assertEqual(self.get(name)["spec"]["nodeName"], "n1")
        name = self.create("well", "true")
        self.await_phase(name, "Succeeded")
        eventually(lambda: self.condition(name, "Ready").get("reason") == "PodCompleted", what="its end is told")
        listed = self.kubectl("get", "pods", "--field-selector", "status.phase=Succeeded", "-o", "name").split()
        self.assertEqual(listed, ["pod/well"])
        self.assertIn("well", self.kubectl("get", "pods", "--field-selector", "spec.nodeName=n1", "-o", "name"))

    def test_a_running_pod_is_ready_and_goes_within_its_grace(self):
        name = self.create("runs")
        self.kubectl("wait", "--for=condition=Ready", f"pod/{name}", "--timeout=30s")
        shown = self.get(name)
        self.assertEqual(shown["status"]["phase"], "Running")
        self.assertEqual(shown["status"]["podIP"], shown["status"]["podIPs"][0]["ip"])
        self.assertTrue(shown["status"]["containerStatuses"][0]["containerID"].startswith("lockstep://"))
        self.assertIn("1/1", self.kubectl("get", "pod", name, "--no-headers"))
        queue = self.c.ok("squeue", "-h", "-o", "%j %T")
        self.assertIn("runs RUNNING", queue.splitlines())
        before = time.monotonic()
        self.kubectl("delete", "pod", name)
        self.assertLess(time.monotonic() - before, 20)
        self.assertNotEqual(self.try_kubectl("get", "pod", name).returncode, 0)
        eventually(lambda: "runs RUNNING" not in self.c.ok("squeue", "-h", "-o", "%j %T"), what="its job has ended")

    def test_what_fits_nowhere_waits_and_says_why(self):
        name = self.create("picky", spec={"nodeSelector": {"disk": "ssd"}})
        why = self.condition(name, "PodScheduled")
        self.assertEqual((why["status"], why["reason"]), ("False", "Unschedulable"))
        self.assertEqual(why["message"], "0/1 nodes are available: 1 node(s) didn't match Pod's node affinity/selector.")
        self.kubectl("label", "node", "n1", "disk=ssd")
        self.kubectl("wait", "--for=condition=Ready", f"pod/{name}", "--timeout=30s")
        self.kubectl("label", "node", "n1", "disk-")
        huge = self.create("huge", container={"resources": {"requests": {"cpu": "900"}}})
        self.assertEqual(self.condition(huge, "PodScheduled")["reason"], "Unschedulable")
        gated = self.create("gated", spec={"schedulingGates": [{"name": "test/gate"}]})
        self.assertEqual(self.condition(gated, "PodScheduled")["reason"], "SchedulingGated")
        self.kubectl("patch", "pod", gated, "--type=json", "-p", '[{"op":"remove","path":"/spec/schedulingGates"}]')
        self.kubectl("wait", "--for=condition=Ready", f"pod/{gated}", "--timeout=30s")
        other = self.create("bound", spec={"schedulerName": "mine"})
        self.assertEqual(self.condition(other, "PodScheduled"), {})
        self.kubectl("create", "--raw", f"/api/v1/namespaces/default/pods/{other}/binding", "-f", "-",
                     given={"apiVersion": "v1", "kind": "Binding", "metadata": {"name": other}, "target": {"kind": "Node", "name": "n1"}})
        self.kubectl("wait", "--for=condition=Ready", f"pod/{other}", "--timeout=30s")

    def test_files_and_variables_come_from_the_api(self):
        self.kubectl("create", "configmap", "settings", "--from-literal=colour=red")
        self.addCleanup(self.try_kubectl, "delete", "configmap", "settings")
        script = ("echo $COLOUR-$POD-$NS; cat /etc/settings/colour; cat /var/run/secrets/kubernetes.io/serviceaccount/namespace; "
                  "test -s /var/run/secrets/kubernetes.io/serviceaccount/token && echo; echo token")
        name = self.create("reads", "sh", "-c", script, spec={"volumes": [{"name": "s", "configMap": {"name": "settings"}}]}, container={
            "env": [{"name": "COLOUR", "valueFrom": {"configMapKeyRef": {"name": "settings", "key": "colour"}}},
                    {"name": "POD", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}},
                    {"name": "NS", "valueFrom": {"fieldRef": {"fieldPath": "metadata.namespace"}}}],
            "volumeMounts": [{"name": "s", "mountPath": "/etc/settings"}]})
        self.await_phase(name, "Succeeded")
        self.assertEqual(self.kubectl("logs", name).split(), ["red-reads-default", "reddefault", "token"])
        waits = self.create("waits", container={"envFrom": [{"configMapRef": {"name": "later"}}]})
        eventually(lambda: self.get(waits)["status"]["containerStatuses"][0]["state"].get("waiting", {}).get("reason") ==
                   "CreateContainerConfigError", what="it says what it waits for")
        self.kubectl("create", "configmap", "later", "--from-literal=a=b")
        self.addCleanup(self.try_kubectl, "delete", "configmap", "later")
        self.kubectl("wait", "--for=condition=Ready", f"pod/{waits}", "--timeout=30s")

    def test_logs_and_commands_in_a_container(self):
        name = self.create("talks", "sh", "-c", "echo one; echo two; sleep 600")
        self.kubectl("wait", "--for=condition=Ready", f"pod/{name}", "--timeout=30s")
        eventually(lambda: self.kubectl("logs", name) == "one\ntwo\n", what="its log is there")
        self.assertEqual(self.kubectl("logs", name, "--tail=1"), "two\n")
        self.assertEqual(self.kubectl("exec", name, "--", "echo", "a", "b c"), "a b c\n")
        failed = self.try_kubectl("exec", name, "--", "sh", "-c", "echo bad >&2; exit 7")
        self.assertEqual((failed.returncode, failed.stderr.splitlines()[0]), (7, "bad"))
        fed = subprocess.run([kubectl_path(), "--kubeconfig", self.config, "exec", "-i", name, "--", "cat"], capture_output=True,
                             text=True, timeout=60, input="through\n")
        self.assertEqual(fed.stdout, "through\n", fed.stderr)
        older = subprocess.run([kubectl_path(), "--kubeconfig", self.config, "exec", name, "--", "echo", "old"], capture_output=True,
                               text=True, timeout=60, env={**os.environ, "KUBECTL_REMOTE_COMMAND_WEBSOCKETS": "false"})
        self.assertEqual(older.stdout, "old\n", older.stderr)
        refused = self.try_kubectl("logs", name, "-c", "nobody")
        self.assertIn("container nobody is not valid for pod talks", refused.stderr)

    def test_custom_resources_are_applied_again(self):
        """kubectl takes from the API's own description how it may change what is there."""
        self.kubectl("create", "-f", "-", given={
            "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": {"name": "gadgets.test.example.com"}, "spec": {
                "group": "test.example.com", "scope": "Namespaced", "names": {"plural": "gadgets", "kind": "Gadget"}, "versions": [{
                    "name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": {"type": "object", "properties": {
                        "spec": {"type": "object", "properties": {"size": {"type": "integer"}}}}}}}]}})
        self.addCleanup(self.try_kubectl, "delete", "crd", "gadgets.test.example.com")
        self.kubectl("wait", "--for=condition=Established", "crd/gadgets.test.example.com", "--timeout=30s")
        gadget = lambda size: {"apiVersion": "test.example.com/v1", "kind": "Gadget", "metadata": {"name": "g"}, "spec": {"size": size}}
        for size in (1, 2, 3):
            self.kubectl("apply", "-f", "-", given=gadget(size))
            self.assertEqual(self.get("g", "gadget")["spec"]["size"], size)
        self.kubectl("apply", "--server-side", "--force-conflicts", "-f", "-", given=gadget(4))
        self.assertEqual(self.get("g", "gadget")["spec"]["size"], 4)

    def test_budgets_keep_pods_from_eviction(self):
        name = self.create("kept", labels={"app": "kept"})
        self.kubectl("wait", "--for=condition=Ready", f"pod/{name}", "--timeout=30s")
        self.kubectl("create", "poddisruptionbudget", "one", "--selector=app=kept", "--min-available=1")
        self.addCleanup(self.try_kubectl, "delete", "poddisruptionbudget", "one")
        eventually(lambda: json.loads(self.kubectl("get", "pdb", "one", "-o", "json")).get("status", {}).get("currentHealthy") == 1,
                   what="the budget is counted")
        evict = ("create", "--raw", f"/api/v1/namespaces/default/pods/{name}/eviction", "-f", "-")
        body = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": name}}
        refused = self.try_kubectl(*evict, given=body)
        self.assertIn("Cannot evict pod as it would violate the pod's disruption budget.", refused.stderr)
        self.kubectl("delete", "poddisruptionbudget", "one")
        self.kubectl(*evict, given=body)
        eventually(lambda: self.try_kubectl("get", "pod", name).returncode != 0, what="it is gone")

    def test_wrong_pods_are_refused(self):
        for change, words in (({"container": {"name": "Main"}}, "spec.containers[0].name: Invalid value"),
                              ({"container": {"volumeMounts": [{"name": "x", "mountPath": "/x"}]}}, 'volumeMounts[0].name: Not found: "x"'),
                              ({"spec": {"priorityClassName": "none"}}, "no PriorityClass with name none was found"),
                              ({"spec": {"serviceAccountName": "nobody"}}, 'serviceaccount "nobody" not found')):
            refused = self.try_kubectl("create", "-f", "-", given=pod("wrong", **change))
            self.assertNotEqual(refused.returncode, 0)
            self.assertIn(words, refused.stderr)
        name = self.create("fixed", spec={"schedulingGates": [{"name": "test/gate"}]})
        refused = self.try_kubectl("patch", "pod", name, "-p", '{"spec":{"hostNetwork":true}}')
        self.assertIn("pod updates may not change fields other than", refused.stderr)


if __name__ == "__main__":
    unittest.main()
