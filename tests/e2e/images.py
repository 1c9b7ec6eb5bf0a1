"""Container images for tests, made without a network: a static busybox, as OCI layout, squashfs, and in a real registry."""
import contextlib
import gzip
import hashlib
import io
import itertools
import json
import os
import re
import shutil
import socket
import subprocess
import tarfile
import tempfile
import time

BUSYBOX = "/bin/busybox"
APPLETS = ("sh", "ls", "cat", "id", "env", "pwd", "echo", "mkdir", "touch", "sleep", "mount", "unshare", "chown", "stat", "grep",
           "head", "true", "false", "kill", "tty", "stty", "rm", "cut", "sed", "mknod", "readlink", "whoami", "sort", "wc")
NEEDED = ("skopeo", "umoci", "mksquashfs", "unsquashfs", "docker-registry", "htpasswd", "curl")


def missing():
    """What a test of containers needs and this machine has not; "" if it has everything."""
    wanted = [name for name in NEEDED if not shutil.which(name)]
    if not os.path.exists(BUSYBOX) or subprocess.run(["ldd", BUSYBOX], capture_output=True).returncode == 0:
        wanted.append("busybox-static")
    return ", ".join(wanted)


def files_of_busybox(**more):
    with open(BUSYBOX, "rb") as f:
        files = {"bin/busybox": (f.read(), 0o755)}
    files.update({f"bin/{name}": "busybox" for name in APPLETS})
    files.update({"etc/os-release": (b"NAME=lockstep-test\n", 0o644), "etc/passwd": (b"root:x:0:0::/root:/bin/sh\n", 0o644),
                  "tmp/.keep": (b"", 0o644),
                  "entry": (b"#!/bin/sh\necho entered \"$@\"\nexec \"$@\"\n", 0o755)})
    files.update(more)
    return files


def tar_of(files):
    """A layer: names to (bytes, mode), or to the target of a link."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as tar:
        for folder in sorted({"/".join(name.split("/")[:n]) for name in files for n in range(1, name.count("/") + 1)}):
            entry = tarfile.TarInfo(folder)
            entry.type, entry.mode = tarfile.DIRTYPE, 0o755
            tar.addfile(entry)
        for name, what in files.items():
            entry = tarfile.TarInfo(name)
            if isinstance(what, str):
                entry.type, entry.linkname = tarfile.SYMTYPE, what
                tar.addfile(entry)
            else:
                entry.size, entry.mode = len(what[0]), what[1]
                tar.addfile(entry, io.BytesIO(what[0]))
    return out.getvalue()


def put_blob(layout, data):
    digest = hashlib.sha256(data).hexdigest()
    os.makedirs(os.path.join(layout, "blobs", "sha256"), exist_ok=True)
    with open(os.path.join(layout, "blobs", "sha256", digest), "wb") as f:
        f.write(data)
    return {"digest": "sha256:" + digest, "size": len(data)}


def packed_layer(layout, tar, how):
    """A layer in one of the forms that registries have."""
    if how == "zstd":
        data = subprocess.run(["zstd", "-q", "-c"], input=tar, capture_output=True, check=True).stdout
    else:
        data = gzip.compress(tar, 1, mtime=0) if how == "gzip" else tar
    layer = put_blob(layout, data)
    layer["mediaType"] = "application/vnd.oci.image.layer.v1.tar" + ("+" + how if how else "")
    return layer


def make_layout(layout, tag, files=None, config=None, packed="gzip", more_layers=()):
    """An OCI layout with one image; its manifest's digest. more_layers: tars over the first one, not packed."""
    digests, layers = [], []
    for n, tar in enumerate(itertools.chain([tar_of(files or files_of_busybox())], more_layers)):
        digests.append("sha256:" + hashlib.sha256(tar).hexdigest())
        layers.append(packed_layer(layout, tar, packed if n == 0 else ""))
    image = put_blob(layout, json.dumps({
        "architecture": "amd64", "os": "linux",
        "config": config or {"Env": ["PATH=/bin", "COLOUR=blue"], "WorkingDir": "/srv/app", "Entrypoint": ["/entry"],
                             "Cmd": ["pwd"]},
        "rootfs": {"type": "layers", "diff_ids": digests}}).encode())
    image["mediaType"] = "application/vnd.oci.image.config.v1+json"
    manifest = put_blob(layout, json.dumps({"schemaVersion": 2, "mediaType": "application/vnd.oci.image.manifest.v1+json",
                                            "config": image, "layers": layers}).encode())
    manifest.update(mediaType="application/vnd.oci.image.manifest.v1+json",
                    annotations={"org.opencontainers.image.ref.name": tag})
    with open(os.path.join(layout, "index.json"), "w") as f:
        json.dump({"schemaVersion": 2, "manifests": [manifest]}, f)
    with open(os.path.join(layout, "oci-layout"), "w") as f:
        f.write('{"imageLayoutVersion":"1.0.0"}')
    for root, folders, names in os.walk(layout):
        os.chmod(root, 0o755)
        for name in names:
            os.chmod(os.path.join(root, name), 0o644)
    return manifest["digest"]


