"""Malformed requests by the thousand: refused, never fatal, and nothing is left behind.

The requests are made from a seed, so that a failure can be played again: set
PYKCP_BAD_INPUT_SEED to what the failure names.
"""

from __future__ import annotations

import json
import os
import pathlib
import random
import socket
import ssl
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any
from urllib.parse import quote

import pytest

from pykcp.testing.client import APPLY, JSON_PATCH, MERGE, STRATEGIC, Reply, TestClient
from pykcp.testing.kubeconfig import read_access
from pykcp.testing.server import ServerProcess

SEED = int(os.environ.get("PYKCP_BAD_INPUT_SEED", "20260101"))
ORDINARY, MANY = 2500, 100_000
THREADS = 4

UPSTREAM_500 = (
    "resourceVersion should not be set on objects to be created",
    "strconv.ParseUint: parsing",
    "failed to create typed patch object",
    # strategic merge patches that do not fit the list or object they are for
    "list element types are not identical",
    "does not contain declared merge key",
    "cannot merge lists without merge key",
    "merging an object in json but data type is not struct",
    "merging lists cannot yet be specified in the patch",
    "expected slice or array type, but got",
    "lists of lists are not supported",
    "unexpected slice of slice",
    "unknown patch type",
    "is not a map",
    "but received a",
    "The order in patch list",
    "no elements in any of the given slices",
)
"""Where kube-apiserver itself answers 500 to a client's mistake."""
UPSTREAM_504 = "Too large resource version"
"""A resource version from the future may become true: clients are told to try again."""

NS = "/api/v1/namespaces/default"
WORDS: tuple[Any, ...] = (
    "", "x", "X_Y", "..", ".", "/", "a/b", "%", "%2e%2e", "\0", "\x1f", "ü", "𝕏", "\u202e",
    "a" * 64, "a" * 300, "0", "-1", "1e9", "²", "9" * 30, "true", "null", "kcp.io/cluster",
    "{}", "[]", "'", '"', "\\", "\ud800".encode("utf-8", "surrogatepass").decode("latin-1"),
)  # fmt: skip
VALUES: tuple[Any, ...] = (
    None, True, False, 0, -1, 1.5, 1e308, 10**18, 10**30, "", "x", "\0", "ü" * 10, "a" * 5000,
    [], [None], [[]], [{}], {}, {"": ""}, {"a": None}, {"a": {"b": [1, "2", {}]}},
)  # fmt: skip
TYPES = (
    "application/json", "application/yaml", "application/vnd.kubernetes.protobuf", MERGE, JSON_PATCH,
    STRATEGIC, APPLY, "text/plain", "application/cbor", "application/json; charset=latin-9", ";", "",
)  # fmt: skip
ACCEPTS = (
    "application/json", "application/yaml", "application/vnd.kubernetes.protobuf", "text/html", "*/*", "",
    "application/json;as=Table;g=meta.k8s.io;v=v1", "application/json;as=Nothing;g=meta.k8s.io;v=v1",
    "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1", "a/b;q=x,c;;=,",
    "application/json;q=0", ",,,", "application/json;as=Table;v=v9;g=meta.k8s.io, application/json",
)  # fmt: skip
PARAMETERS = (
    "limit", "continue", "resourceVersion", "resourceVersionMatch", "labelSelector", "fieldSelector",
    "watch", "timeoutSeconds", "timeout", "sendInitialEvents", "allowWatchBookmarks", "dryRun",
    "fieldManager", "fieldValidation", "force", "gracePeriodSeconds", "propagationPolicy",
    "orphanDependents", "pretty", "includeObject", "nosuch",
)  # fmt: skip
SELECTORS = (
    "a=b", "a in (b", "a notin ()", "=", "!", "!!a", "a=b,", "a==b==c", "(", "a in (b,c),!d", "a>x",
    "metadata.name=x", "metadata.nosuch=y", "a" * 400, "ü=ü", "a=\0", "spec.x!=\\,",
)  # fmt: skip


