"""Objects as stored bytes: what is stored is what is served.

The stored form is JSON without apiVersion and kind, with the resource version as
the first thing in it, so that the store can fill in the revision and the server
can put the type in front, both without decoding.

Objects of CRDs remember the version that they were stored in, since their definition's
storage version may change: as apiVersion, the last thing in the text, with a space behind
it that nothing else has there. Those without it are of the first of the `storedVersions`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Any

import msgspec
import orjson

from pykcp.machinery.patch.gojson import TOO_DEEP
from pykcp.machinery.status import BadRequest
from pykcp.steps import Steps
from pykcp.storage.interface import Value
from pykcp.types import Object

HEAD = b'{"metadata":{"resourceVersion":"'
_HEAD_LENGTH = len(HEAD)
CLUSTER_ANNOTATION = "kcp.io/cluster"


def encode(obj: Object, cluster: str, suffix: bytes = b"") -> Value:
    """The stored form of an object; the cluster annotation is stamped, whatever was sent.

    `suffix`: names the version that it is stored in (`version_suffix`), if that can change.
    """
    tail = _text(_stored_members(obj, cluster))[_HEAD_LENGTH:]
    return Value(HEAD, tail[:-1] + suffix if suffix else tail)


def encode_outline(outline: Object, cluster: str) -> Value:
    """The stored form of an object in outline."""
    text = outline_text(_stored_members(outline, cluster))
    return Value(HEAD, text[_HEAD_LENGTH:])


def _stored_members(obj: Object, cluster: str) -> Object:
    """What the stored form says, in its order; the place of the revision is empty."""
    metadata = obj["metadata"]
    annotations = dict(metadata.get("annotations") or ())
    annotations[CLUSTER_ANNOTATION] = cluster
    out: Object = {"metadata": {"resourceVersion": "", **metadata, "annotations": annotations}}
    out["metadata"]["resourceVersion"] = ""
    for key, value in obj.items():
        if key not in _TYPE_AND_METADATA:
            out[key] = value
    return out


_TYPE_AND_METADATA = frozenset(("apiVersion", "kind", "metadata"))


_MARK = b',"apiVersion":"'
_SPACE = 0x20


def version_suffix(api_version: str) -> bytes:
    return b'%b%b" }' % (_MARK, api_version.encode())


def stored_version(value: bytes) -> str:
    """The version that a stored value says it is of; "" if it does not say."""
    if value[-2] != _SPACE:
        return ""
    start = value.rindex(_MARK) + len(_MARK)
    return value[start:-3].decode()


def without_version(value: bytes) -> bytes:
    """A stored value without the version that it says."""
    if value[-2] != _SPACE:
        return value
    return value[: value.rindex(_MARK)] + b"}"


def decode(value: bytes) -> Object:
    """The stored form as a fresh dict (no kind, and no apiVersion unless a suffix names it)."""
    obj: Object = orjson.loads(value)
    return obj


def decode_in_steps(value: bytes) -> Steps[Object]:
    """The same for a value that may be large: its members are decoded one after the other."""
    obj: Object = yield from _part_in_steps(value, _DEEPEST)
    return obj


def _part_in_steps(part: bytes | msgspec.Raw, depth: int) -> Steps[Any]:
    text = memoryview(part)
    if len(text) <= _AT_ONCE or not depth or text[0] not in _CONTAINERS or _is_fine(text):
        return orjson.loads(text)
    yield
    if text[0] == _LIST:
        items = yield from items_in_steps(_ITEMS.decode(part), depth - 1)
        return items
    found: Object = {}
    size = 0
    for name, member in _MEMBERS.decode(part).items():
        length = len(memoryview(member))
        if length > _AT_ONCE:
            found[name] = yield from _part_in_steps(member, depth - 1)
        else:
            found[name] = orjson.loads(memoryview(member))
        size += len(name) + length
        if size > _SOME:
            size = 0
            yield
    return found


def items_in_steps(items: Iterable[msgspec.Raw], depth: int = 0) -> Steps[list[Any]]:
    """The items of a list, some at a time: to begin with each takes as long as to decode it."""
    found: list[Any] = []
    some: list[msgspec.Raw] = []
    size = 0
    for item in items:
        length = len(memoryview(item))
        if length > _AT_ONCE and depth:
            found += orjson.loads(b"[%b]" % b",".join(some))
            some, size = [], 0
            found.append((yield from _part_in_steps(item, depth)))
            continue
        some.append(item)
        size += length
        if size > _SOME:
            found += orjson.loads(b"[%b]" % b",".join(some))
            some, size = [], 0
            yield
    found += orjson.loads(b"[%b]" % b",".join(some))
    return found


def _is_fine(text: memoryview) -> bool:
    """Whether it consists of parts so small that to find them takes longer than to decode them all."""
    return text.nbytes < _FINE * bytes(text).count(b",")


_FINE = 12
"""Octets from one comma to the next."""
_LIST = ord("[")
_CONTAINERS = b"[{"
_DEEPEST = 8
"""Levels of a value that are taken apart: each takes a tenth as long as to decode what is in it.
Managed fields of a long list are in the seventh."""
_SOME = 8 * 1024
"""Octets that take less than a tenth of a millisecond."""
_AT_ONCE = 64 * 1024
"""Octets that take less than a few milliseconds to decode, whatever they say."""
_MEMBERS = msgspec.json.Decoder(dict[str, msgspec.Raw])
_ITEMS = msgspec.json.Decoder(list[msgspec.Raw])


def decode_without_cluster(value: bytes) -> Object:
    """The object as its writer knows it: without the cluster annotation."""
    obj: Object = orjson.loads(value)
    strip_cluster(obj)
    return obj


def strip_cluster(obj: Object) -> None:
    """Drop the cluster annotation, which only the store may say."""
    metadata = obj.get("metadata")
    if not isinstance(metadata, dict):
        return
    annotations = metadata.get("annotations")
    if isinstance(annotations, dict) and CLUSTER_ANNOTATION in annotations:
        del annotations[CLUSTER_ANNOTATION]
        if not annotations:
            del metadata["annotations"]


def with_cluster(obj: Object, cluster: str) -> Object:
    """A copy as clients see it: with the cluster annotation. Shares everything else."""
    metadata = obj["metadata"]
    annotations = {**(metadata.get("annotations") or {}), CLUSTER_ANNOTATION: cluster}
    return {**obj, "metadata": {**metadata, "annotations": annotations}}


def without_cluster(value: bytes) -> bytes:
    """A stored value without the cluster annotation, if it has one.

    Nothing before the annotations of the object itself can look like them: quotes in strings are escaped.
    """
    start = value.find(_ANNOTATIONS)
    first = value.find(_CLUSTER, start) if start >= 0 else -1
    if first < 0:
        return value
    last = value.index(b'"', first + len(_CLUSTER)) + 1
    if value[last] == _COMMA:
        return value[:first] + value[last + 1 :]
    if value[first - 1] == _COMMA:
        return value[: first - 1] + value[last:]
    if value[start - 1] == _COMMA:
        start -= 1
    return value[:start] + value[last + 1 :]


def cluster_of(value: bytes) -> str:
    """The logical cluster that a stored value says it is in; "" if it does not say."""
    first = value.find(_CLUSTER, max(value.find(_ANNOTATIONS), 0)) + len(_CLUSTER)
    return value[first : value.index(b'"', first)].decode() if first >= len(_CLUSTER) else ""


_ANNOTATIONS = b'"annotations":{'
_CLUSTER = b'"%b":"' % CLUSTER_ANNOTATION.encode()
_COMMA = ord(",")


def reopen(value: bytes) -> Value:
    """Stored bytes with the place of the revision open again, for a last event."""
    return Value(HEAD, value[value.index(b'"', _HEAD_LENGTH) :])


def fill(value: Value, revision: int) -> bytes:
    return b"%b%d%b" % (value.head, revision, value.tail)


def revision_of(value: bytes) -> int:
    if not value.startswith(HEAD):
        return 0  # a dry run: it has no revision
    return int(value[_HEAD_LENGTH : value.index(b'"', _HEAD_LENGTH)])


def type_prefix(api_version: str, kind: str) -> bytes:
    """What is put in front of stored bytes (less their opening brace) when served."""
    return b'{"kind":%b,"apiVersion":%b,' % (orjson.dumps(kind), orjson.dumps(api_version))


def unversioned(obj: Object, cluster: str) -> bytes:
    """The stored form of something that is not stored (a dry run): its own version, or none."""
    value = encode(obj, cluster)
    revision = obj["metadata"].get("resourceVersion", "")
    if revision:
        return b"%b%b%b" % (value.head, str(revision).encode(), value.tail)
    return b'{"metadata":{' + value.tail[2:]


def copy(obj: Object) -> Object:
    """A deep copy by way of JSON: several times faster than `copy.deepcopy`."""
    copied: Object = orjson.loads(_text(obj))
    return copied


def sorted_text(value: object) -> bytes:
    """JSON with sorted keys, as Go writes maps."""
    return _text(value, orjson.OPT_SORT_KEYS)


def _text(value: object, option: int = 0) -> bytes:
    try:
        text: bytes = orjson.dumps(value, option=option)
    except orjson.JSONEncodeError as error:
        # patches and admission can nest deeper than bodies may
        raise BadRequest(TOO_DEEP if "Recursion" in str(error) else str(error)) from error
    return text


# --- in outline: metadata is decoded, everything else is left as the text that it came as
#
# For what is done to large objects whatever they say, such as copying them: finding where the
# members of an object end takes a twentieth of the time that decoding them takes. The other members,
# and the managed fields, which can be as large, are `msgspec.Raw` and compare by their text.


def outline(text: bytes) -> Object:
    """An object, stored or sent, in outline."""
    made: Object = dict(_MEMBERS.decode(text))
    made["metadata"] = {
        name: value if name == _MANAGED_FIELDS else orjson.loads(memoryview(value))
        for name, value in _MEMBERS.decode(made["metadata"]).items()
    }
    return made


_MANAGED_FIELDS = "managedFields"


def outline_of(obj: Object) -> Object:
    """The outline of a decoded object."""
    return outline(_text(obj))


def outline_text(outlined: Object) -> bytes:
    """The JSON of an object in outline."""
    return msgspec.json.encode(outlined)


def filled_in(outlined: Object) -> Object:
    """The decoded object of an outline."""
    return decode(outline_text(outlined))


def members_of(outlined: Object, names: Collection[str]) -> Object:
    """The metadata and these members of an object in outline, decoded."""
    found = {name: orjson.loads(memoryview(outlined[name])) for name in names if name in outlined}
    return {"metadata": outlined["metadata"], **found}


def some_members(text: bytes | msgspec.Raw, names: Collection[str]) -> Object:
    """These members of a JSON object, decoded; the others are skipped."""
    found = _MEMBERS.decode(text)
    return {name: orjson.loads(memoryview(found[name])) for name in names if name in found}
