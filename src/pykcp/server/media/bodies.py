"""Request bodies: from bytes in some media type to an object of the expected kind."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec
import orjson

from pykcp.apis.known_kinds import internal_type, is_readable_instead
from pykcp.apis.protobuf import message_of
from pykcp.machinery.patch import gojson
from pykcp.machinery.protobuf.wire import ProtobufError, open_envelope
from pykcp.machinery.status import (
    BadRequest,
    Invalid,
    RequestEntityTooLarge,
    UnsupportedMediaType,
    go_quote,
    invalid,
)
from pykcp.registry.resource import LARGE, Resource
from pykcp.server.call import Call
from pykcp.server.large.refs import KindRef
from pykcp.server.media import negotiation, yaml_text
from pykcp.types import Object

if TYPE_CHECKING:
    from pykcp.machinery.protobuf.messages import Message

LIMIT = 3 * 1024 * 1024
_SMALL = 128 * 1024
"""The weight of what is small by nature, and read on the event loop."""
_LARGEST_REVIEW = 3 * 512 * 1024
"""Octets of a review: its answer repeats it, and each group and each extra value is looked at."""


def body_of(call: Call) -> bytes:
    request = call.exchange.request
    if request.truncated or len(request.body) > LIMIT:
        raise RequestEntityTooLarge(f"Request entity too large: limit is {LIMIT}", details=False)
    return request.body


def media_type(call: Call) -> str:
    header = call.exchange.request.header("content-type")
    if not header or header == negotiation.JSON:
        return negotiation.JSON
    # one that is malformed is the name of no known form
    return negotiation.media_type_of(header) if _WELL_FORMED(header) else header


_WORD = r"[!#$%&'*+\-.^_`|~0-9A-Za-z]++"
_WELL_FORMED = re.compile(
    rf'[^;]*+(?:;\s*+{_WORD}\s*+=\s*+(?:{_WORD}|"(?:[^"\\]|\\.)*+")\s*+)*+;?\s*+'
).fullmatch
"""A media type and its parameters, as far as upstream asks for them to be right."""


def parse(body: bytes, kind: str) -> Any:
    """JSON text as a value; 400 in upstream's words if it is none."""
    try:
        value = gojson.decode(body)
        gojson.check_depth(body, value)
    except gojson.BadJSON as error:
        raise unrecognized(
            kind, f"couldn't get version/kind; json parse error: {error}", body
        ) from error
    return value


def unrecognized(kind: str, why: str, body: bytes) -> BadRequest:
    return BadRequest(
        f"the object provided is unrecognized (must be of type {kind}): {why} ({summary(body)})"
    )


_SUMMARY = 30


def summary(body: bytes) -> str:
    """The beginning of a body, as errors quote it: text if it looks like JSON, else hex."""
    if not body:
        return "<empty>"
    head = body[:_SUMMARY]
    shown = head.decode("utf-8", "replace") if body[:1] == b"{" else head.hex()
    return f"{shown} ..." if len(body) > _SUMMARY else shown


Warn = Callable[[str], None]


class Sent(NamedTuple):
    """A body and what its request says of it: enough to read it in another process, too."""

    body: bytes
    form: str
    """Its media type, without parameters."""
    field_validation: str = "Warn"
    """Ignore, Warn or Strict."""

    @property
    def weight(self) -> int:
        """How long it takes to read, in octets of JSON: YAML takes longer, aliases longest."""
        body = self.body
        if "yaml" not in self.form or (body[:1] == b"{" and _is_json(body)):
            return len(body)
        if b"&" in body and b"*" in body:
            return max(_ALIASED, len(body) * _YAML_WEIGHT)
        return len(body) * _YAML_WEIGHT


def _is_json(body: bytes) -> bool:
    """Whether it reads as JSON, which most YAML of clients is; seen without decoding it."""
    try:
        msgspec.json.decode(body, type=msgspec.Raw)
    except (msgspec.MsgspecError, RecursionError):  # the latter if it is too deep
        return False
    return True


_YAML_WEIGHT = 8
_ALIASED = 1 << 20
"""The weight of YAML with aliases, which may stand for much more than is written."""


