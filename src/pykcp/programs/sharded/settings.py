"""The settings of `kcp sharded`."""

from __future__ import annotations

import pathlib
from collections.abc import Iterator

from pykcp.programs.kit.groups.logging import LoggingOptions
from pykcp.programs.kit.groups.root_directory import RootDirectoryOptions
from pykcp.programs.kit.options import OptionGroup, option
from pykcp.programs.kit.settings import ProgramSettings
from pykcp.programs.sharded.files import FleetAddresses

_MOST_SHARDS = 64


class FleetOptions(OptionGroup):
    TITLE = "Installation"

    shards: int = option("Number of shards; the first one is the root shard.", 2)
    bind_address: str = option("IP address that all programs listen on.", "127.0.0.1")
    secure_port: int = option(
        "Port of the front-proxy. The shards have the following ports, and the cache server the one after theirs.",
        6443,
    )
    shard_flags: tuple[str, ...] = option(
        "Further flags of every shard, separated by commas: --v=4,--feature-gates=WorkspaceMounts=true.",
        (),
    )
    proxy_flags: tuple[str, ...] = option("Further flags of the front-proxy.", ())

    def problems(self) -> Iterator[str]:
        yield from super().problems()
        if not 1 <= self.shards <= _MOST_SHARDS:
            yield f"--shards must be between 1 and {_MOST_SHARDS}"
        if not 1 <= self.secure_port <= 65535 - self.shards - 1:
            yield "--secure-port must leave room for the ports of the shards and the cache server"

    @property
    def addresses(self) -> FleetAddresses:
        first = self.secure_port + 1
        shards = tuple(range(first, first + self.shards))
        return FleetAddresses(self.bind_address, self.secure_port, shards[-1] + 1, shards)


class ShardedSettings(ProgramSettings):
    COMMAND = "kcp sharded"

    generic: RootDirectoryOptions = RootDirectoryOptions(root_directory=pathlib.Path(".kcp"))
    fleet: FleetOptions = FleetOptions()
    logging: LoggingOptions = LoggingOptions()
    start_seconds: float = 60.0
    stop_seconds: float = 15.0
