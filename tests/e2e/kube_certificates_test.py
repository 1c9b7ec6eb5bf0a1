"""Users of Kubernetes' API who come by a certificate request: made with openssl, approved, signed, and good for what roles give them."""
import base64
import os
import subprocess
import tempfile
import unittest

import yaml
from cluster import Cluster, eventually
from kube_test import CORE, RBAC, Client

REQUESTS = "/apis/certificates.k8s.io/v1/certificatesigningrequests"
APPROVED = {"type": "Approved", "status": "True", "reason": "Test", "message": "by a test"}
MERGE = "application/merge-patch+json"


@unittest.skipIf(os.geteuid() != 0, "the administrator is root")
class KubeCertificates(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.c = Cluster(nodes=0)
        cls.c.up()
        cls.config = yaml.safe_load(cls.c.ok("lockstep", "kubeconfig"))
        cls.root = Client(cls.config)
        eventually(lambda: cls.root.ask("GET", CORE + "/default/serviceaccounts/default")[0] == 200, what="the first namespace is ready")
        cls.folder = tempfile.TemporaryDirectory()

    @classmethod
    def tearDownClass(cls):
        cls.c.down()
        cls.folder.cleanup()

    def request(self, name, subject, client=None, usages=("client auth", "digital signature"), kind="ed25519"):
        """Makes the request, and its key in a file of its name."""
        key, asked = (os.path.join(self.folder.name, name + end) for end in (".key", ".csr"))
        subprocess.run(["openssl", "req", "-new", "-nodes", "-newkey", kind, "-subj", subject, "-keyout", key, "-out", asked], check=True, capture_output=True)
        with open(asked, "rb") as f:
            text = base64.b64encode(f.read()).decode()
        return (client or self.root).must("POST", REQUESTS, {"metadata": {"name": name}, "spec": {
            "request": text, "signerName": "kubernetes.io/kube-apiserver-client", "usages": list(usages), "expirationSeconds": 3600, "username": "somebody else"}})

    def approve(self, name):
        self.root.must("PATCH", f"{REQUESTS}/{name}/approval", {"status": {"conditions": [APPROVED], "certificate": "bm8="}}, kind=MERGE)

    def signed(self, name):
        status = lambda: self.root.must("GET", f"{REQUESTS}/{name}").get("status", {})
        eventually(lambda: status().get("certificate") or len(status()["conditions"]) > 1, what="an answer")
        return status()

    def client_of(self, name):
        with open(os.path.join(self.folder.name, name + ".key"), "rb") as f:
            key = base64.b64encode(f.read()).decode()
        return Client({**self.config, "users": [{"user": {"client-certificate-data": self.signed(name)["certificate"], "client-key-data": key}}]})

    def test_a_kubeconfig_goes_wherever_it_is_asked_for(self):
        for path in ("kc/admin", "kc/deeper/admin", "./kc-admin", os.path.join(self.folder.name, "far/admin")):
            self.c.ok("lockstep", "kubeconfig", path, cwd=self.folder.name)
            there = os.path.join(self.folder.name, path)
            self.assertEqual(os.stat(there).st_mode & 0o777, 0o600)
            with open(there) as f:
                self.assertEqual(yaml.safe_load(f)["kind"], "Config")

    def test_who_has_an_approved_request_is_that_user(self):
        made = self.request("ann", "/CN=ann/O=dev")
        self.assertEqual(made["spec"]["username"], "root", "who asked, whatever was said")
        self.assertNotIn("certificate", self.root.must("GET", REQUESTS + "/ann").get("status", {}))
        self.approve("ann")
        ann = self.client_of("ann")
        who = ann.must("POST", "/apis/authentication.k8s.io/v1/selfsubjectreviews", {})["status"]["userInfo"]
        self.assertEqual((who["username"], who["groups"]), ("ann", ["dev", "system:authenticated"]))
        self.assertEqual(ann.ask("GET", CORE + "/default/configmaps")[0], 403)
        self.root.must("POST", f"{RBAC}/namespaces/default/rolebindings", {"metadata": {"name": "dev"}, "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "view"},
                       "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "Group", "name": "dev"}]})
        eventually(lambda: ann.ask("GET", CORE + "/default/configmaps")[0] == 200, what="the group's role is hers")
        self.assertEqual(ann.ask("GET", "/v1/jobs")[0], 401, "Lockstep itself knows no such user")

    def test_names_of_the_clusters_own_are_only_names(self):
        for name, subject in (("node", "/CN=node:n1/OU=compute"), ("admin", "/CN=user:root/OU=admin")):
            self.request(name, subject)
            self.approve(name)
            guest = self.client_of(name)
            self.assertEqual(guest.ask("GET", "/v1/link")[0], 401)
            self.assertEqual(guest.ask("GET", "/v1/status")[0], 401)
            self.assertEqual(guest.ask("GET", CORE)[0], 403)

    def test_what_is_not_signed(self):
        for name, subject, usages, words in (("masters", "/CN=eve/O=system:masters", ["client auth"], "system:masters"), ("server", "/CN=eve", ["server auth", "client auth"], "server auth")):
            self.request(name, subject, usages=usages)
            self.approve(name)
            failed = [one for one in self.signed(name)["conditions"] if one["type"] == "Failed"]
            self.assertIn(words, failed[0]["message"])

    def test_who_may_approve(self):
        self.request("clerk", "/CN=clerk", kind="rsa:2048")
        self.approve("clerk")
        clerk = self.client_of("clerk")
        rules = [{"apiGroups": ["certificates.k8s.io"], "resources": ["certificatesigningrequests", "certificatesigningrequests/approval", "certificatesigningrequests/status"], "verbs": ["create", "get", "update", "patch"]}]
        self.root.must("POST", f"{RBAC}/clusterroles", {"metadata": {"name": "clerk"}, "rules": rules})
        self.root.must("POST", f"{RBAC}/clusterrolebindings", {"metadata": {"name": "clerk"}, "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "clerk"},
                       "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "clerk"}]})
        eventually(lambda: clerk.ask("GET", REQUESTS + "/clerk")[0] == 200, what="the role is bound")
        self.assertEqual(self.request("more", "/CN=more", client=clerk)["spec"]["username"], "clerk")
        for sub, verb in (("approval", "approve"), ("status", "sign")):
            code, refused = clerk.ask("PATCH", f"{REQUESTS}/more/{sub}", {"status": {"conditions": [APPROVED]}}, kind=MERGE)
            self.assertEqual(code, 403)
            self.assertIn(f'user not permitted to {verb} requests with signerName "kubernetes.io/kube-apiserver-client"', refused["message"])
        self.root.must("PUT", f"{RBAC}/clusterroles/clerk", {"metadata": {"name": "clerk"}, "rules": rules + [
            {"apiGroups": ["certificates.k8s.io"], "resources": ["signers"], "resourceNames": ["kubernetes.io/*"], "verbs": ["approve"]}]})
        eventually(lambda: clerk.ask("PATCH", f"{REQUESTS}/more/approval", {"status": {"conditions": [APPROVED]}}, kind=MERGE)[0] == 200, what="now it may")


if __name__ == "__main__":
    unittest.main(verbosity=2)
