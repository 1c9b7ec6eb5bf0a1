"""Pods that change while they run: containers for debugging, other images, other amounts, deadlines, too much on disk; and what is reached
through the API's proxy."""
import json
import os
import signal
import socket
import subprocess
import time
import unittest

import images
import yaml
from cluster import eventually
from kube_test import Client
from kube_cluster import IMAGE, KubeCluster, kubectl_path

PAGE = '<html><body><a href="/other">x</a><img src="/a.png"><a href="https://elsewhere.example/">y</a></body></html>'
# A server of a few lines: what it was asked, with the method and the headers that matter.
SERVE = r"""
mkdir -p /tmp/www/cgi-bin; printf '%s' "$PAGE" > /tmp/www/index.html
cat > /tmp/www/cgi-bin/echo <<'END'
#!/bin/sh
echo 'Content-Type: text/plain'; echo; echo "$REQUEST_METHOD $PATH_INFO $QUERY_STRING $HTTP_X_FORWARDED_URI auth=$HTTP_AUTHORIZATION"; head -c "${CONTENT_LENGTH:-0}"
END
cat > /tmp/www/cgi-bin/go <<'END'
#!/bin/sh
printf 'HTTP/1.1 302 Found\r\nLocation: /other/place\r\n\r\n'
END
chmod +x /tmp/www/cgi-bin/*; exec busybox httpd -f -p 8080 -h /tmp/www
"""


