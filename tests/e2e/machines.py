"""Machines for a test: network, host name and processes of their own, and a place of their own where Lockstep is installed.

A machine is pid 1 of its namespaces (`unshare`); ending it ends everything on it. Machines of one Lan reach each other at
10.99.0.1, .2 and so on. LOCKSTEP_INSTALL_ROOT says where the machine's /etc, /var/lib and /run of Lockstep are.
A machine with `units` has a systemctl that knows lockstepd.service and lockstep-agent.service: what real systemd does with
them is tested on real machines (scripts/vm)."""
import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile

from cluster import BIN, eventually

SYSTEMCTL = r'''#!/usr/bin/python3
import os, signal, subprocess, sys, time
root, tools = os.environ["LOCKSTEP_INSTALL_ROOT"], os.environ["LOCKSTEP_BIN"]
state = root + "/units"

def settings():
    values = {}
    with open(root + "/etc/lockstep/lockstepd.conf") as f:
        for line in f:
            if "=" in line and not line.startswith("#"):
                name, value = line.strip().split("=", 1)
                values[name] = value
    return values

def command(unit):
    if unit == "lockstepd.service":
        s = settings()
        return [tools + "/lockstepd", "--dir", root + "/var/lib/lockstep/controller", "--listen", s["LISTEN"],
                "--cluster-name", s["CLUSTER_NAME"], *s.get("OPTIONS", "").split()]
    return [tools + "/lockstep-agent", "--settings", root + "/etc/lockstep/agent.json"]

def pid_of(unit):
    try:
        with open(f"{state}/{unit}.pid") as f:
            pid = int(f.read())
        with open(f"/proc/{pid}/stat") as f:
            return 0 if f.read().rsplit(")", 1)[1].split()[0] == "Z" else pid
    except (OSError, ValueError):
        return 0

def start(unit):
    if pid_of(unit):
        return 0
    log = open(f"{state}/{unit}.log", "a")
    os.environ.pop("LOCKSTEP_DIR", None)
    child = subprocess.Popen(command(unit), stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True)
    with open(f"{state}/{unit}.pid", "w") as f:
        f.write(str(child.pid))
    ready = root + ("/var/lib/lockstep/controller/public/api.sock" if unit == "lockstepd.service" else
                    "/run/lockstep-agent/api.sock")
    for _ in range(1000):
        if child.poll() is not None:
            print(f"Job for {unit} failed.", file=sys.stderr)
            return 1
        if unit != "lockstepd.service" or (os.path.exists(ready) and os.path.exists(
                root + "/var/lib/lockstep/controller/controller.json") and
                str(child.pid) in open(root + "/var/lib/lockstep/controller/controller.json").read()):
            return 0
        time.sleep(0.01)
    return 1

def stop(unit):
    pid = pid_of(unit)
    if pid:
        os.kill(pid, signal.SIGTERM)
        while pid_of(unit):
            time.sleep(0.01)
    return 0

words = [w for w in sys.argv[1:] if w != "--quiet"]
verb, unit = words[0], words[-1]
if verb == "start":
    sys.exit(start(unit))
if verb == "stop":
    sys.exit(stop(unit))
if verb == "restart":
    sys.exit(stop(unit) or start(unit))
mark = f"{state}/{unit}.enabled"
if verb == "enable":
    open(mark, "w").close()
elif verb == "disable":
    os.path.exists(mark) and os.unlink(mark)
elif verb == "show":
    pid = pid_of(unit)
    print("LoadState=loaded", "ActiveState=" + ("active" if pid else "inactive"), "Result=success", f"MainPID={pid}",
          "UnitFileState=" + ("enabled" if os.path.exists(mark) else "disabled"), sep="\n")
else:
    sys.exit(f"systemctl {verb}: not played here")
'''
JOURNALCTL = r'''#!/bin/sh
for unit; do :; done
unit=${unit#_SYSTEMD_UNIT=} unit=${unit#--unit=}
exec cat "$LOCKSTEP_INSTALL_ROOT/units/$unit.log"
'''


class Lan:
    """The first machine holds the switch."""

    def __init__(self):
        self.home = tempfile.mkdtemp(prefix="lockstep-lan-")
        os.chmod(self.home, 0o755)
        self.machines = []

    def machine(self, name, units=False, env=None):
        made = Machine(self, name, len(self.machines) + 1, units, env)
        self.machines.append(made)
        made.plug_in(self.machines[0])
        return made

    def close(self):
        for machine in self.machines:
            machine.end()
        shutil.rmtree(self.home, ignore_errors=True)


