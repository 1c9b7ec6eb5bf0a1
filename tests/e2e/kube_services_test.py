"""Services on two nodes: from pods, from nodes, from outside, by address and by node port."""
import base64
import os
import re
import subprocess
import time
import unittest

from cluster import eventually
from kube_cluster import kubectl_path
from services_cluster import ServicesCluster, missing


ECHO = """
import socket, sys
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
s.bind((sys.argv[1], int(sys.argv[2])))
print("ready", flush=True)
while True:
    data, who = s.recvfrom(2000)
    s.sendto(sys.argv[3].encode(), who)
"""


@unittest.skipIf(missing(), f"these are not here: {missing()}")
class KubeServices(ServicesCluster):
    def test_a_service_leads_to_all_its_pods_from_everywhere(self):
        both = {"web-a", "web-b"}
        for client in ("client-a", "client-b"):
            self.assertEqual(self.served("http://web", client), both)
        self.assertEqual(self.served(f"http://{self.address('web')}:80"), both)
        for node in ("n1", "n2"):
            said = self.on_node(node, "sh", "-c", f"for i in $(seq 16); do curl -sm 5 http://{self.address('web')}; done").stdout
            self.assertEqual(set(said.split()), both)
        address = self.get("pod", "web-b")["status"]["podIP"]  # the machine of the cluster reaches pods, too
        self.assertEqual(subprocess.run(["curl", "-sm", "5", f"http://{address}:8080"], capture_output=True, text=True).stdout.strip(), "web-b")
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

    def test_a_balancer_learns_where_something_is(self):
        self.own_service("health", {"one": "a"}, type="LoadBalancer", externalTrafficPolicy="Local")
        port = self.get("service", "health")["spec"]["healthCheckNodePort"]
        ask = lambda node: self.on_node(node, "curl", "-sm", "5", "-o", "/dev/null", "-w", "%{http_code}",
                                        f"http://{self.node_address(node)}:{port}/healthz").stdout
        eventually(lambda: (ask("n1"), ask("n2")) == ("200", "503"), what="the node that has it says so")
        changed = self.try_kubectl("patch", "service", "health", "-p", '{"spec":{"externalTrafficPolicy":"Cluster"}}')
        self.assertEqual(changed.returncode, 0, changed.stderr)
        self.assertNotIn("healthCheckNodePort", self.get("service", "health")["spec"])

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
        with open(ca, "wb") as f, open(self.config) as config:
            f.write(base64.b64decode(re.search(r"certificate-authority-data: (\S+)", config.read()).group(1)))
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
            self.addCleanup(servers[-1].stdout.close)
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


if __name__ == "__main__":
    unittest.main()
