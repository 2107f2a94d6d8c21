"""Programs: variables, limits, generated code, and what is asked from outside."""

from __future__ import annotations

import contextlib
import sys
from typing import Any

import pytest

from pykcp.machinery.cel.check import types
from pykcp.machinery.cel.check.declared import MAX_REQUEST, declare
from pykcp.machinery.cel.check.environment import EXTENDED, KUBERNETES, Environment, Variable
from pykcp.machinery.cel.front.source import CompileError, Issues
from pykcp.machinery.cel.library.authorizer import CelAccessCheck, CelAuthorizer, CelDecision
from pykcp.machinery.cel.program import compile_expression
from pykcp.machinery.cel.runtime.values import CostExceeded, EvalError
from pykcp.machinery.schema.openapi_json import from_json


def dyn_env(*names: str) -> Environment:
    return KUBERNETES.with_variables({n: Variable(types.DYN) for n in names})


def test_variables_are_those_that_are_used() -> None:
    program = compile_expression("[1].all(b, a.x == b) || c", dyn_env("a", "b", "c", "d"))
    assert program.variables == ["a", "c"]


def test_dynamic_values_are_plain_json() -> None:
    program = compile_expression(
        "object.spec.replicas > 3 && has(object.spec.x)", dyn_env("object")
    )
    assert program.evaluate({"object": {"spec": {"replicas": 4, "x": None}}}) is True
    with pytest.raises(EvalError, match="no such key: replicas"):
        program.evaluate({"object": {"spec": {"x": 1}}})


def test_absent_variable() -> None:
    program = compile_expression("a == 1", dyn_env("a"))
    with pytest.raises(EvalError, match=r"no such attribute\(s\): a"):
        program.evaluate({})


def test_parameters_fix_the_order_of_arguments() -> None:
    program = compile_expression("b - a", dyn_env("a", "b"), ("b", "a", "c")[:2])
    assert program.fast(10, 3) == 7


def test_cost_limit_stops_a_runaway() -> None:
    program = compile_expression("lists.range(1000).all(x, lists.range(1000).all(y, x + y >= 0))")
    value, error, cost = program.tracked({}, 50_000)
    assert value is None
    assert isinstance(error, CostExceeded)
    assert 50_000 < cost < 60_000


def test_cost_limit_is_not_absorbed() -> None:
    program = compile_expression("lists.range(500).all(x, x >= 0) || true")
    assert isinstance(program.tracked({}, 100)[1], CostExceeded)


def test_estimate_uses_the_sizes_of_the_schema() -> None:
    def most(schema: dict[str, Any]) -> int:
        declared = declare(from_json(schema), root=False)
        assert declared is not None
        env = KUBERNETES.with_variables({"self": Variable(declared.type, declared)})
        return compile_expression("self.matches('ab')", env).estimate(declared).most

    assert most({"type": "string"}) == 1 + (MAX_REQUEST - 2 + 1 + 9) // 10
    assert most({"type": "string", "maxLength": 10}) == 1 + 5
    assert most({"type": "string", "enum": ["a", "bcd"]}) == 1 + 1


def test_bound_is_for_objects_of_a_size() -> None:
    declared = declare(from_json({"type": "array", "items": {"type": "string"}}), root=False)
    assert declared is not None
    env = KUBERNETES.with_variables({"self": Variable(declared.type, declared)})
    program = compile_expression("self.all(x, self.all(y, x == y))", env)
    assert program.bound(declared, 64) < program.bound(declared, 1024) < 2**64
    assert program.bound(declared, 1000) == program.bound(declared, 1024)


def test_output_types() -> None:
    for text, shown in [
        ("[1]", "list(int)"),
        ("{'a': [1.0]}", "map(string, list(double))"),
        ("[]", "list(dyn)"),
        ("optional.of('a')", "optional_type(string)"),
        ("timestamp('2020-01-01T00:00:00Z')", "timestamp"),
        ("ip('::1')", "net.IP"),
        ("type(1)", "type(int)"),
    ]:
        assert str(compile_expression(text).type) == shown


def test_generated_source_can_be_read() -> None:
    assert compile_expression("1 + 1 == 2").source().startswith("def program():")


def decide(question: CelAccessCheck) -> CelDecision:
    if question.path:
        return CelDecision(question.path == "/healthz", "by path")
    allowed = (question.user, question.verb, question.group, question.resource) == (
        "system:serviceaccount:ns:sa", "get", "apps", "deployments",
    )  # fmt: skip
    return CelDecision(allowed, question.name, "" if allowed else "denied")


AUTHORIZER = CelAuthorizer("alice", decide, lambda ns, name: f"system:serviceaccount:{ns}:{name}")
ASKED = [
    ("authorizer.path('/healthz').check('get').allowed()", True),
    ("authorizer.path('/x').check('get').allowed()", False),
    ("authorizer.path('/x').check('get').reason()", "by path"),
    (("authorizer.serviceAccount('ns', 'sa').group('apps').resource('deployments').namespace('d')"
     ".name('n').subresource('s').fieldSelector('a=b').labelSelector('c').check('get').reason()"),
     "n"),
    ("authorizer.group('apps').resource('deployments').check('get').errored()", True),
    ("authorizer.group('apps').resource('deployments').check('get').error()", "denied"),
]  # fmt: skip


