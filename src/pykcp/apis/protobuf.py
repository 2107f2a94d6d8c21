"""Protobuf forms of Kubernetes' kinds; the table of an API group is read on first use."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pykcp.machinery.protobuf.messages import Message, Messages

_FOLDER = Path(__file__).parent / "kube" / "messages"
_META_KINDS = frozenset(
    (
        "Status",
        "PartialObjectMetadata",
        "PartialObjectMetadataList",
        "DeleteOptions",
        "APIVersions",
        "APIGroup",
        "APIGroupList",
        "APIResourceList",
    )
)
"""Kinds that belong to every API group."""
_TABLE_NAMES = ("core", "meta")
"""Tables whose names are not those of API groups."""


@cache
def _messages() -> Messages:
    from pykcp.machinery.protobuf.messages import Messages

    return Messages(_load)


@cache
def _groups() -> frozenset[str]:
    return frozenset(path.stem for path in _FOLDER.glob("*.messages"))


def _load(group: str) -> str:
    if group not in _groups():
        raise KeyError(group)
    return (_FOLDER / f"{group}.messages").read_text(encoding="utf-8")


def message_of(api_version: str, kind: str) -> Message | None:
    """How a kind, or a list of it, is read and written; None if it has no protobuf form."""
    if kind in _META_KINDS:
        return _messages().named(f"meta/v1.{kind}")
    if not has_protobuf(api_version.rpartition("/")[0]):
        return None
    return _messages().of_kind(api_version, kind)


def has_protobuf(group: str) -> bool:
    """Whether some kinds of an API group have a protobuf form."""
    return group not in _TABLE_NAMES and (group or "core") in _groups()


@cache
def message_table(group: str) -> dict[str, str]:
    """The lines of an API group's table by version and message (`core` and `meta` among them)."""
    from pykcp.machinery.protobuf.tables import parse_table

    return parse_table(_load(group))
