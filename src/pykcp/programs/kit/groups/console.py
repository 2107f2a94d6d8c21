"""The web console, and how its users sign in."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from pykcp.auth.settings import SignInSettings
from pykcp.programs.kit.checks import readable_file
from pykcp.programs.kit.options import OptionGroup, option

if TYPE_CHECKING:
    from pykcp.server.console.app import Console


class ConsoleOptions(OptionGroup):
    TITLE = "Console"

    console: bool = option("Serve the web console under /console/.", True)
    console_oidc_client_id: str = option(
        "OAuth client with which users of the console sign in at the OpenID Connect issuer; the audience of tokens if not given.",
        "",
    )
    console_oidc_client_secret_file: str = option(
        "File with the secret of that client; without it the client is public and uses PKCE alone.",
        "",
        check=readable_file,
    )
    console_oidc_scopes: tuple[str, ...] = option(
        "Scopes that the console requests.", ("openid", "profile", "email")
    )

    def maker(self, kind: str, settings: SignInSettings) -> Callable[[], Console] | None:
        """Makes the console of a program of this kind; None if it is switched off.

        It is made by the first request: most servers never get one.
        """
        if not self.console:
            return None

        def make() -> Console:
            from pykcp.server.console.app import Console
            from pykcp.server.console.sign_in import ConsoleClient

            client = ConsoleClient(
                self.console_oidc_client_id,
                self.console_oidc_client_secret_file,
                self.console_oidc_scopes,
            )
            return Console(kind, settings, client)

        return make
