"""Service accounts: keys, issuer and audiences of their tokens."""

from __future__ import annotations

import pathlib
from collections.abc import Iterator

from pykcp.programs.kit.checks import ca_bundle, loaded_by
from pykcp.programs.kit.flags import ignored, refused
from pykcp.programs.kit.options import OptionGroup, option


def _load_keys(path: str) -> None:
    from pykcp.auth.tokens import load_verification_keys

    load_verification_keys(pathlib.Path(path).read_bytes(), path)


def _load_private_key(path: str) -> None:
    from pykcp.auth.certificates import load_private_key

    load_private_key(pathlib.Path(path).read_bytes(), path)


def _issuers(flag: str, issuers: tuple[str, ...]) -> Iterator[str]:
    if not issuers or not all(issuers):
        yield f"--{flag} must not be empty"


class AccountTokenOptions(OptionGroup):
    """How tokens of service accounts are verified."""

    TITLE = "Service accounts"

    api_audiences: tuple[str, ...] = option(
        "Audiences that service-account tokens must have; the issuer if not given.", ()
    )
    service_account_key_files: tuple[str, ...] = option(
        "Public or private keys (PEM) that service-account tokens are verified with; repeatable.",
        (),
        flag="service-account-key-file",
        check=loaded_by(_load_keys),
    )
    service_account_issuers: tuple[str, ...] = option(
        "Issuer of service-account tokens; the first one signs.",
        ("https://kcp.default.svc",),
        flag="service-account-issuer",
        check=_issuers,
    )
    service_account_lookup: bool = option(
        "Reject tokens whose service account or secret does not exist any more.", True
    )

    @property
    def issuer(self) -> str:
        """The issuer that signs."""
        return self.service_account_issuers[0]


class ServiceAccountOptions(AccountTokenOptions):
    OTHER = (
        ignored("service-account-extend-token-expiration", "bool", True),
        ignored("service-account-jwks-uri"),
        ignored("concurrent-serviceaccount-token-syncs", "int", 5),
        refused("service-account-signing-endpoint"),
    )

    service_account_signing_key_file: str = option(
        "Private key (PEM) that service-account tokens are signed with.",
        "",
        check=loaded_by(_load_private_key),
    )
    service_account_max_token_expiration: float = option(
        "Longest lifetime of a token that may be requested; 0 is no limit.", 0.0
    )
    service_account_private_key_file: str = option(
        "Private key (PEM) that the tokens in secrets are signed with; the signing key if not given.",
        "",
        check=loaded_by(_load_private_key),
    )
    root_ca_file: str = option(
        "CA bundle (PEM) that is published in kube-root-ca.crt and token secrets; the serving CA if not given.",
        "",
        check=ca_bundle,
    )
