"""From stored values, terms and events to plain ones, with everything checked.

`Opening` is what a store knows at one moment: the transformers in force. It does no
I/O; where a key must first be fetched, KeyPending says so.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, cast

from pykcp.machinery.status import go_quote
from pykcp.machinery.terms import matcher
from pykcp.storage.encryption import sealed
from pykcp.storage.encryption.errors import Unreadable
from pykcp.storage.encryption.transformers import ResourceTransformers, Transformers
from pykcp.storage.interface import SEALED_INDEX, Entry, Event, Query
from pykcp.storage.operations import DeleteKey, Operation, PutKey


class Plain(NamedTuple):
    key: str
    """Where the value says that it belongs; "" for one that is stored plain."""
    value: bytes
    terms: str
    is_stale: bool


class Opening:
    def __init__(self, transformers: Transformers) -> None:
        self._transformers = transformers
        self._prefixes = transformers.prefixes
        self._opened = object()
        """Under this key a store's event remembers its opened twin."""

    # -- towards the store ---------------------------------------------------------------------

    def sealed_operations(self, operations: Sequence[Operation]) -> Sequence[Operation]:
        """The same operations with values, terms and an index entry that give nothing away."""
        for operation in operations:
            if operation.key.startswith(self._prefixes):
                return [self._sealed(operation) for operation in operations]
        return operations

    def _sealed(self, operation: Operation) -> Operation:
        rules = self._transformers.of(operation.key)
        if rules is None or rules.writes_plain:
            return operation
        key = operation.key
        if isinstance(operation, PutKey):
            plain = sealed.pack(key, operation.terms, operation.value)
            return PutKey(
                key,
                sealed.stored_value(rules.seal(plain)),
                self._sealed_terms(rules, operation.terms),
                (*operation.indexes, SEALED_INDEX),
                operation.expect,
            )
        if isinstance(operation, DeleteKey):
            plain = sealed.pack(key, "", operation.value)
            return DeleteKey(key, sealed.stored_value(rules.seal(plain)), operation.expect)
        return operation

    @staticmethod
    def _sealed_terms(rules: ResourceTransformers, terms: str) -> str:
        return sealed.seal_terms(rules.seal(terms.encode())) if terms else ""

    def sealed_query(self, query: Query) -> Query:
        """The store cannot filter by sealed terms, so the conditions are tested here instead."""
        if not query.where and query.residual is None:
            return query
        rules = self._transformers.of(query.prefix)
        if rules is None and not self._spans_encrypted(query.prefix):
            return query
        wanted = matcher(query.where, query.residual)
        assert wanted is not None  # there is a condition
        return Query(
            query.prefix, query.after, query.limit, query.at, (),
            self._opening_test(query.prefix, wanted), query.count_remaining, query.max_bytes,
        )  # fmt: skip

    def _spans_encrypted(self, prefix: str) -> bool:
        return any(one.startswith(prefix) for one in self._prefixes)

    def _opening_test(self, prefix: str, wanted: Callable[[str], bool]) -> Callable[[str], bool]:
        def test(terms: str) -> bool:
            return wanted(self.terms(prefix, terms))

        return test

    # -- from the store ------------------------------------------------------------------------

    def entry(self, entry: Entry) -> Entry:
        """The plain entry; the same one if nothing is sealed about it."""
        key, value = entry.key, entry.value
        if not value.startswith(sealed.ENVELOPE):
            if not key.startswith(self._prefixes):
                return entry
            stale = self._check_plain(key)
            return entry._replace(is_stale=True) if stale else entry
        plain = self._open(key, key, value)
        return Entry(key, entry.revision, plain.value, plain.terms, plain.is_stale)

    def values(self, query: Query, values: Sequence[bytes]) -> list[bytes]:
        """The plain values of a page, in the store's order."""
        prefix = query.prefix
        is_encrypted = prefix.startswith(self._prefixes) or self._spans_encrypted(prefix)
        out: list[bytes] = []
        last = query.after
        for value in values:
            if not value.startswith(sealed.ENVELOPE):
                if is_encrypted:
                    self._check_plain(prefix)
                out.append(value)
                continue
            plain = self._open("", prefix, value)
            if not plain.key.startswith(prefix) or plain.key <= last:
                raise _failure(prefix, Unreadable(f"the value of {plain.key} was moved here"))
            last = plain.key
            out.append(plain.value)
        return out

    def event(self, event: Event) -> Event:
        """The plain event, made once and shared; the same one if nothing is sealed about it."""
        if not event.value.startswith(sealed.ENVELOPE):
            if event.key.startswith(self._prefixes):
                self._check_plain(event.key)
            if not sealed.are_terms_sealed(event.previous_terms):
                return event
        if event.memo is None:
            event.memo = {}
        memo = cast("dict[object, Any]", event.memo)
        opened = memo.get(self._opened)
        if opened is None:
            opened = memo[self._opened] = self._opened_event(event)
        return cast("Event", opened)

    def _opened_event(self, event: Event) -> Event:
        key = event.key
        value, terms = event.value, event.terms
        if sealed.is_sealed(value):
            plain = self._open(key, key, value)
            value, terms = plain.value, plain.terms
        if event.deleted or sealed.are_terms_sealed(terms):
            terms = self.terms(key, event.terms)
        previous = event.previous_terms
        previous = terms if previous == event.terms else self.terms(key, previous)
        return Event(event.revision, key, value, terms, previous, event.created, event.deleted)

    def terms(self, where: str, terms: str) -> str:
        """The plain text of terms, sealed or not."""
        if not sealed.are_terms_sealed(terms):
            return terms
        rules = self._transformers.of(where)
        if rules is None:
            raise _failure(where, Unreadable("identity transformer tried to read encrypted data"))
        try:
            return rules.open(sealed.terms_envelope(terms)).plain.decode()
        except Unreadable as error:
            raise _failure(where, error) from error

    def _open(self, key: str, where: str, stored: bytes) -> Plain:
        """`key` is where it was found, "" if the store does not say."""
        rules = self._transformers.of(where)
        if rules is None:
            raise _failure(where, Unreadable("identity transformer tried to read encrypted data"))
        envelope, digits = sealed.split_stored(stored)
        try:
            opened = rules.open(envelope)
            found = sealed.unpack(opened.plain)
        except Unreadable as error:
            raise _failure(where, error) from error
        if key and found.key != key:
            raise _failure(where, Unreadable(f"the value of {found.key} was moved here"))
        is_stale = opened.is_stale or rules.writes_plain
        return Plain(found.key, sealed.filled(found.value, digits), found.terms, is_stale)

    def _check_plain(self, key: str) -> bool:
        """A plain value of an encrypted resource is stale, and refused without `identity`."""
        rules = self._transformers.of(key)
        if rules is None:
            return False
        if not rules.reads_plain:
            raise _failure(key, Unreadable("no matching prefix found"))
        return not rules.writes_plain


def _failure(where: str, error: Unreadable) -> Unreadable:
    """The error names the resource, so that the client of a list knows which kind failed."""
    kind = "/".join(where.split("/")[:2]).removeprefix("core/")
    group, slash, resource = kind.partition("/")
    shown = f"{resource}.{group}" if slash else kind
    return Unreadable(f"unable to transform key {go_quote(where)} of {shown}: {error}")
