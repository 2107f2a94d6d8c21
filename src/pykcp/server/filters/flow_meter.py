"""Measures the cost of requests and defers those of indebted callers.

The time of a request on the event loop is measured: its synchronous part (all of a GET) and each
step of its coroutine. It is charged to the user, across all clusters, and to the cluster once the
user is authorized in it; otherwise strangers could cause debt for a cluster that they may not
enter. Unauthenticated callers are charged by address.

Requests of an indebted user or to an indebted cluster run in the background (`flow_pace`), but
only if other callers use the loop as well, or if they alone would occupy it for too long without
a break. So a single busy user is not slowed down.
"""

from __future__ import annotations

import asyncio
import ipaddress
import time
from collections import Counter
from collections.abc import Callable, Coroutine
from functools import lru_cache, partial
from typing import Any

from pykcp.aio.costs import metered, set_payer
from pykcp.aio.timers import call_later
from pykcp.auth.user import ANONYMOUS, CLUSTER_NAME_KEY, MASTERS, User
from pykcp.server.call import Call
from pykcp.server.filters.flow_cost import (
    LONG_STEP,
    MOST_ACCOUNTS,
    SWEEP_SECONDS,
    Accounts,
    CostAccount,
    CostLimits,
)
from pykcp.server.filters.flow_pace import DelayedRequest, Pace, Pacer

EXEMPT, SIGNED_IN, ACCOUNTS, ADDRESS, PROBES = "exempt", "user", "accounts", "address", "probes"
"""Types of callers. The service accounts of a cluster, and the users of its workspace-specific
issuers, share one account, because the cluster's owner can create any number of them. Health
probes have a separate account, so that they are answered while their address is indebted."""
CLUSTER = "cluster"
_CONTENTION = 0.2
"""Seconds for which a caller counts as using the loop."""
_PASS = 0.005
"""Seconds of deferred requests per iteration of the loop if there are no other callers."""
_PROBES = frozenset(("/healthz", "/livez", "/readyz"))

_clock = time.perf_counter
_cpu_clock = time.thread_time
"""Ten times slower to read."""


