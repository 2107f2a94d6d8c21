"""Expensive evaluations: tried on the event loop within a small limit, then in a worker."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, TypeVar

import orjson

from pykcp.admission.expressions.authorizing import Answers, Questions
from pykcp.admission.expressions.evaluating import (
    FULL,
    INLINE,
    EvaluationLimits,
    EvaluationTooCostly,
)
from pykcp.admission.subject import Subject
from pykcp.registry.verbs.large_request import LargeRequest
from pykcp.registry.verbs.large_work import LargeWork

if TYPE_CHECKING:
    from pykcp.admission.policies.jobs import Seen

Found = TypeVar("Found")
_JOBS = "pykcp.admission.policies.jobs:"


async def evaluated(
    questions: Questions,
    subject: Subject,
    inline: Callable[[EvaluationLimits], Found],
    values: Callable[[], dict[str, Any]],
    job: tuple[Any, ...],
    *,
    is_large: bool = False,
) -> Found:
    """What `inline` evaluates to, or the same job by a worker process if that costs too much.

    `values`: what expressions see, without the authorizer. `is_large`: not to be tried here; nor
    is it if the object is large.
    """
    large = subject.resource.services.large
    if large is None:
        return await questions.answering(lambda: inline(FULL))
    if not is_large and not isinstance(subject.request, LargeRequest):
        try:
            return await questions.answering(lambda: inline(INLINE))
        except EvaluationTooCostly:
            pass  # there it may cost all that it may cost
    return await questions.answering_elsewhere(_elsewhere(large, questions, subject, values, job))


def _elsewhere(
    large: LargeWork,
    questions: Questions,
    subject: Subject,
    values: Callable[[], dict[str, Any]],
    job: tuple[Any, ...],
) -> Callable[[Answers], Awaitable[Any]]:
    seen = seen_by(questions, subject, values())
    name, *args = job

    def run(answers: Answers) -> Awaitable[Any]:
        return large.compute(subject.cluster, _JOBS + name, *args, seen(answers))

    return run


def seen_by(
    questions: Questions, subject: Subject, values: dict[str, Any]
) -> Callable[[Answers], Seen]:
    """What expressions see in a worker process, with the answers that there are so far."""
    from pykcp.admission.policies.jobs import Seen

    text, resource = orjson.dumps(values), subject.resource
    place = (
        resource.group,
        resource.plural,
        subject.subresource,
        subject.namespace,
        subject.name,
    )
    return lambda answers: Seen(text, questions.user, place, answers)
