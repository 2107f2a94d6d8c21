"""What systemd is told, and asked: by `systemctl`, where systemd runs this machine."""

from __future__ import annotations

import pathlib
import subprocess
from collections.abc import Sequence
from typing import NamedTuple

from pykcp.programs.kit.errors import SettingsError

_SECONDS = 120.0


class UnitState(NamedTuple):
    pid: int = 0
    restarts: int = 0
    state: str = ""
    """`active`, `activating`, `failed`, …; "" if systemd does not say."""


def loaded_units(names: Sequence[str], directory: pathlib.Path) -> list[str]:
    """Those that systemd read from this directory.

    Units of the same names may be written to another one just to look at them.
    """
    return [name for name in names if _file_of(name).parent == directory]


def stop_units(names: Sequence[str]) -> None:
    """Stop units for good, and now. Raises SettingsError."""
    done = _run(("disable", "--now", *names))
    if done is None or done.returncode:
        why = done.stderr.strip() if done is not None else "systemd does not answer"
        raise SettingsError(f"units that are not needed any more cannot be stopped: {why}")


def reload_units() -> None:
    _run(("daemon-reload",))


def unit_states(names: Sequence[str]) -> dict[str, UnitState]:
    """By name; empty if systemd does not answer."""
    if not names:
        return {}
    found = {}
    for block in _asked("show", "--property=Id,MainPID,NRestarts,ActiveState", *names).split(
        "\n\n"
    ):
        values = dict(line.partition("=")[::2] for line in block.splitlines() if "=" in line)
        if name := values.get("Id"):
            pid, restarts = (int(values.get(key) or 0) for key in ("MainPID", "NRestarts"))
            found[name] = UnitState(pid, restarts, values.get("ActiveState", ""))
    return found


def _file_of(name: str) -> pathlib.Path:
    return pathlib.Path(_asked("show", "--property=FragmentPath", "--value", name).strip())


def _asked(*words: str) -> str:
    done = _run(words)
    return done.stdout if done is not None and done.returncode == 0 else ""


def _run(words: Sequence[str]) -> subprocess.CompletedProcess[str] | None:
    try:
        return subprocess.run(
            ["systemctl", *words], capture_output=True, text=True, timeout=_SECONDS, check=False
        )
    except (OSError, subprocess.TimeoutExpired):  # no systemd, or none that answers
        return None
