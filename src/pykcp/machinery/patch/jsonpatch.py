"""JSON patch (RFC 6902) as the API server applies it.

The library behind it upstream is laxer than the RFC, and its laxness is part of the
contract: `replace` of an absent member adds it, `copy` of one adds null, `add` without a
value adds null, what stands before the first slash of a path is not read, and indexes
may count from the end of an array.

A patch that cannot be read is 400; one that cannot be applied is 422, always with the
same message (`refusals.unprocessable` keeps the reason as a note, for the log).
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any

from pykcp.machinery.patch import gojson
from pykcp.machinery.patch.refusals import PatchTooCostly, too_large, unprocessable
from pykcp.machinery.schema.growth import grow
from pykcp.machinery.status import BadRequest
from pykcp.types import JSON, Object

MAX_OPERATIONS = 10_000
MAX_COPY_BYTES = 3 * 1024 * 1024
"""How much all `copy` operations of a patch together may add."""
MAX_MOVED_ITEMS = 100_000_000
"""How many items of lists all operations together may shift: ten thousand of ten thousand each."""

_KNOWN_MEMBERS = ("op", "path", "from", "value")
_INDEX = re.compile(r"[+-]?[0-9]{1,18}\Z")


def decode(body: bytes, *, strict: bool) -> tuple[list[Any], list[str]]:
    """The operations in a request's body, and what strict decoding has against them.

    `strict` is field validation other than Ignore: members are type-checked, unknown and
    repeated ones are reported (`json patch unknown field "[0].extra"`).
    """
    target, element = "jsonpatch.Patch", "jsonpatch.Operation"
    prefix = ""
    if strict:
        target, element = "[]handlers.jsonPatchOp", "handlers.jsonPatchOp"
        prefix = "error decoding patch: "
    try:
        operations = gojson.decode(body)
    except gojson.BadJSON as error:
        raise BadRequest(f"{prefix}{error}") from error
    if operations is None:
        return [], []
    if not isinstance(operations, list):
        raise BadRequest(prefix + _unfit(operations, f"value of type {target}"))
    for operation in operations:
        if operation is not None and not isinstance(operation, dict):
            raise BadRequest(prefix + _unfit(operation, f"value of type {element}"))
    problems: list[str] = []
    if strict:
        problems = [f"json patch {p}" for p in _strict_problems(body, operations)]
    if len(operations) > MAX_OPERATIONS:
        raise too_large(
            f"The allowed maximum operations in a JSON patch is {MAX_OPERATIONS}, "
            f"got {len(operations)}"
        )
    return operations, problems


def _unfit(value: JSON, target: str) -> str:
    return f"json: cannot unmarshal {gojson.type_word(value)} into Go {target}"


def _strict_problems(body: bytes, operations: list[Any]) -> list[str]:
    unknown: list[str] = []
    for index, operation in enumerate(operations):
        for member, value in (operation or {}).items():
            if member not in _KNOWN_MEMBERS:
                if len(unknown) < gojson.MAX_PROBLEMS:
                    unknown.append(f'unknown field "[{index}].{member}"')
            elif member != "value" and value is not None and not isinstance(value, str):
                field = f"struct field jsonPatchOp.{member} of type string"
                raise BadRequest("error decoding patch: " + _unfit(value, field))
    repeated = gojson.duplicate_fields(body, _known_members)
    found = unknown + repeated
    if unknown and repeated:
        found = gojson.in_document_order(body, found)
    return found[: gojson.MAX_PROBLEMS]


def _known_members(document: Any) -> Any:
    """The operations without unknown members: what lies inside of those is not looked at."""
    if isinstance(document, gojson.Pairs) or not isinstance(document, list):
        return document
    return [
        gojson.Pairs((name, value) for name, value in item if name in _KNOWN_MEMBERS)
        if isinstance(item, gojson.Pairs)
        else item
        for item in document
    ]


@dataclass(slots=True)
class Budget:
    """What all operations of a patch (or of several that belong together) may still cost."""

    copied: int = MAX_COPY_BYTES
    """Bytes that `copy` may add."""
    moved: int = MAX_MOVED_ITEMS
    """Items of lists that may make room for others or close up."""
    _most_copied: int = field(init=False)
    _most_moved: int = field(init=False)

    def __post_init__(self) -> None:
        self._most_copied, self._most_moved = self.copied, self.moved

    def copy(self, size: int) -> None:
        self.copied -= size
        if self.copied < 0:
            raise PatchTooCostly(
                "Unable to complete the copy, the accumulated size increase of copy is "
                f"{self._most_copied - self.copied}, exceeding the limit {self._most_copied}"
            )
        grow(size)

    def move(self, items: int) -> None:
        self.moved -= items
        if self.moved < 0:
            raise PatchTooCostly(
                "Unable to complete the operation, the accumulated number of moved array elements "
                f"exceeds the limit {self._most_moved}"
            )


def apply(document: JSON, operations: list[Any], budget: Budget | None = None) -> JSON:
    """The document after all operations; neither argument is changed.

    The whole may have been replaced by an array: the caller finds that it does not decode.
    """
    run = PatchRun(document, budget)
    for operation in operations:
        run.step(operation)
    return run.root


class _Missing(Exception):
    """A path leads nowhere."""


@dataclass(slots=True)
class _Place:
    """A container on the way, and the key in it that a path ends with."""

    container: Any
    key: str
    budget: Budget

    def index(self, length: int) -> int:
        """The key as an index below `length`, counted from the end if negative."""
        if not _INDEX.match(self.key):
            raise _Missing(f"not an array index: {self.key!r}")
        index = int(self.key)
        if not -length <= index < length:
            raise _Missing(f"index out of range: {index}")
        return index + length if index < 0 else index

    def get(self) -> JSON:
        if isinstance(self.container, dict):
            return self.container.get(self.key)
        return self.container[self.index(len(self.container))]

    def add(self, value: JSON) -> None:
        if isinstance(self.container, dict):
            self.container[self.key] = value
        elif self.key == "-":
            self.container.append(value)
        else:
            index = self.index(len(self.container) + 1)
            self.budget.move(len(self.container) - index)
            self.container.insert(index, value)

    def replace(self, value: JSON) -> None:
        if isinstance(self.container, dict):
            self.container[self.key] = value
        else:
            self.container[self.index(len(self.container))] = value

    def remove(self) -> None:
        if isinstance(self.container, list):
            index = self.index(len(self.container))
            self.budget.move(len(self.container) - index)
            del self.container[index]
        elif self.key in self.container:
            del self.container[self.key]
        else:
            raise _Missing(f"no such key: {self.key}")


class PatchRun:
    """One patch in progress on a copy that is made container by container, when touched."""

    def __init__(self, document: JSON, budget: Budget | None = None) -> None:
        self.root = _copied(document)
        self._own = {id(self.root): self.root}
        self._budget = budget or Budget()

    def step(self, operation: Any) -> None:
        """Carry out one operation; a StatusError (422) if it cannot be, and nothing has changed."""
        operation = operation or {}
        kind = operation.get("op")
        method = _STEPS.get(kind) if isinstance(kind, str) else None
        if method is None:
            raise unprocessable(f"unexpected kind of operation: {kind!r}")
        try:
            method(self, operation)
        except _Missing as missing:
            raise unprocessable(f"{kind} at {operation.get('path')!r}: {missing}") from missing
        except RecursionError as error:
            raise unprocessable("nested too deeply to compare or to copy") from error

    def _place(self, operation: Object, member: str = "path") -> _Place:
        """Find the container that a pointer ends in, copying shared containers on the way."""
        pointer = operation.get(member)
        if not isinstance(pointer, str):
            raise _Missing(f"the operation has no {member}")
        segments = pointer.split("/")
        if len(segments) < 2:
            raise _Missing(f"no such path: {pointer!r}")
        here = self.root
        for segment in segments[1:-1]:
            place = _Place(here, _unescape(segment), self._budget)
            child = place.get()
            if not isinstance(child, (dict, list)):
                raise _Missing(f"no such path: {pointer!r}")
            if id(child) not in self._own:
                child = _copied(child)
                self._own[id(child)] = child
                place.replace(child)
            here = child
        return _Place(here, _unescape(segments[-1]), self._budget)

    def add(self, operation: Object) -> None:
        self._place(operation).add(operation.get("value"))

    def remove(self, operation: Object) -> None:
        self._place(operation).remove()

    def replace(self, operation: Object) -> None:
        value = operation.get("value")
        if operation.get("path") == "":
            if not isinstance(value, (dict, list)):
                raise _Missing("the whole can only become an object or an array")
            self.root = _copied(value)
            self._own[id(self.root)] = self.root
            return
        self._place(operation).replace(value)

    def move(self, operation: Object) -> None:
        source = self._place(operation, "from")
        value = source.get()
        source.remove()
        try:
            self._place(operation).add(value)
        except _Missing:
            source.add(value)
            raise

    def copy(self, operation: Object) -> None:
        value = self._place(operation, "from").get()
        target = self._place(operation)
        if value is not None:
            # The source may be changed later in place: the copy must not change with it.
            image = gojson.encode(value)
            self._budget.copy(len(image))
            value = gojson.decode(image)
        target.add(value)

    def test(self, operation: Object) -> None:
        found = self.root if operation.get("path") == "" else self._place(operation).get()
        if not _same(found, operation.get("value")):
            raise _Missing("the value differs")


_STEPS = {
    "add": PatchRun.add,
    "remove": PatchRun.remove,
    "replace": PatchRun.replace,
    "move": PatchRun.move,
    "copy": PatchRun.copy,
    "test": PatchRun.test,
}


def _copied(value: JSON) -> JSON:
    if isinstance(value, dict):
        return dict(value)
    return list(value) if isinstance(value, list) else value


def _unescape(segment: str) -> str:
    return segment.replace("~1", "/").replace("~0", "~")


def _same(left: JSON, right: JSON) -> bool:
    """Equality of JSON: 1, 1.0 and true are three values."""
    if type(left) is not type(right):
        return False
    if isinstance(left, dict):
        return left.keys() == right.keys() and all(_same(v, right[k]) for k, v in left.items())
    if isinstance(left, list):
        return len(left) == len(right) and all(map(_same, left, right))
    return bool(left == right)
