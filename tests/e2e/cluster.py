"""A real cluster for a test: `lockstep up` in a fresh directory, its commands, and `lockstep down` at the end."""
import contextlib
import http.client
import json
import os
import pty
import re
import shutil
import signal
import socket
import subprocess
import tempfile
import time

TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
BIN = os.environ.get("LOCKSTEP_BIN", os.path.join(TOP, "build", "release", "bin"))


class Connection(http.client.HTTPConnection):
    def __init__(self, path):
        super().__init__("localhost", timeout=60)
        self.path = path

    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(60)
        self.sock.connect(self.path)


class Cluster:
    def __init__(self, nodes=2, gpus="8xh100", cpus=None, extra=()):
        self.home = tempfile.mkdtemp(prefix="lockstep-e2e-")
        os.chmod(self.home, 0o755)
        self.dir = os.path.join(self.home, "cluster")
        self.work = os.path.join(self.home, "work")
        os.mkdir(self.work)
        os.chmod(self.work, 0o1777)
        self.args = []
        if nodes:
            self.args += ["--nodes", str(nodes)]
            if gpus:
                self.args += ["--gpus", gpus]
        if cpus:
            self.args += ["--cpus", str(cpus)]
        self.args += list(extra)
        self.env = {k: v for k, v in os.environ.items() if not k.startswith(("SLURM_", "SBATCH_", "LOCKSTEP_"))}
        self.env.update(PATH=BIN + ":" + self.env["PATH"], LOCKSTEP_DIR=self.dir, LOCKSTEP_LIMIT_SECONDS="1",
                        LOCKSTEP_SOCKET=os.path.join(self.dir, "public", "api.sock"))
        self.held = None  # the supervisor that is paused, so that the controller stays away

    def up(self):
        self.release_controller()
        return self.ok("lockstep", "up", "--dir", self.dir, *self.args, timeout=120)

    def down(self, delete=True):
        result = self.run("lockstep", "down", "--dir", self.dir, timeout=60)
        if delete:
            shutil.rmtree(self.home, ignore_errors=True)
        return result

    def __enter__(self):
        try:
            self.up()
        except Exception:
            self.down(delete=False)
            raise
        return self

    def __exit__(self, *exc):
        if exc[0] is not None:
            print(self.log_tail())
        self.down()

    def log_tail(self, lines=25):
        out = []
        for root, _, names in os.walk(self.dir):
            for name in names:
                if name in ("log", "controller.log"):
                    path = os.path.join(root, name)
                    with open(path, errors="replace") as f:
                        out.append(f"--- {path}\n" + "".join(f.readlines()[-lines:]))
        return "\n".join(out)

    # --- commands ---

    def run(self, *argv, timeout=60, input=None, env=None, cwd=None, text=True, user=None):
        if user is not None:
            argv = ("setpriv", f"--reuid={user}", f"--regid={user}", "--clear-groups", *argv)
        full = dict(self.env)
        full.update(env or {})
        return subprocess.run(argv, capture_output=True, text=text, timeout=timeout, input=input, env=full,
                              cwd=cwd or self.work)

    def at_terminal(self, *argv, timeout=60):
        """What somebody at a terminal sees of a command."""
        master, slave = pty.openpty()
        process = subprocess.Popen(argv, env={**self.env, "TERM": "xterm"}, cwd=self.work, stdin=slave, stdout=slave, stderr=slave,
                                   start_new_session=True)
        os.close(slave)
        said = b""
        with contextlib.suppress(OSError):  # the last one has closed it
            while chunk := os.read(master, 4096):
                said += chunk
        os.close(master)
        process.wait(timeout=timeout)
        return said.decode()

    def ok(self, *argv, **kwargs):
        result = self.run(*argv, **kwargs)
        if result.returncode != 0:
            raise AssertionError(f"{argv} ended with {result.returncode}\nstdout: {result.stdout}\nstderr: {result.stderr}")
        return result.stdout

    def api(self, method, path, body=None):
        """The answer of the HTTP API to whoever runs this."""
        with contextlib.closing(Connection(self.env["LOCKSTEP_SOCKET"])) as connection:
            connection.request(method, path, None if body is None else json.dumps(body))
            reply = connection.getresponse()
            text = reply.read().decode()
        if reply.status >= 300:
            raise AssertionError(f"{method} {path}: {reply.status} {text}")
        return json.loads(text) if text else None

    def sbatch(self, *argv, **kwargs):
        return self.ok("sbatch", "--parsable", *argv, **kwargs).strip().split(";")[0]

    def wrap(self, command, *options, **kwargs):
        return self.sbatch(*options, "--wrap", command, **kwargs)

    def state(self, job):
        return self.run("squeue", "-h", "-t", "all", "-j", str(job), "-o", "%T").stdout.strip().split("\n")[0]

    def wait(self, job, states=("COMPLETED", "FAILED", "CANCELLED", "TIMEOUT", "NODE_FAIL", "OUT_OF_MEMORY", "DEADLINE"),
             timeout=60):
        if isinstance(states, str):
            states = (states,)
        end = time.monotonic() + timeout
        state = "?"
        while time.monotonic() < end:
            state = self.state(job)
            if state in states:
                return state
            time.sleep(0.05)
        raise AssertionError(f"job {job} is {state}, not {states}, after {timeout} s\n"
                             + self.run("scontrol", "show", "job", str(job)).stdout)

    def show(self, job):
        """scontrol show job as a dictionary."""
        text = self.ok("scontrol", "-o", "show", "job", str(job))
        fields = {}
        for word in text.split():
            key, eq, value = word.partition("=")
            if eq:
                fields.setdefault(key, value)
        return fields

    def output(self, job, name="slurm-{}.out"):
        with open(os.path.join(self.work, name.format(job))) as f:
            return f.read()

    def script(self, text, name="job.sh"):
        path = os.path.join(self.work, name)
        with open(path, "w") as f:
            f.write(text)
        return path

    # --- the machine room ---

    def status(self):
        return json.loads(self.run("lockstep", "status", "--dir", self.dir, "-o", "json").stdout)

    def controller_pid(self):
        return self.status()["controller"]["pid"]

    def node(self, name):
        return next(n for n in self.status()["nodes"] if n["name"] == name)

    def idle(self):
        """Waits until no job has anything of any node. A job's things are free a moment after its srun has returned."""
        eventually(lambda: all(node["state"] == "idle" for node in self.status()["nodes"]), what="all nodes are idle")

    def supervisor_pid(self):
        return self.status()["controller"]["supervisor_pid"]

    def kill_controller(self, sig=signal.SIGKILL, hold=True):
        """Ends the controller. It stays away until up(); with hold=False its supervisor starts it again at once."""
        controller = eventually(lambda: (lambda c: c if c["pid"] else None)(self.status()["controller"]), 15, "a controller")
        if hold:
            self.held = controller["supervisor_pid"]
            send(self.held, signal.SIGSTOP)
        send(controller["pid"], sig)
        while running(controller["pid"]):
            time.sleep(0.002)

    def release_controller(self):
        if self.held:
            send(self.held, signal.SIGCONT)
            self.held = None

    def answers(self):
        return self.run("squeue").returncode == 0

    def kill_agent(self, node):
        send(self.node(node)["agent_pid"])

    def pull_plug(self, node):
        self.ok("lockstep", "node", "kill", node, "--dir", self.dir)


