"""What Kubernetes' API adds to objects at the door, and by which rules it refuses them: limits, levels, classes, policies, webhooks."""
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

from cluster import Cluster, eventually
from kube_test import CORE, config_map, root_of

POLICIES = "/apis/admissionregistration.k8s.io/v1"


def pod(name, **spec):
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": {"containers": [{"name": "a", "image": "none.invalid/a"}], **spec}}


class Webhooks:
    """A server that answers reviews as `say` decides: of a request, its response."""

    def __init__(self):
        self.folder = tempfile.TemporaryDirectory()
        key, certificate = (os.path.join(self.folder.name, name) for name in ("key.pem", "cert.pem"))
        subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-keyout", key, "-out", certificate,
                        "-days", "2", "-subj", "/CN=webhooks", "-addext", "subjectAltName=IP:127.0.0.1"], check=True, capture_output=True)
        with open(certificate, "rb") as f:
            self.bundle = base64.b64encode(f.read()).decode()
        self.say, self.asked = (lambda request: {}), []
        outer = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_POST(self):
                request = json.loads(self.rfile.read(int(self.headers["Content-Length"])))["request"]
                outer.asked.append(request)
                response = {"uid": request["uid"], "allowed": True, **outer.say(request)}
                body = json.dumps({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "response": response}).encode()
                self.send_response(200)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_):
                pass

        class Server(http.server.ThreadingHTTPServer):
            request_queue_size = 64  # else connections that come together wait for a second

        self.server = Server(("127.0.0.1", 0), Handler)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificate, key)
        self.server.socket = context.wrap_socket(self.server.socket, server_side=True)
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def configuration(self, kind, name, resources=("configmaps",), operations=("CREATE",), bundle=None, **more):
        return {"apiVersion": "admissionregistration.k8s.io/v1", "kind": kind + "WebhookConfiguration", "metadata": {"name": name},
                "webhooks": [{"name": name + ".example.com", "admissionReviewVersions": ["v1"], "sideEffects": "None",
                              "clientConfig": {"url": f"https://127.0.0.1:{self.server.server_port}/ask", "caBundle": bundle or self.bundle},
                              "namespaceSelector": {"matchLabels": {"hooked": "yes"}},
                              "rules": [{"apiGroups": [""], "apiVersions": ["v1"], "operations": list(operations), "resources": list(resources)}], **more}]}

    def close(self):
        self.server.shutdown()
        self.server.server_close()
        self.folder.cleanup()


