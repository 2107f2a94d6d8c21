"""Type checking of validating policies: warnings for their status. Pure.

At evaluation `object` has no type, so that a policy can serve many kinds. Here each
expression is compiled once for every kind that the policy's rules name without wildcards,
and whatever the compiler says becomes a warning: it refuses nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import NamedTuple

from pykcp.admission.expressions.environment import (
    NameVisibility,
    base_environment,
    variable_type,
    with_policy_variables,
)
from pykcp.machinery.cel.check.declared import declare, name_types
from pykcp.machinery.cel.check.environment import Environment, Variable
from pykcp.machinery.cel.check.types import DYN, Type
from pykcp.machinery.cel.program import CompileError, output_type
from pykcp.machinery.schema.model import Schema
from pykcp.steps import Steps
from pykcp.types import Object

MOST_TYPES = 10
"""Of one rule; further ones are not checked."""


class CheckedKind(NamedTuple):
    group: str
    version: str
    kind: str

    @property
    def text(self) -> str:
        return f"{self.group}/{self.version}, Kind={self.kind}"


FindKind = Callable[[str, str, str], CheckedKind | None]
"""The kind of a group, version and resource, if it is served."""
FindSchema = Callable[[CheckedKind], Schema | None]


def status_of(policy: Object, find_kind: FindKind, find_schema: FindSchema) -> Steps[Object]:
    """The status that a policy should have."""
    checking: Object = {}
    warnings = yield from type_warnings(policy, find_kind, find_schema)
    if warnings:
        checking["expressionWarnings"] = warnings
    generation = policy["metadata"].get("generation") or 0
    return {"observedGeneration": generation, "typeChecking": checking}


def type_warnings(
    policy: Object, find_kind: FindKind, find_schema: FindSchema
) -> Steps[list[Object]]:
    spec = policy["spec"]
    environments = list(_environments(spec, find_kind, find_schema))
    warnings: list[Object] = []
    for index, validation in enumerate(spec.get("validations") or ()):
        for field in ("expression", "messageExpression"):
            expression = validation.get(field)
            if not expression:
                continue
            found = _complaints(expression, environments)
            yield
            if found:
                path = f"spec.validations[{index}].{field}"
                warnings.append({"fieldRef": path, "warning": "\n".join(found)})
    return warnings


def _complaints(
    expression: str, environments: Iterable[tuple[CheckedKind, Environment]]
) -> list[str]:
    found = []
    for kind, environment in environments:
        try:
            output_type(expression, environment)
        except CompileError as error:
            found.append(f"{kind.text}: {error}\n")
    return found


def _environments(
    spec: Object, find_kind: FindKind, find_schema: FindSchema
) -> Iterable[tuple[CheckedKind, Environment]]:
    params = _param_kind(spec)
    param_variable = Variable(DYN)
    if params is not None:
        param_variable = _typed(params, find_schema(params)) or param_variable
    for kind in kinds_to_check(spec, find_kind):
        schema = find_schema(kind)
        if schema is None:
            continue
        base = base_environment(NameVisibility(params=params is not None))
        variables = dict(base.variables)
        variables.pop("authorizer.requestResource", None)
        variables["object"] = variables["oldObject"] = _typed(kind, schema) or Variable(DYN)
        if params is not None:
            variables["params"] = param_variable
        environment = replace(base, variables={}).with_variables(variables)
        yield kind, _with_variables(spec, environment)


def _typed(kind: CheckedKind, schema: Schema | None) -> Variable | None:
    declared = declare(schema, root=True) if schema is not None else None
    if declared is None:
        return None
    name_types(declared, kind.kind)
    return Variable(declared.type, declared)


def _with_variables(spec: Object, environment: Environment) -> Environment:
    fields: dict[str, Type] = {}
    for variable in spec.get("variables") or ():
        try:
            found = output_type(variable["expression"], with_policy_variables(environment, fields))
        except CompileError:
            fields[variable["name"]] = DYN
        else:
            fields[variable["name"]] = variable_type(found)
    return with_policy_variables(environment, fields)


def _param_kind(spec: Object) -> CheckedKind | None:
    kind = spec.get("paramKind")
    if not kind:
        return None
    group, _, version = kind["apiVersion"].rpartition("/")
    return CheckedKind(group, version, kind["kind"])


def kinds_to_check(spec: Object, find_kind: FindKind) -> list[CheckedKind]:
    """The kinds that a policy's rules name; rules with wildcards name none."""
    found: set[CheckedKind] = set()
    for rule in (spec.get("matchConstraints") or {}).get("resourceRules") or ():
        count = 0
        for group, version, resource in _named(rule):
            kind = find_kind(group, version, resource)
            if kind is None:
                continue
            found.add(kind)
            count += 1
            if count == MOST_TYPES:
                return sorted(found)
    return sorted(found)


def _named(rule: Object) -> Iterable[tuple[str, str, str]]:
    groups, versions = rule.get("apiGroups") or (), rule.get("apiVersions") or ()
    if any("*" in text for text in (*groups, *versions)):
        return
    resources = [r for r in rule.get("resources") or () if "*" not in r and "/" not in r]
    for group in sorted(groups):
        for version in sorted(versions):
            for resource in sorted(resources):
                yield group, version, resource
