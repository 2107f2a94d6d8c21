"""AdmissionReview: the question to a webhook, and what its answer must look like."""

from __future__ import annotations

import base64
import binascii
from dataclasses import dataclass, field
from typing import Any

import orjson

from pykcp.admission.subject import Subject, request_json
from pykcp.machinery.status import go_quote
from pykcp.registry.resource import Resource
from pykcp.types import Object

GROUP = "admission.k8s.io"
_VERSIONS = ("v1", "v1beta1")
NO_KNOWN_VERSION = "webhook does not accept known AdmissionReview versions (v1, v1beta1)"


class BadAnswer(Exception):
    """The answer is none: undecodable, or not to the question."""


@dataclass(frozen=True, slots=True)
class Answer:
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
    subject: Subject,
    target: Resource,
    obj: Object | None,
    old: Object | None,
    *,
    version: str,
    uid: str,
) -> bytes:
    """The review that is sent."""
    request = {"uid": uid, **request_json(subject, target)}
    options = request.pop("options")
    dry_run = request.pop("dryRun")
    request |= {"object": obj, "oldObject": old, "dryRun": dry_run, "options": options}
    return orjson.dumps(
        {"kind": "AdmissionReview", "apiVersion": f"{GROUP}/{version}", "request": request}
    )


def decode(body: bytes, status: int, content_type: str) -> Object:
    """The review in an answer; BadAnswer if it cannot be read as one."""
    if not body:
        raise BadAnswer(
            f"0-length response with status code: {status} and content type: {content_type}"
        )
    try:
        review = orjson.loads(body)
    except orjson.JSONDecodeError as error:
        raise BadAnswer(f"couldn't get version/kind; json parse error: {error}") from error
    if not isinstance(review, dict):
        raise BadAnswer(
            "couldn't get version/kind; json parse error: json: cannot unmarshal "
            f"{_word(review)} into Go value of type struct"
        )
    shown = body.decode(errors="replace").strip()
    if not review.get("kind"):
        raise BadAnswer(f"Object 'Kind' is missing in '{shown}'")
    if not review.get("apiVersion"):
        raise BadAnswer(f"Object 'apiVersion' is missing in '{shown}'")
    return review


def _word(value: Any) -> str:
    if isinstance(value, list):
        return "array"
    if isinstance(value, bool):
        return "bool"
    return "string" if isinstance(value, str) else "number"


def verified(review: Object, version: str, uid: str, *, mutating: bool) -> Answer:
    """The answer in a review; BadAnswer if it is not one to our question."""
    response = review.get("response")
    if response is None:
        raise BadAnswer("webhook response was absent")
    if not isinstance(response, dict):
        raise BadAnswer("webhook response is not an object")
    if version == "v1":
        _check_v1(review, response, uid, mutating=mutating)
    patch = _patch(response)
    patch_type = _typed(response, "patchType", str, "")
    if version == "v1beta1":
        patch_type = "JSONPatch" if patch and mutating else ""
    return Answer(
        _typed(response, "allowed", bool, False),
        patch if mutating else b"",
        patch_type,
        _typed(response, "status", dict, None),
        tuple(str(text) for text in _typed(response, "warnings", list, [])),
        {str(k): str(v) for k, v in _typed(response, "auditAnnotations", dict, {}).items()},
    )


def _check_v1(review: Object, response: Object, uid: str, *, mutating: bool) -> None:
    given = response.get("uid") or ""
    if given != uid:
        raise BadAnswer(f"expected response.uid={go_quote(uid)}, got {go_quote(str(given))}")
    if (review["apiVersion"], review["kind"]) != (f"{GROUP}/v1", "AdmissionReview"):
        group, _, version = str(review["apiVersion"]).rpartition("/")
        raise BadAnswer(
            f"expected webhook response of {GROUP}/v1, Kind=AdmissionReview, "
            f"got {group}/{version}, Kind={review['kind']}"
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


def _typed(response: Object, name: str, wanted: type, absent: Any) -> Any:
    value = response.get(name)
    if value is None:
        return absent
    if not isinstance(value, wanted):
        raise BadAnswer(
            f"json: cannot unmarshal {_word(value)} into Go struct field "
            f"AdmissionResponse.response.{name}"
        )
    return value


def _patch(response: Object) -> bytes:
    text = _typed(response, "patch", str, "")
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError) as error:
        raise BadAnswer("illegal base64 data in response.patch") from error
