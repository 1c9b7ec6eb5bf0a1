"""What pods use, as kubectl top shows it, and autoscalers that go by it."""
import json
import unittest

from cluster import eventually
from kube_cluster import IMAGE, KubeCluster

BUSY = "while true; do :; done"


class KubeMetrics(KubeCluster):
    def metrics(self, path):
        done = self.try_kubectl("get", "--raw", "/apis/metrics.k8s.io/v1beta1/" + path)
        return json.loads(done.stdout) if done.returncode == 0 else {}

    def test_top_and_an_autoscaler(self):
        self.kubectl("create", "-f", "-", given={
            "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "busy"}, "spec": {
                "replicas": 1, "selector": {"matchLabels": {"app": "busy"}}, "template": {"metadata": {"labels": {"app": "busy"}}, "spec": {
                    "terminationGracePeriodSeconds": 1, "containers": [
                        {"name": "work", "image": IMAGE, "command": ["sh", "-c", BUSY], "resources": {"requests": {"cpu": "10m", "memory": "16Mi"}}},
                        {"name": "idle", "image": IMAGE, "command": ["sleep", "600"], "resources": {"requests": {"cpu": "10m", "memory": "16Mi"}}}]}}}})
        self.addCleanup(self.try_kubectl, "delete", "deployment", "busy")
        self.kubectl("create", "-f", "-", given={
            "apiVersion": "autoscaling/v2", "kind": "HorizontalPodAutoscaler", "metadata": {"name": "busy"}, "spec": {
                "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "busy"}, "minReplicas": 1, "maxReplicas": 3,
                "behavior": {"scaleDown": {"stabilizationWindowSeconds": 0}},
                "metrics": [{"type": "Resource", "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 80}}}]}})
        self.addCleanup(self.try_kubectl, "delete", "hpa", "busy")
        listed = eventually(lambda: self.metrics("namespaces/default/pods?labelSelector=app%3Dbusy").get("items"), timeout=60, what="the pod was measured twice")
        containers = {one["name"]: one["usage"] for one in listed[0]["containers"]}
        self.assertEqual(set(containers), {"work", "idle"})
        self.assertGreater(int(containers["work"]["cpu"].removesuffix("n")), 10 * int(containers["idle"]["cpu"].removesuffix("n")) + 10_000_000)
        self.assertGreater(int(containers["idle"]["memory"].removesuffix("Ki")), 0)
        self.assertIn("work", self.kubectl("top", "pods", "--containers"))
        self.assertRegex(self.kubectl("top", "nodes"), r"n1 +\d+m +\d+% +\d+Mi +\d+%")
        eventually(lambda: self.get("busy", "deployment")["spec"]["replicas"] == 3, timeout=60, what="it has grown")
        scaler = self.get("busy", "hpa")["status"]
        self.assertEqual({one["type"]: one["reason"] for one in scaler["conditions"]}["ScalingActive"], "ValidMetricFound")
        self.assertRegex(self.kubectl("get", "hpa", "busy"), r"Deployment/busy +cpu: \d+%/80% +1 +3 ")
        self.assertIn("SuccessfulRescale", self.kubectl("events", "--for", "hpa/busy"))


if __name__ == "__main__":
    unittest.main()
