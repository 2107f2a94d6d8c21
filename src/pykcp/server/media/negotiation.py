"""Media types: which form of an answer a client takes, and in which form it sends. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache

from pykcp.machinery.status import NotAcceptable, StatusError

JSON = "application/json"
YAML = "application/yaml"
PROTOBUF = "application/vnd.kubernetes.protobuf"
CBOR = "application/cbor"
SERVED = (JSON, YAML, PROTOBUF)
"""In upstream's order, as its 406 names them."""
_STREAMS = (f"{JSON};stream=watch", f"{PROTOBUF};stream=watch")


@dataclass(frozen=True, slots=True)
class Accepted:
    """The chosen form: a media type and, if asked for, a transformation."""

    media_type: str = JSON
    transform: str = ""
    """"", Table, PartialObjectMetadata or PartialObjectMetadataList."""
    transform_version: str = ""
    pretty: bool = False
    is_stream: bool = False


@dataclass(frozen=True, slots=True)
class _Clause:
    media_type: str
    params: Mapping[str, str]
    quality: float

    def param(self, name: str) -> str:
        return self.params.get(name, "")

    def precedes(self, other: _Clause) -> bool:
        """As upstream's parser (goautoneg) compares: no order in the strict sense."""
        return (
            self.quality > other.quality
            or (other.media_type.startswith("*/") and not self.media_type.startswith("*/"))
            or (other.media_type.endswith("/*") and not self.media_type.endswith("/*"))
        )


MAX_ACCEPT = 8 * 1024
"""Characters of an `Accept` header that are looked at; clients name a handful of media types."""


def parse_accept(header: str) -> tuple[_Clause, ...]:
    """Clauses, the one that is served first at the start; upstream sorts the same way."""
    return _parse_accept(_shortened(header))


def _shortened(header: str) -> str:
    return header if len(header) <= MAX_ACCEPT else header[:MAX_ACCEPT].rpartition(",")[0]


@lru_cache(maxsize=512)
def _parse_accept(header: str) -> tuple[_Clause, ...]:
    clauses = [c for c in map(_clause, header.split(",")) if c is not None]
    if len(clauses) > _FEW:
        clauses.sort(key=lambda c: (-c.quality, c.media_type.count("*")))
        return tuple(clauses)
    for last in range(1, len(clauses)):
        at = last
        while at and clauses[at].precedes(clauses[at - 1]):
            clauses[at - 1], clauses[at] = clauses[at], clauses[at - 1]
            at -= 1
    return tuple(clauses)


_FEW = 12
"""So many clauses upstream sorts by insertion, which matters because their order is no strict one."""


def _clause(text: str) -> _Clause | None:
    """One clause; None if its media type has no two parts."""
    media_type, *fields = text.split(";")
    parts = [p.strip(" ") for p in media_type.split("/")]
    if parts == ["*"]:
        parts = ["*", "*"]
    if len(parts) != 2 or not parts[1]:
        return None
    params: dict[str, str] = {}
    quality = 1.0
    for field in fields:
        key, _, value = field.partition("=")
        if not value or "=" in value.rstrip("="):
            continue
        if key.strip(" ") == "q":
            quality = _quality(value)
        else:
            params[key.strip(" ")] = value.strip(" =")
    return _Clause("/".join(parts), params, quality)


def _quality(text: str) -> float:
    try:
        return float(text) if text == text.strip() else 0.0
    except ValueError:
        return 0.0


WITHOUT_TABLE = frozenset(("PartialObjectMetadata", "PartialObjectMetadataList"))
TRANSFORMS = WITHOUT_TABLE | {"Table"}


def choose(
    header: str,
    served: tuple[str, ...] = (JSON, YAML),
    transforms: frozenset[str] = TRANSFORMS,
    *,
    takes_any: bool = False,
    has_streams: bool = False,
) -> Accepted:
    """The best form that the client takes and the server has; 406 if there is none.

    `served` are the media types of whole objects; metadata of any kind has all of them.
    `has_streams`: the path can also be watched, which a 406 mentions.
    """
    try:
        return _choose(_shortened(header), served, transforms, takes_any)
    except _UnknownForm as unknown:
        known = (*SERVED, *_STREAMS) if has_streams else SERVED
        raise StatusError(
            "406: Not Acceptable\n\nAvailable representations: " + ", ".join(known),
            code=406,
            reason="NotAcceptable",
        ) from unknown


class _UnknownForm(Exception):
    """The client takes no media type of the server."""


@lru_cache(maxsize=512)
def _choose(
    header: str, served: tuple[str, ...], transforms: frozenset[str], takes_any: bool
) -> Accepted:
    if not header:
        return Accepted()
    if not takes_any and not _is_produced(header):
        raise _UnknownForm
    for clause in _parse_accept(header):
        for media_type in matching(clause.media_type):
            accepted = _accepted(clause, media_type, served, transforms)
            if accepted is not None:
                return accepted
    raise NotAcceptable(SERVED)


def _is_produced(header: str) -> bool:
    """Whether upstream's router lets the header pass: it takes no notice of parameters."""
    asked = (part.partition(";")[0].strip(" ") for part in header.split(","))
    return any(media_type == "*/*" or media_type in SERVED for media_type in asked)


def matching(asked: str) -> tuple[str, ...]:
    """The media types that are served and that one of an `Accept` header means."""
    if asked in {"*/*", "application/*"}:
        return SERVED
    return (asked,) if asked in SERVED else ()


def _accepted(
    clause: _Clause, media_type: str, served: tuple[str, ...], transforms: frozenset[str]
) -> Accepted | None:
    """The form that a clause means in this media type; None if there is no such form."""
    stream, is_pretty = clause.param("stream"), clause.param("pretty") == "1"
    if stream and (stream != "watch" or media_type == YAML):
        return None
    server_version = clause.param("sv")
    if server_version and (server_version != "v1" or not transforms):
        return None  # documents and errors have no version of their own
    if not any(clause.param(name) for name in ("as", "g", "v")):
        if media_type not in served:
            return None
        return Accepted(media_type, pretty=is_pretty, is_stream=bool(stream))
    kind, version = clause.param("as"), clause.param("v")
    if (
        kind not in transforms
        or (kind == "Table" and media_type == PROTOBUF)
        or clause.param("g") != "meta.k8s.io"
        or version not in ("v1", "v1beta1")
    ):
        return None
    return Accepted(media_type, kind, version, is_pretty)


def for_errors(header: str) -> Accepted | None:
    """The best form of a Status that fits; None if there is none."""
    try:
        return choose(header, SERVED, frozenset(), takes_any=True)
    except StatusError:
        return None


def media_type_of(content_type: str) -> str:
    """`application/json; charset=utf-8` → `application/json`."""
    return content_type.split(";", 1)[0].strip().lower()