class KubePodsLive(KubeCluster):
    @classmethod
    def push_images(cls):
        for tag in ("v1", "v2"):
            cls.push(f"test/box:{tag}", files=images.files_of_busybox(version=(tag.encode(), 0o644)))

    def create(self, *args, ready=True, **more):
        return super().create(*args, ready=ready, **more)

    def container(self, name, which="containerStatuses"):
        return (self.get(name)["status"].get(which) or [{}])[0]

    def put_subresource(self, name, sub, change):
        tree = self.get(name)
        change(tree)
        return self.try_kubectl("replace", "--raw", f"/api/v1/namespaces/default/pods/{name}/{sub}", "-f", "-", given=tree)

    # --- containers for debugging ---

    def test_a_container_is_put_beside_the_others(self):
        name = self.create("debugged", "sh", "-c", "sleep 600 & wait")
        before = self.container(name)
        added = {"name": "looks", "image": IMAGE, "targetContainerName": "main", "stdin": True, "stdinOnce": True,
                 "command": ["sh", "-c", "echo seen; ls /proc/1/root/version && grep -a sleep /proc/*/cmdline | wc -l; cat"]}
        done = self.put_subresource(name, "ephemeralcontainers", lambda tree: tree["spec"].update(ephemeralContainers=[added]))
        self.assertEqual(done.returncode, 0, done.stderr)
        begun = time.monotonic()
        eventually(lambda: "running" in self.container(name, "ephemeralContainerStatuses").get("state", {}), what="it runs")
        self.assertLess(time.monotonic() - begun, 10, "the node is told, it does not wait to ask")
        self.assertEqual(self.container(name)["containerID"], before["containerID"], "the others go on")
        self.assertEqual(self.container(name)["restartCount"], 0)
        eventually(lambda: "seen" in self.kubectl("logs", name, "-c", "looks"), what="it has a log")
        self.assertIn("version", self.kubectl("logs", name, "-c", "looks"), "it sees the other's processes, and so its files")
        self.assertEqual(self.kubectl("exec", name, "-c", "looks", "--", "echo", "beside"), "beside\n")
        attached = self.try_kubectl("attach", "-i", name, "-c", "looks", given="typed\n")
        self.assertIn("typed", attached.stdout, attached.stderr)
        self.assertTrue(all(one["ready"] for one in self.get(name)["status"]["containerStatuses"]))
        changed = self.put_subresource(name, "ephemeralcontainers", lambda tree: tree["spec"]["ephemeralContainers"][0].update(image="other"))
        self.assertIn("existing ephemeral containers may not be changed", changed.stderr)
        probed = dict(added, name="probed", ports=[{"containerPort": 1}])
        refused = self.put_subresource(name, "ephemeralcontainers", lambda tree: tree["spec"]["ephemeralContainers"].append(probed))
        self.assertIn("cannot be set for an Ephemeral Container", refused.stderr)

    def web_socket(self, path, protocol):
        """What is read of it, once the server has agreed."""
        client = Client(yaml.safe_load(open(self.config)))
        made = client.tls.wrap_socket(socket.create_connection((client.host, int(client.port)), timeout=20))
        self.addCleanup(made.close)
        made.sendall((f"GET {path} HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n"
                      "Sec-WebSocket-Key: MDEyMzQ1Njc4OWFiY2RlZg==\r\n" + (f"Sec-WebSocket-Protocol: {protocol}\r\n" if protocol else "") + "\r\n").encode())
        reader = made.makefile("rb")
        status = reader.readline()
        while reader.readline().strip():
            pass
        return made, reader, status.split()[1]

    # --- where who collects logs looks for them ---

    def test_logs_lie_where_other_peoples_collectors_look_for_them(self):
        name = self.create("logged", "sh", "-c", "echo once; sleep 600")
        uid = self.get(name)["metadata"]["uid"]
        self.create("collects", ready=True, spec={"volumes": [{"name": "log", "hostPath": {"path": "/var/log"}}]},
                    container={"volumeMounts": [{"name": "log", "mountPath": "/var/log", "readOnly": True}]})
        look = ("cat /var/log/pods/default_{0}_{1}/main/0.log; cd /var/log/containers; for f in {0}_default_main-*.log; do echo $f; cat $f; "
                "done").format(name, uid)
        lines = self.kubectl("exec", "collects", "--", "sh", "-c", look).splitlines()
        self.assertEqual(len(lines), 3, lines)
        self.assertRegex(lines[0], r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{9}Z stdout F once$")
        self.assertRegex(lines[1], f"^{name}_default_main-[0-9a-f]{{64}}\\.log$")
        self.assertEqual(lines[2], lines[0])

    # --- programs beside it ---

    def begun_beside(self, name, script):
        """kubectl that runs it, once the script has said so."""
        client = subprocess.Popen([kubectl_path(), "--kubeconfig", self.config, "exec", name, "--", "sh", "-c", "echo begun; " + script],
                                  stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        self.addCleanup(client.stdout.close)
        self.assertEqual(client.stdout.readline(), "begun\n")
        return client

    def children_of_agent(self):
        """(number, name, state) of each."""
        out, agent = [], str(self.c.node("n1")["agent_pid"])
        for pid in filter(str.isdigit, os.listdir("/proc")):
            try:
                with open(f"/proc/{pid}/stat") as file:
                    text = file.read()
            except OSError:
                continue
            state, parent = text.rsplit(")", 1)[1].split()[:2]
            if parent == agent:
                out.append((int(pid), text[text.index("(") + 1:text.rindex(")")], state))
        return out

    def test_a_program_whose_client_has_gone_lives_on_and_holds_up_nobody(self):
        name = self.create("left")  # its first process reaps nobody
        client = self.begun_beside(name, "exec sleep 3333")
        runs = lambda: "sleep 3333" in self.kubectl("exec", name, "--", "busybox", "ps")  # noqa: E731
        self.assertTrue(runs())
        client.kill()
        client.wait()
        self.assertTrue(runs())
        # Who waits for it is killed, too: then it is the agent's.
        other = self.begun_beside(name, "exec sleep 4444")
        for pid, name_of_it, _ in self.children_of_agent():
            if name_of_it == "reach":
                os.kill(pid, signal.SIGKILL)
        other.wait()
        eventually(lambda: any(one[1] == "sleep" for one in self.children_of_agent()), what="the agent has inherited them")
        self.assertTrue(runs())
        self.kubectl("delete", "pod", name, "--timeout=30s")
        eventually(lambda: not [one for one in self.children_of_agent() if one[1] == "sleep" or one[2] == "Z"], what="none is left")
        self.assertNotIn("drain", self.c.ok("sinfo", "-h", "-o", "%T"))

    def test_input_that_nobody_reads_costs_neither_output_nor_code(self):
        name = self.create("unread")
        much = "x" * 1000000
        for _ in range(4):
            done = self.try_kubectl("exec", "-i", name, "--", "sh", "-c", "echo out; exit 4", given=much)
            self.assertEqual((done.returncode, done.stdout), (4, "out\n"), done.stderr)
        once = self.try_kubectl("run", "unread-once", f"--image={IMAGE}", "--restart=Never", "--rm", "-i", "--", "sh", "-c",
                                "echo out; exit 4", given=much)
        self.assertIn("out\n", once.stdout, once.stderr)

    def test_a_port_is_reached_by_channels_of_a_web_socket(self):
        name = self.create("echo", "sh", "-c", 'trap exit TERM; while true; do busybox nc -l -p 8080 -e busybox cat; done')
        path = f"/api/v1/namespaces/default/pods/{name}/portforward"
        # One connection at a time: while there is one, nothing listens.
        listens = lambda: eventually(lambda: self.try_kubectl("exec", name, "--", "busybox", "netstat", "-lnt").stdout.count(":8080"), what="it listens")
        listens()
        made, reader, status = self.web_socket(path + "?ports=8080", "v4.channel.k8s.io")
        self.assertEqual(status, b"101")
        def frame():
            head = reader.read(2)
            size = head[1] & 127
            return reader.read(int.from_bytes(reader.read(2), "big") if size == 126 else size)
        self.assertEqual([frame(), frame()], [b"\0\x90\x1f", b"\1\x90\x1f"], "both channels begin with the port's number")
        made.sendall(b"\x82\x86\0\0\0\0\0hello")
        self.assertEqual(frame(), b"\0hello")
        made.sendall(b"\x88\x80\0\0\0\0")
        listens()
        made, reader, status = self.web_socket(path + "?ports=8080", "")
        self.assertEqual((status, frame(), frame()), (b"101", b"\0\x90\x1f", b"\1\x90\x1f"), "who names no protocol has channels too")
        made.sendall(b"\x82\x86\0\0\0\0\0hello")
        self.assertEqual(frame(), b"\0hello")
        made.sendall(b"\x88\x80\0\0\0\0")
        listens()
        made, reader, status = self.web_socket(path + "?ports=8080", "v4.base64.channel.k8s.io")
        self.assertEqual((status, frame(), frame()), (b"101", b"0kB8=", b"1kB8="))
        made.sendall(b"\x81\x89\0\0\0\0" + b"0aGVsbG8=")
        self.assertEqual(frame(), b"0aGVsbG8=")
        self.assertEqual(self.web_socket(path, "v4.channel.k8s.io")[2], b"400", "it says which ports")
        self.assertEqual(self.web_socket(path + "?ports=0", "v4.channel.k8s.io")[2], b"400")
        self.assertEqual(self.web_socket(path + "?ports=" + ",".join(["1"] * 17), "v4.channel.k8s.io")[2], b"400")
        made.sendall(b"\x88\x80\0\0\0\0")
        made, reader, status = self.web_socket(path + "?ports=81", "v4.channel.k8s.io")
        told = [frame() for _ in range(4)]
        self.assertTrue(told[2].startswith(b"\x01error forwarding port 81 to pod echo: ") and told[2].endswith(b"connection refused"), told)
        self.assertEqual(told[3], b"\x03\xe8", "of a port that nobody serves the connection ends")

    def test_whose_input_ends_leaves_a_container_that_keeps_its_own_open(self):
        name = self.create("reader", "sh", "-c", "while read line; do echo got $line; done; echo over", container={"stdin": True})
        for word in ("one", "two"):
            begun = time.monotonic()
            self.assertEqual(self.try_kubectl("attach", "-i", name, given=word + "\n").returncode, 0)
            self.assertLess(time.monotonic() - begun, 10, "it does not wait for the container's end")
        eventually(lambda: self.kubectl("logs", name) == "got one\ngot two\n", what="both were read, and it goes on")

    # --- what changes ---

    def test_another_image_starts_the_container_again(self):
        name = self.create("renewed")
        self.assertEqual(self.kubectl("exec", name, "--", "cat", "/version"), "v1")
        self.kubectl("patch", "pod", name, "-p", json.dumps({"spec": {"containers": [{"name": "main", "image": IMAGE.replace(":v1", ":v2")}]}}))
        eventually(lambda: self.try_kubectl("exec", name, "--", "cat", "/version").stdout == "v2", what="it runs the other image")
        self.assertEqual(self.container(name)["restartCount"], 1)
        self.assertTrue(self.container(name)["image"].endswith(":v2"))

    def test_a_deadline_that_is_set_while_it_runs_counts(self):
        name = self.create("hurried")
        self.kubectl("patch", "pod", name, "-p", '{"spec":{"activeDeadlineSeconds":2}}')
        eventually(lambda: self.get(name)["status"].get("reason") == "DeadlineExceeded", what="it is ended")
        self.assertEqual(self.get(name)["status"]["phase"], "Failed")

    def test_amounts_change_in_place(self):
        amounts = {"requests": {"cpu": "100m", "memory": "64Mi"}, "limits": {"cpu": "200m", "memory": "64Mi"}}
        name = self.create("resized", container={"resources": amounts})
        limit = "cat /sys/fs/cgroup/memory/memory.limit_in_bytes 2>/dev/null || cat /sys/fs/cgroup/memory.max"
        self.assertEqual(self.kubectl("exec", name, "--", "sh", "-c", limit).strip(), str(64 << 20))

        def resize(tree, cpu, memory):
            tree["spec"]["containers"][0]["resources"] = {"requests": {"cpu": "100m", "memory": memory}, "limits": {"cpu": cpu, "memory": memory}}
        done = self.put_subresource(name, "resize", lambda tree: resize(tree, "400m", "128Mi"))
        self.assertEqual(done.returncode, 0, done.stderr)
        eventually(lambda: self.kubectl("exec", name, "--", "sh", "-c", limit).strip() == str(128 << 20), what="it has more memory")
        eventually(lambda: self.container(name)["resources"]["limits"] == {"cpu": "400m", "memory": "128Mi"}, what="its status says so")
        self.assertEqual(self.container(name)["restartCount"], 0)
        types = [one["type"] for one in self.get(name)["status"]["conditions"]]
        self.assertNotIn("PodResizePending", types)
        never = self.put_subresource(name, "resize", lambda tree: resize(tree, "400m", "900Gi"))
        self.assertEqual(never.returncode, 0, never.stderr)
        pending = [one for one in self.get(name)["status"]["conditions"] if one["type"] == "PodResizePending"]
        self.assertEqual([one["reason"] for one in pending], ["Infeasible"])
        qos = self.put_subresource(name, "resize", lambda tree: tree["spec"]["containers"][0].update(resources={}))
        self.assertIn("Pod QOS Class may not change", qos.stderr)
        plain = self.try_kubectl("patch", "pod", name, "-p", '{"spec":{"containers":[{"name":"main","resources":{"limits":{"cpu":"300m"}}}]}}')
        self.assertIn("pod updates may not change fields other than", plain.stderr)

    def test_who_fills_the_disk_is_put_out(self):
        name = self.create("greedy", "sh", "-c", "busybox dd if=/dev/zero of=/data/big bs=1048576 count=8; sleep 600", ready=False,
                           spec={"volumes": [{"name": "d", "emptyDir": {"sizeLimit": "4Mi"}}]},
                           container={"volumeMounts": [{"name": "d", "mountPath": "/data"}]})
        eventually(lambda: self.get(name)["status"].get("reason") == "Evicted", timeout=40, what="it is evicted")
        status = self.get(name)["status"]
        self.assertEqual(status["phase"], "Failed")
        self.assertIn('Usage of EmptyDir volume "d" exceeds the limit "4Mi"', status["message"])

    # --- claims ---

    def test_a_claim_gets_a_folder_where_its_pod_runs(self):
        self.kubectl("create", "-f", "-", given={"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": "data"}, "spec": {
            "accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}})
        self.addCleanup(self.try_kubectl, "delete", "pvc", "data", "--wait=false")
        more = {"spec": {"volumes": [{"name": "d", "persistentVolumeClaim": {"claimName": "data"}}]},
                "container": {"volumeMounts": [{"name": "d", "mountPath": "/data"}]}}
        first = self.create("writes", "sh", "-c", "echo kept > /data/x; sleep 600", **more)
        eventually(lambda: json.loads(self.kubectl("get", "pvc", "data", "-o", "json"))["status"]["phase"] == "Bound", what="it is bound")
        self.kubectl("delete", "pod", first, "--grace-period=0", "--force")
        second = self.create("reads", **more)
        self.assertEqual(self.kubectl("exec", second, "--", "cat", "/data/x"), "kept\n")

    # --- through the proxy ---

    def raw(self, path, *words):
        server = json.loads(self.kubectl("config", "view", "--raw", "-o", "json"))["clusters"][0]["cluster"]["server"]
        keys = {}
        for one in ("client-certificate-data", "client-key-data"):
            keys[one] = os.path.join(self.c.work, one)
            user = json.loads(self.kubectl("config", "view", "--raw", "-o", "json"))["users"][0]["user"]
            with open(keys[one], "wb") as f:
                f.write(__import__("base64").b64decode(user[one]))
        done = subprocess.run(["curl", "-sk", "--http1.1", "--path-as-is", "--cert", keys["client-certificate-data"], "--key", keys["client-key-data"], "-D", "-", *words,
                               server + path], capture_output=True, text=True, timeout=30)
        head, _, body = done.stdout.replace("\r\n", "\n").partition("\n\n")
        return head, body

    def test_pods_and_services_are_reached_through_the_api(self):
        name = self.create("serves", "sh", "-c", SERVE, labels={"app": "serves"}, container={"env": [{"name": "PAGE", "value": PAGE}],
                           "ports": [{"containerPort": 8080}], "readinessProbe": {"tcpSocket": {"port": 8080}, "periodSeconds": 1}})
        self.kubectl("create", "-f", "-", given={"apiVersion": "v1", "kind": "Service", "metadata": {"name": "front"}, "spec": {
            "selector": {"app": "serves"}, "ports": [{"name": "web", "port": 80, "targetPort": 8080}]}})
        self.addCleanup(self.try_kubectl, "delete", "service", "front")
        base = "/api/v1/namespaces/default"
        eventually(lambda: "302" not in self.raw(f"{base}/services/front:80/proxy/")[0] and "200 OK" in self.raw(f"{base}/services/front:80/proxy/")[0],
                   what="the service has its endpoint")
        for place in (f"{base}/pods/{name}", f"{base}/pods/{name}:8080", f"{base}/pods/http:{name}:8080", f"{base}/services/front:web",
                      f"{base}/services/http:front:80"):
            with self.subTest(place=place):
                for method in ("GET", "POST"):
                    head, body = self.raw(f"{place}/proxy/cgi-bin/echo/some/path?a=1&a=2&b=x%20y", "-X", method, *(("-d", "sent") if method != "GET" else ()))
                    self.assertIn("200 OK", head)
                    self.assertEqual(body.split("\n")[0], f"{method} /some/path a=1&a=2&b=x%20y {place}/proxy/cgi-bin/echo/some/path auth=")
                    self.assertEqual(body.split("\n")[1], "sent" if method != "GET" else "")
                for method in ("PUT", "PATCH", "DELETE", "OPTIONS"):  # which that server does not know: its own answer comes back
                    self.assertIn("501", self.raw(f"{place}/proxy/", "-X", method)[0].split("\n")[0])
                head, _ = self.raw(f"{place}/proxy")
                self.assertIn("301", head.split("\n")[0])
                self.assertIn(f"location: {place}/proxy/", head.lower())
                _, body = self.raw(f"{place}/proxy/")
                self.assertEqual(body, PAGE.replace('"/other"', f'"{place}/proxy/other"').replace('"/a.png"', f'"{place}/proxy/a.png"'))
                head, _ = self.raw(f"{place}/proxy/cgi-bin/go")
                self.assertIn(f"location: {place}/proxy/other/place", head.lower())
                head, body = self.raw(f"{place}/proxy/", "-I")
                self.assertIn("200 OK", head)
                self.assertEqual(body.strip(), "")
        head, body = self.raw(f"{base}/pods/{name}:81/proxy/")
        self.assertIn("503", head.split("\n")[0])
        self.assertIn("error trying to reach service", body)
        self.assertIn("no service port 7 found", self.raw(f"{base}/services/front:7/proxy/")[1])
        self.assertEqual(json.loads(self.raw(f"{base}/services/none/proxy/")[1])["code"], 404)
        self.assertEqual(self.raw("/api/v1/nodes/n1/proxy/healthz")[1], "ok")


if __name__ == "__main__":
    unittest.main()
