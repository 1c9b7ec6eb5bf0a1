#!/usr/bin/env python3
"""Ours and the real Kubernetes control plane, measured in the same run on this machine, as a table with ratios.

usage: kubernetes.py [--nodes N] [--pods P] [--only ours|theirs] [--run]   (default: 1,000 nodes, 10,000 pods, both)

The peer's programs and `kubebench`, the load for both, come from the folder of peers (PEERS, default ../shared/peers/kubernetes beside
the repository; its build.sh makes them, BIN says where they lie). Nodes are made by hand there and are bench-many-nodes here: they are
told of their pods and say nothing. With --run pods are said to run, on both sides (`kubebench kubelet` there); no container does.
CPU is that of all the server's processes, kubelets not counted; everything over HTTPS on loopback.
"""
import argparse
import json
import os
import signal
import ssl
import subprocess
import sys
import tempfile
import time
import urllib.request

TOP = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
sys.path.insert(0, os.path.join(TOP, "tests", "e2e"))
import cluster as here  # noqa: E402
from cluster import eventually  # noqa: E402

PEERS = os.environ.get("PEERS", os.path.join(os.path.dirname(TOP), "shared", "peers", "kubernetes"))
BIN = os.environ.get("BIN", os.path.join(PEERS, "bin"))
KUBEBENCH = os.path.join(BIN, "kubebench")
TICK = os.sysconf("SC_CLK_TCK")
UNBOUNDED_S = 50  # for the load that the peer was never seen to finish


def progress(text):
    print(f"[{time.strftime('%T')}] {text}", file=sys.stderr, flush=True)


def cpu_seconds(pid):
    with open(f"/proc/{pid}/stat") as f:
        fields = f.read().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / TICK


def memory_mib(pid, what="VmRSS"):
    with open(f"/proc/{pid}/status") as f:
        return next(int(line.split()[1]) / 1024 for line in f if line.startswith(what))


class Server:
    """Something with an API of Kubernetes: server, token, and the processes that are it."""

    def cpu(self):
        return sum(cpu_seconds(pid) for pid in self.pids())

    def memory(self, what="VmRSS"):
        return sum(memory_mib(pid, what) for pid in self.pids())

    def bench(self, command, *options, timeout_s=900):
        argv = [KUBEBENCH, command, "-server", self.server, "-token", self.token, "-timeout", f"{timeout_s}s", *map(str, options)]
        done = subprocess.run(argv, capture_output=True, text=True, timeout=timeout_s + 60)
        if done.returncode != 0:
            raise RuntimeError(f"{self.name}: kubebench {command}: {done.stderr[-500:]}")
        return [json.loads(line) for line in done.stdout.splitlines()]

    def is_ready(self):
        ask = urllib.request.Request(self.server + "/readyz", headers={"Authorization": "Bearer " + self.token} if self.token else {})
        try:
            return urllib.request.urlopen(ask, context=ssl._create_unverified_context(), timeout=2).status == 200
        except OSError:
            return False