class Maker:
    """Requests that are wrong in some way, most of them in several."""

    def __init__(self, seed: str) -> None:
        self.pick = random.Random(seed)

    def one(self) -> tuple[str, str, bytes | None, dict[str, str]]:
        """Method, path with its query, body and headers."""
        pick = self.pick
        method = pick.choice(("GET", "POST", "POST", "PUT", "PATCH", "PATCH", "DELETE"))
        if pick.random() < 0.03:
            method = pick.choice(_ODD_METHODS)
        collection, obj = pick.choice(_PLACES)
        path = self._path(method, collection)
        if method == "DELETE" and path.rstrip("/") == _CLUSTERS:
            path = f"{_CLUSTERS}/n0"  # an administrator may: the rest would meet no cluster at all
        path += self._query(watches=method != "GET")
        headers = {
            "Accept": pick.choice(ACCEPTS) if pick.random() < 0.2 else "application/json",
            "User-Agent": pick.choice(("", "a/b", "\xff" * 9)),
        }
        body = None
        if method not in {"GET", "HEAD"} and pick.random() < 0.95:
            content_type = self._content_type(method)
            headers["Content-Type"] = content_type
            body = self._body(content_type, obj)
        return method, path, body, headers

    def _content_type(self, method: str) -> str:
        pick = self.pick
        if pick.random() < 0.1:
            return pick.choice(TYPES)
        if method == "PATCH":
            return pick.choice((MERGE, JSON_PATCH, STRATEGIC, APPLY))
        return pick.choice(("application/json",) * 4 + TYPES[:3])

    def _path(self, method: str, collection: str) -> str:
        pick = self.pick
        path = collection
        if (pick.random() < 0.9) == (method != "POST"):
            name = str(pick.choice(WORDS)) if pick.random() < 0.3 else f"n{pick.randint(0, 20)}"
            path += "/" + quote(name, safe="/")
        if pick.random() < 0.1:
            path += "/" + pick.choice(
                ("status", "token", "scale", "finalize", "approval", "nosuch", "")
            )
        if pick.random() < 0.03:
            path = pick.choice(
                (
                    "/%zz",
                    "//",
                    "/api//v1",
                    "/apis/a/b/c/d/e/f/g",
                    "/openapi/v3/x",
                    "/metrics/x",
                    "/api/v1/nosuch",
                )
            )
        return path

    def _query(self, *, watches: bool) -> str:
        pick = self.pick
        if pick.random() < 0.6:
            return ""
        names = [n for n in PARAMETERS if watches or n not in {"watch", "sendInitialEvents"}]
        pairs = []
        for _ in range(pick.randint(1, 3)):
            value = pick.choice(
                (*WORDS, *SELECTORS, "All", "Strict", "Warn", "Orphan", "Exact", "1")
            )
            text = quote(str(value), safe="") if pick.random() < 0.9 else "%g1"
            pairs.append(f"{pick.choice(names)}={text}")
        return "?" + "&".join(pairs)

    def _body(self, content_type: str, obj: Any) -> bytes:
        pick = self.pick
        kind = pick.random()
        if kind < 0.15:
            return pick.randbytes(pick.choice((0, 1, 7, 300)))
        if kind < 0.22:
            return pick.choice(_HAND_MADE)
        if content_type.endswith("protobuf"):
            return b"k8s\0" + pick.randbytes(pick.randint(0, 60))
        if content_type == JSON_PATCH and kind < 0.8:
            return _json([self._operation() for _ in range(pick.randint(0, 3))])
        text = _json(self._object(obj))
        if kind > 0.9:  # torn off, or with something behind it
            return text[: pick.randint(0, len(text))] if pick.random() < 0.5 else text + b"}]\xff"
        return text

    def _operation(self) -> Any:
        pick = self.pick
        operation = {
            "op": pick.choice(("add", "remove", "replace", "move", "copy", "test", "nosuch", None)),
            "path": pick.choice(
                ("/metadata/labels/a", "/data", "", "/", "/metadata/-", "nosuch", "/~2", 7)
            ),
            "from": pick.choice(("/data", "/metadata", "/nosuch", None)),
            "value": pick.choice(VALUES),
        }
        for name in pick.sample(list(operation), pick.randint(0, 2)):
            del operation[name]
        return operation

    def _object(self, template: Any) -> Any:
        """An object with a few of its values replaced by others of any type."""
        pick = self.pick
        obj = _copy(template)
        obj["metadata"].setdefault("name", f"n{pick.randint(0, 20)}")
        if pick.random() < 0.1:
            obj["metadata"]["name"] = pick.choice(WORDS)
        for _ in range(pick.choice((0, 1, 1, 2, 4))):
            holder = pick.choice(_holders(obj))
            if isinstance(holder, list):
                holder[:] = [_copy(pick.choice(VALUES)) for _ in range(pick.randint(0, 3))]
                continue
            name = pick.choice([*holder, *(str(w) for w in WORDS), *_METADATA])
            holder[name] = _copy(pick.choice(VALUES))
        return obj


