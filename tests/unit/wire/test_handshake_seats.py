"""Seats of handshakes, in total and of each address."""

from __future__ import annotations

from pykcp.wire.handshake_seats import HandshakeSeats, Seat


def test_an_address_waits_for_its_own_seats():
    seats: HandshakeSeats[str] = HandshakeSeats(10, 1)
    assert seats.take("a1", "a") is Seat.TAKEN
    assert seats.take("a2", "a") is Seat.AWAITED
    assert seats.take("a3", "a") is Seat.AWAITED
    assert seats.take("b1", "b") is Seat.TAKEN
    assert seats.leave("b1") is None
    assert seats.leave("a1") == "a2"
    assert seats.leave("a1") is None
    assert seats.leave("a2") == "a3"
    assert seats.leave("a3") is None
    assert seats.take("a4", "a") is Seat.TAKEN


def test_who_goes_while_it_waits_gets_no_seat():
    seats: HandshakeSeats[str] = HandshakeSeats(10, 1)
    seats.take("a1", "a")
    seats.take("a2", "a")
    seats.take("a3", "a")
    assert seats.leave("a2") is None
    assert seats.leave("a1") == "a3"


def test_those_who_wait_take_no_seat_of_other_addresses():
    seats: HandshakeSeats[str] = HandshakeSeats(2, 1)
    seats.take("a1", "a")
    assert [seats.take(f"a{n}", "a") for n in range(2, 5)] == [Seat.AWAITED] * 3
    assert seats.take("b1", "b") is Seat.TAKEN
    assert seats.take("c1", "c") is Seat.NONE
    assert seats.leave("c1") is None
    assert seats.leave("a1") == "a2"
    assert seats.take("c2", "c") is Seat.NONE
    seats.leave("b1")
    assert seats.take("c3", "c") is Seat.TAKEN
