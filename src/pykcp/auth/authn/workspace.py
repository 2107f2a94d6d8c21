"""Tokens of issuers that workspace types configure.

A WorkspaceType may reference WorkspaceAuthenticationConfigurations in its own workspace; tokens
of their issuers are valid in workspaces of that type only. The issuers of a type are contacted
when the first such token arrives, and closed when the type or its configurations change or when
too many other types are in use; nothing exists per workspace.

Such an issuer cannot assign names or groups that begin with `system:`.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from typing import NamedTuple, Protocol

from pykcp.aio.owner import spawn
from pykcp.auth.authn.config import AuthenticationConfig, AuthenticationConfigError, read_jwt
from pykcp.auth.authn.config_validation import compile_config
from pykcp.auth.authn.interface import Authenticated, CredentialRejected
from pykcp.auth.authn.oidc import JwtAuthenticator, JwtTokens
from pykcp.auth.authn.oidc_issuer import Fetcher, RemoteIssuer, TenantFetcher
from pykcp.auth.errors import aggregate
from pykcp.auth.tokens import unverified_claims
from pykcp.auth.user import CLUSTER_NAME_KEY, CLUSTER_SCOPE, SCOPES_KEY, User
from pykcp.caching import BoundedCache
from pykcp.clients.outbound import Outbound, Tenant
from pykcp.types import Object

_log = logging.getLogger(__name__)

REACH_SECONDS = 10.0
"""For which the first requests wait for an issuer; kcp's."""
TYPES = 256
"""How many types' issuers are kept connected."""
TOKEN_TTL = 10.0
_SYSTEM = "system:"
_RESERVED_EXTRA = "kcp.io"
_CLUSTER = "kcp.io/cluster"


class TypeConfigurations(Protocol):
    """What workspaces and their types say about signing in."""

    def type_of(self, cluster: str) -> str:
        """The qualified name of a workspace's type; "" if it has none."""

    def configurations(self, type_name: str) -> Sequence[Object]:
        """The type's WorkspaceAuthenticationConfigurations, as they are now."""


class _Known(NamedTuple):
    issuers: TypeIssuers
    found: Authenticated


class TypeIssuers:
    """The issuers of one type of workspaces, as its configurations said at one time."""

    def __init__(
        self,
        configurations: Sequence[Object],
        audiences: Sequence[str],
        now: float,
        outbound: Outbound | None = None,
    ) -> None:
        """Raises ConfigError. `outbound`: the way to issuers that tenants chose."""
        self._outbound = outbound
        self.stamp = stamp(configurations)
        self._deadline = now + REACH_SECONDS
        self._issuers: dict[tuple[str, str, str], RemoteIssuer] = {}
        self._tokens = [self._build(each, audiences) for each in configurations]
        self._urls = frozenset(i.url for tokens in self._tokens for i in tokens.issuers())

    def _build(self, configuration: Object, audiences: Sequence[str]) -> JwtTokens:
        given = (configuration.get("spec") or {}).get("jwt") or ()
        jwt = tuple(read_jwt(one, f"spec.jwt[{index}]") for index, one in enumerate(given))
        authenticators: list[JwtAuthenticator] = []
        for one in compile_config(AuthenticationConfig(jwt)):
            config = one.config.issuer
            authority = config.certificate_authority
            issuer = RemoteIssuer(
                config.url,
                config.discovery_url,
                authority,
                fetcher=self._fetcher(configuration, authority),
            )
            issuer = self._issuers.setdefault(issuer.identity, issuer)
            authenticators.append(JwtAuthenticator(one, issuer))
        tokens = JwtTokens(audiences)
        tokens.replace(authenticators)
        return tokens

    def _fetcher(self, configuration: Object, authority: str) -> Fetcher | None:
        if self._outbound is None:
            return None
        annotations = configuration["metadata"].get("annotations") or {}
        tenant = Tenant(annotations.get(_CLUSTER) or configuration["metadata"].get("uid", ""))
        return TenantFetcher(self._outbound, tenant, authority)

    def start(self) -> None:
        for issuer in self._issuers.values():
            issuer.start()

    async def close(self) -> None:
        await asyncio.gather(*(issuer.close() for issuer in self._issuers.values()))

    async def authenticate(
        self, token: str, audiences: Sequence[str], cluster: str, now: float
    ) -> Authenticated | None:
        """Who it is by the first configuration that knows. Raises Rejected."""
        claimed = unverified_claims(token)
        url = claimed.get("iss") if claimed is not None else None
        if not isinstance(url, str) or url not in self._urls:
            return None
        await self._reach(url, now)
        refusals: list[str] = []
        for tokens in self._tokens:
            try:
                found = await tokens.authenticate(token, audiences, cluster, now)
            except CredentialRejected as error:
                refusals.append(str(error))
                continue
            if found is not None:
                return found
        if refusals:
            raise CredentialRejected(aggregate(refusals))
        return None

    async def _reach(self, url: str, now: float) -> None:
        """Wait for an issuer that was only just heard of; later ones have to be quick."""
        waiting = [i for i in self._issuers.values() if i.url == url and not i.is_ready]
        if waiting and now < self._deadline:
            reached = [spawn(issuer.wait_until_ready(), f"oidc {url}") for issuer in waiting]
            try:
                await asyncio.wait(reached, timeout=self._deadline - now)
            finally:
                for task in reached:
                    task.cancel()
            return
        for issuer in waiting:
            issuer.refresh_if_old()  # it is asked for: do not wait for the end of its pause


