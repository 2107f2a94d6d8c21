"""The option groups that only the front-proxy has."""

from __future__ import annotations

from collections.abc import Iterator

from pykcp.clients.kubeconfig import load_endpoint
from pykcp.programs.kit.checks import choice, kubeconfig_file, loaded_by
from pykcp.programs.kit.flags import ignored
from pykcp.programs.kit.groups.service_accounts import AccountTokenOptions
from pykcp.programs.kit.options import OptionGroup, option
from pykcp.proxy.identity import DROPPED_GROUPS
from pykcp.proxy.mapping import load_mappings
from pykcp.proxy.shards import load_shards

ANY_SERVER = "https://kcp.io/fake"
"""Stands for the server of --shards-kubeconfig, which is replaced by that of each shard."""


class FrontProxyOptions(OptionGroup):
    TITLE = "Front-proxy"
    OTHER = (ignored("profiler-address"),)

    mapping_file: str = option(
        "File that maps paths to servers: a YAML list of path, backend, backend_server_ca, proxy_client_cert, proxy_client_key.",
        "",
        check=loaded_by(load_mappings),
    )
    root_kubeconfig: str = option(
        "Kubeconfig of the root shard, whose Shard objects say where the shards are.",
        "",
        check=kubeconfig_file,
    )
    shards_kubeconfig: str = option(
        "Kubeconfig of a member of system:masters on all shards; its server is replaced by the address of each shard.",
        "",
        check=loaded_by(lambda path: load_endpoint(path, url=ANY_SERVER)),
    )

    shards_file: str = option(
        "JSON list of Shard objects that are expected to exist. They count until the root shard has answered for the first time, so that a new front-proxy can start while it is away.",
        "",
        check=loaded_by(load_shards),
    )

    def problems(self) -> Iterator[str]:
        for flag in ("mapping_file", "root_kubeconfig", "shards_kubeconfig"):
            if not getattr(self, flag):
                yield f"--{flag.replace('_', '-')} is required"
        yield from super().problems()


class GroupOptions(OptionGroup):
    TITLE = "Groups"

    authentication_pass_on_groups: tuple[str, ...] = option(
        "Groups that are passed on to the shards; all if empty. A name that ends in * stands for all that begin like it. Dropping takes precedence.",
        (),
    )
    authentication_drop_groups: tuple[str, ...] = option(
        "Groups that are not passed on to the shards. A name that ends in * stands for all that begin like it.",
        DROPPED_GROUPS,
    )
    authentication_anonymous: str = option(
        "What happens to requests without credentials: pass forwards them as anonymous, deny answers 401, auto denies them if any way to sign in by a token is configured.",
        "auto",
        check=choice("auto", "pass", "deny"),
    )


class ProxyAccountOptions(AccountTokenOptions):
    OTHER = (
        ignored("service-account-extend-token-expiration", "bool", True),
        ignored("service-account-jwks-uri"),
        ignored("service-account-max-token-expiration", "duration", 0.0),
        ignored("service-account-signing-endpoint"),
    )
