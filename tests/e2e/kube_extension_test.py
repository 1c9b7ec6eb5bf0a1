"""Servers of others behind Kubernetes' API: webhooks that convert custom resources, and APIs that are aggregated."""
import base64
import http.server
import json
import os
import ssl
import subprocess
import tempfile
import threading
import time
import unittest

import yaml
from cluster import Cluster, eventually
from kube_test import CORE, Client

EXTENSIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
THINGS = "/apis/example.com/{}/namespaces/default/things"
SERVICES = "/apis/apiregistration.k8s.io/v1/apiservices"
FLUNDERS = "/apis/wardle.example.com/v1/namespaces/default/flunders"


class Server:
    """HTTPS on every address; asks for certificates of the cluster's CA where it has one. `handle` gets the handler, its method and its body."""

    def __init__(self, names, handle, ca=None):
        self.folder = tempfile.TemporaryDirectory()
        key, certificate, trusted = (os.path.join(self.folder.name, name) for name in ("key.pem", "cert.pem", "ca.pem"))
        subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-keyout", key, "-out", certificate,
                        "-days", "2", "-subj", "/CN=server", "-addext", "subjectAltName=" + names], check=True, capture_output=True)
        with open(certificate, "rb") as f:
            self.bundle = base64.b64encode(f.read()).decode()

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def any(self):
                handle(self, self.command, self.rfile.read(int(self.headers.get("Content-Length", 0))))

            do_GET = do_POST = do_PUT = do_DELETE = any

            def answer(self, body, status=200, **headers):
                text = body if isinstance(body, bytes) else json.dumps(body).encode()
                self.send_response(status)
                self.send_header("Content-Type", "application/json")
                for name, value in headers.items():
                    self.send_header(name.replace("_", "-"), value)
                self.send_header("Content-Length", str(len(text)))
                self.end_headers()
                self.wfile.write(text)

            def log_message(self, *_):
                pass

        self.server = http.server.ThreadingHTTPServer(("0.0.0.0", 0), Handler)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificate, key)
        if ca:
            with open(trusted, "w") as f:
                f.write(ca)
            context.load_verify_locations(trusted)
            context.verify_mode = ssl.CERT_OPTIONAL
        self.server.socket = context.wrap_socket(self.server.socket, server_side=True)
        self.port = self.server.server_port
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def close(self):
        self.server.shutdown()
        self.server.server_close()
        self.folder.cleanup()


def converted(thing, wanted):
    """v1 has spec.address "host:port", v2 the two apart."""
    spec = dict(thing.get("spec", {}))
    if wanted.endswith("/v2") and "address" in spec:
        spec["host"], spec["port"] = spec.pop("address").split(":")
    elif wanted.endswith("/v1") and "host" in spec:
        spec["address"] = spec.pop("host") + ":" + spec.pop("port")
    return {**thing, "apiVersion": wanted, "spec": spec}


def version(name, storage, **fields):
    return {"name": name, "served": True, "storage": storage, "schema": {"openAPIV3Schema": {"type": "object", "properties": {
        "spec": {"type": "object", "properties": {field: {"type": "string"} for field in fields}}}}}}


def definition(url, bundle, storage):
    return {"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": {"name": "things.example.com"}, "spec": {
        "group": "example.com", "scope": "Namespaced", "names": {"plural": "things", "kind": "Thing", "singular": "thing", "listKind": "ThingList"},
        "versions": [version("v1", storage == "v1", address=1), version("v2", storage == "v2", host=1, port=1)],
        "conversion": {"strategy": "Webhook", "webhook": {"conversionReviewVersions": ["v1"], "clientConfig": {"url": url, "caBundle": bundle}}}}}


