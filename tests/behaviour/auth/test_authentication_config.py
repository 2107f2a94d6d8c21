"""`--authentication-config`: several issuers, rules and mappings in CEL, reload, anonymous paths."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from pykcp.testing.issuer import AUDIENCE, DISCOVERY, SigningKey, TestIssuer
from pykcp.testing.server import ServerProcess, server


@pytest.fixture(scope="module")
def other() -> Iterator[TestIssuer]:
    made = TestIssuer("ES256", "EdDSA")
    yield made
    made.close()


def plain(issuer: TestIssuer, prefix: str = "") -> dict[str, Any]:
    return {
        "issuer": {
            "url": issuer.url,
            "audiences": [AUDIENCE],
            "certificateAuthority": issuer.ca,
        },
        "claimMappings": {"username": {"claim": "sub", "prefix": prefix}},
    }


def by_expression(issuer: TestIssuer) -> dict[str, Any]:
    return {
        "issuer": {
            "url": issuer.url,
            "audiences": ["first", AUDIENCE],
            "audienceMatchPolicy": "MatchAny",
            "certificateAuthority": issuer.ca,
        },
        "claimValidationRules": [
            {"expression": "claims.exp - claims.iat <= 86400", "message": "one day at most"},
            {"claim": "hd", "requiredValue": "example.com"},
        ],
        "claimMappings": {
            "username": {"expression": "claims.org__dot__id + ':' + claims.sub"},
            "groups": {"expression": "claims.?roles.orValue([]).map(r, 'role:' + r)"},
            "uid": {"claim": "sub"},
            "extra": [{"key": "example.com/tenant", "valueExpression": "claims.org__dot__id"}],
        },
        "userValidationRules": [
            {
                "expression": "!user.groups.exists(g, g.startsWith('role:system'))",
                "message": "reserved",
            }
        ],
    }


def document(*jwts: dict[str, Any], version: str = "v1beta1", **more: Any) -> str:
    return yaml.safe_dump(
        {
            "apiVersion": f"apiserver.config.k8s.io/{version}",
            "kind": "AuthenticationConfiguration",
            "jwt": list(jwts),
            **more,
        }
    )


@pytest.fixture(scope="module")
def config(issuer: TestIssuer, other: TestIssuer, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("config") / "authn.yaml"
    path.write_text(document(plain(issuer, "one:"), by_expression(other)))
    return path


@pytest.fixture(scope="module")
def shard(config: Path) -> Iterator[ServerProcess]:
    with server(f"--authentication-config={config}") as process:
        yield process


@pytest.fixture
def who(
    shard: ServerProcess,
    asking: Callable[[ServerProcess], Any],
    issuer: TestIssuer,
    other: TestIssuer,
) -> Any:
    found = asking(shard)
    found.until_accepted(issuer.token())
    found.until_accepted(of_other(other))
    return found


def of_other(other: TestIssuer, **changes: Any) -> str:
    return other.token(**{"hd": "example.com", "org.id": "acme", **changes})


def test_every_issuer_has_its_own_rules(who: Any, issuer: TestIssuer, other: TestIssuer) -> None:
    assert who.user(issuer.token())["username"] == "one:alice"
    user = who.user(of_other(other, roles=["dev"], aud="first"))
    assert user == {
        "username": "acme:alice",
        "uid": "alice",
        "groups": ["role:dev", "system:authenticated"],
        "extra": {"example.com/tenant": ["acme"]},
    }
    newer = of_other(other, sub="bob")
    assert who.user(newer)["username"] == "acme:bob"


def test_every_algorithm_counts_when_the_file_decides(
    who: Any, issuer: TestIssuer, other: TestIssuer
) -> None:
    for key in issuer.keys.values():
        assert who.user(issuer.token(key))["username"] == "one:alice"
    changes = {"hd": "example.com", "org.id": "acme"}
    assert who.user(other.token(other.keys["EdDSA"], **changes))["username"] == "acme:alice"


def test_rules_refuse(who: Any, other: TestIssuer) -> None:
    now = int(time.time())
    for changes in (
        {"hd": "evil.com"},
        {"hd": None},
        {"iat": now, "exp": now + 100_000},
        {"roles": ["system:masters"]},
        {"roles": 5},
        {"org.id": None},
        {"aud": "second"},
    ):
        assert (changes, who.status(of_other(other, **changes))) == (changes, 401)


def test_a_token_of_one_issuer_is_not_good_at_the_other(
    who: Any, issuer: TestIssuer, other: TestIssuer
) -> None:
    key = next(iter(other.keys.values()))
    assert who.status(issuer.token(key)) == 401
    assert who.status(issuer.token(SigningKey("key-ES256", "ES256"))) == 401


def test_the_file_is_followed(
    who: Any, config: Path, issuer: TestIssuer, other: TestIssuer, shard: ServerProcess
) -> None:
    good = config.read_text()
    try:
        config.write_text(document(plain(issuer, "new:"), by_expression(other)))
        who.until(lambda: who.user(issuer.token())["username"] == "new:alice", "a new prefix")
        assert who.user(of_other(other))["username"] == "acme:alice"
        assert "reloaded authentication config" in shard.log()

        config.write_text(document(plain(issuer, "new:")))
        who.until(lambda: who.status(of_other(other)) == 401, "an issuer is gone")
        assert who.status(issuer.token()) == 403
    finally:
        config.write_text(good)
    who.until(lambda: who.status(of_other(other)) == 403, "an issuer is back")
    who.until(lambda: who.user(issuer.token())["username"] == "one:alice", "the old prefix")


@pytest.mark.parametrize(
    ("broken", "told"),
    [
        ("a: [", "yaml: line"),
        ("", "empty config data"),
        ("kind: Pod\napiVersion: v1\n", 'no kind "Pod" is registered'),
        (document({"issuer": {"url": "http://x"}}), "URL scheme must be https"),
        (document({"issuers": {}}), 'unknown field "jwt[0].issuers"'),
        (document(anonymous={"enabled": False}), "changed from initial configuration file"),
    ],
)
def test_a_broken_file_changes_nothing(
    who: Any, config: Path, issuer: TestIssuer, shard: ServerProcess, broken: str, told: str
) -> None:
    good = config.read_text()
    seen = shard.log().count(told)
    try:
        config.write_text(broken)
        who.until(lambda: shard.log().count(told) > seen, told)
        assert "keeping the old one" in shard.log()
        assert who.user(issuer.token())["username"] == "one:alice"
    finally:
        done = shard.log().count("reloaded authentication config")
        config.write_text(good)
    who.until(lambda: shard.log().count("reloaded authentication config") > done, "it is mended")
    assert who.user(issuer.token())["username"] == "one:alice"


def test_a_new_issuer_that_cannot_be_reached_changes_nothing_yet(
    who: Any, config: Path, issuer: TestIssuer, other: TestIssuer
) -> None:
    good = config.read_text()
    late = TestIssuer("ES256")
    late.server.on(DISCOVERY, lambda _: b"not yet")
    try:
        config.write_text(document(plain(issuer, "late:"), plain(late, "late:")))
        who.until(lambda: late.server.count(DISCOVERY), "it was tried")
        assert who.user(issuer.token())["username"] == "one:alice"
        assert who.user(of_other(other))["username"] == "acme:alice"
        late.server.on(DISCOVERY, late._discovery)
        who.until(lambda: "authenticated" in who.review(late.token()).json["status"], "reached")
        assert who.user(issuer.token())["username"] == "late:alice"
    finally:
        config.write_text(good)
        who.until(lambda: who.user(issuer.token())["username"] == "one:alice", "as before")
        late.close()


# --- anonymous ----------------------------------------------------------------


@pytest.fixture(scope="module")
def half_open(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    path = tmp_path_factory.mktemp("config") / "authn.yaml"
    conditions = [{"path": "/livez"}, {"path": "/readyz"}]
    path.write_text(document(version="v1", anonymous={"enabled": True, "conditions": conditions}))
    with server(f"--authentication-config={path}") as process:
        yield process


def test_only_named_paths_are_anonymous(half_open: ServerProcess) -> None:
    nobody = half_open.client().with_token("")
    assert nobody.get("/livez").status == 200
    assert nobody.get("/readyz").status == 200
    assert nobody.get("/healthz").status == 401
    assert nobody.get("/clusters/root/api/v1/namespaces").status == 401


def _start(*flags: str) -> str:
    ended = subprocess.run(
        [sys.executable, "-m", "pykcp", "start", *flags],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert ended.returncode == 1
    return ended.stderr


def test_files_that_make_no_sense_stop_the_start(tmp_path: Path, issuer: TestIssuer) -> None:
    path = tmp_path / "authn.yaml"
    flags = (f"--root-directory={tmp_path}/.kcp", f"--authentication-config={path}")
    assert f"--authentication-config: no such file: {path}" in _start(*flags)
    path.write_text("kind: Pod\napiVersion: v1\n")
    assert (
        f'Error: --authentication-config: failed to load authentication configuration from file "{path}": '
        'no kind "Pod" is registered for version "v1"'
    ) in _start(*flags)
    path.write_text(document(plain(issuer), plain(issuer)))
    assert "jwt[1].issuer.url: Duplicate value" in _start(*flags)
    path.write_text(document(anonymous={"enabled": False}))
    assert (
        "anonymous: Forbidden: --anonymous-auth flag cannot be set when anonymous field is "
        "configured in authentication configuration file"
    ) in _start(*flags, "--anonymous-auth=true")
    assert ("authentication-config file and oidc-* flags are mutually exclusive") in _start(
        *flags, "--oidc-client-id=x"
    )