class Machine:
    def __init__(self, lan, name, number, units, env):
        self.name, self.number, self.address = name, number, f"10.99.0.{number}"
        self.root = os.path.join(lan.home, name)
        self.work = os.path.join(self.root, "work")
        for path in ("etc/lockstep", "var/lib/lockstep", "run", "units", "bin"):
            os.makedirs(os.path.join(self.root, path))
        os.mkdir(self.work, 0o777)
        self.env = {k: v for k, v in os.environ.items() if not k.startswith(("SLURM_", "SBATCH_", "LOCKSTEP_"))}
        self.env.update(LOCKSTEP_INSTALL_ROOT=self.root, LOCKSTEP_BIN=BIN, HOME=self.root,
                        PATH=f"{self.root}/bin:{BIN}:{self.env['PATH']}", **(env or {}))
        own = "var/lib/lockstep/controller/public/api.sock" if units else "run/lockstep-agent/api.sock"
        self.env["LOCKSTEP_SOCKET"] = os.path.join(self.root, own)
        if units:
            os.makedirs(os.path.join(self.root, "run/systemd/system"))
            for tool, text in (("systemctl", SYSTEMCTL), ("journalctl", JOURNALCTL)):
                self.write(f"bin/{tool}", text, 0o755)
        self.holder = subprocess.Popen(
            ["unshare", "--net", "--uts", "--ipc", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc", "sh", "-c",
             "hostname " + name + "; ip link set lo up; echo ready; while sleep 5; do :; done"],
            stdout=subprocess.PIPE, text=True)
        if self.holder.stdout.readline() != "ready\n":
            raise AssertionError(f"machine {name} does not start")
        with open(f"/proc/{self.holder.pid}/task/{self.holder.pid}/children") as f:
            self.pid = int(f.read().split()[0])

    def write(self, path, text, mode=0o644):
        path = os.path.join(self.root, path)
        with open(path, "w") as f:
            f.write(text)
        os.chmod(path, mode)
        return path

    def plug_in(self, first):
        if first is self:
            self.ok("ip", "link", "add", "lan", "type", "bridge")
            self.ok("ip", "address", "add", f"{self.address}/24", "dev", "lan")
            self.ok("ip", "link", "set", "lan", "up")
            return
        # Without the first one's namespace of processes: there this pid would be nobody's.
        subprocess.run(["nsenter", "-t", str(first.pid), "-n", "ip", "link", "add", f"port{self.number}", "type", "veth", "peer",
                        "name", "eth0", "netns", str(self.pid)], check=True)
        first.ok("ip", "link", "set", f"port{self.number}", "master", "lan", "up")
        self.ok("ip", "address", "add", f"{self.address}/24", "dev", "eth0")
        self.ok("ip", "link", "set", "eth0", "up")

    def argv(self, argv):
        return ["nsenter", "-t", str(self.pid), "-n", "-u", "-i", "-m", "-p", *argv]

    def run(self, *argv, timeout=90, input=None, env=None):
        return subprocess.run(self.argv(argv), capture_output=True, text=True, timeout=timeout, input=input,
                              env={**self.env, **(env or {})}, cwd=self.work)

    def ok(self, *argv, **kwargs):
        result = self.run(*argv, **kwargs)
        if result.returncode != 0:
            raise AssertionError(f"{argv} on {self.name} ended with {result.returncode}\nstdout: {result.stdout}\n"
                                 f"stderr: {result.stderr}\n{self.logs()}")
        return result.stdout

    @contextlib.contextmanager
    def program(self, text, *argv):
        """Runs a program in Python that says "ready", and ends when its input does."""
        with subprocess.Popen(self.argv([sys.executable, "-c", text, *argv]), env=self.env, cwd=self.work, text=True,
                              stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
            if process.stdout.readline() != "ready\n":
                raise AssertionError("it does not begin: " + text)
            yield
            process.stdin.close()

    def install_controller(self, name="alpha", listen="127.0.0.1:6820"):
        self.write("etc/lockstep/lockstepd.conf", f"# The controller's settings.\nLISTEN={listen}\n\n"
                   f"CLUSTER_NAME={name}\nOPTIONS=\n# the end\n")

    def conf(self):
        with open(os.path.join(self.root, "etc/lockstep/lockstepd.conf")) as f:
            return f.read()

    def status(self):
        return json.loads(self.run("lockstep", "status", "-o", "json").stdout)

    def node(self, name):
        return next((n for n in self.status()["nodes"] if n["name"] == name), None)

    def record(self, name):
        out = self.ok("curl", "-s", "--unix-socket", f"{self.root}/var/lib/lockstep/controller/public/api.sock",
                      f"http://x/v1/nodes/{name}")
        return json.loads(out)

    def wait_state(self, name, states):
        return eventually(lambda: (lambda n: n if n and n["state"] in states else None)(self.node(name)), 60,
                          f"node {name} is one of {states}")

    def logs(self):
        out = []
        for folder, _, names in os.walk(self.root):
            for name in names:
                if name.endswith(".log") or name == "log":
                    with open(os.path.join(folder, name), errors="replace") as f:
                        out.append(f"--- {folder}/{name}\n" + "".join(f.readlines()[-15:]))
        return "\n".join(out)

    def traces(self):
        """What of a node lies on the machine."""
        found = []
        for path in ("etc/lockstep/agent.json", "var/lib/lockstep/pki", "var/lib/lockstep/node"):
            if os.path.exists(os.path.join(self.root, path)):
                found.append(path)
        return found

    def end(self):
        self.holder.send_signal(signal.SIGKILL)
        try:
            os.kill(self.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        self.holder.wait()
        self.holder.stdout.close()
