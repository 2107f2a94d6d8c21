"""TLS contexts that verify servers, trusting what Go programs trust."""

from __future__ import annotations

import ssl


def verifying_context(cadata: str = "", cafile: str = "") -> ssl.SSLContext:
    """Trust the given certificates, or the system's authorities if none are given.

    A certificate that is given is trusted itself, whether or not it is an authority, as in Go:
    kubeconfigs and CA bundles often hold the serving certificate. Raises OSError (ssl.SSLError
    for what is no certificate).
    """
    context = ssl.create_default_context(cadata=cadata or None, cafile=cafile or None)
    return trusting_leaves(context) if cadata or cafile else context


def trusting_leaves(context: ssl.SSLContext) -> ssl.SSLContext:
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    return context
