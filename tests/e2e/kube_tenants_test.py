"""What tenants of a cluster try with pods, and what comes of it: users, groups, settings of the kernel, images of others, links in volumes, floods."""
import base64
import json
import os
import subprocess
import unittest

import images
from cluster import eventually
from kube_cluster import IMAGE as BOX
from kube_cluster import PORT, KubeCluster, pod

SECRET_PORT = 5001
NAMED, PRIVATE = f"127.0.0.1:{PORT}/test/named:v1", f"127.0.0.1:{SECRET_PORT}/team/secret:v1"


class KubeTenants(KubeCluster):
    @classmethod
    def push_images(cls):
        passwd = {"etc/passwd": (b"root:x:0:0::/root:/bin/sh\napp:x:1000:1000::/:/bin/sh\n", 0o644), "etc/group": (b"app:x:1000:\nwheel:x:50000:app\n", 0o644)}
        for name, user in (("box", ""), ("named", "app")):
            cls.push(f"test/{name}:v1", files=images.files_of_busybox(**passwd), User=user)
        layout = os.path.join(cls.c.work, "secret")
        cls.digest = images.make_layout(layout, "v1", files=images.files_of_busybox(**{"etc/plan": (b"of the team\n", 0o644)}),
                                        config={"Env": ["PATH=/bin"], "Cmd": ["sleep", "600"]})
        cls.registries.append(images.Registry(cls.c.home, cls.c.node("n1")["agent_pid"], SECRET_PORT, users={"ann": "word"}))
        subprocess.run([*cls.registries[1].net, "skopeo", "copy", "--quiet", "--preserve-digests", "--dest-tls-verify=false", "--dest-creds", "ann:word",
                        f"oci:{layout}:v1", f"docker://{PRIVATE}"], check=True)

    def create(self, name, *command, image=BOX, namespace="default", spec=None, container=None):
        return super().create(name, *command, spec=spec, container={"image": image, **(container or {})}, namespace=namespace)

    def status(self, name, namespace="default"):
        return json.loads(self.kubectl("-n", namespace, "get", "pod", name, "-o", "json"))["status"]

    def waits(self, name, namespace="default"):
        return (self.status(name, namespace).get("containerStatuses") or [{}])[0].get("state", {}).get("waiting", {})

    def printed(self, name):
        eventually(lambda: self.status(name)["phase"] in ("Succeeded", "Failed"), what=f"{name} has ended")
        return self.kubectl("logs", name)

    def test_nobody_is_root_who_must_not_be(self):
        never_root = {"securityContext": {"runAsNonRoot": True}}
        root = self.create("root", container=never_root)
        eventually(lambda: self.waits(root).get("reason") == "CreateContainerConfigError", what="an image of root's is not started")
        self.assertIn("container has runAsNonRoot and image will run as root", self.waits(root)["message"])
        named = self.create("named", image=NAMED, container=never_root)
        eventually(lambda: "non-numeric user (app)" in self.waits(named).get("message", ""), what="a name may be anybody's")
        self.assertEqual(self.printed(self.create("nobody", "id", "-u", container={"securityContext": {"runAsNonRoot": True, "runAsUser": 1234}})), "1234\n")

    def test_groups_are_the_pods_alone_where_it_says_so(self):
        self.assertIn("50000", self.printed(self.create("merged", "id", "-G", image=NAMED)).split())
        strict = self.create("strict", "id", "-G", image=NAMED, spec={"securityContext": {"supplementalGroupsPolicy": "Strict", "supplementalGroups": [4242]}})
        self.assertEqual(sorted(self.printed(strict).split()), ["1000", "4242"])

    def test_settings_of_the_kernel_that_others_would_feel_are_refused(self):
        unsafe = self.create("unsafe", spec={"securityContext": {"sysctls": [{"name": "kernel.msgmax", "value": "65536"}]}})
        self.assertEqual(self.status(unsafe)["reason"], "SysctlForbidden")
        eventually(lambda: "SysctlForbidden" in self.kubectl("get", "events", "-o", "name") or
                   "SysctlForbidden" in self.kubectl("get", "events", "-o", "jsonpath={.items[*].reason}"), what="it is told")
        safe = self.create("safe", "cat", "/proc/sys/net/ipv4/ip_unprivileged_port_start",
                           spec={"securityContext": {"sysctls": [{"name": "net.ipv4.ip_unprivileged_port_start", "value": "80"}]}})
        self.assertEqual(self.printed(safe), "80\n")
        wrong = self.try_kubectl("create", "-f", "-", given=pod("wrong", spec={"securityContext": {"sysctls": [
            {"name": "foo-", "value": "1"}, {"name": "bar..", "value": "1"}, {"name": "safe-and-unsafe", "value": "1"}]}}))
        self.assertIn('Invalid value: "foo-"', wrong.stderr)
        self.assertIn('Invalid value: "bar.."', wrong.stderr)
        self.assertNotIn('"safe-and-unsafe"', wrong.stderr)

    def test_images_of_others_are_not_had_from_the_node(self):
        auth = base64.b64encode(b"ann:word").decode()
        config = json.dumps({"auths": {f"127.0.0.1:{SECRET_PORT}": {"auth": auth}}})
        self.kubectl("create", "-f", "-", given={"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "login"}, "type": "kubernetes.io/dockerconfigjson",
                                                 "data": {".dockerconfigjson": base64.b64encode(config.encode()).decode()}})
        self.addCleanup(self.try_kubectl, "delete", "secret", "login")
        team = self.create("team", "cat", "/etc/plan", image=PRIVATE, spec={"imagePullSecrets": [{"name": "login"}]})
        self.assertEqual(self.printed(team), "of the team\n")
        for name, image in (("tag", PRIVATE), ("digest", PRIVATE.rsplit(":", 1)[0] + "@" + self.digest)):
            thief = self.create(name, "cat", "/etc/plan", image=image)
            eventually(lambda: self.waits(thief).get("reason") in ("ErrImagePull", "ImagePullBackOff"), what=f"by its {name} it is not given away")
        never = self.create("never", image=PRIVATE, container={"imagePullPolicy": "Never"})
        eventually(lambda: self.waits(never).get("reason") == "ErrImageNeverPull", what="nor without asking")
        self.assertEqual(self.printed(self.create("again", "cat", "/etc/plan", image=PRIVATE, spec={"imagePullSecrets": [{"name": "login"}]})), "of the team\n")
        odd = self.create("odd", image="root@127.0.0.1:5000#test/box:v1")
        eventually(lambda: self.waits(odd).get("reason") == "InvalidImageName", what="credentials of the node are not named by pods")

    def test_links_in_volumes_lead_nowhere(self):
        spec = {"volumes": [{"name": "v", "emptyDir": {}}], "initContainers": [{"name": "plants", "image": BOX, "command": [
            "sh", "-c", "busybox ln -s / /v/up; busybox ln -s /etc /v/etc; mkdir /v/plain"], "volumeMounts": [{"name": "v", "mountPath": "/v"}]}]}
        name = self.create("links", "sh", "-c", "ls /up; echo; ls /plain", spec=spec, container={"volumeMounts": [
            {"name": "v", "mountPath": "/up", "subPath": "up"}, {"name": "v", "mountPath": "/plain", "subPath": "plain"}]})
        self.assertEqual(self.printed(name).split(), ["etc", "plain", "up"], "the root of the volume, not the node's")

    def test_what_is_run_beside_a_container_is_where_the_container_is(self):
        name = self.create("inside")
        self.kubectl("wait", "--for=condition=Ready", f"pod/{name}", "--timeout=30s")
        script = "for s in net uts ipc mnt pid cgroup; do echo $s $(readlink /proc/1/ns/$s) $(readlink /proc/self/ns/$s); done; cat /proc/sys/kernel/hostname"
        *spaces, host = self.kubectl("exec", name, "--", "sh", "-c", script).splitlines()
        for line in spaces:
            space, first, own = line.split()
            self.assertEqual(first, own, space)
        self.assertEqual(host, name)

    def test_floods_stay_within_their_pod(self):
        name = self.create("bounds", "sh", "-c", "cat /sys/fs/cgroup/pids/pids.max 2>/dev/null || cat /sys/fs/cgroup/pids.max; cat /proc/self/oom_score_adj")
        self.assertEqual(self.printed(name).split(), ["32768", "1000"])
        many = {"volumes": [{"name": f"v{i}", "emptyDir": {}} for i in range(10_000)]}
        refused = self.try_kubectl("create", "-f", "-", given=pod("many", spec=many))
        self.assertIn("at most", refused.stderr)
        self.assertLess(len(refused.stderr), 4000, "it is told once")
        spread = {"volumes": [{"name": "h", "hostPath": {"path": "/"}}]}
        shared = self.try_kubectl("create", "-f", "-", given=pod("spread", spec=spread, container={"volumeMounts": [
            {"name": "h", "mountPath": "/h", "mountPropagation": "Bidirectional"}]}))
        self.assertIn("available only to privileged containers", shared.stderr)


if __name__ == "__main__":
    unittest.main()
