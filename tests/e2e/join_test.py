"""An installed cluster: brought up, opened to other machines, joined, left, and its certificates renewed. Machines are
namespaces (machines.py); the controller's has a stand-in for systemd, the others none, as containers."""
import json
import os
import re
import ssl
import sys
import time
import unittest

from cluster import eventually
from machines import Lan

TAKES = r'''
import socket, sys
taken = socket.create_server((sys.argv[1], int(sys.argv[2])))
print("ready", flush=True)
sys.stdin.read()
'''
PLAYED = r'''
import threading
import http.server, json, ssl, sys
answer = json.loads(sys.argv[4])
class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        body = json.dumps(answer).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
    def log_message(self, *words):
        pass
server = http.server.HTTPServer((sys.argv[1], int(sys.argv[2])), Handler)
context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
context.load_cert_chain(sys.argv[3] + "/controller.pem", sys.argv[3] + "/controller.key")
server.socket = context.wrap_socket(server.socket, server_side=True)
threading.Thread(target=server.serve_forever, daemon=True).start()
print("ready", flush=True)
sys.stdin.read()
'''


def read(path):
    with open(path) as f:
        return f.read()


def join_line(text):
    """The words of the line that joins another machine."""
    found = re.search(r"^  (lockstep node join --controller (\S+) --token (\S+))$", text, re.M)
    if not found:
        raise AssertionError("no line that joins another machine in: " + text)
    return found.group(1).split()


