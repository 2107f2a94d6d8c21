"""Who is charged for what, and who is held back behind whom."""

from __future__ import annotations

import asyncio
import time
from types import SimpleNamespace
from typing import Any

import pytest

from pykcp.aio import costs
from pykcp.auth.user import ANONYMOUS_USER, MASTERS, User, service_account_user
from pykcp.observe.metrics import Registry
from pykcp.server.filters import flow_meter, flow_own_work
from pykcp.server.filters.flow_control import FlowControl, FlowSettings, TooBusy
from pykcp.server.filters.flow_cost import CostLimits
from pykcp.server.filters.flow_meter import CostMeter, network_of
from pykcp.server.filters.flow_queue import SeatLimits
from pykcp.server.filters.flow_room import RoomLimits
from pykcp.server.request_info import parse

ANN, BOB, ROOT = User("ann"), User("bob"), User("root", groups=(MASTERS,))


class Clock:
    """Stands still unless somebody works."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now

    def work(self, seconds: float) -> None:
        self.now += seconds


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    for module in (flow_meter, costs, flow_own_work):
        monkeypatch.setattr(module, "_clock", clock)
    return clock


def _call(clock: Clock, cluster: str = "a", address: str = "10.0.0.1", path: str = "/x") -> Any:
    """As much of a call as the meter looks at."""
    peer = SimpleNamespace(address=address)
    return SimpleNamespace(
        cluster=cluster,
        started=clock.now,
        info=parse("GET", path, ""),
        exchange=SimpleNamespace(request=SimpleNamespace(body=b"", peer=peer)),
        payer=None,
        cluster_payer=None,
        is_authorized=False,
        was_delayed=False,
        stream=None,
    )


def _answered(
    meter: CostMeter, clock: Clock, user: User, seconds: float, cluster: str = "a"
) -> bool:
    """A GET that is answered at once, if it may be; whether it was."""
    call = _call(clock, cluster)
    if not meter.admits(call, user):
        return False
    call.is_authorized = True
    clock.work(seconds)
    assert meter.measure(call, None) is None
    return True


def _costs(meter: CostMeter) -> dict[str, float]:
    accounts = {**meter.users.by_name, **meter.clusters.by_name}
    return {name: round(one.total, 6) for name, one in accounts.items() if one.total}


@pytest.mark.parametrize(
    ("user", "path", "charged"),
    [
        (ANN, "/x", {"user:ann", "a"}),
        (service_account_user("home", "ns", "robot", ""), "/x", {"accounts:home", "a"}),
        (service_account_user("home", "ns", "other", ""), "/x", {"accounts:home", "a"}),
        (ANONYMOUS_USER, "/x", {"address:10.0.0.1", "a"}),
        (ANONYMOUS_USER, "/livez", {"probes:10.0.0.1", "a"}),
        (ROOT, "/x", {"exempt:root"}),
        (None, "/x", {"address:10.0.0.1"}),
    ],
    ids=[
        "user",
        "service account",
        "another one of the same cluster",
        "anonymous",
        "probe",
        "exempt",
        "not signed in",
    ],
)
async def test_who_is_charged(
    clock: Clock, user: User | None, path: str, charged: set[str]
) -> None:
    meter, call = CostMeter(CostLimits()), _call(clock, path=path)
    if user is not None:
        assert meter.admits(call, user)
        call.is_authorized = True
    clock.work(0.001)
    meter.measure(call, None)
    assert _costs(meter) == dict.fromkeys(charged, 0.001)


async def test_who_may_not_be_in_a_cluster_does_not_run_up_its_debts(clock: Clock) -> None:
    meter, call = CostMeter(CostLimits()), _call(clock, "victim")
    meter.admits(call, ANN)
    clock.work(0.001)
    meter.measure(call, None)
    assert _costs(meter) == {"user:ann": 0.001}


async def test_every_step_of_a_coroutine_is_charged_and_no_wait(clock: Clock) -> None:
    meter, call = CostMeter(CostLimits()), _call(clock)

    async def work() -> None:
        assert meter.admits(call, ANN)
        call.is_authorized = True
        clock.work(0.001)
        await asyncio.sleep(0)
        clock.work(0.002)
        await waits
        clock.work(0.004)
        costs.payer().charge(0.03)

    async def meanwhile() -> None:
        clock.work(5.0)

    clock.work(0.0001)  # before it was known who asks
    pending = meter.measure(call, work())
    assert pending is not None
    waits = asyncio.ensure_future(meanwhile())
    await pending
    assert _costs(meter) == {"user:ann": 0.0371, "a": 0.0371}
    assert costs.payer().tenant == "user:ann"


@pytest.mark.parametrize("is_cancelled", [True, False])
async def test_errors_and_cancellation_come_through(clock: Clock, is_cancelled: bool) -> None:
    meter, call = CostMeter(CostLimits()), _call(clock)
    seen: list[str] = []

    async def work() -> None:
        try:
            await asyncio.sleep(0 if not is_cancelled else 60)
            int("no")
        except BaseException as error:
            clock.work(0.001)
            seen.append(type(error).__name__)
            raise

    task = asyncio.ensure_future(meter.drive(call, work()))
    await asyncio.sleep(0)
    if is_cancelled:
        task.cancel()
    with pytest.raises(asyncio.CancelledError if is_cancelled else ValueError):
        await task
    assert seen == ["CancelledError" if is_cancelled else "ValueError"]
    assert _costs(meter) == {"address:10.0.0.1": 0.001}


async def test_alone_nobody_is_held_back(clock: Clock) -> None:
    """But the loop looks after others after some milliseconds."""
    meter = CostMeter(CostLimits())
    _answered(meter, clock, ANN, 0.001)
    clock.work(1.0)  # nobody else was there since
    for _ in range(100):
        answered = [_answered(meter, clock, ANN, 0.001) for _ in range(5)]
        assert all(answered)
        await asyncio.sleep(0)
        clock.work(0.0)
    assert not all(_answered(meter, clock, ANN, 0.001) for _ in range(20))


async def test_beside_others_who_had_more_than_their_share_is_held_back(clock: Clock) -> None:
    meter = CostMeter(CostLimits(user=0.25, cluster=10, burst=0.1))
    answered = []
    for _ in range(300):
        answered.append(_answered(meter, clock, ANN, 0.001))
        assert _answered(meter, clock, BOB, 0.0001), "who takes little is never held back"
    assert all(answered[:100])
    assert answered[200:].count(True) < 10
    clock.work(0.1)  # the debt beyond the burst is paid back
    assert _answered(meter, clock, ANN, 0.001)


async def test_more_clusters_do_not_help(clock: Clock) -> None:
    meter = CostMeter(CostLimits(user=0.25, cluster=0.5, burst=0.1))
    answered = 0
    for number in range(1000):
        answered += _answered(meter, clock, ANN, 0.001, f"c{number % 8}")
        _answered(meter, clock, BOB, 0.0001, "b")
    assert answered < 400


async def test_the_exempt_are_never_held_back_and_leave_no_debts(clock: Clock) -> None:
    meter = CostMeter(CostLimits())
    for _ in range(1000):
        assert _answered(meter, clock, ROOT, 0.001)
        assert _answered(meter, clock, ANN, 0.00001)
    assert meter.totals()["exempt"] == pytest.approx(1.0)


async def test_strangers_wait_before_they_sign_in(clock: Clock) -> None:
    """After failures from the same address; other addresses are not concerned."""
    meter = CostMeter(CostLimits(address=0.1, burst=0.05))
    for _ in range(100):
        call = _call(clock)
        if not meter.admits_stranger(call):
            break
        clock.work(0.001)
        meter.measure(call, None)
        _answered(meter, clock, BOB, 0.00001)
    else:
        raise AssertionError("never held back")
    assert not meter.admits_stranger(_call(clock))
    assert meter.admits_stranger(_call(clock, address="10.0.0.2"))
    assert meter.admits_stranger(_call(clock, path="/livez"))


async def test_held_requests_go_on_in_between(clock: Clock) -> None:
    """Those of the user who owes less first, and each in a pass of the loop of its own."""
    meter = CostMeter(CostLimits())
    order: list[str] = []
    at: list[int] = []
    passes = 0

    def count() -> None:
        nonlocal passes
        passes += 1
        if len(order) < 20:
            asyncio.get_running_loop().call_soon(count)

    def call_of(user: User) -> Any:
        call = _call(clock)
        meter.admits(call, user)
        return call

    async def request(user: User) -> None:
        call = call_of(user)
        assert await meter.background.wait(call.payer, call.cluster, 60.0)
        order.append(user.name)
        at.append(passes)
        clock.work(0.001)
        meter.charge(call, 0.001)

    for user, owed in ((ANN, 1.0), (BOB, 0.5)):
        call = call_of(user)
        call.payer.charge(owed, clock.now)
        meter.charge(call, 0.0001)  # both use the loop
    count()
    await asyncio.gather(*(request(user) for user in [ANN] * 10 + [BOB] * 10))
    assert order == ["bob"] * 10 + ["ann"] * 10
    assert len(set(at)) == 20


@pytest.mark.parametrize(("worked", "pause"), [(0.03, 0.03), (0.001, 0.0)])
async def test_after_a_long_step_of_the_indebted_others_have_the_loop(
    clock: Clock, monkeypatch: pytest.MonkeyPatch, worked: float, pause: float
) -> None:
    """Unless the thread was not scheduled: then it kept nobody waiting."""
    monkeypatch.setattr(flow_meter, "_cpu_clock", lambda: worked)
    meter, call = CostMeter(CostLimits()), _call(clock)
    meter.admits(call, ANN)
    call.payer.charge(1.0, clock.now)
    meter.charge(call, 0.04)
    assert meter.background.pace.pause(clock.now, True) == pytest.approx(pause)


async def test_held_requests_are_bounded_and_time_out() -> None:
    settings = FlowSettings(room=RoomLimits(requests=2), wait=0.0, long=SeatLimits(1))
    flow = FlowControl(settings, Registry())
    call = _call(Clock())
    call.started = time.perf_counter()
    flow.meter.admits(call, ANN)
    waiting = [asyncio.ensure_future(flow.wait_for_others(call)) for _ in range(3)]
    done = await asyncio.gather(*waiting, return_exceptions=True)
    assert [type(one) for one in done].count(TooBusy) >= 1
    assert flow._room.is_empty


async def test_nothing_is_kept_of_those_who_are_gone(clock: Clock) -> None:
    meter = CostMeter(CostLimits())
    for number in range(100):
        _answered(meter, clock, User(f"u{number}"), 0.00001, f"c{number}")
    for _ in range(100):
        clock.work(10.0)
        meter._sweep()
    assert not meter.users.by_name
    assert not meter.clusters.by_name
    assert not meter._known


@pytest.mark.parametrize(
    ("address", "network"),
    [
        ("10.0.0.1", "10.0.0.1"),
        ("::1", "::/64"),
        ("2001:db8:1:2:3:4:5:6", "2001:db8:1:2::/64"),
        ("2001:db8:1:2:ffff::", "2001:db8:1:2::/64"),
        ("fe80::1%eth0", "fe80::/64"),
        ("::ffff:10.0.0.1", "10.0.0.1"),
        ("", ""),
        ("no:address", "no:address"),
    ],
)
def test_ipv6_addresses_count_by_network(address: str, network: str) -> None:
    assert network_of(address) == network


async def test_work_without_a_request_is_charged_to_its_cluster(clock: Clock) -> None:
    meter = CostMeter(CostLimits(user=0.25, cluster=0.5, burst=0.1))
    own = flow_own_work.OwnWork(meter)

    async def write() -> str:
        clock.work(0.03)
        await asyncio.sleep(0)
        clock.work(0.04)
        return "written"

    assert await own.run("a", write()) == "written"
    account = meter.clusters.by_name["a"]
    assert account.total == pytest.approx(0.07)
    assert not account.is_indebted(clock.now)
    for _ in range(2):
        await own.run("a", write())
    assert account.is_indebted(clock.now)


async def test_an_indebted_cluster_waits_only_if_others_are_active(
    clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    meter = CostMeter(CostLimits(user=0.25, cluster=0.5, burst=0.1))
    own = flow_own_work.OwnWork(meter)
    slept: list[float] = []

    async def sleep(seconds: float) -> None:
        slept.append(seconds)

    monkeypatch.setattr(flow_own_work.asyncio, "sleep", sleep)

    async def work() -> None:
        clock.work(0.2)

    await own.run("a", work())
    await own.run("a", work())
    assert slept == []
    for user in (ANN, BOB):  # two users are active
        call = _call(clock)
        meter.admits(call, user)
        meter.charge(call, 0.001)
    await own.run("a", work())
    await own.run("b", work())
    assert slept == [pytest.approx(0.4)]
