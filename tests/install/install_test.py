"""Packages on real machines: installed, a second machine joined, both started anew, removed and purged; and what interrupts
an installation. The guests are emulated where need be, so there are few of them and much happens in each."""
import concurrent.futures
import functools
import glob
import os
import re
import subprocess
import sys
import tempfile
import time
import unittest

import guests
from guests import LEFTOVERS, PACKAGES, TOP, UID, USER, Machine

INSTALL = "DEBIAN_FRONTEND=noninteractive apt-get install -y -qq"


@functools.cache
def build_packages():
    subprocess.run([os.path.join(TOP, "packaging", "build-debs")], check=True, stdout=subprocess.DEVNULL)


class Packages(unittest.TestCase):
    """What needs no machine of its own."""

    @classmethod
    def setUpClass(cls):
        build_packages()

    def contents(self, name):
        [path] = glob.glob(f"{PACKAGES}/lockstep-{name}_*.deb")
        said = subprocess.run(["dpkg-deb", "-c", path], capture_output=True, text=True, check=True).stdout
        return {words[5][1:]: (words[0], words[1]) for words in map(str.split, said.splitlines())}

    def test_what_is_in_which_package(self):
        program, closed = ("-rwxr-xr-x", "root/root"), ("-rwx--x--x", "root/root")  # closed: docs/isolation.md
        home = "/usr/lib/lockstep"
        for name, programs, files in (
                ("controller", ["lockstepd"], ["/usr/lib/systemd/system/lockstepd.service", "/usr/share/lockstep/lockstepd.conf", "/usr/share/man/man8/lockstepd.8.gz"]),
                ("agent", ["lockstep-agent", "lockstep-container", "lockstep-pmi", "lockstep-shim"],
                 ["/usr/lib/systemd/system/lockstep-agent.service", "/usr/lib/systemd/system/lockstep-jobs.service", home + "/lib/libnvidia-ml.so.1", "/usr/share/man/man8/lockstep-agent.8.gz"]),
                ("client", ["lockstep"], ["/usr/share/man/man1/srun.1.gz", "/usr/share/doc/lockstep-client/administration.md", "/usr/share/doc/lockstep-client/copyright"])):
            inside = self.contents(name)
            self.assertEqual([path for path, what in inside.items() if what == (closed if path.endswith("-container") else program) and path.startswith(home + "/bin/")],
                             [f"{home}/bin/{program}" for program in programs])
            for path in files:
                self.assertEqual(inside[path], ("-rw-r--r--", "root/root"))
            self.assertFalse([path for path in inside if not path.startswith("/usr/") and path != "/"])
        for command in ("sbatch", "srun", "salloc", "squeue", "sinfo", "scancel", "scontrol", "sacct", "sacctmgr", "sshare", "sprio", "sbcast", "seff", "sstat", "sattach"):
            self.assertTrue(inside["/usr/bin/" + command][0].startswith("l"), command)

    def test_the_tarball_needs_nothing(self):
        [path] = glob.glob(PACKAGES + "/lockstep-client-*.tar.gz")
        with tempfile.TemporaryDirectory() as home:
            subprocess.run(["tar", "-xzf", path, "-C", home], check=True)
            [tree] = glob.glob(home + "/lockstep-client-*")
            said = subprocess.run([tree + "/install.sh", home + "/there"], capture_output=True, text=True, check=True).stdout
            self.assertRegex(said, r"lockstep [0-9.]+ is in " + home + "/there/bin")
            help_text = subprocess.run([home + "/there/bin/sbatch", "--help"], capture_output=True, text=True, check=True, env={})
            self.assertIn("sbatch", help_text.stdout)
            self.assertTrue(os.path.exists(home + "/there/share/man/man1/sbatch.1.gz"))


