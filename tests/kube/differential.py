#!/usr/bin/env python3
"""Writes and patches of every type, sent to the real API server and to ours: the same codes, causes, objects and managed fields.

  ./dev peers kubernetes --differential [A-B]   seeds (default 1-20); a seed is a sequence of requests, and is played the same way each time

The real programs are taken from $LOCKSTEP_KUBERNETES_PEER or build/kubernetes. Exit codes: 0 no difference, 1 some, 2 wrong usage, 77 the programs are not there.
"""
import contextlib
import copy
import glob
import json
import os
import random
import sys

import yaml

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(os.path.dirname(HERE), "e2e"))
sys.path.insert(0, HERE)
import answers  # noqa: E402
import real_server  # noqa: E402
from cluster import Cluster, eventually  # noqa: E402

SKIPPED = 77
STEPS = 30
MANAGERS = ("ann", "bob", "kubectl")

WIDGETS = {"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": {"name": "widgets.differ.example.com"}, "spec": {
    "group": "differ.example.com", "scope": "Namespaced", "names": {"plural": "widgets", "singular": "widget", "kind": "Widget"},
    "versions": [{"name": "v1", "served": True, "storage": True,
                  "subresources": {"status": {}, "scale": {"specReplicasPath": ".spec.replicas", "statusReplicasPath": ".status.replicas"}},
                  "schema": {"openAPIV3Schema": {"type": "object", "properties": {
                      "spec": {"type": "object", "properties": {
                          "replicas": {"type": "integer", "minimum": 0, "maximum": 9}, "colour": {"type": "string", "default": "red", "enum": ["red", "green", "blue"]},
                          "parts": {"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"], "items": {
                              "type": "object", "required": ["name"], "properties": {
                                  "name": {"type": "string"}, "size": {"type": "integer"}, "note": {"type": "string", "default": "none"}}}},
                          "tags": {"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "string"}},
                          "limits": {"type": "object", "additionalProperties": {"x-kubernetes-int-or-string": True}},
                          "whole": {"type": "object", "x-kubernetes-map-type": "atomic", "properties": {"a": {"type": "string"}, "b": {"type": "string"}}}}},
                      "status": {"type": "object", "properties": {"replicas": {"type": "integer"}, "phase": {"type": "string"}}}}}}}]}}


# --- objects: some of what each kind may say, chosen anew each time ---

