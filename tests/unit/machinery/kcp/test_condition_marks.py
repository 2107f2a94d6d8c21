"""Conditions of kcp's kinds: sorted, timed by any change, with a summary in front."""

import pytest

from pykcp.machinery.kcp import condition_marks as conditions
from pykcp.machinery.kcp.conditions import INFO
from pykcp.types import Object

EARLIER, NOW = "2026-01-01T00:00:00Z", "2026-01-01T00:01:00Z"


def _types(obj: Object) -> list[str]:
    return [c["type"] for c in obj["status"]["conditions"]]


def test_ready_comes_first_and_the_rest_by_name() -> None:
    obj: Object = {}
    for kind in ("Zeta", "Ready", "Alpha"):
        conditions.mark_true(obj, kind, NOW)
    assert _types(obj) == ["Ready", "Alpha", "Zeta"]
    conditions.drop(obj, "Alpha")
    assert _types(obj) == ["Ready", "Zeta"]


def test_the_time_moves_with_any_change() -> None:
    obj: Object = {}
    conditions.mark_false(obj, "A", "Why", "one", EARLIER)
    first = obj["status"]["conditions"][0]
    assert first == {
        "type": "A",
        "status": "False",
        "severity": "Error",
        "reason": "Why",
        "message": "one",
        "lastTransitionTime": EARLIER,
    }
    conditions.mark_false(obj, "A", "Why", "one", NOW)
    assert obj["status"]["conditions"] == [first]
    conditions.mark_false(obj, "A", "Why", "two", NOW)
    assert obj["status"]["conditions"][0]["lastTransitionTime"] == NOW


def test_a_missing_condition_is_not_false() -> None:
    obj: Object = {}
    assert not conditions.is_false(obj, "A")
    conditions.mark_false(obj, "A", "Why", "", NOW)
    assert conditions.is_false(obj, "A")
    conditions.mark_true(obj, "A", NOW)
    assert not conditions.is_false(obj, "A")


@pytest.mark.parametrize(
    ("kinds", "expected"),
    [
        (("Good",), ("True", None, None)),
        (("Good", "Meh"), ("False", "Meh", "Info")),
        (("Meh", "Bad", "Good"), ("False", "Bad", "Error")),
        (("Nothing",), None),
    ],
)
def test_the_summary_is_the_worst_in_scope(
    kinds: tuple[str, ...], expected: tuple[str, str | None, str | None] | None
) -> None:
    obj: Object = {}
    conditions.mark_true(obj, "Good", NOW)
    conditions.mark_false(obj, "Meh", "Meh", "so so", NOW, severity=INFO)
    conditions.mark_false(obj, "Bad", "Bad", "broken", NOW)
    conditions.summarise(obj, kinds, NOW)
    ready = next((c for c in obj["status"]["conditions"] if c["type"] == "Ready"), None)
    if expected is None:
        assert ready is None
    else:
        assert ready is not None
        assert (ready["status"], ready.get("reason"), ready.get("severity")) == expected
