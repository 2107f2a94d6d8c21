"""TLS settings of a kubeconfig."""

from __future__ import annotations

import os
import ssl
import tempfile

from pykcp.cli.plugins.access.client_config import Object, decoded
from pykcp.cli.plugins.errors import PluginError
from pykcp.wire.tls_trust import trusting_leaves


def context(cluster: Object, user: Object) -> ssl.SSLContext:
    tls = trusting_leaves(ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT))
    if cluster.get("insecure-skip-tls-verify"):
        tls.check_hostname = False
        tls.verify_mode = ssl.CERT_NONE
    elif cluster.get("certificate-authority-data"):
        authority = decoded(cluster["certificate-authority-data"]).decode("ascii", "replace")
        _load(lambda: tls.load_verify_locations(cadata=authority))
    elif cluster.get("certificate-authority"):
        _load(lambda: tls.load_verify_locations(cafile=cluster["certificate-authority"]))
    else:
        tls.load_default_certs()
    _load_certificate(tls, user)
    return tls


def _load_certificate(tls: ssl.SSLContext, user: Object) -> None:
    if user.get("certificate"):  # from an exec plugin
        _from_memory(tls, user["certificate"].encode(), user["key"].encode())
    elif user.get("client-certificate-data") or user.get("client-certificate"):
        _from_memory(tls, _content(user, "client-certificate"), _content(user, "client-key"))


def _content(user: Object, name: str) -> bytes:
    if user.get(f"{name}-data"):
        return decoded(user[f"{name}-data"])
    with open(user[name], "rb") as file:
        return file.read()


def _from_memory(tls: ssl.SSLContext, certificate: bytes, key: bytes) -> None:
    """The library only reads files; this one is private and removed immediately."""
    descriptor, name = tempfile.mkstemp(prefix="kubectl-ws-")
    try:
        with open(descriptor, "wb") as file:
            file.write(certificate.rstrip() + b"\n" + key)
        _load(lambda: tls.load_cert_chain(name))
    finally:
        os.remove(name)


def _load(load: object) -> None:
    assert callable(load)
    try:
        load()
    except ssl.SSLError as error:
        from pykcp.clients.errors import tls_problem

        raise PluginError(
            f"unable to load root certificates or client certificate: {tls_problem(error)}"
        ) from None
