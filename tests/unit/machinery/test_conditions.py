"""Conditions keep their transition time until the status changes."""

from pykcp.machinery import conditions
from pykcp.types import Object

NOW = 1700000000.0


def test_set_and_read() -> None:
    first = conditions.with_condition([], "Ready", "False", reason="R", message="m", now=NOW)
    assert first == [
        {
            "type": "Ready",
            "status": "False",
            "lastTransitionTime": "2023-11-14T22:13:20Z",
            "reason": "R",
            "message": "m",
        }
    ]
    obj: Object = {"status": {"conditions": first}}
    assert conditions.status_of(obj, "Ready") == "False"
    assert not conditions.is_true(obj, "Ready")
    assert conditions.status_of({}, "Ready") == "Unknown"


def test_time_moves_only_with_the_status() -> None:
    first = conditions.with_condition([{"type": "A"}], "Ready", "False", now=NOW)
    same = conditions.with_condition(first, "Ready", "False", reason="Other", now=NOW + 60)
    assert same[1]["lastTransitionTime"] == first[1]["lastTransitionTime"]
    assert same[1]["reason"] == "Other"
    changed = conditions.with_condition(same, "Ready", "True", now=NOW + 60)
    assert changed[1]["lastTransitionTime"] == "2023-11-14T22:14:20Z"
    assert "reason" not in changed[1]
    assert [c["type"] for c in changed] == ["A", "Ready"]
    assert conditions.without_condition(changed, "A") == changed[1:]


def test_more_fields() -> None:
    found = conditions.with_condition([], "X", "True", now=NOW, more={"severity": "Info"})
    assert found[0]["severity"] == "Info"
