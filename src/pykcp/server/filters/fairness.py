"""API fairness in the chain: costs are charged, shares are kept, long work takes a seat.

How it is decided who waits stands in `flow_control` and its parts.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pykcp.server.call import Call, Handler, Pending

if TYPE_CHECKING:
    from pykcp.server.filters.flow_control import FlowControl
    from pykcp.server.filters.flow_meter import CostMeter


class ChargeCosts:
    """Measures the time that a request takes on the event loop, and charges its user."""

    def __init__(self, meter: CostMeter) -> None:
        self._meter = meter

    def around(self, inner: Handler) -> Handler:
        measure = self._meter.measure

        def charge(call: Call) -> Pending:
            return measure(call, inner(call))

        return charge


class FairShares:
    """Delays requests of users, and for clusters, that have used more than their share."""

    def __init__(self, flow: FlowControl) -> None:
        self._flow = flow

    def around(self, inner: Handler) -> Handler:
        admits = self._flow.meter.admits

        def share(call: Call) -> Pending:
            return inner(call) if admits(call, call.user) else delay(call)

        async def delay(call: Call) -> None:
            await self._flow.wait_for_others(call)
            pending = inner(call)
            if pending is not None:
                await pending

        return share


class WaitForSeat:
    """Lets only so many requests at a time do work that takes longer than one step."""

    def __init__(self, flow: FlowControl) -> None:
        self._flow = flow

    def around(self, inner: Handler) -> Handler:
        govern = self._flow.govern

        def wait_for_seat(call: Call) -> Pending:
            pending = inner(call)
            if pending is None or call.is_seated:
                return pending
            return govern(call, pending)

        return wait_for_seat
