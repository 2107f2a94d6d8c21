"""Token and authorization webhooks over real HTTPS: what is asked, believed and remembered."""

from __future__ import annotations

import asyncio
import base64
import time
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from aiohttp import web

from pykcp.auth import webhook_client
from pykcp.auth.authn.interface import CredentialRejected
from pykcp.auth.authn.webhook import WebhookTokens
from pykcp.auth.authz.attributes import Attributes, Decision, Verdict, path_attributes
from pykcp.auth.authz.webhook import WebhookAuthorizer
from pykcp.auth.certificates import KeyPair, create_ca, issue_client
from pykcp.auth.files import CredentialError
from pykcp.auth.user import User
from pykcp.auth.webhook_client import ReviewClient
from pykcp.clients.kubeconfig import load_endpoint
from pykcp.testing.https import HTTPSServer, Received

NOW = 1000.0
TOKEN = "s3cret-token"


@pytest.fixture(scope="module")
def client_ca() -> KeyPair:
    return create_ca("clients", time.time())


@pytest.fixture
def hook(client_ca: KeyPair) -> Iterator[HTTPSServer]:
    server = HTTPSServer(client_ca)
    yield server
    server.close()


@pytest.fixture
def kubeconfig(hook: HTTPSServer, client_ca: KeyPair, tmp_path: Path) -> Path:
    """With files beside it, named relatively."""
    pair = issue_client(client_ca, "kcp-shard", (), time.time())
    (tmp_path / "client.crt").write_bytes(pair.certificate)
    (tmp_path / "client.key").write_bytes(pair.key)
    (tmp_path / "ca.crt").write_text(hook.ca)
    config = {
        "current-context": "c",
        "contexts": [{"name": "c", "context": {"cluster": "hook", "user": "me"}}],
        "clusters": [
            {
                "name": "hook",
                "cluster": {"server": f"{hook.url}/review", "certificate-authority": "ca.crt"},
            }
        ],
        "users": [
            {
                "name": "me",
                "user": {"client-certificate": "client.crt", "client-key": "client.key"},
            }
        ],
    }
    path = tmp_path / "webhook.kubeconfig"
    path.write_text(yaml.safe_dump(config))
    return path


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(webhook_client, "FIRST_PAUSE", 0.001)


@pytest.fixture
async def client(kubeconfig: Path, quick: None) -> AsyncIterator[ReviewClient]:
    made = ReviewClient(load_endpoint(str(kubeconfig)), seconds=2)
    yield made
    await made.close()


def answering(hook: HTTPSServer, **status: Any) -> None:
    def respond(received: Received) -> dict[str, Any]:
        review = received.json
        return {"kind": review["kind"], "apiVersion": review["apiVersion"], "status": status}

    hook.on("/review", respond)


ALICE = {
    "authenticated": True,
    "user": {"username": "alice", "uid": "7", "groups": ["g"], "extra": {"k": ["v"]}},
}


# --- tokens -------------------------------------------------------------------


@pytest.mark.parametrize("version", ["v1", "v1beta1"])
async def test_a_token_is_reviewed(client: ReviewClient, hook: HTTPSServer, version: str) -> None:
    answering(hook, **ALICE)
    tokens = WebhookTokens(client, version, ("api",))
    found = await tokens.authenticate(TOKEN, ("api", "x"), "root", NOW)
    assert found is not None
    assert found.user == User("alice", "7", ("g",), {"k": ("v",)})
    assert found.audiences == ("api",)
    (asked,) = hook.received
    assert asked.client == "kcp-shard"
    assert asked.json == {
        "kind": "TokenReview",
        "apiVersion": f"authentication.k8s.io/{version}",
        "metadata": {},
        "spec": {"token": TOKEN, "audiences": ["api", "x"]},
        "status": {"user": {}},
    }


async def test_answers_are_remembered_good_or_bad(client: ReviewClient, hook: HTTPSServer) -> None:
    answering(hook, **ALICE)
    tokens = WebhookTokens(client, "v1", (), cache_ttl=100)
    for _ in range(3):
        assert await tokens.authenticate(TOKEN, (), "", NOW) is not None
    assert len(hook.received) == 1
    assert await tokens.authenticate(TOKEN, (), "", NOW + 101) is not None
    assert len(hook.received) == 2
    answering(hook, authenticated=False)
    for _ in range(3):
        assert await tokens.authenticate("other", (), "", NOW) is None
    assert len(hook.received) == 3


async def test_without_a_time_nothing_is_remembered(
    client: ReviewClient, hook: HTTPSServer
) -> None:
    answering(hook, **ALICE)
    tokens = WebhookTokens(client, "v1", (), cache_ttl=0)
    await tokens.authenticate(TOKEN, (), "", NOW)
    await tokens.authenticate(TOKEN, (), "", NOW)
    assert len(hook.received) == 2


