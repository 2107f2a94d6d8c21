"""What expressions of webhooks and policies may refer to.

`object`, `oldObject` and `params` have no type here: an expression serves many kinds. The
request and the namespace have one, for checking only; their values are plain JSON, as
upstream's are (a time in `namespaceObject` is a string when it is looked at).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

from pykcp.machinery.cel.check import types
from pykcp.machinery.cel.check.environment import KUBERNETES, Environment, Overload, Variable
from pykcp.machinery.cel.check.types import DYN, STRING, Type
from pykcp.machinery.cel.library import IMPLEMENTATIONS

VARIABLES_TYPE = "kubernetes.variables"
OBJECT = "Object"
JSON_PATCH = "JSONPatch"
_ESCAPE_KEY = "string_jsonpatch_escapeKey_string"

Fields = Mapping[str, Type]


@dataclass(frozen=True, slots=True)
class NameVisibility:
    """Which optional names an expression sees."""

    params: bool = False
    authorizer: bool = True
    patch_types: bool = False


def _struct(name: str, /, **fields: Type) -> tuple[str, Fields]:
    return f"kubernetes.{name}", fields


_TEXTS = types.list_of(STRING)
_TEXT_MAP = types.map_of(STRING, STRING)
_KIND = types.struct("kubernetes.GroupVersionKind")
_RESOURCE = types.struct("kubernetes.GroupVersionResource")
_TIME = types.TIMESTAMP

_STRUCTS: dict[str, Fields] = dict(
    (
        _struct("GroupVersionKind", group=STRING, version=STRING, kind=STRING),
        _struct("GroupVersionResource", group=STRING, version=STRING, resource=STRING),
        _struct(
            "UserInfo",
            username=STRING,
            uid=STRING,
            groups=_TEXTS,
            extra=types.map_of(STRING, _TEXTS),
        ),
        _struct(
            "AdmissionRequest",
            kind=_KIND,
            resource=_RESOURCE,
            subResource=STRING,
            requestKind=_KIND,
            requestResource=_RESOURCE,
            requestSubResource=STRING,
            name=STRING,
            namespace=STRING,
            operation=STRING,
            userInfo=types.struct("kubernetes.UserInfo"),
            dryRun=types.BOOL,
            options=DYN,
        ),
        _struct("NamespaceSpec", finalizers=_TEXTS),
        _struct(
            "NamespaceCondition",
            status=STRING,
            type=STRING,
            lastTransitionTime=_TIME,
            message=STRING,
            reason=STRING,
        ),
        _struct(
            "NamespaceStatus",
            conditions=types.list_of(types.struct("kubernetes.NamespaceCondition")),
            phase=STRING,
        ),
        _struct(
            "NamespaceMetadata",
            name=STRING,
            generateName=STRING,
            namespace=STRING,
            labels=_TEXT_MAP,
            annotations=_TEXT_MAP,
            UID=STRING,
            creationTimestamp=_TIME,
            deletionGracePeriodSeconds=types.INT,
            deletionTimestamp=_TIME,
            generation=types.INT,
            resourceVersion=STRING,
            finalizers=_TEXTS,
        ),
        _struct(
            "Namespace",
            metadata=types.struct("kubernetes.NamespaceMetadata"),
            spec=types.struct("kubernetes.NamespaceSpec"),
            status=types.struct("kubernetes.NamespaceStatus"),
        ),
    )
)


class _AnyField(Mapping[str, Type]):
    """The fields of a type that has every field."""

    def __getitem__(self, name: str) -> Type:
        return DYN

    def __iter__(self) -> Iterator[str]:
        return iter(())

    def __len__(self) -> int:
        return 0


_PATCH_FIELDS: Fields = {"op": STRING, "path": STRING, "from": STRING, "value": DYN}
_ANY_FIELD = _AnyField()


def _is_object_type(name: object) -> bool:
    return isinstance(name, str) and (name == OBJECT or name.startswith(OBJECT + "."))


class _PatchStructs(dict[str, Any]):
    """Known types, and `Object.<any>.<path>`."""

    def __missing__(self, name: str) -> Any:
        if _is_object_type(name):
            return _ANY_FIELD
        raise KeyError(name)

    def get(self, name: str, default: Any = None) -> Any:
        try:
            return self[name]
        except KeyError:
            return default

    def __contains__(self, name: object) -> bool:
        return super().__contains__(name) or _is_object_type(name)


class _PatchTypes(Mapping[str, Type]):
    """The names under which the types of patches can be written."""

    def __getitem__(self, name: str) -> Type:
        if name == JSON_PATCH or _is_object_type(name):
            return types.struct(name)
        raise KeyError(name)

    def __iter__(self) -> Iterator[str]:
        return iter((OBJECT, JSON_PATCH))

    def __len__(self) -> int:
        return 2


def _escape_key(key: str) -> str:
    return key.replace("~", "~0").replace("/", "~1")


IMPLEMENTATIONS.setdefault(_ESCAPE_KEY, _escape_key)
_PATCH_FUNCTIONS = {
    "jsonpatch.escapeKey": (Overload(_ESCAPE_KEY, False, (STRING,), STRING, ()),),
}


@lru_cache(maxsize=8)
def base_environment(visibility: NameVisibility) -> Environment:
    """The environment without policy variables."""
    variables = {
        "object": Variable(DYN),
        "oldObject": Variable(DYN),
        "request": Variable(types.struct("kubernetes.AdmissionRequest")),
        "namespaceObject": Variable(types.struct("kubernetes.Namespace")),
    }
    if visibility.params:
        variables["params"] = Variable(DYN)
    if visibility.authorizer:
        authorization = "kubernetes.authorization."
        variables["authorizer"] = Variable(types.struct(authorization + "Authorizer"))
        variables["authorizer.requestResource"] = Variable(
            types.struct(authorization + "ResourceCheck")
        )
    environment = replace(
        KUBERNETES, variables=variables, structs={**KUBERNETES.structs, **_STRUCTS}
    )
    if not visibility.patch_types:
        return environment
    return replace(
        environment,
        functions={**environment.functions, **_PATCH_FUNCTIONS},
        structs=_PatchStructs({**environment.structs, JSON_PATCH: _PATCH_FIELDS}),
        struct_types=_PatchTypes(),
    )


def with_policy_variables(environment: Environment, fields: Fields) -> Environment:
    """The same where `variables` has these fields."""
    structs: Any = {**environment.structs, VARIABLES_TYPE: dict(fields)}
    if isinstance(environment.structs, _PatchStructs):
        structs = _PatchStructs(structs)
    variables = {
        **environment.variables,
        "variables": Variable(types.struct(VARIABLES_TYPE)),
    }
    return replace(environment, variables=variables, structs=structs)


def variable_type(found: Type) -> Type:
    """The type that a variable has for others: what is neither scalar, list nor map is dyn."""
    if found.kind in ("list", "map"):
        return Type(found.kind, found.name, tuple(variable_type(p) for p in found.params))
    return found if found.kind in types.SCALARS else DYN
