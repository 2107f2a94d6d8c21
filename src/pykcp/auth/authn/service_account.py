"""Service-account tokens: bound ones (TokenRequest) and those stored in secrets.

Both contain the logical cluster that issued them. A valid signature is not sufficient: the
service account, and the object the token is bound to, must still exist with the same UID.
"""

from __future__ import annotations

import base64
import binascii
import hmac
from collections.abc import Callable, Sequence
from math import inf
from typing import Protocol

from pykcp.auth.authn.interface import Authenticated, CredentialRejected
from pykcp.auth.claims import LEGACY_ISSUER, LEGACY_PREFIX, credential_id, text
from pykcp.auth.tokens import Claims, TokenError, TokenVerifier, unverified_claims
from pykcp.auth.user import CREDENTIAL_ID_KEY, service_account_user, split_service_account
from pykcp.machinery import meta
from pykcp.machinery.status import go_quote
from pykcp.types import Object

LEEWAY = 60.0
"""Seconds by which clocks may differ."""
INVALID_SINCE_LABEL = "kubernetes.io/legacy-token-invalid-since"
LAST_USED_LABEL = "kubernetes.io/legacy-token-last-used"

_NOTE = "authentication.k8s.io/legacy-token"
_INVALIDATED = "service account token has been invalidated"
_AUTO_GENERATED_WARNING = (
    "Use tokens from the TokenRequest API or manually created secret-based tokens instead of "
    "auto-generated secret-based tokens."
)


class AccountLookup(Protocol):
    """Reads the objects a token depends on, wherever their logical cluster lives."""

    async def service_account(self, cluster: str, namespace: str, name: str) -> Object | None: ...

    async def secret(self, cluster: str, namespace: str, name: str) -> Object | None: ...


class _Tokens:
    """What both kinds have in common: issuer, signature, audience."""

    def __init__(
        self, issuers: Sequence[str], verifier: TokenVerifier, api_audiences: Sequence[str]
    ) -> None:
        self._issuers = frozenset(issuers)
        self._verifier = verifier
        self._api_audiences = tuple(api_audiences)

    def _claims(self, token: str) -> Claims | None:
        """The verified claims; None if another issuer issued the token."""
        claimed = unverified_claims(token)
        if claimed is None or claimed.get("iss") not in self._issuers:
            return None
        try:
            return self._verifier.verify(token)
        except TokenError as error:
            raise CredentialRejected(str(error)) from error

    def _audiences(self, claims: Claims, requested: Sequence[str]) -> tuple[str, ...]:
        claimed = claims.get("aud") or []
        held = [claimed] if isinstance(claimed, str) else claimed
        if not held:  # tokens of old have none, and are for this server only
            held = self._api_audiences
        wanted = requested or self._api_audiences
        acceptable = frozenset(wanted)
        common = tuple(audience for audience in held if audience in acceptable)
        if not common and self._api_audiences:
            raise CredentialRejected(
                f"token audiences {_quoted(held)} is invalid for the target audiences "
                f"{_quoted(wanted)}"
            )
        return common


