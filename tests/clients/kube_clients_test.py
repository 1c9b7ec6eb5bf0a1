"""Clients of Kubernetes' API that others wrote, unmodified: kubectl of several versions with kustomize, Helm, the Python and JavaScript libraries, an operator of kopf."""
import glob
import json
import os
import shutil
import subprocess
import tempfile
import textwrap
import time
import unittest

import yaml
from client import HERE, TOP, Cluster, environment, eventually
from kube_test import Client

REQUIREMENTS = os.path.join(HERE, "kube_requirements.txt")
BUILT = os.environ.get("LOCKSTEP_KUBERNETES_SUITE", os.path.join(TOP, "build", "kubernetes"))
GO_BUILT = os.path.join(TOP, "build", "clients-go")
JAVASCRIPT = "@kubernetes/client-node@1.0.0"


def programs(name):
    """Every kubectl or helm that is here, of whatever version."""
    found = glob.glob(os.path.join(BUILT, name + "*")) + glob.glob(os.path.join(GO_BUILT, name)) + [os.path.join(folder, name) for folder in os.environ["PATH"].split(":")] + glob.glob(f"/usr/lib/google-cloud-sdk/bin/{name}.*")
    return sorted({os.path.realpath(one) for one in found if os.access(one, os.X_OK) and not os.path.isdir(one)})


CHART = {
    "Chart.yaml": "apiVersion: v2\nname: shop\nversion: 0.1.0\nappVersion: '1'\n",
    "values.yaml": "greeting: hello\nreplicas: 0\n",
    "templates/all.yaml": """
        apiVersion: v1
        kind: ConfigMap
        metadata: {name: "{{ .Release.Name }}-settings"}
        data: {greeting: "{{ .Values.greeting }}", revision: "{{ .Release.Revision }}"}
        ---
        apiVersion: v1
        kind: Service
        metadata: {name: "{{ .Release.Name }}"}
        spec: {selector: {app: shop}, ports: [{port: 80}]}
        ---
        apiVersion: apps/v1
        kind: Deployment
        metadata: {name: "{{ .Release.Name }}"}
        spec:
          replicas: {{ .Values.replicas }}
          selector: {matchLabels: {app: shop}}
          template:
            metadata: {labels: {app: shop}}
            spec: {containers: [{name: c, image: none.invalid/shop}]}
        """,
    "templates/hook.yaml": """
        apiVersion: v1
        kind: ConfigMap
        metadata:
          name: "{{ .Release.Name }}-before"
          annotations: {"helm.sh/hook": "pre-install,pre-upgrade", "helm.sh/hook-delete-policy": before-hook-creation}
        data: {ran: "{{ .Release.Revision }}"}
        """,
}

OPERATOR = """
import kopf

@kopf.on.create('example.com', 'v1', 'lamps')
def lit(spec, name, namespace, patch, **_):
    import kubernetes
    kubernetes.config.load_kube_config()
    kubernetes.client.CoreV1Api().create_namespaced_config_map(namespace, {'metadata': {'name': name + '-bulb'}, 'data': {'colour': spec.get('colour', 'white')}})
    return {'bulb': name + '-bulb'}
"""

LIBRARY = """
import json, threading, time
import kubernetes
from kubernetes import client, config, dynamic, watch
config.load_kube_config()
core, apps = client.CoreV1Api(), client.AppsV1Api()
heard, begun = [], threading.Event()

def follow():
    # An informer as people write it: a list, then watches from there, begun again whenever one ends.
    listed = core.list_namespaced_config_map('default')
    version = listed.metadata.resource_version
    begun.set()
    while 'DELETED' not in [kind for kind, _ in heard]:
        for event in watch.Watch().stream(core.list_namespaced_config_map, 'default', resource_version=version, timeout_seconds=1, label_selector='of=library'):
            heard.append((event['type'], event['object'].metadata.name))
            version = event['object'].metadata.resource_version
def hears(kind):
    end = time.monotonic() + 20
    while kind not in [heard_kind for heard_kind, _ in heard] and time.monotonic() < end:
        time.sleep(0.05)
thread = threading.Thread(target=follow)
thread.start()
begun.wait(20)
core.create_namespaced_config_map('default', client.V1ConfigMap(metadata=client.V1ObjectMeta(name='m', labels={'of': 'library'}), data={'k': '1'}))
hears('ADDED')
core.patch_namespaced_config_map('m', 'default', {'data': {'k': '2'}})
try:
    core.create_namespaced_config_map('default', client.V1ConfigMap(metadata=client.V1ObjectMeta(name='m')))
    twice = 0
except client.ApiException as refused:
    twice = (refused.status, json.loads(refused.body)['reason'])
hears('MODIFIED')
core.delete_namespaced_config_map('m', 'default')
thread.join(20)
deployment = client.V1Deployment(metadata=client.V1ObjectMeta(name='lib'), spec=client.V1DeploymentSpec(replicas=0, selector={'matchLabels': {'a': 'b'}},
    template=client.V1PodTemplateSpec(metadata=client.V1ObjectMeta(labels={'a': 'b'}), spec=client.V1PodSpec(containers=[client.V1Container(name='c', image='none.invalid/x')]))))
apps.create_namespaced_deployment('default', deployment)
scale = apps.patch_namespaced_deployment_scale('lib', 'default', {'spec': {'replicas': 0}})
found = dynamic.DynamicClient(client.ApiClient()).resources.get(api_version='apps/v1', kind='Deployment')
named = found.get(name='lib', namespace='default')
apps.delete_namespaced_deployment('lib', 'default')
print(json.dumps({'heard': heard, 'twice': twice, 'scale': scale.kind, 'named': named.metadata.name}))
"""

