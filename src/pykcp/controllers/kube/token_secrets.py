"""Secrets of type service-account-token: adds the token, and deletes them with their account.

A secret names its account in an annotation. If it also says the account's uid, it belongs to
that very account and not to a later one of the same name.
"""

from __future__ import annotations

import base64
from collections.abc import Callable
from typing import NamedTuple, TypeAlias

from pykcp.clients.interface import Change, Client, Feed, Lister
from pykcp.controllers.runtime.controller import Controller
from pykcp.controllers.runtime.metrics import ControllerMetrics
from pykcp.machinery import meta
from pykcp.machinery.metadata import metadata_of
from pykcp.machinery.object_keys import ObjectKey
from pykcp.machinery.resources import NAMESPACES, SECRETS, SERVICE_ACCOUNTS
from pykcp.machinery.status import Conflict, NotFound
from pykcp.machinery.terms import field_term
from pykcp.registry.codec import decode
from pykcp.types import Object

NAME = "tokens-controller"
TYPE = "kubernetes.io/service-account-token"
NAME_ANNOTATION = "kubernetes.io/service-account.name"
UID_ANNOTATION = "kubernetes.io/service-account.uid"
_TYPE_TERM = field_term("type", TYPE)
_GATHER = 0.02
"""Seconds to wait for more deletions of accounts: a thousand are not a thousand searches."""

Sign: TypeAlias = Callable[[Object, Object, str], str]
"""Service account, secret and logical cluster to a token."""


class GoneAccounts(NamedTuple):
    """A namespace in which accounts were deleted; their secrets are searched for together."""

    cluster: str
    namespace: str


class SecretKey(NamedTuple):
    """A secret and the account it named: enough to act when the secret is gone."""

    cluster: str
    namespace: str
    name: str
    uid: str
    account: str
    account_uid: str


class TokenSecrets:
    def __init__(
        self,
        lister: Lister,
        client: Client,
        sign: Sign,
        ca_bundle: str,
        metrics: ControllerMetrics | None = None,
    ) -> None:
        self._lister, self._client, self._sign = lister, client, sign
        self._ca = base64.b64encode(ca_bundle.encode()).decode()
        self._gone: dict[GoneAccounts, dict[str, str]] = {}
        """Names of deleted accounts by their uids."""
        self.controller: Controller[GoneAccounts | SecretKey] = Controller(
            NAME, self.reconcile, metrics=metrics
        )

    def follow(self, feed: Feed) -> None:
        feed.on(SECRETS, self._on_secret)
        feed.on(SERVICE_ACCOUNTS, self._on_account)

    def _on_secret(self, change: Change) -> None:
        if _TYPE_TERM in change.terms:
            self.controller.add(_secret_key(change.cluster, decode(change.value)))

    def _on_account(self, change: Change) -> None:
        if change.deleted:
            cluster, namespace, name = change.key
            if not self._lister.has(cluster, NAMESPACES, namespace):
                return  # all that was in it is gone, too
            key = GoneAccounts(cluster, namespace)
            self._gone.setdefault(key, {})[metadata_of(change.value).uid] = name
            self.controller.add_after(key, _GATHER)

    async def look_at(self, namespace: ObjectKey) -> None:
        """Look at all token secrets of a namespace: the CA in them may be an old one."""
        for secret in await self._tokens(namespace.cluster, namespace.name):
            self.controller.add(_secret_key(namespace.cluster, secret))

    async def _tokens(self, cluster: str, namespace: str) -> list[Object]:
        return await self._client.list(cluster, SECRETS, namespace, fields=f"type={TYPE}")

    async def reconcile(self, key: GoneAccounts | SecretKey) -> None:
        if isinstance(key, GoneAccounts):
            await self._after_accounts(key)
        elif key.account:
            await self._secret(key)

    async def _after_accounts(self, key: GoneAccounts) -> None:
        """Accounts are gone: so are their tokens."""
        gone = dict(self._gone.get(key, {}))
        for secret in await self._tokens(key.cluster, key.namespace):
            own = _secret_key(key.cluster, secret)
            if own.account_uid in gone and gone[own.account_uid] == own.account:
                await self._delete(own)
        left = {u: n for u, n in self._gone.pop(key, {}).items() if u not in gone}
        if left:  # deleted meanwhile: the key is queued again
            self._gone[key] = left

    async def _secret(self, key: SecretKey) -> None:
        secret = await self._client.get(key.cluster, SECRETS, key.name, key.namespace)
        account = await self._account(key.cluster, key.namespace, key.account, key.account_uid)
        if secret is None or meta.uid(secret) != key.uid:
            if account is not None:
                await self._unlist(key, account)
        elif account is None:
            await self._delete(key)
        elif not meta.is_deleting(secret) and self._missing(secret):
            await self._fill(key, account)

    async def _account(self, cluster: str, namespace: str, name: str, uid: str) -> Object | None:
        found = await self._client.get(cluster, SERVICE_ACCOUNTS, name, namespace)
        return found if found is not None and uid in {"", meta.uid(found)} else None

    async def _delete(self, key: SecretKey) -> None:
        try:
            await self._client.delete(key.cluster, SECRETS, key.name, key.namespace, uid=key.uid)
        except Conflict:
            return  # another secret has that name now

    def _missing(self, secret: Object) -> bool:
        data = secret.get("data") or {}
        return data.get("ca.crt") != self._ca or not data.get("namespace") or not data.get("token")

    async def _fill(self, key: SecretKey, account: Object) -> None:
        def change(live: Object) -> None:
            if meta.uid(live) != key.uid:
                raise NotFound.resource("", "secrets", key.name)
            data = dict(live.get("data") or {})
            data["ca.crt"] = self._ca
            data["namespace"] = data.get("namespace") or _encoded(key.namespace)
            data["token"] = data.get("token") or _encoded(self._sign(account, live, key.cluster))
            live["data"] = data
            meta.set_annotation(live, NAME_ANNOTATION, meta.name(account))
            meta.set_annotation(live, UID_ANNOTATION, meta.uid(account))

        try:
            await self._client.change(key.cluster, SECRETS, key.name, change, key.namespace)
        except NotFound:
            return

    async def _unlist(self, key: SecretKey, account: Object) -> None:
        """A deleted secret is no longer named by its account."""
        if all(ref.get("name") != key.name for ref in account.get("secrets") or ()):
            return

        def change(live: Object) -> None:
            live["secrets"] = [r for r in live.get("secrets") or () if r.get("name") != key.name]

        try:
            await self._client.change(
                key.cluster, SERVICE_ACCOUNTS, key.account, change, key.namespace
            )
        except NotFound:
            return


def _secret_key(cluster: str, secret: Object) -> SecretKey:
    return SecretKey(
        cluster,
        meta.namespace(secret),
        meta.name(secret),
        meta.uid(secret),
        meta.annotation(secret, NAME_ANNOTATION),
        meta.annotation(secret, UID_ANNOTATION),
    )


def _encoded(text: str) -> str:
    return base64.b64encode(text.encode()).decode()
