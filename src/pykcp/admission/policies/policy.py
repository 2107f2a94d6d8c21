"""Policies and bindings as their objects describe them, compiled."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from pykcp.admission.expressions.compiling import (
    Compiled,
    Named,
    compile_admission,
    compile_variables,
)
from pykcp.admission.expressions.environment import NameVisibility
from pykcp.admission.matching import Criteria, parse_criteria, parse_criteria_in_steps
from pykcp.steps import Steps
from pykcp.types import Object


@dataclass(frozen=True, slots=True)
class ParamKind:
    api_version: str
    kind: str

    @property
    def text(self) -> str:
        """As Go prints a kind."""
        group, _, version = self.api_version.rpartition("/")
        return f"{group}/{version}, Kind={self.kind}"


@dataclass(frozen=True, slots=True)
class Validation:
    expression: Compiled
    message_expression: Compiled | None
    message: str
    reason: str


@dataclass(frozen=True, slots=True)
class Mutation:
    patch_type: str
    expression: Compiled


@dataclass(frozen=True, slots=True)
class AdmissionPolicy:
    """What validating and mutating policies have in common, and what either has of its own."""

    name: str
    criteria: Criteria
    fails_open: bool
    param_kind: ParamKind | None
    variables: Mapping[str, Compiled]
    conditions: tuple[Compiled, ...]
    validations: tuple[Validation, ...] = ()
    annotations: tuple[tuple[str, Compiled], ...] = ()
    mutations: tuple[Mutation, ...] = ()
    reinvoked: bool = False
    source: bytes = b""
    """The JSON that it was parsed from, for worker processes."""
    is_large: bool = False
    """Its expressions are compiled by worker processes only."""


@dataclass(frozen=True, slots=True)
class Binding:
    name: str
    policy: str
    criteria: Criteria | None
    actions: tuple[str, ...]
    param_ref: Object | None


@dataclass(frozen=True, slots=True)
class BoundPolicy:
    policy: AdmissionPolicy
    bindings: tuple[Binding, ...]
    cluster: str
    """The logical cluster that the policy is in, and its parameters."""


LARGE = 8 * 1024
"""Octets of a policy that takes more than a few milliseconds to compile."""


def head_of(obj: Object, source: bytes) -> Steps[AdmissionPolicy]:
    """A large policy without its expressions: what it is about, and how many changes it makes."""
    spec = obj["spec"]
    nothing = Compiled("")
    criteria = yield from parse_criteria_in_steps(spec.get("matchConstraints") or {})
    return AdmissionPolicy(
        **_head(obj, criteria),  # type: ignore[arg-type]
        variables={},
        conditions=(),
        mutations=tuple(
            Mutation(mutation["patchType"], nothing) for mutation in spec.get("mutations") or ()
        ),
        reinvoked=spec.get("reinvocationPolicy") == "IfNeeded",
        source=source,
        is_large=True,
    )


def parse_validating(obj: Object) -> AdmissionPolicy:
    spec = obj["spec"]
    visibility, named = _seen(spec)
    silent = NameVisibility(params=visibility.params, authorizer=False)

    def compiled(expression: str, purpose: str) -> Compiled:
        return compile_admission(expression, purpose, visibility, named)

    def message(validation: Object) -> Compiled | None:
        text = validation.get("messageExpression")
        return compile_admission(text, "messageExpression", silent, named) if text else None

    return AdmissionPolicy(
        **_common(obj, visibility, named),  # type: ignore[arg-type]
        validations=tuple(
            Validation(
                compiled(validation["expression"], "validation"),
                message(validation),
                validation.get("message") or "",
                validation.get("reason") or "Invalid",
            )
            for validation in spec.get("validations") or ()
        ),
        annotations=tuple(
            (annotation["key"], compiled(annotation["valueExpression"], "auditAnnotation"))
            for annotation in spec.get("auditAnnotations") or ()
        ),
    )


def parse_mutating(obj: Object) -> AdmissionPolicy:
    spec = obj["spec"]
    visibility, named = _seen(spec)
    patching = NameVisibility(params=visibility.params, patch_types=True)
    mutations = []
    for mutation in spec.get("mutations") or ():
        kind = mutation["patchType"]
        field = "jsonPatch" if kind == "JSONPatch" else "applyConfiguration"
        expression = (mutation.get(field) or {}).get("expression") or ""
        mutations.append(Mutation(kind, compile_admission(expression, field, patching, named)))
    return AdmissionPolicy(
        **_common(obj, visibility, named),  # type: ignore[arg-type]
        mutations=tuple(mutations),
        reinvoked=spec.get("reinvocationPolicy") == "IfNeeded",
    )


def _seen(spec: Object) -> tuple[NameVisibility, Named]:
    variables = tuple((v["name"], v["expression"]) for v in spec.get("variables") or ())
    return NameVisibility(params=spec.get("paramKind") is not None), variables


def _head(obj: Object, criteria: Criteria) -> dict[str, object]:
    spec = obj["spec"]
    kind = spec.get("paramKind")
    return {
        "name": obj["metadata"]["name"],
        "criteria": criteria,
        "fails_open": spec.get("failurePolicy") == "Ignore",
        "param_kind": ParamKind(kind["apiVersion"], kind["kind"]) if kind else None,
    }


def _common(obj: Object, visibility: NameVisibility, named: Named) -> dict[str, object]:
    spec = obj["spec"]
    return {
        **_head(obj, parse_criteria(spec.get("matchConstraints") or {})),
        "variables": compile_variables(named, visibility).compiled,
        "conditions": tuple(
            compile_admission(condition["expression"], "matchCondition", visibility, named)
            for condition in spec.get("matchConditions") or ()
        ),
    }


def parse_binding(obj: Object) -> Steps[Binding]:
    spec = obj["spec"]
    match, criteria = spec.get("matchResources"), None
    if match is not None:
        criteria = yield from parse_criteria_in_steps(match)
    return Binding(
        obj["metadata"]["name"],
        spec["policyName"],
        criteria,
        tuple(spec.get("validationActions") or ()),
        spec.get("paramRef"),
    )