def sent_of(call: Call) -> Sent:
    return Sent(body_of(call), media_type(call), call.context.field_validation)


def parse_as(call: Call, kind: str, api_version: str) -> Any:
    """The body as JSON values, whatever form it came in; of a kind that is small by nature."""
    sent = Sent(body_of(call), media_type(call))
    check_small(sent)
    return parse_sent(sent, kind, api_version)


def check_small(sent: Sent) -> None:
    """413 for a body that would take long to read: options, scales and the like are short."""
    if sent.weight > _SMALL:
        raise RequestEntityTooLarge(
            f"Request entity too large: limit is {_SMALL // _YAML_WEIGHT} for YAML without aliases"
            f" and {_SMALL} for other media types",
            details=False,
        )


def parse_sent(sent: Sent, kind: str, api_version: str) -> Any:
    form = sent.form
    if form == negotiation.JSON:
        return _parse_json(sent.body, kind, api_version)
    if form == negotiation.YAML:
        try:
            return yaml_text.parse(sent.body)
        except yaml_text.BadYAML as error:
            raise unrecognized(kind, str(error), sent.body) from error
    if form != negotiation.PROTOBUF:
        raise UnsupportedMediaType(negotiation.SERVED)
    message = message_of(api_version, kind)
    if message is None:
        raise UnsupportedMediaType(negotiation.SERVED[:2])
    return _parse_protobuf(sent.body, message, kind)


def _parse_json(body: bytes, kind: str, api_version: str) -> Any:
    try:
        return parse(body, kind)
    except BadRequest as error:
        cause = error.__cause__
        if not isinstance(cause, gojson.NumberTooLarge):
            raise
        version = go_quote(api_version.rpartition("/")[2])
        raise BadRequest(
            f"{kind} in version {version} cannot be handled as a {kind}: {cause}"
        ) from cause


def _parse_protobuf(body: bytes, message: Message, kind: str) -> Object:
    """The object in a protobuf body, as the JSON values it stands for."""
    try:
        api_version, given, raw = open_envelope(body)
        obj = message.read(raw)
    except ProtobufError as error:
        raise unrecognized(kind, str(error), body) from error
    return {"kind": given or kind, "apiVersion": api_version, **obj}


async def read_review(call: Call) -> Object:
    """The body as a decoded object of a kind that is answered; a worker reads a long one."""
    sent, resource = sent_of(call), call.resource
    if len(sent.body) > _LARGEST_REVIEW:
        raise RequestEntityTooLarge(
            f"Request entity too large: limit is {_LARGEST_REVIEW}", details=False
        )
    large, context = resource.services.large, call.context
    if large is None or sent.weight <= LARGE:
        return read_sent(sent, resource, context.warn)
    ref = KindRef(resource.group, resource.plural, resource.version, b"", (), 0)
    text, warnings = await large.compute(
        call.cluster, "pykcp.server.large.jobs:read_body", ref, sent
    )
    for each in warnings:
        context.warn(each)
    review: Object = orjson.loads(text)
    return review


def read_sent(sent: Sent, resource: Resource, warn: Warn) -> Object:
    """The body as a decoded object of the resource's kind; `warn` is called for accepted problems."""
    value = parse_sent(sent, resource.kind, resource.api_version)
    body = sent.body
    if resource.definition.native or resource.definition.is_kubernetes:
        obj = mark_reset(check_type(value, resource.kind, resource.api_version, body))
    else:
        obj = check_custom_type(value, resource, body)
    problems: list[str] = []
    lenient = sent.field_validation == "Ignore"
    if sent.form == negotiation.YAML and not lenient:
        problems += yaml_text.duplicates(body)
    decoded = resource.rules.decode(
        obj, problems, body if sent.form == negotiation.JSON and not lenient else None
    )
    if problems and not lenient:
        _report(sent, resource, problems, warn)
    return decoded


def _report(sent: Sent, resource: Resource, problems: list[str], warn: Warn) -> None:
    if sent.field_validation == "Strict":
        kind, version = resource.kind, go_quote(resource.version)
        repeated = [p for p in problems if p.startswith("line ")]
        found = [yaml_text.strict_error(repeated)] if repeated else []
        text = ", ".join(found + problems[len(repeated) :])
        raise BadRequest(
            f"{kind} in version {version} cannot be handled as a {kind}: strict decoding error: {text}"
        )
    raise_or_warn(sent.field_validation, problems, warn)


