"""The images that Kubernetes' suite runs hold what the suite asks of them, where they are made (tests/kube/suite_images.py)."""
import os
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "kube"))
import suite_images  # noqa: E402

# What is run in the image, and what it says.
ASKED = {
    "pause:3.10.1": [(["/pause", "-v"], "pause.c made-here")],
    "e2e-test-images/busybox:1.37.0-1": [
        (["sh", "-c", "echo $((6*7)) && ls /bin/wget"], "42\n/bin/wget"), (["env", "-i", "PATH=/bin", "a-b.c=kept", "/bin/sh", "-c", "env"], "a-b.c=kept")],
    "e2e-test-images/agnhost:2.56": [
        (["/agnhost-2", "--version"], "app version"), (["curl", "--version"], "curl 7"), (["dig", "-v"], "DiG 9"), (["ss", "-V"], "ss utility"),
        (["ip", "-V"], "ip utility"), (["sh", "-c", "nc -h; true"], "OpenBSD netcat"), (["bash", "-c", "echo $BASH_VERSION"], "5."),
        (["id", "user-defined-in-image"], "50000(group-defined-in-image)")],
    "e2e-test-images/httpd:2.4.38-4": [(["sh", "-c", "httpd -t"], "Syntax OK"), (["cat", "/usr/local/apache2/htdocs/index.html"], "It works!")],
    "e2e-test-images/nginx:1.14-4": [(["sh", "-c", "nginx -t"], "test is successful"), (["cat", "/usr/share/nginx/html/index.html"], "Welcome to nginx!")],
    "e2e-test-images/nautilus:1.7": [(["cat", "/data.json"], "nautilus.jpg")],
    "e2e-test-images/kitten:1.7": [(["cat", "/data.json"], "kitten.jpg")],
    "e2e-test-images/nonewprivs:1.3": [(["nnp"], "Effective uid: 0"), (["stat", "-c", "%a", "/usr/local/bin/nnp"], "6755")],
    "e2e-test-images/jessie-dnsutils:1.7": [(["dig", "-v"], "DiG 9"), (["nslookup", "-version"], "nslookup 9")],
}


@unittest.skipIf(os.geteuid() != 0, "other roots need root")
class KubeImages(unittest.TestCase):
    def test_they_hold_what_is_asked(self):
        if not os.path.exists(os.path.join(suite_images.FOLDER, "made.json")):
            self.skipTest("the images are not made here: python3 tests/kube/suite_images.py")
        with tempfile.TemporaryDirectory() as folder, suite_images.Registry(suite_images.PORT + 2):
            for name, asked in ASKED.items():
                layout, bundle = os.path.join(folder, "layout"), os.path.join(folder, name.replace("/", "-"))
                subprocess.run(["skopeo", "copy", "--quiet", "--src-tls-verify=false", f"docker://127.0.0.1:{suite_images.PORT + 2}/{name}",
                                f"oci:{layout}:{name.split(':')[1]}"], check=True)
                subprocess.run(["umoci", "unpack", "--image", f"{layout}:{name.split(':')[1]}", bundle], check=True, capture_output=True)
                for argv, answer in asked:
                    with self.subTest(image=name, argv=argv):
                        inside = ["unshare", "--mount", "--pid", "--fork", "sh", "-ec",
                                  'cd "$1"; mkdir -p proc dev; mount -t proc proc proc; mount --rbind /dev dev; shift; exec env "$ALL" chroot . "$@"', "sh",
                                  os.path.join(bundle, "rootfs"), *argv]
                        done = subprocess.run(inside, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env={**os.environ, "ALL": suite_images.PATH})
                        self.assertIn(answer, done.stdout)

    def test_every_image_of_the_table_has_a_source(self):
        import suite
        names = {word for row in suite.rows() for word in row["images"].split() if word not in ("-", "?")}
        of_ours = {"Pause": "pause", "BusyBox": "busybox", "Agnhost": "agnhost", "Httpd": "httpd", "HttpdNew": "httpd", "Nginx": "nginx", "Nautilus": "nautilus",
                   "Nonewprivs": "nonewprivs", "JessieDnsutils": "jessie-dnsutils"}
        made = {name.split("/")[-1].split(":")[0] for name in suite_images.TABLE}
        left = {name for name in names if of_ours.get(name) not in made}
        self.assertEqual(left, {"APIServer", "AuthenticatedAlpine", "Etcd", "InvalidRegistryImage", "VolumeNFSServer"})


if __name__ == "__main__":
    unittest.main()
