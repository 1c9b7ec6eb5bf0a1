"""Job logs that nobody tuned for, made from the ones at hand and from a model, the same on every machine.

Limits are drawn where a log has none: the run time times a factor of 1.1 to 10, up to the next of a menu. The model is
Lublin's and Feitelson's in its main traits (sizes in two stages on a logarithmic scale, run times by a hyper-gamma whose
mix depends on the size, days with a noon), with users that repeat their jobs and ask for their own margin.
"""
import csv
import datetime
import gzip
import math
import os
import random

HOUR, DAY = 3600, 86400
MENU = [900, 1800, HOUR, 2 * HOUR, 4 * HOUR, 8 * HOUR, 12 * HOUR, DAY, 2 * DAY, 4 * DAY, 7 * DAY, 14 * DAY, 30 * DAY, 60 * DAY]
FACTORS = [1.1, 1.5, 2, 3, 5, 10]
COLUMNS = ["id", "procs", "reqtime", "run", "submit", "user"]


def menu(seconds):
    return next((m for m in MENU if seconds <= m), int(seconds) + 1)


def read(path):
    with gzip.open(path, "rt") as file:
        return list(csv.DictReader(file))


def write(path, columns, rows):
    with open(path, "w", encoding="utf-8") as file:
        file.writelines(",".join(map(str, row)) + "\n" for row in [columns, *rows])
    return path


def lublin_with_limits(traces, path):
    """All of Lublin-1 at 85 % of the load, with margins."""
    rng, rows = random.Random(7), []
    with gzip.open(os.path.join(traces, "hpc/lublin-1_256.swf.gz"), "rt") as file:
        for line in file:
            if line.startswith(";") or not line.strip():
                continue
            word = line.split()
            run, size = int(float(word[3])), max(int(word[4]), int(word[7]))
            if run > 0 and size > 0:
                rows.append((word[0], size, menu(run * rng.choice(FACTORS)), run, int(int(word[1]) * 1.061 / 0.85),
                             f"u{rng.randrange(40)}"))
    return write(path, COLUMNS, rows)


def without_limits(traces, log, path):
    """Everybody asks for the longest there is, so that limits say nothing."""
    rows = read(os.path.join(traces, log))
    most = menu(max(int(r["run"]) for r in rows))
    return write(path, ["id", "gpus", "reqtime", "run", "submit", "vc"],
                 [(r["id"], r["gpus"], most, r["run"], r["submit"], r["vc"]) for r in rows])


def one_of_philly(traces, vc, path):
    """A virtual cluster of Philly as a cluster of its own."""
    rng, rows = random.Random(vc), []
    begin = datetime.datetime(2017, 9, 1)
    jobs = [r for r in read(os.path.join(traces, "gpu/philly_2017_jobs.csv.gz")) if r["cluster"] == vc and int(r["num_gpus"])]
    for number, row in enumerate(sorted(jobs, key=lambda r: r["timestamp"])):
        run = max(1, int(float(row["duration"])))
        at = datetime.datetime.strptime(row["timestamp"], "%Y-%m-%d %H:%M:%S") - begin
        rows.append((number, row["num_gpus"], menu(run * rng.choice([*FACTORS, 20])), run, int(at.total_seconds()), vc))
    return write(path, ["id", "gpus", "reqtime", "run", "submit", "vc"], rows)


def model(path, procs, load, count, seed, wide=0.0):
    """wide: share of the new kinds of job that take more than half of the machine."""
    rng, rows, at = random.Random(seed), [], 0.0
    high = math.log2(procs)
    middle = max(1.0, high - 2.5)
    users = [(f"u{u}", rng.choice([1.2, 1.5, 2, 3, 5, 10, None]), [], rng.random() ** 3 + 0.01) for u in range(60)]
    for number in range(count):
        name, margin, kinds, _ = rng.choices(users, [u[3] for u in users])[0]
        if kinds and rng.random() < 0.8:
            size, base = kinds[-1] if rng.random() < 0.7 else rng.choice(kinds[-5:])
            run = rng.uniform(1, 60) if rng.random() < 0.12 else base * rng.lognormvariate(0, 0.4)
        else:
            size, base = model_kind(rng, procs, middle, high, wide)
            kinds.append((size, base))
            run = base
        run = max(1, int(min(run, 3 * DAY)))
        limit = DAY if margin is None else menu(max(run, base) * margin)
        rows.append([number, size, max(limit, run), run, at, name])
        noon = 0.4 + 1.2 * max(0, math.sin((at / HOUR % 24 - 6) / 24 * 2 * math.pi))
        at += rng.gammavariate(0.45, 1 / 0.45) / noon
    stretch = sum(r[1] * r[3] for r in rows) / (procs * load) / rows[-1][4]
    for row in rows:
        row[4] = int(row[4] * stretch)
    return write(path, COLUMNS, rows)


def model_kind(rng, procs, middle, high, wide):
    if rng.random() < 0.244:
        size = 1
    elif rng.random() < wide:
        size = rng.randint(procs // 2 + 1, procs)
    else:
        log = rng.uniform(0.8, middle) if rng.random() < 0.86 else rng.uniform(middle, high)
        size = 2 ** round(log) if rng.random() < 0.76 else round(2**log)
    size = max(1, min(procs, size))
    short = rng.random() < max(0.0, min(1.0, -0.0054 * size * 128 / procs + 0.78))
    base = math.exp(rng.gammavariate(4.2, 0.94) if short else rng.gammavariate(312, 0.03))
    return size, min(base, 2 * DAY)


def make(traces, folder):
    """name: words for lockstep-sim."""
    def at(name):
        return os.path.join(folder, name + ".csv")

    def flat(path, procs):
        return ["queue", path, "--procs", str(procs)]

    def nodes(path, count):
        return ["gpu", path, "--nodes", str(count), "--gpus-per-node", "8"]

    windows = [100, 900, 1500, 3900, 4800, 5700, 6200, 6700, 8300, 8900]
    made = {
        "Lublin other": flat("hpc/lublin-1_256.swf.gz", 256) + ["--window", ",".join(f"{w}:1024" for w in windows)],
        "Lublin limits": flat(lublin_with_limits(traces, at("lublin")), 256),
        "model 64": flat(model(at("m64"), 64, 0.9, 10000, 3), 64),
        "model 128": flat(model(at("m128"), 128, 0.85, 15000, 1), 128),
        "model 512": flat(model(at("m512"), 512, 0.8, 15000, 2), 512),
        "model wide": flat(model(at("wide"), 256, 0.8, 12000, 4, wide=0.05), 256),
        "Philly no l.": nodes(without_limits(traces, "gpu/philly_main_limits.csv.gz", at("philly")), 67),
        "Chronus no l.": nodes(without_limits(traces, "gpu/chronus_mix1_limits.csv.gz", at("chronus")), 160),
    }
    for vc, count in (("ee9e8c", 16), ("2869ce", 5), ("7f04ca", 9), ("b436b2", 7), ("6c71a0", 5)):
        made[f"Philly {vc}"] = nodes(one_of_philly(traces, vc, at(vc)), count)
    return made
