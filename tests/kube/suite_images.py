"""The images that Kubernetes' suite runs, made from distribution packages and the suite's own modules, in a real registry.

Nothing is fetched from an image registry: programs come from Debian packages (apt-get download them) and from Go modules, and what the
suite asks of an image (paths, users, what it prints) is made to hold. `TABLE` says which images there are; what the others would want
stands in conformance.tsv.

  python3 tests/kube/suite_images.py [NAME...]    makes them (all), in build/kubernetes/images
"""
import hashlib
import io
import json
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
sys.path.insert(0, os.path.join(ROOT, "tests", "e2e"))
import images as oci  # noqa: E402

FOLDER = os.environ.get("LOCKSTEP_KUBERNETES_IMAGES") or os.path.join(ROOT, "build", "kubernetes", "images")
PORT = 5000
NEEDED = ("skopeo", "docker-registry", "apt-get", "dpkg-deb", "gcc", "go")
PATH = "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
NOT_NEEDED = ("gcc-12-base", "debconf", "mawk", "perl", "perl-base", "perl-modules-5.36", "libperl5.36", "dpkg", "tar")

USERS = b"root:x:0:0:root:/root:/bin/sh\ndaemon:x:1:1:daemon:/usr/sbin:/bin/false\nwww-data:x:33:33::/var/www:/bin/false\nnobody:x:65534:65534:nobody:/home:/bin/false\n"
GROUPS = b"root:x:0:\ndaemon:x:1:\nwww-data:x:33:\nnogroup:x:65534:\n"
HTTPD_CONF = b"""ServerRoot /usr/local/apache2
ServerName localhost
Listen 80
PidFile /tmp/httpd.pid
ErrorLog /proc/self/fd/2
LoadModule mpm_event_module /usr/lib/apache2/modules/mod_mpm_event.so
LoadModule authz_core_module /usr/lib/apache2/modules/mod_authz_core.so
LoadModule dir_module /usr/lib/apache2/modules/mod_dir.so
LoadModule mime_module /usr/lib/apache2/modules/mod_mime.so
TypesConfig /usr/local/apache2/conf/mime.types
User daemon
Group daemon
DocumentRoot /usr/local/apache2/htdocs
DirectoryIndex index.html
"""
NGINX_CONF = b"""user www-data;
worker_processes 1;
error_log /dev/stderr;
pid /tmp/nginx.pid;
events { worker_connections 512; }
http {
  access_log /dev/stdout;
  types { text/html html; image/jpeg jpg; application/json json; }
  server { listen 80; root /usr/share/nginx/html; index index.html; }
}
"""
WELCOME = b"<html><body><h1>%s</h1></body></html>\n"


def missing():
    """What this machine lacks for making them; "" if nothing."""
    wanted = [name for name in NEEDED if not shutil.which(name)]
    if not os.path.exists(oci.BUSYBOX):
        wanted.append("busybox-static")
    return ", ".join(wanted)


# --- where programs come from ---

def packages(*names):
    """The files of Debian packages and of what they depend on, as a layer."""
    debs = os.path.join(FOLDER, "packages")
    os.makedirs(os.path.join(debs, "partial"), exist_ok=True)
    nothing_installed = os.path.join(FOLDER, "status")
    open(nothing_installed, "w").close()
    apt = ["apt-get", "-qq", "-y", "--no-install-recommends", "-o", "Dir::State::status=" + nothing_installed, "-o",
           "Dir::Cache::archives=" + debs, "-o", "Debug::NoLocking=1", "-o", "APT::Sandbox::User=root"]
    with tempfile.TemporaryDirectory(dir=FOLDER) as empty:  # what is there already would not be listed
        listed = subprocess.run([*apt, "-o", "Dir::Cache::archives=" + empty, "--print-uris", "install", *names], capture_output=True, text=True,
                                check=True).stdout
    subprocess.run([*apt, "--download-only", "install", *names], check=True, stdout=subprocess.DEVNULL)
    wanted = [line.split()[1] for line in listed.splitlines() if line.startswith("'")]
    with tempfile.TemporaryDirectory(dir=FOLDER) as tree:
        for deb in wanted:
            if deb.split("_")[0] not in NOT_NEEDED:
                tar = subprocess.Popen(["dpkg-deb", "--fsys-tarfile", os.path.join(debs, deb)], stdout=subprocess.PIPE)
                subprocess.run(["tar", "-x", "-C", tree, "--keep-directory-symlink", "--exclude=./usr/share/doc", "--exclude=./usr/share/man",
                                "--exclude=./usr/share/locale"], stdin=tar.stdout, check=True)
                if tar.wait() != 0:
                    raise RuntimeError(f"{deb} cannot be unpacked")
        out = io.BytesIO()
        with tarfile.open(fileobj=out, mode="w") as layer:
            for name in sorted(os.listdir(tree)):
                layer.add(os.path.join(tree, name), arcname=name, filter=as_root)
    return out.getvalue()


