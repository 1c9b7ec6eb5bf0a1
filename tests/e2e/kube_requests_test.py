"""What requests say of themselves, and what may not change: codes, fields and answers are those that the real API server gave."""
import json
import os
import unittest

import yaml
from cluster import Cluster, eventually
from kube_test import CORE, root_of

DEFAULT = CORE + "/default"
MAPS, SERVICES = DEFAULT + "/configmaps", DEFAULT + "/services"
APPS, BATCH = "/apis/apps/v1/namespaces/default", "/apis/batch/v1/namespaces/default"
MERGE = "application/merge-patch+json"


def template(**more):
    return {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "none.invalid/x"}], **more}}


def deployment(name, **spec):
    return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": name},
            "spec": {"replicas": 0, "selector": {"matchLabels": {"a": "b"}}, "template": template(), **spec}}


@unittest.skipIf(os.geteuid() != 0, "virtual nodes need root")
class Requests(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.c = Cluster(nodes=0)
        cls.c.up()
        cls.root = root_of(cls.c)

    @classmethod
    def tearDownClass(cls):
        cls.c.down()

    def refused(self, code, *args, field=None, **words):
        status, body = self.root.ask(*args, **words)
        self.assertEqual(status, code, body)
        if field:
            self.assertIn(field, [one.get("field") for one in body["details"]["causes"]], body["message"])
        return body

    def patch(self, path, body, **words):
        return self.root.must("PATCH", path, body, kind=MERGE, **words)

    def test_options_of_requests_are_judged(self):
        one = {"metadata": {"name": "options"}}
        for query, field in (("dryRun=Some", "dryRun"), ("fieldValidation=Bogus", "fieldValidation"), ("fieldManager=" + "a" * 129, "fieldManager")):
            self.refused(422, "POST", f"{MAPS}?{query}", one, field=field)
        self.assertEqual(self.root.ask("GET", MAPS + "/options")[0], 404, "and nothing was made")
        self.refused(422, "GET", MAPS + "?resourceVersionMatch=Exact", field="resourceVersionMatch")
        self.refused(422, "GET", MAPS + "?sendInitialEvents=true", field="sendInitialEvents")
        self.refused(422, "GET", MAPS + "?watch=1&resourceVersionMatch=NotOlderThan", field="resourceVersionMatch")
        self.refused(400, "GET", MAPS + "?limit=x")
        self.refused(415, "POST", MAPS, "a=b", kind="application/x-www-form-urlencoded")
        self.refused(422, "PATCH", MAPS + "/kube-root-ca.crt?force=true", {}, kind=MERGE, field="force")

    def test_answers_for_people(self):
        self.root.must("POST", MAPS, {"metadata": {"name": "seen"}, "data": {"a": "b: c"}})
        read = lambda **words: self.root.open("GET", MAPS + "/seen", **words).read().decode()
        self.assertIn('\n  "data": {\n    "a": "b: c"\n  }', read(headers={"User-Agent": "curl/8"}))
        self.assertEqual(read().find("\n"), len(read()) - 1, "one line")
        text = read(accept="application/yaml")
        self.assertEqual(yaml.safe_load(text)["data"], {"a": "b: c"})
        self.assertTrue(text.startswith("apiVersion: v1\ndata:\n  a: "), text)
        self.assertEqual(self.root.ask("GET", "/readyz?verbose")[1].splitlines()[-1], "readyz check passed")

    def test_lists_for_people(self):
        """Lists are written in pieces, of ten objects where they are indented or YAML."""
        for i in range(25):
            self.root.must("POST", MAPS, {"metadata": {"name": f"list-{i:02}", "labels": {"in": "list"}}, "data": {"a": "b: c\n", "none": ""}})
        def said(answer):
            """Without what differs from one second to the next: the list's version and, in a table, the ages."""
            ages = [i for i, column in enumerate(answer.get("columnDefinitions", [])) if column["name"] == "Age"]
            for row in answer.get("rows", []):
                for i in ages:
                    row["cells"][i] = "age"
            return {key: value for key, value in answer.items() if key != "metadata"}

        table, metadata = (f";as={form};v=v1;g=meta.k8s.io" for form in ("Table", "PartialObjectMetadataList"))
        for query in ("labelSelector=in%3Dlist", "labelSelector=in%3Dlist&limit=12", "labelSelector=in%3Dnothing"):
            read = lambda **words: self.root.open("GET", f"{MAPS}?{query}", **words)
            for form in ("", table, metadata):
                plain = read(accept="application/json" + form).read().decode()
                whole = said(json.loads(plain))
                for words in ({"accept": "application/json" + form, "headers": {"User-Agent": "curl/8"}}, {"accept": "application/json;pretty=1" + form}):
                    text = read(**words).read().decode()
                    self.assertEqual(text, json.dumps(json.loads(text), indent=2, ensure_ascii=False))
                    self.assertEqual(said(json.loads(text)), whole)
                answer = read(accept="application/yaml" + form, headers={"User-Agent": "curl/8"})
                self.assertEqual(answer.headers["Content-Type"], "application/yaml")
                text = answer.read().decode()
                self.assertEqual(said(yaml.safe_load(text)), whole)
                self.assertEqual([line.split(":")[0] for line in text.splitlines() if line[0] not in " -"], sorted(json.loads(plain)), text)
        self.assertIn("\n  ", self.root.open("GET", MAPS + "?pretty=true").read().decode())
        self.assertEqual(self.root.open("GET", MAPS).read().decode().count("\n"), 1, "at its end")

    def test_what_clients_accept(self):
        """As weighed by the real server, for Statuses too; those are indented for who accepts nothing."""
        read = lambda path, accept: self.root.open("GET", path, accept=accept)
        one = MAPS + "/kube-root-ca.crt"
        for accept, got in (("application/json;q=0.5,application/yaml", "application/yaml"), ("application/yaml;q=0.5,application/json", "application/json"),
                            ("text/html,application/yaml;q=0.1,*/*;q=0.2", "application/json"), ("application/json;q=0.1,application/vnd.kubernetes.protobuf", "application/vnd.kubernetes.protobuf")):
            for path in (MAPS, one, MAPS + "/nosuch", MAPS + "?limit=x"):
                self.assertEqual(read(path, accept).headers["Content-Type"], got, (path, accept))
        self.assertEqual(yaml.safe_load(read(MAPS + "/nosuch", "application/yaml").read())["message"], 'configmaps "nosuch" not found')
        self.assertEqual(yaml.safe_load(read("/api/v1", "application/yaml").read())["kind"], "APIResourceList")
        self.assertEqual(read("/version", "application/json").read()[:4], b'{\n  ')
        refused = read(one, "text/html")
        self.assertEqual((refused.status, refused.read()[:4]), (406, b'{\n  '))
        refused = read(MAPS + "?watch=1&timeoutSeconds=1", "application/yaml,application/json")
        self.assertEqual((refused.status, yaml.safe_load(refused.read())["reason"]), (406, "NotAcceptable"))

    def test_what_asks_for_an_act_is_typed_too(self):
        """Deletions, scales, evictions and the like: what is misspelt must not count as not said."""
        maps, sets = "/api/v1/namespaces/default/configmaps", "/apis/apps/v1/namespaces/default/replicasets"
        self.root.must("POST", maps, {"metadata": {"name": "stays"}})
        for options in ({"dryRun": "All"}, {"preconditions": {"uid": 1}}, {"preconditions": "x"}, {"gracePeriodSeconds": ""}, {"propagationPolicy": 1},
                        {"kind": "Pod", "apiVersion": "v1"}):
            self.assertEqual(self.root.ask("DELETE", maps + "/stays", options)[0], 400, options)
        self.assertEqual(self.root.ask("GET", maps + "/stays")[0], 200)
        self.root.must("DELETE", maps + "/stays", {"kind": "DeleteOptions", "apiVersion": "v1", "gracePeriodSeconds": 0, "propagationPolicy": "Background"})
        spec = {"containers": [{"name": "c", "image": "i"}], "schedulerName": "mine"}
        self.root.must("POST", sets, {"metadata": {"name": "rs"}, "spec": {"replicas": 1, "selector": {"matchLabels": {"a": "b"}},
                                                                          "template": {"metadata": {"labels": {"a": "b"}}, "spec": spec}}})
        for scale in ({"metadata": {"name": "rs"}, "spec": {"replicas": "5"}}, {"metadata": {"name": "rs"}, "spec": {"replicas": []}},
                      {"metadata": {"name": "other"}, "spec": {"replicas": 2}}, {}):
            self.assertEqual(self.root.ask("PUT", sets + "/rs/scale", scale)[0], 400, scale)
        self.assertEqual(self.root.must("GET", sets + "/rs")["spec"]["replicas"], 1)
        self.assertEqual(self.root.must("PUT", sets + "/rs/scale", {"metadata": {"name": "rs"}, "spec": {"replicas": 2}})["spec"]["replicas"], 2)
        self.root.must("DELETE", sets + "/rs")
        pods = "/api/v1/namespaces/default/pods"
        self.root.must("POST", pods, {"metadata": {"name": "waits"}, "spec": spec})
        node = self.root.must("GET", "/api/v1/nodes")["items"][0]["metadata"]["name"]
        self.assertEqual(self.root.ask("POST", pods + "/waits/binding", {"metadata": {"name": "other"}, "target": {"name": node}})[0], 400)
        self.root.must("POST", pods + "/waits/binding?dryRun=All", {"target": {"name": node}})
        self.assertNotIn("nodeName", self.root.must("GET", pods + "/waits")["spec"])
        for options, status in (({"preconditions": {"resourceVersion": "1"}}, 409), ({"dryRun": "All"}, 400), ([], 400)):
            self.assertEqual(self.root.ask("POST", pods + "/waits/eviction", {"deleteOptions": options})[0], status, options)
        self.root.must("DELETE", pods + "/waits", {"gracePeriodSeconds": 0})
        token = "/api/v1/namespaces/default/serviceaccounts/default/token"
        for spec in ({"expirationSeconds": "0x10"}, {"audiences": "x"}):
            self.assertEqual(self.root.ask("POST", token, {"spec": spec})[0], 400, spec)
        self.assertTrue(self.root.must("POST", token, {"spec": {"expirationSeconds": 600}})["status"]["token"])

    def test_numbers_that_no_double_holds(self):
        """Written out they would be no JSON, and whoever read them back ended."""
        for number in ("1e400", "-1e400", "9" * 400):
            for kind, path, method in (("application/json", "/api/v1/namespaces/default/configmaps", "POST"),
                                       ("application/yaml", "/api/v1/namespaces/default/configmaps", "POST"),
                                       ("application/merge-patch+json", "/api/v1/namespaces/default/serviceaccounts/default", "PATCH"),
                                       ("application/apply-patch+yaml", "/api/v1/namespaces/default/configmaps/far?fieldManager=f", "PATCH")):
                body = '{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"far","generation":' + number + "}}"
                status, answer = self.root.ask(method, path, body, kind=kind)
                if kind.endswith("yaml"):  # there it is a text, as with the real server
                    self.assertLess(status, 500, (kind, answer))
                    continue
                self.assertEqual(status, 400, (kind, answer))
                self.assertIn("beyond the range of float64", answer["message"])
        self.assertEqual(self.root.ask("GET", "/api/v1/namespaces/default/configmaps")[0], 200)

    def test_deep_objects(self):
        """As deep as objects may be, on every way that reads them again. One that was patched once ended the controller."""
        self.root.must("POST", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", {"metadata": {"name": "deeps.example.org"}, "spec": {
            "group": "example.org", "scope": "Namespaced", "names": {"plural": "deeps", "kind": "Deep"}, "versions": [
                {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}}]}})
        path = "/apis/example.org/v1/namespaces/default/deeps"
        eventually(lambda: self.root.ask("GET", path)[0] == 200, what="the kind is served")
        before = self.c.controller_pid()
        for depth in (30, 31, 32, 33, 60, 190):
            inner = 1
            for _ in range(depth):
                inner = {"a": inner}
            one = f"{path}/d{depth}"
            made = {"apiVersion": "example.org/v1", "kind": "Deep", "metadata": {"name": f"d{depth}", "finalizers": ["example.org/kept"]}, "spec": inner}
            self.root.must("POST", path, made)
            self.patch(one, {"metadata": {"labels": {"depth": str(depth)}}})
            self.root.must("PATCH", one + "?fieldManager=m", {**made, "metadata": {"name": f"d{depth}", "labels": {"b": "c"}}}, kind="application/apply-patch+yaml")
            read = self.root.must("GET", one)
            self.root.must("PUT", one, {**read, "more": 1})
            for accept in ("application/json", "application/yaml", "application/json;as=Table;v=v1;g=meta.k8s.io", "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io"):
                self.assertEqual(self.root.open("GET", path, accept=accept).status, 200, accept)
            self.assertEqual(self.root.open("GET", one, accept="application/yaml", headers={"User-Agent": "curl/8"}).status, 200)
            self.root.must("DELETE", one)
            self.patch(one, {"metadata": {"finalizers": None}})
            eventually(lambda: self.root.ask("GET", one)[0] == 404, what="it goes")
        self.assertEqual(self.c.controller_pid(), before, "and the controller is the same")
        inner = 1
        for _ in range(250):
            inner = {"a": inner}
        self.refused(400, "POST", path, {"apiVersion": "example.org/v1", "kind": "Deep", "metadata": {"name": "deeper"}, "spec": inner})

    def test_warnings(self):
        def warned(path, body, method="POST", **words):
            reply = self.root.open(method, path, body, **words)
            text = reply.read()
            self.assertLess(reply.status, 300, text)
            return reply.headers["Warning"] or ""
        twice = template(containers=[{"name": "c", "image": "i", "env": [{"name": "A", "value": "1"}, {"name": "A", "value": "2"}], "ports": [{"containerPort": 80}] * 2}],
                         nodeSelector={"beta.kubernetes.io/os": "linux"})
        words = warned(APPS + "/deployments?dryRun=All", deployment("with.dots", template=twice))
        self.assertIn("metadata.name: this is used in Pod names and hostnames", words)
        self.assertIn('spec.template.spec.containers[0].env[1]: hides previous definition of \\"A\\"', words)
        self.assertIn("spec.template.spec.containers[0].ports[1]: duplicate port definition with spec.template.spec.containers[0].ports[0]", words)
        self.assertIn("spec.template.spec.nodeSelector[beta.kubernetes.io/os]: deprecated since v1.14", words)
        self.assertIn("spec.externalIPs is ignored for headless services",
                      warned(SERVICES + "?dryRun=All", {"metadata": {"name": "h"}, "spec": {"clusterIP": "None", "externalIPs": ["1.2.3.4"], "ports": [{"port": 80}]}}))
        # A namespace's level is told about the pods that are there.
        self.root.must("POST", CORE, {"metadata": {"name": "level"}})
        eventually(lambda: self.root.ask("GET", CORE + "/level/serviceaccounts/default")[0] == 200, what="the namespace is ready")
        self.root.must("POST", CORE + "/level/pods", {"metadata": {"name": "open"}, "spec": {"containers": [{"name": "c", "image": "i"}]}})
        words = warned(CORE + "/level", {"metadata": {"labels": {"pod-security.kubernetes.io/enforce": "restricted"}}}, "PATCH", kind=MERGE)
        self.assertIn('existing pods in namespace \\"level\\" violate the new PodSecurity enforce level \\"restricted:latest\\"', words)
        self.assertIn("open: allowPrivilegeEscalation != false", words)
        self.refused(422, "PATCH", CORE + "/level", {"metadata": {"labels": {"pod-security.kubernetes.io/warn": "much"}}}, kind=MERGE,
                     field="metadata.labels[pod-security.kubernetes.io/warn]")

    def test_deletions_say_what_went(self):
        self.root.must("POST", MAPS, {"metadata": {"name": "gone"}})
        self.refused(422, "DELETE", MAPS + "/gone?propagationPolicy=Foreground&orphanDependents=true", field="propagationPolicy")
        self.assertIn("does not match the UID in record", self.refused(409, "DELETE", MAPS + "/gone", {"preconditions": {"uid": "x"}})["message"])
        self.refused(422, "DELETE", MAPS + "/gone", {"propagationPolicy": "Orphan", "orphanDependents": True}, field="propagationPolicy")
        self.assertEqual(self.root.must("DELETE", MAPS + "/gone?dryRun=All")["status"], "Success")
        self.assertEqual(self.root.must("DELETE", MAPS + "/gone")["status"], "Success")
        self.root.must("POST", SERVICES, {"metadata": {"name": "gone"}, "spec": {"ports": [{"port": 80}]}})
        self.assertEqual(self.root.must("DELETE", SERVICES + "/gone")["kind"], "Service", "of some kinds the object itself is shown")

    def test_what_is_fixed_stays(self):
        self.root.must("POST", MAPS, {"metadata": {"name": "fixed"}})
        self.refused(422, "PATCH", MAPS + "/fixed", {"metadata": {"uid": "x"}}, kind=MERGE, field="metadata.uid")
        self.refused(422, "PATCH", MAPS + "/fixed", {"kind": "Secret"}, kind=MERGE, field="patch")
        self.refused(400, "PATCH", MAPS + "/fixed", {"metadata": {"namespace": "kube-system"}}, kind=MERGE)
        self.root.must("POST", APPS + "/deployments", deployment("fixed"))
        self.refused(422, "PATCH", APPS + "/deployments/fixed", {"spec": {"selector": {"matchLabels": {"a": "b", "c": "d"}}, "template": {"metadata": {"labels": {"c": "d"}}}}},
                     kind=MERGE, field="spec.selector")
        job = {"metadata": {"name": "fixed"}, "spec": {"suspend": True, "template": template(restartPolicy="Never")}}
        self.root.must("POST", BATCH + "/jobs", job)
        eventually(lambda: "selector" in self.root.must("GET", BATCH + "/jobs/fixed")["spec"], what="its controller has seen it")
        self.refused(422, "PATCH", BATCH + "/jobs/fixed", {"spec": {"template": {"spec": {"dnsPolicy": "Default"}}}}, kind=MERGE, field="spec.template")
        self.assertEqual(self.root.must("GET", BATCH + "/jobs/fixed")["metadata"]["labels"]["job-name"], "fixed", "it has its template's labels")
        self.refused(422, "POST", BATCH + "/jobs", {"metadata": {"name": "in.dex"}, "spec": {"completionMode": "Indexed", "completions": 2, "template": template(restartPolicy="Never")}},
                     field="metadata.name")
        self.patch(BATCH + "/jobs/fixed", {"spec": {"template": {"spec": {"nodeSelector": {"x": "y"}}}}})  # nothing of it has started
        claims = {"metadata": {"name": "data"}, "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}}
        self.root.must("POST", APPS + "/statefulsets", {"metadata": {"name": "fixed"}, "spec": {
            "replicas": 0, "serviceName": "x", "selector": {"matchLabels": {"a": "b"}}, "volumeClaimTemplates": [claims],
            "template": template(containers=[{"name": "c", "image": "i", "volumeMounts": [{"name": "data", "mountPath": "/d"}]}])}})
        self.refused(422, "PATCH", APPS + "/statefulsets/fixed", {"spec": {"serviceName": "y"}}, kind=MERGE, field="spec")
        self.patch(APPS + "/statefulsets/fixed", {"spec": {"minReadySeconds": 5}})
        self.root.must("POST", DEFAULT + "/persistentvolumeclaims", {**claims, "spec": {**claims["spec"], "storageClassName": "none"}})
        self.refused(422, "PATCH", DEFAULT + "/persistentvolumeclaims/data", {"spec": {"storageClassName": "other"}}, kind=MERGE, field="spec")

    def test_what_went_with_a_services_type_goes_with_it(self):
        self.root.must("POST", SERVICES, {"metadata": {"name": "open"}, "spec": {"type": "LoadBalancer", "externalTrafficPolicy": "Local", "ports": [{"port": 80}]}})
        plain = self.patch(SERVICES + "/open", {"spec": {"type": "ClusterIP"}})["spec"]
        self.assertFalse({"externalTrafficPolicy", "healthCheckNodePort", "allocateLoadBalancerNodePorts"} & set(plain), plain)
        self.assertNotIn("nodePort", plain["ports"][0])
        self.assertTrue(plain["clusterIP"].startswith("10.96."))
        away = self.patch(SERVICES + "/open", {"spec": {"type": "ExternalName", "externalName": "db.example.com"}})["spec"]
        self.assertNotIn("clusterIP", away)

    def test_a_scale_is_a_number(self):
        self.root.must("POST", APPS + "/deployments", deployment("scaled", replicas=1, paused=True))
        self.refused(422, "PATCH", APPS + "/deployments/scaled/scale", {"spec": {"replicas": "x"}}, kind=MERGE, field="patch")
        self.assertEqual(self.root.must("GET", APPS + "/deployments/scaled")["spec"]["replicas"], 1, "and was not scaled to nothing")
        self.assertEqual(self.patch(APPS + "/deployments/scaled/scale", {"spec": {"replicas": 0}})["spec"], {})

    def test_who_made_it_manages_what_he_said(self):
        made = self.root.must("POST", DEFAULT + "/pods?fieldManager=ann", {"metadata": {"name": "managed"}, "spec": {
            "schedulerName": "nobody", "containers": [{"name": "c", "image": "none.invalid/x"}]}})
        fields = made["metadata"]["managedFields"][0]["fieldsV1"]["f:spec"]
        self.assertNotIn("f:serviceAccountName", fields, "what admission adds is nobody's")
        self.assertNotIn(".", fields, "a spec is there whether one is written or not")
        self.assertIn("f:restartPolicy", fields)

    def test_versions_that_go_out_of_use_say_so(self):
        version = {"served": True, "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}, "subresources": {"status": {}}}
        self.root.must("POST", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", {"metadata": {"name": "olds.example.com"}, "spec": {
            "group": "example.com", "scope": "Namespaced", "names": {"plural": "olds", "kind": "Old"},
            "versions": [{"name": "v1", "storage": True, **version}, {"name": "v1beta1", "storage": False, "deprecated": True, **version}]}})
        eventually(lambda: self.root.ask("GET", "/apis/example.com/v1/namespaces/default/olds")[0] == 200, what="the definition is served")
        olds = "/apis/example.com/v1/namespaces/default/olds"
        self.root.must("POST", olds, {"apiVersion": "example.com/v1", "kind": "Old", "metadata": {"name": "x"}})
        reply = self.root.open("GET", "/apis/example.com/v1beta1/namespaces/default/olds/x")
        reply.read()
        self.assertIn("example.com/v1beta1 Old is deprecated; use example.com/v1 Old", reply.headers["Warning"])
        after = self.patch(olds + "/x/status", {"metadata": {"labels": {"by": "status"}}, "status": {"phase": "new"}})
        self.assertEqual(after["status"], {"phase": "new"})
        self.assertNotIn("labels", after["metadata"], "through its status nothing else changes")


if __name__ == "__main__":
    unittest.main()
