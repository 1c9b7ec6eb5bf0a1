"""What real job scripts begin with: login shells, module systems, conda, virtual environments, and what the submitting shell had set.
Modules of Tcl are tried in places_test.py; Lmod cannot be installed beside them and is unpacked for the test."""
import glob
import os
import shutil
import subprocess
import unittest

from cluster import TOP, Cluster

ANN = 2001
KEPT = os.path.join(TOP, "build", "lmod")


def lmod():
    """Debian's Lmod as a tree of its own, with its paths moved there; None where Debian is not in reach."""
    if not os.path.exists(KEPT):
        work = KEPT + ".new"
        shutil.rmtree(work, ignore_errors=True)
        os.makedirs(work)
        os.chmod(work, 0o777)  # apt fetches as a user of its own
        if subprocess.run(["apt-get", "download", "-qq", "lmod"], cwd=work, capture_output=True).returncode != 0:
            return None
        subprocess.run(["dpkg", "-x", *glob.glob(work + "/lmod_*.deb"), work], check=True)
        listed = subprocess.run(["grep", "-rIl", "/usr/share/lmod", work], capture_output=True, text=True).stdout.split()
        subprocess.run(["sed", "-i", f"s|/usr/share/lmod|{KEPT}/usr/share/lmod|g", *listed], check=True)
        os.rename(work, KEPT)
    return os.path.join(KEPT, "etc", "profile.d", "lmod.sh")


