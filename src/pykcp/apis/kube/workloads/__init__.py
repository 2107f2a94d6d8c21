"""Kubernetes' kinds for workloads (pods, deployments, services, …) as CustomResourceDefinitions.

The server has no controllers for them: pods are not run. They are for workspaces that describe
workloads, and for tests of programs that use these kinds.

Types of fields come from the tables of protobuf messages; the tables here add what those do not
say: which messages are resources, required fields, lists that are merged by key, and defaults.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path

import orjson

from pykcp.apis.protobuf import message_table
from pykcp.machinery.negotiation.resource import ImportedResource, crd_of
from pykcp.machinery.protobuf.tables import MessageField, parse_message
from pykcp.machinery.schema.crd import KUBERNETES_KIND
from pykcp.types import Object

_FOLDER = Path(__file__).parent
_PRESERVE = "x-kubernetes-preserve-unknown-fields"
_OPEN: Object = {"type": "object", _PRESERVE: True}
_VALUES: dict[str, Object] = {
    "": {"type": "string"},
    "i": {"type": "integer", "format": "int32"},
    "l": {"type": "integer", "format": "int64"},
    "b": {"type": "boolean"},
    "d": {"type": "number", "format": "double"},
    "y": {"type": "string", "format": "byte"},
    "Time": {"type": "string", "format": "date-time", "nullable": True},
    "MicroTime": {"type": "string", "format": "date-time", "nullable": True},
    "Quantity": {
        "x-kubernetes-int-or-string": True,
        "anyOf": [{"type": "integer"}, {"type": "string"}],
    },
    "IntOrString": {
        "x-kubernetes-int-or-string": True,
        "anyOf": [{"type": "integer"}, {"type": "string"}],
    },
    "Raw": {_PRESERVE: True},
}

_VOLUMES = (
    "AWSElasticBlockStore", "AzureDisk", "AzureFile", "CephFS", "Cinder", "FC", "Flex", "Flocker",
    "GCEPersistentDisk", "GitRepo", "Glusterfs", "ISCSI", "PhotonPersistentDisk", "Portworx",
    "Quobyte", "RBD", "ScaleIO", "StorageOS", "VsphereVirtualDisk",
)  # fmt: skip
_UNCHECKED = frozenset(
    ("core/v1.EphemeralContainer", *(f"core/v1.{name}VolumeSource" for name in _VOLUMES))
)
"""Parts that are rarely used: their fields are kept as they are, so that schemas stay small."""


_SELECTABLE: dict[str, tuple[str, ...]] = {
    "nodes.core": ("spec.unschedulable",),
    "pods.core": (
        "spec.nodeName",
        "spec.restartPolicy",
        "spec.schedulerName",
        "spec.serviceAccountName",
        "spec.hostNetwork",
        "status.phase",
        "status.podIP",
        "status.nominatedNodeName",
    ),
    "replicasets.apps": ("status.replicas",),
    "replicationcontrollers.core": ("status.replicas",),
    "services.core": ("spec.clusterIP", "spec.type"),
}
"""Fields that field selectors may name."""


def workload_crds() -> Iterator[Object]:
    """A CRD for every resource; versions of one resource are in one CRD."""
    found: dict[str, Object] = {}
    for resource in _resources():
        made = crd_of(resource, _Writer().kind(resource))
        made["metadata"].setdefault("annotations", {})[KUBERNETES_KIND] = "true"
        selectable = _SELECTABLE.get(resource.name)
        if selectable:
            (version,) = made["spec"]["versions"]
            version["selectableFields"] = [{"jsonPath": f".{path}"} for path in selectable]
        known = found.get(resource.name)
        if known is None:
            found[resource.name] = made
        else:  # the first version is the preferred one, which is stored
            (version,) = made["spec"]["versions"]
            known["spec"]["versions"].append({**version, "storage": False})
    yield from found.values()


def workload_schema(name: str, version: str) -> Object | None:
    """The schema of one of them by the name of its CRD; None if it is none of them."""
    for resource in _resources():
        if (resource.name, resource.version) == (name, version):
            return _Writer().kind(resource)
    return None


@cache
def workload_names() -> frozenset[str]:
    """The names of their CRDs: `deployments.apps`, `pods.core`."""
    return frozenset(resource.name for resource in _resources())


def workload_kinds() -> Iterator[tuple[str, str]]:
    """The version and kind of each of them, and of its list."""
    for resource in _resources():
        api_version = f"{resource.group}/{resource.version}".lstrip("/")
        yield api_version, resource.kind
        yield api_version, f"{resource.kind}List"


EXPORT = "kubernetes"
"""The export of `root` that brings these kinds to a workspace."""
_SCHEMA_PREFIX = "v1360"


def workload_schemas() -> Iterator[Object]:
    """The same as APIResourceSchemas. Another prefix is needed whenever one of them changes."""
    for crd in workload_crds():
        spec = crd["spec"]
        versions = [
            {**version, "schema": version["schema"]["openAPIV3Schema"]}
            for version in spec["versions"]
        ]
        made: Object = {**spec, "versions": versions, "nameValidation": "DNS1123Subdomain"}
        if len(versions) > 1:
            made["conversion"] = {"strategy": "None"}
        metadata = crd["metadata"]
        yield {
            "apiVersion": "apis.kcp.io/v1alpha1",
            "kind": "APIResourceSchema",
            "metadata": {**metadata, "name": f"{_SCHEMA_PREFIX}.{metadata['name']}"},
            "spec": made,
        }


def workload_export() -> Object:
    """The APIExport of all kinds."""
    names = {resource.name: resource for resource in _resources()}
    return {
        "apiVersion": "apis.kcp.io/v1alpha2",
        "kind": "APIExport",
        "metadata": {"name": EXPORT},
        "spec": {
            "resources": [
                {
                    "name": resource.plural,
                    "group": resource.group,
                    "schema": f"{_SCHEMA_PREFIX}.{name}",
                    "storage": {"crd": {}},
                }
                for name, resource in names.items()
            ]
        },
    }


def _resources() -> Iterator[ImportedResource]:
    for line in _lines("resources"):
        api, plural, singular, kind, scope, *words = line.split()
        group, _, version = api.rpartition("/")
        short, categories, subresources = ([] if w == "-" else w.split(",") for w in words)
        yield ImportedResource(
            "" if group == "core" else group,
            version,
            plural,
            singular,
            kind,
            scope == "N",
            tuple(short),
            tuple(categories),
            frozenset(subresources),
        )


def _lines(name: str) -> Iterator[str]:
    text = (_FOLDER / f"{name}.table").read_text(encoding="utf-8")
    return (line for line in text.splitlines() if line and line[0] != "#")


@cache
def _lists() -> dict[str, list[str]]:
    """By field: the type of the list, and its keys."""
    return {field: rest for field, *rest in (line.split() for line in _lines("lists"))}


@cache
def _required() -> dict[str, list[str]]:
    rows = (line.split() for line in _lines("required"))
    return {message: names.split(",") for message, names in rows}


@cache
def _defaults() -> dict[str, bytes]:
    rows = (line.partition(" ") for line in _lines("defaults"))
    return {field: value.encode() for field, _, value in rows}


class _Writer:
    """Writes the schema of one kind; messages are written out where they are used."""

    def kind(self, resource: ImportedResource) -> Object:
        name = f"{resource.group or 'core'}/{resource.version}.{resource.kind}"
        schema = self.message(name, ())
        schema.pop("nullable", None)
        properties = {"apiVersion": {"type": "string"}, "kind": {"type": "string"}}
        schema["properties"] = {
            **schema["properties"],
            **properties,
            "metadata": {"type": "object"},
        }
        return schema

    def message(self, name: str, above: tuple[str, ...]) -> Object:
        """The schema of a message; `above`: the messages that it is written inside of."""
        if name == "meta/v1.ObjectMeta" or name in _UNCHECKED or name in above:
            return {**_OPEN, "nullable": True}
        api, _, word = name.rpartition(".")
        group, _, version = api.rpartition("/")
        line = message_table(group)[f"{version}.{word}"]
        out: Object = {"type": "object", "properties": {}, "nullable": True}
        self._add_fields(line, name, (*above, name), out)
        required = [field for field in _required().get(name, ()) if field in out["properties"]]
        if required:
            out["required"] = required
        return out

    def _add_fields(self, line: str, name: str, above: tuple[str, ...], out: Object) -> None:
        api = name.rpartition(".")[0]
        for field in parse_message(line):
            if field.name == "*":  # a struct whose fields Go embeds
                inner = self.message(reference_to(field.type, api), above)
                out["properties"].update(inner["properties"])
                continue
            schema = self._field(field, f"{name}.{field.name}", api, above)
            default = _defaults().get(f"{name}.{field.name}")
            if default is not None and not _is_in_job_template(name, above):
                schema["default"] = orjson.loads(default)
                schema.pop("nullable", None)
            out["properties"][field.name] = schema

    def _field(self, field: MessageField, path: str, api: str, above: tuple[str, ...]) -> Object:
        value = self._value(field.type, api, above)
        make = _SHAPES[field.shape]
        schema = make(value, path)
        if field.is_pointer:
            schema["nullable"] = True
        return schema

    def _value(self, type_: str, api: str, above: tuple[str, ...]) -> Object:
        known = _VALUES.get(type_)
        return dict(known) if known is not None else self.message(reference_to(type_, api), above)


def _is_in_job_template(name: str, above: tuple[str, ...]) -> bool:
    """A CronJob's template of jobs has no defaults: the jobs that are made of it get them."""
    return name == "batch/v1.JobSpec" and "batch/v1.JobTemplateSpec" in above


