#!/usr/bin/env python3
"""What one tenant's bodies cost everybody else: a tenant sends one evil body after the other over three connections, without a pause, while a bystander
asks for lists and sends an honest body.

usage: bodies.py [--seconds N] [ROW…]      (default: 4 s for each row, all rows; --list names them)

Printed for each row: the bystander's median and longest wait in ms, before and meanwhile; the longest turn of the controller's I/O thread in ms of
its CPU time (of a controller that was started for the row; 4 is promised of a release build); the evil bodies answered a second, by status. Of a
build without optimisation only ratios count. LOCKSTEP_BIN says where the programs lie; without it a release build is made.
"""
import collections
import http.client
import json
import multiprocessing
import os
import re
import socket
import ssl
import statistics
import subprocess
import sys
import time
import urllib.parse

TOP = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
sys.path.insert(0, os.path.join(TOP, "tests", "e2e"))
import cluster as here  # noqa: E402
from cluster import eventually  # noqa: E402

CONNECTIONS = 3
EVIL_UID, QUIET_UID = 65533, 65534
LOCAL = "local"  # a row of the cluster's own API, asked by a user of this machine
JSON, YAML, APPLY = "application/json", "application/yaml", "application/apply-patch+yaml"
MERGE, OPERATIONS = "application/merge-patch+json", "application/json-patch+json"

keys = lambda n, value="v": {f"k{i:05}": value for i in range(n)}  # noqa: E731


def config_map(name, n):
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": keys(n)}


def yaml_map(name, n):
    return f"apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: {name}}}\ndata:\n" + "".join(f"  k{i:05}: v\n" for i in range(n))


def ports(n):
    return {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "wide"}, "spec": {"ports": [{"name": f"p{i}", "port": i + 1} for i in range(n)]}}


def rules(n):
    return {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role", "metadata": {"name": "long"},
            "rules": [{"apiGroups": [""], "resources": ["pods"], "resourceNames": [f"p{i}"], "verbs": ["get"]} for i in range(n)]}


REVIEW = {"apiVersion": "authorization.k8s.io/v1", "kind": "SelfSubjectAccessReview", "spec": {"resourceAttributes": keys(60_000)}}
BINDING = {"apiVersion": "v1", "kind": "Binding", "metadata": {"name": "none", "annotations": keys(60_000)}, "target": {"name": "n1"}}
TOKEN = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {"audiences": [f"a{i}" for i in range(90_000)]}}
MIB = 1 << 20
SPACE = "/api/v1/namespaces/evil"
RBAC = "/apis/rbac.authorization.k8s.io/v1/namespaces/evil"