def as_root(entry):
    entry.uid = entry.gid = entry.mtime = 0
    entry.uname = entry.gname = ""
    return entry


def read(path):
    with open(path, "rb") as f:
        return f.read()


def go_folder():
    """Where the suite's modules are named: suite.py --build makes it."""
    import suite
    return suite.source_folder()


def go_environment():
    return {**os.environ, "CGO_ENABLED": "0", "GOFLAGS": "-mod=mod -buildvcs=false"}


def module_file(*parts):
    found = subprocess.run(["go", "list", "-m", "-f", "{{.Dir}}", "k8s.io/kubernetes"], cwd=go_folder(), env=go_environment(),
                           capture_output=True, text=True, check=True).stdout.strip()
    return os.path.join(found, *parts)


def go_program(package, name=None, version=None):
    """version: of its module, where the suite's own needs none of it."""
    path = os.path.join(FOLDER, "programs", name or package.rsplit("/", 1)[-1])
    if not os.path.exists(path):
        if version:
            subprocess.run(["nice", "go", "get", f"{package}@{version}"], cwd=go_folder(), env=go_environment(), check=True)
        subprocess.run(["nice", "go", "build", "-trimpath", "-ldflags", "-s -w", "-o", path, package], cwd=go_folder(), env=go_environment(),
                       check=True)
    return read(path)


def c_program(source):
    path = os.path.join(FOLDER, "programs", os.path.basename(source).removesuffix(".c"))
    os.makedirs(os.path.dirname(path), exist_ok=True)
    subprocess.run(["gcc", "-Os", "-static", "-DVERSION=made-here", "-o", path, source], check=True)
    subprocess.run(["strip", path], check=True)
    return read(path)


# --- what the images are made of ---

def base(**more):
    """A shell and the usual commands, as links to one program, under the usual folders."""
    names = subprocess.run([oci.BUSYBOX, "--list"], capture_output=True, text=True, check=True).stdout.split()
    files = {"bin/busybox": (read(oci.BUSYBOX), 0o755), "etc/passwd": (USERS, 0o644), "etc/group": (GROUPS, 0o644),
             "etc/nsswitch.conf": (b"hosts: files dns\n", 0o644), "tmp/.keep": (b"", 0o644), "root/.keep": (b"", 0o644),
             "home/.keep": (b"", 0o644), "var/run/.keep": (b"", 0o644), "usr/bin/env": "../../bin/busybox",
             "usr/local/bin/.keep": (b"", 0o644)}
    files.update({f"bin/{name}": "busybox" for name in names if name != "busybox"})
    files.update(more)
    return files


def without(files, *names):
    """What packages bring in place of the links."""
    return {name: what for name, what in files.items() if name not in names}


# The shell of busybox runs its own commands before those of the path, so images with others' commands have another one.
SHELL = "dash"
TOOLS = ("libc-bin", "curl", "bind9-dnsutils", "netcat-openbsd", "iproute2", "iperf", "bash", SHELL)
OF_PACKAGES = ("bin/sh", "bin/ip", "bin/nslookup", "bin/bash")


def agnhost_files():
    porter = lambda name: (read(module_file("test", "images", "agnhost", "porter", name)), 0o644)
    users = USERS + b"user-defined-in-image:x:1000:1000::/home/user-defined-in-image:/bin/sh\n"
    groups = GROUPS + b"user-defined-in-image:x:1000:\ngroup-defined-in-image:x:50000:user-defined-in-image\n"
    return without(base(**{"agnhost": (go_program("k8s.io/kubernetes/test/images/agnhost"), 0o755), "agnhost-2": "agnhost",
                           "bin/nc": "nc.openbsd",
                           "uploads/.keep": (b"", 0o644), "localhost.crt": porter("localhost.crt"), "localhost.key": porter("localhost.key"),
                           "etc/passwd": (users, 0o644), "etc/group": (groups, 0o644)}), *OF_PACKAGES)


def agnhost():
    return agnhost_files(), {"Env": [PATH], "Entrypoint": ["/agnhost"], "Cmd": ["pause"], "ExposedPorts": {"80/tcp": {}, "8080/tcp": {}}}, TOOLS


def pet(name):
    def make():
        files = agnhost_files()
        for file in (name + ".jpg", "data.json"):
            files[file] = (read(module_file("test", "images", name, "html", file)), 0o644)
        return files, {"Env": [PATH], "Entrypoint": ["/agnhost"], "Cmd": ["test-webserver"], "ExposedPorts": {"80/tcp": {}}}, TOOLS
    return make


