"""The README's first command in a fresh clone on a fresh Debian 12, where nothing of ours was ever installed or built: a root
file system of its own, with git and nothing else. What was compiled before is shared (ccache), packages are not."""
import glob
import os
import subprocess
import tempfile
import unittest

import guests
from guests import TOP

RUN = """
set -e
mount -t proc proc /proc
mount -t tmpfs tmpfs /run
mount -t tmpfs -o mode=1777 tmpfs /tmp
mount -t tmpfs -o mode=1777 tmpfs /dev/shm
cd /srv/lockstep
./run
srun() { build/release/bin/srun --chdir=/ "$@"; }
eval "$(build/release/bin/lockstep env --dir state/demo)"
srun -N1 --gpus=8 nvidia-smi -L
srun --mpi=list
build/release/bin/lockstep down --dir state/demo --delete
"""


@unittest.skipUnless(os.geteuid() == 0, "a root file system of its own needs root")
class CleanClone(unittest.TestCase):
    def setUp(self):
        guests.vm.install_tools()  # mmdebstrap
        os.makedirs(os.path.join(TOP, "build"), exist_ok=True)
        work = tempfile.TemporaryDirectory(prefix="clean-", dir=os.path.join(TOP, "build"))
        self.addCleanup(work.cleanup)
        self.root = os.path.join(work.name, "root")
        self.ok("mmdebstrap", "--variant=minbase", "--include=git,ca-certificates", "--aptopt=Acquire::Languages none", "bookworm", self.root, "-",
                input=guests.vm.sources())
        self.ok("git", "clone", "-q", "--no-hardlinks", TOP, self.root + "/srv/lockstep")
        for path in ("/etc/resolv.conf", *glob.glob("/etc/apt/apt.conf.d/*"), *glob.glob("/etc/apt/trusted.gpg.d/*"), *glob.glob("/usr/local/share/ca-certificates/*")):
            if os.path.isfile(path):
                self.ok("cp", "-rL", path, self.root + path)

    def ok(self, *argv, **options):
        done = subprocess.run(argv, capture_output=True, text=True, **options)
        self.assertEqual(done.returncode, 0, f"{argv}\n{done.stdout[-6000:]}{done.stderr[-3000:]}")
        return done.stdout

    def test_the_first_command_of_the_readme(self):
        compiled = os.environ.get("CCACHE_DIR") or os.path.expanduser("~/.cache/ccache")
        os.makedirs(compiled, exist_ok=True)
        os.makedirs(self.root + "/root/.cache/ccache")
        mounts = "".join(f"mount --rbind {there} {self.root}{there}\n" for there in ("/dev", "/sys"))
        # Processes of their own: what a failure leaves behind ends with the first of them.
        said = self.ok("unshare", "--mount", "--pid", "--fork", "--kill-child", "--propagation", "slave", "sh", "-ec",
                       f"{mounts}mount --bind {compiled} {self.root}/root/.cache/ccache\nexec chroot {self.root} /bin/bash -c \"$RUN\"",
                       env={"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "HOME": "/root", "RUN": RUN,
                            **{name: value for name, value in os.environ.items() if name.lower().endswith("_proxy")}}, timeout=2400)
        for line in ("packages: done", ">> healed: training again", "deployment \"web\" successfully rolled out", "job.batch/primes condition met",
                     "GPU 7: NVIDIA H100", "pmix"):
            self.assertIn(line, said)


if __name__ == "__main__":
    unittest.main()
