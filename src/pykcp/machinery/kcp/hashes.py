"""kcp's hash formulas: names, labels and identities derived from other names.

They must agree with kcp byte for byte: the results are stored, compared and selected by.
Randomness comes in as bytes.
"""

from __future__ import annotations

import base64
from functools import lru_cache
from hashlib import sha224, sha256

import orjson

_DIGITS = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"

CLAIM_LABEL_PREFIX = "claimed.internal.apis.kcp.io/"
EXPORT_LABEL = "internal.apis.kcp.io/export"
INITIALIZER_LABEL_PREFIX = "initializer.internal.kcp.io/"
TERMINATOR_LABEL_PREFIX = "terminator.internal.kcp.io/"
CLUSTER_NAME_LENGTH = 16
_LABEL_KEY_MAX = 63
_BINDING_NAME_BASE_MAX = 247
_SHARD_HASH_LENGTH = 8
_HTML_ESCAPES = {"<": "\\u003c", ">": "\\u003e", "&": "\\u0026"}


def base36(raw: bytes) -> str:
    """The bytes as one big number in digits 0-9a-z."""
    return _in_base(raw, 36)


def base62(raw: bytes) -> str:
    """The bytes as one big number in digits 0-9a-zA-Z."""
    return _in_base(raw, 62)


def base36_padded(raw: bytes) -> str:
    """Base 36 with one `0` in front for each leading zero byte."""
    return "0" * (len(raw) - len(raw.lstrip(b"\0"))) + base36(raw)


def _in_base(raw: bytes, base: int) -> str:
    number = int.from_bytes(raw, "big")
    digits = []
    while number:
        number, digit = divmod(number, base)
        digits.append(_DIGITS[digit])
    return "".join(reversed(digits))


def _sha224(text: str) -> bytes:
    return sha224(text.encode(), usedforsecurity=False).digest()


def cluster_name(random: bytes) -> str:
    """The name of a new logical cluster, from 32 random bytes."""
    digest = sha224(random, usedforsecurity=False).digest()
    return base36_padded(digest)[:CLUSTER_NAME_LENGTH]


def home_cluster_name(username: str) -> str:
    """The name of the logical cluster behind a user's home workspace."""
    return base36_padded(_sha224(username)[:8])


def shard_hash(shard_name: str) -> str:
    """The deprecated annotation value by which a workspace names its shard."""
    return base36_padded(_sha224(shard_name))[:_SHARD_HASH_LENGTH]


def identity_key(random: bytes) -> str:
    """The secret key of an export's identity, from 32 random bytes."""
    return base64.urlsafe_b64encode(random).decode().rstrip("=")


def identity_hash(key: str | bytes) -> str:
    """The public identity of an export, from its secret key."""
    return sha256(key.encode() if isinstance(key, str) else key).hexdigest()


@lru_cache(maxsize=4096)
def _export_hash(cluster: str, name: str) -> str:
    return base62(_sha224(f"{cluster}:{name}"))


def claim_label_key(export_cluster: str, export_name: str) -> str:
    """The label by which an export finds the objects it has a claim on."""
    return CLAIM_LABEL_PREFIX + _export_hash(export_cluster, export_name)


@lru_cache(maxsize=4096)
def claim_label_value(group: str, resource: str, identity: str = "") -> str:
    """The value of the claim label, from the claim without its verbs and selectors."""
    claim: dict[str, str | None] = {}
    if group:
        claim["group"] = group
    claim["resource"] = resource
    claim["verbs"] = None
    if identity:
        claim["identityHash"] = identity
    text = orjson.dumps(claim).decode()
    for character, escaped in _HTML_ESCAPES.items():  # as Go encodes JSON
        text = text.replace(character, escaped)
    return base62(_sha224(text))


REFLEXIVE_CLAIM_VALUE = base62(bytes([*range(10), *range(10), *range(8)]))
"""Marks a binding as visible to the owner of its export, whatever was accepted."""


def export_label_value(export_cluster: str, export_name: str) -> str:
    """The value of EXPORT_LABEL on bindings of this export."""
    return _export_hash(export_cluster, export_name)


def initializer_label(initializer: str) -> tuple[str, str]:
    """Key and value of the label on logical clusters that wait for this initializer."""
    return _phase_label(INITIALIZER_LABEL_PREFIX, initializer)


def terminator_label(terminator: str) -> tuple[str, str]:
    """Key and value of the label on logical clusters that wait for this terminator."""
    return _phase_label(TERMINATOR_LABEL_PREFIX, terminator)


def _phase_label(prefix: str, name: str) -> tuple[str, str]:
    digest = _sha224(name).hex()
    return prefix + digest[: _LABEL_KEY_MAX - len(prefix)], digest


def default_binding_name(consumer_cluster: str, export_path: str, export_name: str) -> str:
    """The name of the binding that a workspace type makes by default."""
    digest = base62(_sha224(f"{consumer_cluster}|{export_path}|{export_name}"))
    return f"{export_name[:_BINDING_NAME_BASE_MAX]}-{digest[:5].lower()}"
