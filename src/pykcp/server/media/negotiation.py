"""Media types: which form of an answer a client takes, and in which form it sends. Pure."""

from __future__ import annotations

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
    params: tuple[tuple[str, str], ...]
    quality: float

    def param(self, name: str) -> str:
        return next((v for k, v in self.params if k == name), "")


MAX_ACCEPT = 8 * 1024
"""Characters of an `Accept` header that are looked at; clients name a handful of media types."""


def parse_accept(header: str) -> tuple[_Clause, ...]:
    """Clauses by quality, then by order; upstream sorts the same way (goautoneg)."""
    return _parse_accept(_shortened(header))


def _shortened(header: str) -> str:
    return header if len(header) <= MAX_ACCEPT else header[:MAX_ACCEPT].rpartition(",")[0]


@lru_cache(maxsize=512)
def _parse_accept(header: str) -> tuple[_Clause, ...]:
    clauses = []
    for part in header.split(","):
        fields = [f.strip() for f in part.split(";")]
        if not fields[0]:
            continue
        params: list[tuple[str, str]] = []
        quality = 1.0
        for fieldtext in fields[1:]:
            key, _, value = fieldtext.partition("=")
            if key.strip() == "q":
                try:
                    quality = float(value)
                except ValueError:
                    quality = 1.0
            else:
                params.append((key.strip(), value.strip().strip('"')))
        clauses.append(_Clause(fields[0].lower(), tuple(params), quality))
    clauses.sort(key=lambda c: -c.quality)
    return tuple(clauses)


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
    is_known = takes_any
    for clause in _parse_accept(header):
        for media_type in _matching(clause.media_type, takes_any):
            is_known = True
            accepted = _accepted(clause, media_type, served, transforms)
            if accepted is not None:
                return accepted
    if is_known:
        raise NotAcceptable(SERVED)
    raise _UnknownForm


def _matching(asked: str, takes_any: bool) -> tuple[str, ...]:
    if asked == "*/*" or (takes_any and asked == "application/*"):
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