# Busybox' own shell hands on no variables whose names have dots or dashes, which pods may have. Bash does, and words errors
# otherwise: so it stands in only where there are such names.
SHELL_OF_BUSYBOX = """
#include <ctype.h>
#include <unistd.h>
int main(int argc, char** argv, char** envp) {
  for (; *envp; ++envp) {
    const char* at = *envp;
    while (*at == '_' || isalnum((unsigned char)*at)) ++at;
    if (at == *envp || isdigit((unsigned char)**envp) || *at != '=') return execv("/bin/bash-static", argv);
  }
  return execv("/bin/busybox", argv);
}
"""


def busybox():
    source = os.path.join(FOLDER, "programs", "busybox-shell.c")
    os.makedirs(os.path.dirname(source), exist_ok=True)
    with open(source, "w") as f:
        f.write(SHELL_OF_BUSYBOX)
    files = without(base(), "bin/sh")
    files["bin/sh"] = (c_program(source), 0o755)
    return files, {"Env": [PATH], "Cmd": ["sh"]}, ("bash-static",)


def sample_apiserver():
    return base(**{"sample-apiserver": (go_program("k8s.io/sample-apiserver"), 0o755)}), {"Env": [PATH], "Entrypoint": ["/sample-apiserver"]}, ()


def etcd():
    return (base(**{"usr/local/bin/etcd": (go_program("go.etcd.io/etcd/server/v3", "etcd", "v3.6.4"), 0o755)}),
            {"Env": [PATH], "Cmd": ["/usr/local/bin/etcd"]}, ())


def nonroot():
    return base(), {"Env": [PATH], "Cmd": ["sh"], "User": "1234"}, ()


def pause():
    return {"pause": (c_program(module_file("build", "pause", "linux", "pause.c")), 0o755)}, {"Env": [PATH], "User": "65535:65535",
                                                                                             "Entrypoint": ["/pause"]}, ()


def httpd():
    files = without(base(), "bin/sh", "bin/httpd")
    files.update({"usr/local/apache2/conf/httpd.conf": (HTTPD_CONF, 0o644), "usr/local/apache2/conf/mime.types": (b"text/html html\n", 0o644),
                    "usr/local/apache2/htdocs/index.html": (WELCOME % b"It works!", 0o644), "usr/local/apache2/logs/.keep": (b"", 0o644),
                    "usr/local/bin/httpd": (b'#!/bin/sh\nexec /usr/sbin/apache2 -f /usr/local/apache2/conf/httpd.conf "$@"\n', 0o755),
                    "usr/local/bin/httpd-foreground": (b"#!/bin/sh\nexec httpd -DFOREGROUND\n", 0o755)})
    return files, {"Env": [PATH], "Cmd": ["httpd-foreground"], "WorkingDir": "/usr/local/apache2", "ExposedPorts": {"80/tcp": {}}}, ("apache2-bin", "coreutils", SHELL)


def nginx():
    files = without(base(), "bin/sh")
    files.update({"etc/nginx/nginx.conf": (NGINX_CONF, 0o644), "usr/share/nginx/html/index.html": (WELCOME % b"Welcome to nginx!", 0o644),
                    "var/log/nginx/.keep": (b"", 0o644), "var/lib/nginx/.keep": (b"", 0o644)})
    return files, {"Env": [PATH], "Cmd": ["nginx", "-g", "daemon off;"], "ExposedPorts": {"80/tcp": {}}}, ("nginx", SHELL)


def nonewprivs():
    return base(**{"usr/local/bin/nnp": (go_program("k8s.io/kubernetes/test/images/nonewprivs"), 0o6755)}), {"Env": [PATH], "Cmd": ["nnp"]}, ()


def dnsutils():
    return without(base(**{"bin/nc": "nc.openbsd"}), *OF_PACKAGES), {"Env": [PATH], "Cmd": ["bash"]}, TOOLS


# What the suite of this version names: its repository and tag, and what makes the image.
TABLE = {
    "pause:3.10.1": pause,
    "e2e-test-images/busybox:1.37.0-1": busybox,
    "e2e-test-images/agnhost:2.56": agnhost,
    "e2e-test-images/httpd:2.4.38-4": httpd,
    "e2e-test-images/httpd:2.4.39-4": httpd,
    "e2e-test-images/nginx:1.14-4": nginx,
    "e2e-test-images/nginx:1.15-4": nginx,
    "e2e-test-images/nautilus:1.7": pet("nautilus"),
    "e2e-test-images/kitten:1.7": pet("kitten"),
    "e2e-test-images/nonewprivs:1.3": nonewprivs,
    "e2e-test-images/nonroot:1.4": nonroot,
    "e2e-test-images/jessie-dnsutils:1.7": dnsutils,
    "e2e-test-images/sample-apiserver:1.29.2": sample_apiserver,
    "etcd:3.6.4-0": etcd,
}


