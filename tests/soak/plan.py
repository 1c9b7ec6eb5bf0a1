"""Everything a soak will do, drawn from its seed before it begins: submissions, what users do with their jobs, faults.

A plan is a list of (second, what, words). The same seed and length give the same plan; what the cluster makes of it is the soak's to find out.
"""
import random

from ledger import Job, Step

NODES, CPUS, GPUS = 6, 8, 4  # of a node
RESERVED = "n6"  # belongs to RESERVED_FOR
FREE = NODES - 1
USERS = {1001: "ml", 1002: "ml", 1003: "bio", 1004: "bio"}  # user: account
RESERVED_FOR = 1004
LIMITS = {  # name: (who counts, what counts, how much)
    # A QOS that has this limit itself is bound by its own alone, as in Slurm: the first in the hierarchy counts.
    "MaxJobs of uid1001": (lambda j: j.user == 1001 and j.qos != "pair", lambda j: 1, 4),
    "GrpTRES=gres/gpu of ml": (lambda j: j.account == "ml", lambda j: j.gpus, 8),
    "MaxTRESPU=cpu of qos small": (lambda j: j.qos == "small" and j.user == 1003, lambda j: j.cpus, 6),
    "MaxJobsPU of qos pair, uid1001": (lambda j: j.qos == "pair" and j.user == 1001, lambda j: 1, 2),
    "MaxJobsPU of qos pair, uid1002": (lambda j: j.qos == "pair" and j.user == 1002, lambda j: 1, 2),
    "licences": (lambda j: j.licences, lambda j: j.licences, 3),
}
CODES = (0, 0, 0, 0, 1, 3, 42, 255)