def long_text(bytes_max):
    """Keys that nothing has, up to so many bytes."""
    return json.dumps(keys(bytes_max // 17))


# name, method, path, type or LOCAL, body (called once)
ROWS = [
    ("a Service of 30,000 ports", "POST", f"{SPACE}/services?dryRun=All", JSON, lambda: ports(30_000)),
    ("a Service of 900 ports", "POST", f"{SPACE}/services?dryRun=All", JSON, lambda: ports(900)),
    ("90,000 keys", "POST", f"{SPACE}/configmaps?dryRun=All", JSON, lambda: config_map("keys", 90_000)),
    ("90,000 keys, a policy looks at each", "POST", f"{SPACE}/configmaps?dryRun=All", JSON,
     lambda: {**config_map("judged", 90_000), "metadata": {"name": "judged", "labels": {"judged": "yes"}}}),
    ("30,000 keys, each wrong", "POST", f"{SPACE}/configmaps?dryRun=All", JSON,
     lambda: {**config_map("wrong", 0), "data": {f"k {i}": "v" for i in range(30_000)}}),
    ("40,000 keys, stored", "PUT", f"{SPACE}/configmaps/put", JSON, lambda: config_map("put", 40_000)),
    ("YAML of 14,000 fields", "POST", f"{SPACE}/configmaps?dryRun=All", YAML, lambda: yaml_map("yaml", 14_000)),
    ("an apply of 14,000 fields", "PATCH", f"{SPACE}/configmaps/new?fieldManager=evil&dryRun=All", APPLY, lambda: yaml_map("new", 14_000)),
    ("the same on what is there", "PATCH", f"{SPACE}/configmaps/there?fieldManager=evil&dryRun=All&force=true", APPLY,
     lambda: yaml_map("there", 14_000)),
    ("an array of 300,000 objects", "POST", f"{SPACE}/configmaps?dryRun=All", JSON, lambda: '{"items":[' + ",".join(["{}"] * 300_000) + "]}"),
    ("a merge patch of 90,000 keys", "PATCH", f"{SPACE}/configmaps/there?dryRun=All", MERGE, lambda: {"data": keys(90_000)}),
    ("a patch of 10,000 operations", "PATCH", f"{SPACE}/configmaps/there?dryRun=All", OPERATIONS,
     lambda: [{"op": "add", "path": f"/data/n{i}", "value": "v"} for i in range(10_000)]),
    ("a Role of 9,000 rules", "POST", f"{RBAC}/roles?dryRun=All", JSON, lambda: rules(9_000)),
    ("an access review", "POST", "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", JSON, lambda: REVIEW),
    ("a binding", "POST", f"{SPACE}/pods/none/binding", JSON, lambda: BINDING),
    ("a token's request", "POST", f"{SPACE}/serviceaccounts/evil/token", JSON, lambda: TOKEN),
    ("update, 1 MiB", "POST", "/v1/jobs/JOB/update", LOCAL, lambda: long_text(MIB)),
    ("cancel, 1 MiB", "POST", "/v1/jobs/cancel", LOCAL, lambda: long_text(MIB)),
    ("what if, 1 MiB", "POST", "/v1/whatif", LOCAL, lambda: long_text(MIB)),
    ("a topology of 16 MiB (refused)", "PUT", "/v1/topology", LOCAL, lambda: long_text(16 * MIB)),
    ("changes of 4 MiB (refused)", "POST", "/v1/changes", LOCAL, lambda: long_text(4 * MIB)),
]

# The bystander's own: each is timed.
HONEST = json.dumps(config_map("honest", 600))


class Local(http.client.HTTPConnection):
    def __init__(self, path):
        super().__init__("localhost", timeout=120)
        self.path = path

    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(self.timeout)
        self.sock.connect(self.path)


def attack(connect, uid, request, stop, counts):
    """Sends the request again and again; what came of it goes to `counts`."""
    if uid:
        os.setgid(uid)
        os.setuid(uid)
    method, path, headers, body = request
    came, connection = collections.Counter(), connect()
    while not stop.is_set():
        try:
            connection.request(method, path, body, headers)
            reply = connection.getresponse()
            reply.read()
            came[str(reply.status)] += 1
        except (OSError, http.client.HTTPException):
            came["cut off"] += 1
            connection.close()
            connection = connect()
    counts.put(came)


class Bench:
    def __init__(self, seconds):
        self.seconds = seconds
        self.c = here.Cluster(nodes=1, gpus=None, cpus=2)

    def up(self):
        self.c.up()
        config = os.path.join(self.c.home, "kubeconfig")
        self.c.ok("lockstep", "kubeconfig", config)
        with open(config) as f:
            self.server = urllib.parse.urlparse(next(line.split()[-1].strip('"') for line in f if "server:" in line))
        self.tokens = {name: self.account(name) for name in ("evil", "quiet")}
        self.admin("POST", f"{SPACE}/configmaps", config_map("there", 14_000))
        self.admin("POST", f"{SPACE}/configmaps", config_map("put", 1))
        group = "/apis/admissionregistration.k8s.io/v1"
        self.admin("POST", f"{group}/validatingadmissionpolicies", {
            "apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingAdmissionPolicy", "metadata": {"name": "each"},
            "spec": {"matchConstraints": {"objectSelector": {"matchLabels": {"judged": "yes"}}, "resourceRules": [
                {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["configmaps"]}]},
                "validations": [{"expression": "object.data.all(k, k.startsWith('k'))"}]}})
        self.admin("POST", f"{group}/validatingadmissionpolicybindings", {
            "apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingAdmissionPolicyBinding", "metadata": {"name": "each"},
            "spec": {"policyName": "each", "validationActions": ["Deny"]}})
        self.job = self.c.run("sbatch", "--parsable", "--hold", "-o", "/dev/null", "--wrap", "true", user=EVIL_UID, cwd="/").stdout.strip()

    def admin(self, method, path, body):
        def once():
            try:
                return self.c.api(method, path, body)
            except AssertionError as error:  # the first namespaces are still being made
                if " 409 " in str(error):
                    return True
                last.append(str(error))
                return None
        last = []
        try:
            return eventually(once, what=path)
        except AssertionError as error:
            raise AssertionError(f"{error}: {last[-1:]}") from None

    def account(self, name):
        """A namespace and an account of it that may do there what `admin` may; its token."""
        self.admin("POST", "/api/v1/namespaces", {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
        accounts = f"/api/v1/namespaces/{name}/serviceaccounts"
        self.admin("POST", accounts, {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": name}})
        self.admin("POST", f"/apis/rbac.authorization.k8s.io/v1/namespaces/{name}/rolebindings", {
            "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "RoleBinding", "metadata": {"name": name},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "admin"},
            "subjects": [{"kind": "ServiceAccount", "name": name, "namespace": name}]})
        return self.admin("POST", f"{accounts}/{name}/token", {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}})["status"]["token"]

    def https(self):
        return http.client.HTTPSConnection(self.server.hostname, self.server.port, timeout=120, context=ssl._create_unverified_context())

    def local(self):
        return Local(self.c.env["LOCKSTEP_SOCKET"])

    def bystand(self, seconds):
        """What squeue, a list and an honest body took, in ms, asked in turn for so long."""
        took = {"squeue": [], "pods": [], "body": []}
        headers = {"Authorization": "Bearer " + self.tokens["quiet"], "Content-Type": JSON}
        connection, end = self.https(), time.monotonic() + seconds

        def ask(method, path, body=None):
            while True:
                connection.request(method, path, body, headers)
                reply = connection.getresponse()
                text = reply.read()
                if reply.status != 429 or time.monotonic() > end:
                    break
            if reply.status not in (200, 201, 429):
                raise RuntimeError(f"the bystander's {method} {path}: {reply.status} {text[:300]}")
        each = {"squeue": lambda: self.c.ok("squeue", user=QUIET_UID, cwd="/"), "pods": lambda: ask("GET", "/api/v1/namespaces/quiet/pods"),
                "body": lambda: ask("POST", "/api/v1/namespaces/quiet/configmaps?dryRun=All", HONEST)}
        while time.monotonic() < end or not took["body"]:
            for name, once in each.items():
                began = time.monotonic()
                once()
                took[name].append((time.monotonic() - began) * 1000)
        return took

    def fresh_controller(self):
        self.c.kill_controller(hold=False)
        eventually(self.c.answers, what="a controller")
        self.bystand(0.5)

    def slow(self):
        text = self.c.ok("curl", "-s", "--unix-socket", self.c.env["LOCKSTEP_SOCKET"], "http://lockstep/metrics")
        longest = int(re.search(r'lockstep_longest_turn_us\{loop="io"\} (\d+)', text)[1])
        named = {m[1]: int(m[2]) for m in re.finditer(r'lockstep_slow_turn_longest_us\{loop="io",what="([^"]*)"\} (\d+)', text)}
        return longest, max(named, key=named.get, default="-")

    def row(self, name, method, path, kind, make):
        body = make()
        body = body if isinstance(body, str) else json.dumps(body)
        self.fresh_controller()
        before = self.bystand(self.seconds / 2)
        longest_before, _ = self.slow()
        local = kind == LOCAL
        headers = {} if local else {"Authorization": "Bearer " + self.tokens["evil"], "Content-Type": kind}
        request = (method, path.replace("JOB", self.job), headers, body.encode())
        stop, counts = multiprocessing.Event(), multiprocessing.Queue()
        attackers = [multiprocessing.Process(target=attack, args=(self.local if local else self.https, EVIL_UID if local else 0, request, stop, counts))
                     for _ in range(CONNECTIONS)]
        began = time.monotonic()
        for one in attackers:
            one.start()
        try:
            during = self.bystand(self.seconds)
        finally:
            stop.set()
        came = collections.Counter()
        for _ in attackers:
            came += counts.get(timeout=300)
        took = time.monotonic() - began
        for one in attackers:
            one.join()
        longest, what = self.slow()
        said = ", ".join(f"{status}: {n / took:.1f}" for status, n in sorted(came.items()))
        cells = [f"{statistics.median(of[key]):.0f} / {max(of[key]):.0f}" for key in ("squeue", "pods", "body") for of in (before, during)]
        print("| " + " | ".join([name, *cells, f"{longest_before / 1000:.1f}", f"{longest / 1000:.1f} ({what})", said]) + " |", flush=True)


def main():
    words = sys.argv[1:]
    seconds = 4.0
    if "--seconds" in words:
        at = words.index("--seconds")
        seconds = float(words[at + 1])
        del words[at:at + 2]
    if "--list" in words:
        print("\n".join(row[0] for row in ROWS))
        return
    chosen = [row for row in ROWS if not words or row[0] in words]
    if os.geteuid() != 0:
        sys.exit("bodies.py: root is needed, for a second user")
    bench = Bench(seconds)
    try:
        bench.up()
        load = subprocess.run(["uptime"], capture_output=True, text=True).stdout.split("load average:")[-1].strip()
        print(f"preset {os.path.basename(os.path.dirname(here.BIN))}, {os.cpu_count()} cores, load {load}\n")
        heads = [f"{what}, {when}" for what in ("squeue", "pods", "its body") for when in ("before", "meanwhile")]
        print("| " + " | ".join(["one tenant sends", *heads, "turn before", "longest turn (of)", "answered a second"]) + " |")
        print("| --- " * (len(heads) + 4) + "|", flush=True)
        for row in chosen:
            bench.row(*row)
    finally:
        bench.c.down()


if __name__ == "__main__":
    main()
