"""Conversion of objects between versions by a webhook.

Objects are stored in the storage version at the time of their write. Readers of the store
pass values through `from_storage`, all of a list in one call, and get values as if they
were stored in the served version; the code after that is independent of webhooks. Writes
pass through `to_storage`.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Protocol, TypeAlias, TypeVar

from pykcp.aio.owner import spawn
from pykcp.machinery.schema.custom import CustomType
from pykcp.machinery.schema.growth import Outgrown
from pykcp.registry import codec
from pykcp.registry.conversion.review import ConversionFailed, Converter, LargeAnswer
from pykcp.types import Object

_KEEP_EVENTS = 512
_LARGE, _LARGE_TOGETHER = 32 * 1024, 256 * 1024
"""Octets of a value, and of all that are converted at once, which the event loop handles."""
ReadLarge: TypeAlias = Callable[[Sequence[bytes]], Awaitable[list[bytes]]]
"""Converts stored values elsewhere than on the event loop."""
Made = TypeVar("Made")


class StorageConversion(Protocol):
    """What stands between stored values and a served version where that has to wait."""

    def is_foreign(self, value: bytes) -> bool:
        """Whether the stored value must be converted."""

    async def to_storage(self, obj: Object, *, can_restart: bool = False) -> Object:
        """`can_restart`: Outgrown may be raised."""

    async def from_storage(self, values: Sequence[bytes]) -> list[bytes]: ...

    async def retrying(self, make: Callable[[], Made], *, can_restart: bool = False) -> Made: ...

    async def of_events(self, values: Sequence[bytes]) -> list[bytes]: ...


class ConversionNeeded(Exception):
    """Raised where nothing can wait, for `WebhookConversion.retrying` to see to."""

    def __init__(self, obj: Object, api_version: str) -> None:
        super().__init__(api_version)
        self.obj, self.api_version = obj, api_version


def _memo_key(obj: Object, api_version: str) -> tuple[bytes, str]:
    return codec.sorted_text(obj), api_version


class ConvertedEvents:
    """Conversions of what watches see: what several of them see is converted once."""

    def __init__(self) -> None:
        self._events: OrderedDict[bytes, tuple[asyncio.Future[list[bytes]], int]] = OrderedDict()

    async def from_storage(self, values: Sequence[bytes]) -> list[bytes]:
        """Stored values as values of the served version."""
        raise NotImplementedError

    async def of_events(self, values: Sequence[bytes]) -> list[bytes]:
        """The same for events: what several watchers see is converted once."""
        events = self._events
        missing = [value for value in dict.fromkeys(values) if value not in events]
        if missing:
            batch = spawn(self.from_storage(missing), "watch/conversion-batch")
            batch.add_done_callback(self._forget_failure)
            for index, value in enumerate(missing):
                events[value] = (batch, index)
        found = [events[value] for value in values]
        while len(events) > _KEEP_EVENTS:
            events.popitem(last=False)
        return [(await asyncio.shield(batch))[index] for batch, index in found]

    def _forget_failure(self, batch: asyncio.Future[list[bytes]]) -> None:
        if batch.cancelled() or batch.exception() is not None:
            for value in [v for v, (kept, _) in self._events.items() if kept is batch]:
                del self._events[value]


class WebhookConversion(ConvertedEvents):
    """Between one served version of a definition and what is stored of it."""

    def __init__(
        self,
        converter: Converter,
        types: Mapping[str, CustomType],
        *,
        kind: str,
        own: str,
        storage: str,
        unmarked: str,
    ) -> None:
        """Versions are given as `group/version`; `types` has all of the definition's.

        `unmarked`: the version of stored values that do not say theirs.
        """
        super().__init__()
        self._converter = converter
        self._types = types
        self._kind = kind
        self._own, self._storage, self._unmarked = own, storage, unmarked
        self._memo: dict[tuple[bytes, str], Object] = {}
        self.read_large: ReadLarge | None = None
        """None: nothing is too large for the event loop."""

    def is_foreign(self, value: bytes) -> bool:
        """Whether the stored value has another version than the served one."""
        return (codec.stored_version(value) or self._unmarked) != self._own

    async def to_storage(self, obj: Object, *, can_restart: bool = False) -> Object:
        """An object of this version as it is to be stored."""
        if self._own == self._storage:
            return obj
        sent = {**obj, "kind": self._kind, "apiVersion": self._own}
        stored = await self._convert_one(sent, self._storage, can_restart=can_restart)
        return self._types[self._storage].pruned(stored)

    async def _convert_one(self, sent: Object, api_version: str, *, can_restart: bool) -> Object:
        is_small = can_restart and self.read_large is not None
        try:
            (found,) = await self._converter.convert([sent], api_version, is_small=is_small)
        except LargeAnswer as error:
            raise Outgrown from error
        return found

    async def from_storage(self, values: Sequence[bytes]) -> list[bytes]:
        """Stored values as values of this version: unmarked, and ready to be served."""
        out = list(values)
        places: list[int] = []
        for index, value in enumerate(values):
            if self.is_foreign(value):
                places.append(index)
            else:
                out[index] = codec.without_version(value)
        if places:
            converted = await self._converted([values[index] for index in places])
            for index, value in zip(places, converted, strict=True):
                out[index] = value
        return out

    async def _converted(self, values: Sequence[bytes]) -> list[bytes]:
        read_large = self.read_large
        if read_large is not None and _are_large(values):
            return await read_large(values)
        sent = [self._readable(value) for value in values]
        try:
            found = await self._converter.convert(sent, self._own, is_small=read_large is not None)
        except LargeAnswer:
            assert read_large is not None
            return await read_large(values)
        return [self._value(before, obj) for before, obj in zip(sent, found, strict=True)]

    def _readable(self, value: bytes) -> Object:
        """What is stored, with its type and the defaults of its version."""
        version = codec.stored_version(value) or self._unmarked
        stored_type = self._types.get(version)
        if stored_type is None:
            raise ConversionFailed(
                f"request to convert CR from an invalid group/version: {version}"
            )
        obj = codec.decode(value)
        obj.pop("apiVersion", None)
        return {"kind": self._kind, "apiVersion": version, **stored_type.read(obj)}

    def _value(self, before: Object, obj: Object) -> bytes:
        obj = self._types[self._own].pruned(obj)
        cluster = before["metadata"]["annotations"][codec.CLUSTER_ANNOTATION]
        revision = before["metadata"]["resourceVersion"]
        return codec.fill(codec.encode(obj, cluster), int(revision))

    # -- field managers of other versions

    def converted(self, obj: Object, api_version: str) -> Object:
        """An object of this version in another one; only within `retrying`."""
        found = self._memo.get(_memo_key(obj, api_version))
        if found is None:
            raise ConversionNeeded(obj, api_version)
        return codec.copy(found)

    async def retrying(self, make: Callable[[], Made], *, can_restart: bool = False) -> Made:
        """What `make` makes; it is called again when it needed something converted.

        It must neither wait nor have effects before it has all that it needs.
        """
        memo: dict[tuple[bytes, str], Object] = {}
        while True:
            self._memo = memo  # make is synchronous, so no other task can run in between
            try:
                return make()
            except ConversionNeeded as needed:
                obj, version = needed.obj, needed.api_version
            finally:
                self._memo = {}
            sent = {"apiVersion": self._own, **codec.copy(obj), "kind": self._kind}
            found = await self._convert_one(sent, version, can_restart=can_restart)
            memo[_memo_key(obj, version)] = self._types[version].pruned(found)


def _are_large(values: Sequence[bytes]) -> bool:
    sizes = [len(value) for value in values]
    return max(sizes) > _LARGE or sum(sizes) > _LARGE_TOGETHER
