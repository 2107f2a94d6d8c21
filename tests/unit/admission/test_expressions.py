"""CEL in admission: what compiles, what it costs, and questions asked in between."""

from __future__ import annotations

import asyncio
import gc
import weakref
from typing import Any

import pytest

from pykcp.admission.cel_checks import check_cel
from pykcp.admission.expressions.authorizing import Questions
from pykcp.admission.expressions.compiling import compile_admission, compile_variables
from pykcp.admission.expressions.environment import NameVisibility
from pykcp.admission.expressions.evaluating import (
    Evaluation,
    OutOfBudget,
    aggregate,
    conditions_hold,
)
from pykcp.apis.kube.validation.rules import CelUse
from pykcp.auth.authz.attributes import Attributes, Decision, Verdict
from pykcp.auth.user import User

DEFAULT_VISIBILITY = NameVisibility()


def _compiled(expression: str, purpose: str = "validation", variables: Any = ()) -> Any:
    return compile_admission(expression, purpose, DEFAULT_VISIBILITY, variables)


REFUSED = {
    "undeclared": ("nope", "validation", "undeclared reference to 'nope' (in container '')"),
    "number": ("1", "validation", "must evaluate to bool but got int"),
    "dyn": ("object.x", "validation", "must evaluate to bool but got dyn"),
    "field": ("request.zz == ''", "validation", "undefined field 'zz'"),
    "annotation": ("1", "auditAnnotation", "must evaluate to one of [string null_type] but got int"),
    "time": ("timestamp('2020-01-01T00:00:00Z')", "messageExpression",
             "must evaluate to string but got google.protobuf.Timestamp"),
    "params": ("params.x", "variable", "undeclared reference to 'params'"),
    "object type": ("Object{}", "variable", "undeclared reference to 'Object'"),
}  # fmt: skip


@pytest.mark.parametrize("case", REFUSED)
def test_what_is_refused(case: str) -> None:
    expression, purpose, why = REFUSED[case]
    problem = check_cel(expression, CelUse(purpose))
    assert problem is not None
    assert why in problem


ACCEPTED = (
    ("authorizer.group('').resource('pods').check('get').allowed()", "matchCondition"),
    ("authorizer.requestResource.check('get').allowed()", "validation"),
    ("namespaceObject.metadata.labels.size() > 1", "validation"),
    ("request.userInfo.extra['x'].exists(v, v == 'y')", "validation"),
    ("null", "auditAnnotation"),
    ("oldObject == null || object.spec == oldObject.spec", "validation"),
)


@pytest.mark.parametrize(("expression", "purpose"), ACCEPTED)
def test_what_compiles(expression: str, purpose: str) -> None:
    assert check_cel(expression, CelUse(purpose)) is None


def test_the_same_text_is_compiled_once() -> None:
    assert _compiled("object.a == 'shared'") is _compiled("object.a == 'shared'")


def test_variables_have_the_types_of_their_expressions() -> None:
    variables = (("n", "object.metadata.name"), ("long", "size('abc')"), ("bad", "nope"))
    assert not _compiled("variables.long > 2", variables=variables).error
    assert "no matching overload" in _compiled("variables.long == 'x'", variables=variables).error
    assert not _compiled("variables.bad == 1", variables=variables).error
    assert "undefined field 'zz'" in _compiled("variables.zz", variables=variables).error


def _evaluation(
    values: dict[str, Any], variables: Any = (), budget: int = 10_000_000
) -> Evaluation:
    return Evaluation(values, compile_variables(variables, DEFAULT_VISIBILITY).compiled, budget)


def test_variables_are_lazy_and_remembered() -> None:
    variables = (("bad", "object.zz"), ("sum", "object.a + 1"), ("twice", "variables.sum * 2"))
    evaluation = _evaluation({"object": {"a": 1}}, variables)
    assert evaluation.evaluate(_compiled("variables.twice == 4", variables=variables)).value is True
    for _ in range(2):
        failed = evaluation.evaluate(_compiled("variables.bad == 1", variables=variables))
        assert failed.error == (
            "expression 'variables.bad == 1' resulted in error: composited variable \"bad\" fails "
            "to evaluate: no such key: zz"
        )


