"""A client for the server that a kubeconfig names."""

from __future__ import annotations

import pathlib
from collections.abc import Callable, Mapping
from types import MappingProxyType
from urllib.parse import urlsplit

from pykcp.clients.credential_files import CredentialError, read
from pykcp.clients.http.client import HttpClient
from pykcp.clients.http.interface import Server
from pykcp.clients.http.trust import Trust
from pykcp.clients.kubeconfig import KubeconfigServer, load_endpoint, make_context
from pykcp.clients.remote.client import RemoteClient
from pykcp.clients.remote.paths import server_root


def connect(
    kubeconfig: str,
    manager: str,
    context: str = "",
    identities: Mapping[tuple[str, str], str] = MappingProxyType({}),
) -> RemoteClient:
    """A client with the address, trust and credentials of a kubeconfig's context.

    A logical cluster in the address does not count: every verb names its own. Connections open
    with the first request; `close` the client's `http` at the end. Raises CredentialError.
    """
    endpoint = load_endpoint(kubeconfig, context)
    if endpoint.skip_verify:
        raise CredentialError(f"{kubeconfig}: insecure-skip-tls-verify is not supported here")
    url = urlsplit(server_root(endpoint.url))
    if url.path.strip("/"):
        raise CredentialError(f"{kubeconfig}: the server's address has a path, {url.path}")
    is_tls = url.scheme == "https"
    server = Server(
        url.scheme,
        url.hostname or "",
        url.port or (443 if is_tls else 80),
        Trust(lambda: make_context(endpoint)) if is_tls else None,
        endpoint.server_name,
    )
    return RemoteClient(
        HttpClient(server), manager, token=_token_of(endpoint), identities=identities
    )


def _token_of(endpoint: KubeconfigServer) -> Callable[[], str]:
    """The bearer token; one in a file is read again with every request: it is replaced there."""
    if not endpoint.token_file:
        return lambda: endpoint.token
    path = pathlib.Path(endpoint.token_file)
    return lambda: read(path).decode().strip()
