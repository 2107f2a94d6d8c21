"""`authorizer` in expressions: checks that are resolved between evaluations.

An expression is evaluated without waiting, a decision may need waiting. So a question whose
answer is not known ends the evaluation (`Unanswered`); it is asked, and everything is
evaluated again. Answers are kept for the request, as upstream keeps them.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

from pykcp.auth.authz.attributes import Attributes, path_attributes
from pykcp.auth.authz.chain import Authorizer
from pykcp.auth.user import User, service_account_groups, service_account_name
from pykcp.machinery.cel.library.authorizer import CelAccessCheck, CelDecision, ResourceCheck
from pykcp.machinery.cel.library.authorizer import CelAuthorizer as AuthorizerValue

Found = TypeVar("Found")
_MOST_QUESTIONS = 256
"""Of one request; each costs 350,000 of a budget of ten million."""


class Unanswered(Exception):
    """The evaluation needs an answer first."""

    def __init__(self, question: CelAccessCheck) -> None:
        super().__init__(question)
        self.question = question


Answers = dict[CelAccessCheck, CelDecision]


def known_authorizer(user: User, answers: Answers) -> AuthorizerValue:
    """What expressions call `authorizer` where only answers are at hand."""

    def decide(question: CelAccessCheck) -> CelDecision:
        known = answers.get(question)
        if known is None:
            raise Unanswered(question)
        return known

    return AuthorizerValue(user, decide, _service_account)


def check_of(authorizer: AuthorizerValue, request: tuple[str, str, str, str, str]) -> ResourceCheck:
    """`authorizer.requestResource` of a request's group, resource, subresource, namespace, name."""
    group, resource, subresource, namespace, name = request
    question = CelAccessCheck(
        authorizer.user,
        "",
        group=group,
        resource=resource,
        subresource=subresource,
        namespace=namespace,
        name=name,
    )
    return ResourceCheck(authorizer, question)


class Questions:
    """What the expressions of one request asked, and what was answered."""

    def __init__(self, authorizer: Authorizer, cluster: str, user: User) -> None:
        self._authorizer = authorizer
        self._cluster = cluster
        self.user = user
        self._answers: Answers = {}

    def value(self) -> AuthorizerValue:
        """What expressions call `authorizer`."""
        return AuthorizerValue(self.user, self._decide, _service_account)

    def resource_check(
        self, group: str, resource: str, subresource: str, namespace: str, name: str
    ) -> ResourceCheck:
        """What expressions call `authorizer.requestResource`."""
        return check_of(self.value(), (group, resource, subresource, namespace, name))

    def _decide(self, question: CelAccessCheck) -> CelDecision:
        known = self._answers.get(question)
        if known is None:
            decided = self._authorizer.peek(self._cluster, _attributes(question))
            if decided is None:
                raise Unanswered(question)
            known = CelDecision(decided.allowed, decided.reason, decided.error)
            self._answers[question] = known
        return known

    async def answering_elsewhere(self, evaluate: Callable[[Answers], Awaitable[Found]]) -> Found:
        """The same for an evaluation in another process, which is given the answers so far."""
        for _ in range(_MOST_QUESTIONS):
            try:
                return await evaluate(self._answers)
            except Unanswered as open_one:
                await self._ask(open_one.question)
        return await evaluate(self._answers)

    async def _ask(self, question: CelAccessCheck) -> None:
        decided = self._authorizer.peek(self._cluster, _attributes(question))
        if decided is None:
            decided = await self._authorizer.authorize(self._cluster, _attributes(question))
        self._answers[question] = CelDecision(decided.allowed, decided.reason, decided.error)

    async def answering(self, evaluate: Callable[[], Found]) -> Found:
        """Evaluate, asking what it turns out to need."""
        for _ in range(_MOST_QUESTIONS):
            try:
                return evaluate()
            except Unanswered as open_one:
                question = open_one.question
            await self._ask(question)
        return evaluate()


def _attributes(question: CelAccessCheck) -> Attributes:
    if question.path:
        return path_attributes(question.user, question.verb, question.path)
    return Attributes(
        question.user,
        question.verb,
        namespace=question.namespace,
        group=question.group,
        resource=question.resource,
        subresource=question.subresource,
        name=question.name,
        version="*",
    )


def _service_account(namespace: str, name: str) -> Any:
    return User(service_account_name(namespace, name), "", service_account_groups(namespace))
