"""Work on the schemas of clusters that may take long, as functions of JSON texts; see `computing`."""

from __future__ import annotations

import copy
from dataclasses import dataclass

import orjson

from pykcp.machinery import meta
from pykcp.machinery.cel.rules.schema_rules import SchemaRules
from pykcp.machinery.negotiation.findings import problems
from pykcp.machinery.negotiation.meet import meet
from pykcp.machinery.negotiation.openapi import Unconvertible, models_of
from pykcp.machinery.negotiation.resource import (
    ImportedResource,
    columns_of,
    imported_schema,
    served_subresources,
)
from pykcp.machinery.negotiation.settling import RULES
from pykcp.machinery.schema.openapi_json import from_json
from pykcp.machinery.schema.pruning import compile_pruner
from pykcp.machinery.schema.validation import compile_check
from pykcp.multicluster.importing.negotiation import ImportedType, NegotiationOutcome, negotiate
from pykcp.multicluster.importing.objects import schema_hash
from pykcp.types import Object

_MOST_SCHEMA = 1 << 20
_MOST_FINDINGS = 1000
_MOST_COLUMNS = 50
_KNOWN = {"apiVersion": {"type": "string"}, "kind": {"type": "string"}}

IMPORTED = f"{__name__}:imported"
NEGOTIATED = f"{__name__}:negotiated"
MISFITS = f"{__name__}:misfitting"
HASHED = f"{__name__}:hashed"


def hashed(spec: bytes) -> str:
    """The hash of the spec of an import, or of a negotiated resource."""
    return schema_hash(orjson.loads(spec))


def imported(resource: ImportedResource, crd: bytes | None, document: bytes | None) -> bytes:
    """The definition of a resource of a cluster, as JSON: `schema`, `columns` and `subresources`.

    Raises Unconvertible.
    """
    try:
        models = {} if document is None else models_of(orjson.loads(document))
        found = None if crd is None else orjson.loads(crd)
        schema = imported_schema(resource, found, models)
        columns = columns_of(found, resource.version)[:_MOST_COLUMNS]
        subresources = sorted(served_subresources(resource, found))
    except (KeyError, TypeError, ValueError, AttributeError, RecursionError) as error:
        raise Unconvertible(
            f"the schema of the cluster is malformed: {type(error).__name__}"
        ) from None
    text = orjson.dumps({"schema": schema, "columns": columns, "subresources": subresources})
    if len(text) > _MOST_SCHEMA:
        raise Unconvertible(f"the schema is longer than {_MOST_SCHEMA} bytes")
    return text


@dataclass(frozen=True, slots=True)
class NegotiationQuestion:
    """What `negotiate` is asked."""

    imports: bytes
    """A list of name, spec and strategy."""
    base: bytes | None
    is_fixed: bool
    is_published: bool
    refusal: str = ""

    @property
    def size(self) -> int:
        return len(self.imports) + len(self.base or b"")

    @property
    def has_rules(self) -> bool:
        """Whether expressions have to be compiled, which takes longer than their length says."""
        return RULES.encode() in self.imports


def negotiated(question: NegotiationQuestion) -> tuple[NegotiationOutcome, bytes | None, bool]:
    """The outcome without its spec, the spec, and whether it is narrower than the base."""
    base: Object | None = None if question.base is None else orjson.loads(question.base)
    outcome = negotiate(
        [ImportedType(*one) for one in orjson.loads(question.imports)],
        base,
        is_fixed=question.is_fixed,
        is_published=question.is_published,
        refusal=lambda _: question.refusal,
    )
    is_narrower = False
    if base is not None and outcome.spec is not None:
        met = meet(base["openAPIV3Schema"], outcome.spec["openAPIV3Schema"])
        is_narrower = bool(problems(met.findings, may_narrow=False))
    spec = None if outcome.spec is None else orjson.dumps(outcome.spec)
    findings = {name: found[:_MOST_FINDINGS] for name, found in outcome.findings.items()}
    shown = NegotiationOutcome(None, findings, outcome.incompatible, outcome.refusal)
    return shown, spec, is_narrower


def misfitting(schema: bytes, objects: bytes) -> list[str]:
    """The names of those objects that a schema would reject or cut."""
    node: Object = orjson.loads(schema)
    properties = {**_KNOWN, **(node.get("properties") or {}), "metadata": {"type": "object"}}
    full = from_json({**node, "properties": properties})
    fits, prune, rules = compile_check(full), compile_pruner(full), SchemaRules(full)
    found: list[str] = []
    for obj in orjson.loads(objects):
        content = {**obj, "metadata": {}}
        dropped: list[str] = []
        prune(copy.deepcopy(content), None, dropped)
        if dropped or not fits(content) or rules.validate(obj):
            found.append("/".join(filter(None, (meta.namespace(obj), meta.name(obj)))))
    return found
