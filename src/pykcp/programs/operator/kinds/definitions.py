"""The kinds as CustomResourceDefinitions, and objects read without an API server."""

from __future__ import annotations

from functools import cache

from pykcp.apis.kube.validation.objectmeta import name_is_subdomain, validate_object_meta
from pykcp.apis.loader import shared_type
from pykcp.machinery.cel.rules.schema_rules import SchemaRules
from pykcp.machinery.schema.custom import CustomType, body_schema, rules_blocked
from pykcp.machinery.schema.decode import DecodeError
from pykcp.machinery.schema.openapi_json import from_json
from pykcp.machinery.status import BadRequest, Invalid
from pykcp.programs.operator.kinds.schemas import SCHEMAS, KindSchema
from pykcp.programs.operator.names import API_VERSION, GROUP, VERSION
from pykcp.types import Object


def definitions() -> list[Object]:
    """The CustomResourceDefinition of each kind."""
    return [_definition(kind, schema) for kind, schema in SCHEMAS.items()]


def definitions_text() -> str:
    """The same as YAML."""
    import yaml

    class Plain(yaml.SafeDumper):
        """Writes equal parts out in full: readers of CRDs do not expect references."""

        def ignore_aliases(self, data: object) -> bool:
            return True

    return "---\n" + yaml.dump_all(definitions(), Dumper=Plain, sort_keys=False, allow_unicode=True)


def _definition(kind: str, schema: KindSchema) -> Object:
    columns = [
        {"name": name, "type": shape, "jsonPath": path} for name, shape, path in schema.columns
    ]
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{schema.plural}.{GROUP}"},
        "spec": {
            "group": GROUP,
            "scope": "Namespaced",
            "names": {
                "kind": kind,
                "listKind": f"{kind}List",
                "plural": schema.plural,
                "singular": kind.lower(),
                "categories": ["kcp"],
            },
            "versions": [
                {
                    "name": VERSION,
                    "served": True,
                    "storage": True,
                    "schema": {"openAPIV3Schema": _whole(kind)},
                    "subresources": {"status": {}},
                    "additionalPrinterColumns": columns,
                }
            ],
        },
    }


def _whole(kind: str) -> Object:
    schema = SCHEMAS[kind]
    made: Object = {
        "type": "object",
        "required": ["spec"],
        "properties": {
            "apiVersion": {"type": "string"},
            "kind": {"type": "string"},
            "metadata": {"type": "object"},
            "spec": schema.spec,
            "status": {"type": "object", "properties": schema.status},
        },
    }
    if schema.rules:
        made["x-kubernetes-validations"] = list(schema.rules)
    return made


@cache
def _type(kind: str) -> CustomType:
    meta = shared_type("io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta")
    return CustomType(body_schema(from_json(_whole(kind))), meta)


@cache
def _rules(kind: str) -> SchemaRules:
    return SchemaRules(_type(kind).schema)


def is_manifest(obj: Object) -> bool:
    """Whether it is an object of one of the kinds."""
    return obj.get("apiVersion") == API_VERSION and obj.get("kind") in SCHEMAS


def read_manifest(obj: Object, namespace: str = "default") -> Object:
    """The object with defaults, as an API server would store it.

    Raises Invalid with the path of each field that is wrong, and BadRequest for what is not an
    object of these kinds.
    """
    kind = str(obj.get("kind") or "")
    if not is_manifest(obj):
        version = obj.get("apiVersion")
        raise BadRequest(f'no matches for kind "{kind}" in version "{version}"')
    made: Object = {**obj, "metadata": {"namespace": namespace, **(obj.get("metadata") or {})}}
    problems: list[str] = []
    try:
        made = _type(kind).decode(_copy(made), problems)
    except DecodeError as error:
        raise BadRequest(f'{kind} in version "{VERSION}" cannot be handled as a {kind}: {error}') from error  # fmt: skip
    name = str(made["metadata"].get("name") or "")
    if problems:
        raise BadRequest(f'{kind} "{name}": strict decoding error: {", ".join(problems)}')
    errors = validate_object_meta(made["metadata"], namespaced=True, name_rule=name_is_subdomain)
    errors += _type(kind).errors(made)
    blocked = rules_blocked(errors)
    errors += [blocked] if blocked else _rules(kind).validate(made)
    if errors:
        raise Invalid.fields(GROUP, kind, name, errors)
    return made


def defaulted(obj: Object) -> Object:
    """An object of an API server, with what its schema there may not default."""
    return _type(str(obj["kind"])).read(_copy(obj))


def _copy(value: Object) -> Object:
    import copy

    return copy.deepcopy(value)