class OneCluster(unittest.TestCase):
    """Each test goes on with what the ones before it left: machines are dear."""

    @classmethod
    def setUpClass(cls):
        cls.lan = Lan()
        cls.head = cls.lan.machine("head", units=True)
        cls.m1 = cls.lan.machine("m1")
        cls.head.install_controller()

    @classmethod
    def tearDownClass(cls):
        cls.lan.close()

    def refused(self, result, *words, code=1):
        self.assertEqual(result.returncode, code, result.stdout + result.stderr)
        for word in words:
            self.assertIn(word, result.stderr)

    def token(self, *words):
        return self.head.ok("lockstep", "node", "token", *words).strip()

    def join(self, token, *more, machine=None, at="10.99.0.1:6820", **kwargs):
        return (machine or self.m1).run("lockstep", "node", "join", "--controller", at, "--token", token, *more, **kwargs)

    def finished(self, job):
        return eventually(lambda: self.head.run("squeue", "-h", "-t", "all", "-j", job, "-o", "%T").stdout.strip() == "COMPLETED",
                          60, f"job {job} has ended")

    # --- up ---

    def test_1_up_starts_the_installed_cluster_and_makes_this_machine_a_node(self):
        out = self.head.ok("lockstep", "up")
        self.assertIn('cluster "alpha", installed on this machine, is up', out)
        self.assertRegex(out, r"node head: \d+ cores, \S+ [GM]iB of memory, .*; state idle")
        status = self.head.status()
        self.assertEqual(status["controller"]["state"], "up")
        self.assertEqual([n["name"] for n in status["nodes"]], ["head"])
        settings = os.path.join(self.head.root, "etc/lockstep/agent.json")
        self.assertEqual(os.stat(settings).st_mode & 0o777, 0o600)
        self.assertEqual(self.head.ok("srun", "hostname").strip(), "head")
        for unit in ("lockstepd", "lockstep-agent"):
            self.assertTrue(os.path.exists(f"{self.head.root}/units/{unit}.service.enabled"))
        before = self.head.status()["controller"]["pid"]
        self.head.ok("lockstep", "up")
        self.assertEqual(self.head.status()["controller"]["pid"], before, "a second up disturbs nothing")
        self.refused(self.head.run("lockstep", "up", "--nodes", "2"), "a cluster is installed on this machine", "--dir DIR")
        self.refused(self.head.run("lockstep", "down", "--delete"), "apt purge")
        self.assertIn("info", self.head.ok("lockstep", "logs", "controller"))
        self.assertIn("LOCKSTEP_SOCKET=", self.head.ok("lockstep", "env"))

    def test_2_listening_where_one_cannot_changes_nothing(self):
        conf, pid = self.head.conf(), self.head.status()["controller"]["pid"]
        with self.head.program(TAKES, "10.99.0.1", "7777"):
            self.refused(self.head.run("lockstep", "up", "--listen", "10.99.0.77"), "no address of this machine", "10.99.0.1")
            self.refused(self.head.run("lockstep", "up", "--listen", "10.99.0.1:7777"), "port 7777", "taken")
            self.refused(self.head.run("lockstep", "up", "--listen", "0.0.0.0:7777"), "port 7777", "taken")
        for bad in ("10.99.0.1:x", "10.99.0.1:0", "head", ""):
            self.refused(self.head.run("lockstep", "up", "--listen", bad), "--listen", code=2)
        self.assertEqual(self.head.conf(), conf)
        self.assertEqual(self.head.status()["controller"]["pid"], pid)

    def test_3_listening_for_others_keeps_jobs_and_prints_the_line_that_joins(self):
        job = self.head.ok("sbatch", "--parsable", "--wrap", "sleep 3").strip()
        eventually(lambda: self.head.run("squeue", "-h", "-j", job, "-o", "%T").stdout.strip() == "RUNNING", 30, "it runs")
        out = self.head.ok("lockstep", "up", "--listen", "0.0.0.0")
        OneCluster.words = join_line(out)
        self.assertEqual(self.words[4], "10.99.0.1:6820")
        self.assertEqual(self.head.conf(), "# The controller's settings.\nLISTEN=0.0.0.0:6820\n\nCLUSTER_NAME=alpha\n"
                         "OPTIONS=\n# the end\n")
        self.finished(job)
        self.assertEqual(self.head.node("head")["address"], "10.99.0.1", "where other nodes reach it")

    def test_3_settings_that_were_edited_by_hand_hold_from_the_next_up_on(self):
        conf = self.head.conf()
        self.head.write("etc/lockstep/lockstepd.conf", conf.replace("6820", "6830"))
        self.assertIn("it is started again", self.head.ok("lockstep", "up"))
        self.assertEqual(self.head.ok("srun", "hostname").strip(), "head", "its agent dials there too")
        self.head.write("etc/lockstep/lockstepd.conf", conf)
        self.head.ok("lockstep", "up")
        self.assertEqual(self.head.conf(), conf)

    # --- join ---

    def test_4_a_join_that_fails_says_why_and_leaves_nothing(self):
        good, any_name = self.token("--node", "m1"), self.token("--any-name")
        cases = [
            (self.join(good[:4] + "0000" + good[8:]), ["unknown, used or expired", "lockstep node token"]),
            (self.join(good[:-4] + "0000"), ["another CA", "lockstep node token"]),
            (self.join(good, at="10.99.0.1:6899"), ["cannot reach 10.99.0.1 port 6899", "lockstep up --listen", "firewall"]),
            (self.join(good, at="no-such-host:6820"), ["cannot find the address of no-such-host"]),
            (self.join(good, "--name", "m2"), ["for node m1, not for m2"]),
            (self.join(good, "--name", "localhost"), ["cannot be a node's name"]),
            (self.join(any_name, "--name", "head"), ["there is a node head", "lockstep node token --node head"]),
        ]
        old = self.token("--node", "m1", "--ttl", "1")
        time.sleep(1.1)
        cases.append((self.join(old), ["expired", "lockstep node token"]))
        with self.m1.program(TAKES, "0.0.0.0", "6821"):
            cases.append((self.join(good), ["6821", "taken", "--peer-port"]))
        user = self.m1.run("setpriv", "--reuid=12345", "--clear-groups", "lockstep", "node", "join", "--controller",
                           "10.99.0.1:6820", "--token", good)
        cases.append((user, ["only root"]))
        for result, words in cases:
            self.refused(result, *words)
        for words, told in ((("--token", "x.y", "--controller", "a:1"), "no token"), (("--controller", "x"), "HOST:PORT"), ((), "--listen ADDR"),
                            (("--frob",), "unrecognized")):
            self.refused(self.m1.run("lockstep", "node", "join", *words), told, code=2)
        self.assertEqual(self.m1.traces(), [])

    def test_4_another_clock_or_version_is_named_before_the_token_is_shown(self):
        pki = os.path.join(self.head.root, "var/lib/lockstep/controller/pki")
        good = self.token("--node", "m1")
        now = int(time.time() * 1e6)
        for port, answer, words in (
                (7001, {"version": "0.1", "wall_us": now - 7200 * 10**6}, ["s apart", "timedatectl"]),
                (7002, {"version": "9.9", "wall_us": now, "protocol_min": 98, "protocol_max": 99},
                 ["is Lockstep 9.9", "98 to 99", "Install the controller's version"])):
            answer = {"cluster": "alpha", "seq": 1, "read_only": False, "pid": 1, **answer}
            with self.head.program(PLAYED, "10.99.0.1", str(port), pki, json.dumps(answer)):
                self.refused(self.join(good, at=f"10.99.0.1:{port}"), *words)
        self.assertEqual(self.m1.traces(), [])

    def test_4_an_agent_that_cannot_start_leaves_nothing_either(self):
        self.m1.write("run/lockstep-agent", "in the way")
        result = self.join(self.token("--node", "m1"))
        self.refused(result, "no usable node", "the agent ended", "run/lockstep-agent", "Nothing of it stays",
                     "lockstep node token --node m1")
        self.assertEqual(self.m1.traces(), [])
        self.assertEqual(self.m1.run("pgrep", "lockstep").stdout, "")
        os.unlink(os.path.join(self.m1.root, "run/lockstep-agent"))

    def test_5_the_printed_line_joins_a_machine_and_a_gang_runs_on_both(self):
        out = self.m1.ok(*self.words)
        self.assertRegex(out, r'this machine is node m1 of cluster "alpha": \d+ cores, .* of memory, .*; state idle')
        self.assertEqual(sorted(self.head.ok("srun", "-N2", "hostname").split()), ["head", "m1"])
        with open(os.path.join(self.m1.root, "etc/lockstep/agent.json")) as f:
            settings = json.load(f)
        self.assertEqual((settings["controller_host"], settings["node"], settings["peer_port"]), ("10.99.0.1", "m1", 6821))
        for path, mode in (("etc/lockstep/agent.json", 0o600), ("var/lib/lockstep/pki", 0o700),
                           ("var/lib/lockstep/pki/node.key", 0o600)):
            self.assertEqual(os.stat(os.path.join(self.m1.root, path)).st_mode & 0o777, mode, path)
        again = self.m1.ok(*self.words)  # its token is used up, and not needed
        self.assertIn("is node m1 of cluster \"alpha\" already", again)
        self.refused(self.m1.run(*self.words[:-1], "a.b." + "0" * 64), "another cluster's", "lockstep node leave")
        self.refused(self.m1.run(*self.words, "--name", "m9"), "is node m1", "cannot be m9")
        self.refused(self.join(self.words[-1], "--name", "m3", machine=self.lan.machine("m3")), "used as often as it may be")
        self.refused(self.m1.run("lockstep", "down"), "lockstep node leave")
        self.refused(self.m1.run("lockstep", "up", "--listen", "10.99.0.2"), "whose controller is elsewhere")
        self.assertEqual([(n["name"], n["state"]) for n in self.m1.status()["nodes"]], [("m1", "idle")])
        self.m1.run("pkill", "-KILL", "lockstep")  # as after a start of the machine
        self.assertIn("is node m1", self.m1.ok("lockstep", "up"))

    # --- leave ---

    def test_6_a_machine_leaves_when_its_work_has_ended_and_comes_back(self):
        job = self.head.ok("sbatch", "--parsable", "-w", "m1", "--wrap", "sleep 2; echo done").strip()
        eventually(lambda: self.head.run("squeue", "-h", "-j", job, "-o", "%T").stdout.strip() == "RUNNING", 30, "it runs")
        out = self.m1.run("lockstep", "node", "leave")
        self.assertEqual(out.returncode, 0, out.stderr)
        self.assertIn(f"waiting for the end of job {job}", out.stderr)
        self.assertIn("lockstep node remove m1", out.stdout)
        self.finished(job)
        self.assertEqual(self.m1.traces(), [])
        self.refused(self.m1.run("lockstep", "node", "leave"), "is no node")
        self.refused(self.join(self.token("--node", "m1", "--ttl", "60")), "node m1", "--replace")
        self.join(self.token("--node", "m1", "--replace"))
        self.assertEqual(self.head.ok("srun", "-w", "m1", "hostname").strip(), "m1")

    def test_7_leaving_at_once_kills_what_runs(self):
        job = self.head.ok("sbatch", "--parsable", "-w", "m1", "--wrap", "sleep 1000").strip()
        eventually(lambda: self.head.run("squeue", "-h", "-j", job, "-o", "%T").stdout.strip() == "RUNNING", 30, "it runs")
        self.m1.ok("lockstep", "node", "leave", "--now")
        self.assertEqual(self.m1.traces(), [])
        eventually(lambda: self.head.run("squeue", "-h", "-t", "all", "-j", job, "-o", "%T").stdout.strip() == "FAILED", 30,
                   "the job has failed")
        self.head.ok("lockstep", "node", "revoke", "m1", "--now")
        self.head.ok("lockstep", "node", "remove", "m1")
        self.assertIsNone(self.head.node("m1"))

    def test_7_the_range_of_a_nodes_tasks_comes_from_its_token(self):
        for text, told in (("10.96.3.0/24", "services"), ("8.8.8.0/24", "private"), ("10.99.0.0/24", "the controller's machine, 10.99.0.1"),
                           ("10.88.3.9/33", "no range")):
            self.refused(self.head.run("lockstep", "node", "token", "--node", "m1", "--task-range", text), told)
        self.refused(self.head.run("lockstep", "node", "token", "--any-name", "--uses", "2", "--task-range", "10.88.3.0/24"), "may be used once")
        given = self.token("--node", "m1", "--task-range", "10.88.3.0/24")
        wide = self.token("--any-name", "--uses", "2", "--task-range", "10.89.0.0/16")
        self.assertEqual(self.join(given).returncode, 0)
        path = os.path.join(self.m1.root, "etc/lockstep/agent.json")
        self.assertEqual(json.loads(read(path))["task_range"], "10.88.3.0/24")
        self.assertEqual(self.head.record("m1")["terms"]["task_range"], "10.88.3.0/24")
        taken = self.head.run("lockstep", "node", "token", "--node", "m9", "--task-range", "10.88.3.128/25")
        self.refused(taken, "overlaps that of node m1")
        ranges = []
        for name in ("m4", "m5"):  # of a wide one each has a part of its own
            self.assertEqual(self.join(wide, machine=self.lan.machine(name)).returncode, 0)
            ranges.append(self.head.record(name)["terms"]["task_range"])
            self.assertRegex(ranges[-1], r"^10\.89\.\d+\.0/24$")
        self.assertNotEqual(*ranges)
        # What its settings say otherwise is told, and not used.
        self.m1.write("etc/lockstep/agent.json", read(path).replace("10.88.3.0/24", "10.88.9.0/24"), 0o600)
        self.m1.run("pkill", "-KILL", "lockstep")
        self.m1.ok("lockstep", "up")
        told = eventually(lambda: self.head.record("m1").get("word", ""), 60, "it is told")
        for word in ("says that task_range is 10.88.9.0/24", "was given 10.88.3.0/24", "lockstep node update m1 --task-range"):
            self.assertIn(word, told)
        record = self.head.record("m1")
        self.assertEqual((record["terms"]["task_range"], record.get("task_range", "")), ("10.88.3.0/24", ""))
        self.head.ok("lockstep", "node", "update", "m1", "--task-range", "10.88.9.0/24")
        self.m1.run("pkill", "-KILL", "lockstep")
        self.m1.ok("lockstep", "up")
        eventually(lambda: "word" not in self.head.record("m1"), 60, "it says what an administrator gave it")
        self.m1.ok("lockstep", "node", "leave", "--now")
        self.head.ok("lockstep", "node", "revoke", "m1,m4,m5", "--now")
        self.head.ok("lockstep", "node", "remove", "m1,m4,m5")

    def test_8_down_ends_controller_agent_and_what_runs_here(self):
        job = self.head.ok("sbatch", "--parsable", "-w", "head", "--requeue", "--wrap", "sleep 1000").strip()
        eventually(lambda: self.head.run("squeue", "-h", "-j", job, "-o", "%T").stdout.strip() == "RUNNING", 30, "it runs")
        self.assertIn("is down", self.head.ok("lockstep", "down"))
        self.assertEqual(self.head.run("lockstep", "status").returncode, 3)
        self.assertEqual(self.head.run("pgrep", "-f", "sleep 1000").stdout, "")
        self.head.ok("lockstep", "up")
        eventually(lambda: self.head.run("squeue", "-h", "-j", job, "-o", "%T").stdout.strip() in ("PENDING", "RUNNING"), 30,
                   "the job is requeued")
        self.assertIn("Restarts=1", self.head.ok("scontrol", "show", "job", job))
        self.head.ok("scancel", job)

    def test_9_the_controllers_own_machine_leaves_without_a_trace_and_up_brings_it_back(self):
        self.assertIn("node head, has left its cluster\n", self.head.ok("lockstep", "node", "leave", "--now"))
        self.assertIsNone(self.head.node("head"))
        self.assertEqual(self.head.traces(), [])
        self.head.ok("lockstep", "up")
        self.assertEqual(self.head.node("head")["state"], "idle")


