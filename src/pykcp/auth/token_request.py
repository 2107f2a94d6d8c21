"""TokenRequest: issues a token for a service account."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pykcp.auth.claims import bound_claims
from pykcp.auth.tokens import TokenSigner
from pykcp.machinery import meta
from pykcp.machinery.status import BadRequest, Conflict, FieldError, Invalid, NotFound, invalid
from pykcp.types import Object

_GROUP, _KIND = "authentication.k8s.io", "TokenRequest"
_ABSENT = {"Pod": "pods", "Node": "nodes"}
_DEFAULT_SECONDS = 3600
_MIN_SECONDS, _MAX_SECONDS = 600, 1 << 32


@dataclass(frozen=True, slots=True)
class TokenPolicy:
    """How a server issues tokens."""

    signer: TokenSigner
    api_audiences: tuple[str, ...]
    max_seconds: int = 0
    """Longer requests are shortened, with a warning; 0: no limit."""


def set_defaults(request: Object) -> None:
    spec = request["spec"] = request.get("spec") or {}
    if spec.get("expirationSeconds") is None:
        spec["expirationSeconds"] = _DEFAULT_SECONDS


def bound_secret_name(request: Object) -> str | None:
    """The secret a request wants its token bound to; None if to nothing.

    Raises NotFound for pods and nodes, of which there are none, and BadRequest for the rest.
    """
    ref = (request.get("spec") or {}).get("boundObjectRef")
    if ref is None:
        return None
    version, kind = ref.get("apiVersion") or "", ref.get("kind") or ""
    group, slash, short = version.rpartition("/")
    name: str = ref.get("name") or ""
    if not group and kind == "Secret":
        if not name:
            raise BadRequest("Name parameter required.")
        return name
    if not group and kind in _ABSENT:
        raise NotFound.resource("", _ABSENT[kind], name)
    shown = f"{group}/{short}" if slash else f"/{short}"
    raise BadRequest(f"cannot bind token to object of type {shown}, Kind={kind}")


def issue(
    policy: TokenPolicy,
    request: Object,
    service_account: Object,
    cluster: str,
    *,
    secret: Object | None,
    now: float,
    token_id: str,
) -> tuple[Object, list[str]]:
    """The answer to a TokenRequest that is complete, and warnings. Raises Conflict."""
    spec = dict(request.get("spec") or {})
    audiences: Sequence[str] = spec["audiences"]
    seconds = spec["expirationSeconds"]
    if secret is not None:
        _check_bound(spec["boundObjectRef"], secret)
    warnings: list[str] = []
    if 0 < policy.max_seconds < seconds:
        warnings.append(
            f"requested expiration of {seconds} seconds shortened to {policy.max_seconds} seconds"
        )
        seconds = policy.max_seconds
    claims = bound_claims(
        service_account, cluster, audiences=audiences, now=now, expiration_seconds=seconds,
        token_id=token_id, secret=secret,
    )  # fmt: skip
    answered = dict(request)
    bound = spec.get("boundObjectRef")
    answered["spec"] = {
        "audiences": list(audiences), "expirationSeconds": seconds, "boundObjectRef": bound or None,
    }  # fmt: skip
    expires = meta.now_rfc3339(int(now) + seconds)
    answered["status"] = {"token": policy.signer.sign(claims), "expirationTimestamp": expires}
    return answered, warnings


def check_place(request: Object, namespace: str, name: str) -> None:
    """Name and namespace, if given, are those of the service account in the URL. Raises Invalid."""
    given = request.get("metadata") or {}
    for key, own in (("name", name), ("namespace", namespace)):
        value = given.get(key)
        if value and value != own:
            why = f"must match the service account {key} if specified"
            raise Invalid.fields(_GROUP, _KIND, name, [invalid(f"metadata.{key}", value, why)])


def complete(policy: TokenPolicy, request: Object, account: Object, now: float) -> None:
    """Fill in what validating admission is to see, before the bound object is looked for.

    Raises Invalid or Conflict.
    """
    uid = (request.get("metadata") or {}).get("uid")
    if uid and uid != meta.uid(account):
        why = (
            f"the UID in the token request ({uid}) does not match the UID of the service account "
            f"({meta.uid(account)})"
        )
        raise Conflict.resource(_GROUP, _KIND, meta.name(account), why)
    spec = request["spec"]
    if not spec.get("audiences"):
        spec["audiences"] = list(policy.api_audiences)
    request["metadata"] = {
        **(request.get("metadata") or {}),
        "name": meta.name(account),
        "namespace": meta.namespace(account),
        "uid": meta.uid(account),
        "creationTimestamp": meta.now_rfc3339(now),
    }
    request["status"] = {"token": "", "expirationTimestamp": None}
    if errors := _duration_errors(spec["expirationSeconds"]):
        raise Invalid.fields(_GROUP, _KIND, "", errors)


def _duration_errors(seconds: int) -> list[FieldError]:
    path = "spec.expirationSeconds"
    if seconds < _MIN_SECONDS:
        return [invalid(path, seconds, "may not specify a duration less than 10 minutes")]
    if seconds > _MAX_SECONDS:
        return [invalid(path, seconds, "may not specify a duration larger than 2^32 seconds")]
    return []


def _check_bound(ref: Object, secret: Object) -> None:
    uid = ref.get("uid")
    if uid and uid != meta.uid(secret):
        why = (
            f"the UID in the bound object reference ({uid}) does not match the UID in record. "
            "The object might have been deleted and then recreated"
        )
        raise Conflict.resource("", "Secret", ref.get("name") or "", why)
