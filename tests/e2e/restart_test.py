"""What is no record survives a restart all the same: what predictions were made from comes back from accounting."""
import http.client
import json
import os
import pty
import signal
import socket
import subprocess
import time
import unittest

from cluster import BIN, Cluster, eventually, send


class OverUnix(http.client.HTTPConnection):
    def __init__(self, path):
        super().__init__("localhost")
        self.path = path

    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.connect(self.path)


def as_ann(*argv):
    return ("setpriv", "--reuid=1001", "--regid=1001", "--clear-groups", *argv)


def read_until(process, words):
    """The line of standard error that holds the words, or all that was said to the end."""
    said = ""
    for line in process.stderr:
        said += line
        if words in line:
            return line
    return said


def at_terminal(*argv, **more):
    """A command whose standard error is a terminal: people are told that it waits, programs that parse are not."""
    ours, theirs = pty.openpty()
    process = subprocess.Popen(argv, stderr=theirs, **more)
    os.close(theirs)
    process.stderr = open(ours)
    return process


def rest_of(process):
    """What it says at its terminal until it ends."""
    said = ""
    try:
        for line in process.stderr:
            said += line
    except OSError:  # nobody holds the terminal's other end any more
        pass
    process.wait(timeout=60)
    process.stderr.close()
    return said


def predicted_s(c, job):
    connection = OverUnix(c.status()["socket"])
    connection.request("GET", f"/v1/jobs/{job}")
    reply = json.loads(connection.getresponse().read())
    return reply["job"]["predicted_us"] / 1e6