async def test_the_same_token_is_asked_about_once(client: ReviewClient, hook: HTTPSServer) -> None:
    answering(hook, **ALICE)
    tokens = WebhookTokens(client, "v1", ())
    found = await asyncio.gather(*(tokens.authenticate(TOKEN, (), "", NOW) for _ in range(20)))
    assert {one.user.name for one in found if one is not None} == {"alice"}
    assert len(hook.received) == 1


async def test_audiences_must_agree(client: ReviewClient, hook: HTTPSServer) -> None:
    answering(hook, **ALICE, audiences=["mine"])
    tokens = WebhookTokens(client, "v1", ("api",))
    assert await tokens.authenticate(TOKEN, ("api",), "", NOW) is None
    found = await tokens.authenticate(TOKEN, ("mine",), "", NOW)
    assert found is not None
    assert found.audiences == ("mine",)


async def test_the_webhooks_error_is_the_refusal_and_not_remembered(
    client: ReviewClient, hook: HTTPSServer
) -> None:
    answering(hook, authenticated=False, error="token is too old")
    tokens = WebhookTokens(client, "v1", ())
    for _ in range(2):
        with pytest.raises(CredentialRejected, match="token is too old"):
            await tokens.authenticate(TOKEN, (), "", NOW)
    assert len(hook.received) == 2


def _of(status: Any) -> dict[str, Any]:
    return {"kind": "TokenReview", "apiVersion": "authentication.k8s.io/v1", "status": status}


@pytest.mark.parametrize(
    "answer",
    [
        b"",
        b"garbage",
        b"[]",
        b'"authenticated"',
        b'{"status": {"authenticated": true, "user": {"username": "root"}}}',
        {**_of(ALICE), "kind": "Pod"},
        {**_of(ALICE), "apiVersion": "authentication.k8s.io/v1beta1"},
        _of([]),
        _of({"authenticated": "true", "user": {"username": "a"}}),
        _of({"authenticated": 1, "user": {"username": "a"}}),
        _of({"authenticated": True}),
        _of({"authenticated": True, "user": {}}),
        _of({"authenticated": True, "user": {"username": 5}}),
        _of({"authenticated": True, "user": {"username": "a", "groups": "system:masters"}}),
        _of({"authenticated": True, "user": {"username": "a", "groups": [1]}}),
        _of({"authenticated": True, "user": {"username": "a", "extra": {"k": "v"}}}),
        _of({"authenticated": True, "user": {"username": "a", "extra": ["k"]}}),
        b"x" * (2 << 20),
        web.Response(status=401),
        web.Response(status=404, text=TOKEN),
        web.Response(status=302, headers={"Location": "/other"}),
    ],
)
async def test_answers_that_cannot_be_believed_open_no_door(
    client: ReviewClient, hook: HTTPSServer, answer: Any, caplog: pytest.LogCaptureFixture
) -> None:
    hook.on("/review", lambda _: answer)
    tokens = WebhookTokens(client, "v1", ())
    with pytest.raises(CredentialRejected) as caught:
        await tokens.authenticate(TOKEN, (), "", NOW)
    assert "Failed to make webhook authenticator request" in caplog.text
    assert TOKEN not in caplog.text
    assert TOKEN not in str(caught.value)
    assert hook.count("/other") == 0


async def test_passing_troubles_are_tried_again(client: ReviewClient, hook: HTTPSServer) -> None:
    statuses = iter((500, 429, 504))

    def respond(received: Received) -> Any:
        status = next(statuses, 0)
        return web.Response(status=status) if status else _of(ALICE)

    hook.on("/review", respond)
    found = await WebhookTokens(client, "v1", ()).authenticate(TOKEN, (), "", NOW)
    assert found is not None
    assert len(hook.received) == 4


async def test_lasting_troubles_are_given_up_after_five_attempts(
    client: ReviewClient, hook: HTTPSServer
) -> None:
    hook.on("/review", lambda _: web.Response(status=500))
    with pytest.raises(CredentialRejected, match="status 500"):
        await WebhookTokens(client, "v1", ()).authenticate(TOKEN, (), "", NOW)
    assert len(hook.received) == 5


async def test_a_webhook_that_hangs_ends_in_a_refusal(kubeconfig: Path, hook: HTTPSServer) -> None:
    async def hang(_: Received) -> bytes:
        await asyncio.sleep(60)
        return b""

    hook.on("/review", hang)
    client = ReviewClient(load_endpoint(str(kubeconfig)), seconds=0.3)
    tokens = WebhookTokens(client, "v1", ())
    try:
        with pytest.raises(CredentialRejected, match=r"no answer within 0\.3s"):
            await tokens.authenticate(TOKEN, (), "", NOW)
        await asyncio.sleep(0.1)  # TLS of the call that was given up says goodbye
    finally:
        await tokens.close()


