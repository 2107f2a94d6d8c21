"""TokenRequest, answered and refused."""

from __future__ import annotations

from typing import Any

import pytest

from pykcp.auth import certificates
from pykcp.auth.token_request import (
    TokenPolicy,
    bound_secret_name,
    check_place,
    complete,
    issue,
    set_defaults,
)
from pykcp.auth.tokens import TokenSigner, TokenVerifier
from pykcp.machinery.status import BadRequest, NotFound, StatusError

NOW = 1_800_000_000.9
ACCOUNT = {"metadata": {"name": "bot", "namespace": "ns", "uid": "u1"}}
KIND = "TokenRequest.authentication.k8s.io"
SECRET = {"metadata": {"name": "s", "namespace": "ns", "uid": "u2"}}


@pytest.fixture(scope="module")
def signer() -> TokenSigner:
    return TokenSigner(certificates.key_pem(certificates._generate_key("ec")), "https://i")


def ask(
    signer: TokenSigner, spec: Any = None, secret: Any = None, limit: int = 0, **metadata: Any
) -> tuple[dict[str, Any], list[str]]:
    request = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest"}
    request |= {"metadata": metadata} | ({"spec": spec} if spec is not None else {})
    set_defaults(request)
    check_place(request, ACCOUNT["metadata"]["namespace"], ACCOUNT["metadata"]["name"])
    policy = TokenPolicy(signer, ("https://i",), limit)
    complete(policy, request, ACCOUNT, NOW)
    return issue(policy, request, ACCOUNT, "c1", secret=secret, now=NOW, token_id="id")


def test_defaults_are_the_servers_audience_and_an_hour(signer: TokenSigner) -> None:
    answered, warnings = ask(signer)
    token = answered["status"].pop("token")
    assert answered == {
        "apiVersion": "authentication.k8s.io/v1",
        "kind": "TokenRequest",
        "metadata": {
            "name": "bot", "namespace": "ns", "uid": "u1",
            "creationTimestamp": "2027-01-15T08:00:00Z",
        },
        "spec": {"audiences": ["https://i"], "expirationSeconds": 3600, "boundObjectRef": None},
        "status": {"expirationTimestamp": "2027-01-15T09:00:00Z"},
    }  # fmt: skip
    assert warnings == []
    claims = TokenVerifier([signer.verification_key]).verify(token)
    assert claims["exp"] - claims["iat"] == 3600
    assert claims["kubernetes.io"]["clusterName"] == "c1"


def test_what_is_asked_for_is_given(signer: TokenSigner) -> None:
    ref = {"apiVersion": "v1", "kind": "Secret", "name": "s", "uid": "u2"}
    spec = {"audiences": ["vault"], "expirationSeconds": 600, "boundObjectRef": ref}
    answered, _ = ask(signer, spec, SECRET)
    assert answered["spec"] == spec
    claims = TokenVerifier([signer.verification_key]).verify(answered["status"]["token"])
    assert claims["aud"] == ["vault"]
    assert claims["kubernetes.io"]["secret"] == {"name": "s", "uid": "u2"}


def test_long_lives_are_shortened_with_a_warning(signer: TokenSigner) -> None:
    answered, warnings = ask(signer, {"expirationSeconds": 7200}, limit=3600)
    assert answered["spec"]["expirationSeconds"] == 3600
    assert warnings == ["requested expiration of 7200 seconds shortened to 3600 seconds"]


@pytest.mark.parametrize(
    ("spec", "secret", "metadata", "code", "message"),
    [
        ({"expirationSeconds": 599}, None, {}, 422,
         (f'{KIND} "" is invalid: spec.expirationSeconds: Invalid value: '
         "599: may not specify a duration less than 10 minutes")),
        ({"expirationSeconds": 2**32 + 1}, None, {}, 422,
         (f'{KIND} "" is invalid: spec.expirationSeconds: Invalid value: '
         "4294967297: may not specify a duration larger than 2^32 seconds")),
        ({}, None, {"name": "other"}, 422,
         ('TokenRequest.authentication.k8s.io "bot" is invalid: metadata.name: Invalid value: '
         '"other": must match the service account name if specified')),
        ({}, None, {"namespace": "x"}, 422,
         ('TokenRequest.authentication.k8s.io "bot" is invalid: metadata.namespace: Invalid value: '
         '"x": must match the service account namespace if specified')),
        ({}, None, {"uid": "old"}, 409,
         ('Operation cannot be fulfilled on TokenRequest.authentication.k8s.io "bot": the UID in '
         "the token request (old) does not match the UID of the service account (u1)")),
        ({"boundObjectRef": {"kind": "Secret", "name": "s", "uid": "old"}}, SECRET, {}, 409,
         ('Operation cannot be fulfilled on Secret "s": the UID in the bound object reference '
          "(old) does not match the UID in record. The object might have been deleted and then "
          "recreated")),
    ],
)  # fmt: skip
def test_refusals(
    signer: TokenSigner, spec: Any, secret: Any, metadata: Any, code: int, message: str
) -> None:
    with pytest.raises(StatusError) as caught:
        ask(signer, spec, secret, **metadata)
    assert (caught.value.code, caught.value.message) == (code, message)


@pytest.mark.parametrize(
    ("ref", "name"),
    [
        (None, None),
        ({"apiVersion": "v1", "kind": "Secret", "name": "s"}, "s"),
    ],
)
def test_the_secret_to_bind_to(ref: Any, name: str | None) -> None:
    assert bound_secret_name({"spec": {"boundObjectRef": ref}}) == name


@pytest.mark.parametrize(
    ("ref", "message"),
    [
        ({"kind": "Secret"}, "Name parameter required."),
        ({}, "cannot bind token to object of type /, Kind="),
        ({"apiVersion": "v1", "kind": "ConfigMap"},
         "cannot bind token to object of type /v1, Kind=ConfigMap"),
        ({"apiVersion": "apps/v1", "kind": "Secret"},
         "cannot bind token to object of type apps/v1, Kind=Secret"),
    ],
)  # fmt: skip
def test_nothing_else_can_be_bound_to(ref: Any, message: str) -> None:
    with pytest.raises(BadRequest) as caught:
        bound_secret_name({"spec": {"boundObjectRef": ref}})
    assert caught.value.message == message


@pytest.mark.parametrize(("kind", "resource"), [("Pod", "pods"), ("Node", "nodes")])
def test_there_are_neither_pods_nor_nodes(kind: str, resource: str) -> None:
    with pytest.raises(NotFound) as caught:
        bound_secret_name({"spec": {"boundObjectRef": {"kind": kind, "name": "x"}}})
    assert caught.value.message == f'{resource} "x" not found'
