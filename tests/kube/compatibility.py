"""docs/kubernetes-compatibility.md, made from what the suite said: conformance.tsv (the tests), passed.txt (those that were seen to pass)
and reasons.tsv (why others do not); beyond.tsv has those outside conformance that were run: why one does not pass ("" = it does), and its name."""
import collections
import os

HERE = os.path.dirname(os.path.abspath(__file__))
PASSED = os.path.join(HERE, "passed.txt")
REASONS = os.path.join(HERE, "reasons.tsv")
BEYOND = os.path.join(HERE, "beyond.tsv")
DOCUMENT = os.path.join(os.path.dirname(os.path.dirname(HERE)), "docs", "kubernetes-compatibility.md")
NOT_HAD = "cannot be had"


def passed():
    if not os.path.exists(PASSED):
        return set()
    with open(PASSED) as f:
        return set(f.read().splitlines())


def beyond():
    """Why not, by the names of tests outside conformance; "": it passes."""
    if not os.path.exists(BEYOND):
        return {}
    with open(BEYOND) as f:
        return {test: why for why, test in (line.rstrip("\n").split("\t") for line in f if line.strip())}


def record(now_passed, now_failed):
    """What a run said counts from now on; what it did not run stands as it was."""
    inside = lambda tests: {test for test in tests if test.endswith("[Conformance]")}
    known, others = passed(), beyond()  # before the files are begun anew
    with open(PASSED, "w") as f:
        f.writelines(test + "\n" for test in sorted((known | inside(now_passed)) - inside(now_failed)))
    for test in set(now_failed) - inside(now_failed):
        others[test] = others.get(test) or "not looked into"
    for test in set(now_passed) - inside(now_passed):
        others[test] = ""
    with open(BEYOND, "w") as f:
        f.writelines(f"{why}\t{test}\n" for test, why in sorted(others.items()))


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
    return "\n".join(out + text_of_beyond(beyond())) + "\n"


def text_of_beyond(tests):
    if not tests:
        return []
    missed = [(test, why) for test, why in tests.items() if why]
    out = ["", "## Beyond conformance", "",
           f"Of the suite's other tests that need no cloud, no driver and no special feature {len(tests)} were run; {len(tests) - len(missed)} pass."]
    if missed:
        out += ["", "| those that do not | why |", "| --- | --- |"]
        out += [f"| {test.replace('|', '&#124;').strip()} | {why} |" for test, why in missed]
    return out


def write(rows):
    with open(DOCUMENT, "w") as f:
        f.write(text(rows))


def is_current(rows):
    with open(DOCUMENT) as f:
        return f.read() == text(rows)
