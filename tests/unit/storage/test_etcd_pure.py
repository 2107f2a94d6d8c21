"""What is kept in etcd, and how requests and events are made of it. No etcd needed."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pykcp.storage.changes import StoredRow
from pykcp.storage.errors import TooLarge
from pykcp.storage.etcd import epochs as numbers
from pykcp.storage.etcd import messages
from pykcp.storage.etcd.decoding import Decoded, EtcdEvent, EtcdOutcome, decode
from pykcp.storage.etcd.encoding import (
    MOST_BYTES,
    MOST_TRANSACTIONS,
    Encoded,
    RequestEncoder,
    decode_answer,
    head_of,
    take,
)
from pykcp.storage.etcd.envelope import PLACES, Envelope, Keyspace, unpack
from pykcp.storage.etcd.epochs import Epoch, Epochs
from pykcp.storage.interface import Value
from pykcp.storage.operations import Check, DeleteKey, Operation, PutKey

KEYSPACE = Keyspace("/registry")
WRITER = 7
VALUE = Value(b"<", b">")
PLAIN = Epochs()
newest_of, etcd_revision_of = PLAIN.newest_of, PLAIN.etcd_revision_of


def revision_of(etcd_revision: int, place: int) -> int:
    return numbers.revision_of(etcd_revision, 0, place)


def encoder_of(writer: int, epochs: Epochs = PLAIN) -> RequestEncoder:
    return RequestEncoder(KEYSPACE, writer, lambda: epochs)


class TestEnvelope:
    @given(
        st.builds(
            Envelope,
            st.integers(0, PLACES - 1),
            st.integers(0, (1 << 64) - 1),
            st.integers(0, (1 << 32) - 1),
            st.text(st.characters(codec="utf-8")),
            st.text(st.characters(codec="utf-8")),
            st.builds(Value, st.binary(), st.binary()),
            st.integers(0, (1 << 64) - 1),
        )
    )
    def test_there_and_back(self, envelope: Envelope) -> None:
        assert unpack(envelope.pack()) == envelope

    @given(st.binary())
    def test_garbage_is_refused(self, data: bytes) -> None:
        if data[:1] not in (b"\x91", b"\x92"):
            with pytest.raises(ValueError):
                unpack(data)

    def test_cut_off(self) -> None:
        packed = Envelope(1, 2, 3, "terms", "indexes", Value(b"head", b"")).pack()
        for size in range(len(packed)):
            with pytest.raises(ValueError):
                unpack(packed[:size])

    def test_revisions(self) -> None:
        assert revision_of(5, 0) < revision_of(5, 255) == newest_of(5) < revision_of(6, 0)
        assert etcd_revision_of(revision_of(5, 17)) == 5

    @pytest.mark.parametrize(
        ("prefix", "start"),
        [
            ("/registry", b"/registry/pykcp/"),
            ("registry/", b"/registry/pykcp/"),
            ("/a//b/", b"/a/b/pykcp/"),
            ("", b"/pykcp/"),
        ],
    )
    def test_prefix(self, prefix: str, start: bytes) -> None:
        assert Keyspace(prefix).start == start

    @given(st.text(st.characters(codec="utf-8")))
    def test_keys(self, key: str) -> None:
        etcd_key = KEYSPACE.key(key)
        assert KEYSPACE.key_of(etcd_key) == key
        assert KEYSPACE.data <= etcd_key < KEYSPACE.data_end
        assert KEYSPACE.start < etcd_key < KEYSPACE.end
        assert not KEYSPACE.is_grave(etcd_key)
        assert not KEYSPACE.is_data(KEYSPACE.grave(3))
        assert not KEYSPACE.is_data(KEYSPACE.head)


class Queued:
    def __init__(self, *operations: Operation) -> None:
        self.operations = operations


def batches(*queued: Queued) -> list[list[str]]:
    """The keys that travel together."""
    queue = deque(queued)
    found = []
    while queue:
        found.append([one.operations[0].key for one in take(queue)])
    return found


def put(key: str, size: int = 1) -> PutKey:
    return PutKey(key, Value(b"x" * size, b""))


class TestTravellingTogether:
    def test_strangers(self) -> None:
        assert batches(Queued(put("a")), Queued(put("b")), Queued(put("c"))) == [["a", "b", "c"]]

    def test_the_same_key_waits(self) -> None:
        assert batches(Queued(put("a")), Queued(put("a")), Queued(put("b"))) == [["a"], ["a", "b"]]

    def test_a_compare_of_what_is_written_waits(self) -> None:
        write, look = Queued(put("a")), Queued(Check("a", 0), put("b"))
        assert batches(write, look) == [["a"], ["a"]]
        assert batches(look, write) == [["a"], ["a"]]

    def test_two_compares_do_not(self) -> None:
        namespace = Check("ns", 5)
        assert batches(Queued(namespace, put("a")), Queued(namespace, put("b"))) == [["ns", "ns"]]

    def test_limits(self) -> None:
        many = [Queued(put(str(number))) for number in range(2 * MOST_TRANSACTIONS + 1)]
        assert [len(batch) for batch in batches(*many)] == [MOST_TRANSACTIONS] * 2 + [1]
        assert batches(Queued(put("a", MOST_BYTES)), Queued(put("b"))) == [["a"], ["b"]]
        long = Queued(*(put(str(number)) for number in range(100)))
        assert batches(Queued(put("a")), long, Queued(put("b"))) == [["a"], ["0"], ["b"]]
        deletions = [Queued(*(put(f"{n}/{k}") for k in range(80))) for n in range(4)]
        assert [len(batch) for batch in batches(*deletions)] == [3, 1]


def carried_out(request: Any, revision: int) -> list[EtcdEvent]:
    """The events that etcd makes of a request whose compares all hold."""
    events: list[EtcdEvent] = []
    for operation in request.success:
        kind = operation.WhichOneof("either")
        if kind == "request_txn":
            events += carried_out(operation.request_txn, revision)
        elif kind == "request_put":
            write = operation.request_put
            events.append(EtcdEvent(revision, write.key, write.value))
        elif kind == "request_delete_range":
            events.append(EtcdEvent(revision, operation.request_delete_range.key, None))
    return events


class TestThereAndBack:
    ROWS = {"old": StoredRow(revision_of(3, 0), False, "\x1ft\x1f", "i")}  # noqa: RUF012

    def decoded(
        self, *transactions: Sequence[Operation], revision: int = 9
    ) -> tuple[Encoded, Decoded]:
        encoded = encoder_of(WRITER).encode(transactions, 42)
        events = carried_out(encoded.request, revision)
        return encoded, decode(events, KEYSPACE, self.ROWS.get, lambda _: b"last", WRITER, PLAIN)

    def test_every_operation_has_its_place(self) -> None:
        encoded, decoded = self.decoded(
            [PutKey("a", VALUE, "\x1fx\x1f", ("i",)), Check("ns", 5)],
            [DeleteKey("old", VALUE), PutKey("b", VALUE)],
        )
        assert encoded.places == [[0, -1], [1, 2]]
        assert [(c.revision, c.key, c.created, c.deleted) for c in decoded.changes] == [
            (revision_of(9, 0), "a", True, False),
            (revision_of(9, 1), "old", False, True),
            (revision_of(9, 2), "b", True, False),
        ]
        first, gone, _ = decoded.changes
        assert first.value == b"<%d>" % revision_of(9, 0)
        assert (first.terms, first.indexes) == ("\x1fx\x1f", "i")
        assert gone.value == b"<%d>" % revision_of(9, 1)
        assert (gone.previous, gone.terms) == (revision_of(3, 0), "\x1ft\x1f")
        assert decoded.outcomes == [EtcdOutcome(42, 9, frozenset({0, 1, 2}))]
        assert decoded.foreign == []

    def test_others_requests_are_not_ours(self) -> None:
        encoded = encoder_of(WRITER + 1).encode([[PutKey("a", VALUE)]], 42)
        events = carried_out(encoded.request, 9)
        assert decode(events, KEYSPACE, self.ROWS.get, lambda _: b"", WRITER, PLAIN).outcomes == []

    def test_changes_of_one_key_follow_each_other(self) -> None:
        encoder = encoder_of(WRITER)
        events = [
            event
            for revision, operation in ((5, PutKey("k", VALUE, "\x1f1\x1f")), (6, DeleteKey("k", VALUE)),
                                        (7, PutKey("k", VALUE, "\x1f2\x1f")))
            for event in carried_out(encoder.encode([[operation]], revision).request, revision)
        ]  # fmt: skip
        changes = decode(events, KEYSPACE, lambda _: None, lambda _: b"", WRITER, PLAIN).changes
        assert [(c.created, c.deleted, etcd_revision_of(c.previous)) for c in changes] == [
            (True, False, 0), (False, True, 5), (True, False, 6),
        ]  # fmt: skip
        assert [c.previous_terms for c in changes] == ["", "\x1f1\x1f", ""]

    def test_deletion_without_a_grave(self) -> None:
        events = [
            EtcdEvent(9, KEYSPACE.key("old"), None),
            EtcdEvent(9, KEYSPACE.key("never"), None),
            EtcdEvent(9, KEYSPACE.key("odd"), b"{}"),
            EtcdEvent(9, KEYSPACE.data + b"\xff", None),
            EtcdEvent(9, KEYSPACE.start + b"other", b"{}"),
        ]
        decoded = decode(events, KEYSPACE, self.ROWS.get, lambda _: b"last", WRITER, PLAIN)
        assert [(c.key, c.value, c.deleted) for c in decoded.changes] == [("old", b"last", True)]
        assert decoded.foreign == [KEYSPACE.key("odd"), KEYSPACE.data + b"\xff"]

    def test_too_many(self) -> None:
        with pytest.raises(TooLarge):
            encoder_of(WRITER).encode([[put(str(n)) for n in range(PLACES + 1)]], 1)


class TestRequests:
    def test_compares(self) -> None:
        encoded = encoder_of(WRITER).encode(
            [
                [
                    PutKey("a", VALUE, expect=0),
                    PutKey("b", VALUE, expect=revision_of(7, 3)),
                    PutKey("c", VALUE),
                    DeleteKey("d", VALUE),
                    Check("e", revision_of(8, 0)),
                ]
            ],
            1,
        )
        assert [
            (KEYSPACE.key_of(one.key), one.result, one.target, one.mod_revision)
            for one in encoded.request.compare
            if KEYSPACE.is_data(one.key)
        ] == [
            ("a", messages.EQUAL, messages.MOD, 0),
            ("b", messages.EQUAL, messages.MOD, 7),
            ("d", messages.GREATER, messages.MOD, 0),
            ("e", messages.EQUAL, messages.MOD, 8),
        ]

    def test_head_is_written_with_every_change_and_read_otherwise(self) -> None:
        encoder = encoder_of(WRITER)

        def heads(*transactions: Sequence[Operation]) -> tuple[int, int, int]:
            request = encoder.encode(transactions, 1).request
            return (
                sum(one.request_put.key == KEYSPACE.head for one in request.success),
                sum(one.request_range.key == KEYSPACE.head for one in request.success),
                sum(one.request_range.key == KEYSPACE.head for one in request.failure),
            )

        assert heads([put("a")]) == (1, 0, 1)
        assert heads([Check("a", 0)]) == (0, 1, 1)
        assert heads([put("a")], [Check("b", 0)]) == (1, 0, 1)

    def test_answers(self) -> None:
        header = {"revision": 9}
        head = {"response_range": {"kvs": [{"mod_revision": 6}]}}
        won = messages.TxnResponse(header=header, succeeded=True, responses=[{"response_put": {}}])
        assert decode_answer(won, 1) == ([True], 9, 9, ())
        lost = messages.TxnResponse(header=header, responses=[head])
        assert decode_answer(lost, 1) == ([False], 9, 6, ())
        both = messages.TxnResponse(
            header=header,
            succeeded=True,
            responses=[
                {"response_put": {}},
                {"response_txn": {"succeeded": True}},
                {"response_txn": {}},
            ],
        )
        assert decode_answer(both, 2) == ([True, False], 9, 9, ())
        assert head_of(messages.RangeResponse()) == 0

    def test_unknown_fields_are_skipped(self) -> None:
        data = messages.RangeResponse(count=3).SerializeToString() + b"\xfa\x01\x02hi"
        assert messages.RangeResponse.FromString(data).count == 3


class TestEpochs:
    @given(st.lists(st.tuples(st.integers(1, 300), st.integers(0, 5000)), max_size=40))
    def test_revisions_rise_and_lead_back(self, steps: list[tuple[int, int]]) -> None:
        """Each step: so many writes, then the store is advanced by so many revisions (0: not)."""
        epochs, etcd, last = Epochs(), 0, 0
        given_out: dict[int, int] = {}
        for writes, ahead in steps:
            for place in range(writes % 5 + 1):
                etcd += 1
                revision = numbers.revision_of(etcd, epochs.offset, place)
                assert revision > last
                assert epochs.newest_of(etcd) >= revision
                given_out[revision] = etcd
                last = epochs.newest_of(etcd)
            if ahead:
                target = last + ahead
                offset = epochs.offset_for(target, etcd)
                etcd += 1
                epochs.begin(etcd, offset)
                assert epochs.newest_of(etcd) >= target
                assert epochs.etcd_revision_of(target) in (etcd - 1, etcd)
                last = epochs.newest_of(etcd)
        for revision, written in given_out.items():
            assert epochs.given_out_at(revision) == epochs.etcd_revision_of(revision) == written

    def test_revisions_between_epochs_were_never_given_out(self) -> None:
        epochs = Epochs([Epoch(10, 1000)], record=10)
        assert epochs.given_out_at(numbers.revision_of(9, 0, 3)) == 9
        assert epochs.given_out_at(numbers.revision_of(500, 0, 0)) == -1
        assert epochs.etcd_revision_of(numbers.revision_of(500, 0, 0)) == 9
        assert epochs.given_out_at(numbers.revision_of(10, 1000, 0)) == 10

    def test_known_from_values_alone(self) -> None:
        """A mirror that is fetched later knows the epochs of what is still there."""
        epochs = Epochs([Epoch(30, 2000), Epoch(25, 2000), Epoch(12, 1000)])
        assert list(epochs) == [Epoch(0, 0), Epoch(12, 1000), Epoch(25, 2000)]
        assert epochs.given_out_at(numbers.revision_of(14, 1000, 7)) == 14
        assert list(epochs.without([Epoch(12, 1000)])) == [Epoch(0, 0), Epoch(25, 2000)]

    def test_offset_travels_with_values(self) -> None:
        epochs = Epochs([Epoch(5, 1000)], record=5)
        encoded = encoder_of(WRITER, epochs).encode([[PutKey("a", VALUE)]], 1)
        assert encoded.offset == 1000
        fences = [(one.key, one.mod_revision) for one in encoded.request.compare]
        assert fences == [(KEYSPACE.numbering, 5)]
        events = carried_out(encoded.request, 9)
        (change,) = decode(events, KEYSPACE, {}.get, lambda _: b"", WRITER, epochs).changes
        assert change.revision == numbers.revision_of(9, 1000, 0)