class Maker:
    def __init__(self, rng):
        self.rng = rng

    def some(self, **parts):
        """Each part with a chance of one half."""
        return {key: value() if callable(value) else value for key, value in parts.items() if self.rng.random() < 0.5}

    def pick(self, *values):
        return self.rng.choice(values)

    def list_of(self, make, most=3):
        return [make() for _ in range(self.rng.randint(0, most))]

    def distinct(self, make, key, most=3):
        return list({one[key]: one for one in self.list_of(make, most)}.values())

    def labels(self):
        return self.some(a=self.pick("1", "2"), b=self.pick("1", "2"), **{"example.com/c": "x"})

    def metadata(self):
        return self.some(labels=self.labels, annotations=self.labels)

    def container(self):
        return {"name": self.pick("c", "d"), "image": self.pick("i:1", "i:2"), **self.some(
            command=lambda: self.pick(["a"], ["a", "b"], []), imagePullPolicy=lambda: self.pick("Always", "Never"),
            env=lambda: self.distinct(lambda: {"name": self.pick("A", "B", "C"), "value": self.pick("1", "2", "")}, "name"),
            ports=lambda: self.distinct(lambda: {"containerPort": self.pick(80, 81, 82), **self.some(name=self.pick("p", "q", "r"), protocol="TCP")}, "containerPort"),
            resources=lambda: self.some(limits=lambda: self.some(cpu=self.pick("1", "500m", "0.5"), memory=self.pick("1Gi", "1024Mi")), requests=lambda: self.some(cpu="100m")),
            volumeMounts=lambda: [{"name": "v", "mountPath": self.pick("/v", "/w")}],
            readinessProbe=lambda: {"httpGet": {"path": "/", "port": self.pick(80, "p")}, **self.some(periodSeconds=self.pick(5, 10))},
            securityContext=lambda: self.some(runAsUser=self.pick(0, 1000), privileged=self.pick(True, False), capabilities={"add": ["NET_ADMIN"]}))}

    def pod_spec(self):
        return {"containers": self.distinct(self.container, "name", 2) or [self.container()], "volumes": [{"name": "v", "emptyDir": {}}], **self.some(
            nodeSelector=self.labels, tolerations=lambda: self.list_of(lambda: {"key": self.pick("k", "l"), "operator": "Exists"}),
            terminationGracePeriodSeconds=lambda: self.pick(0, 30, 5), hostNetwork=lambda: self.pick(True, False), dnsPolicy="Default",
            securityContext=lambda: self.some(fsGroup=5, runAsNonRoot=True), imagePullSecrets=lambda: self.distinct(lambda: {"name": self.pick("s", "t")}, "name"),
            hostAliases=lambda: self.distinct(lambda: {"ip": self.pick("1.1.1.1", "1.1.1.2"), "hostnames": ["h"]}, "ip"),
            topologySpreadConstraints=lambda: self.distinct(lambda: {"maxSkew": 1, "topologyKey": self.pick("x", "y"), "whenUnsatisfiable": "ScheduleAnyway",
                                                                     "labelSelector": {}}, "topologyKey", 2))}

    def deployment(self):
        return {"replicas": 0, "selector": {"matchLabels": {"a": "1"}},
                "template": {"metadata": {"labels": {"a": "1", **self.some(z="1")}}, "spec": self.pod_spec()}, **self.some(
            strategy=lambda: self.pick({"type": "Recreate"}, {"type": "RollingUpdate"}, {"rollingUpdate": {"maxSurge": self.pick(1, "25%")}}),
            minReadySeconds=lambda: self.pick(0, 5), paused=lambda: self.pick(True, False), revisionHistoryLimit=lambda: self.pick(0, 3))}

    def service(self):
        return {"ports": self.distinct(lambda: {"port": self.pick(80, 81, 82), "name": self.pick("a", "b", "c"), **self.some(
            protocol=self.pick("TCP", "UDP"), targetPort=self.pick(8080, "http"))}, "name") or [{"port": 80}], **self.some(
            selector=self.labels, sessionAffinity=lambda: self.pick("None", "ClientIP"), publishNotReadyAddresses=lambda: self.pick(True, False),
            internalTrafficPolicy=lambda: self.pick("Cluster", "Local"))}

    def autoscaler(self):
        return {"maxReplicas": self.pick(3, 5), "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": self.pick("x", "y")}, **self.some(
            minReplicas=lambda: self.pick(1, 2, 4), metrics=lambda: self.list_of(lambda: {"type": "Resource", "resource": {
                "name": self.pick("cpu", "memory"), "target": {"type": "Utilization", "averageUtilization": self.pick(50, 80)}}}, 2),
            behavior=lambda: {"scaleDown": self.some(stabilizationWindowSeconds=self.pick(0, 60), selectPolicy=self.pick("Max", "Disabled"))})}

    def network_policy(self):
        return {"podSelector": self.some(matchLabels=self.labels), **self.some(
            policyTypes=lambda: self.pick(["Ingress"], ["Egress"], ["Ingress", "Egress"]),
            ingress=lambda: self.list_of(lambda: self.some(
                ports=lambda: [{"port": self.pick(80, "http")}], **{"from": [{"ipBlock": {"cidr": "10.0.0.0/8"}}]}), 2))}

    def ingress(self):
        backend = lambda: {"service": {"name": self.pick("x", "y"), "port": self.pick({"number": 80}, {"name": "http"})}}  # noqa: E731
        return {"defaultBackend": backend(), **self.some(
            ingressClassName=lambda: self.pick("nginx", "other"), tls=lambda: self.list_of(lambda: {"hosts": ["a.example"], "secretName": self.pick("s", "t")}, 2),
            rules=lambda: self.list_of(lambda: {"host": self.pick("a.example", "*.b.example"), "http": {"paths": [{"path": "/", "pathType": "Prefix", "backend": backend()}]}}, 2))}

    def widget(self):
        return self.some(replicas=lambda: self.pick(1, 2, 10), colour=lambda: self.pick("red", "green", "mauve"), unknown=lambda: self.pick(1, {"x": 1}),
                         parts=lambda: self.distinct(lambda: {"name": self.pick("p", "q", "r"), **self.some(size=self.pick(1, 2), note="n")}, "name"),
                         tags=lambda: sorted({self.pick("t", "u", "v") for _ in range(2)}), limits=lambda: self.some(cpu=self.pick(1, "1"), memory="1Gi"),
                         whole=lambda: self.some(a="1", b=self.pick("1", "2")))

    def config_map(self):
        return {"": self.some(data=lambda: self.some(a=self.pick("1", "2"), b=self.pick("1", "2"), c="3"), binaryData=lambda: self.some(x="YQ==", y="Yg=="))}


