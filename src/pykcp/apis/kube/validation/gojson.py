"""Why a text is not a JSON object, in the words of Go's decoder.

Secrets with Docker configurations show these words to users.
"""

from __future__ import annotations

import orjson

from pykcp.machinery.patch.gojson import syntax_error

_SPACE = b" \t\r\n"
_KINDS = {b"[": "array", b'"': "string", b"t": "bool", b"f": "bool"}


def object_error(text: bytes) -> str | None:
    """What Go says when decoding this into a map; None if it is an object (or null)."""
    try:
        orjson.loads(text)
    except orjson.JSONDecodeError:
        problem = syntax_error(text)
        if problem is not None:
            return problem
    first = text.lstrip(_SPACE)[:1]
    if first in {b"{", b"n"}:
        return None
    kind = _KINDS.get(first, "number")
    return f"json: cannot unmarshal {kind} into Go value of type map[string]interface {{}}"
