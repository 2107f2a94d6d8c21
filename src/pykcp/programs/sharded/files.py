"""The certificates and kubeconfigs of a whole installation, in one directory.

pki/              authorities, the key of service accounts, certificates of servers and clients
admin.kubeconfig  for people: through the front-proxy, as a member of system:kcp:admin
*.kubeconfig      for the programs
cache/, root/, shard-1/, …, front-proxy/   one directory of state for each program
"""

from __future__ import annotations

import json
import pathlib
from collections.abc import Sequence
from dataclasses import dataclass

from pykcp.auth.certificates import (
    KeyPair,
    ensure_ca,
    ensure_client_ca,
    ensure_signing_key,
    issue_client,
    issue_serving,
)
from pykcp.auth.files import write_private, write_public
from pykcp.types import Object

MASTERS = "system:masters"
PROXY_NAME = "kcp-front-proxy"
_CLIENTS = {
    "kcp-admin": ("kcp-admin", "system:kcp:admin"),
    "shard-client": ("kcp-shard", MASTERS),
    "cache-client": ("kcp-cache-client", MASTERS),
    "logical-cluster-admin": ("logical-cluster-admin", "system:kcp:logical-cluster-admin"),
    "shard-admin": ("shard-admin", MASTERS),
}
"""Client certificates by file: user and group."""


@dataclass(frozen=True, slots=True)
class FleetAddresses:
    """Where the programs of an installation listen."""

    host: str
    proxy: int
    cache: int
    shards: tuple[int, ...]
    """The first one is the root shard's."""

    def url(self, port: int) -> str:
        return f"https://{self.host}:{port}"

    @property
    def names(self) -> tuple[str, ...]:
        return ("root", *(f"shard-{n}" for n in range(1, len(self.shards))))


class FleetFiles:
    """The paths of an installation's files; `make` writes them."""

    def __init__(self, directory: pathlib.Path, addresses: FleetAddresses) -> None:
        self.directory, self.addresses = directory.absolute(), addresses
        self.pki = self.directory / "pki"

    @property
    def admin_kubeconfig(self) -> pathlib.Path:
        return self.directory / "admin.kubeconfig"

    def authority(self, name: str) -> str:
        return str(self.pki / f"{name}-ca.crt")

    def certificate(self, name: str) -> str:
        return str(self.pki / f"{name}.crt")

    def key(self, name: str) -> str:
        return str(self.pki / f"{name}.key")

    def kubeconfig(self, name: str) -> str:
        return str(self.directory / f"{name}.kubeconfig")

    def make(self, now: float) -> None:
        """Authorities are kept from one start to the next, everything else is written anew."""
        clients = ensure_client_ca(self.pki, now)
        proxies = ensure_ca(self.pki, "requestheader-ca", now)
        ensure_signing_key(self.pki / "service-account.key")
        for name, (user, group) in _CLIENTS.items():
            self._write(name, issue_client(clients, user, [group], now))
        self._write("front-proxy-client", issue_client(proxies, PROXY_NAME, [], now))
        servers = ensure_ca(self.pki, "serving-ca", now)
        hosts = ["localhost", "127.0.0.1", "::1", self.addresses.host]
        self._write("serving", issue_serving(servers, list(dict.fromkeys(hosts)), now))
        self._kubeconfigs()
        self._mapping()

    def _kubeconfigs(self) -> None:
        at = self.addresses
        proxy, root = at.url(at.proxy), at.url(at.shards[0])
        in_root = {"root": f"{proxy}/clusters/root", "base": proxy}
        self._kubeconfig("admin", in_root, "kcp-admin")
        self._kubeconfig("root-shard", {"shard-base": root}, "shard-admin")
        self._kubeconfig("logical-cluster-admin", {"base": root}, "logical-cluster-admin")
        self._kubeconfig("cache", {"cache": at.url(at.cache)}, "cache-client")
        for name, port in zip(at.names, at.shards, strict=True):
            self._kubeconfig(name, {"base": at.url(port)}, "shard-admin")

    def _kubeconfig(self, name: str, servers: dict[str, str], client: str) -> None:
        """The first server is that of the current context."""
        user = {"client-certificate": self.certificate(client), "client-key": self.key(client)}
        authority = self.authority("serving")
        content: Object = {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [
                {"name": one, "cluster": {"server": url, "certificate-authority": authority}}
                for one, url in servers.items()
            ],
            "users": [{"name": client, "user": user}],
            "contexts": [
                {"name": one, "context": {"cluster": one, "user": client}} for one in servers
            ],
            "current-context": next(iter(servers)),
        }
        path = pathlib.Path(self.kubeconfig(name))
        write_private(path, json.dumps(content, indent=2).encode() + b"\n")

    def _mapping(self) -> None:
        """Logical clusters are looked up; virtual workspaces without one are the root shard's."""
        root = self.addresses.url(self.addresses.shards[0])
        entries: Sequence[Object] = [
            {
                "path": path,
                "backend": root,
                "backend_server_ca": self.authority("serving"),
                "proxy_client_cert": self.certificate("front-proxy-client"),
                "proxy_client_key": self.key("front-proxy-client"),
            }
            for path in ("/services/", "/clusters/")
        ]
        text = json.dumps(entries, indent=2).encode() + b"\n"
        write_public(self.directory / "mapping.yaml", text)

    def _write(self, name: str, pair: KeyPair) -> None:
        write_public(pathlib.Path(self.certificate(name)), pair.certificate)
        write_private(pathlib.Path(self.key(name)), pair.key)