class Installed(unittest.TestCase):
    """The tests tell one story, in the order of their names."""

    @classmethod
    def setUpClass(cls):
        guests.must_be_possible()
        cls.first, cls.second = Machine("vm8"), Machine("vm9")
        cls.began = time.monotonic()
        cls.helper = concurrent.futures.ThreadPoolExecutor()
        packed = cls.helper.submit(build_packages)
        guests.vm.main(["remove", "vm8", "vm9"])
        cls.addClassCleanup(guests.vm.main, ["remove", "vm8", "vm9"])
        guests.vm.start(["vm8", "vm9"])
        packed.result()
        cls.on_both(lambda machine: machine.copy(*glob.glob(PACKAGES + "/*.deb")))
        cls.on_both(lambda machine: machine.ok(f"useradd -m -u {UID} {USER}"))
        cls.interrupted = cls.helper.submit(interrupt_installations, cls.second)
        cls.tell("both guests are there")

    @classmethod
    def on_both(cls, act):
        list(cls.helper.map(act, (cls.first, cls.second)))

    @classmethod
    def tell(cls, what):
        print(f"[{time.monotonic() - cls.began:.0f} s] {what}", file=sys.stderr, flush=True)

    def tearDown(self):
        self.tell(self.id().rsplit(".", 1)[1])

    def ann(self, script, **options):
        return self.first.ok(script, user=USER, **options)

    def main_pid(self, unit):
        return self.first.ok(f"systemctl show -P MainPID {unit}").strip()

    def test_1_a_package_is_a_cluster(self):
        said = self.first.ok(f"{INSTALL} /root/lockstep-*.deb", timeout=300)
        self.assertIn("is up", said)
        self.ann("sbatch -o out.txt --wrap 'id -un; hostname'; srun hostname > srun.txt")
        self.first.until("sacct -n -X -P -o jobid,state", "1|COMPLETED\n2|COMPLETED", user=USER)
        self.assertEqual(self.ann("cat out.txt srun.txt; squeue -h | wc -l; sinfo -h -o '%n %t'"),
                         f"{USER}\nvm8\nvm8\n0\nvm8 idle\n")

    def test_2_what_lies_where_belongs_to_whom(self):
        said = self.first.ok("""
            stat -c '%n %U %a' /etc/lockstep/* /var/lib/lockstep /var/lib/lockstep/* /var/lib/lockstep/controller/public \
              /run/lockstep /run/lockstep-agent /run/lockstep-agent/api.sock
            readlink /run/lockstep/api.sock; stat -L -c '%U %a' /run/lockstep/api.sock
            ps -o user= -C lockstepd; ps -o user= -C lockstep-agent""")
        self.assertEqual(said, """\
/etc/lockstep/agent.json root 600
/etc/lockstep/lockstepd.conf root 644
/var/lib/lockstep root 755
/var/lib/lockstep/controller lockstep 711
/var/lib/lockstep/node root 711
/var/lib/lockstep/pki root 700
/var/lib/lockstep/controller/public lockstep 755
/run/lockstep root 755
/run/lockstep-agent root 711
/run/lockstep-agent/api.sock root 666
/var/lib/lockstep/controller/public/api.sock
lockstep 666
lockstep
root
""")
        # Administrators are root and the controller's own user, nobody else.
        for user in ("root", "lockstep"):
            self.first.ok("cd /; for state in drain resume; do "
                          f"runuser -u {user} -- scontrol update nodename=vm8 state=$state reason=test || exit; done")
        self.assertNotEqual(self.first.run("scontrol update nodename=vm8 state=drain reason=test", user=USER).returncode, 0)
        # Others see neither keys nor the log.
        self.assertEqual(self.first.run("cat /var/lib/lockstep/controller/pki/* /var/lib/lockstep/controller/lockstep.db "
                                        "/etc/lockstep/agent.json /var/lib/lockstep/pki/* | wc -c", user=USER).stdout, "0\n")
        # What comes with the client.
        self.first.ok("test -s /usr/share/man/man1/sbatch.1.gz; bash -c '. /usr/share/bash-completion/completions/sbatch; "
                      "complete -p sbatch' | grep -q _lockstep; test -s /usr/share/fish/vendor_completions.d/sbatch.fish; "
                      "head -n 1 /usr/share/zsh/vendor-completions/_lockstep_commands | grep -q '#compdef.*sbatch'")

    def test_3_jobs_have_control_groups_in_a_unit_of_their_own(self):
        tree = "/sys/fs/cgroup/system.slice/lockstep-jobs.service"
        job = self.ann("sbatch --parsable --mem=60M -o groups.txt --wrap 'cat /proc/self/cgroup; sleep 1000'").strip()
        self.first.until("cat /home/ann/groups.txt 2> /dev/null | wc -l", "1")
        self.assertRegex(self.ann("cat groups.txt"), r"^0::/system\.slice/lockstep-jobs\.service/\S*\b" + job)
        self.assertEqual(self.first.ok(f"find {tree} -name memory.max | xargs cat | grep -cx {60 << 20}").strip(), "1")
        self.first.ok(f"scontrol suspend {job}")
        self.first.until(f"cat {tree}/*/{job}-1/*/cgroup.freeze", "1")
        self.first.ok(f"scontrol resume {job}; scancel {job}")
        self.first.until(f"find {tree} -mindepth 2 -name '{job}-1' | wc -l", "0")
        # The kernel ends what takes more.
        job = self.ann("sbatch --parsable --mem=60M --wrap 'head -c 200M /dev/zero | tail'").strip()
        self.first.until(f"sacct -n -X -P -j {job} -o state", "OUT_OF_MEMORY", user=USER)

    def test_3_of_upgrades_no_job_ends(self):
        before = self.main_pid("lockstepd")
        job = self.ann("sbatch --parsable -o upgrade.txt --wrap 'echo $$; sleep 1000; echo done'").strip()
        self.first.until(f"squeue -h -j {job} -o %T", "RUNNING", user=USER)
        self.first.ok(f"{INSTALL} --reinstall /root/lockstep-*.deb", timeout=300)
        self.assertNotEqual(self.main_pid("lockstepd"), before)
        self.first.until("sinfo -h -o %t", "alloc")
        shell = self.ann("head -n 1 upgrade.txt").strip()
        self.ann(f"kill -0 {shell}; pkill -P {shell} sleep")
        self.first.until(f"sacct -n -X -P -j {job} -o state,restarts", "COMPLETED|0", user=USER)
        self.assertIn("done", self.ann("cat upgrade.txt"))

    def test_4_a_port_that_is_taken(self):
        said = self.first.ok("""
            systemctl stop lockstepd
            /usr/sbin/sshd -p 6820 -o ListenAddress=127.0.0.1 -o PidFile=/run/taken.pid
            systemctl start lockstepd && exit 1
            systemctl --no-pager status lockstepd
            kill $(cat /run/taken.pid)""")
        self.assertRegex(said, r"Status: \"error: port 6820 on 127.0.0.1 is taken")
        self.assertIn("LISTEN= in /etc/lockstep/lockstepd.conf", said)
        self.first.until("systemctl is-active lockstepd", "active")  # by itself
        self.first.until("sinfo -h -o %t", "idle")

    def test_5_what_interrupts_an_installation(self):
        self.interrupted.result()

    def test_6_a_second_machine_joins_by_one_line(self):
        said = self.second.ok(f"{INSTALL} /root/lockstep-client_*.deb /root/lockstep-agent_*.deb", timeout=300)
        self.assertIn("lockstep up --listen", said)  # what to do next
        said = self.first.ok(f"lockstep up --listen {self.first.address}")
        line = re.search(r"^\s*(lockstep node join .*)$", said, re.M).group(1)
        self.second.ok(line)
        self.first.until("sinfo -h -o '%D %t'", "2 idle")
        self.assertEqual(self.ann("srun -N2 hostname | sort"), "vm8\nvm9\n")
        self.ann("sbatch --parsable -N2 -o gang.txt --wrap 'srun hostname | sort'")
        self.first.until("cat /home/ann/gang.txt 2> /dev/null", "vm8\nvm9")

    def test_7_both_are_started_anew(self):
        known = self.ann("sacct -n -X -P -o jobid,state")
        job = self.ann("sbatch --parsable -N2 -o reboot.txt --wrap "
                       "'[ $SLURM_RESTART_COUNT ] || sleep 1000; srun hostname | sort'").strip()
        self.first.until(f"squeue -h -j {job} -o %T", "RUNNING", user=USER)
        self.on_both(Machine.begin_reboot)
        self.on_both(Machine.wait_rebooted)
        self.tell("both answer again")
        self.first.until(f"sacct -n -X -P -j {job} -o state", "COMPLETED", user=USER, timeout=120)
        self.assertEqual(self.ann("cat reboot.txt"), "vm8\nvm9\n")
        self.assertTrue(self.ann("sacct -n -X -P -o jobid,state").startswith(known))
        self.first.until("sinfo -h -o '%D %t'", "2 idle")
        self.assertEqual(self.ann("srun -N2 hostname | sort"), "vm8\nvm9\n")

    def test_8_removed_and_installed_again_it_knows_its_state(self):
        known = self.ann("sacct -n -X -P -o jobid,state")
        self.first.ok("apt-get remove -y -qq lockstep-controller lockstep-agent lockstep-client", timeout=300)
        self.assertEqual(self.first.run("ls /usr/lib/lockstep; pgrep lockstep").stdout, "")
        self.first.ok(f"{INSTALL} /root/lockstep-*.deb", timeout=300)
        self.first.until("sinfo -h -o '%D %t'", "2 idle")
        self.assertEqual(self.ann("sacct -n -X -P -o jobid,state"), known)

    def test_9_purged_nothing_is_left(self):
        self.ann("sbatch --wrap 'sleep 1000'")
        self.on_both(purge)


