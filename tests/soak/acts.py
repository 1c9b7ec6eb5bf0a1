"""Carries out what the plan says users and the administrator do, and keeps what they were answered."""
import os
import subprocess
import threading
import time

PATIENCE_S = 120  # for one command; longer is a finding
QUEUED_S = 300  # for one that also waits for its job's turn


class Actor:
    def __init__(self, world, ledger):
        self.world, self.ledger = world, ledger
        self.clients = []  # threads, one for each command that stays with its job

    # --- submissions ---

    def words(self, job):
        files = ["-J", job.tag] if "-J" not in job.options else []
        if job.client != "salloc":
            name = job.tag + (".%a" if job.indices else "")
            files += ["-o", f"{self.ledger.room}/out/{name}", "-e", f"{self.ledger.room}/err/{name}", "--open-mode=append"]
        return [*files, *job.options, *self.dependency(job)]

    def dependency(self, job):
        if not job.after or not job.after[1]:
            return []
        return [f"--dependency={job.after[0]}:{self.ledger.jobs[job.after[1]].id}"]

    def script(self, job):
        if not job.steps:
            return ["task.sh", job.tag, "b", job.code, job.seconds, job.lines, *job.words.split()]
        texts = [f"{s.code} {s.seconds} {s.lines} {s.words} -- {' '.join(s.options)}" for s in job.steps]
        return ["steps.sh", job.tag, "together" if job.together else "in-turn", *texts]

    def submit(self, job):
        if job.after and job.after[1] and not self.known(job.after[1], 40):
            return self.ledger.count("left out: what it waits for was refused")
        self.ledger.add(job)
        job.asked_at = time.time()
        if job.client:
            thread = threading.Thread(target=self.stay, args=(job,), daemon=True)
            self.clients.append(thread)
            return thread.start()
        text = "#!/bin/bash\nexec $SOAK/" + " ".join(f"'{w}'" for w in self.script(job)) + "\n"
        answer = self.command(job.user, "sbatch", "--parsable", *self.words(job), input=text, unit=job.tag)
        self.submitted(job, answer)

    def submitted(self, job, answer):
        job.answered_at, job.said = time.time(), answer.stderr
        if answer.returncode == 0:
            job.id = answer.stdout.strip().split(";")[0]
        else:
            self.ledger.refused.append(job)

    def stay(self, job):
        room = self.ledger.room
        first, *rest = self.script(job)
        inner = [f"{room}/{first}", *map(str, rest)]
        if job.client == "srun":
            step = job.steps[0]
            argv = ["srun", *job.options, "-J", job.tag, f"{room}/task.sh", job.tag, "0", *map(str, (step.code, step.seconds, step.lines))]
        elif job.client == "salloc":
            argv = ["salloc", *self.words(job), *inner]
        else:
            argv = ["sbatch", "--parsable", "--wait", *self.words(job), *inner]
        shown = open(os.path.join(room, "out", job.tag), "ab") if job.client != "sbatch --wait" else subprocess.PIPE
        try:
            answer = self.command(job.user, *argv, stdout=shown, patience=QUEUED_S + job.seconds, unit=job.tag)
        finally:
            if shown != subprocess.PIPE:
                shown.close()
        job.answered_at, job.said, job.returned = time.time(), answer.stderr, answer.returncode
        job.id = (answer.stdout or "").strip() or self.id_by_name(job)

    def id_by_name(self, job):
        """A client's job has no id of ours before it runs: its trace knows it."""
        marks = self.ledger.trace(job.tag)
        return next((m.job for m in marks if m.job != "0"), "")

    def known(self, tag, patience=8):
        """Waits for the answer to the submission of TAG."""
        end = time.monotonic() + patience
        while time.monotonic() < end:
            job = self.ledger.jobs.get(tag)
            if job and job.id:
                return job
            if job and job.answered_at:
                return None
            time.sleep(0.05)
        return None

    # --- what is done with jobs ---

    def act(self, what, tag):
        job = self.known(tag)
        if not job:
            return self.ledger.count("left out: the job was refused")
        asked = time.time()
        user = 0 if what in ("suspend", "resume") else job.user
        words = {"cancel": ("scancel", job.id), "trim": ("scancel", *(f"{job.id}_{i}" for i in job.cut))}.get(what, ("scontrol", what, job.id))
        answer = self.command(user, *words, unit=tag)
        if what == "resume" and job.did("suspend") and job.did("suspend")[-1][3]:
            while answer.returncode and time.time() < asked + 60 and self.world.state(job.id) == "SUSPENDED":
                time.sleep(1)
                answer = self.command(user, *words)
        job.acts.append((asked, time.time(), what, answer.returncode == 0))

    def command(self, user, *argv, input=None, stdout=subprocess.PIPE, patience=PATIENCE_S, unit=None):
        argv = [str(a) for a in argv]
        full = argv if not user else ["setpriv", f"--reuid={user}", f"--regid={user}", "--clear-groups", *argv]
        process = subprocess.Popen(full, stdin=subprocess.PIPE if input is not None else subprocess.DEVNULL, stdout=stdout,
                                   stderr=subprocess.PIPE, env=self.world.env, cwd=self.ledger.room)
        try:
            out, err = process.communicate(input.encode() if input is not None else None, timeout=patience)
        except subprocess.TimeoutExpired:
            process.kill()
            out, err = process.communicate()
            self.ledger.find("answered", unit or argv[0], f"{' '.join(argv)[:300]}: no answer in {patience:.0f} s; then it was killed; it had said: {err.decode(errors='replace')[-400:].strip()}")
        decode = lambda b: b.decode(errors="replace") if b is not None else ""
        return subprocess.CompletedProcess(argv, process.returncode, decode(out), decode(err))
