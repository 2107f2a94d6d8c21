"""Quantities of Kubernetes' kinds for workloads (`cpu: 0.5`), written as Kubernetes writes them (`500m`).

Their schemas accept strings and whole numbers; Kubernetes reads every number, and stores text.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache
from typing import Any, NamedTuple

from pykcp.apis.kube.workloads import is_plain, reference_to
from pykcp.apis.protobuf import message_table
from pykcp.machinery.protobuf.tables import MessageField, parse_message
from pykcp.machinery.quantity import MILLI, QuantityError, parse
from pykcp.types import Object


class _Field(NamedTuple):
    name: str
    shape: str
    message: str
    """The message of its values; "" if they are quantities."""


def write_quantities(group: str, version: str, kind: str) -> Callable[[Object], None]:
    """A function that rewrites the quantities of an object, in place; others are left alone.

    Anyone may mark a definition as one of Kubernetes' kinds: a kind that is none has no quantities.
    """
    message = f"{group or 'core'}/{version}.{kind}"
    if not _line(message):
        return lambda _: None
    return lambda obj: _rewrite(obj, message)


def _line(message: str) -> str:
    """The line of a message in the tables; "" if there is no such message."""
    api, _, word = message.rpartition(".")
    group, _, version = api.rpartition("/")
    try:
        return message_table(group).get(f"{version}.{word}", "")
    except KeyError:
        return ""


def _rewrite(obj: Any, message: str) -> None:
    if not isinstance(obj, dict):
        return
    for name, shape, inner in _fields(message, ()):
        value = obj.get(name)
        if not shape:
            _rewrite_item(obj, name, inner, is_listed=False)
        elif isinstance(value, (dict, list)):
            keys = value if isinstance(value, dict) else range(len(value))
            for key in tuple(keys):
                _rewrite_item(value, key, inner, is_listed=True)


def _rewrite_item(container: Any, key: Any, message: str, *, is_listed: bool) -> None:
    """`is_listed`: amounts of resources, which Kubernetes rounds up to thousandths."""
    value = container[key] if is_listed else container.get(key)
    if message:
        _rewrite(value, message)
    elif isinstance(value, (int, float, str)) and not isinstance(value, bool):
        try:
            quantity = parse(value)
        except QuantityError:
            return  # the checks of the kind reject it
        container[key] = str(quantity.rounded_up(MILLI) if is_listed else quantity)


@cache
def _fields(message: str, above: tuple[str, ...]) -> tuple[_Field, ...]:
    """The fields of a message that are quantities, or have some in them."""
    if message in above or message == "meta/v1.ObjectMeta":
        return ()
    found = []
    for field, api in _declared(message):
        inner = "" if is_plain(field.type) else reference_to(field.type, api)
        if field.type == "Quantity" or (inner and _fields(inner, (*above, message))):
            found.append(_Field(field.name, field.shape, inner))
    return tuple(found)


def _declared(message: str) -> Iterator[tuple[MessageField, str]]:
    """The fields of a message with those of the structs in it, and the API that they refer to."""
    api = message.rpartition(".")[0]
    for field in parse_message(_line(message)):
        if field.name == "*":
            yield from _declared(reference_to(field.type, api))
        else:
            yield field, api