@unittest.skipIf(os.geteuid() != 0, "virtual nodes need root")
class KubeAdmission(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.c = Cluster(nodes=1, gpus="")
        cls.c.up()
        cls.root = root_of(cls.c)

    @classmethod
    def tearDownClass(cls):
        cls.c.down()

    def namespace(self, name, **labels):
        self.root.must("POST", CORE, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": labels}})
        eventually(lambda: self.root.ask("GET", f"{CORE}/{name}/serviceaccounts/default")[0] == 200, what="the namespace is ready")
        return f"{CORE}/{name}"

    def test_limits(self):
        room = self.namespace("limited")
        self.root.must("POST", room + "/limitranges", {"apiVersion": "v1", "kind": "LimitRange", "metadata": {"name": "l"}, "spec": {"limits": [
            {"type": "Container", "default": {"cpu": "500m"}, "defaultRequest": {"cpu": "100m"}, "max": {"cpu": "1"}}]}})
        made = self.root.must("POST", room + "/pods?dryRun=All", pod("p"))
        self.assertEqual(made["spec"]["containers"][0]["resources"], {"requests": {"cpu": "100m"}, "limits": {"cpu": "500m"}})
        large = pod("p", containers=[{"name": "a", "image": "none.invalid/a", "resources": {"limits": {"cpu": "2"}}}])
        status, refused = self.root.ask("POST", room + "/pods", large)
        self.assertEqual((status, refused["message"]), (403, 'pods "p" is forbidden: maximum cpu usage per Container is 1, but limit is 2'))

    def test_levels(self):
        room = self.namespace("strict", **{"pod-security.kubernetes.io/enforce": "baseline", "pod-security.kubernetes.io/warn": "restricted"})
        status, refused = self.root.ask("POST", room + "/pods", pod("p", hostNetwork=True))
        self.assertEqual(status, 403)
        self.assertIn('violates PodSecurity "baseline:latest": host namespaces (hostNetwork=true)', refused["message"])
        reply = self.root.open("POST", room + "/pods?dryRun=All", pod("p"))
        self.assertEqual(reply.status, 201)
        self.assertIn("would violate PodSecurity", reply.headers["Warning"])
        reply.read()

    def test_classes(self):
        room = self.namespace("classes")
        status, refused = self.root.ask("POST", room + "/pods", pod("p", runtimeClassName="none"))
        self.assertEqual((status, refused["message"]), (403, 'pods "p" is forbidden: pod rejected: RuntimeClass "none" not found'))
        networking, priorities = "/apis/networking.k8s.io/v1", "/apis/scheduling.k8s.io/v1/priorityclasses"
        self.root.must("POST", networking + "/ingressclasses", {
            "metadata": {"name": "usual", "annotations": {"ingressclass.kubernetes.io/is-default-class": "true"}}, "spec": {"controller": "example.com/c"}})
        self.addCleanup(self.root.ask, "DELETE", networking + "/ingressclasses/usual")
        ingress = {"metadata": {"name": "i"}, "spec": {"defaultBackend": {"service": {"name": "s", "port": {"number": 80}}}}}
        made = self.root.must("POST", networking + "/namespaces/classes/ingresses", ingress)
        self.assertEqual(made["spec"]["ingressClassName"], "usual")
        for name, code in (("first", 201), ("second", 403)):
            self.addCleanup(self.root.ask, "DELETE", f"{priorities}/{name}")
            status, said = self.root.ask("POST", priorities, {"metadata": {"name": name}, "value": 1, "globalDefault": True})
            self.assertEqual(status, code, said)
        self.assertIn("PriorityClass first is already marked as default. Only one default can exist", said["message"])

    def test_policies(self):
        room = self.namespace("ruled")
        self.root.must("POST", POLICIES + "/validatingadmissionpolicies", {
            "apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingAdmissionPolicy", "metadata": {"name": "few"}, "spec": {
                "matchConstraints": {"resourceRules": [{"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE", "UPDATE", "DELETE"], "resources": ["configmaps"]}]},
                "matchConditions": [{"name": "not-ours", "expression": "request.name != 'kube-root-ca.crt'"}],
                "variables": [{"name": "keys", "expression": "object == null ? 0 : size(object.data)"}],
                "validations": [{"expression": "variables.keys <= 2", "messageExpression": "'has ' + string(variables.keys) + ' keys'"},
                                {"expression": "request.operation != 'DELETE' || oldObject.metadata.name != 'kept'", "reason": "Forbidden", "message": "it is kept"}]}})
        self.root.must("POST", POLICIES + "/validatingadmissionpolicybindings", {
            "apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingAdmissionPolicyBinding", "metadata": {"name": "few-here"}, "spec": {
                "policyName": "few", "validationActions": ["Deny"],
                "matchResources": {"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "ruled"}}}}})
        status, refused = self.root.ask("POST", room + "/configmaps", config_map("m", a="1", b="2", c="3"))
        self.assertEqual((status, refused["reason"]), (422, "Invalid"))
        self.assertEqual(refused["message"], 'configmaps "m" is forbidden: ValidatingAdmissionPolicy \'few\' with binding \'few-here\' denied request: has 3 keys')
        self.root.must("POST", room + "/configmaps", config_map("kept", a="1"))
        status, refused = self.root.ask("DELETE", room + "/configmaps/kept")
        self.assertEqual((status, refused["reason"]), (403, "Forbidden"))
        self.root.must("POST", CORE + "/default/configmaps", config_map("elsewhere", a="1", b="2", c="3"))
        # What cannot be is refused when it is stored; what cannot be evaluated is what its binding makes of it.
        policy = {"metadata": {"name": "rights"}, "spec": {
            "matchConstraints": {"resourceRules": [{"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["configmaps"]}]},
            "matchConditions": [{"name": "these", "expression": "request.name.startsWith('r-')"}],
            "validations": [{"expression": "authorizer.group('').resource('secrets').namespace(request.namespace).check('get').allowd()"}]}}
        status, refused = self.root.ask("POST", POLICIES + "/validatingadmissionpolicies", policy)
        self.assertEqual((status, refused["details"]["causes"][0]["field"]), (422, "spec.validations[0].expression"))
        self.assertIn("compilation failed: ERROR: <input>:1:", refused["message"])
        rule = policy["spec"]["validations"][0]
        rule["expression"] = rule["expression"].replace("allowd", "allowed")
        rule["message"] = "secrets are not yours"
        self.root.must("POST", POLICIES + "/validatingadmissionpolicies", policy)
        binding = {"metadata": {"name": "rights"}, "spec": {"policyName": "rights", "validationActions": ["Deny"]}}
        self.root.must("POST", POLICIES + "/validatingadmissionpolicybindings", binding)
        self.root.must("POST", "/apis/rbac.authorization.k8s.io/v1/namespaces/ruled/rolebindings", {
            "metadata": {"name": "ann"}, "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "maps"},
            "subjects": [{"kind": "User", "apiGroup": "rbac.authorization.k8s.io", "name": "ann"}]})
        self.root.must("POST", "/apis/rbac.authorization.k8s.io/v1/namespaces/ruled/roles", {
            "metadata": {"name": "maps"}, "rules": [{"apiGroups": [""], "resources": ["configmaps"], "verbs": ["create"]}]})
        as_ann = {"headers": {"Impersonate-User": "ann"}}
        self.root.must("POST", room + "/configmaps", config_map("r-root", a="1"))
        status, refused = self.root.ask("POST", room + "/configmaps", config_map("r-ann", a="1"), **as_ann)
        self.assertEqual(status, 422, refused)
        self.assertIn("secrets are not yours", refused["message"])
        self.root.must("DELETE", POLICIES + "/validatingadmissionpolicybindings/rights")
        self.root.must("PATCH", POLICIES + "/validatingadmissionpolicies/rights",
                       {"spec": {"validations": [{"expression": "object.data.none == 'x'"}]}}, kind="application/merge-patch+json")
        binding["spec"]["validationActions"] = ["Warn", "Audit"]
        self.root.must("POST", POLICIES + "/validatingadmissionpolicybindings", binding)
        reply = self.root.open("POST", room + "/configmaps", config_map("r-warned", a="1"))
        self.assertEqual(reply.status, 201)
        self.assertIn("expression 'object.data.none == 'x'' resulted in error: no such key: none", reply.headers["Warning"])
        reply.read()
        self.root.must("DELETE", POLICIES + "/validatingadmissionpolicybindings/rights")
        self.root.must("DELETE", POLICIES + "/validatingadmissionpolicybindings/few-here")
        self.root.must("DELETE", room + "/configmaps/kept")

    def test_webhooks(self):
        room = self.namespace("hooked", hooked="yes")
        hooks = Webhooks()
        self.addCleanup(hooks.close)
        validating = POLICIES + "/validatingwebhookconfigurations"
        mutating = POLICIES + "/mutatingwebhookconfigurations"

        # One that refuses.
        hooks.say = lambda request: {"allowed": request["name"] != "bad", "status": {"message": "it is bad", "code": 403}, "warnings": ["looked at"]}
        self.root.must("POST", validating, hooks.configuration("Validating", "judge", operations=("CREATE", "DELETE")))
        status, refused = self.root.ask("POST", room + "/configmaps", config_map("bad"))
        self.assertEqual((status, refused["message"]), (403, 'admission webhook "judge.example.com" denied the request: it is bad'))
        reply = self.root.open("POST", room + "/configmaps", config_map("good", a="b"))
        self.assertEqual((reply.status, reply.headers["Warning"]), (201, '299 - "looked at"'))
        reply.read()
        seen = hooks.asked[-1]
        self.assertEqual((seen["operation"], seen["namespace"], seen["object"]["data"], seen["object"]["kind"], seen["oldObject"]),
                         ("CREATE", "hooked", {"a": "b"}, "ConfigMap", None))
        self.assertEqual(seen["resource"], {"group": "", "version": "v1", "resource": "configmaps"})
        self.root.must("POST", CORE + "/default/configmaps", config_map("bad"))  # another namespace: it is not asked
        hooks.say = lambda request: {"allowed": request["operation"] != "DELETE"}
        status, refused = self.root.ask("DELETE", room + "/configmaps/good")
        self.assertEqual((status, refused["message"]), (400, 'admission webhook "judge.example.com" denied the request without explanation'))
        status, refused = self.root.ask("DELETE", room + "/configmaps")
        self.assertEqual(status, 400)
        self.assertEqual(self.root.ask("GET", room + "/configmaps/good")[0], 200)

        # One that changes, before the other looks.
        hooks.say = lambda request: {} if "changed" in request["object"].get("data", {}) else {
            "patchType": "JSONPatch", "patch": base64.b64encode(json.dumps([{"op": "add", "path": "/data/changed", "value": "yes"}]).encode()).decode()}
        self.root.must("POST", mutating, hooks.configuration("Mutating", "change"))
        made = self.root.must("POST", room + "/configmaps", config_map("third", a="b"))
        self.assertEqual(made["data"], {"a": "b", "changed": "yes"})
        self.assertEqual(hooks.asked[-1]["object"]["data"], {"a": "b", "changed": "yes"})
        self.root.must("DELETE", mutating + "/change")
        self.root.must("DELETE", validating + "/judge")

        # Conditions, and those that cannot be.
        hooks.say = lambda request: {"allowed": False}
        self.root.must("POST", validating, hooks.configuration("Validating", "some", matchConditions=[{"name": "c", "expression": "object.metadata.name == 'one'"}]))
        self.assertEqual(self.root.ask("POST", room + "/configmaps", config_map("one"))[0], 400)
        self.assertEqual(self.root.ask("POST", room + "/configmaps", config_map("two"))[0], 201)
        self.root.must("DELETE", validating + "/some")
        status, refused = self.root.ask("POST", validating, hooks.configuration("Validating", "broken", matchConditions=[{"name": "c", "expression": "object.("}]))
        self.assertEqual(status, 422)
        self.assertIn("compilation failed", refused["message"])

        # One that is slow, one that nobody can trust, one that is not there.
        hooks.say = lambda request: time.sleep(3) or {}
        self.root.must("POST", validating, hooks.configuration("Validating", "slow", timeoutSeconds=1))
        begun = time.monotonic()
        status, refused = self.root.ask("POST", room + "/configmaps", config_map("late"))
        self.assertEqual(status, 500)
        self.assertIn('failed calling webhook "slow.example.com"', refused["message"])
        self.assertIn("context deadline exceeded", refused["message"])
        self.assertLess(time.monotonic() - begun, 2.9)
        self.root.must("DELETE", validating + "/slow")
        self.root.must("POST", validating, hooks.configuration("Validating", "slow", timeoutSeconds=1, failurePolicy="Ignore"))
        self.root.must("POST", room + "/configmaps", config_map("late"))
        self.root.must("DELETE", validating + "/slow")
        other = base64.b64encode(ssl.DER_cert_to_PEM_cert(ssl.PEM_cert_to_DER_cert(self.root_certificate())).encode()).decode()
        self.root.must("POST", validating, hooks.configuration("Validating", "stranger", bundle=other))
        status, refused = self.root.ask("POST", room + "/configmaps", config_map("other"))
        self.assertEqual(status, 500)
        self.assertIn("failed to verify certificate", refused["message"])
        self.root.must("DELETE", validating + "/stranger")

    def test_webhooks_of_custom_objects(self):
        room = self.namespace("custom", hooked="yes")
        hooks = Webhooks()
        self.addCleanup(hooks.close)
        schema = {"openAPIV3Schema": {"type": "object", "properties": {"spec": {"type": "object", "properties": {
            "sort": {"type": "string", "enum": ["plain", "odd"]},
            "template": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}}}}}
        self.root.must("POST", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", {
            "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": {"name": "frees.ops.test"}, "spec": {
                "group": "ops.test", "scope": "Namespaced", "names": {"kind": "Free", "plural": "frees", "singular": "free"},
                "versions": [{"name": name, "served": True, "storage": name == "v2", "schema": schema} for name in ("v1", "v2")]}})
        old, new = (room.replace("/api/v1/", f"/apis/ops.test/{version}/") + "/frees" for version in ("v1", "v2"))
        eventually(lambda: self.root.ask("GET", old)[0] == 200 and self.root.ask("GET", new)[0] == 200, what="the definition is served")
        rules = [{"apiGroups": ["ops.test"], "apiVersions": ["v2"], "operations": ["CREATE", "UPDATE"], "resources": ["frees"]}]
        mutating = POLICIES + "/mutatingwebhookconfigurations"
        patch = [{"op": "replace", "path": "/spec/sort", "value": "plain"}, {"op": "add", "path": "/spec/template/m", "value": {"y": 1, "x": 2}}]
        hooks.say = lambda request: {} if request["object"]["spec"]["sort"] else {
            "patchType": "JSONPatch", "patch": base64.b64encode(json.dumps(patch).encode()).decode()}
        self.root.must("POST", mutating, hooks.configuration("Mutating", "fill", rules=rules))

        # The webhook comes before the schema, sees the version that its rule names, and members in the order of their names.
        def free(name, **spec):
            return {"apiVersion": "ops.test/v1", "kind": "Free", "metadata": {"name": name}, "spec": {"template": {"z": 1, "a": {"y": 1, "b": [{"d": 1, "c": 2}]}}, **spec}}

        made = self.root.must("POST", old, free("f", sort=""))
        self.assertEqual((made["apiVersion"], made["spec"]["sort"], made["metadata"]["generation"]), ("ops.test/v1", "plain", 1))
        self.assertEqual(json.dumps(made["spec"]), '{"sort": "plain", "template": {"a": {"b": [{"c": 2, "d": 1}], "y": 1}, "m": {"x": 2, "y": 1}, "z": 1}}')
        seen = hooks.asked[-1]
        self.assertEqual((seen["kind"], seen["requestKind"]), tuple({"group": "ops.test", "version": v, "kind": "Free"} for v in ("v2", "v1")))
        self.assertEqual((seen["resource"], seen["requestResource"]), tuple({"group": "ops.test", "version": v, "resource": "frees"} for v in ("v2", "v1")))
        self.assertEqual(seen["object"]["apiVersion"], "ops.test/v2")
        self.assertEqual(json.dumps(seen["object"]["spec"]), '{"sort": "", "template": {"a": {"b": [{"c": 2, "d": 1}], "y": 1}, "z": 1}}')
        self.assertEqual(json.dumps(self.root.must("GET", new + "/f")["spec"]), json.dumps(made["spec"]))

        # A change that the webhook makes counts, as do its mistakes; the old object is shown in that version, too.
        changed = self.root.must("PUT", old + "/f", {**made, "spec": {"sort": "", "template": {}}})
        self.assertEqual((changed["spec"], changed["metadata"]["generation"]), ({"sort": "plain", "template": {"m": {"x": 2, "y": 1}}}, 2))
        self.assertEqual((hooks.asked[-1]["oldObject"]["apiVersion"], json.dumps(hooks.asked[-1]["oldObject"]["spec"])), ("ops.test/v2", json.dumps(made["spec"])))
        status, refused = self.root.ask("POST", old, free("g", sort="other"))
        self.assertEqual((status, refused["details"]["causes"][0]["field"]), (422, "spec.sort"))
        self.assertEqual(hooks.asked[-1]["object"]["spec"]["sort"], "other")
        self.root.must("DELETE", mutating + "/fill")

        # Exact means the version of the request alone.
        self.root.must("POST", mutating, hooks.configuration("Mutating", "fill", rules=rules, matchPolicy="Exact"))
        self.assertEqual(self.root.ask("POST", old, free("h", sort=""))[0], 422)
        self.assertEqual(self.root.ask("POST", new, {**free("h", sort=""), "apiVersion": "ops.test/v2"})[0], 201)
        self.root.must("DELETE", mutating + "/fill")

    def test_webhooks_of_objects_in_two_groups(self):
        room = self.namespace("told", hooked="yes")
        hooks = Webhooks()
        self.addCleanup(hooks.close)
        hooks.say = lambda request: {"patchType": "JSONPatch", "patch": base64.b64encode(
            json.dumps([{"op": "replace", "path": "/note", "value": request["object"]["note"] + "!"}]).encode()).decode()}
        self.root.must("POST", POLICIES + "/mutatingwebhookconfigurations", hooks.configuration("Mutating", "loud", rules=[
            {"apiGroups": ["events.k8s.io"], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["events"]}]))
        made = self.root.must("POST", room + "/events", {"apiVersion": "v1", "kind": "Event", "metadata": {"name": "e"}, "message": "hear", "reason": "Told",
                                                         "type": "Normal", "involvedObject": {"kind": "Pod", "namespace": "told", "name": "p"}})
        self.assertEqual((made["message"], hooks.asked[-1]["object"]["apiVersion"], hooks.asked[-1]["requestKind"]["group"]), ("hear!", "events.k8s.io/v1", ""))
        self.root.must("DELETE", POLICIES + "/mutatingwebhookconfigurations/loud")

    def root_certificate(self):
        return self.root.must("GET", CORE + "/default/configmaps/kube-root-ca.crt")["data"]["ca.crt"]


if __name__ == "__main__":
    unittest.main()