class Sort:
    def __init__(self, api, plural, kind, make, subresources=()):
        self.api, self.plural, self.kind, self.make, self.subresources = api, plural, kind, make, subresources

    def path(self, ns):
        return ("/api/" if "/" not in self.api else "/apis/") + f"{self.api}/namespaces/{ns}/{self.plural}"

    def object(self, maker, name):
        made = getattr(maker, self.make)()
        body = made[""] if "" in made else {"spec": made}
        return {"apiVersion": self.api, "kind": self.kind, "metadata": {"name": name, **maker.metadata()}, **body}


SORTS = [Sort("v1", "configmaps", "ConfigMap", "config_map"), Sort("apps/v1", "deployments", "Deployment", "deployment", ("status",)),
         Sort("v1", "services", "Service", "service", ("status",)), Sort("autoscaling/v2", "horizontalpodautoscalers", "HorizontalPodAutoscaler", "autoscaler"),
         Sort("networking.k8s.io/v1", "networkpolicies", "NetworkPolicy", "network_policy"), Sort("networking.k8s.io/v1", "ingresses", "Ingress", "ingress"),
         Sort("differ.example.com/v1", "widgets", "Widget", "widget", ("status", "scale"))]


def part_of(rng, value):
    """A document that says less: members and elements left out at random."""
    if isinstance(value, dict):
        return {key: part_of(rng, one) for key, one in value.items() if rng.random() < 0.7}
    if isinstance(value, list):
        return [part_of(rng, one) if rng.random() < 0.3 else one for one in value if rng.random() < 0.8]
    return value


def holes(rng, value):
    """The same with nulls, as merge patches remove things."""
    if isinstance(value, dict):
        return {key: None if rng.random() < 0.15 and key != "annotations" else holes(rng, one) for key, one in value.items()}
    return value


def paths_in(value, at=""):
    yield at
    if isinstance(value, dict):
        for key, one in value.items():
            yield from paths_in(one, at + "/" + key.replace("~", "~0").replace("/", "~1"))
    if isinstance(value, list):
        for i, one in enumerate(value):
            yield from paths_in(one, f"{at}/{i}")


def json_patch(rng, current, wanted):
    known = [path for path in paths_in(current) if path.count("/") > 1 and "clusterIP" not in path and not path.endswith("odePort")]
    new = {path: value_at(wanted, path) for path in paths_in(wanted) if path.count("/") > 1}
    if not known or not new:
        return [{"op": "add", "path": "/metadata/labels", "value": {"a": "9"}}]
    out = []
    for _ in range(rng.randint(1, 3)):
        if out and out[-1]["op"] in ("remove", "move"):  # what follows would be about other paths
            break
        what = rng.choice(["add", "add", "remove", "replace", "replace", "test", "copy", "move"])
        if what in ("add", "replace"):
            path = rng.choice(list(new))
            out.append({"op": what, "path": path, "value": new[path]})
        elif what == "test":
            path = rng.choice(known)
            out.append({"op": what, "path": path, "value": value_at(current, path)})
        elif what == "remove":
            out.append({"op": what, "path": rng.choice(known)})
        else:
            out.append({"op": what, "from": rng.choice(known), "path": rng.choice(list(new))})
    return [one for one in out if not one["path"].startswith("/metadata/name")] or [{"op": "test", "path": "/kind", "value": wanted["kind"]}]