@unittest.skipIf(os.geteuid() != 0, "virtual nodes need root")
class KubeExtension(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.c = Cluster(nodes=1, gpus="")
        cls.c.up()
        cls.config = yaml.safe_load(cls.c.ok("lockstep", "kubeconfig"))
        cls.root = Client(cls.config)
        eventually(lambda: cls.root.ask("GET", CORE + "/default/serviceaccounts/default")[0] == 200, what="the first namespace is ready")

    @classmethod
    def tearDownClass(cls):
        cls.c.down()

    def test_versions_that_a_webhook_converts(self):
        asked, broken = [], []

        def convert(handler, _, body):
            request = json.loads(body)["request"]
            asked.append((request["desiredAPIVersion"], len(request["objects"])))
            answer = {"uid": request["uid"], "result": {"status": "Success"}, "convertedObjects": [converted(one, request["desiredAPIVersion"]) for one in request["objects"]]}
            if broken:
                answer.update(broken[0])
            handler.answer({"apiVersion": "apiextensions.k8s.io/v1", "kind": "ConversionReview", "response": answer})

        server = Server("IP:127.0.0.1", convert)
        self.addCleanup(server.close)
        url = f"https://127.0.0.1:{server.port}/convert"
        self.root.must("POST", EXTENSIONS, definition(url, server.bundle, "v1"))
        eventually(lambda: self.root.ask("GET", THINGS.format("v2"))[0] == 200, what="things are served")
        thing = {"apiVersion": "example.com/v1", "kind": "Thing", "metadata": {"name": "a", "labels": {"l": "1"}}, "spec": {"address": "here:80"}}
        self.root.must("POST", THINGS.format("v1"), thing)
        self.assertEqual(asked, [])  # it is stored as it came
        seen = self.root.must("GET", THINGS.format("v2") + "/a")
        self.assertEqual((seen["apiVersion"], seen["spec"], seen["metadata"]["labels"]), ("example.com/v2", {"host": "here", "port": "80"}, {"l": "1"}))
        # Written in the other version: answered as it was sent, stored as the definition says.
        two = {"apiVersion": "example.com/v2", "kind": "Thing", "metadata": {"name": "b"}, "spec": {"host": "there", "port": "81"}}
        self.assertEqual(self.root.must("POST", THINGS.format("v2"), two)["spec"], {"host": "there", "port": "81"})
        self.assertEqual(self.root.must("GET", THINGS.format("v1") + "/b")["spec"], {"address": "there:81"})
        patched = self.root.must("PATCH", THINGS.format("v2") + "/a", {"spec": {"port": "90"}}, kind="application/merge-patch+json")
        self.assertEqual(patched["spec"], {"host": "here", "port": "90"})
        self.assertEqual(self.root.must("GET", THINGS.format("v1") + "/a")["spec"], {"address": "here:90"})
        # Another version is stored from now on: what is there keeps its own, and a list shows all alike.
        self.root.must("PATCH", EXTENSIONS + "/things.example.com", [{"op": "replace", "path": "/spec/versions/0/storage", "value": False},
                                                                     {"op": "replace", "path": "/spec/versions/1/storage", "value": True}], kind="application/json-patch+json")
        eventually(lambda: self.root.must("GET", EXTENSIONS + "/things.example.com")["status"]["storedVersions"] == ["v1", "v2"], what="both versions are stored")
        self.root.must("POST", THINGS.format("v2"), {**two, "metadata": {"name": "c"}})
        for name, spec in (("v1", {"address": "there:81"}), ("v2", {"host": "there", "port": "81"})):
            listed = self.root.must("GET", THINGS.format(name))["items"]
            self.assertEqual([one["metadata"]["name"] for one in listed], ["a", "b", "c"])
            self.assertEqual([one["spec"] for one in listed[1:]], [spec, spec])
            self.assertNotIn("$version", json.dumps(listed))
        # A watch waits for the webhook, and tells in order.
        watch = self.root.open("GET", THINGS.format("v1") + "?watch=true")
        first = [json.loads(watch.readline()) for _ in range(3)]
        self.assertEqual([(one["type"], one["object"]["spec"]["address"]) for one in first], [("ADDED", "here:90"), ("ADDED", "there:81"), ("ADDED", "there:81")])
        self.root.must("DELETE", THINGS.format("v2") + "/c")
        gone = json.loads(watch.readline())
        self.assertEqual((gone["type"], gone["object"]["metadata"]["name"], gone["object"]["spec"]), ("DELETED", "c", {"address": "there:81"}))
        watch.close()
        # What is no answer is told in words.
        broken.append({"convertedObjects": []})
        status, refused = self.root.ask("GET", THINGS.format("v1") + "/b")
        self.assertEqual(status, 200, refused)  # stored so
        status, refused = self.root.ask("GET", THINGS.format("v2") + "/b")
        self.assertEqual((status, refused["message"]), (500, "conversion webhook for example.com/v1, Kind=Thing returned 0 objects, expected 1"))
        broken[0] = {"result": {"status": "Failure", "message": "not today"}}
        self.assertEqual(self.root.ask("GET", THINGS.format("v2") + "/b")[1]["message"], "conversion webhook for example.com/v1, Kind=Thing failed: not today")

    def test_an_aggregated_api(self):
        seen = []
        stop = threading.Event()

        def serve(handler, method, body):
            certificate = handler.connection.getpeercert()
            name = dict(pair[0] for pair in certificate["subject"]).get("commonName") if certificate else None
            seen.append((method, handler.path, name, handler.headers.get("X-Remote-User"), handler.headers.get_all("X-Remote-Group"), handler.headers.get("Authorization")))
            if handler.path == "/apis/wardle.example.com/v1":
                return handler.answer({"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": "wardle.example.com/v1", "resources": [
                    {"name": "flunders", "singularName": "flunder", "namespaced": True, "kind": "Flunder", "verbs": ["create", "get", "list", "watch"], "shortNames": ["fl"]}]})
            if "watch=true" in handler.path:
                handler.send_response(200)
                handler.send_header("Content-Type", "application/json")
                handler.send_header("Transfer-Encoding", "chunked")
                handler.end_headers()
                for number in range(2):
                    event = json.dumps({"type": "ADDED", "object": {"kind": "Flunder", "metadata": {"name": f"f{number}"}}}).encode() + b"\n"
                    handler.wfile.write(b"%x\r\n%s\r\n" % (len(event), event))
                    handler.wfile.flush()
                    if number == 0:
                        stop.wait(20)
                handler.wfile.write(b"0\r\n\r\n")
                return None
            if method == "POST":
                return handler.answer({**json.loads(body), "metadata": {"name": "made", "uid": "1"}}, 201, Warning='299 - "mind this"')
            return handler.answer({"kind": "FlunderList", "apiVersion": "wardle.example.com/v1", "metadata": {}, "items": []})

        server = Server("DNS:wardle.default.svc", serve, base64.b64decode(self.config["clusters"][0]["cluster"]["certificate-authority-data"]).decode())
        self.addCleanup(server.close)
        self.root.must("POST", CORE + "/default/services", {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "wardle"}, "spec": {"ports": [{"port": 443, "targetPort": server.port}]}})
        service = {"apiVersion": "apiregistration.k8s.io/v1", "kind": "APIService", "metadata": {"name": "v1.wardle.example.com"}, "spec": {
            "group": "wardle.example.com", "version": "v1", "groupPriorityMinimum": 2000, "versionPriority": 200, "caBundle": server.bundle,
            "service": {"namespace": "default", "name": "wardle", "port": 443}}}
        self.root.must("POST", SERVICES, service)

        def available():
            conditions = self.root.must("GET", SERVICES + "/v1.wardle.example.com").get("status", {}).get("conditions", [])
            return next(((one["status"], one["reason"]) for one in conditions if one["type"] == "Available"), None)

        eventually(lambda: available() == ("False", "MissingEndpoints"), what="nobody answers yet")
        self.assertEqual(self.root.ask("GET", FLUNDERS)[0], 503)
        self.root.must("POST", "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices", {
            "apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice", "metadata": {"name": "wardle-1", "labels": {"kubernetes.io/service-name": "wardle"}},
            "addressType": "IPv4", "ports": [{"port": server.port, "protocol": "TCP"}], "endpoints": [{"addresses": [self.root.host], "conditions": {"ready": True}}]})
        eventually(lambda: available() == ("True", "Passed"), what="it answers")
        self.assertIn("wardle.example.com", [one["name"] for one in self.root.must("GET", "/apis")["groups"]])
        found = self.root.must("GET", "/apis", accept="application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList")
        ours = next(one for one in found["items"] if one["metadata"]["name"] == "wardle.example.com")
        self.assertEqual(ours["versions"][0]["resources"][0]["resource"], "flunders")
        self.assertEqual(self.root.must("GET", "/apis/wardle.example.com/v1")["resources"][0]["kind"], "Flunder")
        # Who asks is said by us alone, and vouched for by the front proxy's certificate.
        reply = self.root.open("POST", FLUNDERS + "?fieldManager=a%20b", {"kind": "Flunder"}, headers={"X-Remote-User": "somebody", "X-Remote-Group": "system:masters"})
        self.assertEqual((reply.status, json.loads(reply.read())["metadata"]["name"], reply.headers["Warning"]), (201, "made", '299 - "mind this"'))
        method, path, name, user, groups, shown = seen[-1]
        self.assertEqual((method, path, name, user, shown), ("POST", FLUNDERS + "?fieldManager=a%20b", "front-proxy-client", "root", None))
        self.assertEqual(groups, ["system:masters", "system:authenticated"])
        maps = self.root.must("GET", CORE + "/kube-system/configmaps/extension-apiserver-authentication")["data"]
        self.assertEqual(json.loads(maps["requestheader-allowed-names"]), ["front-proxy-client"])
        # A watch goes through as it comes.
        begun = time.monotonic()
        watch = self.root.open("GET", FLUNDERS + "?watch=true")
        self.assertEqual(json.loads(watch.readline())["object"]["metadata"]["name"], "f0")
        self.assertLess(time.monotonic() - begun, 15)
        stop.set()
        self.assertEqual(json.loads(watch.readline())["object"]["metadata"]["name"], "f1")
        self.assertEqual(watch.read(), b"")
        # Who may not is refused here, and the other server does not hear of it.
        count = len(seen)
        token = self.root.must("POST", CORE + "/default/serviceaccounts/default/token", {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}})["status"]["token"]
        self.assertEqual(Client(self.config, token).ask("GET", FLUNDERS)[0], 403)
        self.assertEqual(len([one for one in seen[count:] if one[1] == FLUNDERS]), 0)
        self.root.must("DELETE", SERVICES + "/v1.wardle.example.com")
        eventually(lambda: self.root.ask("GET", FLUNDERS)[0] == 404, what="it is gone")


if __name__ == "__main__":
    unittest.main()
