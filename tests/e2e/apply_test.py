"""One file for the whole cluster: apply, diff, get, what is refused, and what somebody changes meanwhile."""
import json
import os
import re
import subprocess
import threading
import unittest

from cluster import TOP, Cluster



def read(path):
    with open(path) as f:
        return f.read()


DOC = read(os.path.join(TOP, "docs", "cluster-file.md"))
EXAMPLE = re.search(r"```yaml\n(.*?)```", DOC, re.S).group(1)


class Apply(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.c = Cluster(nodes=2, gpus="2xh100", cpus=4)
        cls.c.up()
        cls.first = cls.c.ok("lockstep", "get")
        cls.name = cls.c.api("GET", "/v1/ping")["cluster"]

    @classmethod
    def tearDownClass(cls):
        cls.c.down()

    def setUp(self):
        # Each test begins with the cluster as it was made.
        self.ok("--prune", text=self.first + "nodes: {}\naccounts: {}\nlicences: {}\nreservations: {}\ntopology: {}\n"
                "policy: {}\n")

    def file(self, text, name="cluster.yaml"):
        path = os.path.join(self.c.work, name)
        with open(path, "w") as f:
            f.write(text)
        return path

    def apply(self, *words, text=None, verb="apply"):
        path = self.file(text) if text is not None else os.path.join(self.c.work, "cluster.yaml")
        return self.c.run("lockstep", verb, "-f", path, *words)

    def ok(self, *words, text=None, verb="apply"):
        done = self.apply(*words, text=text, verb=verb)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        return done.stdout

    def live(self):
        return self.c.ok("lockstep", "get")

    def test_the_example_of_the_guide(self):
        shown = self.ok("--dry-run", text=EXAMPLE)
        self.assertIn("partition main: time_max unlimited → 7d", shown)
        self.assertIn("account vision: new", shown)
        self.assertEqual(self.live(), self.first)
        self.assertIn("records changed", self.ok(text=EXAMPLE))
        self.assertEqual(self.ok(), "nothing to change\n")
        self.assertEqual(self.apply(verb="diff").returncode, 0)
        # Its inverse.
        got = self.live()
        self.assertEqual(self.ok(text=got), "nothing to change\n")
        piped = subprocess.run(["lockstep", "apply", "-f", "-"], input=got, env=self.c.env, text=True,
                               capture_output=True)
        self.assertEqual((piped.returncode, piped.stdout), (0, "nothing to change\n"))
        self.assertEqual(self.c.ok("lockstep", "get", "--keep", self.file(EXAMPLE)).split(": ")[1],
                         "nothing to write\n")
        self.assertEqual(read(self.file(EXAMPLE)), EXAMPLE)
        # What the Slurm commands say of it.
        self.assertIn("n[1-2]", self.c.ok("sinfo", "-h", "-o", "%N %f", "-p", "main"))
        self.assertIn("h100,nvlink", self.c.ok("sinfo", "-h", "-o", "%f", "-p", "main"))
        node = self.c.ok("scontrol", "show", "node", "n1")
        self.assertIn("Weight=10", node)
        self.assertIn("h100,nvlink", node)
        self.assertIn("MaxTime=7-00:00:00", self.c.ok("scontrol", "show", "partition", "main"))
        self.assertIn("vision", self.c.ok("sacctmgr", "-nP", "show", "account", "format=account"))
        job = self.c.run("srun", "-C", "nvlink", "-n1", "true")
        self.assertEqual(job.returncode, 0, job.stderr)
        self.assertNotEqual(self.c.run("srun", "-C", "ssd", "-n1", "true").returncode, 0)

    def test_keys_and_schema_are_those_of_the_guide(self):
        keys = self.c.ok("lockstep", "apply", "--keys")
        self.assertIn(keys, DOC, "docs/cluster-file.md: put what `lockstep apply --keys` prints behind \"All keys\"")
        schema = json.loads(self.c.ok("lockstep", "apply", "--schema"))
        for part in ("nodes", "partitions", "qos", "accounts", "licences", "reservations", "policy", "topology"):
            self.assertIn(part, schema["properties"])
        try:
            import jsonschema
            import yaml
        except ImportError:
            self.skipTest("no jsonschema here")
        check = jsonschema.Draft202012Validator(schema)
        check.check_schema(schema)
        self.assertEqual([e.message for e in check.iter_errors(yaml.safe_load(EXAMPLE))], [])
        for bad in ("partitions: {a: {nodes: ALL, tiem_max: 1d}}", "partitions: {a: {tier: 1}}",
                    "partitions: {a: {nodes: ALL, time_max: 60}}", "qos: {a: {flags: [bogus]}}", "bogus: {}",
                    "licences: {a: many}", "nodes: {a: {nodes: n1, memory: 5}}"):
            self.assertNotEqual(list(check.iter_errors(yaml.safe_load(bad))), [], bad)
            self.assertEqual(self.apply(text=bad + "\n").returncode, 1, bad)

    def test_drift_and_pruning(self):
        text = self.first + "licences: {matlab: 5}\n"
        self.ok(text=text)
        self.c.ok("scontrol", "update", "partition=main", "maxtime=3-0")
        self.c.ok("sacctmgr", "-i", "add", "qos", "extra")
        drift = self.apply(verb="diff")
        self.assertEqual(drift.returncode, 1)
        self.assertIn("partition main: time_max 3d → unlimited", drift.stdout)
        self.assertIn("QOS extra: not in the file", drift.stdout)
        told = json.loads(self.c.run("lockstep", "diff", "-o", "json", "-f", self.file(text)).stdout)
        self.assertIn({"kind": "partition", "name": "main", "what": "changed",
                       "keys": [{"key": "time_max", "before": "3d", "after": "unlimited"}]}, told["differences"])
        self.assertEqual(self.ok(), "partition main: time_max 3d → unlimited\nQOS extra: not in the file\n"
                         f"cluster {self.name}: 1 record changed\n")
        self.assertEqual(self.apply(verb="diff").returncode, 0, "what is not in the file is no drift")
        self.assertEqual(self.apply("--prune", verb="diff").returncode, 1)
        self.assertIn("QOS extra: not in the file, to be removed", self.ok("--prune"))
        self.assertNotIn("extra", self.live())
        # The controller does not let go what jobs use.
        job = self.c.ok("sbatch", "--parsable", "-p", "main", "--wrap", "sleep 60").strip()
        refused = self.apply("--prune", text="partitions:\n  other: {nodes: ALL}\n")
        self.c.ok("scancel", job)
        self.assertEqual(refused.returncode, 1)
        self.assertIn(f"removal of partition main: job {job} uses partition main", refused.stderr)
        self.assertIn("nothing was changed", refused.stderr)
        self.assertNotIn("other", self.live())

    def test_orders_that_need_care(self):
        for before, after in [
            ("nodes:\n  a: {nodes: n1, weight: 3}\n  b: {nodes: n2, features: [x]}\n",
             "nodes:\n  a: {nodes: n2, weight: 3}\n  b: {nodes: n1, features: [x]}\n"),
            ("nodes:\n  a: {nodes: 'n[1-2]'}\n", "nodes:\n  b: {nodes: 'n[1-2]'}\n"),
            ("qos:\n  normal: {}\n  a: {preempts: [b]}\n  b: {}\n", "qos:\n  normal: {}\n  a: {}\n  b: {preempts: [a]}\n"),
            ("accounts:\n  a:\n    accounts: {b: {accounts: {c: {users: [ann]}}}}\n",
             "accounts:\n  c:\n    users: [ann]\n    accounts: {b: {accounts: {a: {users: [ann]}}}}\n"),
            ("partitions:\n  main: {nodes: ALL, default: true}\n  p: {nodes: n1}\n",
             "partitions:\n  main: {nodes: ALL}\n  p: {nodes: n1, default: true}\n"),
            ("accounts:\n  a: {users: {ann: {default: true}}}\n  b: {users: [ann]}\n",
             "accounts:\n  a: {users: [ann]}\n  b: {users: {ann: {default: true}}}\n"),
        ]:
            self.ok("--prune", text=before)
            self.assertEqual(self.ok("--prune"), "nothing to change\n", before)
            self.ok("--prune", text=after)
            self.assertEqual(self.ok("--prune"), "nothing to change\n", after)

    def test_many_records(self):
        text = self.first + "accounts:\n  all:\n    users: [" + ", ".join(f"u{i}" for i in range(600)) + "]\n"
        self.assertIn("601 records changed", self.ok(text=text))
        self.assertEqual(self.ok(), "nothing to change\n")

    def test_somebody_changes_it_meanwhile(self):
        # A change between what apply reads and what it sends: found by its version.
        text = self.first.replace("nodes: ALL", "nodes: ALL\n    tier: 5")
        path = self.file(text)
        stop = threading.Event()
        conflicts = []

        def others():
            n = 0
            while not stop.is_set():
                n += 1
                self.c.api("PUT", "/v1/partitions/main", {"nodes": ["ALL"], "is_default": True, "priority": n})

        thread = threading.Thread(target=others)
        thread.start()
        for _ in range(40):
            done = self.c.run("lockstep", "apply", "-f", path)
            if done.returncode != 0:
                conflicts.append(done.stderr)
                break
        stop.set()
        thread.join()
        self.assertTrue(conflicts, "forty times in a row nobody came between")
        self.assertIn("partition main: partition main has changed since version", conflicts[0])
        self.assertIn("apply again", conflicts[0])
        self.assertIn("nothing was changed", conflicts[0])
        self.ok()

    def test_bad_files_change_nothing(self):
        before = self.live()
        for text, why in [
            ("", ":1: the file is empty"),
            ("partitions:\n  a: {nodes: ALL, tiem_max: 1d}\n",
             ":2: partitions.a: no key \"tiem_max\" is known: did you mean \"time_max\"?"),
            ("partitions:\n  a: {nodes: ALL}\n  a: {nodes: ALL}\n", ":3: a is there twice"),
            ("partitions:\n  a: {}\n", ":2: partitions.a: names no nodes"),
            ("nodes:\n  a: {nodes: n1}\n  b: {nodes: n1}\n", ":3: node class b: node n1 is in class a already"),
            ("partitions:\n  a: {nodes: ALL, qos: nromal}\n", ":2: partition a: qos: there is no QOS nromal"),
            ("partitions:\n  a: {nodes: ALL, time_max: 90}\n", "has no unit"),
            ("accounts:\n  a: {parent: b}\n  b: {parent: a}\n", ":2: account a: would be below itself"),
            ("reservations:\n  r: {start: 2035-01-01T00:00Z, duration: 1h, nodes: n9}\n",
             ":2: reservation r: Invalid node name specified: n9"),
            ("partitions:\n\ta: {nodes: ALL}\n", ":2: there is a tab before the words"),
            ("a: &x 1\n", ":1: anchors are not read"),
            ("#" * (16 << 20) + "\n", "larger than 16 MiB"),
        ]:
            done = self.apply(text=text)
            self.assertEqual((done.returncode, done.stdout), (1, "") if "Invalid node" not in why
                             else (1, done.stdout), text[:80])
            self.assertIn("cluster.yaml", done.stderr)
            self.assertIn(why, done.stderr)
            self.assertEqual(self.apply(text=text, verb="diff").returncode, 1 if "Invalid node" in why else 2)
        one = self.file("partitions:\n  a: {nodes: ALL}\n", "one.yaml")
        two = self.file("# two\npartitions:\n  a: {nodes: ALL}\n", "two.yaml")
        twice = self.c.run("lockstep", "apply", "-f", one, "-f", two)
        self.assertEqual(twice.returncode, 1)
        self.assertIn(f"{two}:3: partition a stands in {one}:2 already", twice.stderr)
        self.assertEqual(self.live(), before)
        # Names that nobody bears yet are noted, and are no error.
        noted = self.apply("--dry-run", text="partitions:\n  a: {nodes: 'n[1-9]'}\n")
        self.assertEqual(noted.returncode, 0)
        self.assertIn(":2: partition a: n[3-9] are no nodes of this cluster yet", noted.stderr)

    def test_less_than_expected_is_shown(self):
        self.ok(text="nodes:\n  big: {nodes: 'n[1-2]', cores: 64, gpus: 2}\n")
        said = "node n1 has 4 cores; its class big expects 64"
        self.assertIn(said, self.apply(verb="diff").stderr)
        self.assertIn("notice      " + said, self.c.ok("lockstep", "status"))

    def test_a_class_survives_restarts(self):
        self.ok(text="nodes:\n  fast: {nodes: n2, features: [fast], weight: 7}\n")
        self.c.ok("lockstep", "down", "--dir", self.c.dir)
        self.c.up()
        self.assertEqual(self.ok(), "nothing to change\n")
        self.assertIn("fast", self.c.ok("scontrol", "show", "node", "n2"))
        self.assertNotIn("fast", self.c.ok("scontrol", "show", "node", "n1"))
        self.ok("--prune", text="nodes: {}\n")
        self.assertNotIn("fast", self.c.ok("scontrol", "show", "node", "n2"))

    def test_kept_files(self):
        written = "# mine\npartitions:\n  main:   # all of them\n    nodes: ALL\n    default: true\n"
        self.ok(text=written)
        self.c.ok("scontrol", "update", "partition=main", "maxtime=2-0")
        path = self.file(written)
        self.c.ok("lockstep", "get", "--keep", path)
        self.assertEqual(read(path), written + "    time_max: 2d\n")
        gone = self.file(written + "  gone: {nodes: n1}\n")
        left = self.c.run("lockstep", "get", "--keep", gone)
        self.assertEqual(left.returncode, 1)
        self.assertIn("left: partition gone: in the file, and not in the cluster", left.stderr)
        self.assertEqual(json.loads(self.c.ok("lockstep", "get", "-o", "json", "partitions/main")),
                         {"partitions": {"main": {"nodes": "ALL", "default": True, "time_max": "2d"}}})
        self.assertEqual(self.c.run("lockstep", "get", "partitions/none").returncode, 1)

    def test_the_controller_is_away(self):
        env = dict(self.c.env, LOCKSTEP_SOCKET="/nonexistent/api.sock", LOCKSTEP_DIR="/nonexistent")
        path = self.file(EXAMPLE)
        for verb, code in (("apply", 1), ("diff", 2)):
            done = subprocess.run(["lockstep", verb, "-f", path], env=env, text=True, capture_output=True)
            self.assertEqual(done.returncode, code, done.stderr)
            self.assertIn("/nonexistent/api.sock", done.stderr)


if __name__ == "__main__":
    unittest.main()
