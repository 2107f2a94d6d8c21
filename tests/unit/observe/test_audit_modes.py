"""Batch and blocking modes: what waits, what is dropped and counted, what is refused."""

from __future__ import annotations

import asyncio

import pytest

from pykcp.observe.audit.modes import Awaited, BatchedEvents, Blocking, Failures, Truncation
from pykcp.observe.audit.policy import AuditLevel, AuditOutcome, AuditPolicy
from pykcp.observe.audit.settings import BatchSettings, TruncateSettings
from pykcp.observe.audit.trail import AuditTrail

OPEN = TruncateSettings()
NOTHING = AuditPolicy((), AuditOutcome(AuditLevel.NONE, frozenset(), omit_managed_fields=False))


class Sink:
    """Collects batches; can be slow or broken."""

    def __init__(self) -> None:
        self.batches: list[list[bytes]] = []
        self.gate = asyncio.Event()
        self.gate.set()
        self.sent = asyncio.Event()
        self.error: Exception | None = None

    @property
    def lines(self) -> list[bytes]:
        return [line for batch in self.batches for line in batch]

    async def send(self, lines: list[bytes]) -> None:
        await self.gate.wait()
        if self.error is not None:
            raise self.error
        self.batches.append(lines)
        self.sent.set()

    def write(self, lines: list[bytes]) -> None:
        if self.error is not None:
            raise self.error
        self.batches.append(lines)


def batch(
    sink: Sink, failures: Failures, truncate: TruncateSettings = OPEN, **settings: float
) -> BatchedEvents:
    fields = {"max_size": 3, "max_wait": 60.0, "throttle": False, **settings}
    made = BatchedEvents(
        "webhook",
        sink.send,
        BatchSettings(**fields),  # type: ignore[arg-type]
        Truncation(truncate, failures),
        failures,
    )
    made.start()
    return made


def line(number: int) -> bytes:
    return b"%d" % number


async def turns() -> None:
    for _ in range(10):
        await asyncio.sleep(0)


async def test_a_full_batch_is_sent_at_once() -> None:
    sink, failures = Sink(), Failures()
    made = batch(sink, failures)
    for number in range(7):
        assert made.process(line(number)) is True
    await turns()
    assert sink.batches == [[b"0", b"1", b"2"], [b"3", b"4", b"5"]]
    await made.stop(5)
    assert sink.lines == [line(n) for n in range(7)]
    assert failures.total.values == {}


async def test_a_batch_that_does_not_fill_is_sent_after_a_while() -> None:
    sink, failures = Sink(), Failures()
    made = batch(sink, failures, max_wait=0.05)
    made.process(b"alone")
    async with asyncio.timeout(5):
        await sink.sent.wait()
    await made.stop(5)


async def test_a_full_buffer_drops_counts_and_says_so(caplog: pytest.LogCaptureFixture) -> None:
    sink, failures = Sink(), Failures()
    sink.gate.clear()
    made = batch(sink, failures, buffer_size=5, max_size=100)
    for number in range(12):
        assert made.process(line(number)) is True
    assert failures.total.values == {("buffered",): 7}
    assert "the buffer of audit webhook is full: event dropped" in caplog.text
    assert made.waiting == 5
    sink.gate.set()
    await made.stop(5)
    assert sink.lines == [line(n) for n in range(5)]


async def test_a_lost_batch_is_counted_and_the_next_is_tried() -> None:
    sink, failures = Sink(), Failures()
    made = batch(sink, failures)
    sink.error = OSError("gone")
    for number in range(3):
        made.process(line(number))
    await turns()
    assert failures.total.values == {("webhook",): 3}
    sink.error = None
    made.process(b"after")
    await made.stop(5)
    assert sink.lines == [b"after"]


async def test_what_cannot_be_sent_before_the_end_is_counted() -> None:
    sink, failures = Sink(), Failures()
    sink.gate.clear()
    made = batch(sink, failures)
    for number in range(4):
        made.process(line(number))
    await made.stop(0.05)
    assert sum(failures.total.values.values()) == 4


async def test_batches_are_throttled() -> None:
    sink, failures = Sink(), Failures()
    made = batch(sink, failures, max_size=1, throttle=True, throttle_qps=1.0, throttle_burst=2)
    for number in range(5):
        made.process(line(number))
    await turns()
    assert len(sink.batches) == 2
    await made.stop(5)
    assert len(sink.lines) == 5, "the end does not wait for its turn"


async def test_large_events_lose_their_bodies_and_larger_ones_are_refused() -> None:
    sink, failures = Sink(), Failures()
    truncate = TruncateSettings(enabled=True, max_event_size=100, max_batch_size=150)
    made = batch(sink, failures, truncate, max_size=10)
    made.process(b'{"requestObject":"%b"}' % (b"x" * 200))
    made.process(b'{"userAgent":"%b"}' % (b"x" * 200))
    made.process(b"{%b}" % (b" " * 90))
    await made.stop(5)
    small = b'{"annotations":{"audit.k8s.io/truncated":"true"}}'
    assert sink.lines == [small, b"{%b}" % (b" " * 90)]
    assert failures.total.values == {("truncate",): 1}


@pytest.mark.parametrize("is_strict", [False, True])
async def test_blocking_writes_before_it_answers(is_strict: bool) -> None:
    sink, failures = Sink(), Failures()
    made = Blocking("log", sink.write, Truncation(OPEN, failures), failures, is_strict=is_strict)
    assert made.process(b"one") is True
    assert sink.lines == [b"one"]
    sink.error = OSError(28, "No space left on device")
    assert made.process(b"two") is not is_strict
    assert failures.total.values == {("log",): 1}


@pytest.mark.parametrize("is_strict", [False, True])
async def test_a_blocking_webhook_is_waited_for(is_strict: bool) -> None:
    sink, failures = Sink(), Failures()
    sink.gate.clear()
    made = Awaited("webhook", sink.send, Truncation(OPEN, failures), failures, is_strict=is_strict)
    trail = AuditTrail(NOTHING, [made], failures)
    assert trail.waits
    answer = trail.process(b"one")
    assert not isinstance(answer, bool)
    waiting = asyncio.ensure_future(answer)
    await turns()
    assert not waiting.done()
    sink.gate.set()
    assert await waiting is True
    sink.error = OSError("gone")
    refused = trail.process(b"two")
    assert not isinstance(refused, bool)
    assert await refused is not is_strict
    assert failures.total.values == {("webhook",): 1}


async def test_the_trail_asks_all_backends() -> None:
    first, second, failures = Sink(), Sink(), Failures()
    truncation = Truncation(OPEN, failures)
    strict = Blocking("log", first.write, truncation, failures, is_strict=True)
    lenient = Blocking("log", second.write, truncation, failures, is_strict=False)
    trail = AuditTrail(NOTHING, [strict, lenient], failures)
    assert trail.process(b"one") is True
    second.error = OSError("gone")
    assert trail.process(b"two") is True
    first.error = OSError("gone")
    assert trail.process(b"three") is False
    assert first.lines == [b"one", b"two"]


async def test_events_that_nobody_waits_for_are_delivered_before_the_end() -> None:
    sink, failures = Sink(), Failures()
    sink.gate.clear()
    made = Awaited("webhook", sink.send, Truncation(OPEN, failures), failures, is_strict=False)
    trail = AuditTrail(NOTHING, [made], failures)
    trail.process(b"end of a stream")
    asyncio.get_running_loop().call_later(0.02, sink.gate.set)
    await trail.stop()
    assert sink.lines == [b"end of a stream"]
