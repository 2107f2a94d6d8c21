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
        "Port of the front-proxy. The cache server has the next one, and the shards those after it.",
        6443,
    )
    shard_flags: tuple[str, ...] = option(
        "Further flags of every shard, separated by commas: --v=4,--feature-gates=WorkspaceMounts=true.",
        (),
    )
    proxy_flags: tuple[str, ...] = option("Further flags of the front-proxy.", ())
    print_commands: bool = option(
        "Write certificates and kubeconfigs, print how each program is started, and start none.",
        False,
    )

    def problems(self) -> Iterator[str]:
        yield from super().problems()
        if not 1 <= self.shards <= _MOST_SHARDS:
            yield f"--shards must be between 1 and {_MOST_SHARDS}"
        if not 1 <= self.secure_port <= 65535 - self.shards - 1:
            yield "--secure-port must leave room for the ports of the shards and the cache server"

    @property
    def addresses(self) -> FleetAddresses:
        # A shard that is added later takes the next port: those of the others do not change.
        cache = self.secure_port + 1
        shards = tuple(range(cache + 1, cache + 1 + self.shards))
        return FleetAddresses(self.bind_address, self.secure_port, cache, shards)


class ShardedSettings(ProgramSettings):
    COMMAND = "kcp sharded"

    generic: RootDirectoryOptions = RootDirectoryOptions(root_directory=pathlib.Path(".kcp"))
    fleet: FleetOptions = FleetOptions()
    logging: LoggingOptions = LoggingOptions()
    start_seconds: float = 60.0
    stop_seconds: float = 15.0
