"""Keys given more than once in a JSON text: found only if there can be any.

Every key in the text is followed by a colon, so a text with as many `":` as its
decoded form has keys repeats none. Only when the counts differ (a repeated key, or
a string that contains `":`) is the text read again.
"""

from __future__ import annotations

from pykcp.machinery.patch import gojson
from pykcp.types import JSON


def of(body: bytes, decoded: JSON) -> list[str]:
    """`duplicate field "spec.x"` for each, in the order of the text."""
    if b'" :' not in body and body.count(b'":') == _count_keys(decoded):
        return []
    return gojson.duplicate_fields(body)


def _count_keys(value: JSON) -> int:
    if isinstance(value, dict):
        total = len(value)
        for item in value.values():
            if isinstance(item, (dict, list)):
                total += _count_keys(item)
        return total
    if isinstance(value, list):
        return sum(_count_keys(item) for item in value if isinstance(item, (dict, list)))
    return 0
