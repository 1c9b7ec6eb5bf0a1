"""Operators and a scheduler that others wrote, unmodified: JobSet and LeaderWorkerSet as pods of the cluster, the real kube-scheduler beside our own. tests/clients/go/make builds them."""
import json
import os
import re
import subprocess
import unittest

from client import eventually  # says besides where the end-to-end tests' parts lie
from kube_clients_test import GO_BUILT

from kube_cluster import PORT, KubeCluster, pod

MANAGER = {"Entrypoint": ["/manager"], "Cmd": [], "User": "65532:65532", "WorkingDir": "/", "Env": ["PATH=/bin", "GODEBUG=netdns=go"]}


def built(name):
    return os.access(os.path.join(GO_BUILT, name), os.X_OK)


class Operator(KubeCluster):
    """Installed from its own manifests; only the name of its image is exchanged."""
    NAME = None
    NODES, CPUS = 2, 8

    @classmethod
    def push_images(cls):
        super().push_images()
        with open(os.path.join(GO_BUILT, cls.NAME + "-manager"), "rb") as f:
            files = {"manager": (f.read(), 0o755), "etc/passwd": (b"nonroot:x:65532:65532::/:/sbin/nologin\n", 0o644), "tmp/.keep": (b"", 0o644)}
        cls.push(f"ops/{cls.NAME}:v1", files=files, **MANAGER)

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        try:
            cls.install()
        except BaseException:
            cls.tearDownClass()
            raise

    @classmethod
    def install(cls):
        source = os.path.join(GO_BUILT, cls.NAME + "-source", "config", "default")
        made = subprocess.run(["kubectl", "kustomize", source], capture_output=True, text=True, check=True).stdout
        made = re.sub(rf"image: \S*{cls.NAME}\S*", f"image: 127.0.0.1:{PORT}/ops/{cls.NAME}:v1", made)
        made = made.replace("imagePullPolicy: Always", "imagePullPolicy: IfNotPresent")
        done = cls.try_kubectl("apply", "--server-side", "-f", "-", given=made)
        if done.returncode != 0:
            raise AssertionError(done.stderr)
        done = cls.try_kubectl("-n", f"{cls.NAME}-system", "wait", "--for=condition=Available", f"deployment/{cls.NAME}-controller-manager", "--timeout=180s", timeout=200)
        if done.returncode != 0:
            raise AssertionError(done.stderr + cls.try_kubectl("-n", f"{cls.NAME}-system", "describe", "pods").stdout[-3000:])

    def until(self, check, what):
        try:
            return eventually(check, timeout=120, what=what)
        except AssertionError as e:
            said = self.try_kubectl("-n", f"{self.NAME}-system", "logs", "--tail=20", f"deployment/{self.NAME}-controller-manager").stdout
            raise AssertionError(f"{e}\n{self.try_kubectl('get', 'events,pods,sts,jobs', '-A').stdout[-5000:]}\n{said[-3000:]}") from None

    def apply(self, what):
        """Webhooks of an operator that has just become available may not be reached yet, as on any cluster."""
        def done():
            self.said = self.try_kubectl("apply", "-f", "-", given=what)
            return self.said.returncode == 0 or "failed calling webhook" not in self.said.stderr
        eventually(done, timeout=60, what="its webhooks are reached")
        self.assertEqual(self.said.returncode, 0, self.said.stderr)


def template(*command, **spec):
    return pod("x", *command)["spec"] | spec


@unittest.skipUnless(built("jobset-manager"), "JobSet is not built: tests/clients/go/make does it")
class JobSet(Operator):
    NAME = "jobset"

    def job_set(self, name, command, replicas, **spec):
        return {"apiVersion": "jobset.x-k8s.io/v1alpha2", "kind": "JobSet", "metadata": {"name": name}, "spec": {
            "replicatedJobs": [{"name": "workers", "replicas": replicas, "template": {"spec": {
                "parallelism": 2, "completions": 2, "backoffLimit": 0, "template": {"spec": template(*command)}}}}], **spec}}

    def status(self, name, kind):
        conditions = self.get(name, "jobset").get("status", {}).get("conditions", [])
        return any(c["type"] == kind and c["status"] == "True" for c in conditions)

    def test_it_completes_and_is_applied_again(self):
        what = self.job_set("done", ("sh", "-c", "true"), 2)
        self.apply(what)
        self.until(lambda: self.status("done", "Completed"), "all jobs of the set")
        # kubectl sends the whole list again, without what the webhook of creations filled in: the one of updates says so.
        what["metadata"]["labels"] = {"seen": "twice"}
        again = self.try_kubectl("apply", "-f", "-", given=what)
        self.assertIn('admission webhook "vjobset.kb.io" denied the request: spec.replicatedJobs: Invalid value', again.stderr)
        self.assertIn("field is immutable", again.stderr)
        what["spec"] = self.get("done", "jobset")["spec"]
        self.apply(what)
        self.assertEqual(self.get("done", "jobset")["metadata"]["labels"], {"seen": "twice"})

    def test_a_failure_restarts_all(self):
        # Its webhook fills in what the schema wants before the schema is asked.
        self.apply(self.job_set("again", ("sh", "-c", "exit 3"), 1, failurePolicy={"maxRestarts": 1, "rules": [{"action": "RestartJobSet", "onJobFailureReasons": ["BackoffLimitExceeded"]}]}))
        self.until(lambda: self.status("again", "Failed"), "the end of the set's patience")
        self.assertEqual(self.get("again", "jobset")["status"]["restarts"], 1)


