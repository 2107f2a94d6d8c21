"""The parts of the store that touch nothing: keys, terms, planning, the ring."""

from __future__ import annotations

import sqlite3

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pykcp.machinery.terms import matcher
from pykcp.storage import changes as planning
from pykcp.storage.changes import StoredRow
from pykcp.storage.errors import RevisionMismatch
from pykcp.storage.interface import TERM_SEPARATOR, Condition, Event, Value
from pykcp.storage.keys import end_of_prefix, start_of_range
from pykcp.storage.listeners import Listeners
from pykcp.storage.operations import Check, DeleteKey, Operation, PutKey
from pykcp.storage.ring import EVENT_OVERHEAD, RecentEvents
from pykcp.storage.terms import join_indexes, split_indexes, sql_conditions

texts = st.text(st.characters(codec="utf-8"), max_size=8)


class TestKeys:
    @given(texts, texts)
    def test_end_of_prefix(self, prefix: str, key: str) -> None:
        """A key is in the range exactly when it starts with the prefix."""
        end = end_of_prefix(prefix)
        assert (prefix <= key and (end is None or key < end)) == key.startswith(prefix)
        assert end is None or prefix + key < end

    @pytest.mark.parametrize(
        ("prefix", "end"),
        [
            ("", None),
            ("/a/", "/a0"),
            ("a\ud7ff", "a\ue000"),
            ("a\U0010ffff", "b"),
            ("\U0010ffff", None),
        ],
    )
    def test_ends(self, prefix: str, end: str | None) -> None:
        assert end_of_prefix(prefix) == end

    @given(texts, texts, texts)
    def test_start_of_range(self, prefix: str, after: str, key: str) -> None:
        expected = key > after if after else True
        in_range = key >= start_of_range(prefix, after)
        assert (in_range and key.startswith(prefix)) == (expected and key.startswith(prefix))

    @given(texts, texts)
    def test_order_is_that_of_the_bytes(self, one: str, other: str) -> None:
        assert (one < other) == (one.encode() < other.encode())


labels = st.sampled_from(["a=1", "a=2", "b=1", "ä=1"])


class TestTerms:
    @given(
        st.lists(labels, max_size=4),
        st.lists(st.tuples(st.lists(labels, max_size=3), st.booleans()), max_size=3),
    )
    def test_python_and_sql_agree(
        self, present: list[str], asked: list[tuple[list[str], bool]]
    ) -> None:
        terms = TERM_SEPARATOR.join(("", *present, "")) if present else ""
        where = [
            Condition(tuple(f"{TERM_SEPARATOR}{one}{TERM_SEPARATOR}" for one in any_of), negated)
            for any_of, negated in asked
        ]
        wanted = matcher(where, None)
        sql, parameters = sql_conditions(where, "terms")
        connection = sqlite3.connect(":memory:")
        query = f"SELECT count(*) FROM (SELECT ? AS terms) WHERE 1{sql}"
        (found,) = connection.execute(query, (terms, *parameters)).fetchone()
        connection.close()
        expected = all(bool(set(any_of) & set(present)) != negated for any_of, negated in asked)
        assert bool(found) == expected
        assert (wanted is None or wanted(terms)) == expected

    def test_residual_comes_last(self) -> None:
        where = (Condition(("x",)),)
        wanted = matcher(where, lambda terms: terms.endswith("y"))
        assert wanted is not None
        assert [wanted(terms) for terms in ("xy", "x", "y", "")] == [True, False, False, False]

    @pytest.mark.parametrize("indexes", [(), ("a",), ("a", "b c", "ä")])
    def test_indexes(self, indexes: tuple[str, ...]) -> None:
        assert split_indexes(join_indexes(indexes)) == list(indexes)

    @pytest.mark.parametrize("entry", ["", "a\x1fb"])
    def test_not_an_index(self, entry: str) -> None:
        with pytest.raises(ValueError, match="not an index entry"):
            join_indexes((entry,))


VALUE = Value(b"<", b">")
ROWS = {
    "there": StoredRow(5, False, "\x1ft\x1f", "i"),
    "gone": StoredRow(6, True, "\x1fold\x1f", ""),
}


