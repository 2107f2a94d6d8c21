"""What may wait, and that nothing is kept of what does not."""

from __future__ import annotations

import pytest

from pykcp.server.filters.flow_room import RoomLimits, WaitingRoom

LIMITS = RoomLimits(requests=2, octets=1000)


@pytest.mark.parametrize(
    ("sent", "taken"),
    [
        ([("ann", "a", 0)] * 3, 2),
        ([("ann", "a", 0), ("ann", "b", 0), ("ann", "c", 0)], 2),
        ([(f"u{number}", "a", 0) for number in range(20)], 8),
        ([(f"u{number}", f"c{number}", 0) for number in range(100)], 64),
        ([("ann", "a", 250)], 1),
        ([("ann", "a", 251)], 0),
        ([("ann", "a", 200), ("ann", "b", 100)], 1),
        ([(f"u{number}", "a", 200) for number in range(5)], 2),
        ([(f"u{number}", f"c{number}", 200) for number in range(9)], 5),
    ],
    ids=[
        "a user's requests",
        "a user's requests over clusters",
        "a cluster's",
        "all",
        "a user's octets",
        "one too large",
        "a user's octets over clusters",
        "a cluster's octets",
        "all octets",
    ],
)
def test_what_may_wait(sent: list[tuple[str, str, int]], taken: int) -> None:
    room = WaitingRoom(LIMITS)
    inside = [one for one in sent if room.enter(*one)]
    assert len(inside) == taken
    assert room.requests == taken
    for one in inside:
        room.leave(*one)
    assert room.is_empty


def test_who_leaves_makes_room() -> None:
    room = WaitingRoom(LIMITS)
    assert [room.enter("ann", "a", 0) for _ in range(3)] == [True, True, False]
    assert (room.of_user("ann"), room.of_cluster("a"), room.of_user("bob")) == (2, 2, 0)
    room.leave("ann", "a", 0)
    assert room.enter("ann", "a", 0)