async def test_nobody_there_is_a_refusal(client: ReviewClient, hook: HTTPSServer) -> None:
    hook.close()
    with pytest.raises(CredentialRejected, match="Cannot connect"):
        await WebhookTokens(client, "v1", ()).authenticate(TOKEN, (), "", NOW)


# --- permissions --------------------------------------------------------------

PODS = Attributes(
    User("alice", "7", ("g",), {"k": ("v",)}), "get", "ns", "apps", "deployments", "scale",
    name="d", version="v1",
)  # fmt: skip


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


async def test_a_review_names_user_cluster_and_resource(
    client: ReviewClient, hook: HTTPSServer
) -> None:
    answering(hook, allowed=True, reason="because")
    decision = await WebhookAuthorizer(client, "v1")("root:a", PODS)
    assert decision == Decision(Verdict.ALLOW, "because")
    assert hook.received[0].json == {
        "kind": "SubjectAccessReview",
        "apiVersion": "authorization.k8s.io/v1",
        "metadata": {},
        "spec": {
            "user": "alice",
            "uid": "7",
            "groups": ["g"],
            "extra": {
                "k": ["v"],
                "authorization.kubernetes.io/cluster-name": ["root:a"],
                "authorization.kcp.io/cluster-name": ["root:a"],
            },
            "resourceAttributes": {
                "namespace": "ns",
                "verb": "get",
                "group": "apps",
                "version": "v1",
                "resource": "deployments",
                "subresource": "scale",
                "name": "d",
            },
        },
        "status": {"allowed": False},
    }


async def test_the_old_version_and_paths(client: ReviewClient, hook: HTTPSServer) -> None:
    answering(hook, allowed=False, reason="no")
    asked = path_attributes(User("bob", groups=("g",)), "get", "/metrics")
    decision = await WebhookAuthorizer(client, "v1beta1")("", asked)
    assert decision == Decision(Verdict.NO_OPINION, "no")
    assert hook.received[0].json["spec"] == {
        "user": "bob",
        "group": ["g"],
        "nonResourceAttributes": {"path": "/metrics", "verb": "get"},
    }


@pytest.mark.parametrize(
    ("status", "verdict", "error"),
    [
        ({}, Verdict.NO_OPINION, ""),
        ({"denied": True}, Verdict.DENY, ""),
        (
            {"denied": True, "allowed": True},
            Verdict.DENY,
            "webhook subject access review returned both allow and deny response",
        ),
    ],
)
async def test_verdicts(
    client: ReviewClient, hook: HTTPSServer, status: Any, verdict: Verdict, error: str
) -> None:
    answering(hook, **status)
    decision = await WebhookAuthorizer(client, "v1")("c", PODS)
    assert (decision.verdict, decision.error) == (verdict, error)


async def test_decisions_are_remembered_for_their_times(
    client: ReviewClient, hook: HTTPSServer
) -> None:
    clock = Clock()
    authorizer = WebhookAuthorizer(client, "v1", 300, 30, clock)
    answering(hook, allowed=True)
    await authorizer("c", PODS)
    clock.now = 299
    await authorizer("c", PODS)
    assert len(hook.received) == 1
    await authorizer("d", PODS)
    assert len(hook.received) == 2, "another logical cluster is another question"
    answering(hook, allowed=False)
    clock.now = 301
    await authorizer("c", PODS)
    clock.now = 330
    await authorizer("c", PODS)
    assert len(hook.received) == 3
    clock.now = 332
    await authorizer("c", PODS)
    assert len(hook.received) == 4


async def test_questions_too_long_are_not_remembered(
    client: ReviewClient, hook: HTTPSServer
) -> None:
    answering(hook, allowed=True)
    authorizer = WebhookAuthorizer(client, "v1")
    long = PODS._replace(name="x" * 10_000)
    await authorizer("c", long)
    await authorizer("c", long)
    assert len(hook.received) == 2


@pytest.mark.parametrize(
    "answer",
    [
        b"garbage",
        b'{"status": {"allowed": true}}',
        {
            "kind": "SubjectAccessReview",
            "apiVersion": "authorization.k8s.io/v1",
            "status": {"allowed": "yes"},
        },
        403,
        500,
    ],
)
async def test_a_failure_allows_nothing_and_is_asked_again(
    client: ReviewClient, hook: HTTPSServer, answer: Any
) -> None:
    def respond(_: Received) -> Any:
        return web.Response(status=answer) if isinstance(answer, int) else answer

    hook.on("/review", respond)
    authorizer = WebhookAuthorizer(client, "v1")
    decision = await authorizer("c", PODS)
    assert decision.verdict is Verdict.NO_OPINION
    assert decision.error
    asked = len(hook.received)
    await authorizer("c", PODS)
    assert len(hook.received) > asked


