"""Authentication and authorization by external servers, as configured by flags.

Builds the authenticators of issuers, webhooks and bootstrap tokens and the authorization webhook,
and owns their connections while `run` runs. Modules that are not needed are not imported, since
most servers use none of them.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Sequence
from typing import TYPE_CHECKING

from pykcp.auth.authn.anonymous import Anonymous
from pykcp.auth.authn.interface import TokenAuthenticator
from pykcp.auth.files import CredentialError
from pykcp.auth.settings import SignInSettings

if TYPE_CHECKING:
    from pykcp.auth.authn.bootstrap_token import SecretLookup
    from pykcp.auth.authn.config_file import Issuers
    from pykcp.auth.authn.webhook import WebhookTokens
    from pykcp.auth.authz.webhook import WebhookAuthorizer


class ExternalSignIn:
    """Raises CredentialError for whatever cannot be used at the start."""

    def __init__(
        self,
        settings: SignInSettings,
        api_audiences: Sequence[str],
        own_issuers: Collection[str],
        lookup: SecretLookup,
    ) -> None:
        """`own_issuers`: the issuers of service accounts, which external issuers must not use."""
        self._settings, self._api_audiences = settings, tuple(api_audiences)
        self._lookup = lookup
        self._issuers = self._make_issuers(own_issuers)
        self._webhook = self._token_webhook()
        self.authorizer = self._authorization_webhook()
        """The `webhook` of the Authorizer, if there is one."""

    def _make_issuers(self, own_issuers: Collection[str]) -> Issuers | None:
        settings = self._settings
        if not settings.authentication_config and not settings.oidc_issuer_url:
            return None
        from pykcp.auth.authn.config import AuthenticationConfigError
        from pykcp.auth.authn.config_file import Issuers
        from pykcp.auth.authn.oidc import JwtTokens

        try:
            return Issuers(settings, JwtTokens(self._api_audiences), own_issuers)
        except (AuthenticationConfigError, OSError) as error:
            raise CredentialError(str(error)) from error

    def _token_webhook(self) -> WebhookTokens | None:
        settings = self._settings
        if not settings.token_webhook_config_file:
            return None
        from pykcp.auth.authn.webhook import WebhookTokens
        from pykcp.auth.webhook_client import ReviewClient
        from pykcp.clients.kubeconfig import load_endpoint

        return WebhookTokens(
            ReviewClient(load_endpoint(settings.token_webhook_config_file)),
            settings.token_webhook_version,
            self._api_audiences,
            settings.token_webhook_cache_ttl,
        )

    def _authorization_webhook(self) -> WebhookAuthorizer | None:
        settings = self._settings
        if not settings.authorization_webhook_config_file:
            return None
        from pykcp.auth.authz.webhook import WebhookAuthorizer
        from pykcp.auth.webhook_client import ReviewClient
        from pykcp.clients.kubeconfig import load_endpoint

        return WebhookAuthorizer(
            ReviewClient(load_endpoint(settings.authorization_webhook_config_file)),
            settings.authorization_webhook_version,
            settings.authorization_webhook_cache_authorized_ttl,
            settings.authorization_webhook_cache_unauthorized_ttl,
        )

    def tokens(self) -> list[TokenAuthenticator]:
        """In upstream's order: what is near first, what must be asked for last."""
        found: list[TokenAuthenticator] = []
        if self._settings.bootstrap_tokens:
            from pykcp.auth.authn.bootstrap_token import BootstrapTokens

            found.append(BootstrapTokens(self._lookup, self._api_audiences))
        if self._issuers is not None:
            found.append(self._issuers.tokens)
        if self._webhook is not None:
            found.append(self._webhook)
        return found

    def anonymous(self, is_allowed: bool) -> Anonymous | None:
        """By the file if it says something about it, otherwise by the flag."""
        config = self._issuers.config.anonymous if self._issuers is not None else None
        if config is None:
            return Anonymous() if is_allowed else None
        return Anonymous(config.paths) if config.enabled else None

    def on_change(self, action: Callable[[], None]) -> None:
        """What to do when other tokens are good than before."""
        if self._issuers is not None:
            self._issuers.on_change = action

    async def run(self) -> None:
        """Until cancelled: follows issuers and files, and closes all connections at the end."""
        try:
            if self._issuers is not None:
                await self._issuers.run()
            await asyncio.Event().wait()
        finally:
            for one in (self._webhook, self.authorizer):
                if one is not None:
                    await one.close()
