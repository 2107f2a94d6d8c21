"""Conversion by webhook: objects of one version become objects of another, elsewhere.

Objects are stored in the storage version of the time at which they were written. Whoever
reads the store passes what it found through `from_storage`, all of a list in one call, and
has values as if they were stored in the version that is served; everything behind that
knows nothing of webhooks. What is written passes through `to_storage`.

What the webhook may change is upstream's: everything but the type and the metadata, of
which labels and annotations are its own to change.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import uuid
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias, TypeVar

import orjson

from pykcp.apis.kube.validation.objectmeta import validate_annotations, validate_labels
from pykcp.machinery.schema.custom import CustomType
from pykcp.machinery.status import StatusError, go_quote
from pykcp.registry import codec
from pykcp.types import Object

GROUP = "apiextensions.k8s.io"
TIMEOUT = 30
"""Seconds, as upstream waits."""
_VERSIONS = ("v1", "v1beta1")
_KEEP_EVENTS = 512
_BATCH = 500
"""Objects in one call; a webhook holds all of them in memory, as do we."""


@dataclass(frozen=True, slots=True)
class WebhookService:
    """A webhook that is reached through a Service."""

    namespace: str
    name: str
    path: str
    port: int


@dataclass(frozen=True, slots=True)
class Endpoint:
    """Where the webhook of a definition is."""

    url: str
    service: WebhookService | None
    ca_bundle: bytes
    timeout: int = TIMEOUT


Made = TypeVar("Made")


class CallFailed(Exception):
    """There is no answer; the text says why."""


Post: TypeAlias = Callable[[Endpoint, bytes], Awaitable[Object]]
"""Sends a review and returns the one it is answered with; raises CallFailed."""


def endpoint_of(conversion: Object) -> Endpoint:
    """The webhook of a definition's `spec.conversion`."""
    client = (conversion.get("webhook") or {}).get("clientConfig") or {}
    service = client.get("service")
    try:
        authorities = base64.b64decode(client.get("caBundle") or "")
    except binascii.Error:
        authorities = b""
    return Endpoint(
        client.get("url") or "",
        service
        and WebhookService(
            service["namespace"],
            service["name"],
            service.get("path") or "",
            service.get("port") or 443,
        ),
        authorities if authorities.strip() else b"",
    )


class ConversionFailed(StatusError):
    """Upstream's words, and a code without a reason: it does not classify these."""

    def __init__(self, text: str) -> None:
        super().__init__(text, reason="", details=False)


class Converter:
    """The webhook of one definition: objects in, objects of another version out."""

    def __init__(self, kind: str, conversion: Object, post: Post) -> None:
        self._kind = kind
        self._endpoint = endpoint_of(conversion)
        accepted = (conversion.get("webhook") or {}).get("conversionReviewVersions") or ()
        self._version = next((v for v in accepted if v in _VERSIONS), "")
        self._post = post

    async def convert(self, objects: Sequence[Object], api_version: str) -> list[Object]:
        """Objects, with their type, as objects of the version; ConversionFailed."""
        done: list[Object] = []
        for start in range(0, len(objects), _BATCH):
            done += await self._convert(objects[start : start + _BATCH], api_version)
        return done

    async def _convert(self, objects: Sequence[Object], api_version: str) -> list[Object]:
        if not self._version:
            raise ConversionFailed("no supported conversion review versions")
        who = f"conversion webhook for {_shown(objects[0]['apiVersion'], self._kind)}"
        uid = str(uuid.uuid4())
        request = {"uid": uid, "desiredAPIVersion": api_version, "objects": objects}
        review = {
            "kind": "ConversionReview",
            "apiVersion": f"{GROUP}/{self._version}",
            "request": request,
        }
        try:
            answer = await self._post(self._endpoint, orjson.dumps(review))
            found = _converted_objects(answer, self._version, uid)
        except CallFailed as error:
            raise ConversionFailed(f"{who} failed: {error}") from error
        if len(found) != len(objects):
            raise ConversionFailed(f"{who} returned {len(found)} objects, expected {len(objects)}")
        for index, (before, after) in enumerate(zip(objects, found, strict=True)):
            try:
                _check_type(before, after, api_version, self._kind)
            except _BadObject as error:
                raise ConversionFailed(
                    f"{who} returned invalid object at index {index}: {error}"
                ) from error
            try:
                _check_object(before, after)
            except _BadObject as error:
                raise ConversionFailed(f"{who} returned invalid object: {error}") from error
            try:
                _restore_metadata(before, after)
            except _BadObject as error:
                raise ConversionFailed(f"{who} returned invalid metadata: {error}") from error
        return found