def value_at(value, path):
    for piece in path.split("/")[1:]:
        piece = piece.replace("~1", "/").replace("~0", "~")
        value = value[int(piece)] if isinstance(value, list) else value[piece]
    return value


def directives(rng, patch):
    """Strategic merge knows more words: elements deleted, lists replaced, keys kept."""
    def walk(value):
        if isinstance(value, dict):
            if rng.random() < 0.04:
                value["$patch"] = rng.choice(["replace", "delete"])
            for one in list(value.values()):
                walk(one)
        if isinstance(value, list):
            for one in value:
                walk(one)
                if isinstance(one, dict) and rng.random() < 0.1:
                    one["$patch"] = "delete"
    walk(patch.get("spec"))
    return patch


# --- one sequence ---

class Play:
    def __init__(self, ours, real, seed, prefix="seed"):
        self.ours, self.real, self.seed = ours, real, seed
        self.rng = random.Random(seed)
        self.ns = f"{prefix}-{seed}"
        self.maker = Maker(self.rng)
        self.step = 0

    def both(self, *args, **words):
        """The answers of both; None where they differ, which has been printed."""
        ours, real = self.ours.ask(*args, **words), self.real.ask(*args, **words)
        (a, said), (b, told) = answers.outcome(ours), answers.outcome(real)
        lines = answers.differences(a, b)
        if lines:
            print(f"seed {self.seed}, step {self.step}: {args[0]} {args[1]} {words.get('kind', '')}\n  sent: {json.dumps(args[2] if len(args) > 2 else None)[:1500]}")
            print("".join(f"  {line}\n" for line in lines[:8]) + f"  ours: {said}\n  real: {told}", flush=True)
            return None
        return ours, real

    def live(self, path):
        code, body, _ = self.real.ask("GET", path)
        return body if code == 200 else None

    def act(self, sort, name):
        rng, collection = self.rng, sort.path(self.ns)
        path = f"{collection}/{name}"
        wanted, live = sort.object(self.maker, name), self.live(path)
        dry = rng.choice(["", "", "", "&dryRun=All"])
        options = f"?fieldManager={rng.choice(MANAGERS)}&fieldValidation={rng.choice(['Warn', 'Strict', 'Ignore'])}{dry}"
        if live is None and rng.random() < 0.6:
            return self.both("POST", collection + options, wanted)
        what = rng.choice(["put" if live else "apply", "json", "merge", "strategic", "apply", "apply", "apply", "delete" if rng.random() < 0.3 else "merge", "sub"])
        if what == "put":
            return self.put(path + options, wanted)
        if what == "json":
            shown = {key: one for key, one in (live or wanted).items() if key in ("spec", "data", "binaryData")}
            return self.both("PATCH", path + options, json_patch(rng, shown, wanted), kind=answers.PATCHES["json"])
        if what == "merge":
            return self.both("PATCH", path + options, holes(rng, part_of(rng, {k: v for k, v in wanted.items() if k not in ("apiVersion", "kind")})), kind=answers.PATCHES["merge"])
        if what == "strategic":
            patch = directives(rng, holes(rng, part_of(rng, {k: v for k, v in copy.deepcopy(wanted).items() if k not in ("apiVersion", "kind")})))
            return self.both("PATCH", path + options, patch, kind=answers.PATCHES["strategic"])
        if what == "delete":
            return self.both("DELETE", path + "?propagationPolicy=Background" + dry)
        if what == "sub" and sort.subresources and live is not None:
            return self.subresource(sort, path, options, live)
        config = {**part_of(rng, {k: v for k, v in wanted.items() if k not in ("apiVersion", "kind", "metadata")}), "apiVersion": sort.api, "kind": sort.kind,
                  "metadata": {"name": name, **self.maker.metadata()}}
        if rng.random() < 0.6:
            config = wanted
        return self.both("PATCH", path + options + rng.choice(["", "&force=true"]), config, kind=answers.PATCHES["apply"])

    def put(self, path, wanted):
        """Each server is told the version it gave itself."""
        name = path.split("?")[0]
        bodies = []
        for server in (self.ours, self.real):
            body = copy.deepcopy(wanted)
            code, there, _ = server.ask("GET", name)
            if code == 200:
                body["metadata"]["resourceVersion"] = there["metadata"]["resourceVersion"]
            bodies.append(body)
        (a, _), (b, _) = answers.outcome(self.ours.ask("PUT", path, bodies[0])), answers.outcome(self.real.ask("PUT", path, bodies[1]))
        lines = answers.differences(a, b)
        if lines:
            print(f"seed {self.seed}, step {self.step}: PUT {path}\n  sent: {json.dumps(wanted)[:1500]}\n" + "".join(f"  {line}\n" for line in lines[:8]), flush=True)
            return None
        return True

    def subresource(self, sort, path, options, live):
        rng, which = self.rng, self.rng.choice(sort.subresources)
        if which == "scale" and "replicas" in live.get("spec", {}):  # who sets the first number, or the same again, is forgotten there
            patch = {"spec": {"replicas": rng.choice([one for one in (1, 2, 10, -1, "x") if one != live["spec"]["replicas"]])}}
            return self.both("PATCH", path + "/scale" + options, patch, kind=answers.PATCHES["merge"])
        patch = {"status": {"replicas": rng.choice([1, 2]), "phase": "x"}, "spec": {"replicas": 5}}
        if sort.kind == "Deployment":
            patch["metadata"] = {"labels": {"by": "status"}}
        if sort.kind == "Service":
            patch = {"status": {"loadBalancer": {"ingress": rng.choice([[], [{"ip": "1.2.3.4"}], [{"hostname": "a.example"}]])}}}
        if rng.random() < 0.5:
            return self.both("PATCH", path + "/status" + options, patch, kind=answers.PATCHES["merge"])
        return self.both("PATCH", path + "/status" + options + "&force=true", {**patch, "apiVersion": sort.api, "kind": sort.kind, "metadata": {"name": path.split("/")[-1]}},
                         kind=answers.PATCHES["apply"])

    def run(self, steps):
        for server in (self.ours, self.real):
            server.ask("POST", "/api/v1/namespaces", {"metadata": {"name": self.ns}})
        sorts = self.rng.sample(SORTS, 2)
        for self.step in range(steps):
            sort, name = self.rng.choice(sorts), self.rng.choice(["x", "y"])
            if self.act(sort, name) is None:
                return False
            path = f"{sort.path(self.ns)}/{name}"
            if self.both("GET", path) is None:
                return False
        return True


