"""Signing in with tokens of an OpenID Connect issuer, by flags."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from pykcp.testing.issuer import AUDIENCE, KEYS, SigningKey, TestIssuer, encode, sign
from pykcp.testing.server import ServerProcess, server


@pytest.fixture(scope="module")
def shard(issuer: TestIssuer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    ca = tmp_path_factory.mktemp("oidc") / "ca.crt"
    ca.write_text(issuer.ca)
    flags = (
        f"--oidc-issuer-url={issuer.url}",
        f"--oidc-client-id={AUDIENCE}",
        f"--oidc-ca-file={ca}",
        "--oidc-groups-claim=groups",
        "--oidc-groups-prefix=oidc:",
        "--oidc-required-claim=hd=example.com,org",
        "--v=5",
    )
    with server(*flags) as process:
        yield process


@pytest.fixture
def who(shard: ServerProcess, asking: Callable[[ServerProcess], Any], issuer: TestIssuer) -> Any:
    found = asking(shard)
    found.until_accepted(good(issuer))
    return found


def good(issuer: TestIssuer, key: SigningKey | None = None, **changes: Any) -> str:
    return issuer.token(key, **{"hd": "example.com,org", **changes})


def test_a_token_makes_a_user(who: Any, issuer: TestIssuer) -> None:
    user = who.user(good(issuer, groups=["dev", "ops"], jti="7"))
    assert user["username"] == f"{issuer.url}#alice"
    assert user["groups"] == ["oidc:dev", "oidc:ops", "system:authenticated"]
    assert user["extra"] == {"authentication.kubernetes.io/credential-id": ["JTI=7"]}


def test_roles_can_be_bound_to_users_and_groups_of_the_issuer(
    who: Any, issuer: TestIssuer, shard: ServerProcess
) -> None:
    admin = shard.client(cluster="root")
    token = good(issuer, sub="bound", groups="readers")
    assert who.status(token, path="/api/v1/namespaces") == 403
    for name, role in (("see", "view"), ("enter", "system:kcp:workspace:access")):
        made = admin.post(
            "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings",
            {
                "metadata": {"name": f"oidc-{name}"},
                "roleRef": {
                    "apiGroup": "rbac.authorization.k8s.io",
                    "kind": "ClusterRole",
                    "name": role,
                },
                "subjects": [
                    {
                        "kind": "Group",
                        "name": "oidc:readers",
                        "apiGroup": "rbac.authorization.k8s.io",
                    }
                ],
            },
        )
        assert made.status == 201, made
    assert who.client(token).get("/api/v1/namespaces/default/configmaps").status == 200
    assert who.status(good(issuer, sub="bound"), path="/api/v1/namespaces") == 403


def test_bad_tokens_are_refused_everywhere_alike(who: Any, issuer: TestIssuer) -> None:
    key = issuer.keys["RS256"]
    public = key.key.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    head = encode(json.dumps({"alg": "HS256", "kid": key.key_id}).encode())
    confused = f"{head}.{encode(json.dumps(issuer.claims()).encode())}"
    confused += "." + encode(hmac.new(public, confused.encode(), hashlib.sha256).digest())
    body = encode(json.dumps(issuer.claims(hd="example.com,org")).encode())
    parts = good(issuer).split(".")
    bad = {
        "expired": good(issuer, exp=int(time.time()) - 10),
        "without an end": good(issuer, exp=None),
        "not yet": good(issuer, nbf=int(time.time()) + 1000),
        "other issuer": good(issuer, iss="https://evil.example.com"),
        "other audience": good(issuer, aud="somebody"),
        "missing claim": issuer.token(),
        "other claim": good(issuer, hd="example.com"),
        "foreign key": good(issuer, SigningKey(key.key_id, "RS256")),
        "unknown key": good(issuer, SigningKey("unknown", "RS256")),
        "algorithm that is not allowed": good(issuer, issuer.keys["ES256"]),
        "none": encode(json.dumps({"alg": "none"}).encode()) + f".{body}.",
        "key confusion": confused,
        "changed": f"{parts[0]}.{body[:-4]}AAAA.{parts[2]}",
        "no signature": f"{parts[0]}.{parts[1]}.",
        "claims that are no object": sign(key, [1, 2]),
        "user that is no text": good(issuer, sub={"a": 1}),
        "garbage": "not.a.token",
    }
    for name, token in bad.items():
        reply = who.client(token).get("/version")
        assert (name, reply.status) == (name, 401)
        assert reply.json["message"] == "Unauthorized"
        assert "authenticated" not in who.review(token).json["status"], name
    assert who.status(good(issuer)) == 403, "known, and without rights"


def test_tokens_of_any_size_do_no_harm(who: Any, issuer: TestIssuer) -> None:
    for size in (10_000, 100_000):
        reply = who.review(good(issuer, junk="x" * size))
        assert reply.json["status"]["authenticated"]
        token = good(issuer, exp=5, junk="x" * size)
        assert "authenticated" not in who.review(token).json["status"]
    long = good(issuer, junk="x" * 1_000_000)  # more than the server reads of a token
    assert "authenticated" not in who.review(long).json["status"]
    big = good(issuer, junk="x" * 5_000_000)
    assert who.review(big).status in (201, 413)
    assert who.status(good(issuer)) == 403


def test_an_issuer_that_hangs_keeps_nobody_else_waiting(
    who: Any, issuer: TestIssuer, shard: ServerProcess
) -> None:
    release = threading.Event()
    before = issuer._key_set

    async def hang(received: Any) -> Any:
        import asyncio

        while not release.is_set():  # noqa: ASYNC110 - set by a thread
            await asyncio.sleep(0.02)
        return before(received)

    issuer.server.on(KEYS, hang)
    stuck = good(issuer, SigningKey("nobody", "RS256"))
    count = issuer.server.count(KEYS)
    replies: list[int] = []
    threads: list[threading.Thread] = []
    try:
        # until one of them makes the server fetch keys: there is a pause between fetches
        deadline = time.monotonic() + 20
        while issuer.server.count(KEYS) == count and time.monotonic() < deadline:
            one = threading.Thread(target=lambda: replies.append(who.status(stuck)))
            one.start()
            threads.append(one)
            one.join(0.5)
        assert issuer.server.count(KEYS) == count + 1
        assert threads[-1].is_alive(), "it waits for the keys"
        begin = time.monotonic()
        assert who.status(good(issuer)) == 403
        assert shard.client(cluster="root").get("/version").status == 200
        assert shard.client().get("/readyz").status == 200
        assert time.monotonic() - begin < 2
    finally:
        release.set()
        issuer.server.on(KEYS, before)
        for one in threads:
            one.join(30)
    assert set(replies) == {401}


def test_no_token_is_ever_logged(who: Any, issuer: TestIssuer, shard: ServerProcess) -> None:
    tokens = [good(issuer), good(issuer, exp=5), good(issuer, SigningKey("u", "RS256"))]
    for token in tokens:
        who.status(token)
        who.review(token)
    log = shard.log()
    assert "Unable to authenticate the request" in log
    assert "oidc: token is expired" in log, "but why they were refused is"
    for token in tokens:
        for part in (token, token.split(".")[1], token.split(".")[2]):
            assert part not in log


def _start(*flags: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "pykcp", "start", *flags],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


@pytest.mark.parametrize(
    ("flags", "told"),
    [
        (
            ["--oidc-issuer-url=https://x"],
            "oidc-issuer-url and oidc-client-id must be specified together when any oidc-* flags",
        ),
        (["--oidc-issuer-url=http://x", "--oidc-client-id=c"], "URL scheme must be https"),
        (
            ["--oidc-issuer-url=https://x", "--oidc-client-id=c", "--oidc-signing-algs=none"],
            'oidc: unsupported signing alg: "none"',
        ),
        (
            ["--oidc-issuer-url=https://kcp.default.svc", "--oidc-client-id=c"],
            "URL must not overlap with disallowed issuers: [https://kcp.default.svc]",
        ),
        (["--oidc-ca-file=/nowhere"], "--oidc-ca-file: no such file: /nowhere"),
        (
            ["--oidc-required-claim=x"],
            'invalid argument "x" for "--oidc-required-claim" flag: expected key=value',
        ),
    ],
)
def test_flags_that_make_no_sense_stop_the_start(
    tmp_path: Path, flags: list[str], told: str
) -> None:
    ended = _start(f"--root-directory={tmp_path}", "--secure-port=1", *flags)
    assert ended.returncode == 1
    assert told in ended.stderr


def test_base64_is_read_as_the_standard_says(who: Any, issuer: TestIssuer) -> None:
    """Padding is not part of a compact JWT; what has it is another token."""
    head, body, signature = good(issuer).split(".")
    padded = body + "=" * (-len(body) % 4)
    if padded == body:
        head, body, signature = good(issuer, x="y").split(".")
        padded = body + "=" * (-len(body) % 4)
    assert base64.urlsafe_b64decode(padded)
    assert who.status(f"{head}.{padded}.{signature}") == 401
    assert "authenticated" not in who.review(f"{head}.{padded}=.{signature}").json["status"]