def _shown(api_version: str, kind: str) -> str:
    """A type as Go prints it."""
    group, _, version = api_version.rpartition("/")
    return f"{group}/{version}, Kind={kind}"


def _converted_objects(answer: Object, version: str, uid: str) -> list[Any]:
    if version == "v1":
        given = (answer.get("apiVersion"), answer.get("kind"))
        if given != (f"{GROUP}/v1", "ConversionReview"):
            raise CallFailed(
                f"expected webhook response of {_shown(f'{GROUP}/v1', 'ConversionReview')}, "
                f"got {_shown(str(given[0]), str(given[1]))}"
            )
    response = answer.get("response")
    if not isinstance(response, dict):
        raise CallFailed("no response provided")
    got = response.get("uid") or ""
    if version == "v1" and got != uid:
        raise CallFailed(f"expected response.uid={go_quote(uid)}, got {go_quote(str(got))}")
    result = response.get("result")
    status = result.get("status") if isinstance(result, dict) else ""
    if not isinstance(result, dict) or status != "Success":
        message = result.get("message") if isinstance(result, dict) else ""
        raise CallFailed(
            str(message)
            if message
            else f"response.result.status was '{status or ''}', not 'Success'"
        )
    converted = response.get("convertedObjects") or []
    return converted if isinstance(converted, list) else [converted]


# --- what an answer must be ---------------------------------------------------------


class _BadObject(Exception):
    pass


def _check_type(before: Object, after: Any, api_version: str, kind: str) -> None:
    if not isinstance(after, dict):
        raise _BadObject("expected an object")
    given = after.get("apiVersion") or ""
    if given != api_version:
        raise _BadObject(f"invalid groupVersion (expected {api_version}, received {given})")
    if after.get("kind") != kind:
        raise _BadObject(f"invalid kind (expected {kind}, received {after.get('kind') or ''})")


def _check_object(before: Object, after: Object) -> None:
    was = before.get("metadata") or {}
    given = after.get("metadata")
    given = given if isinstance(given, dict) else {}
    for name, word in (("name", "name"), ("namespace", "namespace"), ("uid", "UID")):
        expected, got = was.get(name) or "", given.get(name) or ""
        if expected != got:
            raise _BadObject(f"must have the same {word}: {expected} != {got}")


def _restore_metadata(before: Object, after: Object) -> None:
    """The metadata of before, with the labels and annotations of after."""
    if "metadata" not in after:
        if "metadata" not in before:  # parts of objects, of which field managers want to know
            return
        raise _BadObject("missing metadata in converted object")
    given = after["metadata"]
    if not isinstance(given, dict):
        raise _BadObject(f"invalid metadata of type {_go_type(given)} in converted object")
    kept = dict(before.get("metadata") or {})
    for name in ("labels", "annotations"):
        texts = given.get(name)
        if texts is None:
            kept.pop(name, None)
            continue
        if not isinstance(texts, dict):
            raise _BadObject(
                f"invalid metadata.{name} of type {_go_type(texts)} in converted object"
            )
        for key, value in texts.items():
            if not isinstance(value, str):
                raise _BadObject(
                    f"metadata.{name}[{key}] must be a string, but is {_go_type(value)} in converted object"
                )
        if texts != (kept.get(name) or {}):
            _check_texts(name, texts)
        kept[name] = texts
    after["metadata"] = kept


def _check_texts(name: str, texts: dict[str, str]) -> None:
    errors = (
        validate_labels(texts, "metadata.labels")
        if name == "labels"
        else validate_annotations(texts, "metadata.annotation")
    )
    if errors:
        shown = list(dict.fromkeys(e.text() for e in errors))
        raise _BadObject(shown[0] if len(shown) == 1 else f"[{', '.join(shown)}]")


def _go_type(value: Any) -> str:
    if value is None:
        return "<nil>"
    if isinstance(value, bool):
        return "bool"
    if isinstance(value, (int, float)):
        return "int64" if isinstance(value, int) else "float64"
    if isinstance(value, str):
        return "string"
    return "[]interface {}" if isinstance(value, list) else "map[string]interface {}"


class ConversionNeeded(Exception):
    """Raised where nothing can wait, for `WebhookConversion.retrying` to see to."""

    def __init__(self, obj: Object, api_version: str) -> None:
        super().__init__(api_version)
        self.obj, self.api_version = obj, api_version


# --- between the store and one version ----------------------------------------------


