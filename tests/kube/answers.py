"""What two API servers answer, made comparable: what each makes up by itself (uids, times, versions, addresses) is left out."""
import base64
import http.client
import json
import re
import ssl
import tempfile

import yaml

JSON, YAML = "application/json", "application/yaml"
PATCHES = {"json": "application/json-patch+json", "merge": "application/merge-patch+json", "strategic": "application/strategic-merge-patch+json",
           "apply": "application/apply-patch+yaml"}
# Fields that a server fills in by itself.
MADE_UP = {"uid", "resourceVersion", "creationTimestamp", "selfLink", "time", "deletionTimestamp"}
CONTROLLERS = {"kube-controller-manager", "lockstep"}
REVISION = "deployment.kubernetes.io/revision"  # a controller's
CLIENTS_FAULT = ("failed to create typed patch object", "does not contain declared merge key")  # 500 there, 400 here
STRICT = ("unknown field", "duplicate field", "already set", "deprecated")  # warnings that are compared: others are advice
ADDRESSES = {"clusterIP", "clusterIPs", "nodePort", "healthCheckNodePort", "continue", "startTime", "lastTransitionTime", "lastUpdateTime"}


class Server:
    """One API server and a caller, by what a kubeconfig says. The connection is kept."""

    def __init__(self, name, config):
        with open(config) as f:
            said = yaml.safe_load(f)
        self.name = name
        cluster, user = said["clusters"][0]["cluster"], said["users"][0]["user"]
        self.host, port = cluster["server"].removeprefix("https://").rsplit(":", 1)
        self.port = int(port)
        self.tls = ssl.create_default_context(cadata=read(cluster, "certificate-authority").decode())
        self.tls.check_hostname = False
        self.token = user.get("token")
        if not self.token:
            with tempfile.NamedTemporaryFile() as pem:
                pem.write(read(user, "client-certificate") + read(user, "client-key"))
                pem.flush()
                self.tls.load_cert_chain(pem.name)
        self.connection = None

    def ask(self, method, path, body=None, kind=JSON, accept=JSON, headers=None):
        """(status, parsed body or text, warnings)"""
        if body is not None and not isinstance(body, (str, bytes)):
            body = json.dumps(body)
        said = {"Accept": accept, "Content-Type": kind, "User-Agent": "differential/1", **({"Authorization": "Bearer " + self.token} if self.token else {}), **(headers or {})}
        for again in (True, False):
            if self.connection is None:
                self.connection = http.client.HTTPSConnection(self.host, self.port, context=self.tls, timeout=60)
            try:
                self.connection.request(method, path, body, said)
                reply = self.connection.getresponse()
                text = reply.read()
                break
            except (http.client.HTTPException, ConnectionError, ssl.SSLError):
                self.connection = None
                if not again:
                    raise
        warnings = sorted(one for said in reply.headers.get_all("Warning") or [] for one in re.findall(r'299 [^ ]+ "((?:[^"\\\\]|\\\\.)*)"', said))
        try:
            return reply.status, json.loads(text), warnings
        except ValueError:
            return reply.status, text.decode(errors="replace"), warnings


def read(said, key):
    if key + "-data" in said:
        return base64.b64decode(said[key + "-data"])
    with open(said[key], "rb") as f:
        return f.read()


def without_made_up(value, parent=""):
    """The object without what each server makes up by itself."""
    if parent == "managedFields" and isinstance(value, list):  # their order is that of their times, which are left out
        return {" ".join(str(one.get(key, "")) for key in ("manager", "operation", "apiVersion", "subresource")): without_made_up(one.get("fieldsV1"))
                for one in value if one.get("manager") not in CONTROLLERS}
    if isinstance(value, list):
        return [without_made_up(one, parent) for one in value]
    if not isinstance(value, dict):
        return value
    out = {}
    for key, one in value.items():
        if key in MADE_UP or key.removeprefix("f:") == REVISION or key.removeprefix("f:") in ADDRESSES:
            continue
        if key == "status" and parent in ("", "items"):
            one = {k: v for k, v in one.items() if k in ("loadBalancer",)} if isinstance(one, dict) else one
            if not one:
                continue
        made = without_made_up(one, key)
        if key == "f:annotations":  # whose the map is depends on whether a controller has put a revision there
            made.pop(".", None)
        if not (key in ("annotations", "f:annotations", "f:metadata") and one and made == {}):
            out[key] = made
    return out


def outcome(answer):
    """What is compared of an answer: code, and reason with causes of a refusal or the object."""
    code, body, warnings = answer
    if code in (400, 500) and isinstance(body, dict) and any(words in str(body.get("message")) for words in CLIENTS_FAULT):
        return {"refused": "a patch that does not fit its schema"}, body["message"]
    if isinstance(body, dict) and body.get("kind") == "Status" and body.get("status") == "Failure":
        details = body.get("details") or {}
        causes = sorted({(one.get("reason", ""), one.get("field", "")) for one in details.get("causes") or []})
        return {"code": code, "reason": body.get("reason"), "kind": singular(details.get("kind")), "name": details.get("name"), "causes": causes}, body.get("message")
    made = without_made_up(body)
    if isinstance(made, dict) and made.get("kind") == "NetworkPolicy":  # counted there also when a list of nothing comes or goes
        made["metadata"].pop("generation", None)
    return {"code": code, "object": made, "warnings": [one for one in warnings if any(word in one for word in STRICT)]}, None


def singular(kind):
    """Which of its names a kind is called by in a refusal, plural or not, is no difference."""
    return kind.lower().removesuffix("s") if kind else None


def differences(ours, real, path=""):
    """Lines that name where two values differ. Of causes one field must be common: who corrects that one is told the next."""
    if path == ".causes" and ours and real and {one[1] for one in ours} & {one[1] for one in real}:
        return []
    if type(ours) is not type(real):
        return [f"{path or '.'}: ours {short(ours)}, real {short(real)}"]
    if isinstance(ours, dict):
        out = []
        for key in sorted({*ours, *real}):
            if key not in ours:
                out.append(f"{path}.{key}: ours lacks {short(real[key])}")
            elif key not in real:
                out.append(f"{path}.{key}: ours alone has {short(ours[key])}")
            else:
                out += differences(ours[key], real[key], f"{path}.{key}")
        return out
    if isinstance(ours, list) and len(ours) == len(real):
        return [line for i, (a, b) in enumerate(zip(ours, real)) for line in differences(a, b, f"{path}[{i}]")]
    return [] if ours == real else [f"{path or '.'}: ours {short(ours)}, real {short(real)}"]


def short(value):
    text = json.dumps(value)
    return text if len(text) < 400 else text[:400] + "…"
