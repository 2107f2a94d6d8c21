"""Imports beside the event loop."""

from __future__ import annotations

import asyncio
import sys
import threading

import pytest

from pykcp.aio.imports import import_aside


async def test_one_thread_imports_for_all(
    tmp_path: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "slow_to_load.py").write_text(  # type: ignore[operator]
        "import threading\nthread = threading.current_thread()\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    found = await asyncio.gather(*(import_aside("slow_to_load") for _ in range(20)))
    assert all(module is sys.modules["slow_to_load"] for module in found)
    assert found[0].thread is not threading.main_thread()
    assert await import_aside("slow_to_load") is found[0]
    monkeypatch.delitem(sys.modules, "slow_to_load")


async def test_a_module_that_is_not_there() -> None:
    for _ in range(2):
        with pytest.raises(ModuleNotFoundError):
            await import_aside("there_is_no_such_module")
