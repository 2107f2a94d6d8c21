"""The common type of several clusters, and which of them can serve it. Pure.

The result is computed from all imports in the order of their names, so the order in which clusters
were registered does not matter. What the workspace serves already is never narrowed by a cluster
that does not ask for it; clusters that cannot serve it are reported incompatible, each by itself.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from pykcp.machinery.negotiation.findings import Findings, SchemaFinding, Severity, problems
from pykcp.machinery.negotiation.meet import ROOT, meet, meet_all
from pykcp.machinery.negotiation.settling import settled
from pykcp.multicluster.importing.objects import (
    UPDATE_NEVER,
    UPDATE_PUBLISHED,
    schema_hash,
)
from pykcp.types import Object

_NAMED = ("scope", "kind", "plural")
Refusal = Callable[[Object], str]
"""Why stored objects do not fit a schema; "" if all do."""


@dataclass(frozen=True, slots=True)
class ImportedType:
    """One import."""

    name: str
    spec: Object
    strategy: str

    @property
    def schema(self) -> Object:
        found: Object = self.spec["openAPIV3Schema"]
        return found


@dataclass(slots=True)
class NegotiationOutcome:
    """The common type; None if no import is left that could have one."""

    spec: Object | None
    findings: dict[str, list[SchemaFinding]] = field(default_factory=dict)
    """Of each import, by its name."""
    incompatible: set[str] = field(default_factory=set)
    refusal: str = ""
    """Why the published type was not narrowed."""


def negotiate(
    imports: Sequence[ImportedType],
    base: Object | None,
    *,
    is_fixed: bool,
    is_published: bool,
    refusal: Refusal = lambda _: "",
) -> NegotiationOutcome:
    """`base`: spec of the negotiated type as it is; `is_fixed`: it was made by hand, and imports are
    only compared with it; `is_published`: the workspace serves it, and objects may be stored.
    """
    ordered = sorted(imports, key=lambda one: one.name)
    if base is not None and is_fixed:
        return _compared(ordered, base)
    if base is not None and is_published:
        return _of_published(ordered, base, refusal)
    return _of_unpublished(ordered, base)


def _compared(imports: Sequence[ImportedType], base: Object) -> NegotiationOutcome:
    """Every import against a type that may not change."""
    outcome = NegotiationOutcome(base)
    seen: dict[str, list[SchemaFinding]] = {}
    for one in imports:
        key = schema_hash(one.spec)
        if key not in seen:
            seen[key] = _differences(base, one.spec)
        _judge(outcome, one, seen[key], may_narrow=False)
    return outcome


def _of_unpublished(imports: Sequence[ImportedType], base: Object | None) -> NegotiationOutcome:
    """The common type of all that agree; those that only compare do not take part."""
    outcome = NegotiationOutcome(None)
    for one in imports:
        if one.strategy == UPDATE_NEVER:
            continue
        if outcome.spec is None:
            _begin(outcome, one)
            continue
        _narrow(outcome, one)
    if outcome.spec is None:
        outcome.spec = _plain(imports[0].spec) if imports else base
    for one in imports:
        if one.strategy == UPDATE_NEVER and outcome.spec is not None:
            _judge(outcome, one, _differences(outcome.spec, one.spec), may_narrow=False)
    return outcome


def _begin(outcome: NegotiationOutcome, one: ImportedType) -> None:
    """The type of the first cluster, if a workspace can serve it."""
    at = Findings(ROOT)
    schema = settled(one.schema, at)
    outcome.findings[one.name] = at.found
    if problems(at.found, may_narrow=True):
        outcome.incompatible.add(one.name)
        return
    outcome.spec = {**_plain(one.spec), "openAPIV3Schema": schema}


def _of_published(
    imports: Sequence[ImportedType], base: Object, refusal: Refusal
) -> NegotiationOutcome:
    outcome = _compared(imports, base)
    for one in imports:
        if one.strategy != UPDATE_PUBLISHED or one.name not in outcome.incompatible:
            continue
        assert outcome.spec is not None
        before = outcome.spec
        outcome.incompatible.discard(one.name)
        if not _narrow(outcome, one):
            continue
        why = refusal(outcome.spec)
        if why:
            outcome.spec, outcome.refusal = before, why
            outcome.incompatible.add(one.name)
            at = Findings("", outcome.findings[one.name])
            at.conflict(why)
    _widen(outcome, imports)
    outcome.spec = _with_columns(outcome, imports)
    return outcome


def _with_columns(outcome: NegotiationOutcome, imports: Sequence[ImportedType]) -> Object:
    """The columns are those of the first cluster that can serve the type: they show, and say nothing
    of what is valid.
    """
    assert outcome.spec is not None
    for one in imports:
        if one.name not in outcome.incompatible and one.spec.get("columnDefinitions"):
            return {**outcome.spec, "columnDefinitions": one.spec["columnDefinitions"]}
    return outcome.spec


def _widen(outcome: NegotiationOutcome, imports: Sequence[ImportedType]) -> None:
    """What all compatible clusters can serve: each accepts what is served now, so this does, too."""
    assert outcome.spec is not None
    distinct: dict[str, ImportedType] = {}
    for one in imports:
        if one.name not in outcome.incompatible:
            distinct.setdefault(schema_hash(one.spec), one)
    if not distinct:
        return
    specs = [one.spec for one in distinct.values()]
    met = meet_all([spec["openAPIV3Schema"] for spec in specs])
    at = Findings(ROOT)
    schema = settled(met.schema, at) if met.is_possible else met.schema
    if not met.is_possible or problems(at.found, may_narrow=True):
        return
    before = meet(outcome.spec["openAPIV3Schema"], schema)
    if not problems(before.findings, may_narrow=False):
        common = set.intersection(*(_subresources(spec) for spec in specs))
        outcome.spec = _with(outcome.spec, schema, common)


def _narrow(outcome: NegotiationOutcome, one: ImportedType) -> bool:
    """Make the common type one that this cluster can serve, too; False if there is none."""
    assert outcome.spec is not None
    at = Findings("spec")
    _check_names(outcome.spec, one.spec, at)
    met = meet(outcome.spec["openAPIV3Schema"], one.schema)
    outcome.findings[one.name] = found = [*at.found, *met.findings]
    schema = met.schema
    if met.is_possible and schema != outcome.spec["openAPIV3Schema"]:  # which is settled
        schema = settled(schema, Findings(ROOT, found))
    if problems(found, may_narrow=True):
        outcome.incompatible.add(one.name)
        return False
    common = _subresources(outcome.spec) & _subresources(one.spec)
    outcome.spec = _with(outcome.spec, schema, common)
    return True


def _judge(
    outcome: NegotiationOutcome,
    one: ImportedType,
    findings: list[SchemaFinding],
    *,
    may_narrow: bool,
) -> None:
    outcome.findings[one.name] = findings
    if problems(findings, may_narrow=may_narrow):
        outcome.incompatible.add(one.name)


def _differences(base: Object, spec: Object) -> list[SchemaFinding]:
    at = Findings("spec")
    _check_names(base, spec, at)
    for name in sorted(_subresources(base) - _subresources(spec)):
        at.below("subResources", name).narrowed("the subresource has been removed")
    return [*at.found, *meet(base["openAPIV3Schema"], spec["openAPIV3Schema"]).findings]


def _check_names(base: Object, spec: Object, at: Findings) -> None:
    for name in _NAMED:
        if base.get(name) != spec.get(name):
            at.at(name).conflict(
                f'{name} has been changed (was "{base.get(name)}", now "{spec.get(name)}")'
            )


def _subresources(spec: Object) -> set[str]:
    return {one["name"] for one in spec.get("subResources") or ()}


def _plain(spec: Object) -> Object:
    """The part of an import's spec that is negotiated."""
    return {
        name: value
        for name, value in spec.items()
        if name not in ("location", "schemaUpdateStrategy", "publish")
    }


def _with(spec: Object, schema: Object, subresources: set[str]) -> Object:
    out = {**spec, "openAPIV3Schema": schema}
    out.pop("subResources", None)
    if subresources:
        out["subResources"] = [{"name": name} for name in sorted(subresources)]
    return out


def summary(findings: Sequence[SchemaFinding], *, limit: int = 10) -> str:
    """The findings that make two types incompatible, as one message."""
    found = [str(one) for one in findings if one.severity is not Severity.WARNING]
    more = f" and {len(found) - limit} more" if len(found) > limit else ""
    return "; ".join(found[:limit]) + more
