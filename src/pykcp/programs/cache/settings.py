"""The settings of a cache server that runs alone."""

from __future__ import annotations

import pathlib

from pykcp.programs.kit.checks import kubeconfig_file, not_negative
from pykcp.programs.kit.groups.authorization import AllowedPathOptions
from pykcp.programs.kit.groups.client_ca import ClientCAOptions
from pykcp.programs.kit.groups.logging import LoggingOptions
from pykcp.programs.kit.groups.root_directory import RootDirectoryOptions
from pykcp.programs.kit.groups.serving import ServingOptions
from pykcp.programs.kit.groups.store import EtcdOptions
from pykcp.programs.kit.options import OptionGroup, option
from pykcp.programs.kit.settings import ProgramSettings


class CacheOptions(OptionGroup):
    TITLE = "Cache"

    synthetic_delay: float = option(
        "Time that every request waits; for tests.", 0.0, check=not_negative
    )
    upstream_kubeconfig: str = option(
        "Kubeconfig of a member of system:masters on another cache server. Both get the objects that the other one has.",
        "",
        check=kubeconfig_file,
    )


class CacheSettings(ProgramSettings):
    COMMAND = "cache-server"

    generic: RootDirectoryOptions = RootDirectoryOptions(root_directory=pathlib.Path(".kcp-cache"))
    serving: ServingOptions = ServingOptions()
    client_ca: ClientCAOptions = ClientCAOptions()
    authorization: AllowedPathOptions = AllowedPathOptions()
    cache: CacheOptions = CacheOptions()
    store: EtcdOptions = EtcdOptions()
    logging: LoggingOptions = LoggingOptions()
    shutdown_seconds: float = 5.0
