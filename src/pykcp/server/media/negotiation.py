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
) -> Accepted:
    """The best form that the client takes and we serve; 406 if there is none."""
    return _choose(_shortened(header), served, transforms, takes_any)


@lru_cache(maxsize=512)
def _choose(
    header: str, served: tuple[str, ...], transforms: frozenset[str], takes_any: bool
) -> Accepted:
    if not header:
        return Accepted()
    is_known = False
    for clause in _parse_accept(header):
        media_type = _match(clause.media_type, served, takes_any)
        if media_type is None:
            continue
        is_known = True
        if media_type == PROTOBUF and (
            clause.param("as") == "Table" or _also_takes_json(header, clause)
        ):
            continue
        kind = clause.param("as")
        if kind:
            if (
                kind not in transforms
                or clause.param("g") != "meta.k8s.io"
                or clause.param("v") not in ("v1", "v1beta1")
            ):
                continue
            return Accepted(media_type, kind, clause.param("v"), clause.param("pretty") == "1")
        return Accepted(
            media_type,
            pretty=clause.param("pretty") == "1",
            is_stream=clause.param("stream") == "watch",
        )
    if is_known:
        raise NotAcceptable(SERVED)
    raise StatusError(
        "406: Not Acceptable\n\nAvailable representations: " + ", ".join(SERVED),
        code=406,
        reason="NotAcceptable",
    )


def _also_takes_json(header: str, instead_of: _Clause) -> bool:
    """Clients that would rather have protobuf but read JSON get it: it is stored that way."""
    kind = instead_of.param("as")
    return any(
        c.media_type in (JSON, "*/*") and c.param("as") == kind for c in _parse_accept(header)
    )


def _match(asked: str, served: tuple[str, ...], takes_any: bool) -> str | None:
    if asked in served:
        return asked
    if asked == "*/*" or (takes_any and asked == "application/*"):
        return served[0]
    return None


def media_type_of(content_type: str) -> str:
    """`application/json; charset=utf-8` → `application/json`."""
    return content_type.split(";", 1)[0].strip().lower()