class BoundTokens(_Tokens):
    """Tokens that expire and may be bound to a secret."""

    def __init__(
        self,
        issuers: Sequence[str],
        verifier: TokenVerifier,
        api_audiences: Sequence[str],
        lookup: AccountLookup | None,
    ) -> None:
        """Without a `lookup` the claims are believed (`--service-account-lookup=false`)."""
        super().__init__(issuers, verifier, api_audiences)
        self._lookup = lookup

    async def authenticate(
        self, token: str, audiences: Sequence[str], cluster: str, now: float
    ) -> Authenticated | None:
        del cluster  # the token says where it comes from
        claims = self._claims(token)
        if claims is None:
            return None
        common = self._audiences(claims, audiences)
        expires = _check_times(claims, now)
        private = claims.get("kubernetes.io")
        private = private if isinstance(private, dict) else {}
        home, namespace = text(private, "clusterName"), text(private, "namespace")
        account = _ref(private, "serviceaccount")
        if self._lookup is not None:
            await self._check_account(home, namespace, account, now)
            await self._check_bound(home, namespace, private, now)
        more = {CREDENTIAL_ID_KEY: credential_id(text(claims, "jti"))}
        more |= _bound_names(private)
        name, uid = text(account, "name"), text(account, "uid")
        return Authenticated(
            service_account_user(home, namespace, name, uid, more), common, expires
        )

    async def _check_account(self, home: str, namespace: str, account: Object, now: float) -> None:
        assert self._lookup is not None
        name, uid = text(account, "name"), text(account, "uid")
        found = await self._lookup.service_account(home, namespace, name)
        if found is None:
            raise CredentialRejected(f"serviceaccounts {go_quote(name)} not found")
        if meta.uid(found) != uid:
            raise CredentialRejected(
                f"service account UID ({meta.uid(found)}) does not match claim ({uid})"
            )
        if _is_gone(found, now):
            raise CredentialRejected(f"service account {namespace}/{name} has been deleted")

    async def _check_bound(self, home: str, namespace: str, private: Object, now: float) -> None:
        assert self._lookup is not None
        if private.get("pod") or private.get("node"):
            raise CredentialRejected(_INVALIDATED)  # there are neither pods nor nodes here
        secret_ref = private.get("secret")
        if not secret_ref:
            return
        name, uid = text(secret_ref, "name"), text(secret_ref, "uid")
        secret = await self._lookup.secret(home, namespace, name)
        if secret is None:
            raise CredentialRejected(_INVALIDATED)
        if meta.uid(secret) != uid:
            raise CredentialRejected(
                f"secret UID ({meta.uid(secret)}) does not match service account secret ref "
                f"claim ({uid})"
            )
        if _is_gone(secret, now):
            raise CredentialRejected(_INVALIDATED)


class SecretTokens(_Tokens):
    """Tokens of old, that live as long as the secret they lie in."""

    def __init__(
        self,
        verifier: TokenVerifier,
        api_audiences: Sequence[str],
        lookup: AccountLookup | None,
        on_use: Callable[[str, Object], None] | None = None,
    ) -> None:
        """`on_use` is called with the cluster and secret of every used token, to update its label."""
        super().__init__([LEGACY_ISSUER], verifier, api_audiences)
        self._lookup, self._on_use = lookup, on_use

    async def authenticate(
        self, token: str, audiences: Sequence[str], cluster: str, now: float
    ) -> Authenticated | None:
        del cluster, now  # it says where it comes from, and does not expire
        claims = self._claims(token)
        if claims is None:
            return None
        notes: dict[str, str] = {}
        if not claims.get("aud"):
            notes[_NOTE] = text(claims, "sub")
        try:
            common = self._audiences(claims, audiences)
            names = _legacy_names(claims)
            home = text(claims, f"{LEGACY_PREFIX}clusterName")
            warnings: tuple[str, ...] = ()
            if self._lookup is not None:
                warnings = await self._check(self._lookup, token, home, names, notes)
        except CredentialRejected as error:
            error.annotations = tuple(notes.items())
            raise
        user = service_account_user(home, names["namespace"], names["account"], names["uid"])
        annotations = tuple(notes.items())
        return Authenticated(user, common, warnings=warnings, annotations=annotations)

    async def _check(
        self,
        lookup: AccountLookup,
        token: str,
        home: str,
        names: dict[str, str],
        notes: dict[str, str],
    ) -> tuple[str, ...]:
        """Warnings; `notes` gets annotations for the audit event."""
        namespace, account_name, secret_name = names["namespace"], names["account"], names["secret"]
        secret = await lookup.secret(home, namespace, secret_name)
        if secret is None or meta.is_deleting(secret):
            raise CredentialRejected("Token has been invalidated")
        if not hmac.compare_digest(_secret_token(secret), token.encode()):
            raise CredentialRejected("Token does not match server's copy")
        account = await lookup.service_account(home, namespace, account_name)
        if account is None:
            raise CredentialRejected(f"serviceaccounts {go_quote(account_name)} not found")
        if meta.is_deleting(account):
            raise CredentialRejected(f"ServiceAccount {namespace}/{account_name} has been deleted")
        if meta.uid(account) != names["uid"]:
            raise CredentialRejected(
                f"ServiceAccount UID ({meta.uid(account)}) does not match claim ({names['uid']})"
            )
        if self._on_use is not None:
            self._on_use(home, secret)
        if meta.labels(secret).get(INVALID_SINCE_LABEL):
            notes[f"{_NOTE}-invalidated"] = f"{secret_name}/{namespace}"
            raise CredentialRejected(
                f"the token in secret {namespace}/{secret_name} for service account "
                f"{namespace}/{account_name} has been marked invalid. Use tokens from the "
                "TokenRequest API or manually created secret-based tokens, or remove the "
                f"'{INVALID_SINCE_LABEL}' label from the secret to temporarily allow use of this "
                "token"
            )
        listed = [ref.get("name") for ref in account.get("secrets") or ()]
        is_generated = secret_name in listed
        notes[f"{_NOTE}-{'autogenerated' if is_generated else 'manual'}-secret"] = secret_name
        return (_AUTO_GENERATED_WARNING,) if is_generated else ()


