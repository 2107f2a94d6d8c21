"""JSON merge patch (RFC 7396), with the corners that upstream's library has.

Nulls remove, also inside objects that the patch adds; nulls that are members of an
array stay. Where an object in the document meets an array in the patch, the array is
taken as it is, nulls inside its objects included: upstream does so, and clients see it.
"""

from __future__ import annotations

from pykcp.machinery.patch import gojson
from pykcp.machinery.status import BadRequest
from pykcp.types import JSON, Object


def decode(body: bytes, *, strict: bool) -> tuple[JSON, list[str]]:
    """The patch in a request's body, and what strict decoding has against it.

    `strict` is field validation other than Ignore. A patch that is no object is refused
    here then; without it `apply` decides.
    """
    try:
        patch = gojson.decode(body)
    except gojson.BadJSON as error:
        message = f"error decoding patch: {error}" if strict else "Invalid JSON Patch"
        raise BadRequest(message) from error
    if not strict:
        return patch, []
    if patch is not None and not isinstance(patch, dict):
        raise BadRequest(
            f"error decoding patch: json: cannot unmarshal {gojson.type_word(patch)} "
            "into Go value of type map[string]interface {}"
        )
    return patch, gojson.duplicates_of(body, patch)


def apply(document: Object, patch: JSON) -> JSON:
    """The document with the patch merged in; neither argument is changed.

    Not an object if the patch is an array: the caller finds that it does not decode.
    """
    try:
        if isinstance(patch, dict):
            return _merge(document, patch)
        if isinstance(patch, list):
            return [_pruned(item) for item in patch]
    except RecursionError as error:
        raise BadRequest("error decoding patch: exceeded max depth") from error
    raise BadRequest("Invalid JSON Patch")


def _merge(document: Object, patch: Object) -> Object:
    out = dict(document)
    for key, value in patch.items():
        if value is None:
            out.pop(key, None)
            continue
        current = out.get(key)
        if isinstance(current, dict):
            out[key] = _merge(current, value) if isinstance(value, dict) else value
        else:
            out[key] = _pruned(value)
    return out


def _pruned(value: JSON) -> JSON:
    """A value that takes no one's place: without the nulls in its objects."""
    if isinstance(value, dict):
        return {k: _pruned(v) for k, v in value.items() if v is not None}
    if isinstance(value, list):
        return [_pruned(item) for item in value]
    return value
