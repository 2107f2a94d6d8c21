"""Authorization: which authorizers decide, and in which order."""

from __future__ import annotations

from collections.abc import Iterator

from pykcp.programs.kit.checks import kubeconfig_file
from pykcp.programs.kit.options import OptionGroup, option

AUTHORIZERS = ("AlwaysAllowGroups", "AlwaysAllowPaths", "RBAC", "Webhook")
ALWAYS_ALLOWED_PATHS = ("/healthz", "/readyz", "/livez")


def _order(flag: str, names: tuple[str, ...]) -> Iterator[str]:
    if not names:
        yield f"--{flag} must name at least one authorizer: {', '.join(AUTHORIZERS)}"
    for name in names:
        if name not in AUTHORIZERS:
            yield f'--{flag}: invalid authorizer: "{name}", known are {", ".join(AUTHORIZERS)}'


def _paths(flag: str, patterns: tuple[str, ...]) -> Iterator[str]:
    for pattern in patterns:
        if "*" in pattern[:-1]:
            yield f'--{flag}: only trailing * allowed in "{pattern}"'


class AllowedPathOptions(OptionGroup):
    """For programs that decide by client certificate only."""

    TITLE = "Authorization"

    authorization_always_allow_paths: tuple[str, ...] = option(
        "Paths that need no permission; a trailing * matches a prefix.",
        ALWAYS_ALLOWED_PATHS,
        check=_paths,
    )


class AuthorizationOptions(OptionGroup):
    TITLE = "Authorization"

    authorization_order: tuple[str, ...] = option(
        "Authorizers in the order in which they are asked.", AUTHORIZERS, check=_order
    )
    authorization_always_allow_paths: tuple[str, ...] = option(
        "Paths that need no permission; a trailing * matches a prefix.",
        ALWAYS_ALLOWED_PATHS,
        check=_paths,
    )
    authorization_webhook_config_file: str = option(
        "Kubeconfig of a webhook that authorizes requests.", "", check=kubeconfig_file
    )
    authorization_webhook_version: str = option(
        "Version of SubjectAccessReview that the webhook speaks: v1 or v1beta1.", "v1beta1"
    )
    authorization_webhook_cache_authorized_ttl: float = option(
        "How long to cache what the webhook allows.", 300.0
    )
    authorization_webhook_cache_unauthorized_ttl: float = option(
        "How long to cache what the webhook does not allow.", 30.0
    )