class WorkspaceTokens:
    """The authenticator of tokens that mean something in some workspaces only."""

    def __init__(
        self,
        types: TypeConfigurations,
        api_audiences: Sequence[str],
        outbound: Outbound | None = None,
        prepare: Callable[[str], Awaitable[None]] | None = None,
    ) -> None:
        """`outbound`: the way to issuers that tenants chose; None: any server may be asked.

        `prepare`: awaited before the configurations of a type are read; they may have to be
        fetched from another shard.
        """
        self._types, self._outbound, self._prepare = types, outbound, prepare
        self._audiences = tuple(api_audiences)
        self._by_type: OrderedDict[str, TypeIssuers] = OrderedDict()
        self._broken: BoundedCache[str, tuple[tuple[str, str], ...]] = BoundedCache("", TYPES)
        """Types whose configurations cannot be used, until they change."""
        self._known: BoundedCache[tuple[bytes, str], _Known] = BoundedCache(
            "workspace-tokens", 8192
        )
        self._retired: list[TypeIssuers] = []
        self._has_retired = asyncio.Event()

    async def authenticate(
        self, token: str, audiences: Sequence[str], cluster: str, now: float
    ) -> Authenticated | None:
        """Who it is in this workspace, and only there. Raises Rejected."""
        type_name = self._types.type_of(cluster) if cluster else ""
        if not type_name:
            return None
        if self._prepare is not None:
            await self._prepare(type_name)
        issuers = self._issuers(type_name, now)
        if issuers is None:
            return None
        key = (hashlib.sha256(token.encode()).digest(), cluster)
        known = self._known.get(key)
        if known is not None and known.issuers is issuers and now < known.found.expires:
            return known.found
        found = await issuers.authenticate(token, audiences, cluster, now)
        if found is None:
            return None
        found = replace(
            found,
            user=confined(found.user, cluster),
            expires=min(found.expires, now + TOKEN_TTL),
            is_portable=False,
        )
        if not audiences or tuple(audiences) == self._audiences:
            self._known.put(key, _Known(issuers, found))
        return found

    def _issuers(self, type_name: str, now: float) -> TypeIssuers | None:
        """Of a type as it is now; None if it has none, or none that can be used."""
        configurations = self._types.configurations(type_name)
        current = stamp(configurations)
        held = self._by_type.get(type_name)
        if held is not None:
            if held.stamp == current:
                self._by_type.move_to_end(type_name)
                return held
            self._retire(type_name)
        if not configurations or self._broken.get(type_name) == current:
            return None
        try:
            issuers = TypeIssuers(configurations, self._audiences, now, self._outbound)
        except AuthenticationConfigError as error:
            _log.error("issuers of workspace type %s cannot be used: %s", type_name, error)
            self._broken.put(type_name, current)
            return None
        self._by_type[type_name] = issuers
        issuers.start()
        if len(self._by_type) > TYPES:
            self._retire(next(iter(self._by_type)))
        return issuers

    def _retire(self, type_name: str) -> None:
        self._retired.append(self._by_type.pop(type_name))
        self._has_retired.set()

    async def run(self) -> None:
        """Until cancelled: closes connections that are no longer needed, at the end all."""
        try:
            while True:
                await self._has_retired.wait()
                self._has_retired.clear()
                while self._retired:
                    await self._retired.pop().close()
        finally:
            for issuers in (*self._retired, *self._by_type.values()):
                await issuers.close()
            self._by_type.clear()


def stamp(configurations: Sequence[Object]) -> tuple[tuple[str, str], ...]:
    """A fingerprint of the configurations, to detect changes."""
    metas = (each["metadata"] for each in configurations)
    return tuple((m.get("uid", ""), m.get("resourceVersion", "")) for m in metas)


def confined(user: User, cluster: str) -> User:
    """A user as far as a workspace's own issuer may make one. Raises Rejected."""
    if user.name.startswith(_SYSTEM):
        raise CredentialRejected("system usernames are not admitted")
    groups = tuple(sorted({group for group in user.groups if not group.startswith(_SYSTEM)}))
    extra = {key: values for key, values in user.extra.items() if _RESERVED_EXTRA not in key}
    extra[SCOPES_KEY] = (CLUSTER_SCOPE + cluster,)
    extra[CLUSTER_NAME_KEY] = (cluster,)
    return User(user.name, user.uid, groups, extra)
