"""Hostile nodes and strangers: whoever is root on a node, held a certificate once, or guesses tokens gets no further.

Runs in a mount namespace of its own, so that /etc/passwd and /etc/group can be changed for this test alone.
"""
import ctypes
import json
import os
import shutil
import socket
import ssl
import struct
import subprocess
import tempfile
import threading
import time
import unittest

from cluster import BIN, Cluster, eventually, send

OWNER, BOSS, ANN, ANN_ANEW = 31001, 31002, 31003, 31004  # uids
GROUP_BEFORE, GROUP_AFTER = 31101, 31102
etc = None  # our own passwd and group


def write_database(users, groups):
    for name, lines in (("passwd", users), ("group", groups)):
        with open(os.path.join(etc, name + ".orig")) as f:
            text = f.read()
        with open(os.path.join(etc, name), "w") as f:
            f.write(text + "".join(line + "\n" for line in lines))


def user_line(name, uid):
    return f"{name}:x:{uid}:{uid}::/:/bin/sh"


def setUpModule():
    global etc
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.unshare(0x00020000) != 0:  # CLONE_NEWNS
        raise OSError(ctypes.get_errno(), "unshare")
    subprocess.run(["mount", "--make-rprivate", "/"], check=True)
    etc = tempfile.mkdtemp(prefix="lockstep-etc-")
    os.chmod(etc, 0o755)
    for name in ("passwd", "group"):
        shutil.copy("/etc/" + name, os.path.join(etc, name))
        shutil.copy("/etc/" + name, os.path.join(etc, name + ".orig"))
        subprocess.run(["mount", "--bind", os.path.join(etc, name), "/etc/" + name], check=True)


def tearDownModule():
    for name in ("passwd", "group"):
        subprocess.run(["umount", "/etc/" + name], check=False)
    shutil.rmtree(etc, ignore_errors=True)


class RawLink:
    """A node's end of a link, spoken by hand: what root on a node can do with the node's own files."""

    def __init__(self, c, pki, node, upgrade="lockstep-link/1", path="/v1/link", address=None):
        host, port = address or controller(c)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname = False
        context.load_verify_locations(os.path.join(pki, "ca.crt"))
        context.load_cert_chain(os.path.join(pki, "node.crt"), os.path.join(pki, "node.key"))
        self.node = node
        self.s = context.wrap_socket(socket.create_connection((host, port), timeout=60))
        self.s.sendall(f"GET {path} HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: {upgrade}\r\n\r\n".encode())
        self.data = b""
        while b"\r\n\r\n" not in self.data:
            more = self.s.recv(65536)
            if not more:
                break
            self.data += more
        head, _, self.data = self.data.partition(b"\r\n\r\n")
        self.status = int(head.split()[1]) if head else 0  # 0: closed without a word

    def send(self, kind, stream, payload):
        payload = payload if isinstance(payload, bytes) else json.dumps(payload).encode()
        self.s.sendall(struct.pack(">IBQ", 9 + len(payload), kind, stream) + payload)

    def receive(self):
        """The next frame, or None at the end."""
        while len(self.data) < 4 or len(self.data) < 4 + struct.unpack(">I", self.data[:4])[0]:
            try:
                more = self.s.recv(65536)
            except (OSError, ssl.SSLError):
                more = b""
            if not more:
                return None
            self.data += more
        length = struct.unpack(">I", self.data[:4])[0]
        kind, stream = struct.unpack(">BQ", self.data[4:13])
        payload, self.data = self.data[13:4 + length], self.data[4 + length:]
        return kind, stream, payload

    def is_cut(self, patience=60):
        """Whether the other end closes it, not for our silence: we ask something every second."""
        self.s.settimeout(1)
        for call in range(1000, 1000 + patience):
            try:
                if not self.s.recv(65536):
                    return True
            except TimeoutError:
                pass
            except OSError:
                return True
            try:
                self.send(2, call, json.dumps({"method": "GET", "target": "/v1/ping", "uid": 0, "gid": 0}).encode() + b"\n")
            except OSError:
                return True
        return False

    def hello(self):
        self.send(1, 0, {"hello": {"protocol_min": 1, "protocol_max": 1, "facts": {
            "meta": {"name": self.node}, "boot_id": "by hand", "cores": 4, "memory_mb": 4096, "has_fence_hook": True,
            "trust_administrators": True}}})
        kind, _, payload = self.receive() or (0, 0, b"{}")
        return next(iter(json.loads(payload)), None) if kind == 1 else None

    def call(self, uid, method, target, body=b"", call=1):
        head = {"method": method, "target": target, "uid": uid, "gid": uid}
        self.send(2, call, json.dumps(head).encode() + b"\n" + body)
        while True:
            frame = self.receive()
            if frame is None:
                return None
            if frame[0] == 3 and frame[1] == call:
                return json.loads(frame[2].split(b"\n", 1)[0])["status"]

    def close(self):
        self.s.close()


