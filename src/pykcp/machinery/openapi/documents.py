"""The OpenAPI documents and the operations in each.

There is one for every group version, and small ones for the discovery paths.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pykcp.machinery.openapi.components import Types
from pykcp.machinery.openapi.operations import (
    META,
    NATIVE_TYPES,
    Operation,
    base_path,
    camel,
    operation_infix,
    resource_operations,
    tag_of,
)
from pykcp.machinery.schema.definition import ResourceDefinition

Definitions = Sequence[ResourceDefinition]

TITLE, VERSION = "Kubernetes", "1.36"
CUSTOM_TITLE, CUSTOM_VERSION = "Kubernetes CRD Swagger", "v0.1.0"

_OPENID = ".well-known/openid-configuration"
_KEYS = "openid/v1/jwks"


@dataclass(frozen=True, slots=True)
class Contents:
    """What goes into one document, whatever its format."""

    operations: tuple[Operation, ...]
    types: Types
    custom: bool = False
    """Only custom resources, which upstream titles differently."""


def names(definitions: Definitions, *, is_view: bool = False) -> list[str]:
    """The documents' names, as they stand in URLs.

    A view of a virtual workspace issues no tokens, and all of its groups are alike.
    """
    out = {"api", "apis", "version"} if is_view else {_OPENID, _KEYS, "api", "apis", "version"}
    for definition in definitions:
        if (definition.native or is_view) and definition.group:
            out.add(f"apis/{definition.group}")
        for version in definition.versions:
            out.add(base_path(definition.group, version)[1:])
    return sorted(out)


def contents(definitions: Definitions, name: str, *, is_view: bool = False) -> Contents:
    """What is in the document of this name; KeyError if there is none."""
    types = Types(definitions)
    single = _single_operation(name)
    if single is not None:
        return Contents((single,), types)
    group, version = _group_version(name)
    if not version:
        if not any((d.native or is_view) and d.group == group for d in definitions):
            raise KeyError(name)
        return Contents((_group_operation(group),), types)
    chosen = [d for d in definitions if d.group == group and version in d.versions]
    if not chosen:
        raise KeyError(name)
    return _group_version_contents(chosen, types, group, version)


def everything(definitions: Definitions) -> Contents:
    """All operations in one document, as OpenAPI v2 has them."""
    types = Types(definitions)
    operations: list[Operation] = []
    for name in names(definitions):
        part = contents(definitions, name)
        operations += part.operations
    for definition in definitions:
        for version in definition.versions:
            types.add(definition, version)
    return Contents(tuple(operations), types)


def _group_version(name: str) -> tuple[str, str]:
    parts = name.split("/")
    if parts[0] == "api" and len(parts) == 2:
        return "", parts[1]
    if parts[0] == "apis" and len(parts) in {2, 3}:
        return parts[1], parts[2] if len(parts) == 3 else ""
    raise KeyError(name)


def _group_version_contents(
    chosen: Definitions, types: Types, group: str, version: str
) -> Contents:
    operations: list[Operation] = []
    custom = not any(d.native for d in chosen)
    if not custom:
        operations.append(
            Operation(
                path=f"{base_path(group, version)}/",
                method="get",
                id=f"get{operation_infix(group, version)}APIResources",
                description="List the resources of this group and version.",
                responses={200: f"{META}.APIResourceList"},
                tags=(tag_of(group, version),),
                consumes=NATIVE_TYPES,
                produces=NATIVE_TYPES,
            )
        )
    for definition in chosen:
        types.add(definition, version)
        operations += resource_operations(definition, version)
    return Contents(tuple(operations), types, custom)


def _group_operation(group: str) -> Operation:
    name = camel(group.removesuffix(".k8s.io"), first=True)
    return Operation(
        path=f"/apis/{group}/",
        method="get",
        id=f"get{name}APIGroup",
        description="List the versions of the group.",
        responses={200: f"{META}.APIGroup"},
        tags=(tag_of(group),),
        consumes=NATIVE_TYPES,
        produces=NATIVE_TYPES,
    )


def _single_operation(name: str) -> Operation | None:
    """The documents with one path each."""
    json = ("application/json",)
    if name == "api":
        return _plain("api", "getCoreAPIVersions", "core", f"{META}.APIVersions")
    if name == "apis":
        return _plain("apis", "getAPIVersions", "apis", f"{META}.APIGroupList")
    if name == "version":
        info = "io.k8s.apimachinery.pkg.version.Info"
        return _plain("version", "getCodeVersion", "version", info, json)
    if name == _OPENID:
        operation = "getServiceAccountIssuerOpenIDConfiguration"
        return _plain(name, operation, "WellKnown", "", json)
    if name == _KEYS:
        keys = ("application/jwk-set+json",)
        return _plain(name, "getServiceAccountIssuerOpenIDKeyset", "openid", "", keys)
    return None


_PLAIN_TEXTS = {
    "api": "List the versions of the core group.",
    "apis": "List the API groups.",
    "version": "Get the version of the server.",
    _OPENID: "OpenID configuration of the service account issuer.",
    _KEYS: "Keys that verify service account tokens.",
}


def _plain(
    name: str,
    operation: str,
    tag: str,
    component: str,
    produces: tuple[str, ...] = NATIVE_TYPES,
) -> Operation:
    return Operation(
        path=f"/{name}/",
        method="get",
        id=operation,
        description=_PLAIN_TEXTS[name],
        responses={200: component},
        tags=(tag,),
        consumes=produces,
        produces=produces,
    )
