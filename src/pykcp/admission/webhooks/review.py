"""AdmissionReview: the question to a webhook, and what its answer must look like."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any

import msgspec
import orjson

from pykcp.admission.subject import Subject, request_json
from pykcp.machinery.status import go_quote
from pykcp.registry.resource import Resource
from pykcp.types import Object

GROUP = "admission.k8s.io"
_VERSIONS = ("v1", "v1beta1")
_KIND = "AdmissionReview"
_NOT_BASE64 = re.compile("[^A-Za-z0-9+/]")
_MAX_FIELD = 256 * 1024
"""Bytes of each part of an answer but its patch."""
_MAX_WARNINGS = 128
"""All that a client is shown has less room."""
_SHOWN = 200
"""Characters of an answer that an error repeats."""
NO_KNOWN_VERSION = "webhook does not accept known AdmissionReview versions (v1, v1beta1)"


class BadAnswer(Exception):
    """The answer is none: undecodable, or not to the question."""


@dataclass(frozen=True, slots=True)
class ReviewResponse:
    allowed: bool
    patch: bytes = b""
    patch_type: str = ""
    result: Object | None = None
    warnings: tuple[str, ...] = ()
    annotations: dict[str, str] = field(default_factory=dict)


def review_version(accepted: tuple[str, ...]) -> str | None:
    """The first version in the webhook's list that is known here."""
    return next((version for version in accepted if version in _VERSIONS), None)


def question(
    subject: Subject, target: Resource, shown: tuple[bytes, bytes], *, version: str, uid: str
) -> tuple[bytes, ...]:
    """The review that is sent, in parts; `shown` are the encoded objects, new and old."""
    request = {"uid": uid, **request_json(subject, target)}
    last = {"dryRun": request.pop("dryRun"), "options": request.pop("options")}
    review = {"kind": _KIND, "apiVersion": f"{GROUP}/{version}", "request": request}
    obj, old = shown
    head = orjson.dumps(review).removesuffix(b"}}")
    tail = orjson.dumps(last)[1:] + b"}}"
    return (head + b',"object":', obj, b',"oldObject":', old, b"," + tail.removesuffix(b"}"))


class _Review(msgspec.Struct, gc=False):
    """The parts of an answer, undecoded: what is not looked at costs nothing but its bytes."""

    api_version: msgspec.Raw = msgspec.field(default=msgspec.Raw(b"null"), name="apiVersion")
    kind: msgspec.Raw = msgspec.Raw(b"null")
    response: msgspec.Raw = msgspec.Raw(b"null")


_REVIEW = msgspec.json.Decoder(_Review)
_BYTES = msgspec.json.Decoder(bytes)
_PARTS = msgspec.json.Decoder(dict[str, msgspec.Raw])


def decode(body: bytes, version: str, *, status: int, content_type: str) -> Object:
    """The review in an answer; BadAnswer if it cannot be read as one of this version."""
    if not body:
        raise BadAnswer(
            f"0-length response with status code: {status} and content type: {content_type}"
        )
    try:
        parts = _REVIEW.decode(body)
    except (msgspec.DecodeError, RecursionError):
        raise BadAnswer(f"couldn't get version/kind; json parse error: {_misfit(body)}") from None
    review: Object = {
        "apiVersion": _part("apiVersion", parts.api_version),
        "kind": _part("kind", parts.kind),
    }
    _check_type(review, version)
    word = _word_of(parts.response)
    if word == "null":
        return review
    if word != "object":
        raise BadAnswer(
            f"json: cannot unmarshal {word} into Go struct field "
            f"AdmissionReview.response of type {version}.AdmissionResponse"
        )
    review["response"] = _response(parts.response)
    return review


def _misfit(body: bytes) -> str:
    """What is wrong with an answer that is no object; upstream reads YAML, too, in which nearly
    every text is a string."""
    return unfit([] if body.lstrip()[:1] == b"[" else "")


def _response(raw: msgspec.Raw) -> Object:
    try:
        parts = _PARTS.decode(raw)
    except (msgspec.DecodeError, RecursionError):
        raise BadAnswer(f"couldn't get version/kind; json parse error: {unfit('')}") from None
    found: Object = {}
    for name, (wanted, go_type) in _FIELDS.items():
        part = parts.get(name)
        if part is None or (word := _word_of(part)) == "null":
            continue
        if word != wanted:
            raise BadAnswer(
                f"json: cannot unmarshal {word} into Go struct field "
                f"AdmissionResponse.response.{name} of type {go_type}"
            )
        found[name] = _patch(part) if name == "patch" else _part(f"response.{name}", part)
    return found


