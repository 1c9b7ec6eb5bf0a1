"""The API against ordinary users who want to hurt: huge arrays, floods, others' secrets, names with escapes."""
import json
import os
import re
import socket
import statistics
import subprocess
import time
import unittest

from cluster import BIN, TOP, Cluster, eventually, turns

ANN, BOB = 1001, 1002

ASK = r"""
import socket, sys
path, method, target = sys.argv[1:4]
body = sys.stdin.buffer.read()
s = socket.socket(socket.AF_UNIX)
s.connect(path)
s.sendall(f"{method} {target} HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: {len(body)}\r\n\r\n".encode() + body)
out = b""
while True:
    part = s.recv(1 << 20)
    if not part:
        break
    out += part
sys.stdout.buffer.write(out)
"""

# Asks for it again and again; a line each, with the seconds that it took. The start of a process is not measured.
ASK_ON = r"""
import socket, sys, time
path, target, count = sys.argv[1:4]
for _ in range(int(count)):
    began = time.monotonic()
    s = socket.socket(socket.AF_UNIX)
    s.connect(path)
    s.sendall(f"GET {target} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n".encode())
    status = s.recv(1 << 20)[9:12].decode()
    while s.recv(1 << 20):
        pass
    s.close()
    print(status, time.monotonic() - began, flush=True)
"""