_ODD_METHODS = ("HEAD", "OPTIONS", "TRACE", "PROPFIND", "LINK")
_METADATA = (
    "labels", "annotations", "finalizers", "ownerReferences", "managedFields", "resourceVersion", "uid",
    "namespace", "generateName", "creationTimestamp", "deletionTimestamp", "generation",
)  # fmt: skip
_RBAC = "/apis/rbac.authorization.k8s.io/v1"
_CRD: dict[str, Any] = {
    "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
    "metadata": {"name": "things.bad.example.com"},
    "spec": {
        "group": "bad.example.com", "scope": "Namespaced",
        "names": {"plural": "things", "kind": "Thing"},
        "versions": [{
            "name": "v1", "served": True, "storage": True, "subresources": {"status": {}},
            "schema": {"openAPIV3Schema": {
                "type": "object",
                "properties": {"spec": {
                    "type": "object",
                    "properties": {
                        "n": {"type": "integer", "default": 1},
                        "list": {
                            "type": "array", "x-kubernetes-list-type": "map",
                            "x-kubernetes-list-map-keys": ["k"],
                            "items": {"type": "object", "required": ["k"], "properties": {"k": {"type": "string"}}},
                        },
                    },
                    "x-kubernetes-validations": [{"rule": "self.n > 0"}],
                }},
            }},
            "additionalPrinterColumns": [{"name": "N", "type": "integer", "jsonPath": ".spec.n"}],
        }],
    },
}  # fmt: skip
_EVENT_TIME = "2026-01-01T00:00:00.000000Z"
_CLUSTERS = "/apis/core.kcp.io/v1alpha1/logicalclusters"
_PLACES: tuple[tuple[str, dict[str, Any]], ...] = (
    (f"{NS}/configmaps", {"metadata": {"labels": {"a": "b"}}, "data": {"k": "v"}, "binaryData": {"b": "dg=="}}),
    (f"{NS}/secrets", {"kind": "Secret", "metadata": {}, "data": {"k": "dg=="}, "type": "Opaque"}),
    (f"{NS}/serviceaccounts", {"metadata": {"annotations": {}}, "secrets": [{"name": "a"}]}),
    (f"{NS}/serviceaccounts/default/token", {"metadata": {}, "spec": {"audiences": ["a"], "expirationSeconds": 600}}),
    (f"{NS}/resourcequotas", {"metadata": {}, "spec": {"hard": {"pods": "1"}, "scopes": ["BestEffort"]}}),
    (
        f"{NS}/events",
        {"metadata": {}, "involvedObject": {"namespace": "default"}, "reason": "r", "count": 1, "type": "Normal"},
    ),
    ("/api/v1/namespaces", {"metadata": {}, "spec": {"finalizers": ["kubernetes"]}}),
    (
        "/apis/coordination.k8s.io/v1/namespaces/default/leases",
        {"metadata": {}, "spec": {"leaseDurationSeconds": 5, "renewTime": _EVENT_TIME, "holderIdentity": "h"}},
    ),
    (
        "/apis/events.k8s.io/v1/namespaces/default/events",
        {
            "metadata": {}, "eventTime": _EVENT_TIME, "reportingController": "x.y/z", "reportingInstance": "y",
            "action": "a", "reason": "r", "type": "Normal", "regarding": {"namespace": "default"},
        },
    ),
    (
        f"{_RBAC}/clusterroles",
        {
            "metadata": {}, "rules": [{"apiGroups": [""], "resources": ["*"], "verbs": ["get"]}],
            "aggregationRule": {
                "clusterRoleSelectors": [{"matchExpressions": [{"key": "a", "operator": "In", "values": ["x"]}]}]
            },
        },
    ),
    (
        f"{_RBAC}/namespaces/default/rolebindings",
        {
            "metadata": {}, "subjects": [{"kind": "User", "apiGroup": "rbac.authorization.k8s.io", "name": "a"}],
            "roleRef": {"kind": "ClusterRole", "name": "view", "apiGroup": "rbac.authorization.k8s.io"},
        },
    ),
    ("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", _CRD),
    (
        "/apis/bad.example.com/v1/namespaces/default/things",
        {
            "apiVersion": "bad.example.com/v1", "kind": "Thing", "metadata": {},
            "spec": {"n": 2, "list": [{"k": "a"}, {"k": "b"}]}, "status": {},
        },
    ),
    (
        "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies",
        {
            "metadata": {}, "spec": {
                "matchConstraints": {"resourceRules": [
                    {"apiGroups": ["x"], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["y"]},
                ]},
                "validations": [{"expression": "object.x > 1", "message": "m"}],
            },
        },
    ),
    (
        "/apis/certificates.k8s.io/v1/certificatesigningrequests",
        {"metadata": {}, "spec": {"request": "eA==", "signerName": "a.b/c", "usages": ["client auth"]}},
    ),
    (
        "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews",
        {"metadata": {}, "spec": {"resourceAttributes": {"verb": "get", "resource": "pods"}}},
    ),
    (
        "/apis/authorization.k8s.io/v1/subjectaccessreviews",
        {"metadata": {}, "spec": {"user": "u", "groups": ["g"], "nonResourceAttributes": {"path": "/", "verb": "get"}}},
    ),
    ("/apis/authentication.k8s.io/v1/tokenreviews", {"metadata": {}, "spec": {"token": "t", "audiences": []}}),
    (
        _CLUSTERS,
        {
            "apiVersion": "core.kcp.io/v1alpha1", "kind": "LogicalCluster", "metadata": {},
            "spec": {"initializers": ["root:x"], "owner": {"name": "a", "cluster": "b", "uid": "c"}},
        },
    ),
)  # fmt: skip
_HAND_MADE = (
    b"", b"{", b"null", b"[]", b"7", b'"x"', b"{}" * 3, b'{"metadata":{"name":"d","name":"e"}}',
    b'{"kind":"ConfigMap","apiVersion":"v1","metadata":{"name":"u"},"nosuch":1,"data":{"a":"1","a":"2"}}',
    b"[" * 20_000, b'{"a":' * 20_000, b"[" * 900 + b"]" * 900, b"- " * 5000, b"a: &x [*x]\n",
    b"a: &a [x,x]\nb: &b [*a,*a]\nc: [*b,*b]\n", b"!!python/object:os.system {}", b"--- a\n--- b\n",
    b"? [a]\n: b\n", b"\xef\xbb\xbf{}", b"\xff\xfe{\0}\0", b"a:\n\t- b", b"{" + b'"k":1,' * 9999 + b'"z":1}',
    b'{"metadata":{"name":"big"},"data":{"a":"' + b"x" * (3 << 20) + b'"}}',
)  # fmt: skip