# --- the registry ---

class Registry:
    """Serves what was made, on a loopback. node_pid: in that process's network; None: in our own."""

    def __init__(self, port=PORT, node_pid=None):
        self.port = port
        self.net = ["nsenter", "-t", str(node_pid), "-n"] if node_pid else []
        config = {"version": 0.1, "log": {"level": "error", "accesslog": {"disabled": True}}, "http": {"addr": f"127.0.0.1:{port}"},
                  "storage": {"filesystem": {"rootdirectory": os.path.join(FOLDER, "registry")}}}
        self.config = tempfile.NamedTemporaryFile("w", suffix=".yml")
        json.dump(config, self.config)
        self.config.flush()
        self.process = subprocess.Popen([*self.net, "docker-registry", "serve", self.config.name], stdout=subprocess.DEVNULL,
                                        stderr=subprocess.DEVNULL)
        asked = [*self.net, "curl", "-s", "-o", "/dev/null", "--retry", "100", "--retry-delay", "0", "--retry-max-time", "30", "--retry-connrefused",
                 f"http://127.0.0.1:{port}/v2/"]
        if subprocess.run(asked).returncode != 0 or self.process.poll() is not None:
            self.close()
            raise RuntimeError(f"the registry on port {port} does not answer: is the port taken?")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def close(self):
        self.process.terminate()
        self.process.wait()
        self.config.close()


def repo_list(path, port=PORT):
    """The suite's list of registries (KUBE_TEST_REPO_LIST): ours in place of all but the one that is to be invalid."""
    here = f"127.0.0.1:{port}"
    with open(path, "w") as f:
        for name, registry in (("promoterE2eRegistry", here + "/e2e-test-images"), ("gcRegistry", here), ("gcEtcdRegistry", here),
                               ("sigStorageRegistry", here + "/sig-storage"), ("buildImageRegistry", here + "/build-image"),
                               ("dockerLibraryRegistry", here + "/library"), ("cloudProviderGcpRegistry", here + "/cloud-provider-gcp"),
                               ("gcAuthenticatedRegistry", here + "/authenticated-image-pulling"),
                               ("privateRegistry", here + "/k8s-authenticated-test"), ("invalidRegistry", "invalid.registry.invalid/invalid")):
            f.write(f"{name}: {registry}\n")
    return path


def recipe():
    return hashlib.sha256(read(os.path.abspath(__file__))).hexdigest()[:16]


def make(names=(), port=PORT + 1):
    """Makes those that are not there yet as this file says; the names of all that are there."""
    os.makedirs(os.path.join(FOLDER, "programs"), exist_ok=True)
    done_file = os.path.join(FOLDER, "made.json")
    done = json.loads(read(done_file)) if os.path.exists(done_file) else {}
    wanted = [name for name in TABLE if (not names or name in names) and done.get(name) != recipe()]
    layers = {}
    if wanted:
        with Registry(port):
            for name in wanted:
                files, config, of_packages = TABLE[name]()
                if of_packages and of_packages not in layers:
                    layers[of_packages] = packages(*of_packages)
                with tempfile.TemporaryDirectory(dir=FOLDER) as layout:
                    oci.make_layout(layout, "made", files, config, more_layers=[over(layers[of_packages], files)] if of_packages else [])
                    subprocess.run(["skopeo", "copy", "--quiet", "--dest-tls-verify=false", f"oci:{layout}:made", f"docker://127.0.0.1:{port}/{name}"],
                                   check=True)
                done[name] = recipe()
                with open(done_file, "w") as f:
                    json.dump(done, f, indent=1)
    return sorted(name for name in TABLE if name in done)


def over(layer, files):
    """A layer of packages, less what the files below it settle otherwise (users, configurations)."""
    out = io.BytesIO()
    with tarfile.open(fileobj=io.BytesIO(layer)) as source, tarfile.open(fileobj=out, mode="w") as target:
        for entry in source:
            if entry.name not in files:
                target.addfile(entry, source.extractfile(entry) if entry.isreg() else None)
    return out.getvalue()


if __name__ == "__main__":
    lacking = missing()
    if lacking:
        sys.exit(f"suite_images.py: this machine lacks {lacking}")
    for made in make(sys.argv[1:]):
        print(made)