def turns(c):
    """The longest turn of each loop, and of what was slow in the core, in microseconds of CPU time."""
    text = c.ok("curl", "-s", "--unix-socket", c.env["LOCKSTEP_SOCKET"], "http://lockstep/metrics")
    longest = {m[1]: int(m[2]) for m in re.finditer(r'lockstep_longest_turn_us\{loop="(\w+)"\} (\d+)', text)}
    slow = {m[1]: int(m[2]) for m in
            re.finditer(r'lockstep_slow_turn_longest_us\{loop="core",what="([^"]*)"\} (\d+)', text)}
    return longest, slow


def send(pid, sig=signal.SIGKILL):
    """os.kill for a process that a status named. A status says 0 for one that does not run, and kill(0) would end the tests."""
    if pid <= 1:
        raise AssertionError(f"a signal to process {pid}: the status read last named no process")
    os.kill(pid, sig)


def handles(pid, sig):
    """Whether the process has a handler for the signal, or reads it as it likes."""
    with open(f"/proc/{pid}/status") as f:
        masks = dict(line.split(":\t") for line in f if line.startswith(("SigBlk", "SigCgt")))
    return any(int(mask, 16) >> (sig - 1) & 1 for mask in masks.values())


def started_at(pid):
    """When a process began, in seconds since the epoch, by the kernel."""
    with open(f"/proc/{pid}/stat") as f:
        ticks = int(f.read().rsplit(")", 1)[1].split()[19])
    with open("/proc/uptime") as f:
        age = float(f.read().split()[0]) - ticks / os.sysconf("SC_CLK_TCK")
    return time.time() - age


def running(pid):
    try:
        with open(f"/proc/{pid}/stat") as f:
            return f.read().rsplit(")", 1)[1].split()[0] != "Z"
    except OSError:
        return False


PATIENCE_S = 60  # so long a machine may be busy with other things: whoever waits tests that nothing hangs, not how fast it is


def eventually(check, timeout=PATIENCE_S, what="condition"):
    timeout = max(timeout, PATIENCE_S)
    end = time.monotonic() + timeout
    last = None
    while time.monotonic() < end:
        last = check()
        if last:
            return last
        time.sleep(0.05)
    raise AssertionError(f"{what} did not come true in {timeout} s; last: {last!r}")