def controller(c):
    with open(os.path.join(c.dir, "cluster.conf")) as conf_file:
        conf = dict(line.strip().split("=", 1) for line in conf_file if "=" in line)
    return f"10.{conf['network']}.0.1", int(conf["port"])


class Hostile(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        write_database([user_line("lsowner", OWNER), user_line("lsboss", BOSS), user_line("lsann", ANN)],
                       [f"lsbefore:x:{GROUP_BEFORE}:lsann"])
        cls.c = Cluster(nodes=3, gpus=None, cpus=8)
        cls.c.up()

    @classmethod
    def tearDownClass(cls):
        cls.c.down()

    def pki(self, node):
        return os.path.join(self.c.dir, "nodes", node, "pki")

    def inside(self, node, *argv, uid=0, **kwargs):
        """Root on the node, as any user it likes, through the node's own socket."""
        return self.c.run("nsenter", "-t", str(self.c.node(node)["pid"]), "-m", "-n", "-u", "-p", "setpriv",
                          f"--reuid={uid}", f"--regid={uid}", "--clear-groups", *argv,
                          env={"LOCKSTEP_SOCKET": "/run/lockstep/api.sock"}, cwd="/", **kwargs)

    def running(self, *options, user=None):
        job = self.c.run("sbatch", "--parsable", *options, "--wrap", "sleep 300", user=user).stdout.strip()
        self.c.wait(job, "RUNNING")
        return job

    def token(self, *options):
        return self.c.ok("lockstep", "node", "token", "--dir", self.c.dir, *options).strip()

    def join(self, node, token, where=None):
        """where: from which node's address; those that fail too often have to wait."""
        pki = tempfile.mkdtemp(dir=self.c.work)
        host, port = controller(self.c)
        words = ["lockstep", "node", "join", "--controller", f"{host}:{port}", "--node", node, "--pki", pki, "--token", token]
        return pki, self.inside(where, *words) if where else self.c.run(*words)

    def up(self, node):
        return self.c.node(node)["state"] not in ("down", "unknown")

    # --- row 10: root on a node ---

    def test_an_administrators_job_makes_its_node_no_administrator(self):
        job = self.running("-w", "n1", user=BOSS)
        self.c.ok("sacctmgr", "-i", "add", "account", "staff")
        self.c.ok("sacctmgr", "-i", "add", "user", "lsboss", "account=staff", "adminlevel=admin")
        self.assertEqual(self.c.run("scontrol", "update", "nodename=n3", "weight=2", user=BOSS).returncode, 0)
        for command in (["scontrol", "update", "nodename=n2", "state=drain", "reason=x"], ["scontrol", "delete", "partition=main"],
                        ["sacctmgr", "-i", "add", "account", "mine"]):
            refused = self.inside("n1", *command, uid=BOSS)
            self.assertNotEqual(refused.returncode, 0, (command, refused.stdout))
        self.assertEqual(self.inside("n1", "squeue", "-h", "-j", job, uid=BOSS).returncode, 0)
        self.assertNotEqual(self.inside("n2", "squeue", "-h", uid=BOSS).returncode, 0, "no job of it is there")
        self.c.ok("lockstep", "node", "update", "n1", "--trust-administrators", "--dir", self.c.dir)
        self.assertEqual(self.inside("n1", "scontrol", "update", "nodename=n3", "weight=3", uid=BOSS).returncode, 0)
        self.c.ok("lockstep", "node", "update", "n1", "--no-trust-administrators", "--dir", self.c.dir)
        self.assertNotEqual(self.inside("n1", "scontrol", "update", "nodename=n3", "weight=4", uid=BOSS).returncode, 0)
        # Its own rights it has: and only while the job is there.
        self.c.ok("scancel", job)
        self.c.wait(job)
        self.assertNotEqual(self.inside("n1", "squeue", "-h", uid=BOSS).returncode, 0)

    def test_roots_job_makes_its_node_not_root_elsewhere(self):
        here, there = self.running("-w", "n1"), self.running("-w", "n2")
        refused = self.inside("n1", "sbatch", "--wrap", "id")
        self.assertNotEqual(refused.returncode, 0)
        self.assertIn("--trust-administrators", refused.stderr)
        self.assertNotEqual(self.inside("n1", "srun", "id").returncode, 0)
        elsewhere = self.inside("n1", "srun", "--jobid", there, "--overlap", "id")
        self.assertNotEqual(elsewhere.returncode, 0)
        self.assertNotIn("uid=0", elsewhere.stdout)
        own = self.inside("n1", "srun", "--jobid", here, "--overlap", "id", "-u")
        self.assertEqual(own.stdout.strip(), "0", own.stderr)
        self.assertNotEqual(self.inside("n1", "scontrol", "update", "nodename=n2", "state=drain", "reason=x").returncode, 0)
        self.assertEqual(self.inside("n1", "scancel", here).returncode, 0)
        self.c.ok("scancel", there)

    def test_a_node_speaks_for_nobody_else(self):
        job = self.running("-w", "n2", user=OWNER)
        self.assertEqual(self.inside("n2", "squeue", "-h", "-j", job, uid=OWNER).returncode, 0)
        for node, uid in (("n1", OWNER), ("n2", ANN), ("n2", 65534)):
            self.assertNotEqual(self.inside(node, "scancel", job, uid=uid).returncode, 0, (node, uid))
        # The same by hand, with the node's own key: the link is replaced, the rights are not.
        link = RawLink(self.c, self.pki("n3"), "n3")
        self.assertEqual(link.status, 101)
        self.assertEqual(link.call(OWNER, "GET", "/v1/jobs"), 403, "before it is welcome")
        self.assertEqual(link.hello(), "welcome")
        for number, uid in enumerate((0, OWNER, BOSS), 2):
            self.assertEqual(link.call(uid, "POST", f"/v1/jobs/{job}/cancel", b"{}", call=2 * number + 1), 403)
        node = json.loads(self.c.ok("curl", "-s", "--unix-socket", self.c.env["LOCKSTEP_SOCKET"], "http://x/v1/nodes/n3"))
        self.assertNotIn("trust_administrators", node, "the node's own word")
        link.close()
        eventually(lambda: self.up("n3"), what="the real n3 is back")
        self.assertEqual(self.c.state(job), "RUNNING")
        self.c.ok("scancel", job)

    def test_a_broker_speaks_for_its_users_and_not_for_root(self):
        pki, joined = self.join("login", self.token("--node", "login", "--broker", "campus"))
        self.assertEqual(joined.returncode, 0, joined.stderr)
        link = RawLink(self.c, pki, "login")
        self.assertEqual(link.hello(), "welcome")
        self.assertEqual(link.call(0, "GET", "/v1/jobs", call=3), 403)
        self.assertEqual(link.call(40001, "GET", "/v1/jobs", call=5), 200)
        self.assertEqual(link.call(40001, "POST", "/v1/tokens", b'{"node":"x"}', call=7), 403)
        self.c.ok("lockstep", "node", "revoke", "login", "--dir", self.c.dir)
        self.assertTrue(link.is_cut())
        self.c.ok("lockstep", "node", "remove", "login", "--dir", self.c.dir)

    # --- row 17: certificates, names, tokens ---

    def start_agent(self, name, pki):
        """By hand, as on another machine: nobody starts it again. Its process and the path of its log."""
        settings = json.load(open(os.path.join(self.c.dir, "nodes", "n1", "agent.json")))
        state = tempfile.mkdtemp(dir=self.c.work)
        settings.update(node=name, address="127.0.0.1", ca=f"{pki}/ca.crt", certificate=f"{pki}/node.crt",
                        key=f"{pki}/node.key", state_dir=state, run_dir=state, socket=f"{state}/api.sock", boot_id_file="",
                        controller_host=controller(self.c)[0], cluster_dir="")
        path = os.path.join(state, "agent.json")
        json.dump(settings, open(path, "w"))
        log = os.path.join(state, "log")
        with open(log, "w") as f:
            return subprocess.Popen([os.path.join(BIN, "lockstep-agent"), "--settings", path], stderr=f), log

    def test_an_agent_outlives_a_moment_without_its_key(self):
        """Certificate and key are exchanged one after the other, and a redial may fall between."""
        pki, joined = self.join("moved", self.token("--node", "moved"))
        self.assertEqual(joined.returncode, 0, joined.stderr)
        agent, log = self.start_agent("moved", pki)
        try:
            eventually(lambda: "connected to cluster" in open(log).read(), what="it is connected")
            os.rename(f"{pki}/node.key", f"{pki}/aside")
            send(self.c.controller_pid())
            eventually(lambda: "cannot be used" in open(log).read(), 30, "it says what it lacks")
            self.assertIsNone(agent.poll(), "and goes on")
            os.rename(f"{pki}/aside", f"{pki}/node.key")
            eventually(lambda: open(log).read().count("connected to cluster") == 2, 30, "it is back")
            self.assertEqual(open(log).read().count("cannot be used"), 1, "said once")
        finally:
            agent.terminate()
            agent.wait(10)
        self.c.ok("lockstep", "node", "revoke", "moved", "--dir", self.c.dir)
        self.c.ok("lockstep", "node", "remove", "moved", "--dir", self.c.dir)

    def test_a_removed_nodes_certificate_is_worth_nothing(self):
        pki, joined = self.join("spare", self.token("--node", "spare"))
        self.assertEqual(joined.returncode, 0, joined.stderr)
        link = RawLink(self.c, pki, "spare")
        self.assertEqual(link.hello(), "welcome")
        refused = self.c.run("lockstep", "node", "remove", "spare", "--dir", self.c.dir)
        self.assertIn("lockstep node revoke spare", refused.stderr)
        self.c.ok("lockstep", "node", "revoke", "spare", "--dir", self.c.dir)
        self.assertTrue(link.is_cut(), "an open link is cut, though its node goes on speaking")
        self.assertEqual(RawLink(self.c, pki, "spare").status, 401)
        both = self.c.run("lockstep", "node", "remove", "n1", "spare", "--dir", self.c.dir)
        self.assertEqual(both.returncode, 1)
        self.assertIn("n1: ", both.stderr, "it is up, and keeps the other from nothing")
        again = RawLink(self.c, pki, "spare")
        self.assertNotEqual(again.hello(), "welcome")
        self.assertNotIn("spare", self.c.ok("sinfo", "-h", "-N", "-o", "%N"))
        # A real agent with a copy of the files fares no better, and says why.
        agent, log = self.start_agent("spare", pki)
        try:
            eventually(lambda: "removed, or never joined" in open(log).read(), 15, "the agent says why")
        finally:
            agent.terminate()
            agent.wait(10)
        self.assertNotIn("spare", self.c.ok("sinfo", "-h", "-N", "-o", "%N"))
        # By a new token it is welcome.
        pki, joined = self.join("spare", self.token("--node", "spare"))
        back = RawLink(self.c, pki, "spare")
        self.assertEqual(back.hello(), "welcome")
        self.c.ok("lockstep", "node", "revoke", "spare", "--dir", self.c.dir)
        self.c.ok("lockstep", "node", "remove", "spare", "--dir", self.c.dir)

    def test_other_nodes_shut_out_a_revoked_one(self):
        pki, joined = self.join("peer", self.token("--node", "peer"))
        self.assertEqual(joined.returncode, 0, joined.stderr)
        link = RawLink(self.c, pki, "peer")
        self.assertEqual(link.hello(), "welcome")
        # A node listens elsewhere too, for names.
        host = json.load(open(os.path.join(self.c.dir, "nodes", "n1", "agent.json")))["address"]
        listening = [line.split()[3].rsplit(":", 1) for line in self.inside("n1", "ss", "-Hltn").stdout.splitlines()]
        address = (host, next(int(port) for at, port in listening if at == host))

        def dial():
            return RawLink(self.c, pki, "peer", "lockstep-peer/1", "/v1/peer", address)
        open_one = dial()
        self.assertEqual(open_one.status, 101)
        self.c.ok("lockstep", "node", "revoke", "peer", "--dir", self.c.dir)
        self.assertIsNone(open_one.receive(), "an open connection is closed")
        self.assertIsNone(dial().receive(), "a new one opens nothing")
        self.c.ok("lockstep", "node", "remove", "peer", "--dir", self.c.dir)

    def test_a_name_that_is_taken_is_not_given_out(self):
        job = self.running("-w", "n2", "--requeue", user=OWNER)
        for options in (["--any-name"], ["--node", "n2"]):
            _, refused = self.join("n2", self.token(*options))
            self.assertNotEqual(refused.returncode, 0)
            self.assertIn("there is a node n2" if "--any-name" in options else "n2 is up", refused.stderr)
        _, other = self.join("n2", self.token("--node", "n[7-9]"))
        self.assertNotEqual(other.returncode, 0)
        self.assertTrue(self.up("n2"))
        self.assertEqual(self.c.state(job), "RUNNING")
        self.assertNotEqual(self.c.run("lockstep", "node", "token", "--dir", self.c.dir).returncode, 0, "no name, no token")
        # On an administrator's word it is: the old machine is cut off, the new one waits until its work is fenced.
        pki, replaced = self.join("n2", self.token("--node", "n2", "--replace"))
        self.assertEqual(replaced.returncode, 0, replaced.stderr)
        self.assertFalse(self.up("n2"))
        early = RawLink(self.c, pki, "n2")
        self.assertEqual(early.hello(), "refused")
        script = self.c.run("scontrol", "show", "node", "n2").stdout
        self.assertIn("DOWN", script)
        self.c.pull_plug("n2")  # the fence hook's proof
        eventually(lambda: RawLink(self.c, pki, "n2").hello() == "welcome", 20, "the new machine is let in")
        self.c.ok("scancel", job)
        self.c.ok("lockstep", "node", "revoke", "n2", "--dir", self.c.dir)
        self.c.wait(job)
        self.c.ok("lockstep", "node", "remove", "n2", "--dir", self.c.dir)
        # The machine's own node comes back through the front door.
        self.c.up()
        eventually(lambda: self.up("n2"), what="n2 joins anew")

    def test_tokens(self):
        token = self.token("--node", "t[1-9]")
        results = []
        threads = [threading.Thread(target=lambda n=n: results.append(self.join(f"t{n}", token, "n1")[1].returncode))
                   for n in range(1, 7)]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
        self.assertEqual(results.count(0), 1, results)
        for name in ("..", "../../x", ".", "a/b", "-x", "x" * 60):
            _, bad = self.join(name, self.token("--any-name"), "n2")
            self.assertNotEqual(bad.returncode, 0, name)
        self.assertNotEqual(self.c.run("lockstep", "node", "kill", "..", "--dir", self.c.dir).returncode, 0)
        # 2 uses are 2 uses; a second is a second.
        twice = self.token("--node", "u[1-9]", "--uses", "2")
        self.assertEqual([self.join(f"u{n}", twice, "n3")[1].returncode for n in (1, 2, 3)], [0, 0, 1])
        late = self.token("--node", "v1", "--ttl", "1")
        time.sleep(1.5)
        self.assertIn("expired", self.join("v1", late, "n3")[1].stderr)

    def test_zz_strangers_who_guess_wait(self):
        """Last: it shuts this address out for a minute."""
        ident, secret, ca = self.token("--node", "w1").split(".")
        errors = [self.join("w1", f"{ident}.{'0' * len(secret)}.{ca}")[1].stderr for _ in range(14)]
        self.assertIn("unknown, used or expired", errors[0])
        self.assertIn("wait a minute", errors[-1])

    # --- row 18: users and groups ---

    def test_a_groups_and_users_come_and_go(self):
        def groups(uid):
            result = self.c.run("srun", "-w", "n3", "id", "-G", user=uid)
            return set(result.stdout.split()), result.stderr
        seen, why = groups(ANN)
        self.assertIn(str(GROUP_BEFORE), seen, why)
        write_database([user_line("lsowner", OWNER), user_line("lsboss", BOSS), user_line("lsann", ANN)],
                       [f"lsbefore:x:{GROUP_BEFORE}:", f"lsafter:x:{GROUP_AFTER}:lsann"])
        waiting = self.c.run("sbatch", "--parsable", "-H", "-o", os.path.join(self.c.work, "groups-%j"), "--wrap", "id -G",
                             user=ANN).stdout.strip()
        time.sleep(46)  # without a word from her
        self.c.ok("scontrol", "release", waiting)
        self.c.wait(waiting)
        launched = set(self.c.output(waiting, "groups-{}").split())
        self.assertIn(str(GROUP_AFTER), launched)
        self.assertNotIn(str(GROUP_BEFORE), launched)
        # Recreated with another uid: a new user in every way, and the old uid's jobs are still the old uid's.
        old = self.running("-w", "n3", user=ANN)
        write_database([user_line("lsowner", OWNER), user_line("lsboss", BOSS), user_line("lsann", ANN_ANEW)], [])
        job = self.c.run("sbatch", "--parsable", "-w", "n3", "-o", "/dev/null", "--wrap", "sleep 300", user=ANN_ANEW)
        self.assertEqual(job.returncode, 0, job.stderr)
        fresh = job.stdout.strip()
        self.c.wait(fresh, "RUNNING")
        self.assertIn("lsann", self.c.ok("squeue", "-h", "-j", fresh, "-o", "%u"))
        self.assertIn(f"uid{ANN}", self.c.ok("squeue", "-h", "-j", old, "-o", "%u"))
        self.assertNotEqual(self.c.run("scancel", old, user=ANN_ANEW).returncode, 0)
        self.assertEqual(self.c.run("scancel", fresh, user=ANN_ANEW).returncode, 0)
        self.assertEqual(self.c.run("scancel", old, user=ANN).returncode, 0)


if __name__ == "__main__":
    unittest.main()
