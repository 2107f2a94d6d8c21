"""Settings of external authentication: issuers, webhooks, bootstrap tokens."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

_WEBHOOK_VERSIONS = ("v1", "v1beta1")


@dataclass(frozen=True, slots=True)
class SignInSettings:
    authentication_config: str = ""
    """File with an AuthenticationConfiguration; read again when it changes."""
    oidc_issuer_url: str = ""
    oidc_client_id: str = ""
    oidc_ca_file: str = ""
    oidc_username_claim: str = "sub"
    oidc_username_prefix: str = ""
    """Empty: `<issuer>#` unless the claim is `email`; `-`: none."""
    oidc_groups_claim: str = ""
    oidc_groups_prefix: str = ""
    oidc_signing_algs: tuple[str, ...] = ("RS256",)
    oidc_required_claim: Mapping[str, str] = field(default_factory=dict)
    is_any_oidc_given: bool = False
    """Whether an --oidc flag was on the command line, be it with its default."""
    is_anonymous_given: bool = False
    """Whether --anonymous-auth was on the command line."""
    token_webhook_config_file: str = ""
    """Kubeconfig of the webhook that knows bearer tokens."""
    token_webhook_version: str = "v1beta1"  # noqa: S105
    token_webhook_cache_ttl: float = 120.0
    authorization_webhook_config_file: str = ""
    """Kubeconfig of the webhook that is asked for permission."""
    authorization_webhook_version: str = "v1beta1"
    authorization_webhook_cache_authorized_ttl: float = 300.0
    authorization_webhook_cache_unauthorized_ttl: float = 30.0
    bootstrap_tokens: bool = False

    def problems(self) -> list[str]:
        """What is wrong with the options together."""
        out: list[str] = []
        if self.authentication_config:
            if self.is_any_oidc_given:
                out.append("authentication-config file and oidc-* flags are mutually exclusive")
        elif self.is_any_oidc_given and not (self.oidc_issuer_url and self.oidc_client_id):
            out.append(
                "oidc-issuer-url and oidc-client-id must be specified together when any oidc-* "
                "flags are set"
            )
        versions = {
            "unsupported authentication webhook version": self.token_webhook_version,
            "unsupported webhook authorizer version": self.authorization_webhook_version,
        }
        out += [
            f'{what} "{version}", supported versions are "v1", "v1beta1"'
            for what, version in versions.items()
            if version not in _WEBHOOK_VERSIONS
        ]
        return out
