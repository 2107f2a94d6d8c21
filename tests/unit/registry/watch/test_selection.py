"""Selectors as conditions on terms, and what indexes and events make of objects."""

from __future__ import annotations

from typing import Any

import pytest

from pykcp.apis.kube.validation.events import from_core, to_core
from pykcp.machinery.status import BadRequest
from pykcp.machinery.terms import label_terms
from pykcp.registry.conversion.events import FIELD_NAMES
from pykcp.registry.indexes.entries import DELETING, event_written, index_entries, owner_entry
from pykcp.registry.watch.selection import EVERYTHING, select

KNOWN = frozenset(("metadata.name", "metadata.namespace", "status.phase"))
TERMS = label_terms({"app": "web", "tier": "x"}, {"metadata.name": "a", "status.phase": "Active"})


@pytest.mark.parametrize(
    ("labels", "fields", "expected"),
    [
        ("app=web", "", True), ("app=db", "", False), ("app!=db", "", True), ("app", "", True),
        ("!app", "", False), ("!nosuch", "", True), ("app in (db,web)", "", True),
        ("app notin (db)", "", True), ("app=web,tier=y", "", False), ("", "metadata.name=a", True),
        ("", "metadata.name!=a", False), ("", "status.phase=Active", True),
        ("app=web", "status.phase=Gone", False), ("nosuch notin (a)", "", True), ("app=we", "", False),
    ],
)  # fmt: skip
def test_matching(labels: str, fields: str, expected: bool) -> None:
    """Label and field selectors together, on the text that is stored beside an object."""
    matches = select(labels, fields, KNOWN).matcher()
    assert matches is not None
    assert matches(TERMS) is expected


def test_nothing_asked_selects_everything() -> None:
    """No selector is no work."""
    assert select("", "", None) is EVERYTHING
    assert EVERYTHING.selects_all
    assert EVERYTHING.matcher() is None


def test_names_narrow_the_search() -> None:
    """A name and a namespace in the field selector are found without a scan."""
    selection = select("", "metadata.name=a,metadata.namespace=n", KNOWN)
    assert (selection.name, selection.namespace) == ("a", "n")
    assert select("", "metadata.name!=a", KNOWN).name == ""


def test_equal_texts_are_the_same_selection() -> None:
    """Watchers with the same selectors share their work."""
    assert select("a=b", "", KNOWN) is select("a=b", "", KNOWN)
    assert select("a=b", "", KNOWN).key != select("", "metadata.name=b", KNOWN).key


@pytest.mark.parametrize(("labels", "fields"), [("a in (b", ""), ("", "spec.x=y"), ("=", "")])
def test_what_is_not_understood_is_400(labels: str, fields: str) -> None:
    """Syntax errors and unknown fields."""
    with pytest.raises(BadRequest):
        select(labels, fields, KNOWN)


def test_fields_are_renamed_to_how_they_are_stored() -> None:
    """Events of either group are found by either group's names."""
    selection = select("", "regarding.name=pod", frozenset(FIELD_NAMES), FIELD_NAMES)
    matches = selection.matcher()
    assert matches is not None
    assert matches(label_terms(None, {"involvedObject.name": "pod"}))


EVENT: dict[str, Any] = {
    "metadata": {"name": "e"},
    "regarding": {"name": "p"},
    "note": "text",
    "reportingController": "c",
    "deprecatedCount": 2,
    "type": "Normal",
}


def test_events_are_stored_in_the_core_groups_form() -> None:
    """There and back again, nothing is lost."""
    core = to_core(EVENT)
    assert core["involvedObject"] == {"name": "p"}
    assert (core["message"], core["reportingComponent"], core["count"]) == ("text", "c", 2)
    assert from_core(core) == EVENT
    assert from_core({"metadata": {}})["regarding"] == {}


def test_ordinary_objects_have_no_index_entries() -> None:
    """What nobody looks for costs nothing."""
    assert index_entries("c", {"metadata": {"name": "x"}}) == ()


def test_index_entries() -> None:
    """Owners once each, what is being deleted, and events by day and minute."""
    metadata = {
        "ownerReferences": [{"uid": "u"}, {"uid": "u"}, {"uid": "v"}],
        "deletionTimestamp": "2026-01-01T00:00:00Z",
    }
    assert index_entries("c", {"metadata": metadata}) == (
        owner_entry("c", "u"),
        owner_entry("c", "v"),
        DELETING,
    )
    event = {
        "metadata": {
            "creationTimestamp": "2026-01-01T10:11:12Z",
            "managedFields": [{"time": "2026-01-02T10:11:12Z"}, {}],
        },
        "involvedObject": {},
    }
    assert event_written(event) == "2026-01-02T10:11:12Z"
    assert index_entries("c", event) == ("event:2026-01-02", "event:2026-01-02T10:11")
