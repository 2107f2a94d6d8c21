"""An outage is told once, and its end as well."""

from __future__ import annotations

import logging
import time

import pytest

from pykcp.client.outages import Outage
from pykcp.machinery.status import ServiceUnavailable, Unauthorized


async def test_told_once(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "pykcp.client.outages")
    outage = Outage("watch", 0.0, 0.0)
    outage.answered()
    assert caplog.messages == []
    for _ in range(3):
        await outage.wait(ServiceUnavailable("away"))
    assert caplog.messages == ["'watch': interrupted, trying again until it works: away"]
    outage.answered()
    outage.answered()
    assert [record.levelname for record in caplog.records] == ["WARNING", "INFO"]
    assert caplog.messages[-1] == "'watch': continued after 0.0 s"


async def test_another_reason_is_news(caplog: pytest.LogCaptureFixture) -> None:
    outage = Outage("watch", 0.0, 0.0)
    await outage.wait(ServiceUnavailable("away"))
    await outage.wait(Unauthorized("no"))
    await outage.wait(Unauthorized("no"))
    assert len(caplog.records) == 2


@pytest.fixture
def pauses(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    waited: list[float] = []

    async def wait(seconds: float) -> None:
        waited.append(seconds)

    monkeypatch.setattr("asyncio.sleep", wait)
    return waited


async def test_pauses_grow(pauses: list[float]) -> None:
    """A server that accepts a watch and breaks it off is not asked in a tight loop."""
    outage = Outage("watch", 1.0, 5.0)
    for _ in range(4):
        await outage.wait(ServiceUnavailable("away"))
        outage.answered()
    outage.over()
    await outage.wait(ServiceUnavailable("away"))
    assert pauses == [1.0, 2.0, 4.0, 5.0, 1.0]


async def test_a_quiet_watch_begins_anew(
    pauses: list[float], monkeypatch: pytest.MonkeyPatch
) -> None:
    outage = Outage("watch", 1.0, 5.0)
    for _ in range(3):
        await outage.wait(ServiceUnavailable("away"))
    outage.answered()
    later = time.monotonic() + 6.0
    monkeypatch.setattr("time.monotonic", lambda: later)
    await outage.wait(ServiceUnavailable("away"))
    assert pauses == [1.0, 2.0, 4.0, 1.0]