def mark_reset(obj: Object) -> Object:
    """An empty list of managedFields asks to forget them, like a list of one empty entry.

    Decoding drops empty lists, so it is written as the other form.
    """
    metadata = obj.get("metadata")
    if isinstance(metadata, dict) and metadata.get("managedFields") == []:
        metadata["managedFields"] = [{}]
    return obj


def raise_or_warn(field_validation: str, problems: list[str], warn: Warn) -> None:
    """Duplicate and unknown fields: an error in strict mode, otherwise a warning for each."""
    if problems and field_validation == "Strict":
        raise BadRequest("strict decoding error: " + ", ".join(problems))
    for problem in problems:
        warn(problem)


def check_type(value: Any, kind: str, api_version: str, body: bytes) -> Object:
    """The value is an object of this kind and version, or says nothing else."""
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise unrecognized(kind, _NO_STRUCT.format(_go_kind(value)), body)
    given_kind, given_version = value.get("kind"), value.get("apiVersion")
    if (given_kind or kind) == kind and (given_version or api_version) == api_version:
        return value
    given_kind, given_version = str(given_kind or kind), str(given_version or api_version)
    group, _, version = given_version.rpartition("/")
    if "/" in group:
        raise unrecognized(kind, f"unexpected GroupVersion string: {given_version}", body)
    raise BadRequest(
        f"{given_kind} in version {go_quote(version)} cannot be handled as a {kind}: "
        + _wrong_kind(given_kind, given_version, internal_type(api_version, kind), api_version)
    )


def check_custom_type(value: Any, resource: Resource, body: bytes) -> Object:
    """The same for custom resources, which must say what they are."""
    if value is not None and not isinstance(value, dict):
        raise unrecognized(resource.kind, _NO_STRUCT.format(_go_kind(value)), body)
    if value is None or not value.get("kind"):
        text = body.decode("utf-8", "replace")
        raise unrecognized(resource.kind, f"Object 'Kind' is missing in '{text}'", body)
    given = value.get("apiVersion") or ""
    if given != resource.api_version:
        raise BadRequest(
            f"the API version in the data ({given}) does not match the expected API version "
            f"({resource.api_version})"
        )
    check_custom_kind(value, resource)
    return value


def check_custom_kind(obj: Object, resource: Resource) -> None:
    """Invalid, under the name that the object gives itself, if it says another kind or version."""
    kind, version = str(obj.get("kind")), str(obj.get("apiVersion"))
    errors = []
    if kind != resource.kind:
        errors.append(invalid("kind", kind, f"must be {resource.kind}"))
    if version != resource.api_version:
        errors.append(invalid("apiVersion", version, f"must be {resource.api_version}"))
    if errors:
        metadata = obj.get("metadata")
        name = metadata.get("name", "") if isinstance(metadata, dict) else ""
        raise Invalid.fields(version.rpartition("/")[0], kind, name, errors)


def _wrong_kind(kind: str, api_version: str, wanted: str, wanted_version: str) -> str:
    if not is_readable_instead(api_version, kind, wanted_version):
        return no_kind(kind, api_version)
    version = api_version.rpartition("/")[2]
    return f"converting ({version}.{kind}) to ({wanted}): unknown conversion"


def no_kind(kind: str, api_version: str) -> str:
    return (
        f"no kind {go_quote(kind)} is registered for version {go_quote(api_version)} "
        'in scheme "pkg/runtime/scheme.go:111"'
    )


_NO_STRUCT = (
    "couldn't get version/kind; json parse error: json: cannot unmarshal {} into Go value of type "
    'struct {{ APIVersion string "json:\\"apiVersion,omitempty\\""; '
    'Kind string "json:\\"kind,omitempty\\"" }}'
)


def _go_kind(value: Any) -> str:
    if isinstance(value, list):
        return "array"
    if isinstance(value, str):
        return "string"
    if isinstance(value, bool):
        return "bool"
    return "number"