def prepare(server):
    server.ask("POST", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", WIDGETS)
    eventually(lambda: server.ask("GET", "/apis/differ.example.com/v1/namespaces/default/widgets")[0] == 200, what="the definition is served")


def compare(ours, real, seeds, steps=STEPS, prefix="seed"):
    """How many of the seeds differ. prefix: of the namespaces, which must be new."""
    for server in (ours, real):
        prepare(server)
    return sum(not Play(ours, real, seed, prefix).run(steps) for seed in seeds)


# --- manifests, and the tables that show them ---

# What controllers write into these shows in their tables; the real server has none here.
CONTROLLED = {"Deployment", "ReplicaSet", "ReplicationController", "StatefulSet", "DaemonSet", "Job", "Pod", "PersistentVolume", "PersistentVolumeClaim",
              "HorizontalPodAutoscaler", "Service", "Namespace", "APIService", "FlowSchema", "PodDisruptionBudget", "ServiceAccount", "ResourceQuota"}


def resources(server):
    """(apiVersion, kind) to the plural name, and whether it has namespaces."""
    out = {}
    paths = ["/api/v1"] + ["/apis/" + version["groupVersion"] for group in server.ask("GET", "/apis")[1]["groups"] for version in group["versions"]]
    for path in paths:
        listed = server.ask("GET", path)[1]
        for one in listed.get("resources", []) if isinstance(listed, dict) else []:
            if "/" not in one["name"]:
                out[listed["groupVersion"], one["kind"]] = (one["name"], one["namespaced"])
    return out


def documents():
    for path in sorted(glob.glob(os.path.join(HERE, "manifests", "*.yaml"))):
        with open(path) as f:
            yield from yaml.safe_load_all(f)


def compare_manifests(ours, real):
    """Creates all of tests/kube/manifests on both. Lines that say what differs: in answers, and in the tables of `kubectl get -o wide`."""
    out, paths = [], []
    real.ask("POST", "/api/v1/namespaces/default/serviceaccounts", {"metadata": {"name": "default"}})
    documents_left = list(documents())
    for kind in ("CustomResourceDefinition", "Namespace", None):
        for one in [one for one in documents_left if kind in (None, one["kind"])]:
            documents_left.remove(one)
            plural, namespaced = known_by(real, ours, one)
            head = ("/api/" if "/" not in one["apiVersion"] else "/apis/") + one["apiVersion"]
            path = head + (f"/namespaces/{one['metadata'].get('namespace', 'default')}" if namespaced else "") + "/" + plural
            (a, said), (b, told) = answers.outcome(ours.ask("POST", path, one)), answers.outcome(real.ask("POST", path, one))
            name = f"{one['kind']} {one['metadata']['name']}"
            if b["code"] != 201:
                out.append(f"{name}: the real server says {told}")
            elif a["code"] != 201:
                out.append(f"{name}: {said}")
            else:
                paths.append((one["kind"], f"{path}/{one['metadata']['name']}", name))
    for kind, path, name in paths:
        shown = [server.ask("GET", path + "?includeObject=None", accept="application/json;as=Table;v=v1;g=meta.k8s.io")[1] for server in (ours, real)]
        columns = [[(one["name"], one["type"], one["priority"]) for one in table["columnDefinitions"]] for table in shown]
        cells = [[cell for cell, column in zip(table["rows"][0]["cells"], table["columnDefinitions"]) if column["name"] not in ("Age", "Created At")] for table in shown]
        out += [f"columns of {name}{line}" for line in answers.differences(columns[0], columns[1])]
        if kind not in CONTROLLED:
            out += [f"cells of {name}{line}" for line in answers.differences(cells[0], cells[1])]
    return out


def known_by(real, ours, document):
    key = document["apiVersion"], document["kind"]
    if key not in KNOWN:
        for server in (ours, real):
            eventually(lambda server=server: key in resources(server), what=f"{key} is served")
        KNOWN.update(resources(real))
    return KNOWN[key]


KNOWN = {}


def main(argv):
    low, _, high = (argv[0] if argv else "1-20").partition("-")
    if not low.isdigit() or (high and not high.isdigit()):
        print(__doc__, file=sys.stderr)
        return 2
    if not real_server.programs():
        print("the real API server's programs are not there (shared/peers/kubernetes builds them)", file=sys.stderr)
        return SKIPPED
    seeds = range(int(low), int(high or low) + 1)
    with contextlib.ExitStack() as stack:
        real = stack.enter_context(real_server.RealServer())
        cluster = stack.enter_context(Cluster(nodes=0))
        config = os.path.join(cluster.home, "kubeconfig")
        cluster.ok("lockstep", "kubeconfig", config)
        ours, theirs = answers.Server("ours", config), answers.Server("real", real.kubeconfig())
        bad = compare(ours, theirs, seeds)
        lines = compare_manifests(ours, theirs)
    print("".join(line + "\n" for line in lines) + f"{len(seeds)} sequences, {bad} of them differ; of the manifests {len(lines)} lines do")
    return 1 if bad or lines else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