class TestPlanning:
    CASES = (
        (PutKey("there", VALUE), 5, False),
        (PutKey("there", VALUE, expect=5), 5, False),
        (PutKey("gone", VALUE, expect=0), 6, True),
        (PutKey("new", VALUE, expect=0), 0, True),
        (PutKey("new", VALUE), 0, True),
    )

    @pytest.mark.parametrize(("operation", "previous", "created"), CASES)
    def test_put(self, operation: PutKey, previous: int, created: bool) -> None:
        (change,) = planning.plan([operation], ROWS.get, 9)
        assert (change.revision, change.value) == (10, b"<10>")
        assert (change.previous, change.created, change.deleted) == (previous, created, False)
        assert change.previous_terms == ("" if created else "\x1ft\x1f")
        assert change.previous_indexes == ("" if created else "i")

    def test_delete_keeps_the_last_terms(self) -> None:
        (change,) = planning.plan([DeleteKey("there", VALUE, 5)], ROWS.get, 9)
        assert (change.terms, change.previous_terms) == ("\x1ft\x1f", "\x1ft\x1f")
        assert (change.indexes, change.previous_indexes) == ("", "i")

    @pytest.mark.parametrize(
        ("operation", "found"),
        [
            (PutKey("there", VALUE, expect=0), 5),
            (PutKey("there", VALUE, expect=4), 5),
            (PutKey("gone", VALUE, expect=6), 0),
            (PutKey("new", VALUE, expect=1), 0),
            (DeleteKey("there", VALUE, 4), 5),
            (DeleteKey("gone", VALUE), 0),
            (DeleteKey("new", VALUE), 0),
            (Check("there", 0), 5),
            (Check("gone", 6), 0),
        ],
    )
    def test_mismatch(self, operation: Operation, found: int) -> None:
        with pytest.raises(RevisionMismatch) as raised:
            planning.plan([PutKey("other", VALUE), operation], ROWS.get, 9)
        assert (raised.value.key, raised.value.found) == (operation.key, found)

    def test_numbers(self) -> None:
        operations: list[Operation] = [
            Check("there", 5),
            PutKey("a", VALUE),
            Check("b", 0),
            DeleteKey("there2", VALUE),
        ]
        rows = {**ROWS, "there2": StoredRow(7, False, "", "")}
        changes = planning.plan(operations, rows.get, 20)
        assert [change.revision for change in changes] == [21, 22]
        assert planning.revisions(operations, changes) == [0, 21, 0, 22]


def event(revision: int, size: int = 100) -> Event:
    return Event(revision, f"/{revision}", b"x" * size, "", "", False, False)


class TestRing:
    def test_serves_what_it_has(self) -> None:
        ring = RecentEvents(10, 1 << 20)
        ring.add([event(revision) for revision in (12, 15, 20)])

        def revisions(after: int, until: int, count: int) -> list[int]:
            page = ring.page(after, until, count)
            assert page is not None
            return [one.revision for one in page]

        assert revisions(10, 99, 9) == [12, 15, 20]
        assert revisions(12, 20, 9) == [15, 20]
        assert revisions(11, 19, 1) == [12]
        assert revisions(20, 99, 9) == []
        assert ring.page(9, 99, 9) is None

    @given(st.lists(st.integers(0, 3000), min_size=1, max_size=1200))
    def test_never_larger_than_allowed_and_always_the_newest(self, sizes: list[int]) -> None:
        capacity = 60_000
        ring = RecentEvents(0, capacity)
        for revision, size in enumerate(sizes, 1):
            ring.add([event(revision, size)])
        kept = ring.page(ring.floor, 1 << 62, 1 << 30)
        assert kept is not None
        assert [one.revision for one in kept] == list(range(ring.floor + 1, len(sizes) + 1))
        assert len(kept) == len(ring)
        held = sum(len(one.value) + len(one.key) + EVENT_OVERHEAD for one in kept)
        assert held <= capacity
        dropped = sum(sizes[: ring.floor]) + held
        assert ring.floor == 0 or dropped + ring.floor * (EVENT_OVERHEAD + 5) > capacity

    def test_one_event_larger_than_the_ring(self) -> None:
        ring = RecentEvents(0, 1000)
        ring.add([event(1, 5000)])
        assert len(ring) == 0
        assert ring.page(0, 9, 9) is None
        assert ring.page(1, 9, 9) == []


def test_listener_may_stop_itself() -> None:
    listeners = Listeners()
    heard: list[str] = []

    def first(_: object) -> None:
        heard.append("first")
        stop()

    stop = listeners.add(first)
    listeners.add(lambda _: heard.append("second"))
    listeners.tell([event(1)])
    listeners.tell([event(2)])
    assert heard == ["first", "second", "second"]


def test_listeners_of_prefixes_are_not_told_of_batches_of_another_resource() -> None:
    listeners = Listeners()
    heard: list[str] = []

    def hear(who: str, *prefixes: str) -> None:
        listeners.add(lambda events: heard.append(f"{who} {len(events)}"), prefixes)

    def tell(*keys: str) -> list[str]:
        heard.clear()
        listeners.tell([Event(1, key, b"", "", "", True, False) for key in keys])
        return [*heard]

    hear("all")
    hear("maps", "core/configmaps/")
    hear("group", "rbac.authorization.k8s.io/")
    hear("one", "core/configmaps/root/", "core/secrets/")
    assert tell("core/configmaps/a/n/x", "core/configmaps/b/n/x") == ["all 2", "maps 2", "one 2"]
    assert tell("rbac.authorization.k8s.io/roles/a/n/x") == ["all 1", "group 1"]
    assert tell("core/configmapsets/a/n/x") == ["all 1"]
    assert tell("core/pods/a/n/x", "core/secrets/a/n/x") == ["all 2", "maps 2", "group 2", "one 2"]
    assert tell("key") == ["all 1", "maps 1", "group 1", "one 1"]
    assert tell() == []
    hear("late", "core/pods/")
    assert tell("core/pods/a/n/x") == ["all 1", "late 1"]