def _patch(raw: msgspec.Raw) -> bytes:
    """BadAnswer in Go's words if it is not in base64."""
    try:
        return _BYTES.decode(raw)
    except msgspec.DecodeError as error:
        text: str = msgspec.json.decode(raw, type=str, strict=False)
        at = _NOT_BASE64.search(text)
        place = len(text) if at is None else at.start()
        raise BadAnswer(f"illegal base64 data at input byte {place}") from error


def _part(name: str, raw: msgspec.Raw) -> Any:
    if len(memoryview(raw)) > _MAX_FIELD:
        raise BadAnswer(f"{name} is larger than {_MAX_FIELD} bytes")
    try:
        return msgspec.json.decode(raw)
    except (msgspec.DecodeError, RecursionError):
        raise BadAnswer(f"couldn't get version/kind; json parse error: {unfit('')}") from None


def _word_of(raw: msgspec.Raw) -> str:
    """The type of an undecoded value, by its first character."""
    return _WORDS.get(bytes(memoryview(raw)[:1]), "number")


_WORDS = {b"{": "object", b"[": "array", b'"': "string", b"t": "bool", b"f": "bool", b"n": "null"}
_FIELDS = {
    "uid": ("string", "types.UID"),
    "allowed": ("bool", "bool"),
    "status": ("object", "v1.Status"),
    "patch": ("string", "[]uint8"),
    "patchType": ("string", "v1.PatchType"),
    "auditAnnotations": ("object", "map[string]string"),
    "warnings": ("array", "[]string"),
}


def _check_type(review: Object, version: str) -> None:
    api_version = str(review.get("apiVersion") or "")[:_SHOWN]
    kind = str(review.get("kind") or "")[:_SHOWN]
    if not api_version or not kind or (api_version, kind) == (f"{GROUP}/{version}", _KIND):
        return  # what is missing is found later, if it matters
    group, _, given = api_version.rpartition("/")
    if group == GROUP and given in _VERSIONS and kind == _KIND:
        why = f"converting ({given}.{_KIND}) to ({version}.{_KIND}): unknown conversion"
    else:
        why = (
            f'no kind "{kind}" is registered for version "{api_version}" in scheme '
            '"pkg/runtime/scheme.go:111"'
        )
    raise BadAnswer(why)


def unfit(value: Any) -> str:
    """What Go says of JSON that is no object where one is needed."""
    return (
        f"json: cannot unmarshal {_word(value)} into Go value of type "
        'struct { APIVersion string "json:\\"apiVersion,omitempty\\""; '
        'Kind string "json:\\"kind,omitempty\\"" }'
    )


def _word(value: Any) -> str:
    if isinstance(value, dict):
        return "object"
    if isinstance(value, list):
        return "array"
    if isinstance(value, bool):
        return "bool"
    return "string" if isinstance(value, str) else "number"


def verified(review: Object, version: str, uid: str, *, mutating: bool) -> ReviewResponse:
    """The answer in a decoded review; BadAnswer if it is not one to our question."""
    response = review.get("response")
    if response is None:
        raise BadAnswer("webhook response was absent")
    if version == "v1":
        _check_v1(review, response, uid, mutating=mutating)
    patch: bytes = (response.get("patch") or b"") if mutating else b""
    patch_type = response.get("patchType") or ""
    if version == "v1beta1":
        patch_type = "JSONPatch" if patch else ""
    return ReviewResponse(
        response.get("allowed") or False,
        patch,
        patch_type,
        response.get("status"),
        tuple(str(text) for text in (response.get("warnings") or ())[:_MAX_WARNINGS]),
        {str(k): str(v) for k, v in (response.get("auditAnnotations") or {}).items()},
    )


def _check_v1(review: Object, response: Object, uid: str, *, mutating: bool) -> None:
    given = response.get("uid") or ""
    if given != uid:
        raise BadAnswer(f"expected response.uid={go_quote(uid)}, got {go_quote(given[:_SHOWN])}")
    api_version = str(review.get("apiVersion") or "")[:_SHOWN]
    kind = str(review.get("kind") or "")[:_SHOWN]
    if (api_version, kind) != (f"{GROUP}/v1", _KIND):
        group, _, version = str(api_version).rpartition("/")
        raise BadAnswer(
            f"expected webhook response of {GROUP}/v1, Kind=AdmissionReview, "
            f"got {group}/{version}, Kind={kind}"
        )
    has_patch, has_type = bool(response.get("patch")), response.get("patchType") is not None
    if not mutating:
        if has_patch:
            raise BadAnswer("validating webhook may not return response.patch")
        if has_type:
            raise BadAnswer("validating webhook may not return response.patchType")
        return
    if has_patch and not has_type:
        raise BadAnswer("webhook returned response.patch but not response.patchType")
    if has_type and not has_patch:
        raise BadAnswer("webhook returned response.patchType but not response.patch")
    if has_type and not response["patchType"]:
        raise BadAnswer('webhook returned invalid response.patchType of ""')
