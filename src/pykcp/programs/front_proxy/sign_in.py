"""Who may sign in at the front-proxy, and how."""

from __future__ import annotations

import pathlib
import time
from collections.abc import Awaitable, Callable

from pykcp.auth.authn.chain import Authentication
from pykcp.auth.authn.interface import TokenAuthenticator
from pykcp.auth.authn.service_account import BoundTokens, SecretTokens
from pykcp.auth.authn.static_tokens import parse_token_file
from pykcp.auth.external import ExternalSignIn
from pykcp.auth.tokens import TokenVerifier, load_verification_keys
from pykcp.clients.interface import Reader
from pykcp.machinery.resources import SECRETS, SERVICE_ACCOUNTS, GroupVersionResource
from pykcp.machinery.status import StatusError
from pykcp.programs.front_proxy.settings import FrontProxySettings
from pykcp.programs.kit.groups.authentication import token_settings
from pykcp.proxy.app import SignInRules
from pykcp.proxy.identity import GroupFilter
from pykcp.types import Object

OwnerOf = Callable[[str], Awaitable[Reader | None]]
"""A client of the shard that has a logical cluster; None if no shard has it."""


class ProxySignIn:
    """The authentication of the front-proxy; `run` it while the program runs."""

    def __init__(self, settings: FrontProxySettings, owner_of: OwnerOf) -> None:
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
            tokens=tokens,
            api_audiences=self._audiences,
        )
        self._external.on_change(authentication.forget)
        groups = GroupFilter(
            settings.groups.authentication_pass_on_groups,
            settings.groups.authentication_drop_groups,
        )
        self.rules = SignInRules(authentication, groups, is_required=bool(tokens))

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
        keys = [k for f in files for k in load_verification_keys(pathlib.Path(f).read_bytes(), f)]
        verifier = TokenVerifier(keys)
        lookup = objects if accounts.service_account_lookup else None
        return [
            SecretTokens(verifier, self._audiences, lookup),
            BoundTokens(accounts.service_account_issuers, verifier, self._audiences, lookup),
        ]

    async def run(self) -> None:
        """Until cancelled."""
        await self._external.run()


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