def _json(value: Any) -> bytes:
    return json.dumps(value).encode()


def _copy(value: Any) -> Any:
    return json.loads(json.dumps(value))


def _holders(value: Any) -> list[Any]:
    """Every object and list in a value, the value itself first."""
    found = [value]
    for inner in value.values() if isinstance(value, dict) else value:
        if isinstance(inner, (dict, list)):
            found += _holders(inner)
    return found


def send(
    client: TestClient, method: str, path: str, body: bytes | None, headers: dict[str, str]
) -> Reply:
    for attempt in (0, 1):
        try:
            return client.request(
                method, path, body, headers.get("Content-Type", ""), headers["Accept"], headers
            )
        except OSError:  # the server may close a connection whose body it did not read
            client.drop()
            if attempt:
                raise AssertionError(f"{method} {path} {headers} {body!r:.300}") from None
    raise AssertionError


def complaint(reply: Reply) -> str:
    """What is wrong with an answer; "" if it is one that kube-apiserver could give."""
    text = reply.body.decode("utf-8", "replace")
    if reply.status < 500:
        return ""
    is_status = "InternalError" not in text  # defects have that reason, upstream's refusals none
    if reply.status == 500 and is_status and any(words in text for words in UPSTREAM_500):
        return ""
    if reply.status == 504 and UPSTREAM_504 in text:
        return ""
    return f"{reply.status} {text[:300]}"