SCRIPT = """
import * as k8s from '@kubernetes/client-node';
const config = new k8s.KubeConfig();
config.loadFromDefault();
const core = config.makeApiClient(k8s.CoreV1Api);
const heard = [];
const informer = k8s.makeInformer(config, '/api/v1/namespaces/default/configmaps', () => core.listNamespacedConfigMap({ namespace: 'default' }));
for (const kind of ['add', 'update', 'delete']) informer.on(kind, (one) => { if (one.metadata.name === 'js') heard.push(kind); });
informer.on('error', () => setTimeout(() => informer.start(), 100));
await informer.start();
await core.createNamespacedConfigMap({ namespace: 'default', body: { metadata: { name: 'js' }, data: { a: '1' } } });
await core.replaceNamespacedConfigMap({ name: 'js', namespace: 'default', body: { metadata: { name: 'js' }, data: { a: '2' } } });
await core.deleteNamespacedConfigMap({ name: 'js', namespace: 'default' });
for (let i = 0; i < 100 && !heard.includes('delete'); ++i) await new Promise((done) => setTimeout(done, 100));
await informer.stop();
console.log(JSON.stringify(heard));
process.exit(0);
"""


@unittest.skipIf(os.geteuid() != 0, "virtual nodes need root")
class KubeClients(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.c = Cluster(nodes=1, gpus=None)
        cls.c.up()
        cls.config = os.path.join(cls.c.work, "kubeconfig")
        cls.c.ok("lockstep", "kubeconfig", cls.config)
        cls.env = {**os.environ, "KUBECONFIG": cls.config, "HOME": cls.c.work}
        cls.folder = tempfile.mkdtemp(dir=cls.c.work)

    @classmethod
    def tearDownClass(cls):
        cls.c.down()

    def run_it(self, *argv, timeout=120, **words):
        done = subprocess.run(argv, capture_output=True, text=True, env=self.env, cwd=self.folder, timeout=timeout, **words)
        self.assertEqual(done.returncode, 0, f"{argv}: {done.stdout[-1500:]} {done.stderr[-3000:]}")
        return done.stdout

    def put(self, path, text):
        whole = os.path.join(self.folder, path)
        os.makedirs(os.path.dirname(whole), exist_ok=True)
        with open(whole, "w") as f:
            f.write(textwrap.dedent(text))
        return whole

    def test_kubectls_with_kustomize(self):
        found = programs("kubectl")
        if not found:
            self.skipTest("no kubectl is installed")
        self.put("k/base/kustomization.yaml", "resources: [map.yaml]\n")
        self.put("k/base/map.yaml", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: settings}\ndata: {a: '1'}\n")
        self.put("k/over/kustomization.yaml", "bases: [../base]\nnamePrefix: over-\ncommonLabels: {made: kustomize}\nconfigMapGenerator: [{name: more, literals: [b=2]}]\n"
                                              "patchesStrategicMerge: [nine.yaml]\n")
        self.put("k/over/nine.yaml", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: settings}\ndata: {a: '9'}\n")
        for path in found:
            version = json.loads(self.run_it(path, "version", "--client", "-o", "json"))["clientVersion"]["gitVersion"]
            with self.subTest(kubectl=version):
                self.run_it(path, "apply", "-k", "k/over")
                self.assertEqual(self.run_it(path, "get", "configmap", "over-settings", "-o", "jsonpath={.data.a}"), "9")
                self.assertIn("over-more-", self.run_it(path, "get", "configmaps", "-l", "made=kustomize"))
                self.run_it(path, "delete", "-k", "k/over")

    def test_helm(self):
        found = programs("helm")
        if not found:
            self.skipTest("helm is not installed")
        helm = found[0]
        for name, text in CHART.items():
            self.put("shop/" + name, text)
        self.run_it(helm, "install", "s", "./shop", "--wait", "--timeout", "60s")
        kept = lambda key: json.loads(self.run_it(helm, "get", "values", "s", "--all", "-o", "json"))[key]  # noqa: E731
        self.assertEqual(kept("greeting"), "hello")
        self.run_it(helm, "upgrade", "s", "./shop", "--set", "greeting=again", "--wait", "--timeout", "60s")
        self.assertEqual(kept("greeting"), "again")
        self.assertEqual([one["status"] for one in json.loads(self.run_it(helm, "history", "s", "-o", "json"))], ["superseded", "deployed"])
        self.run_it(helm, "rollback", "s", "1", "--wait", "--timeout", "60s")
        self.assertEqual(kept("greeting"), "hello")
        self.assertIn("shop-0.1.0", self.run_it(helm, "list"))
        self.run_it(helm, "uninstall", "s", "--wait", "--timeout", "60s")
        self.assertEqual(json.loads(self.run_it(helm, "list", "-o", "json")), [])

    def python(self):
        venv, why = environment(REQUIREMENTS)
        if why:
            self.skipTest(why)
        return venv

    def test_the_python_library(self):
        said = json.loads(self.run_it(self.python() + "/bin/python", self.put("library.py", LIBRARY)).strip().split("\n")[-1])
        self.assertEqual([kind for kind, _ in said["heard"]], ["ADDED", "MODIFIED", "DELETED"])
        self.assertEqual((said["twice"], said["scale"], said["named"]), ([409, "AlreadyExists"], "Scale", "lib"))

    def test_an_operator(self):
        venv = self.python()
        schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
        definition = {"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": {"name": "lamps.example.com"}, "spec": {
            "group": "example.com", "scope": "Namespaced", "names": {"plural": "lamps", "kind": "Lamp", "singular": "lamp"},
            "versions": [{"name": "v1", "served": True, "storage": True, "subresources": {"status": {}}, "schema": {"openAPIV3Schema": schema}}]}}
        with open(self.config) as f:
            ask = Client(yaml.safe_load(f)).must
        ask("POST", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", definition)
        operator = subprocess.Popen([venv + "/bin/kopf", "run", "--namespace", "default", self.put("operator.py", OPERATOR)], env=self.env, cwd=self.folder,
                                    stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        self.addCleanup(operator.wait)
        self.addCleanup(operator.terminate)
        lamps = "/apis/example.com/v1/namespaces/default/lamps"
        ask("POST", lamps, {"apiVersion": "example.com/v1", "kind": "Lamp", "metadata": {"name": "desk"}, "spec": {"colour": "green"}})
        lamp = eventually(lambda: (lambda one: one if one.get("status", {}).get("lit") else None)(ask("GET", lamps + "/desk")), timeout=60, what="the operator has seen it")
        self.assertEqual(lamp["status"]["lit"], {"bulb": "desk-bulb"})
        self.assertEqual(ask("GET", "/api/v1/namespaces/default/configmaps/desk-bulb")["data"], {"colour": "green"})

    def test_the_javascript_library(self):
        if not shutil.which("npm") or not shutil.which("node"):
            self.skipTest("node is not installed")
        home = os.path.join(TOP, "build", "clients-js")
        os.makedirs(home, exist_ok=True)
        if not os.path.isdir(os.path.join(home, "node_modules", "@kubernetes")):
            made = subprocess.run(["npm", "install", "--no-audit", "--no-fund", "--prefix", home, JAVASCRIPT], capture_output=True, text=True)
            if made.returncode != 0:
                self.skipTest("the package index gave no " + JAVASCRIPT + ": " + made.stderr[-300:])
        script = os.path.join(home, "informer.mjs")
        with open(script, "w") as f:
            f.write(SCRIPT)
        heard = json.loads(self.run_it("node", script).strip().split("\n")[-1])
        self.assertEqual((heard[0], heard[-1]), ("add", "delete"))


if __name__ == "__main__":
    unittest.main()
