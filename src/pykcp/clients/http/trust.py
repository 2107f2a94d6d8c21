"""Which servers a client trusts, and the certificate that it shows them."""

from __future__ import annotations

import ssl
from collections.abc import Callable
from typing import TypeAlias

from pykcp.wire.tls_trust import verifying_context

HTTP2 = ("h2", "http/1.1")
HTTP1 = ("http/1.1",)
Protocols: TypeAlias = tuple[str, ...]


class Trust:
    """Makes TLS contexts, one for each choice of protocols, when they are first needed.

    Servers are verified unless the maker says otherwise: there is no switch here.
    """

    def __init__(self, make: Callable[[], ssl.SSLContext]) -> None:
        """`make`: a context of one's own, which no other client uses. May raise OSError."""
        self._make = make
        self._contexts: dict[Protocols, ssl.SSLContext] = {}

    @classmethod
    def of_files(cls, authority: str = "", certificate: str = "", key: str = "") -> Trust:
        """Servers of an authority, or of the system's; with a certificate of our own, if given."""

        def make() -> ssl.SSLContext:
            context = verifying_context(cafile=authority)
            if certificate:
                context.load_cert_chain(certificate, key)
            return context

        return cls(make)

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
        found = self._contexts.get(protocols)
        if found is None:
            found = self._make()
            found.set_alpn_protocols(list(protocols))
            self._contexts[protocols] = found
        return found
