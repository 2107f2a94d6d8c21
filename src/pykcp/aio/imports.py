"""Imports of modules that load slowly, in a thread, so that the event loop is not blocked."""

from __future__ import annotations

import asyncio
import importlib
import sys
from types import ModuleType

from pykcp.aio.owner import spawn

_loading: dict[str, asyncio.Task[ModuleType]] = {}


async def import_aside(name: str) -> ModuleType:
    """The module; a thread imports it, one for all who wait for it."""
    found = sys.modules.get(name)
    if found is not None and name not in _loading:
        return found
    task = _loading.get(name)
    if task is None or task.get_loop() is not asyncio.get_running_loop():
        task = spawn(asyncio.to_thread(importlib.import_module, name), f"import {name}")
        _loading[name] = task
        task.add_done_callback(lambda _: _loading.pop(name, None))
    return await asyncio.shield(task)
