"""ConversionReview: the question to a conversion webhook, and what its answer must be.

What the webhook may change is upstream's: everything but the type and the metadata, of
which labels and annotations are its own to change.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import orjson

from pykcp.apis.kube.validation.objectmeta import validate_annotations, validate_labels
from pykcp.machinery.status import StatusError, go_quote
from pykcp.registry.clock import random_uid
from pykcp.registry.codec import CLUSTER_ANNOTATION
from pykcp.types import Object

GROUP = "apiextensions.k8s.io"
TIMEOUT = 30
"""Seconds, as upstream waits."""
_VERSIONS = ("v1", "v1beta1")
_BATCH, _BATCH_BYTES = 500, 1024 * 1024
"""What is sent in one call; a webhook holds all of it in memory, as do we."""
_SHOWN = 200
"""Characters of an answer that an error repeats."""
LARGE_ANSWER = 128 * 1024
"""Octets of an answer that the event loop decodes, if a worker process can do it instead."""
MAX_CONTAINERS = 300_000
"""Objects and arrays in an answer: more take longer to decode than others should wait."""


@dataclass(frozen=True, slots=True)
class WebhookService:
    """A webhook that is reached through a Service."""

    namespace: str
    name: str
    path: str
    port: int


@dataclass(frozen=True, slots=True)
class ConversionEndpoint:
    """Where the webhook of a definition is."""

    url: str
    service: WebhookService | None
    ca_bundle: bytes
    timeout: int = TIMEOUT


class ConversionCallFailed(Exception):
    """There is no answer; the text says why."""


class LargeAnswer(Exception):
    """The answer is too large for the event loop: the conversion is a worker's to make."""


Post: TypeAlias = Callable[[ConversionEndpoint, bytes, str], Awaitable[bytes]]
"""Sends a review for a logical cluster and returns the text that it is answered with.

Raises ConversionCallFailed.
"""


def endpoint_of(conversion: Object) -> ConversionEndpoint:
    """The webhook of a definition's `spec.conversion`."""
    client = (conversion.get("webhook") or {}).get("clientConfig") or {}
    service = client.get("service")
    try:
        authorities = base64.b64decode(client.get("caBundle") or "")
    except binascii.Error:
        authorities = b""
    return ConversionEndpoint(
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

    def __init__(
        self, kind: str, conversion: Object, post: Post, uid: Callable[[], str] = random_uid
    ) -> None:
        self._kind, self._uid = kind, uid
        self._endpoint = endpoint_of(conversion)
        accepted = (conversion.get("webhook") or {}).get("conversionReviewVersions") or ()
        self._version = next((v for v in accepted if v in _VERSIONS), "")
        self._post = post

    async def convert(
        self, objects: Sequence[Object], api_version: str, *, is_small: bool = False
    ) -> list[Object]:
        """Objects, with their type, as objects of the version; ConversionFailed.

        `is_small`: LargeAnswer is raised rather than that a large answer is decoded.
        """
        if not self._version:
            raise ConversionFailed("no supported conversion review versions")
        done: list[Object] = []
        batch: list[orjson.Fragment] = []
        size = 0
        for index, obj in enumerate(objects):
            encoded = orjson.dumps(obj)
            batch.append(orjson.Fragment(encoded))
            size += len(encoded)
            if size >= _BATCH_BYTES or len(batch) == _BATCH or index == len(objects) - 1:
                start = index + 1 - len(batch)
                some = objects[start : index + 1]
                done += await self._convert(some, batch, api_version, is_small)
                batch, size = [], 0
        return done

    async def _convert(
        self,
        objects: Sequence[Object],
        encoded: list[orjson.Fragment],
        api_version: str,
        is_small: bool,
    ) -> list[Object]:
        who = f"conversion webhook for {_shown(objects[0]['apiVersion'], self._kind)}"
        uid = self._uid()
        request = {"uid": uid, "desiredAPIVersion": api_version, "objects": encoded}
        review = {
            "kind": "ConversionReview",
            "apiVersion": f"{GROUP}/{self._version}",
            "request": request,
        }
        try:
            text = await self._post(self._endpoint, orjson.dumps(review), _cluster(objects))
            if is_small and len(text) > LARGE_ANSWER:
                raise LargeAnswer
            found = _converted_objects(_decode(text), self._version, uid)
        except ConversionCallFailed as error:
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


def _decode(text: bytes) -> Object:
    """The review in an answer, in the words of a Go client if there is none."""
    if text.count(b"[") + text.count(b"{") > MAX_CONTAINERS:
        raise ConversionCallFailed(f"the answer has more than {MAX_CONTAINERS} objects and arrays")
    try:
        review = orjson.loads(text)
    except orjson.JSONDecodeError as error:
        raise ConversionCallFailed(
            f"couldn't get version/kind; json parse error: {error}"
        ) from error
    if not isinstance(review, dict):
        raise ConversionCallFailed("couldn't get version/kind; json parse error: not an object")
    return review


def _cluster(objects: Sequence[Object]) -> str:
    """The logical cluster that pays for a call; "" if the objects do not say where they are."""
    annotations = (objects[0].get("metadata") or {}).get("annotations") or {}
    found: str = annotations.get(CLUSTER_ANNOTATION) or ""
    return found


def _shown(api_version: str, kind: str) -> str:
    """A type as Go prints it."""
    group, _, version = api_version.rpartition("/")
    return f"{group}/{version}, Kind={kind}"


def _converted_objects(answer: Object, version: str, uid: str) -> list[Any]:
    if version == "v1":
        given = (answer.get("apiVersion"), answer.get("kind"))
        if given != (f"{GROUP}/v1", "ConversionReview"):
            raise ConversionCallFailed(
                f"expected webhook response of {_shown(f'{GROUP}/v1', 'ConversionReview')}, "
                f"got {_shown(str(given[0])[:_SHOWN], str(given[1])[:_SHOWN])}"
            )
    response = answer.get("response")
    if not isinstance(response, dict):
        raise ConversionCallFailed("no response provided")
    got = response.get("uid") or ""
    if version == "v1" and got != uid:
        raise ConversionCallFailed(
            f"expected response.uid={go_quote(uid)}, got {go_quote(str(got)[:_SHOWN])}"
        )
    result = response.get("result")
    status = result.get("status") if isinstance(result, dict) else ""
    if not isinstance(result, dict) or status != "Success":
        message = result.get("message") if isinstance(result, dict) else ""
        raise ConversionCallFailed(
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
        shown = str(given)[:_SHOWN]
        raise _BadObject(f"invalid groupVersion (expected {api_version}, received {shown})")
    if after.get("kind") != kind:
        shown = str(after.get("kind") or "")[:_SHOWN]
        raise _BadObject(f"invalid kind (expected {kind}, received {shown})")


def _check_object(before: Object, after: Object) -> None:
    was = before.get("metadata") or {}
    given = after.get("metadata")
    given = given if isinstance(given, dict) else {}
    for name, word in (("name", "name"), ("namespace", "namespace"), ("uid", "UID")):
        expected, got = was.get(name) or "", given.get(name) or ""
        if expected != got:
            raise _BadObject(f"must have the same {word}: {expected} != {str(got)[:_SHOWN]}")


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
