"""Services and names on two nodes: from pods, from nodes, from outside; by address, by node port, by DNS; and what harms them."""
import base64
import json
import os
import re
import subprocess
import time
import unittest

import images
from cluster import Cluster, eventually
from kube_pods_test import kubectl_path, pod

PORT = 5000
IMAGE = f"127.0.0.1:{PORT}/test/box:v1"
DNS = "10.96.0.10"


def curl_files():
    """curl and what it is linked with: busybox' own wget, linked statically, finds no names."""
    said = subprocess.run(["ldd", "/usr/bin/curl"], capture_output=True, text=True, check=True).stdout
    paths = ["/usr/bin/curl", *re.findall(r"(/\S+) \(0x", said)]
    return {path[1:]: (open(path, "rb").read(), 0o755) for path in paths}


SERVE = "mkdir -p /tmp/www; echo $0 > /tmp/www/index.html; exec /bin/busybox httpd -f -p 8080 -h /tmp/www"
ECHO = """
import socket, sys
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
s.bind((sys.argv[1], int(sys.argv[2])))
print("ready", flush=True)
while True:
    data, who = s.recvfrom(2000)
    s.sendto(sys.argv[3].encode(), who)
"""


@unittest.skipUnless(os.geteuid() == 0, "virtual nodes need root")
@unittest.skipUnless(kubectl_path(), "kubectl is not installed")
@unittest.skipIf(images.missing(), f"these are not installed: {images.missing()}")
class KubeServices(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.c = c = Cluster(nodes=2, gpus=None, cpus=8)
        c.up()
        layout = os.path.join(c.work, "box")
        images.make_layout(layout, "v1", files=images.files_of_busybox(**curl_files()), config={"Env": ["PATH=/bin:/usr/bin"], "Cmd": ["sleep", "600"]})
        cls.registries = [images.Registry(c.home, c.node(name)["agent_pid"], PORT) for name in ("n1", "n2")]
        for registry in cls.registries:
            registry.push(f"oci:{layout}:v1", "test/box:v1")
        cls.config = os.path.join(c.work, "kubeconfig")
        c.ok("lockstep", "kubeconfig", cls.config)
        eventually(lambda: cls.try_kubectl("get", "serviceaccount", "default").returncode == 0, what="the first namespace is ready")
        for name, node in (("a", "n1"), ("b", "n2")):
            cls.apply(pod(f"web-{name}", "sh", "-c", SERVE, f"web-{name}", labels={"app": "web", "one": name},
                          spec={"nodeName": node}))
            cls.apply(pod(f"client-{name}", spec={"nodeName": node}, labels={"app": "client"}))
        cls.service("web", ports=[{"name": "http", "port": 80, "targetPort": 8080, "nodePort": 30080}], type="NodePort")
        done = cls.try_kubectl("wait", "--for=condition=Ready", "pod", "--all", "--timeout=60s", timeout=90)
        assert done.returncode == 0, done.stderr + cls.try_kubectl("describe", "pods").stdout

    @classmethod
    def tearDownClass(cls):
        for registry in cls.registries:
            registry.close()
        cls.c.down()

    @classmethod
    def try_kubectl(cls, *words, given=None, timeout=60):
        return subprocess.run([kubectl_path(), "--kubeconfig", cls.config, *words], capture_output=True, text=True, timeout=timeout,
                              input=None if given is None else json.dumps(given))

    @classmethod
    def apply(cls, what):
        done = cls.try_kubectl("apply", "-f", "-", given=what)
        assert done.returncode == 0, done.stderr
        return what

    @classmethod
    def service(cls, name, selector=None, metadata=None, **spec):
        spec.setdefault("ports", [{"port": 80, "targetPort": 8080}])
        if selector is None:
            selector = {"app": "web"}
        return cls.apply({"apiVersion": "v1", "kind": "Service", "metadata": {"name": name, **(metadata or {})},
                          "spec": {**({"selector": selector} if selector else {}), **spec}})

    def own_service(self, name, *args, **more):
        self.addCleanup(self.try_kubectl, "delete", "service", name, "--ignore-not-found")
        return self.service(name, *args, **more)

    def get(self, *words):
        done = self.try_kubectl("get", *words, "-o", "json")
        self.assertEqual(done.returncode, 0, done.stderr)
        return json.loads(done.stdout)

    def inside(self, name, script):
        return self.try_kubectl("exec", name, "--", "sh", "-c", script)

    def on_node(self, name, *argv, timeout=20):
        return subprocess.run(["nsenter", "-t", str(self.c.node(name)["agent_pid"]), "-n", *argv], capture_output=True, text=True,
                              timeout=timeout)

    def node_address(self, name):
        return next(a["address"] for a in self.get("node", name)["status"]["addresses"] if a["type"] == "InternalIP")

    def address(self, name):
        return self.get("service", name)["spec"]["clusterIP"]

    def dig(self, *words, node="n1"):
        return self.on_node(node, "dig", f"@{DNS}", "+time=2", "+tries=2", *words).stdout

    def short(self, *words):
        return sorted(self.dig("+short", *words).split())

    def status_of(self, *words):
        return re.search(r"status: (\w+)", self.dig(*words)).group(1)

    def served(self, url, pod_name="client-a", times=16):
        done = self.inside(pod_name, f"for i in $(/bin/busybox seq {times}); do curl -sSm 5 {url}; done")
        self.assertEqual(done.returncode, 0, done.stderr)
        return set(done.stdout.split())

    # --- addresses ---

    def test_a_service_leads_to_all_its_pods_from_everywhere(self):
        both = {"web-a", "web-b"}
        for client in ("client-a", "client-b"):
            self.assertEqual(self.served("http://web", client), both)
        self.assertEqual(self.served(f"http://{self.address('web')}:80"), both)
        for node in ("n1", "n2"):
            said = self.on_node(node, "sh", "-c", f"for i in $(seq 16); do curl -sm 5 http://{self.address('web')}; done").stdout
            self.assertEqual(set(said.split()), both)
        # What only the pod itself is behind leads it to itself.
        self.own_service("me", {"one": "a"})
        self.assertEqual(self.served("http://me", "web-a", times=4), {"web-a"})

    def test_node_ports_lead_from_outside_on_every_node(self):
        for node in ("n1", "n2"):
            where = f"http://{self.node_address(node)}:30080"
            said = subprocess.run(["sh", "-c", f"for i in $(seq 16); do curl -sm 5 {where}; done"], capture_output=True, text=True).stdout
            self.assertEqual(set(said.split()), {"web-a", "web-b"}, node)
            self.assertEqual(self.served(where), {"web-a", "web-b"})

    def test_policies_keep_to_the_node(self):
        self.own_service("near", {"one": "a"}, type="NodePort", externalTrafficPolicy="Local",
                         ports=[{"port": 80, "targetPort": 8080, "nodePort": 30090}])
        here, there = (f"http://{self.node_address(n)}:30090" for n in ("n1", "n2"))
        curl = lambda where: subprocess.run(["curl", "-sm", "2", where], capture_output=True, text=True)
        eventually(lambda: curl(here).stdout.strip() == "web-a", what="the node that has it answers")
        self.assertNotEqual(curl(there).returncode, 0)
        self.assertEqual(self.served(there, "client-b", times=2), {"web-a"})  # from inside it is led anywhere
        self.own_service("inside", {"one": "a"}, internalTrafficPolicy="Local")
        eventually(lambda: self.inside("client-a", "curl -sSm 2 http://inside").stdout.strip() == "web-a", what="on its node")
        self.assertNotEqual(self.inside("client-b", "curl -sSm 2 http://inside").returncode, 0)

    def test_nothing_behind_it_is_refused_at_once(self):
        self.own_service("empty", {"app": "nobody"}, type="NodePort", ports=[{"port": 80, "nodePort": 30091}])
        began = time.monotonic()
        cannot_connect = 7  # of curl's; 28 would be that it waited
        eventually(lambda: self.inside("client-a", "curl -sm 20 http://empty").returncode == cannot_connect, what="it is refused")
        done = subprocess.run(["curl", "-sm", "20", f"http://{self.node_address('n1')}:30091"])
        self.assertEqual(done.returncode, cannot_connect)
        self.assertLess(time.monotonic() - began, 15)

    def test_a_client_stays_with_its_end_while_it_is_told(self):
        self.own_service("sticky", sessionAffinity="ClientIP")
        eventually(lambda: self.inside("client-a", "curl -sSm 2 http://sticky").returncode == 0, what="it is there")
        self.assertEqual(len(self.served("http://sticky", times=20)), 1)
        self.try_kubectl("patch", "service", "sticky", "-p", '{"spec":{"sessionAffinity":"None"}}')
        eventually(lambda: len(self.served("http://sticky", times=20)) == 2, what="it is led anywhere again")

    def test_the_api_is_reached_from_a_pod_as_programs_do(self):
        script = ("T=$(cat /var/run/secrets/kubernetes.io/serviceaccount/token); echo $KUBERNETES_SERVICE_HOST; "
                  "curl -sSm 5 --cacert /var/run/secrets/kubernetes.io/serviceaccount/ca.crt -H \"Authorization: Bearer $T\" "
                  "https://kubernetes.default.svc:$KUBERNETES_SERVICE_PORT/version")
        done = self.inside("client-a", script)
        self.assertIn('"gitVersion"', done.stdout, done.stderr)
        self.assertEqual(done.stdout.split()[0], "10.96.0.1")
        ca = os.path.join(self.c.work, "ca.pem")
        with open(ca, "wb") as f:
            f.write(base64.b64decode(re.search(r"certificate-authority-data: (\S+)", open(self.config).read()).group(1)))
        for name in ("10.96.0.1", "kubernetes.default.svc"):
            done = self.on_node("n2", "curl", "-sSm", "5", "--cacert", ca, "--resolve", f"{name}:443:10.96.0.1", f"https://{name}/version")
            self.assertIn("gitVersion", done.stdout, done.stderr)
        ends = self.get("endpoints", "kubernetes")["subsets"]
        self.assertEqual(len(ends[0]["addresses"]), 1)
        self.assertEqual(self.get("endpointslice", "kubernetes")["endpoints"][0]["addresses"], [ends[0]["addresses"][0]["ip"]])

    def test_flows_of_udp_follow_what_is_there(self):
        self.own_service("echo", {}, ports=[{"port": 7, "protocol": "UDP"}])
        servers = []
        for node in ("n1", "n2"):
            servers.append(subprocess.Popen(["nsenter", "-t", str(self.c.node(node)["agent_pid"]), "-n", "python3", "-c", ECHO,
                                             self.node_address(node), "7007", node], stdout=subprocess.PIPE))
            self.addCleanup(servers[-1].wait)
            self.addCleanup(servers[-1].kill)
            servers[-1].stdout.readline()

        def lead_to(node):
            self.apply({"apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice",
                        "metadata": {"name": "echo-1", "labels": {"kubernetes.io/service-name": "echo"}}, "addressType": "IPv4",
                        "ports": [{"name": "", "port": 7007, "protocol": "UDP"}], "endpoints": [{"addresses": [self.node_address(node)]}]})
        ask = ("import socket,sys\ns=socket.socket(socket.AF_INET,socket.SOCK_DGRAM);s.bind(('0.0.0.0',7123));s.settimeout(1)\n"
               f"s.sendto(b'x',('{self.address('echo')}',7));print(s.recv(100).decode())")
        self.addCleanup(self.try_kubectl, "delete", "endpointslice", "echo-1", "--ignore-not-found")
        for node in ("n1", "n2", "n1"):
            lead_to(node)
            eventually(lambda: self.on_node("n1", "python3", "-c", ask).stdout.strip() == node, what=f"it is led to {node}")

    # --- names ---

    def test_names(self):
        web, a = self.address("web"), self.get("pod", "web-a")["status"]["podIP"]
        zone = "default.svc.cluster.local"
        self.own_service("db", clusterIP="None", ports=[{"name": "sql", "port": 8080}])
        self.own_service("away", {}, type="ExternalName", externalName=f"web.{zone}", ports=[])
        both = sorted(self.get("pod", f"web-{n}")["status"]["podIP"] for n in "ab")
        eventually(lambda: self.short(f"db.{zone}") == both, what="the addresses behind a headless service")
        self.assertEqual(self.short(f"web.{zone}"), [web])
        self.assertEqual(self.short("+tcp", f"web.{zone}"), [web])
        self.assertEqual(self.short("SRV", f"_http._tcp.web.{zone}"), sorted(["0", "100", "80", f"web.{zone}."]))
        self.assertEqual(self.short("-x", web), [f"web.{zone}."])
        self.assertEqual(self.short(f"{a.replace('.', '-')}.db.{zone}"), [a])
        self.assertEqual(self.short(f"{a.replace('.', '-')}.default.pod.cluster.local"), [a])
        self.assertEqual(self.short(f"away.{zone}"), sorted([f"web.{zone}.", web]))
        self.assertEqual(self.short("AAAA", f"web.{zone}"), [])
        self.assertEqual(self.status_of("AAAA", f"web.{zone}"), "NOERROR")
        self.assertEqual(self.status_of(f"gone.{zone}"), "NXDOMAIN")
        done = self.inside("client-b", "cat /etc/resolv.conf; /bin/busybox nslookup web.default.svc.cluster.local")
        self.assertIn(f"nameserver {DNS}", done.stdout)
        self.assertIn(f"search {zone} svc.cluster.local cluster.local", done.stdout)
        self.assertIn(web, done.stdout)

    def test_pods_have_names_under_their_services(self):
        self.own_service("family", {"family": "yes"}, clusterIP="None", publishNotReadyAddresses=True)
        self.apply(pod("child", "sleep", "600", labels={"family": "yes"}, spec={"hostname": "eldest", "subdomain": "family"},
                       container={"readinessProbe": {"exec": {"command": ["false"]}}}))
        self.addCleanup(self.try_kubectl, "delete", "pod", "child", "--grace-period=0", "--force")
        name = "eldest.family.default.svc.cluster.local"
        eventually(lambda: len(self.short(name)) == 1, what="its name")
        self.assertEqual(self.short(name), [self.get("pod", "child")["status"]["podIP"]])
        self.assertEqual(self.short("-x", self.short(name)[0]), [name + "."])
        self.assertIn(name, self.inside("child", "cat /etc/hosts").stdout)

    # --- harm ---

    def test_nobody_takes_what_is_anothers(self):
        refused = self.try_kubectl("apply", "-f", "-", given={
            "apiVersion": "v1", "kind": "Service", "metadata": {"name": "thief"},
            "spec": {"type": "NodePort", "selector": {"one": "b"}, "ports": [{"port": 80, "nodePort": 30080}]}})
        self.assertIn("already allocated", refused.stderr)
        self.own_service("thief", {"one": "b"}, ports=[{"port": 53, "protocol": "UDP"}, {"name": "t", "port": 443, "targetPort": 8080}],
                         externalIPs=[DNS, "10.96.0.1", self.get("pod", "web-a")["status"]["podIP"]])
        self.own_service("kube-dns", {"one": "b"}, ports=[{"port": 53, "protocol": "UDP", "targetPort": 8080}])
        eventually(lambda: self.short("thief.default.svc.cluster.local"), what="the service is known")
        self.assertEqual(self.short("web.default.svc.cluster.local"), [self.address("web")])
        rules = self.on_node("n1", "nft", "list", "ruleset").stdout
        self.assertNotIn("elements", re.search(r"map external \{[^}]*\}", rules).group(0))
        self.assertEqual(len(re.findall(rf"{re.escape(DNS)} \. udp \. 53 : goto", rules)), 1)
        self.assertEqual(len(re.findall(r"10\.96\.0\.1 \. tcp \. 443 : goto", rules)), 1)

    def test_ten_thousand_ends(self):
        self.own_service("crowd", {})
        real = self.get("pod", "web-a")["status"]["podIP"]
        ends = [{"addresses": [f"10.200.{i // 250}.{i % 250 + 1}"], "conditions": {"ready": False}} for i in range(9999)]
        ends.append({"addresses": [real]})
        slices = [{"apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice", "addressType": "IPv4", "endpoints": ends[n * 1000:n * 1000 + 1000],
                   "metadata": {"name": f"crowd-{n}", "labels": {"kubernetes.io/service-name": "crowd"}},
                   "ports": [{"name": "", "port": 8080, "protocol": "TCP"}]} for n in range(10)]
        self.addCleanup(self.try_kubectl, "delete", "endpointslices", "-l", "kubernetes.io/service-name=crowd")
        self.apply({"apiVersion": "v1", "kind": "List", "items": slices})
        eventually(lambda: self.inside("client-a", "curl -sm 2 http://crowd").stdout.strip() == "web-a", what="the one that is ready answers")
        for one in slices:
            for end in one["endpoints"]:
                end["conditions"] = {"ready": True}
        self.apply({"apiVersion": "v1", "kind": "List", "items": slices})
        eventually(lambda: "mod 10000 map" in self.on_node("n1", "nft", "list", "ruleset").stdout, what="all are led to")
        self.assertEqual(self.short("web.default.svc.cluster.local"), [self.address("web")])

    def test_kubectl_reaches_and_exposes(self):
        exposed = self.try_kubectl("expose", "pod", "web-a", "--name", "exposed", "--port", "80", "--target-port", "8080")
        self.assertEqual(exposed.returncode, 0, exposed.stderr)
        self.addCleanup(self.try_kubectl, "delete", "service", "exposed")
        eventually(lambda: self.inside("client-a", "curl -sm 2 http://exposed").returncode == 0, what="it is led to")
        forward = subprocess.Popen([kubectl_path(), "--kubeconfig", self.config, "port-forward", "service/web", ":80"], stdout=subprocess.PIPE,
                                   text=True)
        self.addCleanup(forward.wait)
        self.addCleanup(forward.terminate)
        self.addCleanup(forward.stdout.close)
        port = re.search(r":(\d+) ->", forward.stdout.readline()).group(1)
        self.assertTrue(subprocess.run(["curl", "-sm", "10", f"http://127.0.0.1:{port}"], capture_output=True, text=True).stdout.startswith("web-"))
        self.own_service("balanced", type="LoadBalancer")
        eventually(lambda: "NotProgrammed" in self.try_kubectl("get", "events").stdout, what="it is said what nobody does")
        self.assertEqual(self.get("service", "balanced")["status"], {"loadBalancer": {}})

    def test_floods_and_noise_leave_names_answered(self):
        noise = ("import os,socket\ns=socket.socket(socket.AF_INET,socket.SOCK_DGRAM)\n"
                 f"q=b'\\0\\1\\1\\0\\0\\1\\0\\0\\0\\0\\0\\0\\7nowhere\\4test\\0\\0\\1\\0\\1'\n"
                 f"[s.sendto(os.urandom(i%300) if i%2 else q,('{DNS}',53)) for i in range(20000)]\n"
                 "t=[socket.create_connection(('10.96.0.10',53)) for i in range(200)]\n[c.send(b'\\xff\\xff') for c in t if 1]")
        self.on_node("n1", "python3", "-c", noise)
        eventually(lambda: self.short("web.default.svc.cluster.local") == [self.address("web")], what="names are answered")

    def test_what_serves_comes_back_when_it_is_killed(self):
        old = self.serving("n1")
        os.kill(old, 9)
        self.assertEqual(self.served("http://" + self.address("web")), {"web-a", "web-b"})  # the rules stand
        eventually(lambda: self.serving("n1") not in (None, old), what="it runs again")
        eventually(lambda: self.short("web.default.svc.cluster.local"), what="names are answered again")
        self.on_node("n1", "nft", "flush", "ruleset")
        os.kill(self.serving("n1"), 15)
        eventually(lambda: self.inside("client-a", "curl -sSm 2 http://web").returncode == 0, what="the rules are made again")

    def serving(self, node):
        inside = os.readlink(f"/proc/{self.c.node(node)['agent_pid']}/ns/net")
        for name in os.listdir("/proc"):
            try:
                if name.isdigit() and os.readlink(f"/proc/{name}/ns/net") == inside and open(f"/proc/{name}/comm").read().strip() == "lockstep-svc":
                    return int(name)
            except OSError:
                pass
        return None


if __name__ == "__main__":
    unittest.main()
