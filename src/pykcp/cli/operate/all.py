"""The commands by name; each is imported when it is called."""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module

from pykcp.cli.operate.words import HostCommand, run_command

COMMANDS = {
    "status": "status",
    "logs": "logs",
    "restart": "lifecycle",
    "upgrade": "lifecycle",
    "down": "lifecycle",
    "doctor": "doctor",
    "get": "objects",
    "describe": "objects",
    "apply": "objects",
    "delete": "objects",
    "cert": "cert",
    "kubeconfig": "kubeconfig",
    "export": "archives",
    "import": "archives",
}
"""The modules of all commands but `kcp up`."""


def main(name: str, words: Sequence[str]) -> int:
    if name == "up":
        from pykcp.cli.operate.up import main as up

        return up(words)
    return run_command(host_command(name), words)


def host_command(name: str) -> HostCommand:
    command: HostCommand = getattr(
        import_module(f"pykcp.cli.operate.{COMMANDS[name]}"), name.upper()
    )
    return command
