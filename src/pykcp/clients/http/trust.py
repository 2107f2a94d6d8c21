"""Which servers a client trusts, and the certificate that it shows them."""

from __future__ import annotations

import logging
import ssl
import time
from collections.abc import Callable, Sequence
from typing import TypeAlias

from pykcp.clients.credential_files import CredentialError
from pykcp.clients.followed_files import FollowedFiles
from pykcp.wire.tls_trust import verifying_context

_log = logging.getLogger(__name__)

HTTP2 = ("h2", "http/1.1")
HTTP1 = ("http/1.1",)
Protocols: TypeAlias = tuple[str, ...]


class Trust:
    """Makes TLS contexts, one for each choice of protocols, when they are first needed.

    Servers are verified unless the maker says otherwise: there is no switch here. Contexts are
    made anew after their files were replaced.
    """

    def __init__(self, make: Callable[[], ssl.SSLContext], files: Sequence[str] = ()) -> None:
        """`make`: a context of one's own, which no other client uses. May raise OSError.

        `files`: what it reads.
        """
        self._make = make
        self._files = FollowedFiles(files) if files else None
        self._generation = 0
        self._contexts: dict[Protocols, ssl.SSLContext] = {}

    @classmethod
    def of_files(cls, authority: str = "", certificate: str = "", key: str = "") -> Trust:
        """Servers of an authority, or of the system's; with a certificate of our own, if given."""

        def make() -> ssl.SSLContext:
            context = verifying_context(cafile=authority)
            if certificate:
                context.load_cert_chain(certificate, key)
            return context

        return cls(make, [name for name in (authority, certificate, key) if name])

    @classmethod
    def unverified(cls, certificate: str = "", key: str = "") -> Trust:
        """Any server: nothing is verified. Only where kcp's contract asks for it."""

        def make() -> ssl.SSLContext:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
            context.check_hostname = False
            context.verify_mode = ssl.CERT_NONE
            if certificate:
                context.load_cert_chain(certificate, key)
            return context

        return cls(make)

    def context(self, protocols: Protocols = HTTP2) -> ssl.SSLContext:
        """A context that offers these protocols. May raise OSError: files that are not there."""
        _ = self.generation
        found = self._contexts.get(protocols)
        if found is None:
            found = self._make()
            found.set_alpn_protocols(list(protocols))
            self._contexts[protocols] = found
        return found

    @property
    def generation(self) -> int:
        """A number that changes when the files were replaced and can be used."""
        files = self._files
        if files is not None and files.have_changed(time.monotonic()):
            try:
                self._make()
            except (OSError, CredentialError) as error:  # half-written, a key of another
                _log.warning("certificates not reloaded: %s", error)
            else:
                files.were_read()
                self._contexts.clear()
                self._generation += 1
        return self._generation
