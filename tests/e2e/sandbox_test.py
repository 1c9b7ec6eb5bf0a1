"""Tasks with an address of their own and several containers, with real agents, plug-ins and processes."""
import os
import shutil
import subprocess
import unittest

import images
from cluster import Cluster, eventually

PLUGINS = "/usr/lib/cni"


def missing():
    wanted = [name for name in ("ptp", "host-local") if not os.access(os.path.join(PLUGINS, name), os.X_OK)]
    return ", ".join(wanted + [name for name in ("ip", "nsenter") if not shutil.which(name)])


@unittest.skipUnless(os.geteuid() == 0, "only root makes network namespaces")
@unittest.skipIf(missing(), f"these are not installed: {missing()}")
class Sandboxes(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.c = Cluster(nodes=2, gpus=None, cpus=4)
        cls.c.up()

    @classmethod
    def tearDownClass(cls):
        cls.c.down()

    def tearDown(self):
        for job in self.c.run("squeue", "-h", "-o", "%A").stdout.split():
            self.c.run("scancel", job)
        eventually(lambda: self.c.run("squeue", "-h").stdout.strip() == "", 60)

    def submit(self, name, containers, tasks=1, network="own", volumes=(), **group):
        sandbox = {"network": network, "containers": containers, "volumes": [{"name": volume} for volume in volumes]}
        group = {"launch": "tasks", "tasks": {"min": tasks, "max": tasks}, "per_task": {"cores": 1}, "sandbox": sandbox, **group}
        return self.c.api("POST", "/v1/jobs", {"spec": {"name": name, "groups": [group], "work_dir": self.c.work,
                                                        "std_out": os.path.join(self.c.work, f"{name}.out")}})["job_id"]

    def tasks(self, job):
        return self.c.api("GET", f"/v1/jobs/{job}")["tasks"]

    def task(self, job):
        return next(iter(self.tasks(job)), {})

    def container(self, job, name):
        return next((one for one in self.task(job).get("containers", []) if one["name"] == name), {})

    def runs(self, job, count=1):
        eventually(lambda: [t.get("ready") for t in self.tasks(job)] == [True] * count, 30, f"job {job} ready: {self.tasks(job)}")

    def output(self, name):
        path = os.path.join(self.c.work, f"{name}.out")
        if not os.path.exists(path):
            return ""
        with open(path) as file:
            return file.read()

    def taken(self, node):
        """Addresses that the node has given out."""
        pid = self.c.node(node)["agent_pid"]
        folder = f"/proc/{pid}/root/run/lockstep-agent/addresses/lockstep"
        return sorted(f for f in os.listdir(folder) if f[0].isdigit()) if os.path.isdir(folder) else []

    def test_a_task_has_an_address_that_every_node_reaches_and_gives_it_back(self):
        server = ["python3", "-c", "import http.server,socket;print(socket.gethostname(),flush=True);"
                  "http.server.test(http.server.SimpleHTTPRequestHandler,port=8080,bind='0.0.0.0')"]
        job = self.submit("web", [{"name": "web", "argv": server,
                                   "probes": [{"what": "readiness", "how": "http", "port": 8080, "period_us": 200000}]}], tasks=2,
                          nodes={"min": 2, "max": 2}, tasks_per_node=1)
        self.runs(job, 2)
        addresses = [t["address"] for t in self.tasks(job)]
        ranges = {n["meta"]["name"]: n["task_range"] for n in self.c.api("GET", "/v1/nodes")["nodes"]}
        self.assertEqual(len(set(ranges.values())), 2, ranges)
        self.assertEqual(len(set(addresses)), 2)
        for node in ("n1", "n2"):
            pid = str(self.c.node(node)["agent_pid"])
            for address in addresses:
                got = subprocess.run(["nsenter", "-t", pid, "-n", "curl", "-s", "-o", "/dev/null", "-m", "5", "-w", "%{http_code}",
                                      f"http://{address}:8080/"], capture_output=True, text=True)
                self.assertEqual(got.stdout, "200", f"{address} from {node}")
        for name in ("web-0", "web-1"):
            self.assertIn(f"{name}\n", self.output("web"))
        self.c.ok("scancel", str(job))
        self.c.wait(job, "CANCELLED")
        self.assertEqual([t.get("address") for t in self.tasks(job)], addresses, "who ended shows what it had")
        for node in ("n1", "n2"):
            eventually(lambda: self.taken(node) == [], 10, f"addresses of {node}: {self.taken(node)}")

    def test_a_container_starts_again_and_the_sandbox_stays(self):
        job = self.submit("again", [
            {"name": "stays", "argv": ["sleep", "600"]},
            {"name": "fails", "argv": ["sh", "-c", "sleep 0.3; exit 3"], "restart": "on_failure", "restarts_max": 2},
        ])
        eventually(lambda: self.container(job, "fails").get("state") == "ended", 30)
        task = self.task(job)
        self.assertEqual(task.get("incarnation", 1), 1)
        self.assertEqual(task["state"], "running")
        self.assertEqual(self.container(job, "fails")["restarts"], 2)
        self.assertEqual(self.container(job, "fails")["exit"], {"code": 3})
        self.assertEqual(self.container(job, "stays"), {**self.container(job, "stays"), "state": "running", "ready": True})
        rows = [line.split() for line in self.c.ok("lockstep", "tasks", str(job)).splitlines()]
        self.assertEqual(rows[0], ["TASK", "NODE", "STATE", "READY", "RESTARTS", "EXIT", "ADDRESS", "REASON"])
        self.assertEqual([row[:1] + row[2:] for row in rows[1:2]], [["0.0", "running", "no", "0", task["address"]]])
        self.assertEqual(rows[2:], [["stays", "running", "yes", "0"], ["fails", "ended", "no", "2", "3:0", "Error"]])

    def test_containers_come_in_their_order_and_share_what_the_sandbox_has(self):
        script = "echo {} $(hostname) >> $LOCKSTEP_VOLUMES/work/log"
        job = self.submit("order", [
            {"name": "main", "argv": ["sh", "-c", f"{script.format('main')}; cat $LOCKSTEP_VOLUMES/work/log; "
                                                   "curl -s --retry 50 --retry-connrefused --retry-delay 1 localhost:9000/log; ipcs -q | grep -c 0x"]},
            {"name": "first", "kind": "init", "argv": ["sh", "-c", f"{script.format('first')}; ipcmk -Q >/dev/null"]},
            {"name": "second", "kind": "init", "argv": ["sh", "-c", script.format("second")]},
            {"name": "files", "kind": "sidecar", "std_out": os.path.join(self.c.work, "files.out"),
             "argv": ["sh", "-c", "cd $LOCKSTEP_VOLUMES/work && exec python3 -m http.server 9000"]},
        ], volumes=["work"])
        self.c.wait(job, "COMPLETED", timeout=40)
        log = "first order-0\nsecond order-0\nmain order-0\n"
        self.assertIn(log + log + "1\n", self.output("order"))
        states = {one["name"]: (one["state"], one.get("exit", {}).get("code", 0)) for one in self.task(job)["containers"]}
        self.assertEqual({n: states[n] for n in ("main", "first", "second")}, {n: ("ended", 0) for n in ("main", "first", "second")})
        self.assertEqual(states["files"][0], "ended")

    def test_an_address_survives_the_agent_and_goes_with_a_killed_shim(self):
        job = self.submit("stay", [{"name": "main", "argv": ["sleep", "600"]}], only_nodes=["n1"])
        self.runs(job)
        address = self.task(job)["address"]
        self.assertEqual(self.taken("n1"), [address])
        old = self.c.node("n1")["agent_pid"]
        self.c.kill_agent("n1")
        eventually(lambda: self.c.node("n1")["agent_pid"] not in (0, old), 30)
        self.assertEqual(self.task(job)["address"], address)
        self.assertEqual(self.taken("n1"), [address])
        shims = [p for p in os.listdir("/proc") if p.isdigit() and self.folder_of(p).endswith(f"/shims/{job}-1-task-0.0.1")]
        for pid in shims:
            os.kill(int(pid), 9)
        self.c.wait(job, "FAILED")
        eventually(lambda: self.taken("n1") == [], 20)

    @staticmethod
    def folder_of(pid):
        try:
            return os.readlink(f"/proc/{pid}/cwd")
        except OSError:
            return ""

    @unittest.skipIf(images.missing(), f"these are not installed: {images.missing()}")
    def test_containers_of_images_share_network_and_volumes_with_those_of_the_node(self):
        layout = os.path.join(self.c.work, "layout")
        images.make_layout(layout, "v1")
        inside = {"image": f"oci:{layout}:v1", "mounts": [{"source": "volume:shared", "target": "/shared"}]}
        job = self.submit("images", [
            {"name": "boxed", "restart": "on_failure", "container": inside, "argv": [
                "/bin/sh", "-c", "test -e /fresh && exit 9; touch /fresh; cat /etc/os-release; echo at $LOCKSTEP_TASK_ADDRESS; "
                                 "test -e /shared/second && exit 0; touch /shared/second; exit 1"]},
            {"name": "plain", "argv": ["sh", "-c", "while ! test -e $LOCKSTEP_VOLUMES/shared/second; do sleep 0.1; done; "
                                                   "echo plain $LOCKSTEP_TASK_ADDRESS"]},
        ], volumes=["shared"])
        self.c.wait(job, "COMPLETED")
        self.assertEqual(self.container(job, "boxed")["restarts"], 1)  # with files that begin anew, in the same volume
        output = self.output("images")
        self.assertEqual(output.count("NAME=lockstep-test"), 2)
        address = next(line.split()[1] for line in output.splitlines() if line.startswith("plain "))
        self.assertEqual(output.count(f"at {address}\n"), 2)

    def test_an_image_that_is_not_there_is_told(self):
        job = self.submit("lost", [{"name": "boxed", "container": {"image": "oci:/no/such/layout:v1"}, "argv": ["true"]}])
        self.c.wait(job, "FAILED")
        self.assertEqual(self.container(job, "boxed")["reason"], "CreateContainerError")
        self.assertIn("/no/such/layout", self.output("lost"))

    def test_what_cannot_be_is_refused_with_the_reason(self):
        for containers, volumes, words in (
                ([{"name": "Web", "argv": ["true"]}], [], "no name of a container"),
                ([{"name": "a", "argv": ["true"]}, {"name": "a", "argv": ["true"]}], [], "two containers are called a"),
                ([{"name": "a", "kind": "init", "argv": ["true"]}], [], "needs a container of kind main"),
                ([{"name": "a"}], [], "container a has nothing to run"),
                ([{"name": "a", "argv": ["true"], "container": {"image": "x", "mounts": [{"source": "volume:v", "target": "/v"}]}}],
                 ["w"], "mounts volume v, which the sandbox does not have")):
            with self.assertRaises(Exception) as refused:
                self.submit("bad", containers, volumes=volumes)
            self.assertIn(words, str(refused.exception))


class WithoutAddresses(unittest.TestCase):
    def test_a_node_without_a_range_is_given_no_such_task_and_keeps_the_others(self):
        with Cluster(nodes=0, gpus=None) as c:
            def submit(network):
                group = {"launch": "tasks", "tasks": {"min": 1, "max": 1}, "per_task": {"cores": 1},
                         "sandbox": {"network": network, "containers": [{"name": "main", "argv": ["true"]}]}}
                return c.api("POST", "/v1/jobs", {"spec": {"name": "x", "groups": [group], "work_dir": c.work}})["job_id"]
            with self.assertRaises(AssertionError) as refused:
                submit("own")
            self.assertIn("no node of partition main that it may use has any to give", str(refused.exception))
            self.assertIn("groups[0].sandbox.network", str(refused.exception))
            c.wait(submit("host"), "COMPLETED")


if __name__ == "__main__":
    unittest.main()
