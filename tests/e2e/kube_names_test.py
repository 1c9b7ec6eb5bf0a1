"""Names of services and pods, asked on nodes and in pods; and what means harm to names and services."""
import json
import os
import re
import subprocess
import unittest

from cluster import eventually
from kube_cluster import pod
from services_cluster import DNS, ServicesCluster, missing


RESOLVER = """
import socket, struct, threading
ANSWER = b"\\xc0\\x0c\\0\\1\\0\\1\\0\\0\\0\\5\\0\\4" + bytes([192, 0, 2, 53])
def answer(q, id=None):
    end = q.index(b"\\0", 12) + 5
    return (id or q[:2]) + b"\\x81\\x80\\0\\1\\0\\1\\0\\0\\0\\0" + q[12:end] + ANSWER
def tcp():
    while True:
        c, _ = t.accept()
        q = c.recv(2000)[2:]
        a = answer(q)
        c.send(struct.pack(">H", len(a)) + a)
        c.close()
u = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
u.bind(("127.0.0.53", 53))
t = socket.create_server(("127.0.0.53", 53))
threading.Thread(target=tcp, daemon=True).start()
print("ready", flush=True)
while True:
    q, who = u.recvfrom(2000)
    forged = answer(q)[:-4] + bytes([6, 6, 6, 6])
    wrong = struct.pack(">H", (struct.unpack(">H", q[:2])[0] + 1) % 65536)
    u.sendto(wrong + forged[2:], who)
    u.sendto(forged[:13] + bytes([forged[13] ^ 1]) + forged[14:], who)
    socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(forged, who)
    u.sendto(answer(q), who)
"""