def is_plain(type_: str) -> bool:
    """Whether a type of the tables of messages is no message itself."""
    return type_ in _VALUES


def reference_to(type_: str, api: str) -> str:
    """The full name of a message that another one of `api` refers to."""
    return type_ if "/" in type_ else f"{api}.{type_}"


def _list(items: Object, path: str) -> Object:
    kind, *keys = _lists().get(path, [""])
    out: Object = {"type": "array", "nullable": True}  # Go clients send null for no items
    if kind:
        out["x-kubernetes-list-type"] = kind
    items.pop("nullable", None)
    if keys:
        names = keys[0].split(",")
        out["x-kubernetes-list-map-keys"] = names
        known = items.setdefault("properties", {})
        for name in names:
            known.setdefault(name, {"type": "string"}).pop("nullable", None)
        missing = [name for name in names if "default" not in known[name]]
        items["required"] = sorted({*items.get("required", ()), *missing})
    out["items"] = items
    return out


def _map(items: Object, _path: str) -> Object:
    items.pop("nullable", None)
    return {"type": "object", "additionalProperties": items, "nullable": True}


_SHAPES: dict[str, Callable[[Object, str], Object]] = {
    "": lambda value, _path: value,
    "[]": _list,
    "<>": _list,
    "{}": _map,
    "{}<>": lambda value, path: _map(_list(value, path), path),
}
