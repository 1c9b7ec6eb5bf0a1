"""Kubernetes' API answers in protobuf whoever asks for it: objects, lists, watches, refusals. Custom resources stay JSON."""
import os
import struct
import unittest

from cluster import Cluster, eventually
from kube_test import CORE, config_map, root_of

PROTOBUF = "application/vnd.kubernetes.protobuf"
BOTH = PROTOBUF + ",application/json"


def varint(data, at):
    value = shift = 0
    while True:
        byte = data[at]
        value |= (byte & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if byte < 0x80:
            return value, at


def fields(data):
    """A message as a list of (number, value): numbers, or bytes."""
    out, at = [], 0
    while at < len(data):
        tag, at = varint(data, at)
        if tag & 7 == 0:
            value, at = varint(data, at)
        else:
            assert tag & 7 == 2, tag
            length, at = varint(data, at)
            value, at = data[at:at + length], at + length
        out.append((tag >> 3, value))
    return out


def first(data, *path):
    for number in path:
        data = next(value for found, value in fields(data) if found == number)
    return data


def unpacked(body):
    """(apiVersion, kind, message) of a body with its envelope."""
    assert body[:4] == b"k8s\0", body[:20]
    envelope = body[4:]
    return first(envelope, 1, 1).decode(), first(envelope, 1, 2).decode(), first(envelope, 2)


@unittest.skipIf(os.geteuid() != 0, "virtual nodes need root")
class KubeProtobuf(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.c = Cluster(nodes=1, gpus="")
        cls.c.up()
        cls.root = root_of(cls.c)
        for n in range(120):
            cls.root.must("POST", CORE + "/default/configmaps", config_map(f"map-{n:03}", a=str(n)))

    @classmethod
    def tearDownClass(cls):
        cls.c.down()

    def read(self, path, accept=BOTH, method="GET", body=None):
        reply = self.root.open(method, path, body, accept=accept)
        return reply.status, reply.headers["Content-Type"], reply.read()

    def test_one_object(self):
        status, kind, body = self.read(CORE + "/default/configmaps/map-007")
        self.assertEqual((status, kind), (200, PROTOBUF))
        version, kind, message = unpacked(body)
        self.assertEqual((version, kind), ("v1", "ConfigMap"))
        self.assertEqual(first(message, 1, 1), b"map-007")  # metadata.name
        self.assertEqual(first(message, 2, 2), b"7")        # the value in data

    def test_made_and_removed(self):
        status, kind, body = self.read(CORE + "/default/configmaps", method="POST", body=config_map("made", a="b"))
        self.assertEqual((status, kind, unpacked(body)[1]), (201, PROTOBUF, "ConfigMap"))
        status, kind, body = self.read(CORE + "/default/configmaps/made", method="DELETE")
        version, kind, message = unpacked(body)
        self.assertEqual((status, version, kind, first(message, 2)), (200, "v1", "Status", b"Success"))

    def test_a_list_and_its_pages(self):
        status, kind, body = self.read(CORE + "/default/configmaps")
        version, name, message = unpacked(body)
        self.assertEqual((status, kind, version, name), (200, PROTOBUF, "v1", "ConfigMapList"))
        names = [first(item, 1, 1).decode() for number, item in fields(message) if number == 2]
        self.assertEqual([n for n in names if n.startswith("map-")], [f"map-{n:03}" for n in range(120)])
        _, _, body = self.read(CORE + "/default/configmaps?limit=50")
        message = unpacked(body)[2]
        self.assertEqual(len([1 for number, _ in fields(message) if number == 2]), 50)
        self.assertNotEqual(first(message, 1, 3), b"")  # metadata.continue

    def test_a_refusal(self):
        status, kind, body = self.read(CORE + "/default/configmaps/nowhere")
        version, name, message = unpacked(body)
        self.assertEqual((status, kind, name), (404, PROTOBUF, "Status"))
        self.assertEqual(first(message, 3), b'configmaps "nowhere" not found')

    def test_a_watch_tells_in_frames(self):
        reply = self.root.open("GET", CORE + "/default/configmaps?watch=1&fieldSelector=metadata.name=map-003", accept=BOTH)
        self.assertEqual(reply.headers["Content-Type"], PROTOBUF + ";stream=watch")
        def event():
            (length,) = struct.unpack(">I", reply.read(4))
            frame = reply.read(length)
            return first(frame, 1).decode(), unpacked(first(frame, 2, 1))
        what, (_, kind, message) = event()
        self.assertEqual((what, kind, first(message, 1, 1)), ("ADDED", "ConfigMap", b"map-003"))
        self.root.must("PATCH", CORE + "/default/configmaps/map-003", {"data": {"a": "new"}}, kind="application/merge-patch+json")
        what, (_, _, message) = event()
        self.assertEqual((what, first(message, 2, 2)), ("MODIFIED", b"new"))

    def test_tables_and_custom_resources_are_json(self):
        table = "application/json;as=Table;v=v1;g=meta.k8s.io," + BOTH
        self.assertEqual(self.read(CORE + "/default/configmaps", accept=table)[:2], (200, "application/json"))
        definition = {"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": {"name": "widgets.example.com"},
                      "spec": {"group": "example.com", "scope": "Namespaced", "names": {"plural": "widgets", "singular": "widget", "kind": "Widget", "listKind": "WidgetList"},
                               "versions": [{"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": {"type": "object"}}}]}}
        self.root.must("POST", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", definition)
        path = "/apis/example.com/v1/namespaces/default/widgets"
        eventually(lambda: self.root.ask("GET", path)[0] == 200, what="widgets are served")
        self.assertEqual(self.read(path)[:2], (200, "application/json"))
        self.assertEqual(self.read(path, accept=PROTOBUF)[0], 406)


if __name__ == "__main__":
    unittest.main()
