"""Settings for tests that run a shard in their own process."""

from __future__ import annotations

import pathlib

from pykcp.programs.shard.settings import ShardSettings


def shard_settings(root: pathlib.Path, *flags: str) -> ShardSettings:
    """Settings on a free port of this machine, as if the flags were on the command line."""
    settings, _ = ShardSettings.parse(
        [
            f"--root-directory={root}",
            "--bind-address=127.0.0.1",
            "--secure-port=0",
            "--experimental-bind-free-port",
            *flags,
        ]
    )
    return settings.checked()
