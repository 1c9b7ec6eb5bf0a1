"""Fresh machines for a test (scripts/vm), and what one does with them as root or as an ordinary user."""
import importlib.machinery
import importlib.util
import os
import shutil
import subprocess
import time
import unittest

TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
PACKAGES = os.path.join(TOP, "build", "packages")
USER, UID = "ann", 2000


def load_vm():
    loader = importlib.machinery.SourceFileLoader("vm", os.path.join(TOP, "scripts", "vm"))
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader("vm", loader))
    loader.exec_module(module)
    return module


vm = load_vm()


def must_be_possible():
    """Skips where no guest can run at all. The first disk, and qemu, are root's to make and to install."""
    if os.uname().machine != "x86_64":
        raise unittest.SkipTest(f"scripts/vm makes x86_64 guests, and this is {os.uname().machine}")
    if os.geteuid() == 0:
        vm.install_tools()
    if not shutil.which("qemu-system-x86_64"):
        raise unittest.SkipTest("qemu is not installed, and only root can do that: scripts/vm build")


class Machine:
    """One guest. What runs there is a script, as root or as an ordinary user in their home directory."""

    def __init__(self, name):
        self.name = name
        self.guest = vm.Guest(name)
        self.address = f"10.77.0.{self.guest.number}"

    def run(self, script, timeout=120, user=None):
        command = "sh -s" if user is None else f"runuser -u {user} -- env -C /home/{user} HOME=/home/{user} USER={user} sh -s"
        return self.guest.ssh(command, input=script, text=True, capture_output=True, timeout=timeout)

    def ok(self, script, timeout=120, user=None):
        done = self.run(script, timeout, user)
        if done.returncode != 0:
            raise AssertionError(f"{self.name}: {script!r} ended with {done.returncode}\n{done.stdout}{done.stderr}\n"
                                 + self.words())
        return done.stdout

    def words(self):
        """What the services said last, for who reads why a test failed."""
        return self.run("systemctl --no-pager -n 0 status lockstepd lockstep-agent; "
                        "journalctl --no-pager -n 40 -u lockstepd -u lockstep-agent").stdout

    def until(self, script, wanted, timeout=60, user=None):
        """Waits in the guest until the script prints the wanted line."""
        done = self.run(f"for _ in $(seq {timeout * 2}); do out=$({script}); [ \"$out\" = '{wanted}' ] && exit; sleep 0.5; done; "
                        "echo \"$out\"; exit 1", timeout=timeout * 6 + 60, user=user)
        if done.returncode != 0:
            raise AssertionError(f"{self.name}: {script} says {done.stdout!r}, not {wanted!r}\n{self.words()}")

    def copy(self, *files):
        subprocess.run(["scp", "-q", *self.guest.ssh_options("-P"), *files, "root@127.0.0.1:/root"], check=True)

    def boot_id(self):
        return self.run("cat /proc/sys/kernel/random/boot_id", timeout=30).stdout.strip()

    def begin_reboot(self):
        self.before = self.boot_id()
        self.run("systemctl reboot")

    def wait_rebooted(self):
        self.guest.hang_up()
        end = time.monotonic() + vm.BOOT_S
        while time.monotonic() < end:
            try:
                if self.boot_id() not in ("", self.before):
                    return
            except subprocess.TimeoutExpired:
                pass
            self.guest.hang_up()
            time.sleep(0.5)
        raise AssertionError(f"{self.name} has not come up again")


# Everything that bears our name, wherever it lies; and processes and users. Packages that lie in /root are the test's.
LEFTOVERS = r"""
find / -xdev -path /root -prune -o -path /proc -prune -o -iname '*lockstep*' -print
ls -d /run/*lockstep* 2> /dev/null
grep -il lockstep /etc/passwd /etc/group
pgrep -fl '[l]ockstep'
systemctl list-units --all --no-legend '*lockstep*'
mount | grep lockstep
dpkg-query -W -f '${Package} ${Status}\n' 'lockstep*' 2> /dev/null | grep -v 'unknown ok not-installed'
true
"""
