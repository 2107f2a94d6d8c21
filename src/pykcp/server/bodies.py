"""Request bodies: from bytes in some media type to an object of the expected kind."""

from __future__ import annotations

from typing import Any

import orjson

from pykcp.machinery.patch import gojson
from pykcp.machinery.schema.model import Schema
from pykcp.machinery.status import (
    BadRequest,
    RequestEntityTooLarge,
    UnsupportedMediaType,
    go_quote,
)
from pykcp.registry.resource import Resource
from pykcp.server import negotiation
from pykcp.server.call import Call
from pykcp.types import Object

LIMIT = 3 * 1024 * 1024


def body_of(call: Call) -> bytes:
    request = call.exchange.request
    if request.truncated or len(request.body) > LIMIT:
        raise RequestEntityTooLarge(f"Request entity too large: limit is {LIMIT}", details=False)
    return request.body


def media_type(call: Call) -> str:
    header = call.exchange.request.header("content-type")
    return negotiation.media_type_of(header) if header else negotiation.JSON


def parse(body: bytes, kind: str) -> Any:
    """JSON text as a value; 400 in upstream's words if it is none."""
    try:
        return orjson.loads(body)
    except orjson.JSONDecodeError as error:
        words = gojson.syntax_error(body) or str(error)
        raise unrecognized(kind, f"couldn't get version/kind; json parse error: {words}") from error


def unrecognized(kind: str, why: str) -> BadRequest:
    return BadRequest(f"the object provided is unrecognized (must be of type {kind}): {why}")


def parse_yaml(body: bytes) -> Any:
    """YAML as JSON values; sorting out what YAML knows and JSON does not."""
    import yaml

    try:
        value = yaml.load(body, Loader=_loader(yaml))  # noqa: S506  # a safe loader, with strings for times
    except (yaml.YAMLError, RecursionError, ValueError) as error:
        text = " ".join(str(error).split())
        raise BadRequest(f"error converting YAML to JSON: yaml: {text}") from error
    return _json_value(value)


def _loader(yaml: Any) -> Any:
    """The C loader, in which a timestamp is a string: JSON has no other way to say it."""
    global _LOADER  # noqa: PLW0603  # made once, on the first YAML body
    if _LOADER is None:

        class Loader(yaml.CSafeLoader):  # type: ignore[misc,name-defined]
            pass

        Loader.add_constructor(
            "tag:yaml.org,2002:timestamp", Loader.yaml_constructors["tag:yaml.org,2002:str"]
        )
        _LOADER = Loader
    return _LOADER


_LOADER: Any = None


def _json_value(value: Any) -> Any:
    if isinstance(value, dict):
        return {_json_key(k): _json_value(v) for k, v in value.items()}
    if isinstance(value, list):
        return [_json_value(v) for v in value]
    if isinstance(value, (set, bytes)):
        raise BadRequest("error converting YAML to JSON: yaml: unsupported value")
    return value


def _json_key(key: Any) -> str:
    if isinstance(key, str):
        return key
    if isinstance(key, bool):
        return "true" if key else "false"
    if key is None:
        return "null"
    return str(key)


def parse_as(call: Call, kind: str, schema: Schema | None = None) -> Any:
    """The body as JSON values, whatever form it came in; protobuf needs the schema."""
    form = media_type(call)
    if form == negotiation.JSON:
        return parse(body_of(call), kind)
    if form == negotiation.YAML:
        return parse_yaml(body_of(call))
    if form == negotiation.PROTOBUF and schema is not None:
        return parse_protobuf(body_of(call), schema, kind)
    raise UnsupportedMediaType(negotiation.SERVED if schema else negotiation.SERVED[:2])


def parse_protobuf(body: bytes, schema: Schema, kind: str) -> Object:
    """The object in a protobuf body, as the JSON values it stands for."""
    from pykcp.apis.protobuf import codecs
    from pykcp.machinery.protobuf import ProtobufError, open_envelope

    try:
        api_version, given, raw = open_envelope(body)
        obj = codecs().of(schema).read(raw)
    except ProtobufError as error:
        raise unrecognized(kind, str(error)) from error
    return {"kind": given or kind, "apiVersion": api_version, **obj}


def read_object(call: Call, resource: Resource) -> Object:
    """The body as a decoded object of the resource's kind."""
    value = parse_as(call, resource.kind, native_schema(resource))
    is_json = media_type(call) == negotiation.JSON
    return decode_object(call, resource, value, raw=body_of(call) if is_json else None)


def native_schema(resource: Resource) -> Schema | None:
    """The schema of a kind that has a protobuf form; None for custom ones."""
    return resource.definition.schema(resource.version) if resource.definition.native else None


def decode_object(call: Call, resource: Resource, value: Any, raw: bytes | None = None) -> Object:
    """Check the type, decode, and report unknown fields as the client asked for."""
    obj = check_type(value, resource.kind, resource.api_version)
    problems: list[str] = []
    context = call.context
    if context.field_validation == "Ignore":
        return resource.rules.decode(obj, problems)
    decoded = resource.rules.decode(obj, problems, raw)
    raise_or_warn(call, problems)
    return decoded


def raise_or_warn(call: Call, problems: list[str]) -> None:
    """Duplicate and unknown fields: an error in strict mode, otherwise a warning for each."""
    if not problems:
        return
    context = call.context
    if context.field_validation == "Strict":
        raise BadRequest("strict decoding error: " + ", ".join(problems))
    for problem in problems:
        context.warn(problem)


def check_type(value: Any, kind: str, api_version: str) -> Object:
    """The value is an object of this kind and version, or says nothing else."""
    if not isinstance(value, dict):
        raise unrecognized(
            kind, "couldn't get version/kind; json parse error: json: cannot unmarshal "
            f"{_go_kind(value)} into Go value of type struct {{ APIVersion string \"json:\\\"apiVersion,omitempty\\\"\"; "
            'Kind string "json:\\"kind,omitempty\\"" }',
        )
    given_kind, given_version = value.get("kind"), value.get("apiVersion")
    if (given_kind or kind) != kind or (given_version or api_version) != api_version:
        group, _, version = (given_version or api_version).rpartition("/")
        del group
        raise BadRequest(
            f"{given_kind or kind} in version {go_quote(version)} cannot be handled as a {kind}: "
            f'converting ({given_version or api_version}.{given_kind or kind}) to ({api_version}.{kind}): unknown conversion'
            if given_kind == kind
            else f"the object provided is unrecognized (must be of type {kind}): "
            f'no kind {go_quote(str(given_kind or kind))} is registered for version {go_quote(str(given_version or api_version))}'
        )
    return value


def _go_kind(value: Any) -> str:
    if isinstance(value, list):
        return "array"
    if isinstance(value, str):
        return "string"
    if isinstance(value, bool):
        return "bool"
    return "number"
