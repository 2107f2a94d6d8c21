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
from pykcp.wire.settings import ClientSettings


def connect(
    kubeconfig: str,
    manager: str,
    context: str = "",
    identities: Mapping[tuple[str, str], str] = MappingProxyType({}),
    settings: ClientSettings | None = None,
) -> RemoteClient:
    """A client with the address, trust and credentials of a kubeconfig's context.

    A logical cluster in the address does not count: every verb names its own. Connections open
    with the first request; `close` the client's `http` at the end. Raises CredentialError.
    """
    endpoint = load_endpoint(kubeconfig, context)
    try:
        return client_of(endpoint, manager, identities=identities, settings=settings)
    except CredentialError as error:
        raise CredentialError(f"{kubeconfig}: {error}") from None


def client_of(
    endpoint: KubeconfigServer,
    manager: str,
    *,
    url: str = "",
    identities: Mapping[tuple[str, str], str] = MappingProxyType({}),
    timeout: float | None = None,
    on_outcome: Callable[[bool], None] | None = None,
    settings: ClientSettings | None = None,
) -> RemoteClient:
    """The same for a server that was read already; `url`: another server of the same kind."""
    return RemoteClient(
        http_of(endpoint, url, settings=settings),
        manager,
        token=token_of(endpoint),
        identities=identities,
        timeout=timeout,
        on_outcome=on_outcome,
    )


def http_of(
    endpoint: KubeconfigServer,
    url: str = "",
    addresses: tuple[str, ...] = (),
    *,
    settings: ClientSettings | None = None,
    tenant: str | None = None,
) -> HttpClient:
    """The connections to the server of a kubeconfig, or to another one of the same kind.

    `addresses`: those to connect to, if the name shall not be looked up; `tenant`: who wrote the
    kubeconfig, if this is not the operator.
    """
    if endpoint.skip_verify:
        raise CredentialError("insecure-skip-tls-verify is not supported here")
    parts = urlsplit(server_root(url or endpoint.url))
    if parts.path.strip("/"):
        raise CredentialError(f"the server's address has a path, {parts.path}")
    is_tls = parts.scheme == "https"
    server = Server(
        parts.scheme,
        parts.hostname or "",
        parts.port or (443 if is_tls else 80),
        Trust(lambda: make_context(endpoint), endpoint.files) if is_tls else None,
        endpoint.server_name,
        addresses,
    )
    return HttpClient(server, settings, tenant)


def token_of(endpoint: KubeconfigServer) -> Callable[[], str]:
    """The bearer token; one in a file is read again with every request: it is replaced there."""
    if not endpoint.token_file:
        return lambda: endpoint.token
    path = pathlib.Path(endpoint.token_file)
    return lambda: read(path).decode().strip()
