"""Webhooks of tenants: where they may be, and what theirs do to others."""

from __future__ import annotations

import asyncio
import base64
import json
import threading
from collections.abc import Iterator
from typing import Any

import pytest
from aiohttp import web

from pykcp.testing.client import TestClient, eventually
from pykcp.testing.clusters import make_cluster
from pykcp.testing.https import HTTPSServer, Received
from pykcp.testing.server import ServerProcess, server

HOOKS = "/apis/admissionregistration.k8s.io/v1"
MAPS = "/api/v1/namespaces/default/configmaps"


@pytest.fixture(scope="module")
def shard() -> Iterator[ServerProcess]:
    flags = ("--tenant-egress-connections=8", "--tenant-egress-deny=127.0.0.9,*.denied.test")
    with server(*flags) as process:
        yield process


@pytest.fixture(scope="module")
def hooks() -> Iterator[HTTPSServer]:
    made = HTTPSServer()
    yield made
    made.close()


def add_hook(
    client: TestClient, url: str, ca: str, *, kind: str = "validating", timeout: int = 30
) -> None:
    hook = {
        "name": "hook.example.com",
        "clientConfig": {"url": url, "caBundle": base64.b64encode(ca.encode()).decode()},
        "rules": [
            {
                "apiGroups": [""],
                "apiVersions": ["v1"],
                "operations": ["CREATE", "UPDATE"],
                "resources": ["configmaps"],
            }
        ],
        "sideEffects": "None",
        "admissionReviewVersions": ["v1"],
        "timeoutSeconds": timeout,
    }
    made = client.post(
        f"{HOOKS}/{kind}webhookconfigurations", {"metadata": {"name": "h"}, "webhooks": [hook]}
    )
    assert made.status == 201, made


def review(received: Received, **response: Any) -> dict[str, Any]:
    asked = received.json
    answer = {"uid": asked["request"]["uid"], "allowed": True, **response}
    return {"apiVersion": asked["apiVersion"], "kind": asked["kind"], "response": answer}


def create(client: TestClient, name: str, **data: str) -> Any:
    return client.post(MAPS, {"metadata": {"name": name}, "data": data})


@pytest.mark.parametrize(
    "url",
    [
        "https://169.254.169.254/latest/meta-data",
        "https://[fe80::1]/",
        "https://[::ffff:169.254.169.254]/",
        "https://0.0.0.0:{port}/",
        "https://127.0.0.1:{port}/clusters/root",
        "https://localhost:{port}/clusters/root",
        "https://127.0.0.9:1/",
        "https://127.0.0.1.denied.test/",
    ],
)
def test_places_that_are_not_called(shard: ServerProcess, cluster: TestClient, url: str) -> None:
    add_hook(cluster, url.format(port=shard.port), "", timeout=5)
    refused = create(cluster, "x")
    assert refused.status == 500
    said = refused.json["message"]
    assert said.endswith(("the destination is not allowed", "no such host")), said


def test_hanging_webhooks_are_their_tenants_concern(
    shard: ServerProcess, hooks: HTTPSServer
) -> None:
    """Sixty requests of another tenant hang; ours is answered."""
    done = threading.Event()

    async def hang(received: Received) -> dict[str, Any]:
        await asyncio.to_thread(done.wait, 60)
        return review(received)

    slow, quick = make_cluster(shard, "slow"), make_cluster(shard, "quick")
    add_hook(slow, hooks.on("/hang", hang), hooks.ca)
    url = hooks.on("/quick", review).replace("127.0.0.1", "localhost")
    add_hook(quick, url, hooks.ca)
    replies: list[int] = []

    def flood(number: int) -> None:
        client = shard.client(cluster="slow")
        replies.append(create(client, f"m{number}").status)

    threads = [threading.Thread(target=flood, args=(n,)) for n in range(60)]
    for thread in threads:
        thread.start()
    try:
        eventually(lambda: hooks.count("/hang") == 4)  # half of what there is
        for number in range(3):
            assert create(quick, f"m{number}").status == 201
        assert hooks.count("/hang") == 4
        assert replies == []
    finally:
        done.set()
        for thread in threads:
            thread.join(60)
    assert replies == [201] * 60
    assert hooks.count("/hang") == 60


