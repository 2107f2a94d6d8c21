"""Continue tokens: where a list goes on. Upstream's form and messages, so that its tools read them."""

from __future__ import annotations

import base64
import posixpath
import re
from typing import NoReturn, TypeVar

import orjson

from pykcp.machinery.patch.gojson import syntax_error, type_word
from pykcp.machinery.status import BadRequest
from pykcp.types import JSON

_VERSION = "meta.k8s.io/v1"
WHATEVER_IS_NOW = -1
"""Upstream's mark of a token that goes on without the consistency of its first page."""
_NO_NAMESPACE = "~"
"""No namespace has this name."""
_T = TypeVar("_T", str, int)
_FOREIGN = re.compile(r"[^A-Za-z0-9_-]").search


def encode_token(revision: int, start: str) -> str:
    """`start`: the key below the prefix of the list. In lists of all logical clusters it has an
    empty namespace for objects without one, which a clean path cannot have.
    """
    clean = start.replace("//", f"/{_NO_NAMESPACE}/", 1)
    token = orjson.dumps({"v": _VERSION, "rv": revision, "start": clean + "\0"})
    return base64.urlsafe_b64encode(token).rstrip(b"=").decode()


def decode_token(token: str) -> tuple[int, str]:
    """Revision and key (below the prefix) of a continue token; 400 if the token is invalid."""
    content = _content(_octets(token))
    version = _field(content, "v", str, "string")
    revision = _field(content, "rv", int, "int64")
    start = _field(content, "start", str, "string")
    if version != _VERSION:
        _refuse(f"server does not recognize this encoded version {version or ''}")
    if not revision:
        _refuse(f"incorrect encoded start resourceVersion (version {_VERSION})")
    if not start:
        _refuse(f"encoded start key empty (version {_VERSION})")
    path = start if start.startswith("/") else "/" + start
    # normpath keeps two leading slashes, which Go's path.Clean does not
    if posixpath.normpath(path) != path or path.startswith("//"):
        _refuse(f"{start}")
    return revision, path[1:].rstrip("\0").replace(f"/{_NO_NAMESPACE}/", "//", 1)


def _octets(token: str) -> bytes:
    text = token.replace("\r", "").replace("\n", "")
    bad = _FOREIGN(text)
    if bad is not None or len(text) % 4 == 1:
        position = len(text) - 1 if bad is None else len(text[: bad.start()].encode())
        _refuse(f"illegal base64 data at input byte {position}")
    return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))


def _content(octets: bytes) -> dict[str, JSON]:
    try:
        content = orjson.loads(octets)
    except orjson.JSONDecodeError as error:
        _refuse(f"{syntax_error(octets) or error}")
    if content is None:
        return {}
    if not isinstance(content, dict):
        _refuse(
            f"json: cannot unmarshal {type_word(content)} into Go value of type storage.continueToken"
        )
    return content


def _field(content: dict[str, JSON], name: str, kind: type[_T], go_type: str) -> _T:
    value = content.get(name)
    if value is None:
        return kind()
    if not isinstance(value, kind) or isinstance(value, bool):
        word = type_word(value)
        if isinstance(value, float):
            word = f"number {value!r}"
        _refuse(
            f"json: cannot unmarshal {word} into Go struct field continueToken.{name} "
            f"of type {go_type}"
        )
    return value


def _refuse(why: str) -> NoReturn:
    raise BadRequest(f"invalid continue token: continue key is not valid: {why}")
