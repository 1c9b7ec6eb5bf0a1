"""Images that several nodes want: fetched from the registry once, handed from node to node, whoever fails meanwhile."""
import json
import os
import shutil
import time
import unittest

import images
from cluster import Cluster, eventually

ANN, BOB = 2001, 2002
PORT = 5000
NODES = ("n1", "n2", "n3", "n4")


@unittest.skipUnless(os.geteuid() == 0, "only root can be several users")
@unittest.skipIf(images.missing(), f"these are not installed: {images.missing()}")
class ImagesOfNodes(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.c = c = Cluster(nodes=4, gpus=None, cpus=4)
        c.up()
        cls.registry = images.Registry(c.home, c.node("n1")["agent_pid"], PORT)  # the others do not reach it

    @classmethod
    def tearDownClass(cls):
        cls.registry.close()
        cls.c.down()

    def push(self, name, word, **how):
        """A new image, which says a word, in the registry; its repository."""
        layout = os.path.join(self.c.work, name)
        images.make_layout(layout, "v1", images.files_of_busybox(**{"etc/motd": (word.encode() + b"\n", 0o644)}), **how)
        self.registry.push(f"oci:{layout}:v1", f"team/{name}:v1")
        return f"team/{name}"

    def srun(self, *words, user=ANN, **more):
        home = os.path.join(self.c.work, f"home-{user}")
        if not os.path.exists(home):
            os.mkdir(home)
            os.chown(home, user, user)
        more["env"] = {"HOME": home, **more.get("env", {})}
        return self.c.run("srun", *words, user=user, **more)

    def says(self, name, word, nodes, *options, user=ANN):
        done = self.srun(*options, f"--container-image=127.0.0.1:{PORT}#team/{name}:v1", "cat", "/etc/motd", user=user)
        self.assertEqual((done.stdout, done.returncode), (f"{word}\n" * nodes, 0), done.stderr)
        return done.stderr

    def folder(self, node, user=ANN):
        return os.path.join(self.c.dir, "nodes", node, "state", "containers", str(user))

    def forget(self, *nodes, user=ANN):
        for node in nodes:
            for name in ("images", "blobs"):
                shutil.rmtree(os.path.join(self.folder(node, user), name), ignore_errors=True)

    def test_four_nodes_read_each_blob_once(self):
        image = self.push("once", "once", more_layers=[images.tar_of({"second": (os.urandom(3 << 20), 0o644)})])
        said = self.says("once", "once", 4, "-N4")
        read = self.registry.reads("blobs", image)
        self.assertEqual(set(read.values()), {1}, read)
        self.assertEqual(len(read), 3, read)  # the configuration and two layers
        self.assertEqual(self.registry.reads("manifests", image).get("v1"), 1)  # the tag: all nodes run the same image
        self.assertEqual(said.count("importing docker image from node n1"), 3, said)
        self.says("once", "once", 4, "-N4")
        self.assertEqual(self.registry.reads("blobs", image), read)

    def test_who_has_it_already_hands_it_on(self):
        image = self.push("later", "later")
        self.says("later", "later", 1, "-w", "n1")
        self.says("later", "later", 4, "-N4")
        self.assertEqual(set(self.registry.reads("blobs", image).values()), {1})

    def test_steps_of_one_node_at_once(self):
        image = self.push("together", "together")
        steps = "\n".join(f"srun --exact -n1 --container-image=127.0.0.1:{PORT}#team/together:v1 cat /etc/motd &" for _ in range(4))
        job = self.c.sbatch(self.c.script(f"#!/bin/bash\n#SBATCH -N1 -n4 -w n1 -o together.out\n{steps}\nwait\n", "together.sh"), user=ANN,
                            env={"HOME": self.c.work})
        self.assertEqual(self.c.wait(job), "COMPLETED")
        self.assertEqual(self.c.output(job, "together.out").count("together\n"), 4)
        self.assertEqual(set(self.registry.reads("blobs", image).values()), {1})

    def test_nobody_is_handed_what_is_somebody_elses(self):
        image = self.push("whose", "whose")
        self.says("whose", "whose", 2, "-w", "n1,n2")
        self.says("whose", "whose", 2, "-w", "n1,n2", user=BOB)
        self.assertEqual(set(self.registry.reads("blobs", image).values()), {2})  # the registry says for each of them that he may have it

    def test_a_spoilt_layer_is_not_believed(self):
        self.push("spoilt", "spoilt")
        self.says("spoilt", "spoilt", 1, "-w", "n1")
        store = os.path.join(self.folder("n1"), "blobs", "sha256")
        for name in os.listdir(store):
            path = os.path.join(store, name)
            if os.path.getsize(path) > 100_000:
                with open(path, "r+b") as f:
                    f.seek(5000)
                    f.write(b"damage")
        # n2 has a registry of its own under that address, to which it goes then.
        other = images.Registry(self.c.home, self.c.node("n2")["agent_pid"], PORT)
        try:
            other.push(f"oci:{os.path.join(self.c.work, 'spoilt')}:v1", "team/spoilt:v1")
            said = self.says("spoilt", "spoilt", 2, "-w", "n1,n2")
            self.assertRegex(said, "node n1: what was handed over as sha256:[0-9a-f]{64} is something else")
            self.assertGreater(len(other.reads("blobs")), 0)
        finally:
            other.close()
            self.forget("n1", "n2")

    def test_the_first_node_cannot_read_its_layers(self):
        """It knows which image it is, and tells the others that it does not get it."""
        self.push("torn", "torn")
        for root, _, names in os.walk(os.path.join(self.registry.folder, "docker/registry/v2/blobs")):
            for name in names:
                if self.is_layer_of("torn", root):
                    os.truncate(os.path.join(root, name), 100)
        other = images.Registry(self.c.home, self.c.node("n2")["agent_pid"], PORT)
        try:
            other.push(f"oci:{os.path.join(self.c.work, 'torn')}:v1", "team/torn:v1")
            began = time.monotonic()
            done = self.srun("-w", "n1,n2", f"--container-image=127.0.0.1:{PORT}#team/torn:v1", "cat", "/etc/motd")
            self.assertEqual((done.stdout, done.returncode), ("torn\n", 1), done.stderr)
            self.assertIn("node n1: it does not have all of it", done.stderr)
            self.assertLess(time.monotonic() - began, 20)
        finally:
            other.close()

    def is_layer_of(self, name, folder):
        path = os.path.join(self.c.work, name, "blobs", "sha256", os.path.basename(folder))
        return os.path.exists(path) and os.path.getsize(path) > 100_000

    def test_the_first_node_cannot_get_it(self):
        other = images.Registry(self.c.home, self.c.node("n2")["agent_pid"], PORT + 1)  # n1 does not reach it
        try:
            layout = os.path.join(self.c.work, "apart")
            images.make_layout(layout, "v1", images.files_of_busybox(**{"etc/motd": (b"apart\n", 0o644)}))
            other.push(f"oci:{layout}:v1", "team/apart:v1")
            began = time.monotonic()
            done = self.srun("-w", "n1,n2", f"--container-image=127.0.0.1:{PORT + 1}#team/apart:v1", "cat", "/etc/motd")
            self.assertEqual((done.stdout, done.returncode), ("apart\n", 1), done.stderr)
            self.assertIn("connection refused", done.stderr)
            self.assertLess(time.monotonic() - began, 9)  # it was told, and did not wait in vain
        finally:
            other.close()

    def test_zstd_layers(self):
        if not shutil.which("zstd"):
            self.skipTest("zstd is not installed: nothing makes such an image")
        self.push("zstd", "zstd", packed="zstd")
        self.says("zstd", "zstd", 2, "-w", "n1,n2")
        left = [name for node in ("n1", "n2") for name in os.listdir(os.path.join(self.folder(node), "images")) if name.endswith(".part")]
        self.assertEqual(left, [])

    def test_tasks_of_a_group(self):
        """Pods begin like this: no step, but tasks that the cluster starts."""
        image = self.push("tasks", "tasks")
        digest = self.registry.digest(f"{image}:v1")
        sandbox = {"network": "host", "containers": [
            {"name": "main", "argv": ["sh", "-c", "cat /etc/motd; sleep 1000"], "container": {"image": f"127.0.0.1:{PORT}#team/tasks:v1@" + digest}}]}
        job = self.c.api("POST", "/v1/jobs", {"spec": {
            "name": "tasks", "work_dir": self.c.work, "std_out": os.path.join(self.c.work, "tasks.out"), "groups": [
                {"launch": "tasks", "tasks": {"min": 4, "max": 4}, "nodes": {"min": 4, "max": 4}, "tasks_per_node": 1, "per_task": {"cores": 1},
                 "sandbox": sandbox}]}})["job_id"]
        try:
            eventually(lambda: [t.get("ready") for t in self.c.api("GET", f"/v1/jobs/{job}")["tasks"]] == [True] * 4, 30,
                       "tasks")
            self.assertEqual(set(self.registry.reads("blobs", image).values()), {1})
        finally:
            self.c.run("scancel", str(job))

    def test_what_apptainer_needs_is_there_in_a_job(self):
        done = self.srun("-w", "n1", "unshare", "--user", "--map-root-user", "--mount", "sh", "-c",
                         "mount -t tmpfs none /mnt && touch /mnt/made && ls /mnt")
        self.assertEqual((done.stdout, done.returncode), ("made\n", 0), done.stderr)

    def test_apptainer_in_a_job(self):
        program = shutil.which("apptainer") or shutil.which("singularity")
        if not program or "game" in program:
            self.skipTest("apptainer is not installed, and Debian 12 has no package of it")
        layout = os.path.join(self.c.work, "apptainer")
        images.make_layout(layout, "v1")
        done = self.srun("-w", "n1", program, "exec", f"oci:{layout}:v1", "/bin/cat", "/etc/os-release")
        self.assertEqual((done.stdout, done.returncode), ("NAME=lockstep-test\n", 0), done.stderr)


@unittest.skipUnless(os.geteuid() == 0, "only root can be several users")
@unittest.skipIf(images.missing(), f"these are not installed: {images.missing()}")
class RoomForImages(unittest.TestCase):
    """A node where images of each user may take 24 MiB."""

    @classmethod
    def setUpClass(cls):
        cls.c = c = Cluster(nodes=1, gpus=None, cpus=4)
        settings = os.path.join(c.home, "agent-settings.json")
        with open(settings, "w") as f:
            json.dump({"images": {"user_mb": 24, "free_percent": 1}}, f)
        c.args = (*c.args, "--agent-settings", settings)
        c.up()
        cls.store = os.path.join(c.dir, "nodes", "n1", "state", "containers", str(ANN))

    @classmethod
    def tearDownClass(cls):
        cls.c.down()

    def setUp(self):
        # What another test has just used would not go.
        for folder in ("images", "blobs"):
            shutil.rmtree(os.path.join(self.store, folder), ignore_errors=True)

    def image(self, name, mib):
        layout = os.path.join(self.c.work, name)
        digest = images.make_layout(layout, "v1", images.files_of_busybox(**{"more": (os.urandom(mib << 20), 0o644)}))
        return f"oci:{layout}:v1", digest.replace(":", "-")

    def step(self, image, *options):
        return self.c.run("srun", f"--container-image={image}", *options, "true", user=ANN, env={"HOME": self.c.work})

    def kept(self):
        return {name for name in os.listdir(os.path.join(self.store, "images")) if not name.endswith(".lock")}

    def long_unused(self, *keys):
        """An hour ago, in the order in which they are named."""
        for folder in ("images", "blobs/sha256"):
            for name in os.listdir(os.path.join(self.store, folder)):
                age = 3600 - keys.index(name) if name in keys else 3500
                os.utime(os.path.join(self.store, folder, name), (time.time() - age, time.time() - age))

    def test_what_nobody_used_for_longest_goes(self):
        first, first_key = self.image("first", 3)
        second, second_key = self.image("second", 3)
        third, third_key = self.image("third", 6)
        for image in (first, second):
            done = self.step(image)
            self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(self.kept(), {first_key, second_key})
        self.long_unused(first_key, second_key)
        # What a container that is kept is made of stays, however old.
        hold = self.c.sbatch(self.c.script(f"#!/bin/bash\n#SBATCH -n1 -o hold.out\nsrun --container-image={first} --container-name=kept true\n"
                                           "echo ready\nsleep 1000\n", "hold.sh"), user=ANN, env={"HOME": self.c.work})
        eventually(lambda: os.path.exists(os.path.join(self.c.work, "hold.out")) and "ready" in self.c.output(hold, "hold.out"),
                   what="the container that is kept")
        self.long_unused(first_key, second_key)
        done = self.step(third)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(self.kept(), {first_key, third_key})
        self.c.ok("scancel", str(hold), user=ANN)

    def test_one_that_is_too_large(self):
        image, key = self.image("huge", 30)
        done = self.step(image)
        self.assertEqual(done.returncode, 1)
        self.assertIn("images of yours may take 0 MiB more on this node", done.stderr)
        self.assertIn('"images" in agent.json', done.stderr)
        self.assertNotIn(key, self.kept())


if __name__ == "__main__":
    unittest.main()
