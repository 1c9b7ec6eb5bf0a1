"""Kubernetes' API on the controller's port, spoken as a client library does: by the certificate of a kubeconfig, over TLS."""
import base64
import http.client
import json
import os
import socket
import ssl
import tempfile
import unittest

import yaml
from cluster import Cluster, eventually

ANN, BOB = 1001, 1002


class Client:
    """One caller. Every answer is (status, body)."""

    def __init__(self, config, token=None):
        server = config["clusters"][0]["cluster"]
        self.host, self.port = server["server"].removeprefix("https://").rsplit(":", 1)
        self.token = token
        self.tls = ssl.create_default_context(cadata=base64.b64decode(server["certificate-authority-data"]).decode())
        self.tls.check_hostname = False
        if token is None:
            user = config["users"][0]["user"]
            with tempfile.NamedTemporaryFile() as pem:
                pem.write(base64.b64decode(user["client-certificate-data"]) + base64.b64decode(user["client-key-data"]))
                pem.flush()
                self.tls.load_cert_chain(pem.name)

    def open(self, method, path, body=None, kind="application/json", accept="application/json", headers=None):
        connection = http.client.HTTPSConnection(self.host, int(self.port), context=self.tls, timeout=30)
        said = {"Accept": accept, "Content-Type": kind, "User-Agent": "kube_test/1", **(headers or {})}
        if self.token:
            said["Authorization"] = "Bearer " + self.token
        connection.request(method, path, body if body is None or isinstance(body, (str, bytes)) else json.dumps(body), said)
        return connection.getresponse()

    def ask(self, *args, **kwargs):
        reply = self.open(*args, **kwargs)
        text = reply.read()
        try:
            return reply.status, json.loads(text)
        except ValueError:
            return reply.status, text.decode()

    def must(self, *args, **kwargs):
        status, body = self.ask(*args, **kwargs)
        assert status < 300, (status, body)
        return body


def upgraded(client, path, headers, cleanup):
    """A connection of its own: what is read of it behind the answer's head, and that head."""
    made = client.tls.wrap_socket(socket.create_connection((client.host, int(client.port)), timeout=20))
    cleanup(made.close)
    made.sendall((f"GET {path} HTTP/1.1\r\n" + "".join(f"{name}: {value}\r\n" for name, value in headers.items()) + "\r\n").encode())
    both = made.makefile("rwb")
    cleanup(both.close)
    head = [both.readline()]
    while head[-1].strip():
        head.append(both.readline())
    return both, b"".join(head)


def frame(reader):
    """A message of a WebSocket's server: its first byte, and what it says."""
    code, size = reader.read(2)
    length = {126: 2, 127: 8}.get(size)
    return code, reader.read(int.from_bytes(reader.read(length), "big") if length else size)


CORE = "/api/v1/namespaces"
RBAC = "/apis/rbac.authorization.k8s.io/v1"


def root_of(cluster):
    """The administrator of a cluster that has just started, once its first namespace is ready."""
    root = Client(yaml.safe_load(cluster.ok("lockstep", "kubeconfig")))
    eventually(lambda: root.ask("GET", CORE + "/default/serviceaccounts/default")[0] == 200, what="the first namespace is ready")
    return root


def config_map(name, **data):
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": data}


