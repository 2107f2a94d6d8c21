"""Authentication by tokens: token files, webhooks, OpenID Connect issuers, bootstrap tokens.

Client certificates, request headers and service accounts are groups of their own.
"""

from __future__ import annotations

import pathlib
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Self

from pykcp.auth.files import CredentialError
from pykcp.auth.settings import SignInSettings
from pykcp.programs.kit.checks import ca_bundle, kubeconfig_file, loaded_by
from pykcp.programs.kit.flags import ignored
from pykcp.programs.kit.groups.authorization import AuthorizationOptions
from pykcp.programs.kit.options import OptionGroup, option


def _load_tokens(path: str) -> None:
    from pykcp.auth.authn.static_tokens import parse_token_file

    parse_token_file(pathlib.Path(path).read_text(), path)


def _load_configuration(path: str) -> None:
    from pykcp.auth.authn.config import AuthenticationConfigError
    from pykcp.auth.authn.config_file import config_from_file

    try:
        config_from_file(path)
    except AuthenticationConfigError as error:
        if isinstance(error.__cause__, OSError):
            # A missing file is reported in the same words for all flags.
            raise error.__cause__ from None
        raise CredentialError(str(error)) from error


class OIDCOptions(OptionGroup):
    TITLE = "OpenID Connect"

    oidc_issuer_url: str = option(
        "OpenID Connect issuer whose tokens are accepted; an https URL.", ""
    )
    oidc_client_id: str = option("Audience that tokens of the issuer must have.", "")
    oidc_ca_file: str = option(
        "CA bundle (PEM) of the issuer's server; the host's if not given.", "", check=ca_bundle
    )
    oidc_username_claim: str = option("Claim that holds the user's name.", "sub")
    oidc_username_prefix: str = option(
        "Prefix of user names; the issuer and # if not given, unless the claim is email; - for none.",
        "",
    )
    oidc_groups_claim: str = option("Claim that holds the user's groups.", "")
    oidc_groups_prefix: str = option("Prefix of groups.", "")
    oidc_signing_algs: tuple[str, ...] = option(
        "Signature algorithms to accept: RS, PS and ES with 256, 384 or 512, EdDSA.", ("RS256",)
    )
    oidc_required_claim: Mapping[str, str] = option(
        "Claim and value that tokens must have, claim=value; repeatable.", {}, kind="pair"
    )
    is_any_oidc_given: bool = False
    """Whether an --oidc flag was on the command line, even with its default."""

    def with_given(self, given: Mapping[str, Any]) -> Self:
        changed = super().with_given(given)
        if any(name.startswith("oidc-") for name in given):
            changed = changed.replace(is_any_oidc_given=True)
        return changed


class TokenOptions(OptionGroup):
    """Bearer tokens of any kind but service accounts'."""

    TITLE = "Authentication"

    token_auth_file: str = option(
        'CSV file of static bearer tokens: token,user,uid,"group1,group2".',
        "",
        check=loaded_by(_load_tokens),
    )
    authentication_config: str = option(
        "File with an AuthenticationConfiguration: JWT issuers and anonymous access; reloaded when it changes.",
        "",
        check=loaded_by(_load_configuration),
    )
    authentication_token_webhook_config_file: str = option(
        "Kubeconfig of a webhook that authenticates bearer tokens.", "", check=kubeconfig_file
    )
    authentication_token_webhook_cache_ttl: float = option(
        "How long to cache the webhook's answers.", 120.0
    )
    authentication_token_webhook_version: str = option(
        "Version of TokenReview that the webhook speaks: v1 or v1beta1.", "v1beta1"
    )


class AuthenticationOptions(TokenOptions):
    OTHER = (ignored("proxy-client-cert-file"), ignored("proxy-client-key-file"))

    anonymous_auth: bool = option(
        "Let requests without credentials through as system:anonymous.", True
    )
    enable_bootstrap_token_auth: bool = option(
        "Accept bootstrap tokens: secrets of type bootstrap.kubernetes.io/token in kube-system.",
        False,
    )
    is_anonymous_given: bool = False
    """Whether --anonymous-auth was on the command line."""

    def with_given(self, given: Mapping[str, Any]) -> Self:
        changed = super().with_given(given)
        if "anonymous-auth" in given:
            changed = changed.replace(is_anonymous_given=True)
        return changed


def token_settings(tokens: TokenOptions, oidc: OIDCOptions) -> SignInSettings:
    """What these groups say about authorities outside of the server."""
    return SignInSettings(
        authentication_config=tokens.authentication_config,
        oidc_issuer_url=oidc.oidc_issuer_url,
        oidc_client_id=oidc.oidc_client_id,
        oidc_ca_file=oidc.oidc_ca_file,
        oidc_username_claim=oidc.oidc_username_claim,
        oidc_username_prefix=oidc.oidc_username_prefix,
        oidc_groups_claim=oidc.oidc_groups_claim,
        oidc_groups_prefix=oidc.oidc_groups_prefix,
        oidc_signing_algs=oidc.oidc_signing_algs,
        oidc_required_claim=oidc.oidc_required_claim,
        is_any_oidc_given=oidc.is_any_oidc_given,
        token_webhook_config_file=tokens.authentication_token_webhook_config_file,
        token_webhook_version=tokens.authentication_token_webhook_version,
        token_webhook_cache_ttl=tokens.authentication_token_webhook_cache_ttl,
    )


def sign_in_settings(
    authentication: AuthenticationOptions, oidc: OIDCOptions, authorization: AuthorizationOptions
) -> SignInSettings:
    """The same with what only a shard has: anonymous users, bootstrap tokens, authorization."""
    return replace(
        token_settings(authentication, oidc),
        is_anonymous_given=authentication.is_anonymous_given,
        authorization_webhook_config_file=authorization.authorization_webhook_config_file,
        authorization_webhook_version=authorization.authorization_webhook_version,
        authorization_webhook_cache_authorized_ttl=authorization.authorization_webhook_cache_authorized_ttl,
        authorization_webhook_cache_unauthorized_ttl=authorization.authorization_webhook_cache_unauthorized_ttl,
        bootstrap_tokens=authentication.enable_bootstrap_token_auth,
    )
