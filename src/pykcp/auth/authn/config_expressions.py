"""CEL expressions over the claims of a token and over the user that results from them.

`claims` is a map of the token's claims, `user` the UserInfo of the request. Claims whose names
contain dots are addressed as in Kubernetes: `claims.example__dot__com`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from pykcp.auth.user import User

if TYPE_CHECKING:
    from pykcp.machinery.cel.check.environment import Environment
    from pykcp.machinery.cel.front.ast import Node
    from pykcp.machinery.cel.program import Program

CLAIMS, USER = "claims", "user"
_COST_LIMIT = 100_000
"""Upstream has none; it is there against claims that a user can make long."""
_WORK_LIMIT = 20_000


class ExpressionError(Exception):
    """An expression that cannot be compiled, or that failed."""


@dataclass(frozen=True, slots=True)
class Expression:
    """A compiled expression over one variable."""

    text: str
    variable: str
    program: Program

    def evaluate(self, value: Any) -> Any:
        """Raises ExpressionError."""
        from pykcp.machinery.cel.cost.work import allow

        allow(_WORK_LIMIT)
        result, error, _ = self.program.counted({self.variable: value}, _COST_LIMIT)
        if error is not None:
            raise ExpressionError(f"expression '{self.text}' resulted in error: {error}")
        return result

    def selects(self, field: str) -> bool:
        """Whether it looks at this field of its variable, as `claims.email` does."""
        return any(_is_selection(node, self.variable, field) for node in _nodes(self.program.root))


def compile_claims(text: str, *, is_condition: bool = False) -> Expression:
    """An expression over `claims`. Raises ExpressionError in upstream's words."""
    return _compile(text, CLAIMS, is_condition=is_condition)


def compile_user(text: str) -> Expression:
    """A condition on `user`. Raises ExpressionError in upstream's words."""
    return _compile(text, USER, is_condition=True)


def _compile(text: str, variable: str, *, is_condition: bool) -> Expression:
    from pykcp.machinery.cel.program import CompileError, ProgramError, compile_expression

    try:
        program = compile_expression(text, _environment(variable))
    except CompileError as error:
        raise ExpressionError(f"compilation failed: {error}") from error
    except ProgramError as error:
        raise ExpressionError(f"program instantiation failed: {error}") from error
    if is_condition and program.type.kind != "bool":
        raise ExpressionError("must evaluate to bool")
    return Expression(text, variable, program)


@lru_cache(maxsize=2)
def _environment(variable: str) -> Environment:
    from pykcp.machinery.cel.check import types
    from pykcp.machinery.cel.check.environment import KUBERNETES, Variable

    if variable == CLAIMS:
        anything = types.Type("dyn", "any")
        return replace(
            KUBERNETES, variables={CLAIMS: Variable(types.map_of(types.STRING, anything))}
        )
    texts = types.list_of(types.STRING)
    fields = {
        "username": types.STRING,
        "uid": types.STRING,
        "groups": texts,
        "extra": types.map_of(types.STRING, texts),
    }
    return replace(
        KUBERNETES,
        variables={USER: Variable(types.struct("kubernetes.UserInfo"))},
        structs={**KUBERNETES.structs, "kubernetes.UserInfo": fields},
    )


def _nodes(root: Node) -> Iterator[Node]:
    from pykcp.machinery.cel.front.ast import children

    stack = [root]
    while stack:
        node = stack.pop()
        yield node
        stack += children(node)


def _is_selection(node: Node, variable: str, field: str) -> bool:
    """`variable.field`, `has(variable.field)` or `variable.?field`; an index does not count."""
    from pykcp.machinery.cel.front.ast import CallNode, Ident, Literal, Select

    if isinstance(node, Select):
        operand = node.operand
        return isinstance(operand, Ident) and operand.name == variable and node.field == field
    if isinstance(node, CallNode) and node.function == "_?._" and len(node.args) == 2:
        operand, name = node.args
        return (
            isinstance(operand, Ident)
            and operand.name == variable
            and isinstance(name, Literal)
            and name.value == field
        )
    return False


# --- values -------------------------------------------------------------------


class Unescaping(dict[str, Any]):
    """A map whose keys may be asked for by their escaped names."""

    def get(self, key: Any, default: Any = None) -> Any:
        return super().get(_unescaped(key), default)

    def __getitem__(self, key: Any) -> Any:
        return super().__getitem__(_unescaped(key))

    def __contains__(self, key: object) -> bool:
        return super().__contains__(_unescaped(key))


def _unescaped(key: Any) -> Any:
    if not isinstance(key, str) or "__" not in key:
        return key
    from pykcp.machinery.cel.front.escaping import unescape

    name = unescape(key)
    return key if name is None else name


def claims_value(claims: Mapping[str, Any]) -> Any:
    """Claims as expressions see them: numbers are doubles, as in every JSON of Go."""
    return _value(dict(claims))


def _value(value: Any) -> Any:
    if isinstance(value, dict):
        return Unescaping({key: _value(inner) for key, inner in value.items()})
    if isinstance(value, list):
        return [_value(inner) for inner in value]
    if isinstance(value, int) and not isinstance(value, bool):
        return float(value)
    return value


def user_value(user: User) -> Any:
    return {
        "username": user.name,
        "uid": user.uid,
        "groups": list(user.groups),
        "extra": Unescaping({key: list(values) for key, values in user.extra.items()}),
    }
