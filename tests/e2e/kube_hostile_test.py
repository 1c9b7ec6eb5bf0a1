"""What a tenant with rights in one namespace must not get: the node's network through exec, files that root writes for him, the controller
standing still for others, an object that nobody can delete, everybody's share of connections."""
import http.client
import json
import os
import ssl
import unittest
import urllib.parse

import kube_cluster
from cluster import eventually
from kube_cluster import KubeCluster


def is_open(connection):
    connection.setblocking(False)
    try:
        return connection.recv(1) != b""
    except ssl.SSLWantReadError:
        return True
    except OSError:
        return False


class KubeHostile(KubeCluster):
    def ready(self, *args, **more):
        name = self.create(*args, **more)
        self.kubectl("wait", "--for=condition=Ready", f"pod/{name}", "--timeout=60s")
        return name

    # Of an account: server, and what asks it as that account.
    def asker(self, account):
        self.kubectl("create", "serviceaccount", account)
        self.addCleanup(self.try_kubectl, "delete", "serviceaccount", account)
        self.kubectl("create", "rolebinding", account, "--clusterrole=edit", f"--serviceaccount=default:{account}")
        self.addCleanup(self.try_kubectl, "delete", "rolebinding", account)
        token = json.loads(self.kubectl("create", "--raw", f"/api/v1/namespaces/default/serviceaccounts/{account}/token", "-f", "-",
                                        given={"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}}))["status"]["token"]
        server = urllib.parse.urlparse(self.kubectl("config", "view", "-o", "jsonpath={.clusters[0].cluster.server}"))

        def ask(path, read=True):
            connection = http.client.HTTPSConnection(server.hostname, server.port, timeout=30, context=ssl._create_unverified_context())
            connection.request("GET", path, headers={"Authorization": "Bearer " + token})
            kept = connection.sock
            answer = connection.getresponse()
            return (answer.status, answer.read()) if read else (answer.status, (kept, answer))
        return ask

    def test_exec_is_where_the_container_is(self):
        name = self.ready("spaces")
        own = json.loads(self.c.ok("lockstep", "status", "--dir", self.c.dir, "-o", "json"))
        node = next(n["agent_pid"] for n in own["nodes"] if n["name"] == "n1")
        for space in ("net", "ipc", "uts", "pid", "mnt"):
            first, inside = (self.kubectl("exec", name, "--", "readlink", f"/proc/{of}/ns/{space}") for of in ("1", "self"))
            self.assertEqual(inside, first)
            self.assertNotEqual(inside.strip(), os.readlink(f"/proc/{node}/ns/{space}"))

    def test_what_root_writes_for_a_container_it_cannot_change(self):
        self.kubectl("create", "configmap", "mine", "--from-literal=a=1")
        self.addCleanup(self.try_kubectl, "delete", "configmap", "mine")
        name = self.ready("writes", spec={"volumes": [{"name": "m", "configMap": {"name": "mine"}}]},
                          container={"volumeMounts": [{"name": "m", "mountPath": "/m"}, {"name": "m", "mountPath": "/one", "subPath": "a"}]})
        for attempt in ("touch /m/b", "rm /m/a", "mkdir /m/..data/x", "echo 2 > /m/a", "echo 2 > /one", "mount -o remount,rw /m"):
            self.assertNotEqual(self.try_kubectl("exec", name, "--", "sh", "-c", attempt).returncode, 0, attempt)
        self.assertEqual(self.kubectl("exec", name, "--", "cat", "/m/a"), "1")

    @unittest.skipIf(os.geteuid() != 0, "needs another user")
    def test_other_users_read_nothing_private_of_a_pod(self):
        name = self.ready("private", container={"env": [{"name": "TOKEN", "value": "s3cret-value"}], "args": ["s3cret-value"],
                                                "command": ["sh", "-c", "echo s3cret-value > /dev/termination-log; sleep 600"]})
        job = self.c.ok("squeue", "-h", "-n", name, "-o", "%i").strip()
        root = self.c.ok("curl", "-s", "--unix-socket", self.c.env["LOCKSTEP_SOCKET"], f"http://x/v1/jobs/{job}")
        self.assertIn("s3cret-value", root)
        image = self.get(name)["spec"]["containers"][0]["image"]
        for path in (f"/v1/jobs/{job}", "/v1/jobs", "/v1/watch", "/v1/history?steps=1", f"/v1/jobs/{job}/explain", "/slurm/v1/squeue.json",
                     f"/slurm/v1/show/job?name={job}", "/slurm/v1/squeue?columns=jobid,command,name"):
            said = self.c.ok("curl", "-s", "--max-time", "20", "--unix-socket", self.c.env["LOCKSTEP_SOCKET"], f"http://x{path}", user=65533)
            self.assertNotIn("s3cret-value", said, path)
            self.assertNotIn(image, said, path)
        said = [self.c.run("curl", "-s", "--unix-socket", self.c.env["LOCKSTEP_SOCKET"], f"http://x/v1/jobs/{what}/explain", user=65533).stdout
                for what in (f"pods:default:{name}", "pods:default:nothing-of-the-kind")]
        self.assertEqual(said[0], said[1], "whether an object is there")

    def test_a_pod_of_many_parts_is_refused_before_it_costs(self):
        many = [{"name": f"a{i}", "value": "x"} for i in range(20_000)]
        refused = self.try_kubectl("create", "-f", "-", given=kube_cluster.pod("variables", container={"env": many}))
        self.assertIn("spec.containers[0].env: Too many: 20000: must have at most 4096 items", refused.stderr)
        refused = self.try_kubectl("create", "-f", "-", given=kube_cluster.pod("bears", spec={"tolerations": [{"operator": "Exists"}] * 5000}))
        self.assertIn("spec.tolerations: Too many", refused.stderr)
        ports = [{"name": f"p{i}", "port": i + 1} for i in range(5000)]
        refused = self.try_kubectl("create", "-f", "-", given={"apiVersion": "v1", "kind": "Service", "metadata": {"name": "wide"},
                                                               "spec": {"type": "NodePort", "ports": ports}})
        self.assertIn("spec.ports: Too many", refused.stderr)

    def test_variables_that_double_hold_their_own_container_only(self):
        env = [{"name": "A0", "value": "x" * 1024}] + [{"name": f"A{i}", "value": f"$(A{i - 1})$(A{i - 1})"} for i in range(1, 40)]
        name = self.create("doubles", container={"env": env})

        def waits():
            states = [one["state"].get("waiting", {}) for one in self.get(name)["status"].get("containerStatuses", [])]
            return any(state.get("reason") == "CreateContainerConfigError" and "too long" in state.get("message", "") for state in states)
        eventually(waits, what="it is told why it does not start")
        with open(f"/proc/{self.c.controller_pid()}/status") as f:
            self.assertLess(next(int(line.split()[1]) for line in f if line.startswith("VmHWM")), 400 << 10)

    def test_what_could_be_made_can_be_deleted(self):
        name = self.create("long", *["true"] + ["x" * 100] * 6000)
        self.kubectl("delete", "pod", name, "--grace-period=0", "--force", "--wait=false")
        eventually(lambda: self.try_kubectl("get", "pod", name).returncode != 0, what="it has gone")

    def test_accounts_on_one_machine_are_counted_by_themselves(self):
        greedy, other = self.asker("greedy"), self.asker("other")
        held = []
        self.addCleanup(lambda: [kept.close() for kept, _ in held])
        for _ in range(600):
            status, stream = greedy("/api/v1/namespaces/default/configmaps?watch=true&timeoutSeconds=60", read=False)
            held.append(stream)
            if status != 200:
                break
        self.assertEqual(len(held), 600, "more than an address without a name may have")
        self.assertEqual(sum(not is_open(kept) for kept, _ in held), 0, "and none made way for others")
        self.assertEqual(other("/api/v1/namespaces/default/configmaps?watch=true&timeoutSeconds=1")[0], 200)

    def test_a_long_list_is_its_owners_to_read(self):
        for i in range(8):
            self.kubectl("create", "-f", "-", given={"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": f"big{i}"},
                                                     "data": {"text": "x" * 900_000}})
            self.addCleanup(self.try_kubectl, "delete", "configmap", f"big{i}")
        status, text = self.asker("reader")("/api/v1/namespaces/default/configmaps")
        self.assertEqual(status, 200, text[:300])
        self.assertGreater(len(text), 7_000_000)


if __name__ == "__main__":
    unittest.main()
