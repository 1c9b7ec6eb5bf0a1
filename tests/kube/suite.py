#!/usr/bin/env python3
"""Kubernetes' own end-to-end suite, unmodified, against a cluster of ours.

  ./dev peers kubernetes [LIST]     LIST: dozen, api, fake-pods, containers, all, i/8 (a shard), beyond (conformance), or a file of test names
  ./dev peers kubernetes --document writes docs/kubernetes-compatibility.md anew from what was recorded
  ./dev peers kubernetes --build    builds the suite's programs from the published Go modules (half an hour on two cores)

Its programs (e2e.test, ginkgo, kubectl) lie in build/kubernetes, or in $LOCKSTEP_KUBERNETES_SUITE. A list that was stopped goes on where
it was: tests that have passed with these binaries are not run again unless --again is said. Exit codes: 0 all passed, 1 not, 2 wrong
usage, 77 the programs are not there.
"""
import argparse
import contextlib
import json
import os
import re
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
sys.path.insert(0, os.path.join(ROOT, "tests", "e2e"))
sys.path.insert(0, HERE)
import compatibility  # noqa: E402
import suite_images as images  # noqa: E402
VERSION = "1.34.4"
PROGRAMS = ("e2e.test", "ginkgo", "kubectl")
SKIPPED = 77


def programs():
    folder = os.environ.get("LOCKSTEP_KUBERNETES_SUITE") or os.path.join(ROOT, "build", "kubernetes")
    return folder if all(os.access(os.path.join(folder, name), os.X_OK) for name in PROGRAMS) else None


def rows():
    with open(os.path.join(HERE, "conformance.tsv")) as f:
        next(f)
        for line in f:
            shard, first, needs, images, whence, test = line.rstrip("\n").split("\t")
            yield {"shard": int(shard), "first": first == "yes", "needs": needs, "images": images, "from": whence, "test": test}


def tests_of(name):
    table = list(rows())
    needs = {"api": "api", "fake-pods": "fake pods", "containers": "containers"}
    if name == "dozen":
        return [r["test"] for r in table if r["first"]]
    if name in needs:
        return [r["test"] for r in table if r["needs"] == needs[name]]
    if name == "all":
        return [r["test"] for r in table]
    if name == "beyond":
        return list(compatibility.beyond())
    if re.fullmatch(r"[1-8]/8", name):
        return [r["test"] for r in table if r["shard"] == int(name[0])]
    if os.path.exists(name):
        with open(name) as f:
            return [line.rstrip("\n") for line in f if line.strip() and not line.startswith("#")]  # some names end with a space
    sys.exit(f"suite.py: {name} is no list and no file; known are dozen, {', '.join(needs)}, all, beyond and 1/8 to 8/8")


# The modules of Kubernetes' own repository, which its go.mod takes from beside it.
STAGING = """api apiextensions-apiserver apimachinery apiserver cli-runtime client-go cloud-provider cluster-bootstrap code-generator component-base
component-helpers controller-manager cri-api cri-client csi-translation-lib dynamic-resource-allocation endpointslice externaljwt kms
kube-aggregator kube-controller-manager kube-proxy kube-scheduler kubectl kubelet metrics mount-utils pod-security-admission
sample-apiserver sample-cli-plugin sample-controller""".split()


def source_folder():
    """A module that names the suite's, at the versions it was released with; Go programs of it are built there."""
    source = os.path.join(ROOT, "build", "kubernetes", "source")
    if os.path.exists(os.path.join(source, "go.sum")):
        return source
    os.makedirs(source, exist_ok=True)
    minor = "0." + VERSION.split(".", 1)[1]
    with open(os.path.join(source, "go.mod"), "w") as f:
        f.write("module suite\n\ngo 1.24\n\nrequire k8s.io/kubernetes v" + VERSION + "\n\nreplace (\n")
        f.writelines(f"\tk8s.io/{name} => k8s.io/{name} v{minor}\n" for name in STAGING)
        f.write(")\n")
    with open(os.path.join(source, "tools.go"), "w") as f:
        f.write('//go:build tools\n\npackage tools\n\nimport (\n\t_ "github.com/onsi/ginkgo/v2/ginkgo"\n\t_ "k8s.io/kubernetes/cmd/kube-scheduler"\n\t_ "k8s.io/kubernetes/cmd/kubectl"\n'
                '\t_ "k8s.io/kubernetes/test/e2e"\n\t_ "k8s.io/kubernetes/test/images/agnhost"\n)\n')
    go(source, "mod", "tidy")
    return source


def go(source, *argv):
    subprocess.run(["nice", "go", *argv], cwd=source, env={**os.environ, "CGO_ENABLED": "0", "GOFLAGS": "-mod=mod -buildvcs=false"}, check=True)


STAMP = "-s -w " + " ".join(f"-X {p}.gitVersion=v{VERSION} -X {p}.gitMajor=1 -X {p}.gitMinor={VERSION.split('.')[1]}"
                            for p in ("k8s.io/component-base/version", "k8s.io/client-go/pkg/version"))
PACKAGES = {"ginkgo": "github.com/onsi/ginkgo/v2/ginkgo", "kubectl": "k8s.io/kubernetes/cmd/kubectl", "kube-scheduler": "k8s.io/kubernetes/cmd/kube-scheduler"}