class Draw:
    """One plan in the making."""

    def __init__(self, seed, seconds, pace=1.0):
        self.rng, self.seconds, self.pace = random.Random(seed), seconds, pace
        self.events, self.count = [], 0
        self.chain = None  # the tag that a dependent may name

    # --- jobs ---

    def job(self, kind, user=None, **words):
        self.count += 1
        user = user or self.rng.choice((1002, 1003, 1004))
        tag = f"{kind}{self.count}"
        job = Job(tag=tag, kind=kind, user=user, options=[], account=USERS[user], code=self.rng.choice(CODES),
                  seconds=round(self.rng.choice((0.1, 0.5, 1, 2, 4)) * self.rng.uniform(0.7, 1.3), 2),
                  lines=self.rng.choice((0, 2, 5, 20, 400)))
        for key, value in words.items():
            setattr(job, key, value)
        if job.cpus > 1 and job.nodes == 1:
            job.options += ["-c", str(job.cpus)]
        if self.rng.random() < 0.3:
            job.requeues = False
            job.options += ["--no-requeue"]
        return job

    def batch(self, at):
        job = self.job("batch", cpus=self.rng.choice((1, 1, 2)))
        if self.rng.random() < 0.1:
            job.code = 128 + self.rng.choice((9, 11, 15))
        return [(at, "submit", job)]

    def array(self, at):
        job = self.job("array", indices=sorted(self.rng.sample(range(0, 20), self.rng.randint(2, 6))))
        most = self.rng.choice(("", "", "%2"))
        job.options += ["--array=" + ",".join(map(str, job.indices)) + most]
        return [(at, "submit", job)]

    def gang(self, at):
        nodes, gpus = self.rng.randint(2, 4), self.rng.choice((0, 1, 2, 4))
        if nodes * gpus > 8:
            nodes = 2
        job = self.job("gang", nodes=nodes, cpus=nodes, gpus=nodes * gpus)
        job.options += [f"-N{nodes}", "--ntasks-per-node=1"] + ([f"--gpus-per-node={gpus}"] if gpus else [])
        job.steps = [Step(job.code, job.seconds, job.lines, nodes, "gpus" if gpus else "", (f"-N{nodes}", f"-n{nodes}"))]
        return [(at, "submit", job)]

    def devices(self, at):
        gpus = self.rng.randint(1, 4)
        job = self.job("device", gpus=gpus, words="gpus")
        job.options += [f"--gpus={gpus}", "-N1"]
        return [(at, "submit", job)]

    def steps(self, at):
        job = self.job("steps", cpus=4, together=self.rng.random() < 0.5)
        job.options += ["-n2"]
        job.options[job.options.index("4")] = "2"
        for _ in range(self.rng.randint(2, 4)):
            job.steps.append(Step(self.rng.choice(CODES), round(self.rng.uniform(0.1, 1.5), 2), self.rng.choice((1, 3, 50)), 1, "",
                                  ("-n1", "-c2", "--exact")))
        job.code = max(step.code for step in job.steps)
        return [(at, "submit", job)]

    def srun(self, at):
        nodes = self.rng.choice((1, 1, 2, 3))
        job = self.job("srun", nodes=nodes, cpus=nodes, client="srun", requeues=False)
        job.options = [f"-N{nodes}", f"-n{nodes}"]
        job.steps = [Step(job.code, job.seconds, job.lines, nodes)]
        return [(at, "submit", job)]

    def salloc(self, at):
        job = self.job("salloc", nodes=2, cpus=2, client="salloc", requeues=False)
        job.options = ["-N2", "-n2"]
        job.steps = [Step(job.code, job.seconds, job.lines, 2, "", ("-n2",)), Step(0, 0.1, 1, 1, "", ("-N1", "-n1"))]
        return [(at, "submit", job)]

    def split(self, at):
        """Steps at one time that share a job's devices: each has its own."""
        job = self.job("split", cpus=2, gpus=2, together=True)
        job.options = [o for o in job.options if o == "--no-requeue"] + ["-N1", "-n2", "--gpus-per-node=2"]
        for _ in range(2):
            job.steps.append(Step(job.code, round(self.rng.uniform(0.5, 2), 2), 3, 1, "gpus", ("-n1", "--exact", "--gpus=1")))
        return [(at, "submit", job)]

    def trim(self, at):
        """An array that loses some of its elements."""
        job = self.job("trim", indices=list(range(8)), code=0, seconds=round(self.rng.uniform(1, 4), 2))
        job.options += ["--array=0-7%3"]
        job.cut = sorted(self.rng.sample(range(8), 3))
        return [(at, "submit", job), (at + self.rng.uniform(0.2, 3), "trim", job.tag)]

    def late(self, at):
        """A dependency on what ended long ago, when no list shows it any more."""
        first = self.job("first", code=0, seconds=0.5)
        job = self.job("late", user=first.user, after=("afterok", first.tag))
        job.options += ["--kill-on-invalid-dep=yes"]
        then = at + 400 if at + 430 < self.seconds else at + 20
        return [(at, "submit", first), (then, "submit", job)]

    def waits(self, at):
        return [(at, "submit", self.job("wait", client="sbatch --wait"))]

    def chain_of(self, at):
        first = self.job("first", code=self.rng.choice((0, 0, 5)), seconds=round(self.rng.uniform(0.5, 3), 2))
        events = [(at, "submit", first)]
        for word in self.rng.sample(("afterok", "afternotok", "afterany"), 2):
            job = self.job("then", user=first.user, after=(word, first.tag))
            job.options += ["--kill-on-invalid-dep=yes"]
            events.append((at + self.rng.uniform(0.3, 2), "submit", job))
        return events

    def corresponding(self, at):
        first = self.job("pre", indices=[0, 1, 2, 3])
        first.options += ["--array=0-3"]
        second = self.job("post", user=first.user, indices=[0, 1, 2, 3], after=("aftercorr", first.tag))
        second.options += ["--array=0-3", "--kill-on-invalid-dep=yes"]
        return [(at, "submit", first), (at + 0.5, "submit", second)]

    def singles(self, at):
        events = []
        for k in range(3):
            job = self.job("single", user=1003, after=("singleton", ""))
            job.options += ["-J", f"alone{int(at)}", "-d", "singleton"]
            events.append((at + 0.2 * k, "submit", job))
        return events

    def requeue(self, at):
        job = self.job("requeue", requeues=True, seconds=4.0, words="beats")
        job.options = [o for o in job.options if o != "--no-requeue"] + ["--requeue"]
        return [(at, "submit", job), (at + self.rng.uniform(1, 3), "requeue", job.tag)]

    def hold(self, at):
        job = self.job("hold")
        job.options += ["--hold"]
        return [(at, "submit", job), (at + self.rng.uniform(1, 6), "release", job.tag)]

    def cancel(self, at):
        job = self.job("cancel", seconds=self.rng.choice((3.0, 30.0)), words=self.rng.choice(("", "deaf")))
        if self.rng.random() < 0.3:
            job.steps = [Step(0, job.seconds, job.lines, 2, job.words, ("-N2", "-n2"))]
            job.nodes, job.cpus, job.code = 2, 2, 0
            job.options += ["-N2", "-n2"]
        return [(at, "submit", job), (at + self.rng.uniform(0.2, 4), "cancel", job.tag)]

    def pause(self, at):
        job = self.job("pause", seconds=6.0, words="beats")
        stop = at + self.rng.uniform(1, 2.5)
        return [(at, "submit", job), (stop, "suspend", job.tag), (stop + self.rng.uniform(2, 6), "resume", job.tag)]

    def begin(self, at):
        job = self.job("begin", begin=self.rng.randint(2, 8))
        job.options += [f"--begin=now+{job.begin}"]
        return [(at, "submit", job)]

    def overtime(self, at):
        if at > self.seconds - 30:
            return self.batch(at)
        job = self.job("over", seconds=600.0, times_out=True, words=self.rng.choice(("", "deaf")))
        job.options += ["-t", "1"]
        return [(at, "submit", job)]

    def limited(self, at):
        """More than a limit lets run at once: of one association, over arrays and QOS; of a QOS; of licences."""
        which, events = self.rng.choice(("assoc", "assoc", "small", "pair", "licence")), []
        for k in range(self.rng.randint(5, 9)):
            if which == "assoc":
                job = self.job("many", user=1001)
                if self.rng.random() < 0.4:
                    job.indices = [0, 1, 2, 3, 4, 5]
                    job.options += ["--array=0-5%4"]
                if self.rng.random() < 0.5:
                    job.qos = "pair"
            elif which == "licence":
                job = self.job("licence", licences=self.rng.randint(1, 3))
                job.options += ["-L", f"lic:{job.licences}"]
            else:
                job = self.job(which, user=1003 if which == "small" else 1002, qos=which, cpus=2 if which == "small" else 1)
            if job.qos != "normal":
                job.options += ["-q", job.qos]
            job.seconds = round(self.rng.uniform(0.5, 3), 2)
            events.append((at + 0.1 * k, "submit", job))
        return events

    def reserved(self, at):
        job = self.job("reserved", user=RESERVED_FOR)
        job.options += ["--reservation=class", "-t", "30"]
        return [(at, "submit", job)]

    def preempt(self, at):
        qos = self.rng.choice(("low", "spare", "lazy"))
        low = self.job("low", user=1003, qos=qos, seconds=8.0, nodes=FREE, cpus=FREE * CPUS, words="beats")
        low.options = ["--no-requeue"] * (not low.requeues) + ["-q", qos, f"-N{FREE - 1}-{FREE}", "--ntasks-per-node=1", f"-c{CPUS}"]
        high = self.job("high", user=1004, qos="high", seconds=1.0, nodes=2, cpus=2 * CPUS)
        high.options += ["-q", "high", "-N2", "--ntasks-per-node=1", f"-c{CPUS}"]
        return [(at, "submit", low), (at + self.rng.uniform(1, 4), "submit", high)]

    KINDS = (("batch", 20), ("array", 8), ("gang", 10), ("devices", 10), ("steps", 8), ("srun", 10), ("salloc", 4), ("waits", 3), ("split", 4), ("trim", 3), ("late", 1),
             ("chain_of", 8), ("corresponding", 3), ("singles", 2), ("requeue", 4), ("hold", 4), ("cancel", 8), ("pause", 4),
             ("begin", 4), ("overtime", 2), ("limited", 7), ("reserved", 4), ("preempt", 3))

    def jobs(self):
        at, names = 0.5, [n for n, _ in self.KINDS]
        weights = [w for _, w in self.KINDS]
        shown = list(names)  # every kind once, before chance decides
        while at < self.seconds - 5:
            name = shown.pop(0) if shown else self.rng.choices(names, weights)[0]
            self.events += getattr(self, name)(at)
            at += self.rng.expovariate(self.pace)

    # --- faults ---

    FAULTS = (("kill controller", 6), ("controller away", 2), ("stop controller", 3), ("kill agent", 6), ("stop agent", 4),
              ("kill shim", 5), ("stop shim", 3), ("kill nursery", 2), ("stop nursery", 2), ("lose node", 3), ("disk full", 2), ("drain", 3))

    def faults(self):
        names, weights = [n for n, _ in self.FAULTS], [w for _, w in self.FAULTS]
        at, shown, lost, drained = 8.0, self.rng.sample(names, len(names)), 0.0, 0.0
        while at < self.seconds - 15:
            kind = shown.pop() if shown else self.rng.choices(names, weights)[0]
            node, length = f"n{self.rng.randint(1, FREE)}", round(self.rng.uniform(1, 7), 1)
            if kind == "stop agent" and self.rng.random() < 0.15:
                length = 36.0  # longer than a node may be silent
            if (kind == "lose node" and at < lost) or (kind == "drain" and at < drained):
                kind = "kill agent"
            if kind == "lose node":
                lost = at + length + 10
                self.doomed(at, node)
            if kind == "drain":
                drained = at + length + 2
            self.events.append((at, "fault", (kind, node, length, self.rng.random())))
            at += self.rng.uniform(2, 12)


    def doomed(self, at, node):
        """Its node is lost in its middle: what it returns must say so."""
        job = self.job("doomed", user=1004, client="srun", requeues=False, code=0, seconds=15.0)
        job.options = ["-N1", "-n1", "-w", node]
        job.steps = [Step(0, 15.0, job.lines, 1)]
        self.events.append((at - 3, "submit", job))

    def narrow(self):
        """A job that ends just within its limit while the controller is away, and who waits for it."""
        for at in range(20, int(self.seconds - 100), 240):
            job = self.job("narrow", user=1004, code=0, seconds=52.0, requeues=False)
            job.options = ["-t", "1", "--no-requeue"]
            then = self.job("then", user=1004, after=("afterok", job.tag))
            then.options += ["--kill-on-invalid-dep=yes"]
            self.events += [(at, "submit", job), (at + 1, "submit", then), (at + 48, "fault", ("controller away", "n1", 18.0, 0.5))]


def make(seed, seconds, pace=1.0):
    draw = Draw(seed, seconds, pace)
    draw.jobs()
    draw.faults()
    draw.narrow()
    return sorted(draw.events, key=lambda e: e[0])
