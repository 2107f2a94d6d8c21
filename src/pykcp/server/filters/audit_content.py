"""What an audit event says of a request's content: where from, about what, and the bodies.

Bodies are recorded only if the policy asks for them, and then without what is a
credential by itself: the token of a TokenReview, of a TokenRequest, or in a URL.
"""

from __future__ import annotations

import gzip
import ipaddress
import re
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import msgspec
import orjson

from pykcp.machinery.status import StatusError
from pykcp.observe.audit.policy import AuditOutcome
from pykcp.registry.resource import Resource
from pykcp.server.call import Call
from pykcp.server.media import negotiation, protobuf_form, yaml_text
from pykcp.server.media.bodies import Sent, media_type, parse_sent
from pykcp.types import Object
from pykcp.wire.exchange import Header, IncomingRequest

Body = bytes | Sequence[bytes]

VERBS_WITH_OBJECT = frozenset(("create", "update"))
REDACTED = "REDACTED"
_MOST_AGENT = 1024
_HEAVY_YAML, _HEAVY_PROTOBUF = 512 * 1024, 512 * 1024
"""Weights above which bodies are not read: 64 KB of YAML, and all of it with aliases."""
_CLUSTERS = "/clusters/"
_STATUS_HEADS = (b'{"kind":"Status"', b'{\n  "kind": "Status"')
_STATUS_FIELDS = ("metadata", "status", "message", "reason", "details")
_TOKEN_IN_QUERY = re.compile(r"((?:^|&)(?:access_token|token|id_token)=)[^&]*", re.IGNORECASE)


class _Metadata(msgspec.Struct, rename="camel"):
    name: str | None = None
    namespace: str | None = None
    uid: str | None = None
    resource_version: str | None = None


class _Shallow(msgspec.Struct):
    metadata: _Metadata | None = None


_shallow = msgspec.json.Decoder(_Shallow)


# -- where it comes from -------------------------------------------------------------------------


def request_uri(request: IncomingRequest) -> str:
    """Path and query as they were sent, below the logical cluster (which the annotations name)."""
    path = request.path
    if path.startswith(_CLUSTERS):
        end = path.find("/", len(_CLUSTERS))
        path = path[end:] if end >= 0 else "/"
    if not request.query:
        return path
    query = request.query
    if "token=" in query.lower():
        query = _TOKEN_IN_QUERY.sub(rf"\1{REDACTED}", query)
    return f"{path}?{query}"


_MOST_ADDRESSES = 100


def origin(request: IncomingRequest) -> bytes:
    """`"sourceIPs":[…],"userAgent":"…",` without what is not known."""
    forwarded, real = request.header("x-forwarded-for"), request.header("x-real-ip")
    agent = (request.header("user-agent") or "")[: _MOST_AGENT + 1]
    if forwarded or real:
        return _origin_json(_addresses(forwarded or "", real or "", request.peer.address), agent)
    return _direct_origin(request.peer.address, agent)


@lru_cache(maxsize=4096)
def _direct_origin(address: str, agent: str) -> bytes:
    return _origin_json([address] if address else [], agent)


def _origin_json(addresses: list[str], agent: str) -> bytes:
    if len(agent) > _MOST_AGENT:
        agent = agent[:_MOST_AGENT] + "...TRUNCATED"
    out = b""
    if addresses:
        out += b'"sourceIPs":%b,' % orjson.dumps(addresses)
    if agent:
        out += b'"userAgent":%b,' % orjson.dumps(agent)
    return out


def _addresses(forwarded: str, real: str, remote: str) -> list[str]:
    """Where the request came from, the client's word first and the connection's last."""
    parts = forwarded.split(",", _MOST_ADDRESSES)[:_MOST_ADDRESSES]
    found = [ip for part in parts if (ip := _address(part.strip()))]
    if real and (ip := _address(real)) and ip not in found:
        found.append(ip)
    if remote and (not found or found[-1] != remote):
        found.append(remote)
    return found


def _address(text: str) -> str:
    try:
        return str(ipaddress.ip_address(text))
    except ValueError:
        return ""


# -- what it is about ----------------------------------------------------------------------------


def reference(call: Call, *, with_body: bool) -> dict[str, str]:
    """`objectRef`: from the URL, completed by what the body says of itself."""
    info = call.info
    out = {"resource": info.resource}
    if info.namespace:
        out["namespace"] = info.namespace
    if info.name:
        out["name"] = info.name
    if info.group:
        out["apiGroup"] = info.group
    out["apiVersion"] = info.version
    if info.subresource:
        out["subresource"] = info.subresource
    if with_body and info.verb in VERBS_WITH_OBJECT:
        for key, value in _metadata(call).items():
            out.setdefault(key, value)
    return out


def _metadata(call: Call) -> dict[str, str]:
    if media_type(call) == negotiation.JSON:
        try:
            found = _shallow.decode(call.exchange.request.body).metadata
        except (msgspec.MsgspecError, RecursionError):
            return {}  # who decodes it for good says what is wrong with it
        fields = (
            {}
            if found is None
            else {
                "name": found.name,
                "namespace": found.namespace,
                "uid": found.uid,
                "resourceVersion": found.resource_version,
            }
        )
    else:
        parsed = _parsed_body(call)
        metadata = parsed.get("metadata") if isinstance(parsed, dict) else None
        fields = metadata if isinstance(metadata, dict) else {}
    keys = ("name", "namespace", "uid", "resourceVersion")
    return {key: str(fields[key]) for key in keys if fields.get(key)}


