"""Sharing the server between logical clusters and their users; see docs/operate/limits.md."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pykcp.programs.kit.checks import not_negative, positive
from pykcp.programs.kit.options import OptionGroup, option

if TYPE_CHECKING:
    from pykcp.server.filters.flow_control import FlowSettings


class FairnessOptions(OptionGroup):
    TITLE = "Fairness"

    fairness: bool = option(
        "Share the server fairly between logical clusters and their users.", True
    )
    fairness_seats: int = option(
        "Writes in progress at a time; one user gets a quarter of them at most, over all logical clusters, and one logical cluster half.",
        256,
        check=positive,
    )
    fairness_read_seats: int = option(
        "The same for reads that cannot be answered at once: pages of lists, objects that a webhook converts.",
        128,
        check=positive,
    )
    fairness_long_seats: int = option(
        "The same for long lists, deletions of collections and beginning watches.",
        8,
        check=positive,
    )
    fairness_sign_in_seats: int = option(
        "The same for requests whose caller is being authenticated, by address.",
        64,
        check=positive,
    )
    fairness_seat_timeout: float = option(
        "How long a read keeps its seat while the client reads slowly.", 10.0, check=positive
    )
    fairness_queue_length: int = option(
        "Requests of one user, over all logical clusters, that may wait for their turn; four times as many of one logical cluster.",
        256,
        check=positive,
    )
    fairness_queue_bytes: int = option(
        "Bytes of request bodies that may wait in all; a quarter of them of one user, half of one logical cluster.",
        128 << 20,
        check=positive,
    )
    fairness_queue_wait: float = option(
        "How long a request may wait before it is rejected with 429.", 15.0, check=positive
    )
    fairness_watches_per_user: int = option(
        "Open watches of one user, over all logical clusters.", 4000, check=positive
    )
    fairness_watches_per_cluster: int = option(
        "Open watches of all users in one logical cluster.", 8000, check=positive
    )
    fairness_cost_per_user: float = option(
        "Time on the event loop per second that one user may take, over all logical clusters, before their requests yield to others.",
        0.25,
        check=positive,
    )
    fairness_cost_per_cluster: float = option(
        "The same for all requests to one logical cluster.", 0.5, check=positive
    )
    fairness_cost_per_address: float = option(
        "The same for requests of one address that are not authenticated, or whose authentication fails.",
        0.1,
        check=positive,
    )
    fairness_cost_burst: float = option(
        "Time on the event loop that may be taken at once beyond that.", 0.1, check=positive
    )
    stall_log_threshold: float = option(
        "How late the event loop may be before the log says what blocked it; 0 turns that off.",
        0.1,
        check=not_negative,
    )

    def flow_settings(self) -> FlowSettings | None:
        """The limits of flow control; None if it is turned off."""
        if not self.fairness:
            return None
        from pykcp.server.filters.flow_control import FlowSettings
        from pykcp.server.filters.flow_cost import CostLimits
        from pykcp.server.filters.flow_queue import SeatLimits
        from pykcp.server.filters.flow_room import RoomLimits

        return FlowSettings(
            writes=SeatLimits(self.fairness_seats),
            reads=SeatLimits(self.fairness_read_seats),
            long=SeatLimits(self.fairness_long_seats),
            sign_in=SeatLimits(self.fairness_sign_in_seats),
            seat_timeout=self.fairness_seat_timeout,
            costs=CostLimits(
                user=self.fairness_cost_per_user,
                cluster=self.fairness_cost_per_cluster,
                address=self.fairness_cost_per_address,
                burst=self.fairness_cost_burst,
            ),
            room=RoomLimits(self.fairness_queue_length, self.fairness_queue_bytes),
            wait=self.fairness_queue_wait,
            watches_per_user=self.fairness_watches_per_user,
            watches_per_cluster=self.fairness_watches_per_cluster,
        )
