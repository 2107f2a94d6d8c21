"""Memory is given back when the process has grown, and not again and again in vain."""

from __future__ import annotations

import pytest

from pykcp.aio import memory
from pykcp.aio.memory import Trimmer

_MIB = 1 << 20


def test_trimming(monkeypatch: pytest.MonkeyPatch) -> None:
    sizes = iter([100, 120, 300, 300, 110, 115, 300, 300, 290, 290, 290, 290])
    monkeypatch.setattr(memory, "resident", lambda: next(sizes) * _MIB)
    monkeypatch.setattr(memory, "_find_trim", lambda: lambda _pad: 1)
    trimmer = Trimmer()
    assert not trimmer.is_due(0, is_idle=False)  # 100: the least
    assert not trimmer.is_due(5, is_idle=False)  # 120
    assert trimmer.is_due(10, is_idle=False)  # 300
    trimmer.trim(10)  # 300 → 110
    assert not trimmer.is_due(30, is_idle=False)  # 115
    assert trimmer.is_due(31, is_idle=False)  # 300
    trimmer.trim(31)  # 300 → 290: in vain
    assert not trimmer.is_due(40, is_idle=False)  # later, then
    assert trimmer.is_due(40, is_idle=True)  # unless there is nothing else to do
    assert trimmer.is_due(41, is_idle=False)


def test_size_is_known() -> None:
    assert memory.resident() > 10 * _MIB
