"""Small objects grow on the event loop within bounds only."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from pykcp.apis.loader import shared_type
from pykcp.machinery.patch import jsonpatch
from pykcp.machinery.schema.custom import CustomType
from pykcp.machinery.schema.growth import AT_ONCE, Outgrown, bounded, grow
from pykcp.machinery.schema.openapi_json import from_json
from pykcp.machinery.status import RequestEntityTooLarge
from pykcp.types import Object

META = shared_type("io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta")


def defaulted(count: int) -> CustomType:
    """A list of objects with so many defaults of 12 octets each."""
    fields = {f"d{n:05}": {"type": "integer", "default": 1} for n in range(count)}
    items = {"type": "object", "properties": fields}
    root = {"type": "object", "properties": {"list": {"type": "array", "items": items}}}
    return CustomType(from_json(root), META)


def complete(count: int, items: int, **more: Any) -> Object:
    obj: Object = {"metadata": {}, "list": [{} for _ in range(items)], **more}
    return defaulted(count).decode(obj, [])


def test_nothing_is_bounded_elsewhere() -> None:
    assert len(complete(100, 100)["list"][0]) == 100


@pytest.mark.parametrize("more", [{}, {"list2": None}], ids=["plain", "with nulls"])
def test_defaults(more: Object) -> None:
    with bounded():
        complete(100, 50, **more)
    with bounded(), pytest.raises(Outgrown):
        complete(100, 100, **more)


def test_all_objects_of_a_block_together() -> None:
    with bounded():
        complete(100, 30)
        with pytest.raises(Outgrown):
            complete(100, 30)


def test_names_count_towards_what_defaults_may_add_at_all() -> None:
    complete(100, 5_000)
    with pytest.raises(RequestEntityTooLarge):
        complete(100, 8_000)


def test_copies_of_a_patch() -> None:
    document = {"a": ["x" * 1000] * 20}
    copies = [{"op": "copy", "from": "/a", "path": f"/b{n}"} for n in range(4)]
    assert len(jsonpatch.apply(document, copies)["b3"]) == 20
    with bounded():
        jsonpatch.apply(document, copies[:3])
    with bounded(), pytest.raises(Outgrown):
        jsonpatch.apply(document, copies)


def test_blocks_may_be_nested() -> None:
    with bounded():
        grow(AT_ONCE)
        with bounded(False):
            grow(1000 * AT_ONCE)
        with bounded():
            grow(AT_ONCE)
        with pytest.raises(Outgrown):
            grow(1)
    grow(1000 * AT_ONCE)


def test_the_bound_is_of_one_task() -> None:
    """Others do as they like while the one that has it waits."""

    async def other() -> None:
        grow(1000 * AT_ONCE)

    async def main() -> None:
        task = asyncio.create_task(other())
        with bounded():
            await task
            grow(AT_ONCE)
            with pytest.raises(Outgrown):
                grow(1)

    asyncio.run(main())