@unittest.skipUnless(built("lws-manager"), "LeaderWorkerSet is not built: tests/clients/go/make does it")
class LeaderWorkerSet(Operator):
    NAME = "lws"

    def test_groups_come_and_are_replaced_whole(self):
        self.apply({"apiVersion": "leaderworkerset.x-k8s.io/v1", "kind": "LeaderWorkerSet", "metadata": {"name": "serve"}, "spec": {
            "replicas": 2, "startupPolicy": "LeaderCreated", "rolloutStrategy": {"type": ""},
            "leaderWorkerTemplate": {"size": 2, "restartPolicy": "RecreateGroupOnPodRestart",
                                     "workerTemplate": {"spec": template("sleep", "600", restartPolicy="Always")}}}})
        pods = lambda: {p["metadata"]["name"]: p for p in json.loads(self.kubectl("get", "pods", "-l", "leaderworkerset.sigs.k8s.io/name=serve", "-o", "json"))["items"]}
        ready = lambda p: any(c["type"] == "Ready" and c["status"] == "True" for c in p["status"].get("conditions", []))
        all_ready = lambda: (lambda now: now if len(now) == 4 and all(map(ready, now.values())) and not any("deletionTimestamp" in p["metadata"] for p in now.values()) else None)(pods())
        before = self.until(all_ready, "two leaders and their workers")
        self.assertEqual(sorted(before), ["serve-0", "serve-0-1", "serve-1", "serve-1-1"])
        self.kubectl("delete", "pod", "serve-0-1", "--wait=false")
        uid = lambda of, name: of[name]["metadata"]["uid"]
        after = self.until(lambda: (lambda now: now if now and uid(now, "serve-0") != uid(before, "serve-0") else None)(all_ready()), "the group is made anew")
        self.assertNotEqual(uid(after, "serve-0-1"), uid(before, "serve-0-1"))
        self.assertEqual(uid(after, "serve-1"), uid(before, "serve-1"))


@unittest.skipUnless(built("kube-scheduler"), "kube-scheduler is not built: tests/clients/go/make does it")
class SecondScheduler(KubeCluster):
    NODES, CPUS = 2, 4

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.settings = os.path.join(cls.c.work, "scheduler.yaml")
        with open(cls.settings, "w") as f:
            json.dump({"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration", "leaderElection": {"leaderElect": False},
                       "clientConnection": {"kubeconfig": cls.config}, "profiles": [{"schedulerName": "second"}]}, f)
        cls.log = open(os.path.join(cls.c.work, "scheduler.log"), "w")
        cls.scheduler = subprocess.Popen([os.path.join(GO_BUILT, "kube-scheduler"), "--config", cls.settings, "--secure-port=0", "-v=2"], stdout=cls.log, stderr=cls.log)

    @classmethod
    def tearDownClass(cls):
        cls.scheduler.terminate()
        cls.scheduler.wait()
        cls.log.close()
        super().tearDownClass()

    def ask(self, name, cpu):
        return self.create(name, spec={"schedulerName": "second"}, container={"resources": {"requests": {"cpu": cpu}}})

    def node_of(self, name):
        return self.get(name)["spec"].get("nodeName")

    def test_it_places_pods_beside_ours(self):
        self.ask("one", "500m")
        self.kubectl("wait", "--for=condition=Ready", "pod/one", "--timeout=60s")
        self.create("ours", ready=True)
        self.assertIn("Scheduled", self.kubectl("events", "--for", "pod/one"))

    def test_it_sees_what_jobs_of_the_other_world_hold(self):
        jobs = [self.c.wrap("sleep 600", "-w", node, "-n", "4") for node in ("n1", "n2")]
        for job in jobs:
            self.c.wait(job, "RUNNING")
        self.ask("waits", "2")
        condition = lambda: next((c for c in self.get("waits")["status"].get("conditions", []) if c["type"] == "PodScheduled"), {})
        eventually(lambda: condition().get("reason") == "Unschedulable", what="the scheduler finds no room")
        self.assertIsNone(self.node_of("waits"))
        self.c.ok("scancel", jobs[0])
        self.kubectl("wait", "--for=condition=Ready", "pod/waits", "--timeout=90s")
        self.assertEqual(self.node_of("waits"), "n1")
        self.c.ok("scancel", jobs[1])


if __name__ == "__main__":
    unittest.main()
