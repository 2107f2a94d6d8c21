"""A shard is built in stages; building starts nothing."""

from __future__ import annotations

import asyncio
import dataclasses
import pathlib

import pytest

from pykcp.programs.shard.credentials import Credentials
from pykcp.programs.shard.wiring import Shard, wire
from pykcp.storage.memory import MemoryStore
from pykcp.testing.programs import shard_settings


def _build(root: pathlib.Path, *flags: str) -> Shard:
    settings = shard_settings(root, *flags)
    settings.generic.make_root()
    return wire(settings, Credentials(settings), MemoryStore(), MemoryStore())


async def test_building_starts_nothing(tmp_path: pathlib.Path) -> None:
    before = asyncio.all_tasks()
    shard = _build(tmp_path / ".kcp")
    assert asyncio.all_tasks() == before
    names = [task.name for task in shard.tasks]
    assert names == [
        "egress-webhooks", "egress-mounts", "egress-virtual-resources", "workers", "sign-in",
    ]  # fmt: skip


async def test_stages_are_frozen(tmp_path: pathlib.Path) -> None:
    shard = _build(tmp_path / ".kcp")
    for part in (shard, shard.base, shard.stores, shard.catalog, shard.access, shard.api):
        field = dataclasses.fields(part)[0].name
        with pytest.raises(dataclasses.FrozenInstanceError):
            setattr(part, field, None)


async def test_features_add_their_tasks(tmp_path: pathlib.Path) -> None:
    shard = _build(tmp_path / ".kcp", "--feature-gates=WorkspaceAuthentication=true")
    assert "workspace-sign-in" in [task.name for task in shard.tasks]