def make_squashfs(path, files=None, environment="PATH=/bin\nCOLOUR=green\n"):
    folder = path + ".tree"
    with tarfile.open(fileobj=io.BytesIO(tar_of(files or files_of_busybox()))) as tar:
        tar.extractall(folder)
    with open(os.path.join(folder, "etc", "environment"), "w") as f:
        f.write(environment)
    subprocess.run(["mksquashfs", folder, path, "-quiet", "-no-progress", "-all-root", "-noappend"], check=True,
                   stdout=subprocess.DEVNULL)
    shutil.rmtree(folder)


class Registry:
    """A real registry on the loopback of a virtual node. users: names to passwords; none: it asks nobody who he is."""

    def __init__(self, home, node_pid, port, users=None):
        self.port = port
        self.net = ["nsenter", "-t", str(node_pid), "-n"]
        self.folder = tempfile.mkdtemp(prefix=f"registry-{port}-", dir=home)
        config = {"version": 0.1, "log": {"level": "error"}, "http": {"addr": f"127.0.0.1:{port}"},
                  "storage": {"filesystem": {"rootdirectory": self.folder}, "delete": {"enabled": True}}}
        if users:
            with open(os.path.join(self.folder, "users"), "w") as f:
                for name, word in users.items():
                    f.write(subprocess.run(["htpasswd", "-nbB", name, word], capture_output=True, text=True, check=True).stdout)
            config["auth"] = {"htpasswd": {"realm": "test", "path": os.path.join(self.folder, "users")}}
        path = os.path.join(self.folder, "config.yml")
        with open(path, "w") as f:
            json.dump(config, f)
        self.log = open(os.path.join(self.folder, "log"), "w")
        self.process = subprocess.Popen([*self.net, "docker-registry", "serve", path], stdout=self.log, stderr=self.log)
        end = time.monotonic() + 30
        while subprocess.run([*self.net, "curl", "-s", "-o", "/dev/null", f"http://127.0.0.1:{port}/v2/"]).returncode != 0:
            if time.monotonic() > end or self.process.poll() is not None:
                raise AssertionError(open(self.log.name).read())
            time.sleep(0.05)

    def reads(self, kind, repository=r"\S+"):
        """How often each blob ("blobs") or manifest ("manifests") was read so far, by the last part of its name."""
        self.log.flush()
        with open(self.log.name) as f:
            asked = re.findall(rf'"GET /v2/{repository}/{kind}/(\S+) HTTP/\S+" 200', f.read())
        return {name: asked.count(name) for name in asked}

    def digest(self, name):
        raw = subprocess.run([*self.net, "skopeo", "inspect", "--raw", "--tls-verify=false", f"docker://127.0.0.1:{self.port}/{name}"],
                             capture_output=True, check=True).stdout
        return "sha256:" + hashlib.sha256(raw).hexdigest()

    def push(self, source, name, *options):
        subprocess.run([*self.net, "skopeo", "copy", "--quiet", "--dest-tls-verify=false", *options, source,
                        f"docker://127.0.0.1:{self.port}/{name}"], check=True)

    def close(self):
        self.process.terminate()
        self.process.wait()
        self.log.close()