class OwnCluster(unittest.TestCase):
    """A cluster in a directory, which nobody installed, lets another machine in, too."""

    def test_it_listens_for_others_and_they_join(self):
        lan = Lan()
        self.addCleanup(lan.close)
        head, m1 = lan.machine("head"), lan.machine("m1")
        where = os.path.join(head.root, "own")
        head.env.update(LOCKSTEP_DIR=where, LOCKSTEP_SOCKET=where + "/public/api.sock")
        head.ok("lockstep", "up")
        before = read(where + "/cluster.conf")
        for bad in ("10.99.0.77", "10.99.0.1:x"):
            self.assertNotEqual(head.run("lockstep", "up", "--listen", bad).returncode, 0)
        self.assertEqual(read(where + "/cluster.conf"), before)
        job = head.ok("sbatch", "--parsable", "--wrap", "sleep 3").strip()
        eventually(lambda: head.run("squeue", "-h", "-j", job, "-o", "%T").stdout.strip() == "RUNNING", 30, "it runs")
        words = join_line(head.ok("lockstep", "up", "--listen", "10.99.0.1:7100"))
        self.assertEqual(words[4], "10.99.0.1:7100")
        m1.ok(*words)
        self.assertEqual(sorted(head.ok("srun", "-N2", "hostname").split()), ["head", "m1"])
        eventually(lambda: head.run("squeue", "-h", "-t", "all", "-j", job, "-o", "%T").stdout.strip() == "COMPLETED", 30,
                   "the job has not minded")
        head.ok("lockstep", "down")
        head.ok("lockstep", "up")  # it listens there still
        eventually(lambda: head.run("srun", "-w", "m1", "hostname").stdout.strip() == "m1", 30, "m1 is there again")