@pytest.mark.parametrize(("text", "expected"), ASKED)
def test_authorizer(text: str, expected: Any) -> None:
    kind = types.parse_type("authz.Authorizer")
    env = KUBERNETES.with_variables({"authorizer": Variable(kind)})
    program = compile_expression(text, env)
    assert program.evaluate({"authorizer": AUTHORIZER}) == expected
    assert program.tracked({"authorizer": AUTHORIZER})[2] > 350_000


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("authorizer.path(' ').check('get').allowed()", "path must not be empty"),
        ("authorizer.group('').resource('').check('get').allowed()", "resource must not be empty"),
        ("authorizer.serviceAccount('ns', 'A').group('').resource('x').check('get').allowed()",
         "Invalid service account name"),
        ("authorizer.serviceAccount('N_', 'a').group('').resource('x').check('get').allowed()",
         "Invalid service account namespace"),
    ],
)  # fmt: skip
def test_bad_questions(text: str, message: str) -> None:
    env = KUBERNETES.with_variables({"authorizer": Variable(types.parse_type("authz.Authorizer"))})
    with pytest.raises(EvalError, match=message):
        compile_expression(text, env).evaluate({"authorizer": AUTHORIZER})


def test_objects_can_be_written_where_types_are_known() -> None:
    point = types.struct("Point")
    env = Environment(
        functions=EXTENDED.functions,
        macros=EXTENDED.macros,
        structs={"Point": {"x": types.INT, "y": types.INT}},
        struct_types={"Point": point},
    )
    program = compile_expression("Point{x: 1, ?y: optional.none()}.x + Point{x: 2}.x", env)
    assert program.evaluate({}) == 3
    with pytest.raises(CompileError, match="undefined field 'z'"):
        compile_expression("Point{z: 1}", env)
    with pytest.raises(CompileError, match="expected type of field 'x' is 'int'"):
        compile_expression("Point{x: 'a'}", env)


def test_issues_are_cut_off() -> None:
    issues = Issues("x")
    for _ in range(103):
        issues.report(0, "m")
    assert issues.text().endswith("\n3 more errors were truncated")


def test_issue_layout() -> None:
    issues = Issues("a +\n\té b")
    issues.report(6, "second")
    issues.report(0, "first")
    assert issues.text() == (
        "ERROR: <input>:1:1: first\n | a +\n | ^\nERROR: <input>:2:3: second\n |  é b\n | .\uff0e^"
    )


RUNAWAYS = [
    "lists.range(5000000).size() > 1",
    "text.replace('a', text).size() > 1",
    "lists.range(1000).map(x, text).join('').size() > 1",
    "text.find('(a|aa)*(b|bb|a){300}c') == ''",
]


@pytest.mark.parametrize("text", RUNAWAYS)
def test_what_would_fill_memory_or_time_is_cancelled(text: str) -> None:
    env = KUBERNETES.with_variables({"text": Variable(types.STRING)})
    program = compile_expression(text, env)
    value = {"text": "a" * 200_000}
    with pytest.raises(EvalError, match="actual cost limit exceeded"):
        program.evaluate(value)
    assert isinstance(program.tracked(value)[1], CostExceeded)


def test_nested_macros_that_repeat_their_target_are_limited() -> None:
    def chain(length: int) -> str:
        return "optional.of(1)" + ".optMap(x, x + 1)" * length + ".value()"

    assert compile_expression(chain(5)).evaluate({}) == 6
    with pytest.raises(CompileError, match="expression repeats more than 5000 terms"):
        compile_expression(chain(30))


def test_compiling_leaves_the_recursion_limit_alone() -> None:
    before = sys.getrecursionlimit()
    for text in ("1", "1 +", "(" * 300):
        with contextlib.suppress(CompileError):
            compile_expression(text)
    assert sys.getrecursionlimit() == before


class Lazy(dict[str, Any]):
    """What admission policies call variables: computed when first asked for."""

    def __contains__(self, key: object) -> bool:
        return key in ("doubled", "broken")

    def __getitem__(self, key: str) -> Any:
        if key == "broken":
            raise EvalError("division by zero")
        return 42


def test_environment_of_an_admission_policy() -> None:
    request = types.struct("kubernetes.AdmissionRequest")
    variables = types.struct("kubernetes.variables")
    env = Environment(
        functions=KUBERNETES.functions,
        macros=KUBERNETES.macros,
        structs={
            request.name: {"operation": types.STRING, "object": types.DYN},
            variables.name: {"doubled": types.INT, "broken": types.BOOL},
        },
    ).with_variables(
        {
            "object": Variable(types.DYN),
            "request": Variable(request),
            "variables": Variable(variables),
        }
    )
    values = {
        "object": {"spec": {"replicas": 21}},
        "request": {"operation": "CREATE"},
        "variables": Lazy(),
    }
    text = "request.operation == 'CREATE' && object.spec.replicas * 2 == variables.doubled"
    assert compile_expression(text, env).evaluate(values) is True
    assert compile_expression("variables.broken || true", env).evaluate(values) is True
    with pytest.raises(CompileError, match="undefined field 'nope'"):
        compile_expression("request.nope == 'x'", env)