# --- claims -------------------------------------------------------------------


def _legacy_names(claims: Claims) -> dict[str, str]:
    """Namespace, secret, account and uid, all there and fitting the subject."""
    subject = text(claims, "sub")
    if not subject:
        raise CredentialRejected("sub claim is missing")
    names: dict[str, str] = {}
    for key, claim, label in (
        ("namespace", "namespace", "namespace"),
        ("secret", "secret.name", "secretName"),
        ("account", "service-account.name", "serviceAccountName"),
        ("uid", "service-account.uid", "serviceAccountUID"),
    ):
        names[key] = text(claims, LEGACY_PREFIX + claim)
        if not names[key]:
            raise CredentialRejected(f"{label} claim is missing")
    if split_service_account(subject) != (names["namespace"], names["account"]):
        raise CredentialRejected("sub claim is invalid")
    return names


def _check_times(claims: Claims, now: float) -> float:
    """When the token ends (`inf` if never). Raises Rejected."""
    expires, not_before, issued = (_number(claims, key) for key in ("exp", "nbf", "iat"))
    if not_before is not None and now + LEEWAY < not_before:
        raise CredentialRejected("service account token is not valid yet")
    if expires is not None and now - LEEWAY > expires:
        raise CredentialRejected("service account token has expired")
    if issued is not None and now + LEEWAY < issued:
        raise CredentialRejected("service account token is issued in the future")
    return inf if expires is None else expires + LEEWAY


def _bound_names(private: Object) -> dict[str, str]:
    """Extra for tokens bound to a pod or node; only believed without a lookup."""
    pod, node = _ref(private, "pod"), _ref(private, "node")
    prefix = "authentication.kubernetes.io/"
    more: dict[str, str] = {}
    if text(pod, "name") and text(pod, "uid"):
        more |= {f"{prefix}pod-name": text(pod, "name"), f"{prefix}pod-uid": text(pod, "uid")}
    if text(node, "name"):
        more |= {f"{prefix}node-name": text(node, "name"), f"{prefix}node-uid": text(node, "uid")}
    return more


def _is_gone(obj: Object, now: float) -> bool:
    deleted = meta.deletion_timestamp(obj)
    return bool(deleted) and meta.parse_rfc3339(deleted) < now - LEEWAY


def _secret_token(secret: Object) -> bytes:
    try:
        return base64.b64decode((secret.get("data") or {}).get("token") or "")
    except binascii.Error:
        return b""


def _number(claims: Claims, key: str) -> float | None:
    value = claims.get(key)
    if not value:
        return None  # as upstream: zero is as good as absent
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise CredentialRejected("service account token claims could not be validated")
    return float(value)


def _ref(private: Object, key: str) -> Object:
    value = private.get(key)
    return value if isinstance(value, dict) else {}


_SHOWN = 20


def _quoted(values: Sequence[str]) -> str:
    return "[" + " ".join(go_quote(value) for value in values[:_SHOWN]) + "]"