class _Document(dict[str, Any]):
    """An object that can be referred to weakly."""


def test_what_was_evaluated_needs_no_garbage_collector() -> None:
    variables = (("bad", "object.zz"), ("sum", "object.a + 1"))
    document = _Document(a=1)
    alive = weakref.ref(document)
    gc.disable()
    try:
        evaluation = _evaluation({"object": document}, variables)
        for text in ("variables.sum == 2", "variables.bad == 1", "variables.bad == 2", "oldObject"):
            evaluation.evaluate(_compiled(text, variables=variables))
        del evaluation, document
        assert alive() is None
    finally:
        gc.enable()


def test_expressions_share_a_budget() -> None:
    compiled = _compiled("object.all(x, x > 0)")
    values = {"object": list(range(1, 1000))}
    whole = _evaluation(values)
    assert whole.evaluate(compiled).value is True
    spent = 10_000_000 - whole.remaining
    assert spent > 1000
    tight = _evaluation(values, budget=spent * 2 - 1)
    assert tight.evaluate(compiled).value is True
    with pytest.raises(OutOfBudget, match="running out of cost budget"):
        tight.evaluate(compiled)


def test_one_evaluation_is_limited() -> None:
    many = {"object": list(range(2000))}
    compiled = _compiled("object.all(a, object.all(b, a >= 0 && b >= 0))")
    assert (
        _evaluation(many)
        .evaluate(compiled)
        .error.endswith("resulted in error: operation cancelled: actual cost limit exceeded")
    )


CONDITIONS = {
    "hold": (["true", "true"], False, (True, "")),
    "one false": (["true", "false"], False, (False, "")),
    "false outweighs errors": (["object.zz == 1", "false"], False, (False, "")),
    "error": (
        ["object.zz == 1", "true"],
        False,
        (False, "expression 'object.zz == 1' resulted in error: no such key: zz"),
    ),
    "error, failing open": (["object.zz == 1", "true"], True, (False, "")),
}


@pytest.mark.parametrize("case", CONDITIONS)
def test_conditions(case: str) -> None:
    expressions, fail_open, expected = CONDITIONS[case]
    compiled = tuple(_compiled(text, "matchCondition") for text in expressions)
    evaluation = _evaluation({"object": {}})
    assert conditions_hold(compiled, evaluation, fail_open=fail_open) == expected


def test_errors_are_listed_once_each() -> None:
    assert aggregate(["a"]) == "a"
    assert aggregate(["a", "b", "a"]) == "[a, b]"


class _Slow:
    """An authorizer that knows nothing until it is asked."""

    def __init__(self) -> None:
        self.asked: list[Attributes] = []

    def peek(self, cluster: str, attributes: Attributes) -> Decision | None:
        return None

    async def authorize(self, cluster: str, attributes: Attributes) -> Decision:
        self.asked.append(attributes)
        allowed = attributes.verb == "get"
        return Decision(Verdict.ALLOW if allowed else Verdict.NO_OPINION, "because")


def test_questions_are_asked_between_evaluations_and_once_each() -> None:
    authorizer = _Slow()
    questions = Questions(authorizer, "c", User("u"))  # type: ignore[arg-type]
    texts = (
        (
            "authorizer.group('apps').resource('pods').namespace('n').check('get').allowed() && "
            "!authorizer.path('/x').check('put').allowed()"
        ),
        "authorizer.serviceAccount('n', 'sa').path('/x').check('get').reason() == 'because'",
    )

    def evaluate() -> list[Any]:
        evaluation = _evaluation({"authorizer": questions.value()})
        return [evaluation.evaluate(_compiled(text)) for text in texts]

    for _ in range(2):
        results = asyncio.run(questions.answering(evaluate))
        assert [(r.value, r.error) for r in results] == [(True, ""), (True, "")]
    first, second, third = authorizer.asked
    assert (first.user.name, first.group, first.resource, first.namespace) == (
        "u",
        "apps",
        "pods",
        "n",
    )
    assert (second.path, second.is_resource) == ("/x", False)
    assert third.user.name == "system:serviceaccount:n:sa"
