"""Bootstrap tokens: `<id>.<secret>`, stored in secrets `bootstrap-token-<id>` of kube-system.

kcp reads them in `system:admin` only, and they are valid in all logical clusters. Here a logical
cluster may have its own, too: such a token is valid in this cluster only, by the same scope that
ties service accounts to their cluster.
"""

from __future__ import annotations

import base64
import binascii
import hmac
import logging
import re
from collections.abc import Sequence
from math import inf
from typing import Protocol

from pykcp.auth.authn.interface import Authenticated, common_audiences
from pykcp.auth.user import CLUSTER_NAME_KEY, CLUSTER_SCOPE, SCOPES_KEY, User
from pykcp.machinery import meta
from pykcp.types import Object

_log = logging.getLogger(__name__)
SECRET_TYPE = "bootstrap.kubernetes.io/token"  # noqa: S105
NAMESPACE = "kube-system"
SECRET_PREFIX = "bootstrap-token-"  # noqa: S105
USER_PREFIX = "system:bootstrap:"
DEFAULT_GROUP = "system:bootstrappers"
HOME = "system:admin"
"""The logical cluster whose tokens are good everywhere."""

_RFC3339 = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)")
_TOKEN = re.compile(r"([a-z0-9]{6})\.([a-z0-9]{16})")
_GROUP_PATTERN = r"\Asystem:bootstrappers:[a-z0-9:-]{0,255}[a-z0-9]\z"
_GROUP = re.compile(r"system:bootstrappers:[a-z0-9:-]{0,255}[a-z0-9]")


class SecretLookup(Protocol):
    async def secret(self, cluster: str, namespace: str, name: str) -> Object | None: ...


class BootstrapTokens:
    def __init__(self, lookup: SecretLookup, api_audiences: Sequence[str]) -> None:
        self._lookup = lookup
        self._api_audiences = tuple(api_audiences)

    async def authenticate(
        self, token: str, audiences: Sequence[str], cluster: str, now: float
    ) -> Authenticated | None:
        matched = _TOKEN.fullmatch(token)
        common = common_audiences(self._api_audiences, audiences)
        if matched is None or common is None:
            return None
        token_id, secret_part = matched.groups()
        for home in dict.fromkeys((HOME, cluster)):
            if not home or home == "*":
                continue
            secret = await self._lookup.secret(home, NAMESPACE, SECRET_PREFIX + token_id)
            if secret is None:
                continue
            found = bootstrapper(secret, token_id, secret_part, now)
            if found is None:
                continue
            user, expires = found
            if home == HOME:
                return Authenticated(user, common, expires)
            extra = {CLUSTER_NAME_KEY: (home,), SCOPES_KEY: (CLUSTER_SCOPE + home,)}
            tied = User(user.name, user.uid, user.groups, extra)
            return Authenticated(tied, common, expires, is_portable=False)
        return None


def bootstrapper(
    secret: Object, token_id: str, secret_part: str, now: float
) -> tuple[User, float] | None:
    """The user of this token and its expiry, from this secret; None and a log line if it is invalid."""
    problem = _problem(secret, token_id, secret_part)
    expires = _expiration(secret)
    if not problem and expires <= now:
        problem = "is expired."
    groups: list[str] = []
    if not problem:
        groups, problem = _groups(secret)
    if problem:
        where = f"{meta.namespace(secret)}/{meta.name(secret)}"
        _log.debug("Bootstrap secret %s matching bearer token %s", where, problem)
        return None
    return User(USER_PREFIX + token_id, groups=tuple(groups)), expires


def _problem(secret: Object, token_id: str, secret_part: str) -> str:
    if meta.is_deleting(secret):
        return "is deleted and awaiting removal"
    if secret.get("type") != SECRET_TYPE or not secret.get("data"):
        return f"has invalid type, expected {SECRET_TYPE}."
    if not hmac.compare_digest(_data(secret, "token-secret"), secret_part.encode()):
        return "has invalid value for key token-secret."
    if _data(secret, "token-id") != token_id.encode():
        return "has invalid value for key token-id."
    if _data(secret, "usage-bootstrap-authentication") != b"true":
        return "not marked usage-bootstrap-authentication=true."
    return ""


def _expiration(secret: Object) -> float:
    """When it ends; 0 (long ago) if that cannot be read."""
    text = _data(secret, "expiration").decode(errors="replace")
    if not text:
        return inf
    if not _RFC3339.fullmatch(text):
        return 0.0
    try:
        return meta.parse_rfc3339(text)
    except ValueError:
        return 0.0


def _groups(secret: Object) -> tuple[list[str], str]:
    """The groups, or what is wrong with them."""
    groups = {DEFAULT_GROUP}
    text = _data(secret, "auth-extra-groups").decode(errors="replace")
    for group in text.split(",") if text else ():
        if not _GROUP.fullmatch(group):
            why = f'bootstrap group "{group}" is invalid (must match {_GROUP_PATTERN})'
            return [], f"has invalid value for key auth-extra-groups: {why}."
        groups.add(group)
    return sorted(groups), ""


def _data(secret: Object, key: str) -> bytes:
    try:
        return base64.b64decode((secret.get("data") or {}).get(key) or "")
    except (binascii.Error, ValueError):
        return b""