# -- bodies --------------------------------------------------------------------------------------


def request_part(call: Call, outcome: AuditOutcome) -> bytes:
    """`"requestObject":…,` if there is one that can be read."""
    body = call.exchange.request.body
    if not body:
        return b""
    if _is_heavy(call):
        omitted = f"a body of {len(body)} octets in {media_type(call)} is not read for the log"
        return b'"requestObject":%b,' % orjson.dumps({"omitted": omitted})
    parsed = _parsed_body(call)
    if call.info.verb != "patch":
        parsed = _named(call, parsed)
    if parsed is None:
        return b""
    _redact(call, parsed)
    if outcome.omit_managed_fields:
        drop_managed_fields(parsed)
    try:
        return b'"requestObject":%b,' % orjson.dumps(parsed)
    except orjson.JSONEncodeError:
        return b""  # nested too deep: it was refused for that


def _named(call: Call, parsed: Any) -> Object | None:
    """An object with its type, which a client need not send; None if it is no object."""
    resource: Resource | None = call.resource
    if not isinstance(parsed, dict) or resource is None:
        return None
    if call.info.verb in VERBS_WITH_OBJECT:
        return {"kind": resource.kind, "apiVersion": resource.api_version, **parsed}
    return {"kind": "DeleteOptions", "apiVersion": "meta.k8s.io/__internal", **parsed}


def _is_heavy(call: Call) -> bool:
    """Whether reading the body here would hold up others; JSON is read much faster."""
    form, body = media_type(call), call.exchange.request.body
    if form == negotiation.PROTOBUF:
        return len(body) > _HEAVY_PROTOBUF
    weight = Sent(body, form).weight
    return weight > len(body) and weight > _HEAVY_YAML


def _parsed_body(call: Call) -> Any:
    request = call.exchange.request
    form = media_type(call)
    if _is_heavy(call):
        return None
    try:
        if form == negotiation.PROTOBUF:
            resource: Resource | None = call.resource
            if resource is None:  # refused before it was looked for
                return None
            return parse_sent(Sent(request.body, form), resource.kind, resource.api_version)
        if form == negotiation.JSON or form.endswith("+json"):
            return orjson.loads(request.body)
        return yaml_text.parse(request.body)
    except (StatusError, orjson.JSONDecodeError, yaml_text.BadYAML):
        return None  # what cannot be read was refused, and the answer says so


def is_status(body: Body) -> bool:
    return isinstance(body, bytes) and body.startswith(_STATUS_HEADS)


def plain_body(headers: Sequence[Header], body: Body) -> bytes:
    whole = body if isinstance(body, bytes) else b"".join(body)
    if ("content-encoding", "gzip") in headers:
        return gzip.decompress(whole)
    return whole


def status_of(code: int, headers: Sequence[Header], body: bytes) -> dict[str, Any]:
    """`responseStatus`: of a Status what it says, otherwise only the code."""
    shown: dict[str, Any] = {"metadata": {}}
    said = orjson.loads(body) if is_status(body) else _protobuf_status(headers, body)
    if said:
        shown = {"metadata": {}} | {key: said[key] for key in _STATUS_FIELDS if key in said}
    shown["code"] = code
    return shown


def _protobuf_status(headers: Sequence[Header], body: bytes) -> Object | None:
    if _form(headers) != negotiation.PROTOBUF:
        return None
    said = protobuf_form.decode(body)
    return said if said is not None and said["kind"] == "Status" else None


def _form(headers: Sequence[Header]) -> str:
    return next((v for k, v in headers if k == "content-type"), "").partition(";")[0]


def response_part(
    call: Call, outcome: AuditOutcome, headers: Sequence[Header], body: bytes
) -> bytes:
    """`"responseObject":…,` if the answer is an object."""
    form = _form(headers)
    if not body or not call.info.is_resource:
        return b""
    if form == negotiation.JSON:
        if not outcome.omit_managed_fields and not _holds_token(call):
            return b'"responseObject":%b,' % body.strip()
        parsed = orjson.loads(body)
    else:
        parsed = _other_form(form, body)
        if parsed is None:
            return b""
    _redact(call, parsed)
    if outcome.omit_managed_fields:
        drop_managed_fields(parsed)
    return b'"responseObject":%b,' % orjson.dumps(parsed)


def _other_form(form: str, body: bytes) -> Any:
    if form == negotiation.YAML:
        return yaml_text.parse(body)
    if form == negotiation.PROTOBUF:
        return protobuf_form.decode(body)
    return None


def _holds_token(call: Call) -> bool:
    info = call.info
    return info.resource == "tokenreviews" or (
        info.resource == "serviceaccounts" and info.subresource == "token"
    )


def _redact(call: Call, obj: Any) -> None:
    """Credentials are never recorded, whatever the policy says."""
    if not _holds_token(call) or not isinstance(obj, dict):
        return
    for part in (obj.get("spec"), obj.get("status")):
        if isinstance(part, dict) and part.get("token"):
            part["token"] = REDACTED


def drop_managed_fields(obj: Any) -> None:
    """Of an object, of the items of a list, of the objects in a table."""
    if not isinstance(obj, dict):
        return
    _drop(obj)
    for item in obj.get("items") or ():
        _drop(item)
    if obj.get("kind") == "Table":
        for row in obj.get("rows") or ():
            _drop(row.get("object"))


def _drop(obj: Object | None) -> None:
    metadata = obj.get("metadata") if isinstance(obj, dict) else None
    if isinstance(metadata, dict):
        metadata.pop("managedFields", None)