class CostMeter:
    def __init__(self, limits: CostLimits) -> None:
        self._limits = limits
        self.users, self.clusters = Accounts(limits.burst), Accounts(limits.burst)
        self._of_cluster = self.clusters.by_name
        self._known: dict[User, CostAccount] = {}
        self._last: CostAccount | None = None
        self._contended_until = 0.0
        self._pass_ends = 0.0
        self._is_in_pass = self._is_sweeping = False
        self.background = Background(self.is_contended)

    # -- charging ------------------------------------------------------------------------------

    def measure(
        self, call: Call, pending: Coroutine[Any, Any, None] | None
    ) -> Coroutine[Any, Any, None] | None:
        """Charge a request for its synchronous part; the rest is charged as it goes on."""
        now = _clock()
        seconds = now - call.started
        account = call.payer
        if account is None:
            if pending is not None:  # it will be known who pays
                return self.drive(call, pending, seconds)
            self.charge(call, seconds)
        elif seconds > LONG_STEP:
            self.charge(call, seconds)
        else:  # `Account.charge`, written out: every GET comes by here
            free_at = account.free_at
            account.free_at = (free_at if free_at > now else now) + seconds * account.weight  # noqa: FURB136
            account.total += seconds
            if account is not self._last:
                self._last = account
                self._contended_until = now + _CONTENTION
            if call.is_authorized and account.weight:
                cluster = call.cluster_payer or self._open_cluster(call)
                free_at = cluster.free_at
                cluster.free_at = (free_at if free_at > now else now) + seconds * cluster.weight  # noqa: FURB136
                cluster.total += seconds
        return None if pending is None else self.drive(call, pending)

    def charge(self, call: Call, seconds: float) -> None:
        """Time that a request has had the event loop for."""
        now = _clock()
        account = self._book(call, seconds, now)
        if seconds > LONG_STEP and account.is_indebted(now):
            self.background.after_long_step(seconds, now)

    def charge_elsewhere(self, call: Call, seconds: float) -> None:
        """Processor time that was spent for a request, while the event loop was free."""
        self._book(call, seconds, _clock())

    def _book(self, call: Call, seconds: float, now: float) -> CostAccount:
        account = call.payer
        if account is None:
            account = self.address_of(call)
        account.charge(seconds, now)
        if account is not self._last:
            self._last = account
            self._contended_until = now + _CONTENTION
        if call.is_authorized and account.weight:  # what the exempt do is not the cluster's debt
            cluster = call.cluster_payer or self._open_cluster(call)
            cluster.charge(seconds, now)
        return account

    async def drive(
        self, call: Call, pending: Coroutine[Any, Any, None], spent: float = 0.0
    ) -> None:
        """Run a request's coroutine and charge each of its steps, and what was spent before."""
        set_payer(_CallPayer(self, call))
        await metered(partial(self.charge, call), pending, spent)

    def is_contended(self) -> bool:
        """Whether more than one user has the loop at the moment."""
        return _clock() < self._contended_until

    # -- work that is no request ---------------------------------------------------------------

    def cluster_account(self, cluster: str) -> CostAccount:
        share = self._limits.cluster
        self._sweep_later()
        return self.clusters.open(CLUSTER, cluster, share, _clock())

    def pause_of(self, account: CostAccount) -> float:
        """Seconds for which an indebted account leaves the loop to others, if there are any."""
        if not self.is_contended():
            return 0.0
        return account.free_at - account.slack - _clock()

    # -- who pays ------------------------------------------------------------------------------

    def admits(self, call: Call, user: User) -> bool:
        """Whether a request goes on at once. False: it is held back in the background."""
        account = self._known.get(user)
        if account is None:
            account = self._account_of(call, user)
        call.payer = account
        call.exchange.request.peer.owner = account.name
        now = call.started
        call.cluster_payer = cluster = self._of_cluster.get(call.cluster)
        if account.free_at <= now + account.slack and (
            cluster is None or cluster.free_at <= now + cluster.slack
        ):
            return True
        return self._may_go_on(account, now)

    def admits_now(self, call: Call) -> bool:
        """The same, before a request's longer part; it may have come together with others."""
        now, account, cluster = _clock(), call.payer, call.cluster_payer
        if account is None or not (
            account.is_indebted(now)
            or account.rests_until > now
            or (cluster is not None and cluster.is_indebted(now))
        ):
            return True
        return self._may_go_on(account, now)

    def admits_stranger(self, call: Call) -> bool:
        """Whether a caller may sign in at once, as far as their address is concerned."""
        account, now = self.address_of(call), call.started
        return not account.is_indebted(now) or self._may_go_on(account, now)

    def address_of(self, call: Call) -> CostAccount:
        """The account of the address that a request came from."""
        network = network_of(call.exchange.request.peer.address)
        sort = PROBES if call.info.path in _PROBES else ADDRESS
        account = self.users.open(sort, f"{sort}:{network}", self._limits.address, call.started)
        self._sweep_later()
        return account

    def totals(self) -> Counter[str]:
        return self.users.totals()

    def _account_of(self, call: Call, user: User) -> CostAccount:
        if user.name == ANONYMOUS:
            return self.address_of(call)
        home = user.extra.get(CLUSTER_NAME_KEY)
        share = self._limits.user
        if MASTERS in user.groups:
            sort, name, share = EXEMPT, user.name, 0.0
        elif home:
            sort, name = ACCOUNTS, home[0]
        else:
            sort, name = SIGNED_IN, user.name
        account = self.users.open(sort, f"{sort}:{name}", share, call.started)
        if len(self._known) >= MOST_ACCOUNTS:
            self._known.clear()
        self._known[user] = account
        self._sweep_later()
        return account

    def _open_cluster(self, call: Call) -> CostAccount:
        share = self._limits.cluster
        cluster = self.clusters.open(CLUSTER, call.cluster, share, call.started)
        call.cluster_payer = cluster
        self._sweep_later()
        return cluster

    def _may_go_on(self, account: CostAccount, now: float) -> bool:
        """Whether a request of an indebted account need not be held back all the same."""
        if not account.weight:
            return True
        if now < self._contended_until or len(self.background):
            return False
        if not self._is_in_pass:
            self._is_in_pass = True
            self._pass_ends = now + _PASS
            asyncio.get_running_loop().call_soon(self._end_pass)
        return now < self._pass_ends

    def _end_pass(self) -> None:
        self._is_in_pass = False

    # -- forgetting ----------------------------------------------------------------------------

    def _sweep_later(self) -> None:
        if not self._is_sweeping:
            self._is_sweeping = True
            call_later(SWEEP_SECONDS, self._sweep)

    def _sweep(self) -> None:
        """One timer, and none while there are no accounts."""
        now = _clock()
        self.users.sweep(now)
        self.clusters.sweep(now)
        self._known.clear()  # filled again by the next requests
        self._is_sweeping = False
        if self.users.by_name or self.clusters.by_name:
            self._sweep_later()