@unittest.skipUnless(os.geteuid() == 0, "virtual nodes need root")
class Environments(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.c = Cluster(nodes=2, gpus=None, cpus=4)
        cls.addClassCleanup(cls.c.down)
        cls.c.up()

    def setUp(self):
        """A home directory, of which a login shell reads what lies there."""
        self.home = os.path.join(self.c.home, "ann")
        shutil.rmtree(self.home, ignore_errors=True)
        os.mkdir(self.home)
        os.chown(self.home, ANN, ANN)

    def keep(self, name, text):
        with open(os.path.join(self.home, name), "w") as f:
            f.write(text)

    def said(self, text, *options, env=None, state="COMPLETED"):
        job = self.c.sbatch(*options, self.c.script(text), user=ANN, env={"HOME": self.home, "USER": "ann", **(env or {})})
        self.assertEqual(self.c.wait(job), state, self.c.output(job))
        return self.c.output(job)

    def test_a_login_shell_finds_the_commands(self):
        """/etc/profile sets PATH anew, and what lies outside of /usr/bin would be lost."""
        self.assertEqual(self.said("#!/bin/bash -l\nsrun -n2 echo here\nsqueue -h -j $SLURM_JOB_ID -o %T\n", "-n2"), "here\nhere\nRUNNING\n")
        self.assertEqual(self.c.ok("srun", "bash", "-lc", "command -v srun | grep -c /srun", user=ANN), "1\n")

    def test_what_a_login_shell_reads(self):
        self.keep(".bash_profile", "export FROM_PROFILE=profile\n[ -f ~/.bashrc ] && . ~/.bashrc\n")
        self.keep(".bashrc", "export FROM_RC=rc\nPATH=~/bin:$PATH\n")
        os.mkdir(self.home + "/bin")
        self.keep("bin/tool", "#!/bin/sh\necho tool\n")
        os.chmod(self.home + "/bin/tool", 0o755)
        body = "echo -$FROM_PROFILE-$FROM_RC-; tool; srun tool; srun sh -c 'echo $FROM_RC'\n"
        self.assertEqual(self.said("#!/bin/bash -l\n" + body), "-profile-rc-\ntool\ntool\nrc\n")
        self.assertEqual(self.said("#!/bin/bash\nsource ~/.bashrc\n" + body), "--rc-\ntool\ntool\nrc\n")
        # A script that is no login shell reads neither.
        self.assertEqual(self.said("#!/bin/bash\necho -$FROM_PROFILE-$FROM_RC-\n"), "---\n")

    def test_get_user_env_and_a_clean_environment(self):
        self.keep(".bash_profile", "export FROM_PROFILE=profile\n")
        body = "#!/bin/bash\necho -$FROM_PROFILE-$MINE-\n"
        self.assertEqual(self.said(body, env={"MINE": "mine"}), "--mine-\n")
        self.assertEqual(self.said(body, "--export=NONE", env={"MINE": "mine"}), "---\n")
        self.assertEqual(self.said("#!/bin/bash -l\necho -$MINE-\n", "--export=MINE=other", env={"MINE": "mine"}), "-other-\n")

    def test_functions_of_the_submitting_shell(self):
        """As a `module` that was exported: bash hands functions on as variables with odd names."""
        env = {"BASH_FUNC_module%%": "() {  echo \"module $*\"\n}"}
        self.assertEqual(self.said("#!/bin/bash\nmodule load cuda\nsrun bash -c 'module list'\n", env=env), "module load cuda\nmodule list\n")

    def test_lmod(self):
        if not (init := lmod()):
            self.skipTest("Debian's lmod cannot be fetched (apt-get download lmod)")
        self.keep(".bash_profile", f". {init}\nmodule use ~/modules\n")
        os.makedirs(self.home + "/modules/tool")
        self.keep("modules/tool/1.0.lua", 'setenv("TOOL_HOME", "/opt/tool-1")\nprepend_path("PATH", "/opt/tool-1/bin")\n')
        self.keep("modules/tool/2.0.lua", 'setenv("TOOL_HOME", "/opt/tool-2")\n')
        body = ("module load tool/1.0\necho $TOOL_HOME; module -t list 2>&1\nsrun sh -c 'echo $TOOL_HOME $LOADEDMODULES'\n"
                "module swap tool/2.0 2> /dev/null; echo $TOOL_HOME\nmodule purge; echo -$TOOL_HOME-\nmodule load none 2>&1 | grep -c none || true\n")
        wanted = "/opt/tool-1\ntool/1.0\n/opt/tool-1 tool/1.0\n/opt/tool-2\n--\n"
        said = self.said("#!/bin/bash -l\nset -e\n" + body)
        self.assertTrue(said.startswith(wanted), said)
        said = self.said(f"#!/bin/bash\nsource {init}\nmodule use ~/modules\n" + body)
        self.assertTrue("/opt/tool-1 tool/1.0\n/opt/tool-2\n--\n" in said, said)
        # Loaded where it was submitted: it goes with the job.
        loaded = subprocess.run(["bash", "-c", f". {init}; module use {self.home}/modules; module load tool/1.0; env -0"],
                                env={"HOME": self.home, "PATH": self.c.env["PATH"]}, capture_output=True).stdout.decode()
        env = dict(line.split("=", 1) for line in loaded.split("\0") if line and not line.startswith(("SLURM", "PWD", "SHLVL")))
        self.assertEqual(self.said("#!/bin/bash\necho $TOOL_HOME; module unload tool; echo -$TOOL_HOME-\n", env=env), "/opt/tool-1\n--\n")

    def test_conda(self):
        conda = os.environ.get("CONDA_EXE") or shutil.which("conda")
        if not conda:
            self.skipTest("conda is not installed here (no CONDA_EXE, no conda in PATH), nor is it in Debian or PyPI")
        base = os.path.dirname(os.path.dirname(os.path.realpath(conda)))
        place = os.path.join(self.home, "envs", "train")
        subprocess.run([conda, "create", "-q", "-y", "--offline", "-p", place], check=True, capture_output=True)
        subprocess.run(["chown", "-R", f"{ANN}:{ANN}", self.home], check=True)
        body = f"conda activate {place}\necho $CONDA_PREFIX\nsrun sh -c 'echo $CONDA_PREFIX'\nconda deactivate\necho -$CONDA_PREFIX-\n"
        wanted = f"{place}\n{place}\n--\n"
        for begin in (f"source {base}/etc/profile.d/conda.sh", f'eval "$({conda} shell.bash hook)"'):
            self.assertEqual(self.said(f"#!/bin/bash\n{begin}\n{body}").replace(f"-{base}-", "--"), wanted)
        self.keep(".bash_profile", f"source {base}/etc/profile.d/conda.sh\n")
        self.assertEqual(self.said("#!/bin/bash -l\n" + body), wanted)
        self.assertEqual(self.said(f"#!/bin/bash\nsource {base}/bin/activate {place}\necho $CONDA_PREFIX\n"), place + "\n")

    def test_a_virtual_environment(self):
        made = subprocess.run(["/usr/bin/python3", "-m", "venv", "--without-pip", self.home + "/env"], capture_output=True, text=True)
        self.assertEqual(made.returncode, 0, made.stderr)
        which = "python -c 'import sys; print(sys.prefix)'"
        said = self.said(f"#!/bin/bash -l\nset -eu\nsource ~/env/bin/activate\n{which}\nsrun {which}\ndeactivate\necho -${{VIRTUAL_ENV-}}-\n")
        self.assertEqual(said, f"{self.home}/env\n{self.home}/env\n--\n")


if __name__ == "__main__":
    unittest.main()
