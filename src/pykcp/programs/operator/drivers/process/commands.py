"""How a program of a workload is called on this host, in the version that is asked for."""

from __future__ import annotations

import pathlib
import sys
from collections.abc import Sequence

from pykcp.programs.kit.errors import SettingsError
from pykcp.programs.operator.compiled import FRONT_PROXY, ROOT_SHARD_PROXY, CompiledWorkload
from pykcp.server.documents.version import KCP

MODULES = {
    "kcp": "pykcp",
    "kcp-front-proxy": "pykcp.cli.kcp_front_proxy",
    "cache-server": "pykcp.cli.cache_server",
    "virtual-workspaces": "pykcp.cli.virtual_workspaces",
}
"""The programs of this package, by command."""


class InstalledPrograms:
    """This version, and others in virtual environments: `versions/<tag>/bin/kcp`."""

    def __init__(self, directory: pathlib.Path) -> None:
        self.directory = directory

    def command(self, compiled: CompiledWorkload) -> list[str]:
        """The words of the program and its arguments. Raises SettingsError."""
        return [*self._program(compiled), *compiled.arguments]

    def _program(self, compiled: CompiledWorkload) -> list[str]:
        program = compiled.program
        module = MODULES.get(program)
        if module is None:
            return [program]
        version = compiled.version
        installed = self.directory / version / "bin" / program
        if version and installed.exists():
            return [str(installed)]
        if is_own_version(version):
            return [sys.executable, "-m", module]
        found = ", ".join(self.available()) or "none"
        raise SettingsError(
            f"version {version} of {program} is not installed: make a virtual environment "
            f"{self.directory / version} that contains it (installed versions: {found})"
        )

    def available(self) -> list[str]:
        if not self.directory.is_dir():
            return []
        return sorted(one.parent.parent.name for one in self.directory.glob("*/bin/kcp"))


def is_own_version(version: str) -> bool:
    """Whether this installation runs it: no version, `latest`, or one of kcp's same minor."""
    number = version.removeprefix("v")
    return number in ("", "latest", "main") or number.split(".")[:2] == KCP.split(".")[:2]


def can_share_port(compiled: CompiledWorkload) -> bool:
    """Whether several of its processes may run at once on one port."""
    return compiled.program in MODULES and not compiled.is_single


def has_own_data(compiled: CompiledWorkload) -> bool:
    """Whether each of its processes needs a data directory of its own.

    Proxies share theirs: a new one then knows the shards also while the root shard is away.
    """
    return bool(compiled.data_directory) and compiled.component not in (
        FRONT_PROXY,
        ROOT_SHARD_PROXY,
    )


def data_directory(compiled: CompiledWorkload, number: int) -> str:
    """Of one replica."""
    given = compiled.data_directory
    return f"{given}-{number}" if number and has_own_data(compiled) else given


def replica_words(compiled: CompiledWorkload, words: Sequence[str], number: int) -> list[str]:
    """The words of a program, with the data directory of one replica."""
    before, after = compiled.data_directory, data_directory(compiled, number)
    return [word.replace(before, after) for word in words] if before != after else list(words)


def sharing_flags(health_port: int | str) -> list[str]:
    return ["--permit-port-sharing=true", f"--health-port={health_port}"]
