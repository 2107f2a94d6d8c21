"""Expressions, compiled once however many clusters have them."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

from pykcp.admission.expressions.environment import (
    JSON_PATCH,
    OBJECT,
    NameVisibility,
    base_environment,
    variable_type,
    with_policy_variables,
)
from pykcp.admission.expressions.patch_types import misnamed_types
from pykcp.machinery.cel.check.environment import Environment
from pykcp.machinery.cel.check.types import Type
from pykcp.machinery.cel.program import CompileError, Program, ProgramError, compile_expression
from pykcp.machinery.cel.program import output_type as type_of_expression

Named = tuple[tuple[str, str], ...]
"""Names and expressions of variables, in order."""

_KEEP = 4096
_TYPE_NAMES = {
    "null": "null_type",
    "timestamp": "google.protobuf.Timestamp",
    "duration": "google.protobuf.Duration",
}
WANTED: dict[str, tuple[str, ...]] = {
    "matchCondition": ("bool",),
    "validation": ("bool",),
    "messageExpression": ("string",),
    "auditAnnotation": ("string", "null_type"),
    "variable": (),
    "jsonPatch": (f"list({JSON_PATCH})",),
    "applyConfiguration": (OBJECT,),
}
"""What an expression must evaluate to, by its purpose; nothing: whatever."""


@dataclass(frozen=True, slots=True)
class Compiled:
    """An expression with its program, or with what is wrong with it."""

    expression: str
    program: Program | None = None
    error: str = ""
    type: Type | None = None
    misnamed: str = ""
    """Types of patches whose names do not say where they stand; noticed when it is evaluated."""


@dataclass(frozen=True, slots=True)
class DeclaredVariables:
    """The variables of a policy, and the environment in which they can be seen."""

    environment: Environment
    compiled: dict[str, Compiled]


@lru_cache(maxsize=_KEEP)
def compile_variables(variables: Named, visibility: NameVisibility) -> DeclaredVariables:
    """Each sees those before it; one that does not compile is still there, without a type."""
    environment = base_environment(visibility)
    if not variables:
        return DeclaredVariables(with_policy_variables(environment, {}), {})
    before = compile_variables(variables[:-1], visibility)
    name, expression = variables[-1]
    found = compile_in(expression, "variable", before.environment)
    compiled = {**before.compiled, name: found}
    fields = {
        known: variable_type(each.type) if each.type is not None else _dyn()
        for known, each in compiled.items()
    }
    return DeclaredVariables(with_policy_variables(environment, fields), compiled)


def _dyn() -> Type:
    from pykcp.machinery.cel.check.types import DYN

    return DYN


@lru_cache(maxsize=_KEEP)
def compile_admission(
    expression: str, purpose: str, visibility: NameVisibility, variables: Named | None = None
) -> Compiled:
    """`variables` None: there is no such name (webhooks have no variables)."""
    if variables is None:
        environment = base_environment(visibility)
    else:
        environment = compile_variables(variables, visibility).environment
    return compile_in(expression, purpose, environment)


def compile_in(expression: str, purpose: str, environment: Environment) -> Compiled:
    wanted = WANTED[purpose]
    try:
        program = compile_expression(expression, environment)
    except CompileError as error:
        return Compiled(expression, error=f"compilation failed: {error}")
    except ProgramError as error:
        found = type_of_expression(expression, environment)
        problem = _type_problem(found, wanted)
        return Compiled(expression, error=problem or f"program instantiation failed: {error}")
    problem = _type_problem(program.type, wanted)
    if problem:
        return Compiled(expression, error=problem)
    misnamed = ""
    if purpose in ("jsonPatch", "applyConfiguration"):
        misnamed = misnamed_types(expression, environment)
    return Compiled(expression, program, type=program.type, misnamed=misnamed)


def _type_problem(found: Type, wanted: tuple[str, ...]) -> str:
    name = type_name(found)
    if not wanted or name in wanted:
        return ""
    if len(wanted) == 1:
        return f"must evaluate to {wanted[0]} but got {name}"
    return f"must evaluate to one of [{' '.join(wanted)}] but got {name}"


def type_name(found: Type) -> str:
    """A type as the Go library prints it."""
    name = _TYPE_NAMES.get(found.kind, found.name)
    if not found.params or found.kind == "param":
        return name
    return f"{name}({', '.join(type_name(p) for p in found.params)})"
