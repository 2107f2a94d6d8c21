"""CA bundles that tenants give: whom their outgoing connections trust."""

from __future__ import annotations

import asyncio
import hashlib
import ssl

from pykcp.aio.turns import heavy_turn
from pykcp.caching import BoundedCache
from pykcp.wire.tls_trust import verifying_context

MAX_BUNDLE = 1024 * 1024
KEPT, KEPT_BYTES = 256, 8 * 1024 * 1024
_SLICE = 16
"""Certificates that are loaded in one step: some milliseconds."""
_END = "-----END CERTIFICATE-----"


class BadBundle(ValueError):
    """Not a bundle of certificates that can be used."""


class Bundles:
    """TLS contexts of the CA bundles in use; servers with the same bundle share connections."""

    def __init__(self) -> None:
        self._system: ssl.SSLContext | None = None
        # At most KEPT of them, and fewer if they are large.
        self._made: BoundedCache[bytes, tuple[ssl.SSLContext, int]] = BoundedCache(
            "ca-bundles", KEPT_BYTES, cost=lambda made: max(made[1], KEPT_BYTES // KEPT)
        )

    async def context(self, bundle: bytes, tenant: str) -> ssl.SSLContext:
        """TLS that trusts the bundle, or the system's authorities if it is empty.

        Raises BadBundle.
        """
        if not bundle.strip():  # never forgotten: loading the system's takes longest
            if self._system is None:
                self._system = await asyncio.to_thread(ssl.create_default_context)
            return self._system
        key = hashlib.sha256(bundle).digest()
        found = self._made.get(key)
        if found is not None:
            return found[0]
        context = await _load(bundle, tenant)
        if key not in self._made:  # otherwise it was made twice at the same time
            self._made.put(key, (context, len(bundle)))
        return context


async def _load(bundle: bytes, tenant: str) -> ssl.SSLContext:
    if len(bundle) > MAX_BUNDLE:
        raise BadBundle(f"the CA bundle is larger than {MAX_BUNDLE} bytes")
    try:
        slices = _slices(bundle.decode("ascii"))
        context = verifying_context(slices[0])
        for more in slices[1:]:
            async with heavy_turn(tenant):
                context.load_verify_locations(cadata=more)
    except (ssl.SSLError, ValueError) as error:
        raise BadBundle(
            "unable to load root certificates: unable to parse bytes as PEM block"
        ) from error
    return context


def _slices(text: str) -> list[str]:
    """The text in parts of some certificates each; what follows the last one is left out."""
    parts = text.split(_END)
    if len(parts) <= _SLICE:
        return [text]
    whole = [part + _END for part in parts[:-1]]
    return ["".join(whole[at : at + _SLICE]) for at in range(0, len(whole), _SLICE)]
