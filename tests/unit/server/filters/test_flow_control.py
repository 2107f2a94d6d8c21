"""Waiting for a seat, and giving it back whatever happens."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from pykcp.auth.user import MASTERS, User
from pykcp.observe.metrics import Registry
from pykcp.server.filters.flow_control import FlowControl, FlowSettings, TooBusy
from pykcp.server.filters.flow_queue import SeatLimits
from pykcp.server.request_info import parse

LIST = "/api/v1/configmaps"


class Work:
    """A request's work that goes on until it is told to end."""

    def __init__(self) -> None:
        self.is_running = False
        self.began, self.end = asyncio.Event(), asyncio.Event()

    async def __call__(self) -> None:
        self.is_running = True
        self.began.set()
        try:
            await self.end.wait()
        finally:
            self.is_running = False


def _call(query: str = "", user: str = "ann", *groups: str) -> Any:
    """As much of a call as flow control looks at."""
    return SimpleNamespace(
        cluster="one",
        user=User(user, groups=groups),
        info=parse("GET", LIST, query),
        exchange=SimpleNamespace(
            request=SimpleNamespace(body=b"", peer=SimpleNamespace(address="10.0.0.1"))
        ),
        stream=None,
        started=time.perf_counter(),
        payer=None,
        cluster_payer=None,
        is_authorized=False,
        was_delayed=False,
    )


def _flow(wait: float = 60.0, watches: int = 10, **more: Any) -> FlowControl:
    """One long request at a time."""
    settings = FlowSettings(long=SeatLimits(seats=1), wait=wait, watches_per_user=watches, **more)
    return FlowControl(settings, Registry())


async def _settled() -> None:
    for _ in range(5):
        await asyncio.sleep(0)


def _govern(flow: FlowControl, call: Any, pending: Any) -> Any:
    """As the chain does it."""
    assert flow.meter.admits(call, call.user)
    call.is_authorized = True
    return flow.govern(call, pending)


def _start(flow: FlowControl, call: Any, work: Callable[[], Any]) -> asyncio.Task[None]:
    return asyncio.ensure_future(_govern(flow, call, work()))


async def test_the_second_runs_when_the_first_is_done() -> None:
    flow, first, second = _flow(), Work(), Work()
    tasks = [_start(flow, _call(), first), _start(flow, _call(), second)]
    await _settled()
    assert (first.is_running, second.is_running) == (True, False)
    first.end.set()
    await _settled()
    assert second.is_running
    second.end.set()
    await asyncio.gather(*tasks)


async def test_who_waits_too_long_is_refused() -> None:
    flow, first, second = _flow(wait=0.0), Work(), Work()
    running = _start(flow, _call(), first)
    await _settled()
    with pytest.raises(TooBusy) as refusal:
        await _govern(flow, _call(), second())
    assert (refusal.value.code, refusal.value.retry_after) == (429, 1)
    first.end.set()
    await running


async def test_whoever_goes_away_while_waiting_leaves_no_trace() -> None:
    flow, first, second = _flow(), Work(), Work()
    running = _start(flow, _call(), first)
    waiting = _start(flow, _call(), second)
    await _settled()
    waiting.cancel()
    await asyncio.gather(waiting, return_exceptions=True)
    first.end.set()
    await running
    assert not second.is_running
    assert flow._long.queue.is_idle


async def test_whoever_goes_away_with_a_seat_just_given_passes_it_on() -> None:
    flow, first, second, third = _flow(), Work(), Work(), Work()
    tasks = [_start(flow, _call(), work) for work in (first, second, third)]
    await _settled()
    queue = flow._long.queue
    first.end.set()
    await asyncio.sleep(0)  # the first ends
    await asyncio.sleep(0)
    tasks[1].cancel()
    await _settled()
    assert third.is_running
    third.end.set()
    await asyncio.gather(*tasks, return_exceptions=True)
    assert queue.is_idle


async def test_a_thousand_watches_may_begin_at_once_and_other_requests_still_wait() -> None:
    flow, first = _flow(watches=1000), Work()
    running = _start(flow, _call(), first)
    await _settled()
    works = [Work() for _ in range(1000)]
    watches = [_start(flow, _call("watch=true"), work) for work in works]
    other = Work()
    listing = _start(flow, _call(), other)
    for work in (first, other, *works):
        work.end.set()
    await asyncio.gather(running, listing, *watches)
    assert flow._room.is_empty
    assert flow._watch_room.is_empty


async def test_a_failure_gives_the_seat_back() -> None:
    flow = _flow()

    async def fail() -> None:
        raise ValueError("no")

    for _ in range(3):
        with pytest.raises(ValueError, match="no"):
            await _govern(flow, _call(), fail())
    assert flow._long.queue.is_idle


async def test_a_slow_reader_keeps_nobody_out() -> None:
    """After a while the seat is free, though the request goes on; it is given back once."""
    flow, slow, quick = _flow(seat_timeout=0.0), Work(), Work()
    tasks = [_start(flow, _call(), slow), _start(flow, _call(), quick)]
    await quick.began.wait()
    assert slow.is_running
    slow.end.set()
    quick.end.set()
    await asyncio.gather(*tasks)
    assert flow._long.queue.is_idle


@pytest.mark.parametrize(
    ("query", "level"),
    [
        ("", "long"),
        ("limit=0", "long"),
        ("limit=501", "long"),
        ("limit=nonsense", "long"),
        ("labelSelector=a%3Db", "long"),
        ("limit=500", "reads"),
        ("limit=1&labelSelector=a%3Db", "reads"),
        ("fieldSelector=metadata.name%3Dx", "reads"),
        ("watch=true", "long"),
    ],
)
async def test_which_requests_are_long(query: str, level: str) -> None:
    flow, work = _flow(), Work()
    task = _start(flow, _call(query), work)
    await _settled()
    running = {"long": flow._long.queue.running, "reads": flow._reads.queue.running}
    assert running == {"long": 0, "reads": 0, level: 1}
    work.end.set()
    await task


@pytest.mark.parametrize(
    ("path", "level"), [("/openapi/v2", "long"), ("/apis", "reads"), ("/version", "reads")]
)
async def test_openapi_documents_are_long(path: str, level: str) -> None:
    """Other paths that have to be waited for do not queue behind long lists."""
    flow, work = _flow(), Work()
    call = _call()
    call.info = parse("GET", path, "")
    task = _start(flow, call, work)
    await _settled()
    assert (flow._long.queue.running, flow._reads.queue.running) == (
        (1, 0) if level == "long" else (0, 1)
    )
    work.end.set()
    await task


async def test_system_masters_pass_by() -> None:
    flow, work = _flow(), Work()
    pending = work()
    assert _govern(flow, _call("", "root", MASTERS), pending) is pending
    pending.close()


async def test_a_watch_counts_until_its_stream_is_over() -> None:
    flow = _flow(watches=1)
    call = _call("watch=true")
    closing: list[Callable[[], None]] = []

    async def open_watch() -> None:
        call.stream = SimpleNamespace(on_close=closing.append)

    async def not_reached() -> None:
        raise AssertionError

    await _govern(flow, call, open_watch())
    with pytest.raises(TooBusy):
        await _govern(flow, _call("watch=true"), not_reached())
    closing[0]()
    assert not flow._watches_of_user
    assert not flow._watches_of_cluster
    await _govern(flow, call, open_watch())