@unittest.skipIf(missing(), f"these are not here: {missing()}")
class KubeNames(ServicesCluster):
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

    def test_other_names_are_asked_for_elsewhere(self):
        """The node's resolver is one of ours, which lets somebody else guess before it answers."""
        resolver = subprocess.Popen([*self.in_node("n1"), "python3", "-c", RESOLVER], stdout=subprocess.PIPE, text=True)
        self.addCleanup(resolver.wait)
        self.addCleanup(resolver.kill)
        self.addCleanup(resolver.stdout.close)
        self.assertEqual(resolver.stdout.readline(), "ready\n")
        path = os.path.join(self.c.work, "resolv.conf")
        with open(path, "w") as f:
            f.write("nameserver 127.0.0.53\n")
        known = os.path.realpath("/etc/resolv.conf")
        subprocess.run([*self.in_node("n1"), "mount", "--bind", path, known], check=True)
        self.addCleanup(subprocess.run, [*self.in_node("n1"), "umount", known])
        self.own_service("abroad", {}, type="ExternalName", externalName="example.org", ports=[])
        eventually(lambda: self.short("example.org") == ["192.0.2.53"], what="the resolver's answer")
        self.assertEqual(self.short("+tcp", "example.org"), ["192.0.2.53"])
        self.assertEqual(self.short("abroad.default.svc.cluster.local"), ["192.0.2.53", "example.org."])
        self.assertEqual(self.short("CNAME", "abroad.default.svc.cluster.local"), ["example.org."])
        done = self.inside("client-a", "curl -sSm 5 http://nobody.example.org")
        self.assertNotIn("resolve host", done.stderr)  # with the search domains of pods, too
        resolver.kill()
        self.assertEqual(self.status_of("example.org"), "SERVFAIL")

    def in_node(self, node):
        return ["nsenter", "-t", str(self.c.node(node)["agent_pid"]), "-n", "-m"]

    # --- harm ---

    def test_nobody_takes_what_is_anothers(self):
        refused = self.try_kubectl("apply", "-f", "-", given={
            "apiVersion": "v1", "kind": "Service", "metadata": {"name": "thief"},
            "spec": {"type": "NodePort", "selector": {"one": "b"}, "ports": [{"port": 80, "nodePort": 30080}]}})
        self.assertIn("already allocated", refused.stderr)
        thief = {"selector": {"one": "b"}, "ports": [{"name": "u", "port": 53, "protocol": "UDP"}, {"name": "t", "port": 443, "targetPort": 8080}]}
        host = self.node_address("n1").rsplit(".", 2)[0] + ".0.1"
        for address, owner in ((DNS, "of which Services have"), ("10.96.0.1", "of which Services have"), (host, "the controller's machine"),
                               (self.get("pod", "web-a")["status"]["podIP"], "of which pods on node n1"), (self.node_address("n2"), "the address of node n2")):
            refused = self.try_kubectl("apply", "-f", "-", given={"apiVersion": "v1", "kind": "Service", "metadata": {"name": "thief"},
                                                                  "spec": {**thief, "externalIPs": [address]}})
            self.assertIn(f"{address} is ", refused.stderr)
            self.assertIn(owner, refused.stderr)
            self.assertIn("no Service may claim it", refused.stderr)
        self.own_service("thief", **thief)
        balancer = self.try_kubectl("patch", "service", "thief", "--subresource=status", "-p",
                                    json.dumps({"spec": {"type": "LoadBalancer"}, "status": {"loadBalancer": {"ingress": [{"ip": self.node_address("n2")}]}}}))
        self.assertNotEqual(balancer.returncode, 0)
        self.own_service("kube-dns", {"one": "b"}, ports=[{"port": 53, "protocol": "UDP", "targetPort": 8080}])
        eventually(lambda: self.short("thief.default.svc.cluster.local"), what="the service is known")
        self.assertEqual(self.short("web.default.svc.cluster.local"), [self.address("web")])
        rules = self.on_node("n1", "nft", "list", "ruleset").stdout
        self.assertNotIn("elements", re.search(r"map external \{[^}]*\}", rules).group(0))
        self.assertNotIn(f"{DNS} . ", rules)  # the node answers there itself
        self.assertEqual(len(re.findall(r"10\.96\.0\.1 \. tcp \. 443 : 10\.", rules)), 1)

    def test_addresses_from_outside_are_those_that_are_listed(self):
        address = "203.0.113.9"
        self.own_service("outside", {"one": "b"}, externalIPs=[address])
        tenant = {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "tenants"},
                  "spec": {"selector": {"one": "b"}, "ports": [{"port": 80}], "externalIPs": [address]}}
        self.try_kubectl("create", "serviceaccount", "tenant")
        self.try_kubectl("create", "rolebinding", "tenant", "--clusterrole=edit", "--serviceaccount=default:tenant")
        as_tenant = lambda *words, **more: self.try_kubectl(*words, "--as=system:serviceaccount:default:tenant", **more)  # noqa: E731
        refused = as_tenant("create", "-f", "-", given=tenant)
        self.assertIn("kube-system/external-addresses", refused.stderr)
        ask = lambda: self.on_node("n1", "curl", "-sm", "2", f"http://{address}").stdout.strip()  # noqa: E731
        eventually(lambda: "ExternalAddressNotAllowed" in self.try_kubectl("get", "events").stdout, what="it is told")
        self.assertEqual(ask(), "")
        self.apply({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "external-addresses", "namespace": "kube-system"},
                    "data": {"ranges": "203.0.113.0/28"}})
        self.addCleanup(self.try_kubectl, "delete", "configmap", "-n", "kube-system", "external-addresses")
        self.on_node("n1", "ip", "route", "add", "203.0.113.0/28", "dev", "eth0")
        eventually(lambda: self.on_node("n1", "curl", "-sm", "2", f"http://{address}:80").stdout.strip() == "web-b", what="it leads there")
        self.assertEqual(as_tenant("create", "-f", "-", given=tenant).returncode, 0)
        self.addCleanup(self.try_kubectl, "delete", "service", "tenants")
        for kind, name in (("endpoints", "web"), ("endpointslices", "web-x")):
            self.assertIn("forbidden", as_tenant("delete", kind, name).stderr)
        for where in ("127.0.0.1", "169.254.1.1"):
            refused = self.try_kubectl("create", "-f", "-", given={
                "apiVersion": "v1", "kind": "Endpoints", "metadata": {"name": "tenants"}, "subsets": [{"addresses": [{"ip": where}], "ports": [{"port": 80}]}]})
            self.assertIn("no Service may lead there", refused.stderr)

    def test_a_port_at_which_a_job_listens_stays_the_jobs(self):
        listen = "import socket,sys\ns=socket.socket();s.setsockopt(1,2,1);s.bind(('',30099));s.listen();print('up',flush=True)\nwhile 1:\n c,_=s.accept();c.recv(999);c.send(b'HTTP/1.0 200 OK\\r\\n\\r\\njob');c.close()"
        job = subprocess.Popen(["nsenter", "-t", str(self.c.node("n1")["agent_pid"]), "-n", "python3", "-c", listen], stdout=subprocess.PIPE, text=True)
        self.addCleanup(job.wait)
        self.addCleanup(job.kill)
        self.addCleanup(job.stdout.close)
        self.assertEqual(job.stdout.readline().strip(), "up")
        self.own_service("greedy", {"one": "b"}, type="NodePort", ports=[{"port": 80, "targetPort": 8080, "nodePort": 30099}])
        ask = lambda node, at: self.on_node(at, "curl", "-sm", "3", f"http://{self.node_address(node)}:30099").stdout.strip()  # noqa: E731
        eventually(lambda: ask("n2", "n1") == "web-b", what="n2 leads it")
        for _ in range(4):
            self.assertEqual((ask("n1", "n2"), ask("n1", "n1")), ("job", "job"))
        taken = self.on_node("n2", "python3", "-c", "import socket;s=socket.socket();s.setsockopt(1,2,1);s.bind(('',30099));s.listen()")
        self.assertIn("Address already in use", taken.stderr)

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


if __name__ == "__main__":
    unittest.main()