def test_a_bundle_may_hold_the_serving_certificate(cluster: TestClient, hooks: HTTPSServer) -> None:
    """As Go trusts it: every envtest suite with webhooks does that."""
    url = hooks.on("/leaf", review)
    add_hook(cluster, url, hooks.leaf)
    assert cluster.post(MAPS, {"metadata": {"name": "a"}}).status == 201
    assert hooks.count("/leaf") == 1


def test_the_object_is_sent_whole(cluster: TestClient, hooks: HTTPSServer) -> None:
    """A large one too, which is encoded once for all webhooks."""
    seen: list[Any] = []

    def answer(received: Received) -> dict[str, Any]:
        seen.append(received.json["request"])
        return review(received)

    add_hook(cluster, hooks.on("/whole", answer), hooks.ca)
    text = "é" * 200_000
    assert create(cluster, "x", text=text).status == 201
    assert seen[0]["object"]["data"] == {"text": text}
    assert seen[0]["oldObject"] is None
    assert seen[0]["dryRun"] is False
    assert seen[0]["options"]["kind"] == "CreateOptions"


PATCHES = {
    "copies": [{"op": "copy", "from": "/data/a", "path": f"/data/b{n}"} for n in range(400)],
    "doubles": [{"op": "copy", "from": "/data", "path": f"/data/x{n}"} for n in range(30)],
}


@pytest.mark.parametrize("case", PATCHES)
def test_a_patch_has_one_budget(cluster: TestClient, hooks: HTTPSServer, case: str) -> None:
    patch = base64.b64encode(json.dumps(PATCHES[case]).encode()).decode()

    def answer(received: Received) -> dict[str, Any]:
        return review(received, patch=patch, patchType="JSONPatch")

    add_hook(cluster, hooks.on(f"/{case}", answer), hooks.ca, kind="mutating")
    refused = create(cluster, "x", a="x" * 1_000_000)
    assert refused.status in (413, 422, 500), refused
    assert "size increase of copy" in refused.json["message"], refused.json["message"]


@pytest.mark.parametrize(
    ("patch", "said"),
    [
        (b"[" * 400_000, "more than 300000 objects and arrays"),
        (b" " * (3 * 1024 * 1024 + 1), "larger than 3145728 bytes"),
    ],
)
def test_patches_that_are_not_decoded(
    cluster: TestClient, hooks: HTTPSServer, patch: bytes, said: str
) -> None:
    def answer(received: Received) -> dict[str, Any]:
        return review(received, patch=base64.b64encode(patch).decode(), patchType="JSONPatch")

    add_hook(cluster, hooks.on(f"/{len(patch)}", answer), hooks.ca, kind="mutating")
    refused = create(cluster, "x")
    assert refused.status == 500
    assert said in refused.json["message"]


def test_nested_patches_are_refused_with_words(cluster: TestClient, hooks: HTTPSServer) -> None:
    patch = b'[{"op":"add","path":"/data/x","value":' + b"[" * 20_000 + b"]" * 20_000 + b"}]"

    def answer(received: Received) -> dict[str, Any]:
        return review(received, patch=base64.b64encode(patch).decode(), patchType="JSONPatch")

    add_hook(cluster, hooks.on("/nested", answer), hooks.ca, kind="mutating")
    refused = create(cluster, "x")
    assert refused.json["kind"] == "Status"
    assert "failed calling webhook" in refused.json["message"]


ANSWERS = {
    "huge": (lambda _: web.Response(body=b"x" * (9 << 20)), "the answer is longer than 8388608"),
    "deep": (lambda _: web.Response(body=b'{"a":' + b"[" * 1_000_000), "json parse error"),
    "warnings": (lambda r: review(r, warnings=["x"] * 200_000), "response.warnings is larger than"),
    "uid": (lambda r: review(r, uid="x" * 200_000), 'got "xxxx'),
    "secret": (lambda _: web.Response(status=500, text="secret"), 'the server ("unknown") has'),
    "away": (
        lambda _: web.Response(status=307, headers={"Location": "https://169.254.169.254/"}),
        "redirects to another server are not followed",
    ),
}


