"""The programs of an installation: how each is called, and where it says that it is ready."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from pykcp.programs.sharded.files import PROXY_NAME, FleetFiles


class FleetMember(NamedTuple):
    """One program to run."""

    name: str
    program: str
    """Its name as a command."""
    module: str
    words: Sequence[str]
    port: int


def fleet_members(
    files: FleetFiles, shard_flags: Sequence[str] = (), proxy_flags: Sequence[str] = ()
) -> Iterator[FleetMember]:
    """All programs; they may be started in any order, or at once."""
    yield _cache(files)
    for number in range(len(files.addresses.shards)):
        yield _shard(files, number, shard_flags)
    yield _proxy(files, proxy_flags)


def _serving(files: FleetFiles, port: int) -> list[str]:
    return [
        f"--bind-address={files.addresses.host}",
        f"--secure-port={port}",
        f"--tls-cert-file={files.certificate('serving')}",
        f"--tls-private-key-file={files.key('serving')}",
        f"--client-ca-file={files.authority('client')}",
    ]


def _cache(files: FleetFiles) -> FleetMember:
    port = files.addresses.cache
    words = [f"--root-directory={files.directory / 'cache'}", *_serving(files, port)]
    return FleetMember("cache", "cache-server", "pykcp.cli.cache_server", words, port)


def _shard(files: FleetFiles, number: int, flags: Sequence[str]) -> FleetMember:
    at = files.addresses
    name, port = at.names[number], at.shards[number]
    account_key = files.pki / "service-account.key"
    words = [
        "start",
        f"--shard-name={name}",
        f"--root-directory={files.directory / name}",
        *_serving(files, port),
        f"--requestheader-client-ca-file={files.authority('requestheader')}",
        f"--requestheader-allowed-names={PROXY_NAME}",
        f"--service-account-key-file={account_key}",
        f"--service-account-signing-key-file={account_key}",
        f"--service-account-private-key-file={account_key}",
        f"--shard-base-url={at.url(port)}",
        f"--shard-external-url={at.url(at.proxy)}",
        f"--shard-virtual-workspace-ca-file={files.authority('serving')}",
        f"--shard-client-cert-file={files.certificate('shard-client')}",
        f"--shard-client-key-file={files.key('shard-client')}",
        f"--logical-cluster-admin-kubeconfig={files.kubeconfig('logical-cluster-admin')}",
        f"--cache-kubeconfig={files.kubeconfig('cache')}",
    ]
    if number:
        words.append(f"--root-shard-kubeconfig-file={files.kubeconfig('root-shard')}")
    return FleetMember(name, "kcp", "pykcp", [*words, *flags], port)


def _proxy(files: FleetFiles, flags: Sequence[str]) -> FleetMember:
    port = files.addresses.proxy
    words = [
        f"--mapping-file={files.directory / 'mapping.yaml'}",
        f"--root-directory={files.directory / 'front-proxy'}",
        f"--root-kubeconfig={files.kubeconfig('root-shard')}",
        f"--shards-kubeconfig={files.kubeconfig('root-shard')}",
        *_serving(files, port),
    ]
    return FleetMember(
        "front-proxy", "kcp-front-proxy", "pykcp.cli.kcp_front_proxy", [*words, *flags], port
    )
