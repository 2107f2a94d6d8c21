"""AdmissionReview: the question to a webhook, and what its answer must look like."""

from __future__ import annotations

import base64
import binascii
import string
from dataclasses import dataclass, field
from typing import Any

import orjson

from pykcp.admission.subject import Subject, request_json
from pykcp.machinery.status import go_quote
from pykcp.registry.resource import Resource
from pykcp.types import Object

GROUP = "admission.k8s.io"
_VERSIONS = ("v1", "v1beta1")
_KIND = "AdmissionReview"
_BASE64 = frozenset(string.ascii_letters + string.digits + "+/")
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
    return orjson.dumps({"kind": _KIND, "apiVersion": f"{GROUP}/{version}", "request": request})


def decode(body: bytes, version: str, *, status: int, content_type: str) -> Object:
    """The review in an answer; BadAnswer if it cannot be read as one of this version."""
    if not body:
        raise BadAnswer(
            f"0-length response with status code: {status} and content type: {content_type}"
        )
    try:
        review = orjson.loads(body)
    except orjson.JSONDecodeError:
        review = ""  # upstream reads YAML too, in which nearly every text is a string
    if not isinstance(review, dict):
        raise BadAnswer(f"couldn't get version/kind; json parse error: {unfit(review)}")
    _check_type(review, version)
    response = review.get("response")
    if response is not None and not isinstance(response, dict):
        raise BadAnswer(
            f"json: cannot unmarshal {_word(response)} into Go struct field "
            f"AdmissionReview.response of type {version}.AdmissionResponse"
        )
    for name, (wanted, go_type) in _FIELDS.items():
        value = (response or {}).get(name)
        if value is not None and not isinstance(value, wanted):
            raise BadAnswer(
                f"json: cannot unmarshal {_word(value)} into Go struct field "
                f"AdmissionResponse.response.{name} of type {go_type}"
            )
    return review


_FIELDS: dict[str, tuple[type, str]] = {
    "uid": (str, "types.UID"),
    "allowed": (bool, "bool"),
    "status": (dict, "v1.Status"),
    "patch": (str, "[]uint8"),
    "patchType": (str, "v1.PatchType"),
    "auditAnnotations": (dict, "map[string]string"),
    "warnings": (list, "[]string"),
}


def _check_type(review: Object, version: str) -> None:
    api_version, kind = review.get("apiVersion") or "", review.get("kind") or ""
    if not api_version or not kind or (api_version, kind) == (f"{GROUP}/{version}", _KIND):
        return  # what is missing is found later, if it matters
    group, _, given = str(api_version).rpartition("/")
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


def verified(review: Object, version: str, uid: str, *, mutating: bool) -> Answer:
    """The answer in a decoded review; BadAnswer if it is not one to our question."""
    response = review.get("response")
    if response is None:
        raise BadAnswer("webhook response was absent")
    if version == "v1":
        _check_v1(review, response, uid, mutating=mutating)
    patch = patch_bytes(response) if mutating else b""
    patch_type = response.get("patchType") or ""
    if version == "v1beta1":
        patch_type = "JSONPatch" if patch else ""
    return Answer(
        response.get("allowed") or False,
        patch,
        patch_type,
        response.get("status"),
        tuple(str(text) for text in response.get("warnings") or ()),
        {str(k): str(v) for k, v in (response.get("auditAnnotations") or {}).items()},
    )


def _check_v1(review: Object, response: Object, uid: str, *, mutating: bool) -> None:
    given = response.get("uid") or ""
    if given != uid:
        raise BadAnswer(f"expected response.uid={go_quote(uid)}, got {go_quote(str(given))}")
    api_version, kind = review.get("apiVersion") or "", review.get("kind") or ""
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


def patch_bytes(response: Object) -> bytes:
    """The patch in a response; BadAnswer in Go's words if it is not in base64."""
    text: str = response.get("patch") or ""
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError) as error:
        at = next((i for i, c in enumerate(text) if c not in _BASE64), len(text))
        raise BadAnswer(f"illegal base64 data at input byte {at}") from error
