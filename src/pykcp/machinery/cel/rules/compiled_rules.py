"""The rules of one schema node, compiled."""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import Any

from pykcp.machinery.cel.check import types
from pykcp.machinery.cel.check.constants import ProgramError
from pykcp.machinery.cel.check.declared import MAX_REQUEST, Declared, declare, name_types
from pykcp.machinery.cel.check.environment import KUBERNETES, Environment, Variable
from pykcp.machinery.cel.front.source import CompileError
from pykcp.machinery.cel.program import Program, compile_expression
from pykcp.machinery.cel.rules.field_paths import FieldPathError, normalize
from pykcp.machinery.cel.runtime.boxing import boxer
from pykcp.machinery.schema.model import Schema

_numbers = itertools.count(1)
_PARAMETERS = ("self", "oldSelf")


@dataclass(slots=True)
class CompiledRule:
    """One of x-kubernetes-validations. `error` and `message_error` say why it is refused."""

    rule: dict[str, Any]
    program: Program | None = None
    error: str = ""
    message: Program | None = None
    message_error: str = ""
    uses_old: bool = False
    optional_old: bool = False
    max_cost: int = 0
    message_cost: int = 0
    field_path: str = ""

    @property
    def label(self) -> str:
        """The rule as errors name it."""
        text: str = self.rule.get("message") or self.rule.get("rule") or ""
        return text.strip()

    @property
    def default_message(self) -> str:
        message: str = self.rule.get("message") or ""
        return message.strip() if message else f"failed rule: {self.label}"


@dataclass(slots=True)
class NodeRules:
    """All rules of a node, and how to show them an old value that may be absent."""

    rules: list[CompiledRule]
    declared: Declared
    max_cardinality: int
    """How often such a value fits into a request, when nothing else bounds it."""
    uses_old: bool

    def box_old(self, old: Any) -> Any:
        return boxer(self.declared)(old)


def compile_node(
    rules: tuple[dict[str, Any], ...], schema: Schema, *, root: bool
) -> NodeRules | None:
    """Compiles `rules` for values of `schema`; None when CEL cannot see such values."""
    declared = declare(schema, root)
    if declared is None:
        return None
    name_types(declared, f"selfType{next(_numbers)}")
    plain = KUBERNETES.with_variables(
        {name: Variable(declared.type, declared) for name in _PARAMETERS}
    )
    optional = KUBERNETES.with_variables(
        {
            "self": Variable(declared.type, declared),
            "oldSelf": Variable(types.optional_of(declared.type)),
        }
    )
    compiled = [
        _compile_rule(r, schema, declared, optional if r.get("optionalOldSelf") else plain)
        for r in rules
    ]
    return NodeRules(
        compiled,
        declared,
        MAX_REQUEST // (declared.min_size + 1),
        any(r.uses_old for r in compiled),
    )


def _compile_rule(
    rule: dict[str, Any], schema: Schema, declared: Declared, env: Environment
) -> CompiledRule:
    out = CompiledRule(rule, optional_old=bool(rule.get("optionalOldSelf")))
    text = rule.get("rule") or ""
    if not text.strip():
        return out
    program, out.error = _compile(text, env, "bool", "")
    if program is None:
        return out
    out.uses_old = "oldSelf" in program.variables
    out.max_cost = program.estimate(declared).most
    out.program = program
    message = rule.get("messageExpression") or ""
    if message:
        out.message, out.message_error = _compile(message, env, "string", "messageExpression ")
        if out.message is not None:
            out.message_cost = out.message.estimate(declared).most
        else:
            return out
    if rule.get("fieldPath"):
        try:
            out.field_path = normalize(rule["fieldPath"], schema)
        except FieldPathError:
            out.field_path = ""
    return out


def _compile(text: str, env: Environment, wanted: str, what: str) -> tuple[Program | None, str]:
    try:
        program = compile_expression(text, env, _PARAMETERS)
    except CompileError as error:
        return None, f"{what}compilation failed: {error}"
    except ProgramError as error:
        begin = "messageExpression" if what else "program"
        return None, _type_first(text, env, wanted, f"{begin} instantiation failed: {error}")
    if program.type.kind != wanted:
        return None, _wrong_type(wanted)
    return program, ""


def _wrong_type(wanted: str) -> str:
    if wanted == "bool":
        return "cel expression must evaluate to a bool"
    return "messageExpression must evaluate to a string"


def _type_first(text: str, env: Environment, wanted: str, message: str) -> str:
    """A wrong type is noticed before a constant without a value."""
    from pykcp.machinery.cel.program import output_type

    return message if output_type(text, env).kind == wanted else _wrong_type(wanted)
