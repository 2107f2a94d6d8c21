"""The claims of service-account tokens."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pykcp.auth.tokens import Claims, unverified_claims
from pykcp.auth.user import service_account_name
from pykcp.machinery import meta
from pykcp.types import Object

DEFAULT_ISSUER = "https://kcp.default.svc"
LEGACY_ISSUER = "kubernetes/serviceaccount"
LEGACY_PREFIX = "kubernetes.io/serviceaccount/"


def bound_claims(
    service_account: Object,
    cluster: str,
    *,
    audiences: Sequence[str],
    now: float,
    expiration_seconds: int,
    token_id: str,
    secret: Object | None = None,
) -> Claims:
    """The claims of a TokenRequest's token; sign them with a TokenSigner."""
    namespace, name = meta.namespace(service_account), meta.name(service_account)
    issued = int(now)
    private: Claims = {
        "clusterName": cluster,
        "namespace": namespace,
        "serviceaccount": {"name": name, "uid": meta.uid(service_account)},
    }
    if secret is not None:
        private["secret"] = {"name": meta.name(secret), "uid": meta.uid(secret)}
    return {
        "aud": list(audiences),
        "exp": issued + expiration_seconds,
        "iat": issued,
        "jti": token_id,
        "kubernetes.io": private,
        "nbf": issued,
        "sub": service_account_name(namespace, name),
    }


def legacy_claims(service_account: Object, secret: Object, cluster: str) -> Claims:
    """The claims of a token that lies in a secret; the signer's issuer is LEGACY_ISSUER."""
    namespace, name = meta.namespace(service_account), meta.name(service_account)
    return {
        f"{LEGACY_PREFIX}clusterName": cluster,
        f"{LEGACY_PREFIX}namespace": namespace,
        f"{LEGACY_PREFIX}secret.name": meta.name(secret),
        f"{LEGACY_PREFIX}service-account.name": name,
        f"{LEGACY_PREFIX}service-account.uid": meta.uid(service_account),
        "sub": service_account_name(namespace, name),
    }


def cluster_of_token(token: str) -> str:
    """The logical cluster a token says it is from, unverified: for routing only; "" if none."""
    claims = unverified_claims(token)
    if claims is None:
        return ""
    private = claims.get("kubernetes.io")
    bound = text(private, "clusterName") if isinstance(private, dict) else ""
    return bound or text(claims, f"{LEGACY_PREFIX}clusterName")


def credential_id(token_id: str) -> str:
    """How a bound token is called in audit logs."""
    return f"JTI={token_id}" if token_id else ""


def text(claims: Any, key: str) -> str:
    """A claim that should be a string; "" if it is not there or something else."""
    value = claims.get(key) if isinstance(claims, dict) else None
    return value if isinstance(value, str) else ""
