"""Objects of a kcp: where they are in its etcd, and in which form. Pure."""

from __future__ import annotations

import re
from typing import Any, NamedTuple

import orjson

from pykcp.machinery.protobuf.wire import MAGIC
from pykcp.machinery.resources import CUSTOM_RESOURCE_DEFINITIONS
from pykcp.server.media import protobuf_form
from pykcp.types import Object

_IDENTITY = re.compile(r"[0-9a-f]{64}")
_LOCAL = "customresources"
_TOP_LEVEL = ("validation", "subresources", "additionalPrinterColumns")
_NAMES = {"validation": "schema"}


class FoundObject(NamedTuple):
    """An object of a kcp."""

    group: str
    resource: str
    identity: str
    """Of the export that the resource is bound from; "" if it is not bound."""
    cluster: str
    namespace: str
    name: str
    is_custom: bool
    """Whether it is defined by a CRD or a schema, rather than built in."""
    obj: Object
    """With apiVersion and kind, in the version that it is stored in."""

    @property
    def version(self) -> str:
        return str(self.obj.get("apiVersion") or "").rpartition("/")[2]

    @property
    def place(self) -> str:
        kind = f"{self.resource}.{self.group}" if self.group else self.resource
        return f"{kind} {'/'.join(filter(None, (self.namespace, self.name)))}"


class StoredPlace(NamedTuple):
    group: str
    resource: str
    identity: str
    cluster: str
    namespace: str
    name: str
    is_custom: bool


def place_of(key: str, prefix: str) -> StoredPlace | None:
    """Where a key of etcd belongs; None if it is not that of an object.

    <prefix>/<group or core>/<resource>[/<identity>|/customresources]/<cluster>/[<namespace>/]<name>
    """
    words = key.removeprefix(prefix.rstrip("/") + "/").split("/")
    if len(words) < 4:
        return None
    group, resource, third, *rest = words
    identity = third if _IDENTITY.fullmatch(third) else ""
    is_custom = bool(identity) or third == _LOCAL
    if is_custom:
        if not rest:
            return None
        third, *rest = rest
    if len(rest) not in (1, 2) or not all((third, *rest)):
        return None
    namespace = rest[0] if len(rest) == 2 else ""
    return StoredPlace(
        "" if group == "core" else group,
        resource,
        identity,
        third,
        namespace,
        rest[-1],
        is_custom,
    )


def object_of(place: StoredPlace, value: bytes) -> FoundObject:
    """Raises ValueError for a value that is neither JSON nor Kubernetes' protobuf."""
    if value.startswith(MAGIC):
        decoded = protobuf_form.decode(value)
        if decoded is None:
            raise ValueError("its kind is not known here")
        obj = decoded
    else:
        try:
            obj = orjson.loads(value)
        except orjson.JSONDecodeError as error:
            raise ValueError(str(error)) from error
    if (place.group, place.resource) == CUSTOM_RESOURCE_DEFINITIONS[0::2]:
        obj = crd_of(obj)
    return FoundObject(*place, obj)


def crd_of(obj: Object) -> Object:
    """A CustomResourceDefinition as v1 has it: kcp stores v1beta1, without what it can leave out."""
    if not str(obj.get("apiVersion")).endswith("/v1beta1"):
        return obj
    spec: dict[str, Any] = dict(obj.get("spec") or {})
    shared = {name: spec.pop(name) for name in _TOP_LEVEL if name in spec}
    shared = {_NAMES.get(name, name): value for name, value in shared.items()}
    first = spec.pop("version", "")
    versions = spec.get("versions") or [{"name": first, "served": True, "storage": True}]
    spec["versions"] = [_version({**shared, **version}) for version in versions]
    conversion = dict(spec.get("conversion") or {"strategy": "None"})
    if conversion.get("strategy") == "Webhook":
        conversion["webhook"] = {
            "clientConfig": conversion.pop("webhookClientConfig", {}),
            "conversionReviewVersions": conversion.pop("conversionReviewVersions", ["v1beta1"]),
        }
    conversion.pop("conversionReviewVersions", None)
    spec["conversion"] = conversion
    if not spec.get("preserveUnknownFields"):
        spec.pop("preserveUnknownFields", None)
    return {**obj, "apiVersion": "apiextensions.k8s.io/v1", "spec": spec}


def _version(version: dict[str, Any]) -> dict[str, Any]:
    columns = version.get("additionalPrinterColumns")
    if columns:
        version["additionalPrinterColumns"] = [
            {("jsonPath" if name == "JSONPath" else name): value for name, value in column.items()}
            for column in columns
        ]
    return version
