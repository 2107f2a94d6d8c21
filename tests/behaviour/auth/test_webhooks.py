"""Token and authorization webhooks of a running server."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from aiohttp import web

from pykcp.auth.certificates import KeyPair, create_ca, issue_client
from pykcp.testing.client import TestClient
from pykcp.testing.clusters import make_cluster
from pykcp.testing.https import HTTPSServer, Received
from pykcp.testing.server import ServerProcess, server

PEOPLE = {
    "alice-token": {"username": "alice", "uid": "1", "groups": ["dev"], "extra": {"k": ["v"]}},
    "bob-token": {"username": "bob"},
}
SLOW = "slow-token"
RELEASE = threading.Event()


@pytest.fixture(scope="module")
def client_ca() -> KeyPair:
    return create_ca("clients", time.time())


@pytest.fixture(scope="module")
def hook(client_ca: KeyPair) -> Iterator[HTTPSServer]:
    """Knows alice and bob; alice may read config maps, nobody may touch secrets."""
    made = HTTPSServer(client_ca)

    async def who(received: Received) -> Any:
        review = received.json
        token = review["spec"]["token"]
        while token == SLOW and not RELEASE.is_set():  # noqa: ASYNC110 - set by a thread
            await asyncio.sleep(0.02)
        if token == "lie-token":
            return b'{"status": {"authenticated": true, "user": {"username": "root"}}}'
        if token == "broken-token":
            return web.Response(status=403, text=token)
        user = PEOPLE.get(token)
        status = {"authenticated": True, "user": user} if user else {"authenticated": False}
        return {"kind": "TokenReview", "apiVersion": review["apiVersion"], "status": status}

    def may(received: Received) -> Any:
        review = received.json
        asked = review["spec"].get("resourceAttributes", {})
        user, status = review["spec"]["user"], {"allowed": False, "reason": "not in the book"}
        if asked.get("name") == "broken":
            return b"broken"
        if asked.get("resource") == "secrets":
            status = {"allowed": False, "denied": True, "reason": "secrets are secret"}
        elif user == "alice" and asked.get("resource") == "configmaps":
            status = {"allowed": True}
        return {"kind": review["kind"], "apiVersion": review["apiVersion"], "status": status}

    made.on("/who", who)
    made.on("/may", may)
    yield made
    made.close()


def kubeconfig(path: Path, hook: HTTPSServer, client_ca: KeyPair, where: str) -> Path:
    pair = issue_client(client_ca, "kcp-shard", (), time.time())
    for name, data in (("crt", pair.certificate), ("key", pair.key), ("ca", hook.ca.encode())):
        path.with_name(f"{path.name}.{name}").write_bytes(data)
    cluster = {"server": hook.url + where, "certificate-authority": f"{path.name}.ca"}
    user = {"client-certificate": f"{path.name}.crt", "client-key": f"{path.name}.key"}
    path.write_text(
        yaml.safe_dump(
            {
                "apiVersion": "v1",
                "kind": "Config",
                "current-context": "c",
                "contexts": [{"name": "c", "context": {"cluster": "h", "user": "u"}}],
                "clusters": [{"name": "h", "cluster": cluster}],
                "users": [{"name": "u", "user": user}],
            }
        )
    )
    return path


@pytest.fixture(scope="module")
def shard(
    hook: HTTPSServer, client_ca: KeyPair, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[ServerProcess]:
    folder = tmp_path_factory.mktemp("hooks")
    tokens = kubeconfig(folder / "tokens", hook, client_ca, "/who")
    permissions = kubeconfig(folder / "permissions", hook, client_ca, "/may")
    with server(
        f"--authentication-token-webhook-config-file={tokens}",
        "--authentication-token-webhook-version=v1",
        f"--authorization-webhook-config-file={permissions}",
        "--authorization-webhook-version=v1",
        "--v=5",
    ) as process:
        yield process


@pytest.fixture
def who(shard: ServerProcess, asking: Callable[[ServerProcess], Any]) -> Any:
    return asking(shard)


def of(shard: ServerProcess, token: str, cluster: str = "root") -> TestClient:
    return shard.client(cluster=cluster).with_token(token)


def test_the_webhook_says_who_it_is(who: Any, hook: HTTPSServer) -> None:
    assert who.user("alice-token") == {
        "username": "alice",
        "uid": "1",
        "groups": ["dev", "system:authenticated"],
        "extra": {"k": ["v"]},
    }
    asked = next(one for one in hook.received if one.path == "/who")
    assert asked.client == "kcp-shard"
    assert asked.json["apiVersion"] == "authentication.k8s.io/v1"
    assert who.status("nobody-token") == 401
    assert who.status("lie-token") == 401
    assert who.status("broken-token") == 401


def test_answers_are_remembered(who: Any, hook: HTTPSServer) -> None:
    for _ in range(3):
        assert who.status("bob-token") == 403
        assert who.status("stranger-token") == 401
    tokens = [one.json["spec"]["token"] for one in hook.received if one.path == "/who"]
    assert tokens.count("bob-token") == tokens.count("stranger-token") == 1


def test_a_webhook_that_hangs_keeps_nobody_else_waiting(who: Any, shard: ServerProcess) -> None:
    replies: list[int] = []
    slow = threading.Thread(target=lambda: replies.append(who.status(SLOW)))
    slow.start()
    try:
        begin = time.monotonic()
        for _ in range(5):
            assert who.status("alice-token") == 403
            assert shard.client(cluster="root").get("/version").status == 200
        assert time.monotonic() - begin < 5
        assert slow.is_alive()
    finally:
        RELEASE.set()
        slow.join(30)
    assert replies == [401]


def test_the_webhook_is_asked_for_permission(shard: ServerProcess, hook: HTTPSServer) -> None:
    make_cluster(shard, "hooked")
    alice = of(shard, "alice-token", "hooked")
    path = "/api/v1/namespaces/default/configmaps"
    assert alice.get(path).status == 200
    asked = [one.json["spec"] for one in hook.received if one.path == "/may"]
    spec = next(s for s in asked if s.get("resourceAttributes", {}).get("resource") == "configmaps")
    assert spec["user"] == "alice"
    assert spec["groups"] == ["dev", "system:authenticated"]
    assert spec["extra"]["authorization.kcp.io/cluster-name"] == ["hooked"]
    assert spec["extra"]["authorization.kubernetes.io/cluster-name"] == ["hooked"]
    assert spec["extra"]["k"] == ["v"]
    assert spec["resourceAttributes"] == {
        "namespace": "default",
        "verb": "list",
        "version": "v1",
        "resource": "configmaps",
    }
    before = len(hook.received)
    assert alice.get(path).status == 200
    assert len(hook.received) == before, "remembered"


def test_refusals_and_failures_stay_refusals(shard: ServerProcess) -> None:
    alice = of(shard, "alice-token")
    for path in ("/api/v1/namespaces/default/secrets", "/api/v1/namespaces"):
        refused = alice.get(path)
        assert refused.status == 403
        assert "access denied" in refused.json["message"] or "secret" in refused.json["message"]
    assert alice.get("/api/v1/namespaces/default/configmaps/broken").status == 403
    assert of(shard, "bob-token").get("/api/v1/namespaces/default/configmaps").status == 403


def test_access_reviews_see_it_too(shard: ServerProcess) -> None:
    admin = shard.client(cluster="root")
    for user, allowed in (("alice", True), ("bob", False)):
        review = admin.post(
            "/apis/authorization.k8s.io/v1/subjectaccessreviews",
            {
                "spec": {
                    "user": user,
                    "resourceAttributes": {
                        "verb": "get",
                        "resource": "configmaps",
                        "namespace": "default",
                        "version": "v1",
                    },
                }
            },
        )
        assert review.json["status"]["allowed"] is allowed


def test_masters_need_no_webhook(shard: ServerProcess, hook: HTTPSServer) -> None:
    before = hook.count("/may")
    assert shard.client(cluster="root").get("/api/v1/secrets").status == 200
    assert hook.count("/may") == before


def test_no_token_is_ever_logged(who: Any, shard: ServerProcess) -> None:
    who.status("broken-token")
    who.status("lie-token")
    log = shard.log()
    assert "Failed to make webhook authenticator request" in log
    for token in (*PEOPLE, "broken-token", "lie-token", "nobody-token", SLOW):
        assert token not in log
