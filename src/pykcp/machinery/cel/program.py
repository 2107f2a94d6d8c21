"""Expressions, compiled: text in, a function of the variables out."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cached_property
from typing import Any

from pykcp.machinery.cel.check import constants, validators
from pykcp.machinery.cel.check.checker import check
from pykcp.machinery.cel.check.constants import ProgramError
from pykcp.machinery.cel.check.declared import Declared
from pykcp.machinery.cel.check.environment import KUBERNETES, Environment
from pykcp.machinery.cel.check.types import Type
from pykcp.machinery.cel.cost.estimate import UNLIMITED, Estimate, estimate
from pykcp.machinery.cel.cost.work import CALL_WORK, allow
from pykcp.machinery.cel.emit import codegen
from pykcp.machinery.cel.front.ast import Comprehension, Ident, Node, Select, children
from pykcp.machinery.cel.front.parser import parse
from pykcp.machinery.cel.front.source import NO_PLACE, CompileError, Issues
from pykcp.machinery.cel.runtime.values import CelError, CostExceeded, EvalError, Panic

PER_CALL_LIMIT = 1_000_000
"""What one evaluation may cost."""
_RECURSION = 20_000

__all__ = ["CompileError", "Program", "ProgramError", "compile_expression"]


class _Room:
    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.users = 0
        self.before = 0


_room = _Room()


@contextmanager
def _deep() -> Iterator[None]:
    """Room for nested expressions: Python's own calls need none of the C stack.

    The limit belongs to the process: the last of several compilations puts it back.
    """
    with _room.lock:
        if _room.users == 0:
            _room.before = sys.getrecursionlimit()
            sys.setrecursionlimit(max(_room.before, _RECURSION))
        _room.users += 1
    try:
        yield
    finally:
        with _room.lock:
            _room.users -= 1
            if _room.users == 0:
                sys.setrecursionlimit(_room.before)


def compile_expression(
    text: str, env: Environment = KUBERNETES, parameters: Sequence[str] | None = None
) -> Program:
    """Parses, checks and plans `text`; raises CompileError or ProgramError.

    `parameters` are the variables that the functions take, in order; without them those
    that the expression uses, sorted.
    """
    root = _check(text, env)
    with _deep():
        constants.plan(root)
    return Program(root, env, parameters)


def output_type(text: str, env: Environment = KUBERNETES) -> Type:
    """The type of an expression; raises CompileError."""
    found = _check(text, env).type
    assert found is not None
    return found


def _check(text: str, env: Environment) -> Node:
    issues = Issues(text)
    allow(UNLIMITED)  # constants are evaluated on the way; the length of the text limits them
    with _deep():
        try:
            root = parse(text, env.macros, issues)
            issues.raise_if_any()
            assert root is not None
            check(root, env, issues)
            issues.raise_if_any()
            validators.validate(root, issues)
            issues.raise_if_any()
        except RecursionError as error:
            deep = Issues(text)
            deep.report(NO_PLACE, "expression recursion limit exceeded: 250")
            raise CompileError(deep) from error
    return root


def _without_frames(error: CelError) -> CelError:
    """The frames that an error passed through hold the values, and the error in the end: a cycle."""
    error.__cause__ = error.__context__ = None
    return error.with_traceback(None)


class Program:
    """A compiled expression.

    `fast(*values)` evaluates it; `tracked(values, limit)` does so while counting the cost.
    `variables` are the names that the expression uses, `parameters` those that it is given.
    """

    def __init__(
        self, root: Node, env: Environment, parameters: Sequence[str] | None = None
    ) -> None:
        self.root = root
        self._env = env
        self._bounds: dict[int, int] = {}
        self.charged_fairly: bool | None = None
        """Kept by `expense`."""
        self.variables = _used(root, env)
        self.parameters = list(parameters) if parameters is not None else self.variables

    @property
    def type(self) -> Type:
        assert self.root.type is not None
        return self.root.type

    def source(self, *, tracked: bool = False) -> str:
        """The generated Python, to look at."""
        return codegen.Generator(self._env, self.parameters, tracked).program(self.root)

    def _load(self, *, tracked: bool) -> Any:
        with _deep():
            generator = codegen.Generator(self._env, self.parameters, tracked)
            return codegen.load(generator.program(self.root), generator.globals)

    @cached_property
    def fast(self) -> Any:
        return self._load(tracked=False)

    @cached_property
    def _tracked(self) -> Any:
        return self._load(tracked=True)

    def _arguments(self, values: Mapping[str, Any]) -> Iterator[Any]:
        for name in self.parameters:
            if name in values:
                yield values[name]
            elif name in self.variables:
                raise EvalError(f"no such attribute(s): {name}")
            else:
                yield None

    def evaluate(self, values: Mapping[str, Any]) -> Any:
        """The value of the expression; raises EvalError. No limit on its cost."""
        allow(CALL_WORK)
        try:
            return self.fast(*self._arguments(values))
        except (CostExceeded, Panic) as error:
            raise EvalError(str(error)) from error
        except (
            TypeError,
            KeyError,
            AttributeError,
            ValueError,
            RecursionError,
            MemoryError,
        ) as error:
            raise EvalError(f"invalid data: {error}") from error

    def tracked(
        self, values: Mapping[str, Any], limit: int = PER_CALL_LIMIT
    ) -> tuple[Any, CelError | None, int]:
        """The value or the error, and the cost."""
        allow(CALL_WORK)
        return self.counted(values, limit)

    def counted(self, values: Mapping[str, Any], limit: int) -> tuple[Any, CelError | None, int]:
        """The same as one of several evaluations that share their work."""
        cost = [0]
        try:
            value = self._tracked(*self._arguments(values), cost, limit)
        except (CostExceeded, Panic) as error:
            return None, _without_frames(error), cost[0]
        except EvalError as error:
            if cost[0] > limit:
                return None, CostExceeded(), cost[0]
            return None, _without_frames(error), cost[0]
        except (
            TypeError,
            KeyError,
            AttributeError,
            ValueError,
            RecursionError,
            MemoryError,
        ) as error:
            return None, EvalError(f"invalid data: {error}"), cost[0]
        if cost[0] > limit:
            return None, CostExceeded(), cost[0]
        return value, None, cost[0]

    def estimate(self, root: Declared | None = None) -> Estimate:
        """What it may cost at least and at most, by the sizes that `root` declares."""
        with _deep():
            return estimate(self.root, root, UNLIMITED)

    def bound(self, root: Declared | None, size: int) -> int:
        """What it costs at most when no value has more than `size` characters or items."""
        rounded = 1 << max(size - 1, 1).bit_length()
        found = self._bounds.get(rounded)
        if found is None:
            with _deep():
                found = estimate(self.root, root, rounded).most
            self._bounds[rounded] = found
        return found


def _used(root: Node, env: Environment) -> list[str]:
    """The variables of the environment that the expression refers to."""
    found: dict[str, None] = {}
    stack: list[tuple[Node, frozenset[str]]] = [(root, frozenset())]
    while stack:
        node, bound = stack.pop()
        if isinstance(node, Select) and node.resolved is not None:
            node = node.resolved
        if isinstance(node, Ident):
            if node.constant is None and node.name not in bound and node.name in env.variables:
                found[node.name] = None
            continue
        if isinstance(node, Comprehension):
            inner = bound | {node.accu_var}
            looped = inner | {node.iter_var, node.iter_var2}
            stack += [(node.iter_range, bound), (node.accu_init, bound), (node.result, inner)]
            stack += [(node.condition, looped), (node.step, looped)]
            continue
        stack += [(child, bound) for child in children(node)]
    return sorted(found)
