"""Steps and scripts in containers: images from everywhere, what shows inside, names, saving, and who may not get out."""
import hashlib
import json
import os
import shutil
import subprocess
import tempfile
import time
import unittest

import images
from cluster import Cluster, eventually

ANN, BOB = 2001, 2002
PORT, CLOSED_PORT = 5000, 5001


@unittest.skipUnless(os.geteuid() == 0, "only root can be several users")
@unittest.skipIf(images.missing(), f"these are not installed: {images.missing()}")
class Containers(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.c = c = Cluster(nodes=2, gpus=None, cpus=4)
        c.up()
        cls.layout = os.path.join(c.work, "layout")
        cls.digest = images.make_layout(cls.layout, "v1")
        cls.sqsh = os.path.join(c.work, "image.sqsh")
        images.make_squashfs(cls.sqsh)
        cls.image = f"oci:{cls.layout}:v1"
        cls.registries = [images.Registry(c.home, c.node(n)["agent_pid"], PORT) for n in ("n1", "n2")]
        for registry in cls.registries:
            registry.push(cls.image, "team/app:v1")

    @classmethod
    def tearDownClass(cls):
        for registry in cls.registries:
            registry.close()
        cls.c.down()

    def srun(self, *words, image=None, user=ANN, **more):
        named = () if image is None else (f"--container-image={image}",)
        more["env"] = {"HOME": self.c.work, **more.get("env", {})}
        return self.c.run("srun", *named, *words, user=user, **more)

    def inside(self, *words, **more):
        """The output of a step in the layout's image."""
        more.setdefault("image", self.image)
        done = self.srun(*words, **more)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout

    def script(self, text):
        return self.inside("sh", "-c", text)

    # --- images ---

    def test_image_from_a_registry_by_tag_and_digest(self):
        where = f"127.0.0.1:{PORT}"
        self.assertEqual(self.inside("cat", "/etc/os-release", image=f"{where}#team/app:v1"), "NAME=lockstep-test\n")
        again = self.srun("-N2", "cat", "/etc/os-release", image=f"docker://{where}#team/app:v1")
        self.assertEqual(again.stdout, "NAME=lockstep-test\n" * 2, again.stderr)
        self.assertEqual(again.stderr.count("importing"), 1)  # the other node had it
        for pinned in (f"{where}#team/app@{self.digest}", f"docker://{where}#team/app:{self.digest}"):
            self.assertEqual(self.inside("pwd", image=pinned), "/srv/app\n")

    def test_image_from_squashfs(self):
        self.assertEqual(self.inside("sh", "-c", "echo $COLOUR; cat /etc/os-release", image=self.sqsh),
                         "green\nNAME=lockstep-test\n")

    def test_proc_shows_a_container_its_own_processes(self):
        """Of every step that joined it; nothing from beside it. The job's script sees all of the user's."""
        looks = 'for p in /proc/[0-9]*; do tr "\\0" " " < $p/cmdline 2>/dev/null; done'
        script = os.path.join(self.c.work, "looks.sh")
        with open(script, "w") as file:
            file.write(f"#!/bin/bash\nsleep 6101 &\nsrun --overlap --container-image={self.image} --container-name=one sleep 6102 &\n"
                       "until srun --overlap --container-name=one true 2>/dev/null; do sleep 0.1; done\n"
                       f"srun --overlap --container-name=one sh -c '{looks}' > {script}.same\n"
                       f"srun --overlap --container-image={self.image} sh -c '{looks}' > {script}.other\n"
                       f"sh -c '{looks}' > {script}.script\nexit 0\n")
        self.c.wait(self.c.ok("sbatch", "--parsable", "-N1", "-o", "/dev/null", script, user=ANN, env={"HOME": self.c.work}).strip(), "COMPLETED", 60)
        seen = {}
        for which in ("same", "other", "script"):
            with open(f"{script}.{which}") as file:
                text = file.read()
            seen[which] = ("sleep 6101" in text, "sleep 6102" in text)
        self.assertEqual(seen, {"same": (False, True), "other": (False, False), "script": (True, True)})

    def test_roots_own_jobs(self):
        saved = os.path.join(self.c.work, "of-root.sqsh")
        for image in (self.image, self.sqsh):
            self.assertEqual(self.inside(f"--container-save={saved}", "sh", "-c", "id -u; touch /of-root", image=image, user=0), "0\n")
            self.assertEqual(self.inside("ls", "-d", "/of-root", image=saved), "/of-root\n")

    def test_programs_of_each_task(self):
        with open(os.path.join(self.c.work, "programs"), "w") as f:
            f.write("0 echo first %t\n1 cat /etc/os-release\n")
        out = self.inside("-N1", "-n2", "--multi-prog", "programs")
        self.assertEqual(sorted(out.splitlines()), ["NAME=lockstep-test", "first 0"])

    def test_programs_around_a_task_in_a_container(self):
        program = os.path.join(self.c.work, "before")
        with open(program, "w") as f:
            f.write("#!/bin/sh\necho export SAID=before\n")
        os.chmod(program, 0o755)
        done = self.srun(f"--task-prolog={program}", "--task-epilog=/bin/true", "sh", "-c", "echo $SAID; exit 3", image=self.image)
        self.assertEqual((done.stdout, done.returncode), ("before\n", 3), done.stderr)

    def test_image_that_is_not_there(self):
        for image, words in ((f"127.0.0.1:{PORT}#team/none", "manifest unknown"), ("/nowhere.sqsh", "/nowhere.sqsh: No such file"),
                             (f"127.0.0.1:{PORT}#team/app@sha256:{'0' * 64}", "manifest unknown"),
                             ("Team/App", "small letters")):
            done = self.srun("true", image=image)
            self.assertEqual((done.returncode, done.stdout), (1, ""), done.stderr)
            self.assertIn("lockstep: error: container: ", done.stderr)
            self.assertIn(words, done.stderr)

    def test_a_damaged_layer_is_no_image(self):
        layout = os.path.join(self.c.work, "damaged")
        images.make_layout(layout, "v1", images.files_of_busybox(**{"etc/motd": (b"damaged", 0o644)}))
        for registry in self.registries:
            registry.push(f"oci:{layout}:v1", "team/damaged:v1")
            for root, _, names in os.walk(registry.folder):
                for name in names:
                    path = os.path.join(root, name)
                    if name == "data" and os.path.getsize(path) > 100_000 and not self.is_layer_of_app(path):
                        with open(path, "r+b") as f:
                            f.seek(5000)
                            f.write(b"damage")
        for _ in range(2):  # and nothing half is left that the second one takes for whole
            done = self.srun("true", image=f"127.0.0.1:{PORT}#team/damaged:v1")
            self.assertEqual((done.returncode, done.stdout), (1, ""), done.stderr)
            self.assertIn("skopeo: ", done.stderr)

    def is_layer_of_app(self, path):
        with open(path, "rb") as f:
            return hashlib.sha256(f.read()).hexdigest() in os.listdir(os.path.join(self.layout, "blobs", "sha256"))

    def test_what_was_cut_off_is_made_anew(self):
        layout = os.path.join(self.c.work, "cut")
        digest = images.make_layout(layout, "v1", images.files_of_busybox(**{"etc/motd": (b"whole", 0o644)}))
        self.script("true")
        for node in ("n1", "n2"):
            part = os.path.join(self.c.dir, "nodes", node, "state", "containers", str(ANN), "images", digest.replace(":", "-") + ".part")
            if os.path.exists(os.path.dirname(part)):
                subprocess.run(["setpriv", f"--reuid={ANN}", f"--regid={ANN}", "--clear-groups", "sh", "-c",
                                f"mkdir -p {part}/rootfs/etc {part}/bundle; echo half > {part}/rootfs/etc/motd; chmod 0 {part}/rootfs"], check=True)
        self.assertEqual(self.inside("cat", "/etc/motd", image=f"oci:{layout}:v1"), "whole")

    def test_a_full_disk_says_so(self):
        user = 2003
        folder = os.path.join(self.c.dir, "nodes", "n1", "state", "containers", str(user))
        node = ["nsenter", "-t", str(self.c.node("n1")["agent_pid"]), "-m"]
        self.srun("-w", "n1", "true", image="/not/there", user=user)  # makes the folder
        subprocess.run([*node, "mount", "-t", "tmpfs", "-o", f"size=1m,uid={user},gid={user},mode=700", "small", folder], check=True)
        done = self.srun("-w", "n1", "true", image=self.image, user=user)  # the mount goes with the node
        self.assertEqual((done.returncode, done.stdout), (1, ""))
        self.assertIn(f"the disk under {folder} is full: ", done.stderr)
        left = subprocess.run([*node, "find", folder, "-name", "*.part"], capture_output=True, text=True).stdout
        self.assertEqual(left, "")

    def test_steps_that_begin_together_fetch_once(self):
        layout = os.path.join(self.c.work, "together")
        images.make_layout(layout, "v1", images.files_of_busybox(**{"etc/motd": (b"together", 0o644)}))
        steps = "\n".join(f"srun --exact -n1 --container-image=oci:{layout}:v1 cat /etc/motd &" for _ in range(4))
        job = self.c.sbatch(self.c.script(f"#!/bin/bash\n#SBATCH -N1 -n4 -o together.out\n{steps}\nwait\n", "together.sh"), user=ANN)
        self.assertEqual(self.c.wait(job), "COMPLETED")
        out = self.c.output(job, "together.out")
        self.assertEqual((out.count("importing oci"), out.count("error")), (1, 0), out)

    # --- inside ---

    def test_own_user_in_the_images_folder(self):
        self.assertEqual(self.script("id -u; id -g; pwd; whoami; grep -c : /etc/passwd"), f"{ANN}\n{ANN}\n/srv/app\nuid{ANN}\n2\n")

    def test_root_inside_only(self):
        out = self.inside("--container-remap-root", "sh", "-c", "id -u; echo $HOME; chown 5:5 /entry && stat -c %u /entry; touch /tmp/of-root-$SLURM_JOB_ID; echo $SLURM_JOB_ID")
        uid, home, owner, job = out.split()
        self.assertEqual((uid, home, owner), ("0", "/root", "0"))
        self.assertEqual(os.stat(f"/tmp/of-root-{job}").st_uid, ANN)
        os.unlink(f"/tmp/of-root-{job}")

    def test_environment(self):
        def value(*options, env):
            return self.inside(*options, "sh", "-c", "echo $COLOUR $SHAPE", env=env).strip()
        given = {"COLOUR": "red", "SHAPE": "round"}
        self.assertEqual(value(env=given), "blue round")
        self.assertEqual(value("--container-env=COLOUR", env=given), "red round")

    def test_mounts(self):
        data = os.path.join(self.c.work, "data")
        os.makedirs(data, exist_ok=True)
        os.chmod(data, 0o777)
        out = self.inside(f"--container-mounts={data}:/mnt/a,{data}:/mnt/b:ro+nosuid,{data},tmpfs:/scratch",
                          "sh", "-c", f"echo x > /mnt/a/f; cat {data}/f; echo y > /mnt/b/g || echo closed; touch /scratch/z && echo made")
        self.assertEqual(out, "x\nclosed\nmade\n")
        done = self.srun("--container-mounts=/not/there:/mnt", "true", image=self.image)
        self.assertEqual(done.returncode, 1)
        self.assertIn("mount /not/there:/mnt: /not/there: No such file or directory", done.stderr)
        done = self.srun("--container-mounts=data:/mnt", "true", image=self.image)
        self.assertIn('the source must be a path', done.stderr)

    def test_working_directory_and_home(self):
        self.assertEqual(self.inside("--container-workdir=/made/for/it", "pwd"), "/made/for/it\n")
        home = os.path.join(self.c.work, "home")
        os.makedirs(home, exist_ok=True)
        os.chmod(home, 0o777)
        with open(os.path.join(home, "mine"), "w") as f:
            f.write("mine\n")
        self.assertEqual(self.inside("--container-mount-home", "cat", f"{home}/mine", env={"HOME": home}), "mine\n")

    def test_entrypoint_and_command(self):
        self.assertEqual(self.inside("--container-entrypoint", "echo", "hi"), "entered echo hi\nhi\n")
        self.assertEqual(self.inside("--container-entrypoint", "--no-container-entrypoint", "echo", "hi"), "hi\n")

    def test_readonly(self):
        self.assertEqual(self.script("touch /new && echo made"), "made\n")
        self.assertEqual(self.inside("--container-readonly", "sh", "-c", "touch /new || echo closed"), "closed\n")

    def test_variables_of_pyxis(self):
        out = self.srun("sh", "-c", "id -u; cat /etc/os-release", env={"PYXIS_CONTAINER_IMAGE": self.image, "PYXIS_CONTAINER_REMAP_ROOT": "yes"})
        self.assertEqual(out.stdout, "0\nNAME=lockstep-test\n", out.stderr)

    # --- tasks ---

    def test_several_tasks_share_one_container(self):
        out = self.inside("-N1", "-n4", "sh", "-c",
                          "echo $SLURM_PROCID > /r$SLURM_PROCID; until [ $(ls /r? | wc -l) = 4 ]; do sleep 0.02; done; cat /r? | wc -l")
        self.assertEqual(out, "4\n" * 4)

    def test_codes_and_signals(self):
        self.assertEqual(self.srun("sh", "-c", "exit 7", image=self.image).returncode, 7)
        done = self.srun("sh", "-c", "kill -9 $$", image=self.image)
        self.assertEqual(done.returncode, 137)
        self.assertIn("Killed", done.stderr)
        self.assertEqual(self.srun("nothing-such", image=self.image).returncode, 2)

    def test_input_and_terminal(self):
        self.assertEqual(self.inside("cat", input="hello\n"), "hello\n")
        done = self.srun("--pty", "sh", "-c", "tty; stty size", image=self.image)
        self.assertIn("/dev/pts/", done.stdout)

    def test_a_signal_arrives_once_and_cancelling_ends_all(self):
        script = self.c.script(f"#!/bin/bash\n#SBATCH -N1 -n2 -o cancelled.out\nsrun --container-image={self.image} sh -c "
                               "'trap \"echo got\" USR1; echo ready; while :; do sleep 0.05; done'\n", "cancel.sh")
        job = self.c.sbatch(script, user=ANN)
        out = os.path.join(self.c.work, "cancelled.out")
        eventually(lambda: os.path.exists(out) and self.c.output(job, "cancelled.out").count("ready") == 2, what="two tasks")
        self.c.ok("scancel", "-s", "USR1", f"{job}.0", user=ANN)
        eventually(lambda: self.c.output(job, "cancelled.out").count("got") == 2, what="the signal")
        self.c.ok("scancel", job, user=ANN)
        self.assertEqual(self.c.wait(job), "CANCELLED")
        self.assertEqual(self.c.output(job, "cancelled.out").count("got"), 2)
        eventually(lambda: subprocess.run(["pgrep", "-x", "container", "-u", str(ANN)]).returncode == 1, what="nobody is left")

    # --- scripts ---

    def test_script_in_a_container_and_its_steps(self):
        script = self.c.script(f"#!/bin/sh\n#SBATCH -N2 --ntasks-per-node=1 -o inside.out\n#SBATCH --container-image={self.image}\n"
                               "cat /etc/os-release\necho $# $1\nsrun sh -c 'echo step $COLOUR $SLURM_PROCID' | sort\n", "inside.sh")
        job = self.c.sbatch(script, "argument", user=ANN)
        self.assertEqual(self.c.wait(job), "COMPLETED", self.c.output(job, "inside.out"))
        lines = [l for l in self.c.output(job, "inside.out").splitlines() if not l.startswith("lockstep: container:")]
        self.assertEqual(lines, ["NAME=lockstep-test", "1 argument", "step blue 0", "step blue 1"])

    def test_steps_of_an_allocation_begin_with_its_options(self):
        done = self.c.run("salloc", "-N1", f"--container-image={self.image}", "--container-remap-root", "sh", "-c",
                          "srun sh -c 'id -u; cat /etc/os-release'",
                          user=ANN, env={"HOME": self.c.work})
        self.assertEqual(done.stdout, "0\nNAME=lockstep-test\n", done.stderr)

    def test_named_container_keeps_its_changes_within_its_job(self):
        name = "--container-name=box"
        script = self.c.script("#!/bin/bash\n#SBATCH -N1 -n2 -o named.out\n"
                               f"srun -n1 {name}:create --container-image={self.image} sh -c 'echo kept > /file'\n"
                               f"srun -n1 {name} cat /file\n"
                               f"srun -n1 {name}:create --container-image={self.image} true || echo there\n"
                               f"srun -n1 {name}:exec true || echo rests\n"
                               f"srun -n1 {name} sh -c 'echo up > /tmp/up-$SLURM_JOB_ID; until [ -e /go ]; do sleep 0.02; done; cat /go' &\n"
                               "until [ -e /tmp/up-$SLURM_JOB_ID ]; do sleep 0.02; done; rm /tmp/up-$SLURM_JOB_ID\n"
                               f"srun --overlap -n1 {name}:no_exec true || echo runs\n"
                               f"srun --overlap -n1 {name}:exec sh -c 'echo met > /go.part; busybox mv /go.part /go'\nwait\n", "named.sh")
        job = self.c.sbatch(script, user=ANN)
        self.assertEqual(self.c.wait(job), "COMPLETED", self.c.output(job, "named.out"))
        lines = [l for l in self.c.output(job, "named.out").splitlines() if not l.startswith(("lockstep: ", "srun: "))]
        self.assertEqual(lines, ["kept", "there", "rests", "runs", "met"])
        other = self.srun(name, "cat", "/file")  # of another job
        self.assertEqual(other.returncode, 1)
        self.assertIn('no container with the name "box"', other.stderr)

    def test_a_named_container_that_runs_is_joined_again_and_again(self):
        name = "--container-name=shared"
        join = f"srun --overlap -n1 {name}"
        job = self.c.sbatch(self.c.script(
            "#!/bin/bash\n#SBATCH -N1 -n2 -o joined.out\n"
            f"srun -n1 {name} --container-image={self.image} sh -c 'echo one > /part; busybox mv /part /file; until [ -e /go ]; do sleep 0.02; done' &\n"
            "first=$!\n"
            f"until {join}:exec cat /file 2>/dev/null; do sleep 0.05; done\n"
            f"{join}:exec cat /file\n{join} cat /file\n"
            # What holds it now is a step that joined; the one that made it ends.
            f"{join}:exec sh -c 'touch /in; until [ -e /end ]; do sleep 0.02; done' &\n"
            f"until {join}:exec ls /in; do sleep 0.05; done\n"
            f"{join}:exec touch /go\nwait $first\n"
            f"{join}:exec cat /file\n{join}:exec touch /end\nwait\n", "joined.sh"), user=ANN)
        self.assertEqual(self.c.wait(job), "COMPLETED", self.c.output(job, "joined.out"))
        lines = [l for l in self.c.output(job, "joined.out").splitlines() if not l.startswith(("lockstep: ", "srun: ", "ls: "))]
        self.assertEqual(lines, ["one", "one", "one", "/in", "one"])

    def test_steps_of_a_script_in_a_named_container_join_it_one_after_the_other(self):
        job = self.c.sbatch(self.c.script(
            f"#!/bin/sh\n#SBATCH -N1 -o script.out\n#SBATCH --container-image={self.image}\n#SBATCH --container-name=script\n"
            "echo kept > /file\nsrun cat /file\nsrun cat /file\nsrun cat /file\n", "script.sh"), user=ANN)
        self.assertEqual(self.c.wait(job), "COMPLETED", self.c.output(job, "script.out"))
        lines = [l for l in self.c.output(job, "script.out").splitlines() if not l.startswith("lockstep: container:")]
        self.assertEqual(lines, ["kept"] * 3)

    def test_enroot_shows_named_containers_as_pyxis_calls_them(self):
        out = os.path.join(self.c.work, "exported.sqsh")
        script = self.c.script(
            "#!/bin/bash\n#SBATCH -N1 -n2 -o enroot.out\n"
            f"srun -n1 --container-name=web:create --container-image={self.image} "
            "sh -c 'echo kept > /srv/app/file; busybox touch /tmp/up-$SLURM_JOB_ID; until [ -e /go ]; do sleep 0.02; done' &\n"
            "until [ -e /tmp/up-$SLURM_JOB_ID ]; do sleep 0.02; done; rm /tmp/up-$SLURM_JOB_ID\n"
            "name=pyxis_${SLURM_JOB_ID}_web\n"
            "echo listed $(enroot list | grep -cx $name)\n"
            "while read -r one pid rest; do [ $one = $name ] && kill -0 $pid && echo runs; done < <(enroot list -f)\n"
            "enroot start $name cat file\n"
            "enroot start -r $name sh -c 'exit 7'; echo code $?\n"
            f"enroot export -o {out} $name\n"
            f"enroot export -o {out} $name; echo code $?\n"
            f"enroot export -f -o {out} $name && echo again\n"
            "srun --overlap -n1 --container-name=web:exec touch /go; wait\n"
            "enroot start $name cat file\n"
            "enroot remove -f $name; enroot list | grep -cx $name\n"
            "enroot remove -f $name; echo code $?\n", "enroot.sh")
        job = self.c.sbatch(script, user=ANN, env={"HOME": self.c.work})
        self.assertEqual(self.c.wait(job), "COMPLETED", self.c.output(job, "enroot.out"))
        lines = [l for l in self.c.output(job, "enroot.out").splitlines() if not l.startswith(("lockstep: ", "srun: ", "[INFO]"))]
        self.assertEqual(lines, ["listed 1", "runs", "kept", "code 7", f"[ERROR] File already exists: {out}", "code 1", "again", "kept",
                                 "0", f"[ERROR] No such container: pyxis_{job}_web", "code 1"])
        self.assertEqual(self.inside("cat", "/srv/app/file", image=out), "kept\n")

    def test_enroot_imports_an_image(self):
        out = os.path.join(self.c.work, "imported.sqsh")
        done = self.srun("-w", "n1", "enroot", "import", "-o", out, f"docker://127.0.0.1:{PORT}#team/app:v1")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(self.inside("sh", "-c", "pwd; echo $COLOUR", image=out), "/srv/app\nblue\n")

    def test_named_container_goes_with_its_job(self):
        done = self.srun("-w", "n1", "--container-name=gone", "true", image=self.image)
        self.assertEqual(done.returncode, 0, done.stderr)
        jobs = os.path.join(self.c.dir, "nodes", "n1", "state", "containers", str(ANN), "jobs")
        eventually(lambda: not [j for j in os.listdir(jobs) if os.path.exists(f"{jobs}/{j}/names/gone")], what="its removal")

    def test_saved_container_is_an_image(self):
        saved = os.path.join(self.c.work, "saved.sqsh")
        done = self.srun(f"--container-save={saved}", "sh", "-c", "echo more > /srv/app/file", image=self.image)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn(f"saving container filesystem at {saved}", done.stderr)
        self.assertEqual(os.stat(saved).st_uid, ANN)
        self.assertEqual(self.inside("sh", "-c", "cat file; echo $COLOUR", image=saved), "more\nblue\n")
        done = self.srun("--container-save=/not/there.sqsh", "true", image=self.image)
        self.assertIn("cannot save the container at /not/there.sqsh", done.stderr)

    def test_what_cannot_be_saved_is_said_before_the_work_begins(self):
        done = self.srun("--container-save=/no/such/place/x.sqsh", "echo", "worked", image=self.image)
        self.assertEqual((done.returncode, done.stdout), (1, ""))
        self.assertIn("cannot save the container at /no/such/place/x.sqsh: /no/such/place: No such file or directory", done.stderr)

    def test_an_empty_variable_is_no_image(self):
        done = self.srun("--container-image=", "echo", "outside")
        self.assertEqual((done.returncode, done.stdout), (1, ""))
        self.assertIn("--container-image needs a value", done.stderr)

    def test_bundle(self):
        bundle = os.path.join(self.c.work, "bundle")
        subprocess.run(["umoci", "unpack", "--image", f"{self.layout}:v1", bundle], check=True, stdout=subprocess.DEVNULL)
        os.chmod(bundle, 0o755)
        out = self.c.ok("srun", f"--container={bundle}", "sh", "-c", "cat /etc/os-release; pwd; echo $COLOUR", user=ANN)
        self.assertEqual(out, "NAME=lockstep-test\n/srv/app\nblue\n")
        os.chmod(bundle, 0o700)
        self.assertIn("Permission denied", self.c.run("srun", f"--container={bundle}", "true", user=ANN).stderr)

    def test_nothing_is_left_behind(self):
        self.script("echo big > /file")

        def left():
            return [os.path.join(root, name) for node in ("n1", "n2") for part in ("jobs", "trash")
                    for root, folders, names in os.walk(os.path.join(self.c.dir, "nodes", node, "state", "containers", str(ANN), part))
                    for name in names + folders]
        eventually(lambda: not left(), what="the removal of what steps had")

    # --- devices ---

    def test_gpus_by_cdi(self):
        with Cluster(nodes=1, gpus="2xh100", cpus=2) as c:
            node = ["nsenter", "-t", str(c.node("n1")["agent_pid"]), "-m"]
            spec = {"cdiVersion": "0.6.0", "kind": "nvidia.com/gpu",
                    "devices": [{"name": str(i), "containerEdits": {"deviceNodes": [{"path": f"/dev/gpu{i}", "hostPath": "/dev/zero"}]}}
                                for i in (0, 1)],
                    "containerEdits": {"env": ["DRIVER=here"],
                                       "mounts": [{"hostPath": "/etc/os-release", "containerPath": "/driver/release", "options": ["ro"]}],
                                       "hooks": [{"hookName": "createContainer", "path": "/bin/sh",
                                                  "args": ["sh", "-c", "grep -q bundle && exit 3"]}]}}
            subprocess.run([*node, "sh", "-c", "mkdir -p /run/cdi; cat > /run/cdi/gpu.json"], input=json.dumps(spec), text=True, check=True)
            done = c.run("srun", "--gpus-per-node=1", f"--container-image={self.image}", "sh", "-c",
                         "ls -d /dev/gpu*; echo $DRIVER; ls /driver; head -c1 /dev/gpu0 | wc -c", user=ANN)
            self.assertEqual(done.stdout, "/dev/gpu0\nhere\nrelease\n1\n", done.stderr)
            self.assertIn("the hook /bin/sh of a device's specification failed", done.stderr)
            done = c.run("srun", f"--container-image={self.image}", "sh", "-c", "ls -d /dev/gpu*", user=ANN)
            self.assertEqual(done.stdout, "")

    # --- escapes ---

    def test_no_power_inside(self):
        for options in ((), ("--container-remap-root",)):
            out = self.inside(*options, "sh", "-c",
                              "mount -t tmpfs x /srv 2>/dev/null || echo no; unshare -U true 2>/dev/null || echo no; "
                              "grep -E '^(Cap|NoNew|Seccomp:)' /proc/self/status | cut -f2 | sort | busybox uniq; "
                              "mknod /dev/sda b 8 0 2>/dev/null; [ -b /dev/sda ] || echo none; head -c1 /proc/kcore 2>/dev/null | wc -c; "
                              "echo 1 2>/dev/null > /proc/sys/kernel/panic || echo closed")
            self.assertEqual(out.split(), ["no", "no", "0000000000000000", "1", "2", "none", "0", "closed"], options)

    def test_others_files_stay_closed(self):
        secret = os.path.join(self.c.work, "secret")
        os.makedirs(secret, exist_ok=True)
        with open(os.path.join(secret, "word"), "w") as f:
            f.write("secret\n")
        os.chmod(secret, 0o700)
        link = os.path.join(self.c.work, "link")
        if not os.path.lexists(link):
            os.symlink(secret + "/word", link)
        for source in (secret, secret + "/word", link, "/root", "/proc/1/root"):
            done = self.srun("--container-remap-root", f"--container-mounts={source}:/mnt/it", "sh", "-c", "cat /mnt/it /mnt/it/word; ls /mnt/it", image=self.image)
            self.assertNotIn("secret\n", done.stdout)
            self.assertNotEqual(done.returncode, 0, source)
        for image in (secret + "/word", f"oci:{secret}:x", f"docker-archive:{secret}/word"):
            done = self.srun("true", image=image)
            self.assertEqual(done.returncode, 1)
            self.assertIn("ermission denied", done.stderr)
        done = self.srun(f"--container-save={secret}/stolen.sqsh", "true", image=self.image)
        self.assertIn("cannot save", done.stderr)
        self.assertFalse(os.path.exists(secret + "/stolen.sqsh"))

    def test_an_image_cannot_reach_out(self):
        layout = os.path.join(self.c.work, "hostile")
        victim = tempfile.mkdtemp(prefix="lockstep-e2e-", dir="/var/tmp")
        self.addCleanup(os.rmdir, victim)
        os.chmod(victim, 0o777)
        up = "/../../../../../../.."
        files = images.files_of_busybox(**{"etc/resolv.conf": up + victim + "/resolv", "etc/group": victim + "/group",
                                           "proc": up + victim, "out": victim, "up": up + victim})
        images.make_layout(layout, "v1", files, {"Env": ["PATH=/bin"], "WorkingDir": "/out/work"})
        for target in ("/out/made/here", "/up/made/here"):
            done = self.srun(f"--container-mounts=tmpfs:{target}", "true", image=f"oci:{layout}:v1")
            self.assertEqual(done.returncode, 1, done.stderr)
            self.assertIn("in the container: No such file or directory", done.stderr)
        self.assertEqual(os.listdir(victim), [])

    def test_one_users_containers_are_closed_to_another(self):
        self.script("true")
        for node in ("n1", "n2"):
            folder = os.path.join(self.c.dir, "nodes", node, "state", "containers", str(ANN))
            if os.path.exists(folder):
                self.assertEqual((os.stat(folder).st_uid, os.stat(folder).st_mode & 0o777), (ANN, 0o700))
        done = self.c.run("srun", "-w", "n1", "sh", "-c", f"ls {self.c.dir}/nodes/n1/state/containers/{ANN}", user=BOB)
        self.assertIn("Permission denied", done.stderr)

    def test_what_cleans_up_is_no_process_of_the_users_to_take_over(self):
        home = os.path.join(self.c.work, "swept")
        os.makedirs(home + "/jobs/1")
        for n in range(20000):
            os.mkdir(f"{home}/jobs/1/{n}")
        subprocess.run(["chown", "-R", str(ANN), home], check=True)
        time.sleep(11)  # what is fresh is left alone
        program = os.path.join(os.path.dirname(os.path.realpath(shutil.which("lockstep", path=self.c.env["PATH"]))), "lockstep-container")
        process = subprocess.Popen([program, "sweep", home], user=ANN, group=ANN, extra_groups=[])
        try:
            # The kernel gives to root what may not be traced.
            self.assertEqual(os.stat(f"/proc/{process.pid}/mem").st_uid, 0)
            self.assertIsNone(process.poll())
        finally:
            self.assertEqual(process.wait(), 0)
        self.assertEqual(os.listdir(home + "/jobs"), [])

    def test_another_user_cannot_join(self):
        job = self.c.sbatch(self.c.script(f"#!/bin/sh\n#SBATCH -N1 -w n1 -o join.out\nsrun --container-image={self.image} sh -c 'echo up; sleep 60'\n",
                                          "join.sh"), user=ANN)
        out = os.path.join(self.c.work, "join.out")
        eventually(lambda: os.path.exists(out) and "up" in self.c.output(job, "join.out"), what="the step")
        holder = subprocess.run(["pgrep", "-x", "container", "-u", str(ANN)], capture_output=True, text=True).stdout.split()[0]
        for user, code in ((BOB, 1), (ANN, 0)):
            done = self.c.run("nsenter", "-t", holder, "-U", "-m", "--preserve-credentials", "/bin/cat", "/etc/os-release", user=user)
            self.assertEqual(done.returncode, code, done.stderr)
            self.assertEqual("lockstep-test" in done.stdout, code == 0)
            self.assertEqual(self.c.run("ls", f"/proc/{holder}/root/bin", user=user).returncode != 0, code == 1)
        self.c.ok("scancel", job, user=ANN)
        self.c.wait(job)

    def test_images_that_nobody_uses_go(self):
        layout = os.path.join(self.c.work, "old")
        digest = images.make_layout(layout, "v1", images.files_of_busybox(**{"etc/motd": (b"old", 0o644)}))
        self.inside("-w", "n1", "true", image=f"oci:{layout}:v1", user=BOB)
        folder = os.path.join(self.c.dir, "nodes", "n1", "state", "containers", str(BOB), "images", digest.replace(":", "-"))
        os.utime(folder, (0, 0))
        self.inside("-w", "n1", "true", image=self.image, user=BOB)
        eventually(lambda: not os.path.exists(folder), what="the removal of the old image")
        self.assertTrue(os.path.exists(os.path.join(os.path.dirname(folder), self.digest.replace(":", "-"))))

    def test_a_private_image_is_for_those_who_may_have_it(self):
        registries = [images.Registry(self.c.home, self.c.node(n)["agent_pid"], CLOSED_PORT, {"ann": "word"}) for n in ("n1", "n2")]
        try:
            for registry in registries:
                registry.push(self.image, "team/private:v1", "--dest-creds=ann:word")
            home = os.path.join(self.c.work, "ann")
            os.makedirs(os.path.join(home, ".config", "enroot"), exist_ok=True)
            with open(os.path.join(home, ".config", "enroot", ".credentials"), "w") as f:
                f.write("machine 127.0.0.1 login ann password $ANNS_WORD\n")
            for root, folders, names in os.walk(home):
                for name in (".", *names):
                    os.chown(os.path.join(root, name), ANN, ANN)
            image = f"127.0.0.1:{CLOSED_PORT}#team/private:v1"
            self.assertEqual(self.inside("cat", "/etc/os-release", image=image, env={"HOME": home, "ANNS_WORD": "word"}), "NAME=lockstep-test\n")
            for user in (ANN, BOB):  # without the word, and another one
                done = self.srun("cat", "/etc/os-release", image=image, user=user, env={"HOME": self.c.work})
                self.assertEqual((done.returncode, done.stdout), (1, ""))
                self.assertIn("authentication required", done.stderr)
        finally:
            for registry in registries:
                registry.close()


@unittest.skipUnless(os.geteuid() == 0, "only root can become another user")
@unittest.skipIf(images.missing(), f"these are not installed: {images.missing()}")
class WithoutRoot(unittest.TestCase):
    def test_an_agent_of_an_ordinary_user(self):
        c = Cluster(nodes=0)
        for path in (c.home, c.work):
            os.chown(path, ANN, ANN)
        layout = os.path.join(c.work, "layout")
        images.make_layout(layout, "v1")
        mine = {"user": ANN, "env": {"HOME": c.home}}
        try:
            c.ok("lockstep", "up", "--dir", c.dir, *c.args, timeout=120, **mine)
            done = c.run("srun", f"--container-image=oci:{layout}:v1", "--container-remap-root", "sh", "-c", "id -u; pwd", **mine)
            self.assertEqual(done.stdout, "0\n/srv/app\n", done.stderr)
            done = c.run("srun", f"--container-image=oci:{layout}:v1", "id", "-u", **mine)
            self.assertEqual((done.stdout, done.stderr), (f"{ANN}\n", ""))
        finally:
            c.run("lockstep", "down", "--dir", c.dir, timeout=60, **mine)
            shutil.rmtree(c.home, ignore_errors=True)


if __name__ == "__main__":
    unittest.main()