class Lockstep(Server):
    name = "Lockstep"

    def up(self, nodes, run):
        self.cluster = here.Cluster(nodes=0)
        start = time.monotonic()
        self.cluster.up()
        config = os.path.join(self.cluster.home, "kubeconfig")
        self.cluster.ok("lockstep", "kubeconfig", config)
        with open(config) as f:
            self.server = next(line.split()[-1].strip('"') for line in f if "server:" in line)
        self.token = ""
        while not self.is_ready():
            time.sleep(0.01)
        self.ready_s = time.monotonic() - start
        self.token = self.make_token()
        self.nodes = subprocess.Popen([os.path.join(here.BIN, "bench-many-nodes"), self.join(nodes), self.server.rsplit(":", 1)[1], str(nodes)] +
                                      ([] if run else ["silent"]), stdout=subprocess.PIPE, text=True)
        self.nodes.stdout.readline()
        for node in self.cluster.status()["nodes"]:
            if not node["name"].startswith("b"):  # this machine
                self.cluster.ok("scontrol", "update", "nodename=" + node["name"], "state=drain", "reason=bench")

    # A folder with a certificate for each node, all of one key.
    def join(self, nodes):
        folder = os.path.join(self.cluster.home, "nodes")
        os.mkdir(folder)
        at = lambda name: os.path.join(folder, name)
        subprocess.run(["openssl", "req", "-new", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-keyout", at("node.key"),
                        "-out", at("node.csr"), "-subj", "/CN=node"], check=True, capture_output=True)
        with open(at("node.csr")) as f:
            request = f.read()
        for i in range(nodes):
            name = f"b{i:05}"
            token = self.cluster.api("POST", "/v1/tokens", {"role": "compute", "node": name})["token"]
            answer = self.cluster.api("POST", "/v1/join", {"token": token, "node": name, "csr": request})
            with open(at(name + ".pem"), "w") as f:
                f.write(answer["certificate"])
            with open(at("ca.pem"), "w") as f:
                f.write(answer["ca"])
        return folder

    # Of an account that may do everything.
    def make_token(self):
        accounts = "/api/v1/namespaces/kube-system/serviceaccounts"
        self.as_admin("POST", accounts, {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "bench"}})
        self.as_admin("POST", "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings", {
            "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding", "metadata": {"name": "bench"},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"},
            "subjects": [{"kind": "ServiceAccount", "name": "bench", "namespace": "kube-system"}]})
        return self.as_admin("POST", accounts + "/bench/token", {
            "apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {"expirationSeconds": 36000}})["status"]["token"]

    def as_admin(self, method, path, body):
        def once():
            try:
                return self.cluster.api(method, path, body)
            except AssertionError:  # the first namespaces are still being made
                return None
        return eventually(once, what=path)

    def pids(self):
        return [self.cluster.controller_pid()]

    def down(self):
        self.nodes.send_signal(signal.SIGTERM)
        self.nodes.wait()
        self.cluster.down()


class Kubernetes(Server):
    name = "Kubernetes"
    token = "reference-admin-token"

    def up(self, nodes, run):
        self.dir = tempfile.mkdtemp(prefix="kubernetes-bench-")
        self.port = int(os.environ.get("BASE_PORT", "16440"))
        self.server = f"https://127.0.0.1:{self.port}"
        start = time.monotonic()
        starting = subprocess.Popen(["bash", os.path.join(PEERS, "run_reference.sh"), "up", self.dir, "fast", "fakekubelet" if run else "nokubelet"],
                                    env={**os.environ, "BIN": BIN, "NODES": str(nodes)}, stdout=subprocess.DEVNULL)
        while not self.is_ready():
            if starting.poll() not in (None, 0):
                raise RuntimeError("the peer did not start")
            time.sleep(0.05)
        self.ready_s = time.monotonic() - start
        if starting.wait() != 0:
            raise RuntimeError("the peer did not start")
        if not run:
            self.bench("nodes", "-count", nodes)

    def pids(self):
        return [int(open(os.path.join(self.dir, name)).read()) for name in os.listdir(self.dir)
                if name.endswith(".pid") and "kubelet" not in name]

    def down(self):
        subprocess.run(["bash", os.path.join(PEERS, "run_reference.sh"), "down", self.dir], env={**os.environ, "BIN": BIN})


def measure(server, nodes, pods, run):
    """Figures by name, in the order of the table."""
    out = {}

    def note(name, value):
        out[name] = value
        progress(f"{server.name}: {name}: {value if isinstance(value, str) else f'{value:,.3g}'}")
    server.up(nodes, run)
    note("ready after the start [s]", server.ready_s)
    note("memory, no pods [MiB]", server.memory())
    before = server.cpu()
    bulk = server.bench("pods", "-count", pods, "-conns", 64)[0]
    note("CPU per pod created and bound [ms]", (server.cpu() - before) * 1000 / pods)
    note("pods created and bound [1/s]", bulk["bound_per_s"])
    note("create, 64 clients: p50 [ms]", bulk["create_ms"]["p50"])
    note("create, 64 clients: p99 [ms]", bulk["create_ms"]["p99"])
    note(f"memory, {pods:,} pods on {nodes:,} nodes [MiB]", server.memory())
    serial = server.bench("serial", "-count", 200)[0]
    for which in ("p50", "p99"):
        note(f"one at a time, create: {which} [ms]", serial["create_ms"][which])
        note(f"one at a time, create to bound: {which} [ms]", serial["bound_ms"][which])
    whole, consistent, page = server.bench("list", "-count", 10)
    note("list of all, consistent: p50 [ms]", consistent["ms"]["p50"])
    note("its bytes [MB]", consistent["bytes"] / 1e6)
    note("a page of 500: p50 [ms]", page["ms"]["p50"])
    for watchers, rate in ((100, 20), (1000, 5)):
        fan = server.bench("fanout", "-count", rate * 20, "-watchers", watchers, "-rate", rate)[0]
        note(f"{watchers:,} watchers × {rate} pods/s: p50 [ms]", fan["delay_ms"]["p50"])
        note(f"{watchers:,} watchers × {rate} pods/s: p99 [ms]", fan["delay_ms"]["p99"])
        note(f"{watchers:,} watchers × {rate} pods/s: events missing", float(fan["missing"]))
    start = time.monotonic()
    try:
        flood = server.bench("fanout", "-count", 5000, "-watchers", 100, timeout_s=UNBOUNDED_S)[0]
        note("100 watchers, 5,000 pods as fast as it goes [s]", time.monotonic() - start)
        note("the same: events missing", float(flood["missing"]))
    except RuntimeError:
        note("100 watchers, 5,000 pods as fast as it goes [s]", f"> {UNBOUNDED_S}")
    note("the most memory it ever took [MiB]", server.memory("VmHWM"))
    return out


def show(value):
    if value is None:
        return "-"
    return value if isinstance(value, str) else f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"


def main():
    parser = argparse.ArgumentParser(prog="./dev bench kubernetes", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nodes", type=int, default=1000)
    parser.add_argument("--pods", type=int, default=10000)
    parser.add_argument("--only", choices=("ours", "theirs"))
    parser.add_argument("--run", action="store_true")
    asked = parser.parse_args()
    if not os.access(KUBEBENCH, os.X_OK):
        sys.exit(f"kubernetes.py: {KUBEBENCH} is not there: {PEERS}/build.sh makes it, BIN says where it lies")
    with_peer = asked.only != "ours" and os.access(os.path.join(BIN, "kube-apiserver"), os.X_OK)
    if not with_peer:
        progress("the real one is not measured: only our figures follow")
    results = {}
    for kind in (Lockstep,) * (asked.only != "theirs") + (Kubernetes,) * with_peer:
        server = kind()
        try:
            results[server.name] = measure(server, asked.nodes, asked.pods, asked.run)
        finally:
            server.down()
    ours, theirs = results.get("Lockstep", {}), results.get("Kubernetes", {})
    print(f"\n{'':62} {'Lockstep':>14} {'Kubernetes':>14} {'ratio':>8}")
    for name in ours or theirs:
        mine, other = ours.get(name), theirs.get(name)
        numbers = [v for v in (mine, other) if isinstance(v, float) and v > 0]
        ratio = "" if len(numbers) < 2 or "bytes" in name else f"{mine / other if '1/s' in name else other / mine:.1f}x"
        print(f"{name:62} {show(mine):>14} {show(other):>14} {ratio:>8}")


if __name__ == "__main__":
    main()