class Certificates(unittest.TestCase):
    """With a life of some seconds instead of a year."""
    LIFE = 12

    def setUp(self):
        lan = Lan()
        self.addCleanup(lan.close)
        short = {"LOCKSTEP_CERTIFICATE_SECONDS": str(self.LIFE)}
        self.head = lan.machine("head", units=True, env=short)
        self.m1 = lan.machine("m1", env=short)
        self.head.install_controller()
        self.words = join_line(self.head.ok("lockstep", "up", "--listen", "10.99.0.1"))
        self.m1.ok(*self.words)

    def served(self):
        """The serial number of the certificate that the controller shows."""
        ask = ("import socket, ssl, sys, hashlib; c = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT); c.check_hostname = False; "
               "c.verify_mode = ssl.CERT_NONE; s = c.wrap_socket(socket.create_connection(('10.99.0.1', 6820))); "
               "print(hashlib.sha256(s.getpeercert(True)).hexdigest())")
        return self.m1.ok(sys.executable, "-c", ask).strip()

    def test_they_are_renewed_while_everything_runs(self):
        job = self.head.ok("sbatch", "--parsable", "-w", "m1", "--wrap", "sleep 1000").strip()
        before, shown = self.head.record("m1")["certificate"], self.served()
        first = ssl._ssl._test_decode_cert(os.path.join(self.m1.root, "var/lib/lockstep/pki/node.crt"))["notAfter"]
        eventually(lambda: self.head.record("m1")["certificate"] != before, 30, "m1 has another certificate")
        record = self.head.record("m1")
        self.assertNotIn("next_certificate", record)
        pki = os.path.join(self.m1.root, "var/lib/lockstep/pki")
        self.assertEqual(sorted(os.listdir(pki)), ["ca.crt", "node.crt", "node.key"])
        eventually(lambda: self.served() != shown, 30, "the controller shows another certificate")
        eventually(lambda: time.time() > ssl.cert_time_to_seconds(first), what="those of the beginning have ended")
        self.assertEqual(sorted(self.head.ok("srun", "-N2", "hostname").split()), ["head", "m1"])
        self.assertEqual(self.head.ok("squeue", "-h", "-j", job, "-o", "%T").strip(), "RUNNING")
        self.head.ok("scancel", job)


if __name__ == "__main__":
    unittest.main(verbosity=2)