@unittest.skipIf(os.geteuid() != 0, "virtual nodes need root")
class Kube(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.c = Cluster(nodes=2, gpus="")
        cls.c.up()
        cls.root = root_of(cls.c)

    @classmethod
    def tearDownClass(cls):
        cls.c.down()

    def client(self, uid):
        return Client(yaml.safe_load(self.c.ok("lockstep", "kubeconfig", user=uid)))

    def namespace(self, name):
        self.root.must("POST", CORE, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
        self.addCleanup(self.root.ask, "DELETE", f"{CORE}/{name}")
        return f"{CORE}/{name}"

    def test_the_file_is_for_its_owner_alone(self):
        path = os.path.join(self.c.work, "kubeconfig")
        self.c.ok("lockstep", "kubeconfig", path)
        self.assertEqual(os.stat(path).st_mode & 0o777, 0o600)
        with open(path) as f:
            self.assertEqual(yaml.safe_load(f)["kind"], "Config")
        elsewhere = os.path.join(self.c.work, "new", "folder", "kubeconfig")
        self.c.ok("lockstep", "kubeconfig", "--dir", self.c.dir, elsewhere)
        self.assertEqual(os.stat(os.path.dirname(elsewhere)).st_mode & 0o777, 0o700)
        missing = self.c.run("lockstep", "kubeconfig", path + "/x")
        self.assertEqual(missing.returncode, 1)
        self.assertIn(path, missing.stderr)

    def test_objects_are_made_changed_and_deleted(self):
        maps = self.namespace("life") + "/configmaps"
        made = self.root.must("POST", maps, config_map("a", x="1"))
        self.assertEqual(made["data"], {"x": "1"})
        self.assertEqual(made["metadata"]["managedFields"][0]["manager"], "kube_test")
        self.assertEqual(self.root.ask("POST", maps, config_map("a"))[1]["reason"], "AlreadyExists")
        made["data"]["x"] = "2"
        changed = self.root.must("PUT", maps + "/a", made)
        self.assertNotEqual(changed["metadata"]["resourceVersion"], made["metadata"]["resourceVersion"])
        status, refused = self.root.ask("PUT", maps + "/a", made)
        self.assertEqual((status, refused["reason"]), (409, "Conflict"))
        self.assertEqual(self.root.must("PUT", maps + "/a", changed)["metadata"]["resourceVersion"], changed["metadata"]["resourceVersion"],
                         "nothing was changed")
        for kind, patch in (("application/merge-patch+json", {"data": {"y": "3"}}),
                            ("application/strategic-merge-patch+json", {"metadata": {"labels": {"l": "v"}}}),
                            ("application/json-patch+json", [{"op": "remove", "path": "/data/x"}])):
            self.root.must("PATCH", maps + "/a", patch, kind=kind)
        now = self.root.must("GET", maps + "/a")
        self.assertEqual((now["data"], now["metadata"]["labels"]), ({"y": "3"}, {"l": "v"}))
        dry = self.root.must("POST", maps + "?dryRun=All", config_map("b"))
        self.assertEqual(dry["metadata"]["name"], "b")
        self.assertEqual(self.root.ask("GET", maps + "/b")[0], 404)
        self.assertEqual(self.root.must("DELETE", maps + "/a")["status"], "Success")
        self.assertEqual(self.root.ask("GET", maps + "/a")[1]["message"], 'configmaps "a" not found')

    def test_bad_objects_are_refused_with_reasons(self):
        maps = self.namespace("bad") + "/configmaps"
        for body, code, words in ((config_map("Bad_Name"), 422, "RFC 1123"), (config_map("a", **{"": "x"}), 422, "config key"),
                                  ({**config_map("a"), "kind": "Secret"}, 400, "belongs here"), ("{", 400, "JSON"), ("[]", 400, "object"),
                                  ('{"a":' * 5000, 400, ""), ({**config_map("a"), "data": {"x": 5}}, 400, "cannot unmarshal")):
            status, said = self.root.ask("POST", maps, body)
            self.assertEqual(status, code, said)
            self.assertIn(words, said["message"])
        status, said = self.root.ask("POST", maps + "?fieldValidation=Strict", {**config_map("a"), "nonsense": 1})
        self.assertEqual(status, 400)
        self.assertIn('strict decoding error: unknown field "nonsense"', said["message"])
        reply = self.root.open("POST", maps, {**config_map("warned"), "nonsense": 1})
        self.assertEqual(reply.status, 201)
        self.assertIn('unknown field', reply.getheader("Warning"))
        status, said = self.root.ask("POST", maps, config_map("big", x="y" * 2_000_000))
        self.assertIn(status, (413, 422), said)
        self.assertEqual(self.root.ask("POST", f"{CORE}/nowhere/configmaps", config_map("a"))[1]["message"], 'namespaces "nowhere" not found')
        self.assertEqual(self.root.ask("GET", "/api/v1/nonsense")[0], 404)
        self.assertEqual(self.root.ask("GET", maps + "?labelSelector=a%20b%20c")[0], 400)
        self.assertEqual(self.root.ask("GET", maps + "?fieldSelector=spec.x%3D1")[0], 400)

    def test_a_deletion_that_says_nothing_else_leaves_pods_of_jobs(self):
        ns = self.namespace("leaves")
        jobs = "/apis/batch/v1/namespaces/leaves/jobs"
        template = {"spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "127.0.0.1:9/none"}]}}
        pods = lambda: self.root.must("GET", ns + "/pods")["items"]
        eventually(lambda: self.root.ask("GET", ns + "/serviceaccounts/default")[0] == 200, what="the account is there")
        for query, left in (("?propagationPolicy=Background", 0), ("", 1)):
            self.root.must("POST", jobs, {"metadata": {"name": "a"}, "spec": {"template": template}})
            eventually(lambda: len(pods()) == 1, what="it has its pod")
            reply = self.root.open("DELETE", jobs + "/a" + query)
            reply.read()
            self.assertEqual("child pods are preserved" in (reply.getheader("Warning") or ""), left == 1)
            eventually(lambda: self.root.ask("GET", jobs + "/a")[0] == 404, what="it has gone")
            eventually(lambda: len(pods()) == left and not any("ownerReferences" in p["metadata"] for p in pods()), what="so have its pods, or not")

    def test_apply_knows_who_owns_what(self):
        maps = self.namespace("apply") + "/configmaps/a"
        apply = "application/apply-patch+yaml"
        self.root.must("PATCH", maps + "?fieldManager=one", yaml.safe_dump(config_map("a", x="1", y="1")), kind=apply)
        status, said = self.root.ask("PATCH", maps + "?fieldManager=two", yaml.safe_dump(config_map("a", x="2")), kind=apply)
        self.assertEqual(status, 409)
        self.assertIn('conflict with "one"', said["message"])
        self.root.must("PATCH", maps + "?fieldManager=two&force=true", yaml.safe_dump(config_map("a", x="2")), kind=apply)
        self.root.must("PATCH", maps + "?fieldManager=one", yaml.safe_dump(config_map("a")), kind=apply)
        self.assertEqual(self.root.must("GET", maps)["data"], {"x": "2"}, "y was one's alone, x is two's")
        flow = '{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a",}, "data": {"z": "3",},}'  # YAML, and no JSON
        self.root.must("PATCH", maps + "?fieldManager=three", flow, kind=apply)
        self.assertEqual(self.root.must("GET", maps)["data"], {"x": "2", "z": "3"})

    def test_lists_go_on_with_what_was_there(self):
        maps = self.namespace("pages") + "/configmaps"
        for i in range(7):
            self.root.must("POST", maps, config_map(f"m{i}"))
        first = self.root.must("GET", maps + "?limit=3")
        self.assertEqual(first["metadata"]["remainingItemCount"], 5)  # and kube-root-ca.crt
        self.root.must("DELETE", maps + "/m5")
        names, page = [i["metadata"]["name"] for i in first["items"]], first
        while page["metadata"].get("continue"):
            page = self.root.must("GET", maps + "?limit=3&continue=" + page["metadata"]["continue"])
            names += [i["metadata"]["name"] for i in page["items"]]
        self.assertEqual(names, ["kube-root-ca.crt"] + [f"m{i}" for i in range(7)])
        self.assertEqual(len(self.root.must("GET", maps)["items"]), 7)
        table = self.root.must("GET", maps, accept="application/json;as=Table;v=v1;g=meta.k8s.io")
        self.assertEqual([c["name"] for c in table["columnDefinitions"]], ["Name", "Data", "Age"])
        self.assertEqual(self.root.ask("GET", maps + "?continue=nonsense")[0], 400)

    def test_watches_tell_every_change_once(self):
        maps = self.namespace("watch") + "/configmaps"
        start = self.root.must("GET", maps)["metadata"]["resourceVersion"]
        stream = self.root.open("GET", f"{maps}?watch=true&resourceVersion={start}&labelSelector=on%3Dyes&timeoutSeconds=20")
        labelled = {**config_map("a"), "metadata": {"name": "a", "labels": {"on": "yes"}}}
        self.root.must("POST", maps, config_map("other"))
        self.root.must("POST", maps, labelled)
        self.root.must("PATCH", maps + "/a", {"data": {"x": "1"}}, kind="application/merge-patch+json")
        self.root.must("PATCH", maps + "/a", {"metadata": {"labels": {"on": "no"}}}, kind="application/merge-patch+json")
        self.root.must("PATCH", maps + "/a", {"metadata": {"labels": {"on": "yes"}}}, kind="application/merge-patch+json")
        self.root.must("DELETE", maps + "/a")
        events = [json.loads(stream.readline()) for _ in range(5)]
        self.assertEqual([e["type"] for e in events], ["ADDED", "MODIFIED", "DELETED", "ADDED", "DELETED"])
        versions = [int(e["object"]["metadata"]["resourceVersion"]) for e in events]
        self.assertEqual(versions, sorted(set(versions)))
        again = self.root.open("GET", f"{maps}?watch=true&resourceVersion={versions[0]}&labelSelector=on%3Dyes&timeoutSeconds=20")
        self.assertEqual([json.loads(again.readline())["type"] for _ in range(4)], ["MODIFIED", "DELETED", "ADDED", "DELETED"])
        first = self.root.open("GET", f"{maps}?watch=true&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true")
        told = [json.loads(first.readline()) for _ in range(3)]
        self.assertEqual([e["type"] for e in told], ["ADDED", "ADDED", "BOOKMARK"])
        self.assertEqual(told[2]["object"]["metadata"]["annotations"], {"k8s.io/initial-events-end": "true"})
        for version, code, reason in (("1", 410, "Expired"), (str(versions[-1] + 10**6), 504, "Timeout")):
            reply = self.root.open("GET", f"{maps}?watch=true&resourceVersion={version}")
            self.assertEqual(reply.status, 200, "clients read it as the watch's first event")
            event = json.loads(reply.readline())
            self.assertEqual((event["type"], event["object"]["kind"], event["object"]["code"], event["object"]["reason"]), ("ERROR", "Status", code, reason))
            self.assertEqual(reply.read(), b"", "and its last")

    def test_watches_over_web_sockets(self):
        maps = self.namespace("messages") + "/configmaps"
        self.root.must("POST", maps, config_map("a"))
        query = "?watch=true&fieldSelector=metadata.name%3Da"
        for protocol, accept in (("", "*/*"), ("browsers.name.some", "application/json"), ("", "application/vnd.kubernetes.protobuf")):
            with self.subTest(protocol=protocol, accept=accept):
                socket, head = self.web_socket(maps + query, protocol, accept)
                self.assertIn(b" 101 ", head)
                self.assertEqual(f"sec-websocket-protocol: {protocol}".encode() in head.lower(), bool(protocol), head)
                code, first = frame(socket)
                self.root.must("PATCH", maps + "/a", {"data": {"x": accept}}, kind="application/merge-patch+json")
                _, second = frame(socket)
                if "protobuf" in accept:
                    self.assertEqual(code, 0x82)
                    self.assertEqual((first[:7], second[:10]), (b"\n\x05ADDED", b"\n\x08MODIFIED"), "the bare message")
                else:
                    self.assertEqual(code, 0x81)
                    self.assertEqual([json.loads(one)["type"] for one in (first, second)], ["ADDED", "MODIFIED"])
                    self.assertEqual(json.loads(second)["object"]["data"], {"x": accept})
                socket.write(b"\x89\x82\0\0\0\0hi")
                socket.flush()
                self.assertEqual(frame(socket), (0x8a, b"hi"))
        socket, _ = self.web_socket(maps + "?watch=true&resourceVersion=1", "", "*/*")
        self.assertEqual(json.loads(frame(socket)[1])["object"]["code"], 410)
        self.assertEqual(frame(socket), (0x88, b"\x03\xe8"), "it ends as agreed")

    def web_socket(self, path, protocol, accept, **headers):
        said = {"Host": "x", "Connection": "Upgrade", "Upgrade": "websocket", "Sec-WebSocket-Version": "13", "Sec-WebSocket-Key": "MDEyMzQ1Njc4OWFiY2RlZg==",
                "Accept": accept, **({"Sec-WebSocket-Protocol": protocol} if protocol else {}), **headers}
        return upgraded(self.root, path, said, self.addCleanup)

    def test_paths_that_clients_begin_with(self):
        for path in ("/version/", "/api/", "/apis/", "/api/v1/", "/apis/apps/", "/apis/apps/v1/", "/openapi/v2/", "/openapi/v3/", "/healthz/", "/livez/ping",
                     "/livez/ping/", "/readyz/", "/.well-known/openid-configuration/", "/openid/v1/jwks/", "/api/v1/namespaces/default/configmaps/"):
            self.assertEqual(self.root.ask("GET", path), self.root.ask("GET", path.rstrip("/")), path)
        for path in ("/", "/index.html"):
            paths = self.root.must("GET", path)["paths"]
            self.assertLess({"/api", "/api/v1", "/apis", "/apis/apps", "/apis/apps/v1", "/healthz", "/livez/ping", "/openapi/v2", "/version"}, set(paths))
            self.assertEqual(paths, sorted(set(paths)))
        for path in paths:
            self.assertEqual(self.root.open("GET", path).status, 200, path)
        self.assertEqual(self.root.ask("GET", "/version/x")[0], 404)

    def test_users_have_what_roles_give_them(self):
        ns = self.namespace("rights")
        ann = self.client(ANN)
        name = ann.must("POST", "/apis/authentication.k8s.io/v1/selfsubjectreviews",
                        {"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"})["status"]["userInfo"]["username"]
        status, said = ann.ask("GET", ns + "/secrets")
        self.assertEqual((status, said["reason"]), (403, "Forbidden"))
        self.assertIn(f'User "{name}" cannot list resource "secrets" in API group "" in the namespace "rights"', said["message"])
        rules = [{"apiGroups": [""], "resources": ["secrets"], "verbs": ["get", "list"]},
                 {"apiGroups": ["rbac.authorization.k8s.io"], "resources": ["roles", "rolebindings"], "verbs": ["get", "list", "create", "update"]},
                 {"apiGroups": [""], "resources": ["configmaps"], "resourceNames": ["mine"], "verbs": ["list"]}]
        roles = f"{RBAC}/namespaces/rights"
        self.root.must("POST", roles + "/roles", {"metadata": {"name": "reader"}, "rules": rules})
        self.root.must("POST", roles + "/rolebindings", {
            "metadata": {"name": "ann"}, "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "reader"},
            "subjects": [{"kind": "User", "apiGroup": "rbac.authorization.k8s.io", "name": name}]})
        self.assertEqual(ann.ask("GET", ns + "/secrets")[0], 200)
        self.assertEqual(ann.ask("GET", f"{CORE}/default/secrets")[0], 403)
        # A list of one name is allowed where that name is.
        for fields, code in (("", 403), ("?fieldSelector=metadata.name%3Dmine", 200), ("?fieldSelector=metadata.name%3Dother", 403),
                             ("?fieldSelector=metadata.name!%3Dmine", 403), ("?fieldSelector=metadata.namespace%3Drights", 403)):
            self.assertEqual(ann.ask("GET", ns + "/configmaps" + fields)[0], code, fields)
        # Nobody gives away what he has not.
        status, said = ann.ask("POST", roles + "/roles", {"metadata": {"name": "all"}, "rules": [{"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]}]})
        self.assertEqual(status, 403)
        self.assertIn("attempting to grant RBAC permissions not currently held", said["message"])
        status, _ = ann.ask("POST", roles + "/rolebindings", {
            "metadata": {"name": "up"}, "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"},
            "subjects": [{"kind": "User", "apiGroup": "rbac.authorization.k8s.io", "name": name}]})
        self.assertEqual(status, 403)
        self.assertEqual(ann.ask("GET", f"{CORE}/default/secrets", headers={"Impersonate-User": "root", "Impersonate-Group": "system:masters"})[0], 403)
        as_ann = {"Impersonate-User": name, "Impersonate-Uid": "77", "Impersonate-Extra-Example.com%2Fproject": "a"}
        seen = self.root.must("POST", "/apis/authentication.k8s.io/v1/selfsubjectreviews",
                              {"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}, headers=as_ann)["status"]["userInfo"]
        self.assertEqual((seen["username"], seen["uid"], seen["extra"]), (name, "77", {"example.com/project": ["a"]}))
        # Who may act as a user may not say more of him than that.
        rule = lambda group, *resources: {"apiGroups": [group], "resources": resources, "verbs": ["impersonate"]}
        self.root.must("POST", RBAC + "/clusterroles", {"metadata": {"name": "actor"}, "rules": [rule("", "users")]})
        self.addCleanup(self.root.ask, "DELETE", RBAC + "/clusterroles/actor")
        self.root.must("POST", RBAC + "/clusterrolebindings", {
            "metadata": {"name": "actor"}, "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "actor"},
            "subjects": [{"kind": "User", "apiGroup": "rbac.authorization.k8s.io", "name": name}]})
        self.addCleanup(self.root.ask, "DELETE", RBAC + "/clusterrolebindings/actor")
        self.assertEqual(ann.ask("GET", f"{ns}/secrets", headers={"Impersonate-User": name})[0], 200)
        for more in ({"Impersonate-Uid": "77"}, {"Impersonate-Extra-Scopes": "a"}):
            self.assertEqual(ann.ask("GET", f"{ns}/secrets", headers={"Impersonate-User": name, **more})[0], 403, more)
            self.assertEqual(ann.ask("GET", f"{ns}/secrets", headers=more)[0], 500, "nobody is named")
        self.root.must("PUT", RBAC + "/clusterroles/actor", {"metadata": {"name": "actor"}, "rules": [
            rule("", "users"), rule("authentication.k8s.io", "uids", "userextras/scopes")]})
        for more, code in (({"Impersonate-Uid": "77"}, 200), ({"Impersonate-Extra-Scopes": "a"}, 200), ({"Impersonate-Extra-Other": "a"}, 403)):
            self.assertEqual(ann.ask("GET", f"{ns}/secrets", headers={"Impersonate-User": name, **more})[0], code, more)
        seen = self.root.must("GET", f"{ns}/secrets", headers={"Impersonate-User": name})
        self.assertEqual(seen["kind"], "SecretList")

    def test_tokens_of_service_accounts(self):
        ns = self.namespace("accounts")
        eventually(lambda: self.root.ask("GET", ns + "/serviceaccounts/default")[0] == 200, what="the account is there")
        made = self.root.must("POST", ns + "/serviceaccounts/default/token",
                              {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {"expirationSeconds": 600}})
        token = made["status"]["token"]
        config = yaml.safe_load(self.c.ok("lockstep", "kubeconfig"))
        robot = Client(config, token=token)
        status, said = robot.ask("GET", ns + "/pods")
        self.assertEqual(status, 403)
        self.assertIn('User "system:serviceaccount:accounts:default" cannot list', said["message"])
        review = self.root.must("POST", "/apis/authentication.k8s.io/v1/tokenreviews",
                                {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview", "spec": {"token": token}})
        self.assertTrue(review["status"]["authenticated"])
        bare = Client(config, token="")
        for shown in ("bearer", "BEARER", "Bearer ", "\tbearer"):
            self.assertEqual(bare.ask("GET", ns + "/pods", headers={"Authorization": f"{shown} {token}"})[0], 403, "it is known")
        encoded = base64.urlsafe_b64encode(token.encode()).rstrip(b"=").decode()
        said = {"Host": "x", "Connection": "Upgrade", "Upgrade": "websocket", "Sec-WebSocket-Version": "13", "Sec-WebSocket-Key": "MDEyMzQ1Njc4OWFiY2RlZg=="}
        for protocols, code in (("a", b"403"), (f"base64url.bearer.authorization.k8s.io.{encoded}", b"401"),
                                (f"base64url.bearer.authorization.k8s.io.{encoded}, a", b"403"), ("base64url.bearer.authorization.k8s.io.eHg, a", b"401")):
            _, head = upgraded(bare, ns + "/pods?watch=1", {**said, "Sec-WebSocket-Protocol": protocols}, self.addCleanup)
            self.assertEqual(head.split()[1], code, protocols)
        for bad in (token[:-2] + "AA", "x.y.z", "", token + "."):
            self.assertEqual(Client(config, token=bad or "-").ask("GET", ns + "/pods")[0], 401)
        self.root.must("DELETE", ns + "/serviceaccounts/default")
        self.assertEqual(robot.ask("GET", ns + "/pods")[0], 401, "the account that it was made for has gone")

    def test_nobody_sees_only_what_everybody_may(self):
        config = yaml.safe_load(self.c.ok("lockstep", "kubeconfig"))
        nobody = Client(config, token="-")
        nobody.token = None
        self.assertEqual(nobody.ask("GET", "/version")[0], 200)
        self.assertEqual(nobody.ask("GET", "/healthz"), (200, "ok"))
        self.assertEqual(nobody.ask("GET", CORE)[0], 403)
        self.assertEqual(nobody.ask("GET", "/v1/kubeconfig")[0], 401)
        self.assertEqual(self.client(ANN).ask("GET", "/v1/kubeconfig")[0], 403, "a certificate makes no further certificates")

    def test_quotas_are_never_overrun(self):
        ns = self.namespace("quota")
        eventually(lambda: self.root.ask("GET", ns + "/configmaps/kube-root-ca.crt")[0] == 200, what="what every namespace has is there")
        self.root.must("POST", ns + "/resourcequotas", {"metadata": {"name": "q"}, "spec": {"hard": {"configmaps": "3"}}})
        eventually(lambda: self.root.must("GET", ns + "/resourcequotas/q").get("status", {}).get("used") == {"configmaps": "1"}, what="it is counted")
        self.root.must("POST", ns + "/configmaps", config_map("a"))
        self.root.must("POST", ns + "/configmaps", config_map("b"))
        status, said = self.root.ask("POST", ns + "/configmaps", config_map("c"))
        self.assertEqual(status, 403)
        self.assertIn("exceeded quota: q, requested: configmaps=1, used: configmaps=3, limited: configmaps=3", said["message"])
        self.root.must("DELETE", ns + "/configmaps/a")
        eventually(lambda: self.root.ask("POST", ns + "/configmaps", config_map("c"))[0] == 201, what="there is room again")

    def test_custom_resources(self):
        definitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
        self.root.must("POST", definitions, {
            "metadata": {"name": "widgets.test.example.com"},
            "spec": {"group": "test.example.com", "scope": "Namespaced", "names": {"plural": "widgets", "kind": "Widget", "shortNames": ["wd"]},
                     "versions": [{"name": "v1", "served": True, "storage": True, "subresources": {"status": {}, "scale": {
                         "specReplicasPath": ".spec.replicas", "statusReplicasPath": ".status.replicas"}},
                         "additionalPrinterColumns": [{"name": "Size", "type": "integer", "jsonPath": ".spec.size"}],
                         "schema": {"openAPIV3Schema": {"type": "object", "properties": {
                             "spec": {"type": "object", "required": ["size"], "properties": {
                                 "size": {"type": "integer", "maximum": 9}, "color": {"type": "string", "default": "red"}, "replicas": {"type": "integer"}}},
                             "status": {"type": "object", "properties": {"replicas": {"type": "integer"}}}}}}}]}})
        widgets = "/apis/test.example.com/v1/namespaces/default/widgets"
        eventually(lambda: self.root.ask("GET", widgets)[0] == 200, what="it is served")
        made = self.root.must("POST", widgets, {"apiVersion": "test.example.com/v1", "kind": "Widget", "metadata": {"name": "a"},
                                                "spec": {"size": 3, "extra": 1}, "status": {"replicas": 7}})
        self.assertEqual((made["spec"], made.get("status")), ({"size": 3, "color": "red"}, None))
        status, said = self.root.ask("POST", widgets, {"apiVersion": "test.example.com/v1", "kind": "Widget", "metadata": {"name": "b"}, "spec": {"size": 30}})
        self.assertEqual((status, said["reason"]), (422, "Invalid"))
        self.assertIn("spec.size in body should be less than or equal to 9", said["message"])
        # What a definition allows no more may stay as it is: a finalizer goes, and fields beside it change.
        merge = {"kind": "application/merge-patch+json"}
        self.root.must("PATCH", widgets + "/a", {"metadata": {"finalizers": ["test.example.com/f"]}}, **merge)
        narrow = lambda most: self.root.must("PATCH", definitions + "/widgets.test.example.com", [{
            "op": "add", "path": "/spec/versions/0/schema/openAPIV3Schema/properties/spec/properties/size/maximum", "value": most}], kind="application/json-patch+json")
        narrow(2)
        eventually(lambda: self.root.ask("PATCH", widgets + "/a?dryRun=All", {"spec": {"size": 4}}, **merge)[0] == 422, what="the new bound holds")
        self.root.must("PATCH", widgets + "/a", {"metadata": {"finalizers": None}, "spec": {"color": "blue"}}, **merge)
        narrow(9)
        for path, value, words in (("schema/openAPIV3Schema/properties/spec/properties/color/default", 5, 'must be of type string: "integer"'),
                                   ("additionalPrinterColumns/0/type", "int", "must be one of boolean,date,integer,number,string")):
            status, said = self.root.ask("PATCH", definitions + "/widgets.test.example.com", [{"op": "replace", "path": "/spec/versions/0/" + path, "value": value}],
                                         kind="application/json-patch+json")
            self.assertEqual(status, 422, said)
            self.assertIn(words, said["message"])
        # Items of lists of built-in kinds are what the list is; those of others say it.
        self.assertEqual([one["kind"] for one in self.root.must("GET", widgets)["items"]], ["Widget"])
        self.assertEqual({tuple(set(one) & {"kind", "apiVersion"}) for one in self.root.must("GET", CORE)["items"]}, {()})
        self.root.must("PATCH", widgets + "/a/scale", {"spec": {"replicas": 4}}, kind="application/merge-patch+json")
        self.assertEqual(self.root.must("GET", widgets + "/a")["spec"]["replicas"], 4)
        table = self.root.must("GET", widgets, accept="application/json;as=Table;v=v1;g=meta.k8s.io")
        self.assertEqual([c["name"] for c in table["columnDefinitions"]], ["Name", "Size"])
        found = self.root.must("GET", "/apis/test.example.com/v1")
        self.assertEqual([r["name"] for r in found["resources"]], ["widgets", "widgets/status", "widgets/scale"])
        self.root.must("DELETE", definitions + "/widgets.test.example.com")
        eventually(lambda: self.root.ask("GET", widgets)[0] == 404, what="its objects and it have gone")

    def test_requests_are_counted(self):
        maps = self.namespace("counted") + "/configmaps"
        self.assertEqual(self.root.ask("GET", maps + "/none")[0], 404)
        watch = self.root.open("GET", maps + "?watch=true&timeoutSeconds=60")
        numbers = self.root.ask("GET", "/metrics")[1]
        labels = 'dry_run="",group="",version="v1",resource="configmaps",subresource=""'
        self.assertRegex(numbers, f'(?m)^apiserver_request_total{{verb="GET",{labels},scope="resource",component="apiserver",code="404"}} \\d+$')
        self.assertRegex(numbers, f'(?m)^apiserver_request_duration_seconds_bucket{{verb="GET",{labels},scope="resource",component="apiserver",le="\\+Inf"}} \\d+$')
        self.assertRegex(numbers, f'(?m)^apiserver_longrunning_requests{{verb="WATCH",{labels},scope="namespace",component="apiserver"}} [1-9]')
        self.assertRegex(numbers, r'(?m)^apiserver_current_inflight_requests{request_kind="readOnly"} \d+$')
        watch.close()

    def test_nodes_are_the_clusters(self):
        nodes = self.root.must("GET", "/api/v1/nodes")["items"]
        self.assertEqual([n["metadata"]["name"] for n in nodes], ["n1", "n2"])
        ready = lambda n: [c["status"] for c in n["status"]["conditions"] if c["type"] == "Ready"]
        self.assertEqual([ready(n) for n in nodes], [["True"], ["True"]])
        self.c.ok("scontrol", "update", "NodeName=n2", "State=DRAIN", "Reason=test")
        node = self.root.must("GET", "/api/v1/nodes/n2")
        self.assertTrue(node["spec"]["unschedulable"])
        self.assertEqual([n["metadata"]["name"] for n in self.root.must("GET", "/api/v1/nodes?fieldSelector=spec.unschedulable%3Dfalse")["items"]], ["n1"])
        self.c.ok("scontrol", "update", "NodeName=n2", "State=RESUME")
        self.assertNotIn("unschedulable", self.root.must("GET", "/api/v1/nodes/n2")["spec"])

    def test_what_was_acknowledged_outlives_the_controller(self):
        maps = self.namespace("durable") + "/configmaps"
        made = [self.root.must("POST", maps, config_map(f"m{i}", i=str(i))) for i in range(20)]
        self.c.kill_controller()
        self.c.release_controller()
        eventually(self.c.answers, what="the controller is back")
        for one in made:
            self.assertEqual(self.root.must("GET", f"{maps}/{one['metadata']['name']}"), one)
        told = json.loads(self.root.open("GET", f"{maps}?watch=true&resourceVersion={made[0]['metadata']['resourceVersion']}").readline())
        self.assertEqual(told["object"]["code"], 410, "what was changed before is not at hand any more, and that is said")


if __name__ == "__main__":
    unittest.main()
