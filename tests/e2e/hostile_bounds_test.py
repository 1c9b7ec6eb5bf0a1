"""Sizes and characters of an ordinary user: each is refused with its field and the number, or works; nothing stops the
cluster, before or after a restart."""
import json
import os
import sys
import unittest

from cluster import Cluster, eventually

# One request on the socket, as whoever runs this: method, path, body on stdin. Prints status and body.
CALL = r"""
import os, socket, sys
body = sys.stdin.buffer.read()
with socket.socket(socket.AF_UNIX) as s:
    s.settimeout(60)
    s.connect(os.environ["LOCKSTEP_SOCKET"])
    s.sendall(b"%s %s HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: %d\r\n\r\n"
              % (sys.argv[1].encode(), sys.argv[2].encode(), len(body)) + body)
    answer = b""
    while chunk := s.recv(1 << 16):
        answer += chunk
head, _, rest = answer.partition(b"\r\n\r\n")
sys.stdout.buffer.write(head.split()[1] + b" " + rest)
"""
SPEC = {"name": "j", "script": "", "groups": [{"launch": "script"}]}


class HostileBounds(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.c = Cluster(nodes=2, gpus="8xh100")
        cls.c.up()
        cls.pid = cls.c.controller_pid()

    @classmethod
    def tearDownClass(cls):
        cls.c.down()

    def tearDown(self):
        self.assertIn("is UP", self.c.ok("scontrol", "ping"))
        self.assertEqual(self.c.controller_pid(), self.pid, "the controller has been started again")

    def call(self, method, path, body, user=1001):
        result = self.c.run(sys.executable, "-c", CALL, method, path, input=json.dumps(body), user=user)
        self.assertEqual(result.returncode, 0, result.stderr)
        status, _, answer = result.stdout.partition(" ")
        return int(status), json.loads(answer) if answer.strip().startswith(("{", "[")) else answer

    def refused(self, method, path, body, field, says=""):
        status, answer = self.call(method, path, body)
        self.assertEqual(status, 400, answer)
        self.assertEqual(answer["error"]["field"], field)
        self.assertIn(says, answer["error"]["message"])

    def submit(self, **fields):
        return {"script": "#!/bin/sh\nsleep 300\n", "spec": {**SPEC, **fields}}

    def test_many_arguments(self):
        script = self.c.script("#!/bin/sh\ntrue\n")
        args = [str(n) for n in range(1_000_000, 1_130_000)]
        # Through a file: the kernel takes so many words from a shell with a large stack limit only.
        run = self.c.run(sys.executable, "-c", "import os,resource,sys\n"
                         "resource.setrlimit(resource.RLIMIT_STACK, (64 << 20, resource.RLIM_INFINITY))\n"
                         "os.execvp('sbatch', ['sbatch', sys.argv[1], *sys.stdin.read().split()])", script,
                         input=" ".join(args), user=1001)
        self.assertNotEqual(run.returncode, 0)
        self.assertIn("130000 entries; 65536 are allowed", run.stderr)
        few = self.c.run("sbatch", "--parsable", script, *args[:5000], user=1001)
        self.assertEqual(few.returncode, 0, few.stderr)

    def test_long_arguments_work_or_are_refused(self):
        words = ["x" * 120_000] * 10  # 1.2 MB
        result = self.c.run("srun", "true", *words, user=1001)
        if result.returncode != 0:
            self.assertRegex(result.stderr, r"\d+ bytes")

    def bytes_of_the_log(self):
        return sum(os.path.getsize(os.path.join(self.c.dir, name)) for name in os.listdir(self.c.dir)
                   if name.startswith("lockstep.db"))

    def test_long_words_are_stored_once(self):
        """What is done to the elements of a job with 800 KB of arguments costs what it costs with none."""
        words = ["word"] * 60_000
        status, answer = self.call("POST", "/v1/jobs", {
            "script": "#!/bin/sh\necho $# last ${60000}\n", "array": {"indices": "0-299"},
            "spec": {**SPEC, "hold": True, "work_dir": self.c.work, "groups": [{"launch": "script", "argv": words}]}})
        self.assertEqual(status, 200, answer)
        job = answer["job_id"]
        before = self.bytes_of_the_log()
        for change in (["hold", f"{job}_[0-149]"], ["update", f"job={job}_[0-149]", "nice=5"],
                       ["update", f"job={job}_[0-149]", "nice=6"]):
            done = self.c.run("scontrol", *change, user=1001)
            self.assertEqual(done.returncode, 0, done.stderr)
        done = self.c.run("scontrol", "update", f"job={job}_[150-199]", "comment=" + "c" * 60_000, user=1001)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(self.c.run("scancel", f"{job}_[10-299]", user=1001).returncode, 0)
        self.assertLess(self.bytes_of_the_log() - before, 12 << 20, "some 700 changes of it would be 500 MB")
        self.c.kill_controller(hold=False)
        eventually(self.c.answers, 60, "the controller answers")
        type(self).pid = self.c.controller_pid()
        done = self.c.run("scontrol", "release", f"{job}_[0-1]", user=1001)
        self.assertEqual(done.returncode, 0, done.stderr)
        for element in (0, 1):
            self.assertEqual(self.c.wait(f"{job}_{element}"), "COMPLETED")
            self.assertEqual(self.c.output(f"{job}_{element}").strip(), "60000 last word")
        status, detail = self.call("GET", f"/v1/jobs/{job}_5", {})
        self.assertEqual(len(detail["job"]["spec"]["groups"][0]["argv"]), len(words))
        self.assertEqual(self.c.run("scancel", str(job), user=1001).returncode, 0)

    def test_what_is_asked_for_has_a_bound_together(self):
        many = [["v%05d" % i, "x" * 1000] for i in range(900)]
        status, answer = self.call("POST", "/v1/jobs", {
            "script": "#!/bin/sh\ntrue\n",
            "spec": {**SPEC, "options": dict(many),
                     "groups": [{"launch": "script", "argv": ["x" * 1000] * 900}]}})
        self.assertEqual(status, 429, answer)
        self.assertIn("1310720 are allowed", answer["error"]["message"])

    def test_tasks_that_no_node_takes(self):
        for extra in ([], ["-N1"]):
            result = self.c.run("srun", "-O", *extra, "-n", "200000", "true", user=1001)
            self.assertNotEqual(result.returncode, 0)
            self.assertRegex(result.stderr, "200000 task")

    def test_a_step_of_a_hundred_million_tasks_a_node(self):
        job = self.c.run("sbatch", "--parsable", "--wrap", "sleep 300", user=1001).stdout.strip()
        self.c.wait(job, "RUNNING")
        try:
            self.refused("POST", f"/v1/jobs/{job}/steps",
                         {"spec": {"argv": ["true"], "overcommit": True, "tasks_per_node": 100_000_000}},
                         "spec.tasks_per_node", "between 0 and 4096")
            self.refused("POST", f"/v1/jobs/{job}/steps",
                         {"spec": {"argv": ["true"], "overcommit": True, "tasks": 100_000_000}}, "spec.tasks")
            status, answer = self.call("POST", f"/v1/jobs/{job}/steps",
                                       {"spec": {"argv": ["true"], "overcommit": True, "tasks": 999_999}})
            self.assertEqual(status, 400, answer)
            self.assertIn("4096", answer["error"]["message"])
            self.refused("POST", f"/v1/jobs/{job}/update", {"comment": "x" * (512 << 10)}, "comment",
                         "524288 bytes; 65536 are allowed")
            self.refused("POST", f"/v1/jobs/{job}/update", {"name": "a\u001b[2J"}, "name", "control character")
        finally:
            self.c.ok("scancel", job)

    def test_fields_of_a_submission(self):
        for fields, field in (({"comment": "x" * (512 << 10)}, "spec.comment"),
                              ({"name": "x" * 257}, "spec.name"),
                              ({"name": "a\nroot RUNNING"}, "spec.name"),
                              ({"name": "a\u009b2J"}, "spec.name"),
                              ({"account": "a\rb"}, "spec.account"),
                              ({"partitions": ["a\u001b]0;x\u0007"]}, "spec.partitions[0]"),
                              ({"comment": "a\u001b[31m"}, "spec.comment"),
                              ({"kill_wait_us": 30 * 86_400_000_000}, "spec.kill_wait_us"),
                              ({"checkpoint_signal": 65}, "spec.checkpoint_signal"),
                              ({"labels": {f"k{n}": "v" for n in range(1025)}}, "spec.labels"),
                              ({"dependencies": [{"type": "after_any", "job": 1}] * 1025}, "spec.dependencies"),
                              ({"groups": [{"launch": "script"}] * 1025}, "spec.groups"),
                              ({"groups": [{"launch": "script", "argv": [""] * 340_000}]}, "spec.groups[0].argv")):
            with self.subTest(field=field):
                self.refused("POST", "/v1/jobs", self.submit(**fields), field)

    def test_arrays(self):
        held = {"hold": True}
        status, first = self.call("POST", "/v1/jobs", {**self.submit(**held), "array": {"indices": "0-999999999"}})
        self.assertEqual(status, 200, first)
        status, answer = self.call("POST", "/v1/jobs", {**self.submit(**held), "array": {"indices": "0-9"}})
        self.assertEqual(status, 429, answer)
        self.assertEqual(answer["error"]["field"], "array")
        self.refused("POST", "/v1/jobs",
                     {**self.submit(**held), "array": {"indices": ",".join(str(2 * n) for n in range(100_001))}},
                     "array.indices", "more than 100000 separate ranges")
        self.refused("POST", "/v1/jobs", {**self.submit(**held), "array": {"indices": "0-2048:2"}}, "array.indices", "1024")
        status, _ = self.call("POST", f"/v1/jobs/{first['job_id']}/cancel", {})
        self.assertEqual(status, 200)

    def test_a_job_with_a_large_environment_runs(self):
        status, answer = self.call("POST", "/v1/jobs", {
            "script": "#!/bin/sh\ntrue\n", "environment": "\0".join(f"V{n}=" + "x" * 1000 for n in range(500)),
            "spec": {**SPEC, "work_dir": self.c.work}})
        self.assertEqual(status, 200, answer)
        self.assertEqual(self.c.wait(answer["job_id"]), "COMPLETED")


class AfterARestart(unittest.TestCase):
    def test_held_jobs_with_many_arguments_are_read_back(self):
        with Cluster(nodes=1) as c:
            script = c.script("#!/bin/sh\ntrue\n")
            jobs = [c.sbatch("-H", script, *["" for _ in range(20_000)]) for _ in range(10)]
            c.kill_controller()
            c.up()
            eventually(lambda: c.run("scontrol", "ping").stdout.count("is UP"), 60)
            for job in jobs:
                self.assertEqual(c.state(job), "PENDING")


if __name__ == "__main__":
    unittest.main()
