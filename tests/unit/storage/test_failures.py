from __future__ import annotations

from pykcp.storage.errors import StoreFull
from pykcp.storage.failures import TELLING_SECONDS, LastFailure


def test_told_until_it_works_again_or_is_old() -> None:
    now = 100.0
    failure = LastFailure(clock=lambda: now)
    assert failure.text() is None
    failure.note(StoreFull("no room"))
    assert failure.text() == "no room"
    now += TELLING_SECONDS
    assert failure.text() == "no room"
    failure.clear()
    assert failure.text() is None
    failure.note(StoreFull("no room"))
    now += TELLING_SECONDS + 1
    assert failure.text() is None
