"""Who may sign in at the front-proxy, and how."""

from __future__ import annotations

import pathlib
import time
from collections.abc import Awaitable, Callable, Iterator
from typing import TYPE_CHECKING

from pykcp.auth.authn.chain import Authentication
from pykcp.auth.authn.interface import TokenAuthenticator
from pykcp.auth.authn.service_account import BoundTokens, SecretTokens
from pykcp.auth.authn.static_tokens import parse_token_file
from pykcp.auth.external import ExternalSignIn
from pykcp.auth.tokens import TokenVerifier
from pykcp.clients.destinations import Destinations
from pykcp.clients.interface import Reader
from pykcp.clients.names import HostNames
from pykcp.clients.outbound import Outbound
from pykcp.clients.shares import Shares
from pykcp.machinery.resources import SECRETS, SERVICE_ACCOUNTS, GroupVersionResource
from pykcp.machinery.status import StatusError
from pykcp.programs.front_proxy.settings import FrontProxySettings
from pykcp.programs.kit.groups.authentication import token_settings
from pykcp.proxy.app import SignInRules
from pykcp.proxy.identity import GroupFilter
from pykcp.proxy.type_issuers import TypeIssuerConfigurations
from pykcp.types import Object

if TYPE_CHECKING:
    from pykcp.auth.authn.workspace import WorkspaceTokens

OwnerOf = Callable[[str], Awaitable[Reader | None]]
"""A client of the shard that has a logical cluster; None if no shard has it."""


class ProxySignIn:
    """The authentication of the front-proxy."""

    def __init__(
        self,
        settings: FrontProxySettings,
        owner_of: OwnerOf,
        types: TypeIssuerConfigurations,
    ) -> None:
        """`types`: the issuers of workspace types, if that feature is on."""
        self._settings = settings
        accounts = settings.service_accounts
        self._audiences = accounts.api_audiences or (accounts.issuer,)
        objects = AccountObjects(owner_of)
        self._external = ExternalSignIn(
            token_settings(settings.tokens, settings.oidc),
            self._audiences,
            accounts.service_account_issuers,
            objects,
        )
        tokens = [*self._static(), *self._accounts(objects), *self._external.tokens()]
        authentication = Authentication(
            clock=time.time,
            proxy=settings.request_header.authenticator(),
            certificates=settings.client_ca.authenticator(),
            tokens=[*tokens, *self._workspace_tokens(types)],
            api_audiences=self._audiences,
        )
        self._external.on_change(authentication.forget)
        groups = GroupFilter(
            settings.groups.authentication_pass_on_groups,
            settings.groups.authentication_drop_groups,
        )
        self.rules = SignInRules(
            authentication,
            groups,
            is_required=_denies_anonymous(settings.groups.authentication_anonymous, bool(tokens)),
            has_workspace_tokens=self._of_workspaces is not None,
        )

    def _static(self) -> list[TokenAuthenticator]:
        file = self._settings.tokens.token_auth_file
        if not file:
            return []
        tokens = parse_token_file(pathlib.Path(file).read_text(), file)
        return [tokens.authenticator(self._audiences)]

    def _accounts(self, objects: AccountObjects) -> list[TokenAuthenticator]:
        """Only with keys: without them the shards verify the tokens of service accounts."""
        accounts = self._settings.service_accounts
        files = accounts.service_account_key_files
        if not files:
            return []
        verifier = TokenVerifier.of_files(files)
        lookup = objects if accounts.service_account_lookup else None
        return [
            SecretTokens(verifier, self._audiences, lookup),
            BoundTokens(accounts.service_account_issuers, verifier, self._audiences, lookup),
        ]

    def _workspace_tokens(self, types: TypeIssuerConfigurations) -> list[TokenAuthenticator]:
        settings = self._settings
        self._of_workspaces: WorkspaceTokens | None = None
        if "WorkspaceAuthentication" not in settings.features.gates:
            return []
        from pykcp.auth.authn.workspace import WorkspaceTokens

        egress = settings.egress
        self._outbound = Outbound(
            Destinations(egress.tenant_egress_allow, egress.tenant_egress_deny),
            HostNames(),
            Shares(egress.tenant_egress_connections),
        )
        self._of_workspaces = WorkspaceTokens(types, self._audiences, self._outbound, types.prepare)
        return [self._of_workspaces]

    def tasks(self) -> Iterator[tuple[str, Callable[[], Awaitable[None]]]]:
        """What has to run as long as the program, by name."""
        yield "sign-in", self._external.run
        if self._of_workspaces is not None:
            yield "workspace-sign-in", self._of_workspaces.run
            yield "egress", self._outbound.run


def _denies_anonymous(choice: str, has_tokens: bool) -> bool:
    return {"pass": False, "deny": True}.get(choice, has_tokens)


class AccountObjects:
    """The objects that tokens depend on, read from the shard of their logical cluster."""

    def __init__(self, owner_of: OwnerOf) -> None:
        self._owner_of = owner_of

    async def service_account(self, cluster: str, namespace: str, name: str) -> Object | None:
        return await self._get(cluster, SERVICE_ACCOUNTS, namespace, name)

    async def secret(self, cluster: str, namespace: str, name: str) -> Object | None:
        return await self._get(cluster, SECRETS, namespace, name)

    async def _get(
        self, cluster: str, kind: GroupVersionResource, namespace: str, name: str
    ) -> Object | None:
        try:
            owner = await self._owner_of(cluster)
            return None if owner is None else await owner.get(cluster, kind, name, namespace)
        except StatusError:
            return None  # what cannot be verified is not accepted
