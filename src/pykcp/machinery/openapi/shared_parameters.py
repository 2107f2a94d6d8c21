"""Parameters that a v2 document defines once, at its top, and references in operations.

These are all parameters except those that clients expect in place, or that differ by kind.
"""

from __future__ import annotations

from base64 import urlsafe_b64encode
from functools import lru_cache

import orjson

from pykcp.types import Object

_IN_PLACE = frozenset(("name", "dryRun", "fieldValidation"))
"""A name is described kind by kind; by the others old kubectls find out what a server can do."""

_GENERIC = "#/definitions/io.k8s.apimachinery"


class SharedParameters:
    """Collects the parameters of one document."""

    def __init__(self) -> None:
        self._found: Object = {}

    def place(self, parameter: Object) -> Object:
        """What stands in the parameter's place: a reference, or itself."""
        if not _is_shared(parameter):
            return parameter
        name = f"{parameter['name']}-{_hash(orjson.dumps(parameter))}"
        self._found[name] = parameter
        return {"$ref": f"#/parameters/{name}"}

    def definitions(self) -> Object:
        return dict(sorted(self._found.items()))


def _is_shared(parameter: Object) -> bool:
    if parameter["in"] == "body":
        return str(parameter["schema"]["$ref"]).startswith(_GENERIC)
    return parameter["name"] not in _IN_PLACE


@lru_cache(maxsize=256)
def _hash(data: bytes) -> str:
    """Eight letters for a parameter: the start of its 64-bit FNV-1 hash, in base 64."""
    value = 0xCBF29CE484222325
    for byte in data:
        value = (value * 0x100000001B3 & 0xFFFFFFFFFFFFFFFF) ^ byte
    return urlsafe_b64encode(value.to_bytes(8, "big")[:6]).decode()