def run(client: TestClient, count: int, name: str) -> Counter[int]:
    maker = Maker(f"{SEED}/{name}")
    seen: Counter[int] = Counter()
    for number in range(count):
        request = maker.one()
        reply = send(client, *request)
        method, path, body, headers = request
        if method == "HEAD" and reply.status >= 500:  # the text is only told to a GET
            reply = send(client, "GET", path, body, headers)
        wrong = complaint(reply)
        assert not wrong, (
            f"seed {SEED}/{name}/{number}: {method} {path} {headers} {body!r:.600}: {wrong}"
        )
        seen[reply.status] += 1
    return seen


def resident_kilobytes(pid: int) -> int:
    status = pathlib.Path(f"/proc/{pid}/status").read_text()
    return int(status.split("VmRSS:")[1].split()[0])


def storm(shard: ServerProcess, cluster: TestClient, count: int) -> Counter[int]:
    with ThreadPoolExecutor(THREADS) as pool:
        parts = [
            pool.submit(run, cluster, count // THREADS, f"{count}-{n}") for n in range(THREADS)
        ]
    seen: Counter[int] = Counter()
    for part in parts:
        seen += part.result()
    log = shard.log()
    assert "Traceback" not in log, log[log.index("Traceback") - 300 :][:3000]
    return seen


def check_alive(cluster: TestClient) -> None:
    name = f"alive{random.getrandbits(32)}"
    cluster.drop()  # this thread's connection: the server closes it after 90 s without a request
    made = cluster.post(f"{NS}/configmaps", {"metadata": {"name": name}, "data": {"a": "b"}})
    assert made.status == 201, made
    assert cluster.get(f"{NS}/configmaps/{name}").json["data"] == {"a": "b"}


def test_malformed_requests_are_refused(shard: ServerProcess, cluster: TestClient) -> None:
    """Thousands of malformed requests over several connections: 4xx answers, no traceback, no 5xx
    but those that kube-apiserver gives, and a server that goes on."""
    crds = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
    assert cluster.post(crds, _CRD).status == 201
    seen = storm(shard, cluster, ORDINARY)
    check_alive(cluster)
    refused = sum(n for status, n in seen.items() if status >= 400)
    assert refused > ORDINARY / 2, seen
    assert {400, 404, 405, 406, 409, 415, 422} <= set(seen), seen


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_memory_stays_bounded(shard: ServerProcess, cluster: TestClient) -> None:
    """A hundred thousand malformed requests do not make the process grow without end."""
    storm(shard, cluster, MANY // 5)
    check_alive(cluster)
    before = resident_kilobytes(shard.pid)
    storm(shard, cluster, MANY)
    grown = resident_kilobytes(shard.pid) - before
    assert grown < 100_000, f"grown by {grown} KiB"
    check_alive(cluster)


def raw(shard: ServerProcess, data: bytes) -> bytes:
    """What the server answers to bytes that are hardly HTTP."""
    access = read_access(shard.kubeconfig, "shard-base")
    context = ssl.create_default_context(cadata=access.ca)
    with (
        socket.create_connection((access.host, access.port), timeout=10) as plain,
        context.wrap_socket(plain, server_hostname=access.host) as secure,
    ):
        secure.sendall(data)
        return secure.recv(200)


@pytest.mark.parametrize(
    "line",
    [
        b"GET / HTTP/9.9\r\n\r\n",
        b"GET  / HTTP/1.1\r\nhost: x\r\n\r\n",
        b"X / HTTP/1.1\r\nhost: x\r\n\r\n",
        b"get / HTTP/1.1\r\nhost: x\r\n\r\n",
        b"CONNECT / HTTP/1.1\r\nhost: x\r\n\r\n",
        b"\0\0\0\0\r\n\r\n",
        b"GET /\xff\xfe HTTP/1.1\r\nhost: x\r\n\r\n",
        b"POST / HTTP/1.1\r\nhost: x\r\ncontent-length: -5\r\n\r\n",
        b"POST / HTTP/1.1\r\nhost: x\r\ncontent-length: 1\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n",
        b"GET / HTTP/1.1\r\nhost: x\r\n" + b"a: b\r\n" * 3000 + b"\r\n",
    ],
)
def test_what_is_hardly_http_is_refused(
    shard: ServerProcess, cluster: TestClient, line: bytes
) -> None:
    """Broken request lines and headers get a 4xx answer or a closed connection."""
    answer = raw(shard, line)
    assert not answer or answer.split()[1].startswith((b"4", b"505")), answer
    check_alive(cluster)


@pytest.mark.parametrize(
    ("change", "code", "message"),
    [
        pytest.param(
            lambda c: c.post(f"{NS}/configmaps", b"{"), 400,
            "the object provided is unrecognized (must be of type ConfigMap): couldn't get version/kind; "
            "json parse error: unexpected end of JSON input ({)", id="torn JSON",
        ),
        pytest.param(
            lambda c: c.post(f"{NS}/configmaps", b'{"metadata":{"name":"x"},"x":1e400}'), 400,
            'ConfigMap in version "v1" cannot be handled as a ConfigMap: json: cannot unmarshal number 1e400 into '
            "Go value of type float64", id="number that no float can hold",
        ),
        pytest.param(
            lambda c: c.post(f"{NS}/configmaps", {"metadata": {"name": "x"}, "data": {"a": 1}}), 400,
            'ConfigMap in version "v1" cannot be handled as a ConfigMap: json: cannot unmarshal number into '
            "Go struct field ConfigMap.data of type string", id="wrong type",
        ),
        pytest.param(
            lambda c: c.post(f"{NS}/configmaps", {"kind": "Secret", "metadata": {"name": "x"}}), 400,
            'Secret in version "v1" cannot be handled as a ConfigMap: '
            "converting (v1.Secret) to (core.ConfigMap): unknown conversion", id="another kind",
        ),
        pytest.param(
            lambda c: c.post(f"{NS}/configmaps", {"kind": "List", "items": []}), 400,
            'List in version "v1" cannot be handled as a ConfigMap: '
            "converting (v1.List) to (core.ConfigMap): unknown conversion", id="a list of anything",
        ),
        pytest.param(
            lambda c: c.post(f"{NS}/configmaps", {"kind": "Nothing", "metadata": {"name": "x"}}), 400,
            'Nothing in version "v1" cannot be handled as a ConfigMap: no kind "Nothing" is registered',
            id="an unknown kind",
        ),
        pytest.param(
            lambda c: c.post(f"{NS}/configmaps", {"metadata": {"name": "x"}}, content_type="text/plain"), 415,
            "the body of the request was in an unknown format - accepted media types include: "
            "application/json, application/yaml, application/vnd.kubernetes.protobuf", id="media type",
        ),
        pytest.param(
            lambda c: c.post(f"{NS}/configmaps", b'{"data":{"a":"' + b"x" * (3 << 20) + b'"}}'), 413,
            "Request entity too large: limit is 3145728", id="too large",
        ),
        pytest.param(
            lambda c: c.get(f"{NS}/configmaps", labelSelector="a in (b"), 400,
            "unable to parse requirement: found '', expected: ',' or ')'", id="label selector",
        ),
        pytest.param(
            lambda c: c.get(f"{NS}/configmaps", fieldSelector="spec.x=y"), 400,
            '"spec.x" is not a known field selector: only "metadata.name", "metadata.namespace"',
            id="field selector",
        ),
        pytest.param(
            lambda c: c.get(f"{NS}/configmaps", limit="many"), 400,
            'strconv.ParseInt: parsing "many": invalid syntax', id="limit",
        ),
        pytest.param(
            lambda c: c.get(f"{NS}/configmaps", **{"continue": "%%"}), 400, "continue key is not valid",
            id="continue",
        ),
        pytest.param(
            lambda c: c.request("PATCH", f"{NS}/configmaps/kube-root-ca.crt", b"{}", "text/plain"), 415,
            "415: Unsupported Media Type", id="patch type",
        ),
        pytest.param(lambda c: c.get("/api/v1/nosuch"), 404,
            "the server could not find the requested resource", id="unknown kind"),
        pytest.param(lambda c: c.request("PUT", f"{NS}/configmaps", {}), 405,
            "the server does not allow this method on the requested resource", id="method"),
        pytest.param(lambda c: c.get(f"{NS}/configmaps", accept="text/html"), 406,
            "application/json, application/yaml, application/vnd.kubernetes.protobuf", id="accept"),
    ],
)  # fmt: skip
def test_usual_mistakes_are_named(
    cluster: TestClient, change: Callable[[TestClient], Reply], code: int, message: str
) -> None:
    """The answer is a Status that says in kube-apiserver's words what is wrong."""
    reply = change(cluster)
    assert reply.status == code, reply
    status = reply.json
    assert (status["kind"], status["apiVersion"], status["status"]) == ("Status", "v1", "Failure")
    assert status["code"] == code
    assert message in status["message"]