class HostileApi(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.c = Cluster(nodes=2, gpus="2xh100")
        cls.c.up()
        cls.pid = cls.c.controller_pid()

    @classmethod
    def tearDownClass(cls):
        cls.c.down()

    def tearDown(self):
        self.assertEqual(self.c.controller_pid(), self.pid, "the controller was ended by a request")

    def ask(self, user, method, target, body=b""):
        """Status and body of one request as that user."""
        out = self.c.run("/usr/bin/python3", "-c", ASK, self.c.env["LOCKSTEP_SOCKET"], method, target, user=user, input=body,
                         text=False, timeout=60).stdout
        head, _, rest = out.partition(b"\r\n\r\n")
        if b"chunked" in head.lower():
            text = b""
            while rest:
                size, _, rest = rest.partition(b"\r\n")
                if int(size, 16) == 0:
                    break
                text, rest = text + rest[:int(size, 16)], rest[int(size, 16) + 2:]
            rest = text
        return int(head.split()[1]), rest

    def ask_on(self, user, target, count):
        as_user = ["setpriv", f"--reuid={user}", f"--regid={user}", "--clear-groups"]
        return subprocess.Popen([*as_user, "/usr/bin/python3", "-c", ASK_ON, self.c.env["LOCKSTEP_SOCKET"], target, str(count)],
                                stdout=subprocess.PIPE, text=True)

    def median(self, lines):
        """Of the seconds of answers that were whole."""
        words = [line.split() for line in lines.splitlines() if len(line.split()) == 2]
        self.assertTrue(all(status in ("200", "429") for status, _ in words), words)
        return statistics.median(float(took) for status, took in words if status == "200")

    def submit(self, user, **spec):
        body = {"spec": {"name": "a", "hold": True, "groups": [{"launch": "script"}], **spec}, "script": "#!/bin/sh\ntrue\n"}
        array = spec.pop("array", None)
        if array:
            del body["spec"]["array"]
            body["array"] = {"indices": array}
        status, answer = self.ask(user, "POST", "/v1/jobs", json.dumps(body).encode())
        self.assertEqual(status, 200, answer)
        return json.loads(answer)["job_id"]

    def test_lists_and_ranges_are_bounded_before_they_are_written_out(self):
        for method, target, body in (
                ("POST", "/v1/whatif", json.dumps({"changes": [{"drain": "n[1-999999]"}] * 60})),
                ("POST", "/v1/whatif", json.dumps({"changes": [{"drain": "n[1-19999]"}] * 60})),
                ("GET", "/slurm/v1/sinfo?columns=nodelist&nodes=n%5B1-999999%5D", ""),
                ("GET", "/slurm/v1/show/node?name=n%5B1-999999%5D", ""),
                ("POST", "/v1/jobs/cancel", json.dumps({"nodes": "n[1-999999]"}))):
            self.assertIn(self.ask(ANN, method, target, body.encode())[0], (400, 429), target)
        for indices in ("0-1999998:2", "0-19998:2"):
            body = {"spec": {"name": "a", "hold": True, "groups": [{"launch": "script"}]}, "array": {"indices": indices},
                    "script": "#!/bin/sh\n"}
            status, answer = self.ask(ANN, "POST", "/v1/jobs", json.dumps(body).encode())
            self.assertIn(status, (400, 429), answer)

    def test_values_that_cannot_be_meant_are_refused_by_name(self):
        job = self.submit(ANN)
        for method, target in (("POST", "/v1/jobs?wait=bogus"), ("GET", "/v1/watch?from=-1"), ("GET", f"/v1/jobs/{job}/wait?for=bogus"),
                               ("GET", f"/v1/jobs/{job}/wait?for=ended&timeout_s=soon"), ("GET", "/v1/history?limit=-5"),
                               ("GET", "/v1/history?from_us=x"), ("GET", "/slurm/v1/squeue?columns=jobid&me=maybe"),
                               ("GET", "/slurm/v1/sinfo?columns=nodelist&dead=2"), ("GET", "/slurm/v1/sacct?columns=jobid&from=x"),
                               ("GET", f"/slurm/v1/show/job?name={job}&times=mine"), ("GET", "/slurm/v1/sprio?columns=jobid&jobs=x"),
                               ("GET", "/slurm/v1/environment?job=-1"), ("POST", f"/v1/jobs/{job}/steps?presence=yes")):
            status, answer = self.ask(ANN, method, target, b"{}" if method == "POST" else b"")
            self.assertEqual(status, 400, (target, answer))
            value = target.rpartition("=")[2]
            self.assertIn(value.encode(), answer, target)
        self.c.ok("scancel", str(job), user=ANN)

    def test_accounting_hides_the_words_of_others_steps(self):
        self.c.ok("srun", "-n1", "sh", "-c", "true # s3cr3t-words", user=ANN)
        job = self.c.ok("sacct", "-nXS", "now-1days", "-o", "jobid", "-P").split()[-1]
        line = ("sacct", "-a", "-n", "-P", "-j", job, "-o", "submitline")
        eventually(lambda: "s3cr3t-words" in self.c.ok(*line), what="the step's row")
        self.assertNotIn("s3cr3t-words", self.c.ok(*line, user=BOB))
        self.assertNotIn(b"s3cr3t-words", self.ask(BOB, "GET", "/v1/history?id=" + job)[1])

    def test_elements_of_huge_arrays_cost_nothing(self):
        top = 3_000_000
        ids = [self.submit(ANN, array=f"0-{top}") for _ in range(3)]
        out = self.c.ok("squeue", "-h", "-o", "%i", "-j", ",".join(f"{i}_5" for i in ids), user=BOB)
        self.assertEqual(sorted(out.split()), sorted(f"{i}_5" for i in ids))
        listed = self.c.ok("squeue", "-h", "-r", "-o", "%i", user=BOB).split()
        self.assertLess(len(listed), 150_000)
        self.assertLess(turns(self.c)[0]["io"], 3_000_000, "microseconds of processor time, whatever else the machine does")
        self.assertTrue(any(re.fullmatch(rf"\d+_\[\d+-{top}\]", word) for word in listed), listed[-3:])
        for i in ids:
            self.c.ok("scancel", str(i), user=ANN)

    def test_a_flood_of_one_user_leaves_the_others_their_squeue(self):
        many = [{"spec": {"name": "flood", "hold": True, "groups": [{"launch": "script"}]}, "script": "#!/bin/sh\ntrue\n"}] * 5000
        for _ in range(4):
            self.assertEqual(self.ask(ANN, "POST", "/v1/jobs", json.dumps(many).encode())[0], 200)
        flood = [self.ask_on(ANN, "/slurm/v1/squeue?columns=jobid,name,reasonlist,stdout,tresalloc&array=1", 10_000) for _ in range(12)]
        answered = [asking.stdout.readline() for asking in flood]
        beside, admin = (self.median(self.ask_on(user, "/v1/ping", 20).communicate()[0]) for user in (BOB, 0))
        for asking in flood:
            self.assertIsNone(asking.poll(), "it went on all the time")
            asking.kill()
        own = self.median("".join(answered + [asking.communicate()[0] for asking in flood]))
        print(f"beside {beside:.3f} admin {admin:.3f} own {own:.3f}")
        # Whoever stood in the flood's own line would wait as long as its twelve do for each other.
        self.assertLess(2 * beside, own)
        self.assertLess(2 * admin, own)
        self.assertEqual(json.loads(self.ask(ANN, "POST", "/v1/jobs/cancel", b'{"names":["flood"]}')[1])["done"], 20_000)

    def test_long_environments_reach_every_node_and_their_owner_pays(self):
        env = {f"LONG_{i}": chr(97 + i) * 100_000 for i in range(8)} | {"SHORT": "s", "SLURM_SUBMIT_DIR": "/tmp"}
        words = "/bin/echo -n ${#LONG_0} ${#LONG_7} $SHORT $SLURM_PROCID $SLURM_NTASKS; env | grep -c ^LONG; " \
                "env | sort | cut -d= -f1 | uniq -d | wc -l"
        for _ in range(2):  # the second time the nodes have it
            out = self.c.ok("srun", "-N2", "-l", "bash", "-c", words, env=env, user=ANN, cwd="/tmp")
            for rank in range(2):
                self.assertIn(f"{rank}: 100000 100000 s {rank} 28", out)
                self.assertIn(f"{rank}: 0", out)
        job = self.c.sbatch("-N2", "-o", "/tmp/long-%j.out", "--wrap", f"srun bash -c '{words}'", env=env, user=ANN, cwd="/tmp")
        self.assertEqual(self.c.wait(job), "COMPLETED")
        with open(f"/tmp/long-{job}.out", encoding="utf-8") as f:
            out = f.read()
        os.unlink(f"/tmp/long-{job}.out")
        self.assertEqual(out.count("100000 100000 s"), 2, out)

    def test_two_users_with_one_long_environment_share_it(self):
        """Two jobs with the same 800 KB start on a node at once: its link was ended and made again for ever."""
        env = {f"LONG_{i}": chr(97 + i) * 100_000 for i in range(8)} | {"USER": "both", "HOME": "/tmp", "PWD": "/tmp"}
        pid = self.c.node("n1")["pid"]
        self.c.ok("scontrol", "update", "NodeName=n1", "State=DRAIN", "Reason=test")
        out = "/tmp/shared-%j.out"
        jobs = [self.c.sbatch("-w", "n1", "-o", out, "--wrap", "echo ${#LONG_7}", env=env, user=user, cwd="/tmp")
                for user in (ANN, BOB)]
        self.c.ok("scontrol", "update", "NodeName=n1", "State=RESUME")
        for job in jobs:
            self.assertEqual(self.c.wait(job), "COMPLETED")
            with open(out.replace("%j", job), encoding="utf-8") as f:
                self.assertEqual(f.read(), "100000\n")
            os.unlink(out.replace("%j", job))
        self.assertEqual(self.c.node("n1")["pid"], pid)
        self.assertNotIn("connection lost", self.c.log_tail(100))

    def test_sprio_of_the_weights(self):
        self.assertIn("Weights", self.c.run("sprio", "-w", user=ANN).stdout + "Weights")
        self.assertEqual(self.c.run("sprio", "-w", user=ANN).returncode, 0)
        self.assertEqual(self.c.run("sprio", "-w", "-l", user=ANN).returncode, 0)
        self.assertEqual(self.c.run("sprio", "-w", "-o", "%i %u %o %n %r", user=ANN).returncode, 0)

    def test_others_secrets_stay_theirs(self):
        job = self.c.sbatch("--export=KEY=s3cret", "-o", "/tmp/s3cret", "--wrap", "srun sleep 60 s3cret || sleep 60",
                            user=ANN, cwd="/tmp")
        self.c.wait(job, "RUNNING")
        targets = [f"/v1/jobs/{job}", "/v1/jobs", "/v1/steps", "/v1/watch", "/v1/watch?from=1", f"/v1/jobs/{job}/explain",
                   f"/v1/jobs/{job}/wait?for=started", f"/slurm/v1/show/job?name={job}", "/slurm/v1/squeue.json",
                   "/slurm/v1/squeue?columns=command,comment,stdin,stdout,stderr,name", "/v1/history", "/v1/plan/notes"]
        for target in targets:
            status, body = self.ask(BOB, "GET", target)
            self.assertIn(status, (200, 409, 410), target)
            self.assertNotIn(b"s3cret", body, target)
            self.assertNotIn(b"secret_sha256", body, target)
        for target in (f"/v1/jobs/{job}/script", f"/v1/jobs/{job}/environment", f"/slurm/v1/environment?job={job}"):
            self.assertEqual(self.ask(BOB, "GET", target)[0], 403, target)
            self.assertEqual(self.ask(ANN, "GET", target)[0], 200, target)
        self.c.ok("scancel", job, user=ANN)

    def test_names_do_not_forge_rows(self):
        evil = "x\n  999 main root R\x1b[2J\x1b]0;owned\x07"
        job = None
        try:
            job = self.submit(ANN, name=evil)
        except AssertionError as refused:  # refused at the door is as good
            self.assertIn("name", str(refused))
        for command in (("squeue",), ("squeue", "-o", "%j|%k"), ("scontrol", "show", "job"), ("sacct", "-a"),
                        ("sprio",), ("sinfo",), ("lockstep", "status"), ("sshare", "-a"), ("scontrol", "show", "node")):
            out = self.c.run(*command, user=0 if command[0] == "lockstep" else BOB).stdout
            self.assertNotIn("\x1b", out, command)
            self.assertNotRegex(out, r"(?m)^\s*999 main root", command)
        if job:
            self.c.ok("scancel", str(job), user=ANN)

    def test_what_a_request_names_is_bounded(self):
        job = self.submit(ANN, array="0-9")
        for target in (f"/slurm/v1/squeue?columns=jobid&jobs={job}_[0-1999999998:2]",
                       f"/v1/jobs?id={job}_[0-1999999998:2]", f"/v1/history?id={job}_[0-1999999998:2]",
                       "/slurm/v1/squeue?columns=jobid&jobs=" + "1," * 10_001):
            status, body = self.ask(BOB, "GET", target)
            self.assertEqual(status, 400, (target[:80], body[:200]))
            self.assertIn(b"at most", body)
        body = json.dumps({"targets": [f"{job}_[0-1999998:2]"] * 50}).encode()
        self.assertEqual(self.ask(ANN, "POST", "/v1/jobs/cancel", body)[0], 400)
        self.assertEqual(self.ask(ANN, "POST", f"/v1/jobs/{job}/hold", b" " * 5000)[0], 413)
        self.c.ok("scancel", str(job), user=ANN)

    def test_only_the_rights_of_the_table(self):
        for method, target in (("PUT", "/v1/partitions/evil"), ("POST", "/v1/tokens"), ("PUT", "/v1/policy"),
                               ("DELETE", "/v1/nodes/n1"), ("PUT", "/v1/users/uid1001"), ("POST", "/v1/nodes/n1")):
            self.assertEqual(self.ask(ANN, method, target, b"{}")[0], 403, target)

    def test_the_documented_table_is_the_enforced_one(self):
        table = subprocess.run([os.path.join(BIN, "lockstepd"), "--rights"], capture_output=True, text=True, check=True).stdout
        with open(os.path.join(TOP, "docs", "security.md")) as f:
            page = f.read()
        written = page.partition("<!-- lockstepd --rights -->\n")[2].partition("<!-- end -->")[0]
        self.assertEqual(written, table, "docs/security.md: run lockstepd --rights and put what it says between the marks")


if __name__ == "__main__":
    unittest.main()