@pytest.mark.parametrize("case", ANSWERS)
def test_answers_that_are_none(cluster: TestClient, hooks: HTTPSServer, case: str) -> None:
    respond, said = ANSWERS[case]
    add_hook(cluster, hooks.on(f"/{case}", respond), hooks.ca)
    refused = create(cluster, "x")
    assert refused.status == 500
    assert said in refused.json["message"]
    assert len(refused.json["message"]) < 1000


@pytest.mark.parametrize(
    ("given", "called"),
    [
        ("//validate", "/validate"),
        ("/validate/", "/validate"),
        ("/a/./b/../c", "/a/c"),
        ("/a%2Fb", "/a/b"),
        ("/a%20b;c=d", "/a b;c=d"),
        ("/../..", "/"),
        ("", "/"),
    ],
)
def test_the_path_is_cleaned(
    cluster: TestClient, hooks: HTTPSServer, given: str, called: str
) -> None:
    """Decoded and without empty or relative segments, as Go's client sends it."""
    before = len(hooks.received)
    hooks.on(called, review)
    add_hook(cluster, hooks.url + given, hooks.ca)
    assert create(cluster, "x").status == 201
    assert [one.path for one in hooks.received[before:]] == [called]


@pytest.mark.parametrize("status", [307, 308])
@pytest.mark.parametrize("is_absolute", [True, False])
def test_redirects_to_the_same_server(
    cluster: TestClient, hooks: HTTPSServer, status: int, is_absolute: bool
) -> None:
    """The request is sent again to the other path, with its body."""
    target = hooks.on("/moved/here", review)
    location = target if is_absolute else "here"
    url = hooks.on(
        "/moved/from", lambda _: web.Response(status=status, headers={"Location": location})
    )
    before = len(hooks.received)
    add_hook(cluster, url, hooks.ca)
    assert create(cluster, "x").status == 201
    assert [one.path for one in hooks.received[before:]] == ["/moved/from", "/moved/here"]


def test_a_redirect_that_drops_the_body(cluster: TestClient, hooks: HTTPSServer) -> None:
    """302 makes a GET of a POST, as in Go."""
    hooks.on("/got", lambda r: web.Response(status=418 if r.method == "GET" else 500))
    url = hooks.on("/found", lambda _: web.Response(status=302, headers={"Location": "/got"}))
    add_hook(cluster, url, hooks.ca)
    refused = create(cluster, "x")
    assert "the server responded with the status code 418" in refused.json["message"]


LARGE = {
    "keys": ("/data", {f"k{n}": "v" for n in range(5000)}),
    "text": ("/data", {"a": "é<" * 100_000}),
}


@pytest.mark.parametrize("case", LARGE)
def test_a_patch_may_make_a_small_object_large(
    cluster: TestClient, hooks: HTTPSServer, case: str
) -> None:
    """The write begins anew where large ones are done; creates, updates, patches and applies."""
    path, value = LARGE[case]
    operations = [{"op": "add", "path": path, "value": value}]
    patch = base64.b64encode(json.dumps(operations).encode()).decode()

    def answer(received: Received) -> dict[str, Any]:
        if received.json["request"]["object"]["metadata"].get("labels"):
            return review(received)
        return review(received, patch=patch, patchType="JSONPatch")

    add_hook(cluster, hooks.on(f"/large-{case}", answer), hooks.ca, kind="mutating")
    made = create(cluster, "x")
    assert made.status == 201, made
    assert made.json["data"] == value
    small = {"metadata": {"name": "y", "labels": {"l": "1"}}, "data": {"b": "c"}}
    assert cluster.post(MAPS, small).status == 201
    replaced = cluster.put(f"{MAPS}/y", {"metadata": {"name": "y"}, "data": {"b": "d"}})
    assert replaced.json["data"] == value
    applied = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "z"}, "data": {}}
    reply = cluster.patch(f"{MAPS}/z", applied, "application/apply-patch+yaml", fieldManager="m")
    assert (reply.status, reply.json["data"]) == (201, value)
    listed = cluster.get(MAPS).json["items"]
    assert {o["metadata"]["name"]: o["data"] for o in listed if o["metadata"]["name"] in "xyz"} == {
        "x": value, "y": value, "z": value,
    }  # fmt: skip