class Background:
    """Lets held requests go on, between the passes of the event loop."""

    def __init__(self, is_contended: Callable[[], bool]) -> None:
        self._pacer, self.pace = Pacer(), Pace()
        self._is_contended = is_contended
        self._is_running = False
        self._released: dict[CostAccount, float] = {}
        """Whose requests went on last, and what they had spent by then."""
        self._count = 0
        self._cpu_mark = 0.0

    def __len__(self) -> int:
        return len(self._pacer)

    def after_long_step(self, seconds: float, now: float) -> None:
        """Let others have the loop for as long, unless the thread was only not scheduled."""
        worked = min(seconds, _cpu_clock() - self._cpu_mark)
        if worked > LONG_STEP:
            self.pace.after_long_step(worked, now)

    async def wait(self, user: CostAccount, lane: str, seconds: float) -> bool:
        """Until it is this request's turn; False if it did not come in time."""
        loop = asyncio.get_running_loop()
        turn: asyncio.Future[bool] = loop.create_future()

        def wake(goes_on: bool) -> None:
            if not turn.done():
                turn.set_result(goes_on)

        held: DelayedRequest = self._pacer.add(user, lane, _clock() + seconds, wake)
        if not self._is_running:
            self._is_running = True
            loop.call_soon(self._run)
        try:
            return await turn
        except asyncio.CancelledError:
            self._pacer.remove(held)
            raise

    def _run(self) -> None:
        """Once per pass of the loop, while requests are held."""
        now = _clock()
        self._pacer.expire(now)
        self.pace.measured(
            sum(account.total - before for account, before in self._released.items()), self._count
        )
        self._released.clear()
        self._count = 0
        first = self._pacer.first()
        if first is None or not first.is_indebted(now):
            pause = 0.0  # it only shares a cluster with an indebted user
        else:
            pause = self.pace.pause(now, self._is_contended())
        if pause:
            call_later(pause, self._release)
        else:
            self._release()

    def _release(self) -> None:
        self._cpu_mark = _cpu_clock()
        for _ in range(self.pace.count(self._is_contended())):
            account = self._pacer.release()
            if account is None:
                break
            self._released.setdefault(account, account.total)
            self._count += 1
        self._is_running = len(self._pacer) > 0
        if self._is_running:
            asyncio.get_running_loop().call_soon(self._run)


class _CallPayer:
    """A request as the rest of the process knows it; see `aio.costs`."""

    __slots__ = ("_call", "_meter")

    def __init__(self, meter: CostMeter, call: Call) -> None:
        self._meter, self._call = meter, call

    @property
    def tenant(self) -> str:
        payer = self._call.payer
        return "" if payer is None else payer.name

    def charge(self, seconds: float) -> None:
        self._meter.charge_elsewhere(self._call, seconds)


@lru_cache(maxsize=4096)
def network_of(address: str) -> str:
    """The network of an address: in IPv6 a client has 2**64 addresses."""
    if ":" not in address:
        return address
    try:
        parsed = ipaddress.IPv6Address(address.partition("%")[0])
    except ValueError:
        return address
    if parsed.ipv4_mapped is not None:
        return str(parsed.ipv4_mapped)
    return f"{ipaddress.IPv6Address(int(parsed) >> 64 << 64)}/64"