def interrupt_installations(machine):
    """A full disk, and the machine's power cut while files are unpacked and while a package is set up: what is said, and that
    what docs/administration.md says completes it. Then a chroot, where nothing may start."""
    debs = "/root/lockstep-*.deb"
    # 8 MB are free: not enough for all three.
    said = machine.run("sync; fallocate -l $(($(stat -f -c '%f * %S' /) - 8000000)) /full; "
                       f"{INSTALL} {debs}; result=$?; rm /full; sync; exit $result", timeout=300)
    if said.returncode == 0 or "No space left on device" not in said.stdout + said.stderr:
        raise AssertionError("on a full disk: " + said.stdout + said.stderr)
    # The group is killed, not dpkg alone: what it started would go on.
    cut = "setsid dpkg -i " + debs + " > /dev/null 2>&1 & until [ -e {0} ]; do :; done; kill -9 -$!; wait"
    machine.run("dpkg --configure -a; " + cut.format("/usr/lib/lockstep/bin/lockstep.dpkg-new"))
    machine.run("dpkg --configure -a; " + cut.format("/etc/lockstep"))
    machine.ok("dpkg --configure -a", timeout=300)
    machine.until("dpkg-query -W -f '${db:Status-Abbrev}' 'lockstep-*'", "ii ii ii ")
    machine.until("sinfo -h -o %t", "idle")
    purge(machine)

    # The root directory once more, without the /run and the /proc of a machine that runs.
    said = machine.ok(f"""mount --bind / /mnt; chroot /mnt dpkg -i {debs} 2>&1; umount /mnt
        pgrep -l lockstep; ls -d /run/lockstep*; systemctl is-enabled lockstepd lockstep-agent
        dpkg -P lockstep-agent lockstep-controller lockstep-client > /dev/null""", timeout=300)
    if not said.endswith("enabled\nenabled\n") or "lockstepd" in said.splitlines()[-3]:
        raise AssertionError("in a chroot: " + said)
    check_nothing_is_left(machine)


def purge(machine):
    machine.ok("apt-get purge -y -qq 'lockstep-*'", timeout=300)
    check_nothing_is_left(machine)


def check_nothing_is_left(machine):
    left = machine.ok(LEFTOVERS)
    if left:
        raise AssertionError(f"left on {machine.name}: {left}")


if __name__ == "__main__":
    unittest.main()
