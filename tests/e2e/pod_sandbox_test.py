"""What pods need of sandboxes, over the plain API: root's containers made by runc, with users, limits, volumes, logs, programs
beside them and ports. What the controller asks of a node's containers is asked of the node itself here."""
import contextlib
import json
import os
import shutil
import socket
import struct
import subprocess
import time
import unittest

import images
from cluster import BIN, Cluster, eventually

OUTPUT, ERROR, END = 1, 2, 3


def missing():
    wanted = [name for name in ("runc", "nsenter") if not shutil.which(name)]
    wanted += [name for name in ("ptp", "host-local") if not os.access(os.path.join("/usr/lib/cni", name), os.X_OK)]
    return ", ".join(wanted + ([images.missing()] if images.missing() else []))


def frame(channel, data):
    return bytes([channel]) + struct.pack(">I", len(data)) + data


def frames(raw):
    """What came on each channel, and the word at the end."""
    out = {OUTPUT: b"", ERROR: b"", END: None}
    while len(raw) >= 5:
        channel, size = raw[0], struct.unpack(">I", raw[1:5])[0]
        out[channel] = raw[5:5 + size] if channel == END else out[channel] + raw[5:5 + size]
        raw = raw[5 + size:]
    return out


@unittest.skipUnless(os.geteuid() == 0, "only root has such sandboxes")
@unittest.skipIf(missing(), f"these are not installed: {missing()}")
class PodSandboxes(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.c = Cluster(nodes=1, gpus=None, cpus=8)
        cls.c.up()
        cls.layout = os.path.join(cls.c.work, "layout")
        os.mkdir(cls.layout)
        passwd = b"root:x:0:0::/root:/bin/sh\nweb:x:101:102::/srv:/bin/sh\n"
        group = b"web:x:102:\ndata:x:200:web\n"
        files = images.files_of_busybox(**{"etc/passwd": (passwd, 0o644), "etc/group": (group, 0o644)})
        cls.digest = images.make_layout(cls.layout, "v1", files=files, config={
            "Env": ["PATH=/bin", "COLOUR=blue"], "WorkingDir": "/srv/app", "Entrypoint": ["/entry"], "Cmd": ["pwd"], "User": "web"})

    @classmethod
    def image(cls, name, files, **config):
        """Another image, beside the one that all have."""
        layout = os.path.join(cls.c.work, name)
        os.mkdir(layout)
        images.make_layout(layout, "v1", files=files, config={"Env": ["PATH=/bin"], **config})
        return f"oci:{layout}:v1"

    @classmethod
    def tearDownClass(cls):
        cls.c.down()

    def tearDown(self):
        for job in self.c.run("squeue", "-h", "-o", "%A").stdout.split():
            self.c.run("scancel", job)
        eventually(lambda: self.c.run("squeue", "-h").stdout.strip() == "", 60)

    def container(self, name, script=None, **more):
        image = {"image": f"oci:{self.layout}:v1", **more.pop("inside", {})}
        return {"name": name, "container": image, **({"argv": ["sh", "-c", script]} if script else {}), **more}

    def submit(self, containers, kill_wait_us=2_000_000, **sandbox):
        sandbox = {"network": "own", "front_end_files": True, "containers": containers, **sandbox}
        group = {"launch": "tasks", "tasks": {"min": 1, "max": 1}, "per_task": {"cores": 1}, "sandbox": sandbox}
        return self.c.api("POST", "/v1/jobs", {"spec": {"name": "pod", "groups": [group], "work_dir": self.c.work,
                                                        "kill_wait_us": kill_wait_us,
                                                        "std_out": os.path.join(self.c.work, "pod.out")}})["job_id"]

    def status(self, job, name):
        tasks = self.c.api("GET", f"/v1/jobs/{job}")["tasks"]
        return next((one for task in tasks for one in task.get("containers", []) if one["name"] == name), {})

    def until(self, job, name, state, seconds=30, **more):
        def there():
            status = self.status(job, name)
            return status.get("state") == state and all(status.get(key) == value for key, value in more.items())
        eventually(there, seconds, f"{name} {state} {more}: {self.status(job, name)}")
        return self.status(job, name)

    def ends(self, job, name):
        return self.until(job, name, "ended")

    def reach(self, job, container, what, data=b"", seconds=20, until=None, **ask):
        """As the agent does it for the controller."""
        folder = os.path.join(self.c.dir, "nodes", "n1", "state", "containers", "0")
        path = os.path.join(self.c.work, "ask")
        with open(path, "w") as file:
            json.dump({"ask": {"what": what, "job": job, "container": container, **ask}, "work": f"{job}-1-task-0.0.1"}, file)
        mine, theirs = socket.socketpair()
        pid = self.c.node("n1")["agent_pid"]
        server = subprocess.Popen(["sh", "-c", f"exec nsenter -t {pid} -a {BIN}/lockstep-shim --reach {folder} 3<{path}"], stdin=theirs,
                                  stdout=theirs)
        theirs.close()
        out, end = b"", time.monotonic() + seconds
        with mine:
            mine.settimeout(1)
            with contextlib.suppress(BrokenPipeError, ConnectionResetError, TimeoutError):  # it has answered already
                mine.sendall(data)
            while time.monotonic() < end and not (until and until in out):
                try:
                    got = mine.recv(65536)
                except TimeoutError:
                    continue
                except ConnectionError:
                    break
                if not got:
                    break
                out += got
        server.wait(10)
        return out

    def run_beside(self, job, container, *argv, **ask):
        return frames(self.reach(job, container, "exec", argv=list(argv), **ask))

    def logs(self, job, container, **ask):
        return self.reach(job, container, "logs", **ask).decode()

    def test_a_container_is_who_its_image_or_its_pod_says_and_has_no_more_rights(self):
        show = "id -u; id -g; id -G; pwd; echo $HOME $COLOUR $MORE $ADDRESS $NODE; grep -E 'CapEff|NoNewPrivs|Seccomp:' /proc/self/status"
        job = self.submit([
            self.container("image", show, env=[["MORE", "yes"]],
                           placed_env=[{"what": "task_address", "name": "ADDRESS"}, {"what": "node_name", "name": "NODE"}]),
            self.container("asked", f"{show}; touch /new || echo closed",
                           rights={"uid": 1000, "gid": 2000, "groups": [3000], "no_new_privileges": True, "read_only_root": True,
                                   "seccomp": "unconfined"}, inside={"work_dir": "/tmp"}),
            self.container("root", "grep CapEff /proc/self/status; echo $$",
                           rights={"uid": 0, "drop_capabilities": ["ALL"], "add_capabilities": ["NET_ADMIN"]}),
        ], files_group=4000)
        for name in ("image", "asked", "root"):
            self.assertEqual(self.ends(job, name)["reason"], "Completed", self.logs(job, name))
        lines = self.logs(job, "image").splitlines()
        self.assertEqual(lines[:4], ["101", "102", "102 200 4000", "/srv/app"])
        words = lines[4].split()
        self.assertEqual(words[:3] + words[4:], ["/srv", "blue", "yes", "n1"])
        self.assertRegex(words[3], r"^10\.\d+\.\d+\.\d+$")
        self.assertEqual([line.split()[1] for line in lines[5:]], ["0000000000000000", "0", "2"])
        lines = self.logs(job, "asked").splitlines()
        self.assertEqual(lines[:4], ["1000", "2000", "2000 3000 4000", "/tmp"])
        self.assertEqual([line.split()[1] for line in lines[5:8]], ["0000000000000000", "1", "0"])
        self.assertIn("closed", lines)
        lines = self.logs(job, "root").splitlines()
        self.assertEqual(lines[0].split()[1], "0000000000001000")
        self.assertEqual(lines[1], "1", "the container's program is the first process there")
        self.assertEqual(self.status(job, "root")["image_digest"], self.digest)

    def test_what_runs_is_the_images_program_where_none_is_named(self):
        job = self.submit([self.container("bare"), self.container("words", argv=["echo", "hi"], inside={"entrypoint": True}),
                           self.container("own", argv=["echo", "hi"])])
        for name, text in (("bare", "entered pwd\n/srv/app\n"), ("words", "entered echo hi\nhi\n"), ("own", "hi\n")):
            self.ends(job, name)
            self.assertEqual(self.logs(job, name), text)

    def test_ends_are_told_in_the_words_of_pods(self):
        job = self.submit([
            self.container("message", "printf 'it is over' > /dev/termination-log; exit 4", message_file="/dev/termination-log",
                           rights={"uid": 1000}),
            self.container("tail", "echo first; echo the reason; exit 1", message_file="/dev/termination-log", message_from_log=True),
            self.container("killed", "kill -9 $$ & wait; sleep 9"),
            self.container("greedy", "exec head -c 60000000 /dev/zero > /dev/shm/x", memory_bytes=30_000_000),
            self.container("absent", argv=["/no/such/program"]),
            self.container("pull", "true") | {"container": {"image": "docker://127.0.0.1:1/none:v1"}},
            self.container("never", "true", fetch="never") | {"container": {"image": "docker://127.0.0.1:1/none:v2"}},
            self.container("name", "true") | {"container": {"image": "docker://INVALID@@"}},
            self.container("again", "exit 5", restart="always"),
        ])
        self.assertEqual(self.ends(job, "message")["message"], "it is over")
        self.assertEqual(self.status(job, "message")["exit"], {"code": 4})
        self.assertEqual(self.ends(job, "tail")["message"], "first the reason")
        self.assertEqual(self.ends(job, "greedy")["reason"], "OOMKilled")
        absent = self.ends(job, "absent")
        self.assertEqual((absent["reason"], absent["exit"]), ("StartError", {"code": 128}))
        self.assertIn("/no/such/program", absent["message"])
        self.assertIn(self.until(job, "pull", "waiting")["reason"], ("ErrImagePull", "ImagePullBackOff"))
        self.assertIn("127.0.0.1:1/none:v1", self.status(job, "pull")["message"])
        self.until(job, "never", "waiting", reason="ErrImageNeverPull")
        self.until(job, "name", "waiting", reason="InvalidImageName")
        again = self.until(job, "again", "waiting", reason="CrashLoopBackOff")
        self.assertEqual((again["last_reason"], again["exit"]), ("Error", {"code": 5}))
        self.assertGreaterEqual(again["last_ended_us"], again["last_started_us"])

    def test_who_goes_on_when_a_child_was_killed_for_its_memory_has_ended_well(self):
        job = self.submit([self.container("main", "(x=a; while :; do x=$x$x; done); echo $?; exit 0", memory_bytes=30_000_000,
                                          restart="on_failure")])
        status = self.ends(job, "main")
        self.assertEqual(status["reason"], "Completed", self.logs(job, "main"))
        self.assertFalse(status.keys() & {"exit", "restarts"}, "it ended by itself, with 0, and once")
        self.assertIn("137\n", self.logs(job, "main"))
        self.c.wait(job, "COMPLETED")

    def test_an_image_is_ended_by_the_signal_that_it_names(self):
        image = self.image("stops", images.files_of_busybox(), StopSignal="SIGUSR1")
        job = self.submit([self.container("main", "trap 'echo got USR1; exit 0' USR1; trap 'echo got TERM; exit 1' TERM; "
                                          "echo ready; while :; do sleep 0.1; done") | {"container": {"image": image}}])
        eventually(lambda: self.logs(job, "main") == "ready\n", 30, "it has set its traps")
        self.c.ok("scancel", str(job))
        self.c.wait(job, "CANCELLED")
        self.assertEqual(self.logs(job, "main"), "ready\ngot USR1\n")

    def test_links_of_an_image_lead_nobody_to_folders_of_the_node(self):
        trap = os.path.join(self.c.work, "trap")
        os.mkdir(trap)
        with open(os.path.join(trap, "ptmx"), "w") as file:
            file.write("of the node")
        files = {name: what for name, what in images.files_of_busybox().items() if not name.startswith("etc/")}
        links = {name: trap for name in ("dev", "proc", "sys", "run", "etc", "out")} | {"gone": "/nowhere/else", "var/run": "/run"}
        image = self.image("evil", files | links)
        show = ("ls -d /dev/null /proc/self/status /sys/fs; cat /etc/hostname; echo a > /out/in/a; echo b > /gone/b; echo c > /var/run/c/c; "
                "ls /run/c; [ -L /etc ] || echo folder")
        job = self.submit([self.container("main", show, message_file="/dev/termination-log", rights={"uid": 0}) | {
            "container": {"image": image, "mounts": [{"source": "volume:v", "target": target} for target in ("/out/in", "/gone", "/var/run/c")]}}],
            volumes=[{"name": "v"}], host_name="one")
        self.assertEqual(self.ends(job, "main")["reason"], "Completed", f"{self.status(job, 'main')}")
        self.assertEqual(self.logs(job, "main").split(), "/dev/null /proc/self/status /sys/fs one a b c folder".split())
        self.assertEqual(os.listdir(trap), ["ptmx"])
        with open(os.path.join(trap, "ptmx")) as file:
            self.assertEqual(file.read(), "of the node")

    def weights(self, job, container):
        """Of the control groups of the job, its task and a container: shares, or under version 2 weights."""
        groups = [line.split(":", 2) for line in self.run_beside(job, container, "cat", "/proc/self/cgroup")[OUTPUT].decode().split()]
        own = next((group for group in groups if "cpu" in group[1].split(",")), None) or next(group for group in groups if group[0] == "0")
        path, name = f"/sys/fs/cgroup/{own[1]}{own[2]}", "cpu.shares" if own[1] else "cpu.weight"
        out = []
        for _ in range(3):
            with open(os.path.join(path, name)) as file:
                out.insert(0, int(file.read()))
            path = os.path.dirname(path)
        return out

    def test_what_pods_ask_for_of_processors_weighs_between_them(self):
        def weights(*shares):
            version_1 = os.path.exists("/sys/fs/cgroup/cpu") or os.path.exists("/sys/fs/cgroup/cpu,cpuacct")
            return [one if version_1 else 1 + (one - 2) * 9999 // 262142 for one in shares]
        asks = self.submit([self.container("main", "sleep 600", cpu_weight=1500), self.container("other", "sleep 600", cpu_weight=500)])
        least = self.submit([self.container("main", "sleep 600")])
        for job in (asks, least):
            self.until(job, "main", "running")
        self.until(asks, "other", "running")
        self.assertEqual(self.weights(asks, "main"), weights(2048, 2048, 1536))
        self.assertEqual(self.weights(asks, "other"), weights(2048, 2048, 512))
        self.assertEqual(self.weights(least, "main"), weights(2, 2, 2))

    def test_a_volume_in_memory_is_no_larger_than_what_its_pod_may_hold(self):
        mounts = [{"source": "volume:memory", "target": "/memory"}]
        job = self.submit([self.container(name, "busybox df -k /memory | tail -n 1", memory_bytes=30 << 20, inside={"mounts": mounts})
                           for name in ("main", "other")], volumes=[{"name": "memory", "kind": "memory"}])
        self.ends(job, "main")
        self.assertEqual(self.logs(job, "main").split()[1], str(60 << 10))

    def test_volumes_are_shared_bounded_and_nobody_leads_out_of_them(self):
        secret = os.path.join(self.c.work, "secret")
        with open(secret, "w") as file:
            file.write("of the node")
        mounts = [{"source": "volume:disk", "target": "/disk"}, {"source": "volume:memory", "target": "/memory"},
                  {"source": "volume:node", "target": "/node", "read_only": True}]
        job = self.submit([
            self.container("first", f"ln -s {secret} /disk/out; ln -s / /disk/up; mkdir /disk/sub; echo here > /disk/sub/file; "
                           "head -c 3000000 /dev/zero > /memory/x 2>/dev/null || echo full; echo a > /dev/shm/y; stat -c %g:%a /disk",
                           kind="init", inside={"mounts": mounts}, rights={"uid": 1000}),
            self.container("main", "cat /a/file /single /dev/shm/y; ls /new; cat /b 2>/dev/null || echo closed; cat /node/secret; "
                           "touch /node/z 2>/dev/null || echo fixed",
                           inside={"mounts": mounts + [{"source": "volume:disk/sub", "target": "/a"},
                                                       {"source": "volume:disk/sub/file", "target": "/single"},
                                                       {"source": "volume:disk/made/by/us", "target": "/new"}]}),
            self.container("led", "true", inside={"mounts": [{"source": "volume:disk/out", "target": "/b"}]}),
        ], volumes=[{"name": "disk"}, {"name": "memory", "kind": "memory", "bytes_max": 1_000_000},
                    {"name": "node", "kind": "host", "path": self.c.work, "path_type": "Directory"}], files_group=4000)
        self.ends(job, "main")
        self.assertEqual(self.logs(job, "first"), "full\n4000:2777\n")
        self.assertEqual(self.logs(job, "main"), "here\nhere\na\nclosed\nof the nodefixed\n")
        # The link leads to a place within the volume, where nothing is.
        self.until(job, "led", "waiting", reason="CreateContainerConfigError")

    def test_a_volume_of_the_node_must_be_what_was_said(self):
        job = self.submit([self.container("main", "true")],
                          volumes=[{"name": "v", "kind": "host", "path": self.c.work, "path_type": "Socket"}])
        status = self.until(job, "main", "waiting", reason="ContainerCreating")
        eventually(lambda: "is not a socket" in self.status(job, "main").get("message", ""), 10, f"{status}")

    def test_logs_are_kept_for_each_life_and_followed(self):
        job = self.submit([self.container("main", "n=$(cat /v/n 2>/dev/null || echo 0); echo $((n+1)) > /v/n; echo life $n; "
                                          "echo bad >&2; while [ $n -gt 0 ]; do echo goes on; sleep 0.2; done; exit 1", restart="always",
                                          rights={"uid": 0}, inside={"mounts": [{"source": "volume:v", "target": "/v"}]})],
                          volumes=[{"name": "v"}])
        self.until(job, "main", "running", restarts=1)
        followed = self.reach(job, "main", "logs", follow=True, until=b"goes on\ngoes on\n")
        self.assertIn(b"life 1\n", followed)
        self.assertEqual(sorted(self.logs(job, "main", previous=True).splitlines()), ["bad", "life 0"])
        self.assertEqual(self.logs(job, "main", tail=1), "goes on\n")
        line = self.logs(job, "main", times=True).splitlines()[0]
        self.assertRegex(line, r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{9}Z (life 1|bad)$")
        self.c.ok("scancel", str(job))
        self.c.wait(job, "CANCELLED")
        self.assertIn("life 1\n", self.logs(job, "main"))

    def test_programs_run_beside_it_with_its_rights_and_a_terminal_if_wanted(self):
        job = self.submit([self.container("main", "sleep 600", rights={"uid": 1000}, env=[["MORE", "yes"]])])
        self.until(job, "main", "running")
        got = self.run_beside(job, "main", "sh", "-c", "id -u; echo $MORE; cat; echo bad >&2; exit 7", input=True,
                              data=frame(0, b"sent\n") + frame(0, b""))
        self.assertEqual(got, {OUTPUT: b"1000\nyes\nsent\n", ERROR: b"bad\n", END: b"exit 7"})
        self.assertEqual(self.run_beside(job, "main", "true")[END], b"")
        got = self.run_beside(job, "main", "sh", "-c", "tty; sleep 0.5; stty size", terminal=True, input=True, data=frame(4, b"100 40"))
        self.assertEqual(got[OUTPUT].split(), [b"/dev/pts/0", b"40", b"100"])
        self.assertIn(b"/nope", self.run_beside(job, "main", "/nope")[END])
        self.assertTrue(self.run_beside(job, "other", "true")[END].startswith(b"error"))

    def test_who_reads_nothing_of_his_input_is_heard_all_the_same(self):
        job = self.submit([
            self.container("main", "sleep 600"),
            self.container("deaf", "head -c 1 > /dev/null; echo bye; exit 4", keeps_input=True),
            {"name": "server", "argv": ["python3", "-c", "import socket\ns = socket.create_server(('127.0.0.1', 8097))\n"
                                        "while True:\n    c = s.accept()[0]; c.sendall(b'hello'); c.close()"],
             "probes": [{"what": "readiness", "how": "tcp", "host": "127.0.0.1", "port": 8097, "period_us": 200000}]},
        ])
        for name in ("main", "deaf"):
            self.until(job, name, "running")
        much = frame(0, b"x" * 60000) * 40
        for _ in range(3):
            got = self.run_beside(job, "main", "sh", "-c", "echo out; exit 4", input=True, data=much)
            self.assertEqual(got, {OUTPUT: b"out\n", ERROR: b"", END: b"exit 4"})
        self.until(job, "server", "running", ready=True)
        self.assertEqual(self.reach(job, "", "port", port=8097, data=b"x" * 3000000), b"hello")
        got = frames(self.reach(job, "deaf", "attach", input=True, data=much))
        self.assertEqual((got[OUTPUT], got[END]), (b"bye\n", b"exit 4"))

    def test_its_own_input_and_output_may_be_attached_to(self):
        job = self.submit([
            self.container("cat", "cat; echo bye", keeps_input=True, input_ends_once=True),
            self.container("shell", argv=["sh"], keeps_input=True, terminal=True),
        ])
        for name in ("cat", "shell"):
            self.until(job, name, "running")
        got = frames(self.reach(job, "cat", "attach", input=True, data=frame(0, b"to the cat\n") + frame(0, b"")))
        self.assertEqual(got, {OUTPUT: b"to the cat\nbye\n", ERROR: b"", END: b""})
        got = frames(self.reach(job, "shell", "attach", input=True, data=frame(4, b"80 24") + frame(0, b"echo $((6*7)); exit 3\n")))
        self.assertIn(b"42\r\n", got[OUTPUT])
        self.assertEqual(got[END], b"exit 3")

    def test_a_port_of_its_own_loopback_is_reached(self):
        job = self.submit([self.container("main", "sleep 600")] + [
            {"name": "server", "argv": ["python3", "-c", "import http.server;http.server.test(http.server.SimpleHTTPRequestHandler,"
                                                         "port=8099,bind='127.0.0.1')"],
             "probes": [{"what": "readiness", "how": "tcp", "host": "127.0.0.1", "port": 8099, "period_us": 200000}]}])
        self.until(job, "server", "running", ready=True)
        got = self.reach(job, "", "port", port=8099, data=b"GET / HTTP/1.0\r\n\r\n", until=b"\r\n")
        self.assertTrue(got.startswith(b"HTTP/1.0 200"), got)
        self.assertEqual(self.reach(job, "", "port", port=8098, seconds=5), b"")

    def test_hooks_run_behind_the_beginning_and_before_the_end(self):
        job = self.submit([
            self.container("main", "trap 'echo told; exit 0' TERM; while :; do sleep 0.1; done", rights={"uid": 0},
                           begun={"how": "exec", "argv": ["sh", "-c", "echo begun > /proc/1/fd/1"]},
                           ending={"how": "exec", "argv": ["sh", "-c", "echo ending > /proc/1/fd/1"]}),
            self.container("helper", "trap 'echo after > /proc/1/fd/1; exit 0' TERM; while :; do sleep 0.1; done", kind="sidecar"),
        ], kill_wait_us=20_000_000)
        self.until(job, "main", "running", begun=True)
        self.c.ok("scancel", str(job))
        self.c.wait(job, "CANCELLED")
        self.assertEqual(self.logs(job, "main").splitlines(), ["begun", "ending", "told"])
        self.assertEqual(self.logs(job, "helper"), "after\n")
        self.assertEqual(self.status(job, "main")["reason"], "Completed")

    def test_names_settings_and_processes_are_the_sandboxes(self):
        job = self.submit([
            self.container("main", "cat /etc/hosts /etc/resolv.conf; busybox hostname; cat /proc/sys/net/ipv4/ip_unprivileged_port_start"),
            self.container("other", "sleep 2", rights={"uid": 0}),
            self.container("sees", "sleep 1; busybox ps | grep -c 'sleep 2'", rights={"uid": 0}),
        ], host_name="one", domain="d.local", aliases=[{"address": "1.2.3.4", "names": ["a", "b"]}],
            lookup={"servers": ["10.0.0.10"], "searches": ["local"], "options": ["ndots:5"]},
            sysctls=[["net.ipv4.ip_unprivileged_port_start", "7"]], shared_processes=True)
        self.ends(job, "main")
        lines = self.logs(job, "main").splitlines()
        self.assertEqual(lines[0], "# Kubernetes-managed hosts file.")
        self.assertIn("1.2.3.4\ta\tb", lines)
        self.assertRegex("\n".join(lines), r"(?m)^10\.\d+\.\d+\.\d+\tone\.d\.local\tone$")
        self.assertEqual(lines[-5:], ["search local", "nameserver 10.0.0.10", "options ndots:5", "one", "7"])
        self.ends(job, "sees")
        self.assertGreaterEqual(int(self.logs(job, "sees")), 2, "itself and the other container's")

    @unittest.skipUnless(os.access("/usr/lib/cni/portmap", os.X_OK) and shutil.which("iptables"), "portmap or iptables is not installed")
    def test_a_port_of_the_node_leads_to_it_until_it_ends(self):
        serve = "while true; do printf 'HTTP/1.0 200 OK\r\n\r\nhello' | busybox nc -l -p 8080; done"
        job = self.submit([self.container("main", serve, rights={"uid": 0})], published=[{"node_port": 18080, "port": 8080}])
        self.until(job, "main", "running")
        address = self.c.node("n1")["address"]
        ask = ["curl", "-s", "-m", "2", f"http://{address}:18080/"]
        eventually(lambda: subprocess.run(ask, capture_output=True, text=True).stdout == "hello", 15)
        pid = str(self.c.node("n1")["agent_pid"])
        bind = ["nsenter", "-t", pid, "-n", "python3", "-c", "import socket;s=socket.socket();s.setsockopt(1,2,1);s.bind(('',18080));s.listen()"]
        self.assertIn("Address already in use", subprocess.run(bind, capture_output=True, text=True).stderr, "nobody listens there in vain")
        self.c.ok("scancel", str(job))
        self.c.wait(job, "CANCELLED")
        self.assertNotEqual(subprocess.run(ask, capture_output=True).returncode, 0)
        self.assertEqual(subprocess.run(bind).returncode, 0)
        # The agent's own port for other agents, one at which somebody listens on the loopback, an address of services.
        listening = subprocess.Popen(["nsenter", "-t", pid, "-n", "python3", "-c",
                                      "import socket;s=socket.socket();s.bind(('127.0.0.1',18081));s.listen();print('up',flush=True);s.accept()"],
                                     stdout=subprocess.PIPE, text=True)
        self.addCleanup(listening.wait)
        self.addCleanup(listening.kill)
        self.addCleanup(listening.stdout.close)
        self.assertEqual(listening.stdout.readline(), "up\n")
        listeners = subprocess.run(["nsenter", "-t", pid, "-n", "ss", "-Htlnp"], capture_output=True, text=True).stdout
        peer = next(int(line.split()[3].rsplit(":", 1)[1]) for line in listeners.splitlines() if "lockstep-agent" in line)
        for more in ({"node_port": peer}, {"node_port": 18081}, {"node_port": 53, "node_address": "10.96.0.10"}):
            job = self.submit([self.container("main", serve, rights={"uid": 0})], published=[{"port": 8080, **more}])
            if "node_address" in more:  # never; the others wait until who listens there has ended
                self.assertIn(self.c.wait(job), ("FAILED", "NODE_FAIL", "CANCELLED"))
            else:
                self.says_why(job, f"something else listens at port {more['node_port']}/tcp")
            self.assertNotIn(f":{more['node_port']} ", subprocess.run(["nsenter", "-t", pid, "-a", "iptables-save"], capture_output=True, text=True).stdout)
        rules = subprocess.run(["nsenter", "-t", pid, "-a", "iptables-save"], capture_output=True, text=True).stdout
        self.assertNotIn("18080", rules)

    def says_why(self, job, what):
        tasks = lambda: self.c.api("GET", f"/v1/jobs/{job}")["tasks"]  # noqa: E731
        eventually(lambda: any(what in task.get("reason", "") for task in tasks()), what=f"job {job} waits, as {what}: {tasks()}")

    def test_nothing_is_left_on_the_node(self):
        found = lambda: set(subprocess.run(["find", "/sys/fs/cgroup", "-type", "d", "-name", "main.0"],  # noqa: E731
                                           capture_output=True, text=True).stdout.split())
        before = found()  # other clusters' too
        job = self.submit([self.container("main", "sleep 600", memory_bytes=50_000_000)])
        self.until(job, "main", "running")
        own = {path for path in found() - before if f"/{job}-1/" in path}
        self.assertTrue(own)
        self.c.ok("scancel", str(job))
        self.c.wait(job, "CANCELLED")
        eventually(lambda: not found() & own, 10, "no group is left")


if __name__ == "__main__":
    unittest.main()
