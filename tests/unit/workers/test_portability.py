"""Worker processes where Linux's interfaces are missing."""

from __future__ import annotations

import os
import pathlib
import resource
import sys
import threading
from collections.abc import Callable
from typing import NoReturn

import pytest

from pykcp.workers import process


def test_memory_without_proc(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`getrusage` counts kibibytes on Linux and octets on macOS."""
    known = process._peak_memory()
    monkeypatch.setattr(process, "_STATUS", tmp_path / "none")
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    assert process._peak_memory() >= peak * 1024 >= known // 2
    monkeypatch.setattr(sys, "platform", "darwin")
    assert peak <= process._peak_memory() < peak * 1024


def refused(name: str) -> Callable[..., NoReturn]:
    def call(*_: object) -> NoReturn:
        raise AssertionError(f"{name} was called")

    return call


def test_limits_that_macos_does_not_have(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "platform", "darwin")
    monkeypatch.setattr(resource, "setrlimit", refused("setrlimit"))
    monkeypatch.setattr(os, "setpriority", refused("setpriority"))
    process._limit_memory(1 << 30)
    process._lower_priority(threading.current_thread())