def _memo_key(obj: Object, api_version: str) -> tuple[bytes, str]:
    return codec.sorted_text(obj), api_version


class WebhookConversion:
    """Between one served version of a definition and what is stored of it."""

    def __init__(
        self,
        converter: Converter,
        types: Mapping[str, CustomType],
        *,
        kind: str,
        own: str,
        storage: str,
        unmarked: str,
    ) -> None:
        """Versions are given as `group/version`; `types` has all of the definition's.

        `unmarked`: the version of stored values that do not say theirs.
        """
        self._converter = converter
        self._types = types
        self._kind = kind
        self._own, self._storage, self._unmarked = own, storage, unmarked
        self._memo: dict[tuple[bytes, str], Object] = {}
        self._events: OrderedDict[bytes, tuple[asyncio.Future[list[bytes]], int]] = OrderedDict()

    def is_foreign(self, value: bytes) -> bool:
        """Whether the stored value is of another version than ours."""
        return (codec.stored_version(value) or self._unmarked) != self._own

    async def to_storage(self, obj: Object) -> Object:
        """An object of this version as it is to be stored."""
        if self._own == self._storage:
            return obj
        sent = {**obj, "kind": self._kind, "apiVersion": self._own}
        (stored,) = await self._converter.convert([sent], self._storage)
        return self._types[self._storage].pruned(stored)

    async def from_storage(self, values: Sequence[bytes]) -> list[bytes]:
        """Stored values as values of this version: unmarked, and ready to be served."""
        out = list(values)
        sent: list[Object] = []
        places: list[int] = []
        for index, value in enumerate(values):
            if not self.is_foreign(value):
                out[index] = codec.unmarked(value)
                continue
            sent.append(self._readable(value))
            places.append(index)
        if sent:
            converted = await self._converter.convert(sent, self._own)
            for index, before, obj in zip(places, sent, converted, strict=True):
                out[index] = self._value(before, obj)
        return out

    def _readable(self, value: bytes) -> Object:
        """What is stored, with its type and the defaults of its version."""
        version = codec.stored_version(value) or self._unmarked
        stored_type = self._types.get(version)
        if stored_type is None:
            raise ConversionFailed(
                f"request to convert CR from an invalid group/version: {version}"
            )
        obj = codec.decode(value)
        obj.pop("apiVersion", None)
        return {"kind": self._kind, "apiVersion": version, **stored_type.read(obj)}

    def _value(self, before: Object, obj: Object) -> bytes:
        obj = self._types[self._own].pruned(obj)
        cluster = before["metadata"]["annotations"][codec.CLUSTER_ANNOTATION]
        revision = before["metadata"]["resourceVersion"]
        return codec.fill(codec.encode(obj, cluster), int(revision))

    # -- field managers of other versions

    def converted(self, obj: Object, api_version: str) -> Object:
        """An object of this version in another one; only within `retrying`."""
        found = self._memo.get(_memo_key(obj, api_version))
        if found is None:
            raise ConversionNeeded(obj, api_version)
        return codec.copy(found)

    async def retrying(self, make: Callable[[], Made]) -> Made:
        """What `make` makes; it is called again when it needed something converted.

        It must neither wait nor have effects before it has all that it needs.
        """
        memo: dict[tuple[bytes, str], Object] = {}
        while True:
            self._memo = memo  # make does not wait, so nobody else can come in between
            try:
                return make()
            except ConversionNeeded as needed:
                obj, version = needed.obj, needed.api_version
            finally:
                self._memo = {}
            sent = {"apiVersion": self._own, **codec.copy(obj), "kind": self._kind}
            (found,) = await self._converter.convert([sent], version)
            memo[_memo_key(obj, version)] = self._types[version].pruned(found)

    # -- watches

    async def of_events(self, values: Sequence[bytes]) -> list[bytes]:
        """The same for events: what several watchers see is converted once."""
        events = self._events
        missing = [value for value in dict.fromkeys(values) if value not in events]
        if missing:
            batch = asyncio.ensure_future(self.from_storage(missing))
            batch.add_done_callback(self._forget_failure)
            for index, value in enumerate(missing):
                events[value] = (batch, index)
        found = [events[value] for value in values]
        while len(events) > _KEEP_EVENTS:
            events.popitem(last=False)
        return [(await asyncio.shield(batch))[index] for batch, index in found]

    def _forget_failure(self, batch: asyncio.Future[list[bytes]]) -> None:
        if batch.cancelled() or batch.exception() is not None:
            for value in [v for v, (kept, _) in self._events.items() if kept is batch]:
                del self._events[value]