async def test_masters_are_not_asked_about(client: ReviewClient, hook: HTTPSServer) -> None:
    user = User("root", groups=("system:masters",))
    decision = await WebhookAuthorizer(client, "v1")("c", PODS._replace(user=user))
    assert decision.allowed
    assert not hook.received


# --- kubeconfigs --------------------------------------------------------------


def changed(path: Path, section: str, key: str, **changes: Any) -> Path:
    config = yaml.safe_load(path.read_text())
    entry = config[section][0][key]
    entry.update(changes)
    for name in [name for name, value in entry.items() if value is None]:
        del entry[name]
    path.write_text(yaml.safe_dump(config))
    return path


@pytest.mark.parametrize(
    ("section", "key", "changes", "told"),
    [
        ("clusters", "cluster", {"server": "ftp://x"}, "server is not an http or https URL"),
        ("clusters", "cluster", {"certificate-authority": "none"}, "cannot read"),
        ("contexts", "context", {"cluster": "x"}, 'cluster "x" does not exist'),
        ("contexts", "context", {"user": "x"}, 'user "x" does not exist'),
        ("users", "user", {"exec": {"command": "x"}}, "users cannot use exec here"),
        ("users", "user", {"client-key": "ca.crt"}, "TLS of"),
        ("users", "user", {"client-key-data": "%"}, "client-key-data is not base64"),
    ],
)
def test_kubeconfigs_that_cannot_be_used(
    kubeconfig: Path, section: str, key: str, changes: Any, told: str
) -> None:
    with pytest.raises(CredentialError, match=told):
        load_endpoint(str(changed(kubeconfig, section, key, **changes)))


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("a: [", "not YAML in line"),
        ("5", "not a kubeconfig"),
        ("a: 2026-99-99", "not a kubeconfig"),
        ("[" * 5000, "not (YAML|a kubeconfig)"),  # libyaml stops at the missing end first
        ("{}", "current-context is not set"),
        ("current-context: x", 'context "x" does not exist'),
    ],
)
def test_files_that_are_no_kubeconfig(tmp_path: Path, text: str, told: str) -> None:
    path = tmp_path / "k"
    path.write_text(text)
    with pytest.raises(CredentialError, match=told):
        load_endpoint(str(path))


async def test_a_token_and_embedded_data_work_too(
    kubeconfig: Path, hook: HTTPSServer, tmp_path: Path
) -> None:
    def data(name: str) -> str:
        return base64.b64encode((tmp_path / name).read_bytes()).decode()

    changed(
        kubeconfig,
        "users",
        "user",
        **{
            "client-certificate": None,
            "client-key": None,
            "client-certificate-data": data("client.crt"),
            "client-key-data": data("client.key"),
            "token": "for-the-webhook",
        },
    )
    changed(
        kubeconfig,
        "clusters",
        "cluster",
        **{"certificate-authority": None, "certificate-authority-data": data("ca.crt")},
    )
    endpoint = load_endpoint(str(kubeconfig))
    assert "for-the-webhook" not in repr(endpoint)
    client = ReviewClient(endpoint)
    answering(hook, **ALICE)
    try:
        await WebhookTokens(client, "v1", ()).authenticate(TOKEN, (), "", NOW)
    finally:
        await client.close()
    (asked,) = hook.received
    assert asked.client == "kcp-shard"
    assert asked.headers["authorization"] == "Bearer for-the-webhook"


async def test_without_its_certificate_the_webhook_is_not_reached(
    kubeconfig: Path, hook: HTTPSServer, quick: None
) -> None:
    changed(kubeconfig, "users", "user", **{"client-certificate": None, "client-key": None})
    client = ReviewClient(load_endpoint(str(kubeconfig)))
    answering(hook, **ALICE)
    try:
        with pytest.raises(CredentialRejected):
            await WebhookTokens(client, "v1", ()).authenticate(TOKEN, (), "", NOW)
    finally:
        await client.close()
    assert not hook.received


async def test_a_replaced_certificate_is_used(
    kubeconfig: Path,
    hook: HTTPSServer,
    client_ca: KeyPair,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(webhook_client, "_CHECK_FILES", 0.0)
    client = ReviewClient(load_endpoint(str(kubeconfig)))
    tokens = WebhookTokens(client, "v1", (), cache_ttl=0)
    answering(hook, **ALICE)
    try:
        await tokens.authenticate(TOKEN, (), "", NOW)
        pair = issue_client(client_ca, "renewed", (), time.time())
        (tmp_path / "client.crt").write_bytes(pair.certificate)
        (tmp_path / "client.key").write_bytes(pair.key)
        await tokens.authenticate(TOKEN, (), "", NOW)
    finally:
        await client.close()
    assert [one.client for one in hook.received] == ["kcp-shard", "renewed"]
