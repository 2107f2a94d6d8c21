"""Access reviews: from a decoded review to its response.

Each function takes the review after mutating admission and returns it with `status` and the other
fields that the server sets. Errors are upstream's: 422 for validation errors, 400 for all others.
`admit` is validating admission: it is asked about reviews that are valid, before they are answered.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from pykcp.aio.slices import in_slices
from pykcp.auth.authn.chain import Authentication
from pykcp.auth.authn.interface import CredentialRejected
from pykcp.auth.authz.attributes import Attributes, Decision, Verdict, path_attributes
from pykcp.auth.authz.chain import Authorizer
from pykcp.auth.authz.rules import PolicyRule
from pykcp.auth.errors import aggregate
from pykcp.auth.review_validation import (
    local_review_errors,
    selector_problems,
    self_review_errors,
    subject_review_errors,
)
from pykcp.auth.user import User
from pykcp.machinery import meta
from pykcp.machinery.status import BadRequest, FieldError, InternalError, Invalid
from pykcp.steps import Steps
from pykcp.types import Object

_MOST_VALUES = 100_000
"""Verbs, groups, resources, names and URLs in one answer; with more it is incomplete."""
_AUTHORIZATION = "authorization.k8s.io"
Admit = Callable[[], Awaitable[None]]


async def _admitted() -> None:
    """No admission: for callers inside the server."""


async def subject_access_review(
    authorizer: Authorizer,
    cluster: str,
    review: Object,
    *,
    is_deep: bool = False,
    admit: Admit = _admitted,
) -> Object:
    """May this user do that?"""
    _refuse(await in_slices(subject_review_errors(review), cluster))
    await admit()
    spec = review["spec"]
    return await _answer(authorizer, cluster, review, spec_user(spec), is_deep)


async def local_subject_access_review(
    authorizer: Authorizer,
    cluster: str,
    review: Object,
    namespace: str,
    *,
    admit: Admit = _admitted,
) -> Object:
    """May this user do that in the namespace of the request?"""
    if not namespace:
        raise BadRequest("namespace is required on this type: ")
    review = {**review, "metadata": {"namespace": namespace, **(review.get("metadata") or {})}}
    _refuse(await in_slices(local_review_errors(review), cluster))
    if namespace != meta.namespace(review):
        raise BadRequest(f"spec.resourceAttributes.namespace must match namespace: {namespace}")
    await admit()
    return await _answer(authorizer, cluster, review, spec_user(review["spec"]), is_deep=False)


async def self_subject_access_review(
    authorizer: Authorizer, cluster: str, review: Object, user: User, *, admit: Admit = _admitted
) -> Object:
    """May I do that?"""
    _refuse(await in_slices(self_review_errors(review), cluster))
    await admit()
    return await _answer(authorizer, cluster, review, user, is_deep=False)


async def self_subject_rules_review(
    authorizer: Authorizer, cluster: str, review: Object, user: User, *, admit: Admit = _admitted
) -> Object:
    """What may I do in a namespace?"""
    namespace = (review.get("spec") or {}).get("namespace")
    if not namespace:
        raise BadRequest("no namespace on request")
    await admit()
    rules, errors = await authorizer.rules_for(cluster, user, namespace)
    status = await in_slices(_shown_rules(rules), cluster)
    if errors:
        status["evaluationError"] = aggregate(errors)
    # Upstream answers with the status alone: neither metadata nor spec are kept.
    return _reply(review, {"metadata": {}, "spec": {}, "status": status})


def _shown_rules(rules: Sequence[PolicyRule]) -> Steps[Object]:
    resources: list[Object] = []
    urls: list[Object] = []
    room = _MOST_VALUES
    for rule in rules:
        shown = rule.to_json()
        names = shown.pop("nonResourceURLs", None)
        if rule.resources:
            resources.append({"verbs": [], **shown})
        if names:
            urls.append({"verbs": list(rule.verbs), "nonResourceURLs": names})
        room -= sum(map(len, (rule.verbs, rule.api_groups, rule.resources, rule.names, rule.urls)))
        if room < 0:
            break
        yield
    return {"resourceRules": resources, "nonResourceRules": urls, "incomplete": room < 0}


async def self_subject_review(
    review: Object, user: User, now: float, *, admit: Admit = _admitted
) -> Object:
    """Who am I?"""
    await admit()
    metadata = {"creationTimestamp": meta.now_rfc3339(now)}
    return _reply(review, {"metadata": metadata, "status": {"userInfo": user.to_json()}})


async def token_review(
    authentication: Authentication,
    cluster: str,
    review: Object,
    namespace: str = "",
    *,
    admit: Admit = _admitted,
    notes: dict[str, str] | None = None,
) -> Object:
    """Whose token is this? `notes` gets what the audit event says of it."""
    notes = {} if notes is None else notes
    spec = review.get("spec") or {}
    if namespace:
        raise BadRequest(f"namespace is not allowed on this type: {namespace}")
    token = spec.get("token")
    if not token:
        raise BadRequest("token is required for TokenReview in authentication")
    await admit()
    audiences: Sequence[str] = spec.get("audiences") or authentication.api_audiences
    try:
        found = await authentication.review_token(token, audiences, cluster)
    except CredentialRejected as error:
        notes.update(error.annotations)
        return {**review, "status": {"user": {}, "error": str(error)}}
    notes.update(found.annotations)
    if audiences and not set(audiences).intersection(found.audiences):
        raise InternalError("error validating audiences")
    status: Object = {"authenticated": True, "user": found.user.to_json()}
    if found.audiences:
        status["audiences"] = list(found.audiences)
    return {**review, "status": status}


# --- the common part ----------------------------------------------------------


def _refuse(errors: Sequence[FieldError]) -> None:
    if errors:
        # Upstream does not know the kind of what it is validating at this point.
        raise Invalid.fields(_AUTHORIZATION, "", "", errors)


async def _answer(
    authorizer: Authorizer, cluster: str, review: Object, user: User, is_deep: bool
) -> Object:
    spec = review["spec"]
    attributes = review_attributes(spec, user)
    deep = is_deep and attributes.group != _AUTHORIZATION
    decision = await authorizer.authorize(cluster, attributes, is_deep=deep)
    problems = [decision.error] if decision.error else []
    resource = spec.get("resourceAttributes")
    problems += await in_slices(selector_problems(resource), cluster)
    return {**review, "status": _status(decision, "; ".join(problems))}


def review_attributes(spec: Object, user: User) -> Attributes:
    """The question a review's spec asks."""
    resource = spec.get("resourceAttributes")
    if resource is None:
        path = spec["nonResourceAttributes"]
        return path_attributes(user, path.get("verb") or "", path.get("path") or "")
    get: Callable[[str], Any] = resource.get
    return Attributes(
        user,
        get("verb") or "",
        get("namespace") or "",
        get("group") or "",
        get("resource") or "",
        get("subresource") or "",
        name=get("name") or "",
        version=get("version") or "*",
    )


def spec_user(spec: Object) -> User:
    """The user whom a review's spec names."""
    extra = {key: tuple(values or ()) for key, values in (spec.get("extra") or {}).items()}
    groups = tuple(spec.get("groups") or ())
    return User(spec.get("user") or "", spec.get("uid") or "", groups, extra)


def _status(decision: Decision, error: str) -> Object:
    status: Object = {"allowed": decision.allowed}
    if decision.verdict is Verdict.DENY:
        status["denied"] = True
    if decision.reason:
        status["reason"] = decision.reason
    if error:
        status["evaluationError"] = error
    return status


def _reply(review: Object, parts: Object) -> Object:
    head = {key: value for key, value in review.items() if key in {"kind", "apiVersion"}}
    return {**head, **parts}
