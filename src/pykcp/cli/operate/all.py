"""The commands by name; each is imported when it is called."""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module

from pykcp.cli.operate.words import run_command

_WHERE = {
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


def main(name: str, words: Sequence[str]) -> int:
    if name == "up":
        from pykcp.cli.operate.up import main as up

        return up(words)
    module = import_module(f"pykcp.cli.operate.{_WHERE[name]}")
    return run_command(getattr(module, name.upper()), words)