def build_program(name, folder):
    go(source_folder(), "build", "-trimpath", "-ldflags", STAMP, "-o", os.path.join(folder, name), PACKAGES[name])
    return 0


def build():
    source = source_folder()
    folder = os.path.dirname(source)
    build_program("ginkgo", folder)
    build_program("kubectl", folder)
    go(source, "test", "-c", "-vet=off", "-trimpath", "-ldflags", STAMP, "-o", os.path.join(folder, "e2e.test"), "k8s.io/kubernetes/test/e2e")
    images.make()
    return 0


def run_ginkgo(folder, config, tests, out, serial):
    """The names of those that passed and of those that did not."""
    focus = "(" + "|".join(re.sub(r"([][\\.*^$(){}?+|/])", r"\\\1", test) for test in tests) + ")"
    report = os.path.join(out, "serial.json" if serial else "parallel.json")
    argv = [os.path.join(folder, "ginkgo"), "--timeout=6h", f"--procs={1 if serial else 3}", "--no-color", "--focus=" + focus,
            "--output-dir=" + out, "--json-report=" + os.path.basename(report), os.path.join(folder, "e2e.test"), "--", "--provider=skeleton",
            "--kubeconfig=" + config, "--kubectl-path=" + os.path.join(folder, "kubectl"), "--dump-logs-on-failure=false", "--disable-log-dump",
            "--allowed-not-ready-nodes=-1", "--minStartupPods=-1", "--num-nodes=1"]
    with open(report.replace(".json", ".log"), "w") as log:
        subprocess.run(argv, stdout=log, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL,
                       env={**os.environ, "KUBE_TEST_REPO_LIST": images.repo_list(os.path.join(out, "registries.yaml"))})
    passed, failed = set(), set()
    if os.path.exists(report):
        with open(report) as f:
            for suite in json.load(f):
                for spec in suite["SpecReports"] or []:
                    if spec["LeafNodeType"] == "It" and spec["State"] not in ("skipped", "pending"):
                        name = " ".join((spec["ContainerHierarchyTexts"] or []) + [spec["LeafNodeText"]])
                        (passed if spec["State"] == "passed" else failed).add(name)
    return passed, failed


def judge(tests, out, again=False):
    """Runs them against a fresh cluster of two nodes; what has passed already is not run again."""
    from cluster import Cluster, eventually
    folder = programs()
    done_file = os.path.join(out, "passed.txt")
    done = set() if again or not os.path.exists(done_file) else set(open(done_file).read().splitlines())
    left = [test for test in tests if test not in done]
    failed = set()
    with Cluster(nodes=2, gpus="") as c, contextlib.ExitStack() as registries:
        if not images.missing():
            images.make()
            for node in ("n1", "n2"):  # each has it on its own loopback, where no certificate is wanted
                registries.enter_context(images.Registry(node_pid=c.node(node)["agent_pid"]))
        config = os.path.join(c.home, "kubeconfig")
        c.ok("lockstep", "kubeconfig", config)
        kubectl = lambda *argv: subprocess.run([os.path.join(folder, "kubectl"), "--kubeconfig", config, *argv], capture_output=True)
        eventually(lambda: kubectl("get", "serviceaccount", "default").returncode == 0, what="the first namespace is ready")
        for serial in (False, True):
            part = [test for test in left if ("[Serial]" in test) == serial]
            if part:
                passed, missed = run_ginkgo(folder, config, part, out, serial)
                done |= passed
                failed |= missed | (set(part) - passed)
                with open(done_file, "w") as f:
                    f.writelines(test + "\n" for test in sorted(done))
    return sorted(done & set(tests)), sorted(failed)


def main():
    parser = argparse.ArgumentParser(prog="./dev peers kubernetes", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("list", nargs="?", default="dozen")
    parser.add_argument("--build", action="store_true")
    parser.add_argument("--build-one", nargs=2, metavar=("PROGRAM", "FOLDER"), help=argparse.SUPPRESS)  # tests/clients/go/make
    parser.add_argument("--document", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--shard", metavar="i/8", help="the same as i/8 for LIST")
    parser.add_argument("--again", action="store_true", help="also what has passed already")
    parser.add_argument("--record", action="store_true", help="note in tests/kube/passed.txt what passes and what does not, for the document")
    parser.add_argument("--out", help="where reports go (build/kubernetes/LIST)")
    asked = parser.parse_args()
    if asked.build:
        return build()
    if asked.build_one:
        return build_program(*asked.build_one)
    if asked.document:
        compatibility.write(list(rows()))
        return 0
    asked.list = asked.shard or asked.list
    if not programs():
        print("the suite's programs are not there: ./dev peers kubernetes --build makes them")
        return SKIPPED
    out = os.path.abspath(asked.out or os.path.join(ROOT, "build", "kubernetes", re.sub(r"\W+", "-", asked.list)))
    os.makedirs(out, exist_ok=True)
    passed, failed = judge(tests_of(asked.list), out, asked.again)
    if asked.record:
        compatibility.record(passed, failed)
    for test in failed:
        print("failed:", test)
    print(f"{len(passed)} passed, {len(failed)} failed; reports in {out}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
