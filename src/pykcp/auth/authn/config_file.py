"""The token issuers that the operator configures by flags or by a file, which is reloaded.

An invalid file is logged and changes nothing. A valid one takes effect when all its new issuers
have been reached, so that a mistake in an address does not lock users out. Anonymous access
cannot be changed while the server runs, as upstream.
"""

from __future__ import annotations

import asyncio
import logging
import pathlib
from collections.abc import Callable, Collection, Sequence

from pykcp.auth.authn.config import (
    AuthenticationConfig,
    AuthenticationConfigError,
    ClaimMapping,
    ClaimRule,
    Issuer,
    JwtConfig,
    parse_config,
)
from pykcp.auth.authn.config_validation import (
    CompiledJwt,
    check_config,
    compile_config,
    raise_errors,
)
from pykcp.auth.authn.oidc import JwtAuthenticator, JwtTokens
from pykcp.auth.authn.oidc_issuer import RemoteIssuer
from pykcp.auth.authn.oidc_keys import ALGORITHMS
from pykcp.auth.settings import SignInSettings
from pykcp.machinery.status import forbidden, go_quote

_log = logging.getLogger(__name__)
LOOK_SECONDS = 1.0
"""Between looks at the file's date."""
REACH_SECONDS = 60.0
"""For which new issuers are waited for; upstream's."""


def config_from_flags(settings: SignInSettings) -> AuthenticationConfig:
    """The same configuration that a file would say. Raises ConfigError."""
    if not settings.oidc_issuer_url:
        return AuthenticationConfig()
    for algorithm in settings.oidc_signing_algs:
        if algorithm not in ALGORITHMS:
            raise AuthenticationConfigError(f"oidc: unsupported signing alg: {go_quote(algorithm)}")
    prefix = settings.oidc_username_prefix
    if not prefix and settings.oidc_username_claim != "email":
        prefix = f"{settings.oidc_issuer_url}#"
    elif prefix == "-":
        prefix = ""
    groups = ClaimMapping()
    if settings.oidc_groups_claim:
        groups = ClaimMapping(settings.oidc_groups_claim, prefix=settings.oidc_groups_prefix)
    authority = pathlib.Path(settings.oidc_ca_file).read_text() if settings.oidc_ca_file else ""
    issuer = Issuer(
        settings.oidc_issuer_url,
        certificate_authority=authority,
        audiences=(settings.oidc_client_id,),
    )
    rules = (ClaimRule(claim, value) for claim, value in settings.oidc_required_claim.items())
    username = ClaimMapping(settings.oidc_username_claim, prefix=prefix)
    return AuthenticationConfig((JwtConfig(issuer, tuple(rules), username, groups),))


def config_from_file(path: str) -> AuthenticationConfig:
    """Raises ConfigError."""
    try:
        return parse_config(pathlib.Path(path).read_text())
    except (OSError, UnicodeDecodeError, AuthenticationConfigError) as error:
        raise AuthenticationConfigError(
            f"failed to load authentication configuration from file {go_quote(path)}: {error}"
        ) from error


class Issuers:
    """Owns the connections to the issuers behind a `JwtTokens`."""

    def __init__(
        self,
        settings: SignInSettings,
        tokens: JwtTokens,
        disallowed_issuers: Collection[str] = (),
        on_change: Callable[[], None] = lambda: None,
    ) -> None:
        """Raises ConfigError. `on_change` is called after a reload."""
        self._path = settings.authentication_config
        self.tokens, self._disallowed, self.on_change = tokens, disallowed_issuers, on_change
        self._text = ""
        if self._path:
            self._stamp = self._look()
            self.config = config_from_file(self._path)
            self._text = self._read()
            if self.config.anonymous is not None and settings.is_anonymous_given:
                why = (
                    "--anonymous-auth flag cannot be set when anonymous field is configured in "
                    "authentication configuration file"
                )
                raise AuthenticationConfigError(forbidden("anonymous", why).text())
        else:
            self.config = config_from_flags(settings)
        self._algorithms = ALGORITHMS if self._path else settings.oidc_signing_algs
        self._compiled = compile_config(self.config, disallowed_issuers)
        self._issuers: dict[tuple[str, str, str], RemoteIssuer] = {}

    async def run(self) -> None:
        """Reach the issuers and follow the file until cancelled."""
        try:
            self.tokens.replace(self._build(self._compiled))
            if not self._path:
                await asyncio.Event().wait()
            while True:
                await asyncio.sleep(LOOK_SECONDS)
                stamp = self._look()
                if stamp != self._stamp and await self.reload():
                    self._stamp = stamp
        finally:
            await self._close_others(())

    def _look(self) -> tuple[int, ...]:
        try:
            found = pathlib.Path(self._path).stat()
        except OSError:
            return ()
        return (found.st_mtime_ns, found.st_size, found.st_ino)

    def _read(self) -> str:
        return pathlib.Path(self._path).read_text()

    async def reload(self) -> bool:
        """Take over what the file says now; False if it shall be tried again."""
        try:
            text = self._read()
        except (OSError, UnicodeDecodeError) as error:
            self._complain(f"failed to read authentication config file: {error}")
            return not isinstance(error, OSError)
        if text == self._text:
            return True
        try:
            compiled = self._checked(text)
        except AuthenticationConfigError as error:
            self._complain(f"failed to load authentication config, keeping the old one: {error}")
            self._text = text  # it will not get better by itself
            return True
        built = self._build(compiled)
        try:
            async with asyncio.timeout(REACH_SECONDS):
                await asyncio.gather(*(one.issuer.wait_until_ready() for one in built))
        except TimeoutError:
            waiting = [one.issuer.url for one in built if not one.issuer.is_ready]
            self._complain(f"failed to update authentication config: not reached: {waiting}")
            await self._close_others(self.tokens.issuers())
            return False
        self._text, self._compiled = text, compiled
        self.tokens.replace(built)
        await self._close_others([one.issuer for one in built])
        self.on_change()
        _log.info("reloaded authentication config")
        return True

    def _complain(self, text: str) -> None:
        _log.error("%s (%s)", text, self._path)

    def _checked(self, text: str) -> tuple[CompiledJwt, ...]:
        config = parse_config(text)
        compiled, errors = check_config(config, self._disallowed)
        if config.anonymous != self.config.anonymous:
            errors.append(forbidden("anonymous", "changed from initial configuration file"))
        raise_errors(errors)
        return compiled

    def _build(self, compiled: Sequence[CompiledJwt]) -> list[JwtAuthenticator]:
        """Authenticators; an issuer that is there already stays connected, with its keys."""
        built: list[JwtAuthenticator] = []
        for one in compiled:
            config = one.config.issuer
            issuer = RemoteIssuer(config.url, config.discovery_url, config.certificate_authority)
            issuer = self._issuers.setdefault(issuer.identity, issuer)
            issuer.start()
            built.append(JwtAuthenticator(one, issuer, self._algorithms))
        return built

    async def _close_others(self, kept: Collection[RemoteIssuer]) -> None:
        for identity, issuer in list(self._issuers.items()):
            if issuer not in kept:
                del self._issuers[identity]
                await issuer.close()
