"""Completion must not run, nor let run, what others wrote: names of features, users, accounts, nodes and jobs are theirs.
The cluster is played by commands that print hostile names; the shells are real."""
import os
import shutil
import subprocess
import tempfile
import unittest

from cluster import BIN

ASKS = (("sbatch", "-C", ""), ("sbatch", "--account", "=", ""), ("salloc", "-q", ""), ("sacct", "-u", ""), ("scancel", ""),
        ("scontrol", "show", "node", ""), ("lockstep", "node", ""), ("lockstep", "submit", "-p", ""), ("lockstep", "explain", ""),
        ("scontrol", "requeue", ""), ("lockstep", "cancel", ""), ("sacctmgr", "show", "account", ""),
        ("seff", ""), ("sattach", ""))
OF_SCONTROL = ("sbatch", "--reservation", "="), ("squeue", "-L"), ("scontrol", "show", "reservation")
FIXED = ((("lockstep", "doctor"), "disks"), (("lockstep", "doctor", "-o"), "json"), (("lockstep", "health", "-o"), "json"), (("lockstep", "topology"), "load"),
         (("scontrol",), "requeue"), (("scontrol", "show"), "reservation"), (("sacctmgr",), "modify"),
         (("sacctmgr", "add"), "qos"), (("lockstep", "back"), "backup"), (("lockstep", "completion"), "fish"))


class Completion(unittest.TestCase):
    def setUp(self):
        self.dir = tempfile.mkdtemp(prefix="lockstep-completion-")
        self.mark = os.path.join(self.dir, "mark")
        self.names = ["plain", "12_[1-5]", "two words", "it's", "*", "~", "a\\b", "x;touch " + self.mark, "$HOME",
                      f"$(touch {self.mark})", f"`touch {self.mark}`", f"$(touch {self.mark})'\"", f"<(touch {self.mark})"]
        with open(os.path.join(self.dir, "names"), "w") as f:
            f.write("\n".join(self.names) + "\n")
        os.mkdir(os.path.join(self.dir, "bin"))
        for command in ("sinfo", "squeue", "sacctmgr"):
            path = os.path.join(self.dir, "bin", command)
            with open(path, "w") as f:
                f.write(f"#!/bin/sh\ncat {self.dir}/names\n")
            os.chmod(path, 0o755)

        path = os.path.join(self.dir, "bin", "scontrol")
        with open(path, "w") as f:
            f.write(f"#!/bin/sh\nsed 's/^/ReservationName=/;p;s/^ReservationName/LicenseName/' {self.dir}/names\n")
        os.chmod(path, 0o755)

    def tearDown(self):
        shutil.rmtree(self.dir)

    def shell(self, *argv):
        env = dict(os.environ, PATH=f"{self.dir}/bin:{BIN}:{os.environ['PATH']}", HOME=self.dir)
        done = subprocess.run(argv, capture_output=True, text=True, timeout=60, env=env, cwd=self.dir)
        self.assertEqual((done.returncode, done.stderr), (0, ""), argv)
        self.assertFalse(os.path.exists(self.mark), argv)
        return done.stdout

    def test_bash_offers_names_that_mean_themselves(self):
        for words in ASKS:
            text = 'eval "$(lockstep completion bash)"; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _lockstep; ' \
                   'printf "%s\\n" "${COMPREPLY[@]}"'
            offered = self.shell("bash", "-c", text, "bash", *words).splitlines()
            for line in offered:  # as readline inserts it
                typed = self.shell("bash", "-c", f"printf '%s\\n' {line}").splitlines()
                self.assertEqual(len(typed), 1, line)
            typed = self.shell("bash", "-c", "printf '%s\\n' " + " ".join(offered)).splitlines()
            self.assertEqual([name for name in typed if name in self.names], self.names, words)

    def test_bash_takes_the_word_that_is_typed_as_it_is(self):
        text = 'eval "$(lockstep completion bash)"; COMP_WORDS=(sbatch -C "$1"); COMP_CWORD=2; _lockstep; ' \
               'printf "%s\\n" "${#COMPREPLY[@]}"'
        for word, count in (("p", 1), ("*", 1), ("$(touch ", 2), ("nosuch", 0)):
            self.assertEqual(self.shell("bash", "-c", text, "bash", word), f"{count}\n", word)

    def offered_by_bash(self, *words):
        text = 'eval "$(lockstep completion bash)"; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _lockstep; ' \
               'printf "%s\\n" "${COMPREPLY[@]}"'
        return self.shell("bash", "-c", text, "bash", *words).splitlines()

    def offered_by_fish(self, *words):
        line = " ".join(words).replace(" = ", "=")
        told = self.shell("fish", "--no-config", "-c", f"lockstep completion fish | source; complete -C '{line}'")
        return [each.split("\t")[0] for each in told.splitlines()]

    def test_manual_pages_say_what_their_commands_are_for(self):
        for name, purpose in (("sattach", r"the output and input of a step that runs"), ("sacct", "jobs that have ended"),
                              ("scontrol", "everything about one thing"), ("backup", "write all of a cluster")):
            page = subprocess.run([f"{BIN}/lockstep", "man", name], capture_output=True, text=True).stdout
            self.assertIn(purpose, page.split(".SH DESCRIPTION")[0], name)

    def test_reservations_licences_and_fixed_words(self):
        shells = [self.offered_by_bash] + ([self.offered_by_fish] if shutil.which("fish") else [])
        for offered in shells:
            for words in OF_SCONTROL:
                told = [name.removeprefix("--reservation=") for name in offered(*words, "")]
                self.assertIn("12_\\[1-5\\]" if offered == self.offered_by_bash else "12_[1-5]", told, words)
            for words, name in FIXED:
                prefix = words[-1] if name.startswith(words[-1]) else ""
                self.assertIn(name, offered(*(words[:-1] if prefix else words), prefix), words)

    @unittest.skipUnless(shutil.which("zsh"), "zsh is not installed")
    def test_zsh_quotes_the_names_itself(self):
        for words in ASKS:
            text = 'autoload -Uz compinit; compinit -u -D; eval "$(lockstep completion zsh)"; ' \
                   'COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); emulate -L sh; setopt ksharrays; _lockstep; ' \
                   'print -rl -- "${COMPREPLY[@]}"'
            offered = self.shell("zsh", "-f", "-c", text, "zsh", *words).splitlines()
            self.assertEqual([name for name in offered if name in self.names], self.names, words)

    @unittest.skipUnless(shutil.which("fish"), "fish is not installed")
    def test_fish_offers_names_as_they_are(self):
        for words in ASKS:
            line = " ".join(words).replace(" = ", "=")
            offered = self.shell("fish", "--no-config", "-c", f"lockstep completion fish | source; complete -C '{line}'")
            offered = [each.split("\t")[0].removeprefix("--account=") for each in offered.splitlines()]
            self.assertEqual([name for name in self.names if name not in offered], [], words)


if __name__ == "__main__":
    unittest.main()
