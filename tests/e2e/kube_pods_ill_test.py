"""What kubectl shows of pods that do not do well: cancelled by others, without what they name, crashing, failing their probes, in init
containers; and what logs, attach and port-forward say then."""
import json
import re
import socket
import subprocess
import unittest

from cluster import eventually
from kube_cluster import IMAGE, PORT, KubeCluster, kubectl_path

BAD = f"127.0.0.1:{PORT}/test/box:nosuch"


class KubePodsIll(KubeCluster):
    GPUS = "1xh100"

    @classmethod
    def push_images(cls):
        cls.push("test/box:v1", "test/fresh:v1", Env=["PATH=/bin", "NVIDIA_VISIBLE_DEVICES=all"])

    def status(self, name):
        return json.loads(self.kubectl("get", "pod", name, "-o", "json"))["status"]

    def waiting(self, name, which="containerStatuses"):
        return (self.status(name).get(which) or [{}])[0].get("state", {}).get("waiting", {})

    def word(self, name):
        """Its STATUS in kubectl's table."""
        return self.kubectl("get", "pod", name, "--no-headers").split()[2]

    def events(self, name):
        """(reason, message, count), in the order in which `kubectl describe` shows them."""
        listed = json.loads(self.kubectl("get", "events", "--field-selector", f"involvedObject.name={name}", "-o", "json"))["items"]
        return [(one["reason"], one["message"], one["count"]) for one in sorted(listed, key=lambda one: one["lastTimestamp"])]

    def await_event(self, name, reason, pattern):
        found = []
        def look():
            found[:] = [one for one in self.events(name) if one[0] == reason and re.search(pattern, one[1])]
            return bool(found)
        eventually(look, what=f"an event {reason} of {name} says {pattern}: {self.events(name)}")
        return found[0]

    def job_of(self, name):
        return self.c.ok("squeue", "-h", "-n", name, "-o", "%i").strip()

    def test_whose_job_others_cancel_says_so(self):
        waits = self.create("waits", spec={"nodeSelector": {"disk": "none"}}, container={"resources": {"requests": {"cpu": "1"}}})
        fits = {"resources": {"limits": {"nvidia.com/gpu": "1"}}}
        runs = self.create("runs", container=fits)
        self.kubectl("wait", "--for=condition=Ready", f"pod/{runs}", "--timeout=30s")
        queued = self.create("queued", container=fits)
        eventually(lambda: self.job_of(queued) != "", what="it has a job, which waits for the GPU")
        address = self.status(runs)["podIP"]
        self.assertTrue(address)
        self.assertIn("NVIDIA_VISIBLE_DEVICES=0", self.kubectl("exec", runs, "--", "env").splitlines(), "which GPUs it has")
        self.assertIn("CUDA_VISIBLE_DEVICES=0", self.kubectl("exec", runs, "--", "env").splitlines())
        for name in (queued, runs):
            number = self.job_of(name)
            self.c.ok("scancel", number)
            eventually(lambda: self.status(name)["phase"] == "Failed", what="it has failed")
            status = self.status(name)
            self.assertEqual((status["reason"], status["message"]), ("Cancelled", f"Job {number} was cancelled by root"))
            self.assertNotIn("1970", json.dumps(status))
            self.await_event(name, "Cancelled", f"^Job {number} was cancelled by root$")
        self.assertEqual(self.word(queued), "Cancelled")
        self.assertEqual([one["status"] for one in self.status(queued)["conditions"] if one["type"] == "PodScheduled"], ["False"])
        self.assertEqual(self.word(runs), "Error")
        self.assertIn("Cancelled", self.kubectl("describe", "pod", runs))
        self.assertNotIn("ContainerCreating", self.kubectl("get", "pods"))
        self.assertEqual(self.status(waits)["phase"], "Pending")

    def test_what_is_missing_is_named(self):
        volume = self.create("mounts", spec={"volumes": [{"name": "s", "secret": {"secretName": "nosuch"}}]},
                             container={"volumeMounts": [{"name": "s", "mountPath": "/s"}]})
        words = 'MountVolume.SetUp failed for volume "s" : secret "nosuch" not found'
        self.assertEqual(self.await_event(volume, "FailedMount", "")[1], words)
        self.assertEqual(self.waiting(volume), {"reason": "ContainerCreating", "message": words})
        refused = self.try_kubectl("logs", volume)
        self.assertIn('container "main" in pod "mounts" is waiting to start: ContainerCreating', refused.stderr)
        key = self.create("key", container={"env": [{"name": "A", "valueFrom": {"configMapKeyRef": {"name": "kube-root-ca.crt", "key": "no"}}}]})
        self.await_event(key, "Failed", "^Error: couldn't find key no in ConfigMap default/kube-root-ca.crt$")
        self.assertEqual(self.waiting(key)["reason"], "CreateContainerConfigError")
        self.kubectl("create", "-f", "-", given={"apiVersion": "node.k8s.io/v1", "kind": "RuntimeClass", "metadata": {"name": "apart"},
                                                 "handler": "kata"})
        apart = self.create("apart", spec={"runtimeClassName": "apart"})
        self.await_event(apart, "FailedCreatePodSandBox", '^Failed to create pod sandbox: no runtime for "kata" is configured')
        self.assertEqual(self.waiting(apart)["reason"], "ContainerCreating")
        self.assertIn('no runtime for "kata"', self.waiting(apart)["message"])

    def test_images_that_come_and_do_not(self):
        fresh = self.create("fresh", container={"image": f"127.0.0.1:{PORT}/test/fresh:v1"})
        self.await_event(fresh, "Started", "")
        told = self.events(fresh)
        self.assertEqual([one[0] for one in told][:5], ["Scheduled", "Pulling", "Pulled", "Created", "Started"], told)
        self.assertRegex(told[2][1], r'^Successfully pulled image "127.0.0.1:5000/test/fresh:v1" in \d+\.\d+s$')
        bad = self.create("bad", container={"image": BAD})
        self.await_event(bad, "BackOff", f'^Back-off pulling image "{BAD}"$')
        why = self.await_event(bad, "Failed", "manifest unknown")[1]
        self.assertTrue(why.startswith(f'Failed to pull image "{BAD}": reading manifest nosuch'), why)
        self.await_event(bad, "Failed", "^Error: ImagePullBackOff$")
        self.assertEqual(self.waiting(bad)["reason"], "ImagePullBackOff")
        self.assertTrue(self.waiting(bad)["message"].startswith(f'Back-off pulling image "{BAD}": ErrImagePull: failed to pull image'))
        self.assertIn("is waiting to start: trying and failing to pull image", self.try_kubectl("logs", bad).stderr)

    def test_crashes_come_again_as_on_other_clusters(self):
        name = self.create("crashes", "sh", "-c", "exit 3", spec={"restartPolicy": "Always"})
        eventually(lambda: self.waiting(name).get("reason") == "CrashLoopBackOff", what="it backs off")
        one = self.status(name)["containerStatuses"][0]
        self.assertEqual(one["restartCount"], 2, "the first time at once")
        uid = json.loads(self.kubectl("get", "pod", name, "-o", "json"))["metadata"]["uid"]
        self.assertEqual(self.waiting(name)["message"], f"back-off 10s restarting failed container=main pod=crashes_default({uid})")
        self.assertEqual(self.word(name), "CrashLoopBackOff")

    def test_init_containers_are_in_the_table(self):
        one = {"name": "one", "image": IMAGE, "command": ["true"]}
        fails = self.create("inits", spec={"restartPolicy": "Always", "initContainers": [
            one, {"name": "two", "image": IMAGE, "command": ["sh", "-c", "exit 1"]}]})
        eventually(lambda: self.word(fails) == "Init:CrashLoopBackOff", what=f"the table says how its second one does: {self.word(fails)}")
        self.assertIn("is waiting to start: PodInitializing", self.try_kubectl("logs", fails, "-c", "main").stderr)
        slow = self.create("slow", spec={"initContainers": [one, {"name": "two", "image": IMAGE, "command": ["sleep", "600"]}]})
        eventually(lambda: self.word(slow) == "Init:1/2", what="the table counts them")
        over = self.create("over", spec={"initContainers": [{"name": "one", "image": IMAGE, "command": ["sh", "-c", "exit 1"]}]})
        eventually(lambda: self.word(over) == "Init:Error", what="the first has failed for good")

    def test_probes_say_what_they_saw(self):
        name = self.create("probed", spec={"restartPolicy": "Always", "terminationGracePeriodSeconds": 1}, container={
            "livenessProbe": {"exec": {"command": ["cat", "/nosuch"]}, "periodSeconds": 1, "failureThreshold": 3},
            "readinessProbe": {"tcpSocket": {"port": 1}, "periodSeconds": 1}})
        address = lambda: self.status(name).get("podIP", "-")
        self.await_event(name, "Unhealthy", r"^Liveness probe failed: cat: can't open '/nosuch': No such file or directory$")
        said = self.await_event(name, "Unhealthy", r"^Readiness probe failed: dial tcp ")
        self.assertEqual(said[1], f"Readiness probe failed: dial tcp {address()}:1: connect: connection refused")
        self.await_event(name, "Killing", "^Container main failed liveness probe, will be restarted$")
        eventually(lambda: self.await_event(name, "Unhealthy", "^Readiness")[2] >= 4, what="they are counted")
        self.assertEqual(len([one for one in self.events(name) if one[0] == "Unhealthy"]), 2)

    def test_logs_attach_and_ports(self):
        name = self.create("plain", "sh", "-c", "read line; exit 4", container={"stdin": True, "stdinOnce": True})
        self.kubectl("wait", "--for=condition=Ready", f"pod/{name}", "--timeout=30s")
        refused = self.try_kubectl("logs", name, "--previous")
        self.assertEqual(refused.returncode, 1)
        self.assertIn('previous terminated container "main" in pod "plain" not found', refused.stderr)
        with socket.create_server(("127.0.0.1", 0)) as probe:
            free = probe.getsockname()[1]
        forward = subprocess.Popen([kubectl_path(), "--kubeconfig", self.config, "port-forward", name, f"{free}:9999"],
                                   stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        self.addCleanup(forward.stdout.close)
        self.addCleanup(forward.kill)
        self.assertIn("Forwarding from", forward.stdout.readline())
        with socket.create_connection(("127.0.0.1", free), timeout=20) as client:
            self.assertEqual(client.recv(1), b"")
        self.assertEqual(forward.wait(timeout=20), 1)
        said = forward.stdout.read()
        self.assertIn("error forwarding port 9999 to pod plain", said)
        self.assertIn("connection refused", said)
        attached = self.try_kubectl("attach", "-i", name, given="x\n")
        self.assertEqual((attached.returncode, "exit code" in attached.stderr), (0, False), attached.stderr)
        eventually(lambda: self.status(name)["phase"] == "Failed", what="it ends")
        once = self.try_kubectl("run", "once", f"--image={IMAGE}", "--restart=Never", "--rm", "-i", "--", "sh", given="hostname; exit 4\n")
        self.assertEqual(once.stdout.count("once\n"), 1, once.stdout + once.stderr)
        self.assertNotIn("couldn't attach", once.stderr)

    def test_memory_that_ran_out_is_told_to_both_sides(self):
        name = self.create("hungry", "sh", "-c", "x=a; while true; do x=$x$x; done", container={"resources": {"limits": {"memory": "32Mi"}}})
        eventually(lambda: self.status(name)["phase"] == "Failed", what="it has no memory left")
        self.assertEqual(self.word(name), "OOMKilled")
        eventually(lambda: "OUT_OF_MEMORY" in self.c.ok("sacct", "-nXS", "now-1days", "--name", "hungry", "-o", "state%20"), what="sacct says so")


if __name__ == "__main__":
    unittest.main()
