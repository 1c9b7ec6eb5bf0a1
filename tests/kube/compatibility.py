"""docs/kubernetes-compatibility.md, made from what the suite said: conformance.tsv (the tests), passed.txt (those that were seen to pass)
and reasons.tsv (why others do not)."""
import collections
import os

HERE = os.path.dirname(os.path.abspath(__file__))
PASSED = os.path.join(HERE, "passed.txt")
REASONS = os.path.join(HERE, "reasons.tsv")
DOCUMENT = os.path.join(os.path.dirname(os.path.dirname(HERE)), "docs", "kubernetes-compatibility.md")
NOT_HAD = "cannot be had"


def passed():
    if not os.path.exists(PASSED):
        return set()
    with open(PASSED) as f:
        return set(f.read().splitlines())


def record(now_passed, now_failed):
    """What a run said counts from now on; what it did not run stands as it was."""
    known = passed()  # before the file is begun anew
    with open(PASSED, "w") as f:
        f.writelines(test + "\n" for test in sorted((known | set(now_passed)) - set(now_failed)))


def reasons():
    """By the beginning of a test's name."""
    with open(REASONS) as f:
        return dict(line.rstrip("\n").split("\t") for line in f if line.strip() and not line.startswith("#"))


def reason_of(row, known):
    for beginning, why in known.items():
        if row["test"].startswith(beginning):
            return why
    if NOT_HAD in row["from"]:
        return "an image it wants cannot be had: " + row["images"]
    return "not seen to pass yet"


def text(rows):
    done, known = passed(), reasons()
    groups = collections.OrderedDict()
    for row in rows:
        groups.setdefault(row["test"].split("]")[0] + "]", []).append(row)
    in_all = sum(row["test"] in done for row in rows)
    reachable = [row for row in rows if NOT_HAD not in row["from"]]
    of_reachable = sum(row["test"] in done for row in reachable)
    out = ["# Kubernetes' own conformance tests", "",
           "Made by `./dev peers kubernetes --document`; do not edit. The suite is that of Kubernetes 1.34.4, unmodified; how it is run stands in [kubernetes.md](kubernetes.md).", "",
           f"**{in_all} of {len(rows)} pass**; of the {len(reachable)} whose images can be had here, {of_reachable} ({100 * of_reachable / len(reachable):.0f} %).", "",
           "| | pass | of |", "| --- | --- | --- |"]
    for name, members in sorted(groups.items()):
        out.append(f"| {name[1:-1]} | {sum(row['test'] in done for row in members)} | {len(members)} |")
    missed = [row for row in rows if row["test"] not in done]
    if missed:
        out += ["", "## Those that do not", "", "| test | why |", "| --- | --- |"]
        for row in missed:
            out.append(f"| {row['test'].replace(' [Conformance]', '').replace('|', '&#124;')} | {reason_of(row, known)} |")
    return "\n".join(out) + "\n"


def write(rows):
    with open(DOCUMENT, "w") as f:
        f.write(text(rows))


def is_current(rows):
    with open(DOCUMENT) as f:
        return f.read() == text(rows)