class Restart(unittest.TestCase):
    def test_predictions_are_learned_again(self):
        with Cluster(nodes=1, gpus=None, cpus=8) as c:
            for _ in range(12):
                self.assertEqual(c.wait(c.wrap("true", "-J", "short", "-t", "60")), "COMPLETED")
            ask = ["-J", "short", "-t", "60", "--hold"]
            before = predicted_s(c, c.wrap("true", *ask))
            self.assertLess(before, 1800)  # learned: far below the limit
            # Accounting has seen them all.
            eventually(lambda: c.ok("sacct", "-nXS", "now-1days").count("COMPLETED") == 12, what="accounting")
            c.kill_controller()
            c.up()
            after = predicted_s(c, c.wrap("true", *ask))
            self.assertLess(after, 1.25 * before + 1)
            self.assertLess(predicted_s(c, c.wrap("true", *ask)), 1800)


    def stopped_while_it_starts(self, c):
        """A controller that stands still before it answers: its syncs take long, and it is stopped at one."""
        note = os.path.join(c.dir, "controller.starting")
        while True:
            controller = subprocess.Popen([os.path.join(BIN, "lockstepd"), "--dir", c.dir],
                                          env={**c.env, "LOCKSTEP_SYNC_DELAY_US": "1000000"},
                                          stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            eventually(lambda: os.path.exists(note) or controller.poll() is not None, what="a controller that starts")
            controller.send_signal(signal.SIGSTOP)
            if os.path.exists(note):
                return controller
            self.assertIsNone(controller.poll(), "it ended")
            controller.kill()  # it was through already
            controller.wait()

    def test_status_says_how_far_the_log_is_read(self):
        """A controller that reads its log answers nobody: `status` said no more than that."""
        with Cluster(nodes=1, gpus=None, cpus=2) as c:
            for _ in range(3):
                c.wrap("true", "--hold")
            c.kill_controller()
            slow = self.stopped_while_it_starts(c)
            try:
                shown = c.run("lockstep", "status", "--dir", c.dir)
                self.assertEqual(shown.returncode, 3)
                self.assertRegex(shown.stdout, rf"controller +starting, pid {slow.pid}")
                self.assertRegex(shown.stdout, r"notice +the controller is starting and answers when it is through: "
                                               r"[a-z ]+: entry \d+ of \d+")
                self.assertEqual(c.status()["controller"]["state"], "starting")
            finally:
                slow.kill()
                slow.wait()
            self.assertNotIn("starting", c.run("lockstep", "status", "--dir", c.dir).stdout, "what it left is nobody's")
            c.up()
            self.assertEqual(c.status()["controller"]["state"], "up")
            self.assertNotIn("controller.starting", os.listdir(c.dir))

    def test_what_comes_right_after_up_waits_for_its_nodes(self):
        """`down; up` is a new boot of every node: nothing may start there before it has said so."""
        with Cluster(nodes=4, gpus=None, cpus=2) as c:
            users = (None, 1001)
            ran = [c.wrap("true", user=user) for user in users]
            self.assertEqual([c.wait(job) for job in ran], ["COMPLETED"] * 2)
            for user in users:
                # A queue that waits for room, none of which may be lost, or started twice.
                c.wrap("sleep 600", "-N4", "--exclusive", "--no-requeue", "-o", "/dev/null", user=user)
                waiting = [c.wrap("hostname", "--no-requeue", *size, "-o", f"once-{user}-%j", "--open-mode=append", user=user)
                           for size in (["-N1"], ["-N4"], ["-n8"])]
                c.down(delete=False)
                c.up()
                said = c.run("srun", "-N4", "hostname", user=user, timeout=60)
                self.assertEqual(said.returncode, 0, said.stderr)
                self.assertEqual(sorted(said.stdout.split()), ["n1", "n2", "n3", "n4"])
                for job in waiting:
                    self.assertEqual(c.wait(job), "COMPLETED")
                    self.assertEqual(c.show(job)["Restarts"], "0")
                    self.assertEqual(len(c.output(job, f"once-{user}-{{}}").split()), 1)

    def test_what_ends_well_while_the_controller_is_away_has_ended_well(self):
        with Cluster(nodes=1, gpus=None, cpus=4) as c:
            jobs = {user: c.wrap("sleep 1", "-t", "0:09", user=user) for user in (None, 1001)}
            after = {user: c.wrap("true", "-d", f"afterok:{job}", user=user) for user, job in jobs.items()}
            for job in jobs.values():
                c.wait(job, "RUNNING")
            c.kill_controller()
            time.sleep(11)  # beyond the limit
            c.up()
            for user, job in jobs.items():
                self.assertEqual(c.wait(job), "COMPLETED")
                self.assertEqual(c.wait(after[user]), "COMPLETED")
                # It took what it took, and not the time until somebody asked.
                row = lambda: c.ok("sacct", "-nPX", "-j", job, "-o", "State,ElapsedRaw", user=user).strip().split("|")
                eventually(lambda: row()[0] == "COMPLETED", 10, "accounting")
                self.assertLessEqual(int(row()[1]), 9)

    def test_who_waits_beside_the_job_tells_later_that_it_ended(self):
        """salloc, and an srun whose file is named after the job, end while the controller is away, which comes back when
        their limit has passed."""
        with Cluster(nodes=1, gpus=None, cpus=4) as c:
            until_told = "while [ ! -e go ]; do sleep 0.1; done"
            clients = []
            for words in (["salloc", "-n1", "-t", "0:08", "-J", "alloc", "srun", "sh", "-c", until_told],
                          ["srun", "-n1", "-t", "0:08", "-J", "step", "-o", "out-%j", "sh", "-c", until_told]):
                clients.append(subprocess.Popen(["setpriv", "--reuid=1001", "--regid=1001", "--clear-groups", *words],
                                                env=c.env, cwd=c.work, stderr=subprocess.PIPE, text=True))
                self.addCleanup(clients[-1].kill)
            eventually(lambda: c.ok("squeue", "-h", "-s", "-o", "%i").count(".0") == 2, 30, "two steps")
            jobs = c.ok("squeue", "-h", "-o", "%i").split()
            c.kill_controller()
            open(os.path.join(c.work, "go"), "w").close()
            time.sleep(9)  # beyond the limit, within the clients' patience
            c.up()
            for client in clients:
                said = client.communicate(timeout=60)[1]
                self.assertEqual(client.returncode, 0, said)
            self.assertEqual([c.wait(job) for job in jobs], ["COMPLETED"] * 2)

    def test_who_stops_waiting_meanwhile_leaves_no_job_behind(self):
        with Cluster(nodes=1, gpus=None, cpus=2) as c:
            c.wait(c.wrap("sleep 600", "--exclusive", "-J", "first"), "RUNNING")
            start = lambda *argv: subprocess.Popen(as_ann(*argv), env=c.env, cwd=c.work, stderr=subprocess.PIPE, text=True)
            waiting = [start(*command.split(), "-J", "second", "--exclusive", "true") for command in ("srun", "salloc")]
            eventually(lambda: len(c.ok("squeue", "-h", "-n", "second").splitlines()) == 2, what="two jobs that wait")
            c.kill_controller()
            for process in waiting:
                self.assertIn("queued and waiting", read_until(process, "queued and waiting"))
                send(process.pid, signal.SIGTERM)
                self.assertIn("waiting for the controller to cancel it", read_until(process, "to cancel it"))
            c.up()
            for process in waiting:
                _, said = process.communicate(timeout=120)
                self.assertIn("has been revoked", said)
                self.assertEqual(process.returncode, 1)
            self.assertEqual(c.ok("squeue", "-h", "-n", "second"), "")

    def test_a_cancel_is_asked_for_again(self):
        with Cluster(nodes=1, gpus=None, cpus=4) as c:
            jobs = [c.wrap("sleep 600", "-J", name) for name in ("by-id", "by-name", "by-signal")]
            for job in jobs:
                c.wait(job, "RUNNING")
            pid = c.controller_pid()
            os.kill(pid, signal.SIGSTOP)
            start = lambda *argv: at_terminal(*argv, env=c.env, cwd=c.work)
            asked = [start("scancel", jobs[0]), start("scancel", "-n", "by-name"), start("scancel", "-s", "USR1", jobs[2])]
            for process in asked:
                read_until(process, "waiting for the controller")
            send(pid)
            self.assertEqual([(rest_of(p), p.returncode) for p in asked[:2]], [("", 0)] * 2)
            self.assertIn("not known", rest_of(asked[2]), "a program may count signals")
            for job in jobs[:2]:
                self.assertEqual(c.wait(job), "CANCELLED")

    def test_a_signal_is_kept_for_the_tasks(self):
        with Cluster(nodes=1, gpus=None, cpus=4) as c:
            for name in ("USR1", "USR2"):  # srun bears with a controller that is away for long; TERM bounds its patience
                with self.subTest(signal=name):
                    srun = subprocess.Popen(as_ann("srun", "sh", "-c", f"trap 'echo got; exit 9' {name}; echo ready; "
                                                   "while :; do sleep 0.1; done"), env=c.env, cwd=c.work,
                                            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
                    self.assertEqual(srun.stdout.readline(), "ready\n")
                    c.kill_controller()
                    send(srun.pid, getattr(signal, f"SIG{name}"))
                    self.assertIn("when the connection is back", read_until(srun, "connection is back"))
                    c.up()
                    out, said = srun.communicate(timeout=120)
                    self.assertEqual((srun.returncode, out), (9, "got\n"), said)

    def test_a_crash_costs_no_time(self):
        with Cluster(nodes=2, gpus=None, cpus=2) as c:
            stays = c.wrap("sleep 600", "-n1")
            c.wait(stays, "RUNNING")
            c.kill_controller()
            c.up()
            took = []
            for _ in range(4):
                begin = time.monotonic()
                self.assertEqual(c.run("srun", "-N2", "hostname", timeout=60).returncode, 0)
                took.append(time.monotonic() - begin)
            # The first one waits for no lease, hello or timer. The others say how fast this machine is just now.
            self.assertLess(took[0], max(took[1:]) + 8)
            self.assertEqual(c.state(stays), "RUNNING")


if __name__ == "__main__":
    unittest.main()
