"""The attributes of a request, the decision about it, and the error that a denied client receives."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from typing import NamedTuple

from pykcp.auth.user import User
from pykcp.machinery.status import Denied, go_quote


class Attributes(NamedTuple):
    """Who wants to do what. The first eight fields are all that a cached decision depends on,
    but for the name of the object."""

    user: User
    verb: str
    namespace: str = ""
    group: str = ""
    resource: str = ""
    subresource: str = ""
    path: str = ""
    """Of a request that is not for a resource; "" otherwise."""
    is_resource: bool = True
    name: str = ""
    version: str = ""


_MAX_TEXT, _MAX_USER = 2048, 16 * 1024


def is_kept(attributes: Attributes) -> bool:
    """Whether a decision is remembered: callers do not fill our memory with long questions."""
    text = sum(map(len, attributes[1:7])) + len(attributes.name)
    return text <= _MAX_TEXT and attributes.user.size <= _MAX_USER


def path_attributes(user: User, verb: str, path: str) -> Attributes:
    """A request for something that is not a resource (`/healthz`, `/version`, …)."""
    return Attributes(user, verb, path=path, is_resource=False)


class Verdict(Enum):
    """Values are the words of the audit log."""

    ALLOW = "Allowed"
    DENY = "Denied"
    NO_OPINION = "NoOpinion"


class StageFinding(NamedTuple):
    """What one stage found, for the audit log: never shown to clients."""

    stage: str
    verdict: Verdict
    reason: str


@dataclass(frozen=True, slots=True)
class Decision:
    verdict: Verdict
    reason: str = ""
    """What clients may know."""
    steps: tuple[StageFinding, ...] = ()
    """Innermost stage first."""
    error: str = ""
    """What went wrong while deciding; the verdict stands all the same."""
    allowed: bool = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "allowed", self.verdict is Verdict.ALLOW)

    def audit_annotations(self, domain: str) -> dict[str, str]:
        """`<domain>/<stage>-decision` and `-reason` for every stage that was asked."""
        found: dict[str, str] = {}
        for stage, verdict, reason in self.steps:
            found[f"{domain}/{stage}-decision"] = verdict.value
            found[f"{domain}/{stage}-reason"] = reason
        return found


NO_OPINION = Decision(Verdict.NO_OPINION)
ALLOW = Decision(Verdict.ALLOW)

_HTML = str.maketrans({"&": "&amp;", "<": "&lt;", ">": "&gt;"})


def forbidden(attributes: Attributes, reason: str = "") -> Denied:
    """The refusal, in the words kubectl users know."""
    message = _refusal(attributes).translate(_HTML)
    if reason:
        message = f"{message}: {reason}"
    return Denied.resource(attributes.group, attributes.resource, attributes.name, message)


def _refusal(attributes: Attributes) -> str:
    who = f"User {go_quote(attributes.user.name)} cannot {attributes.verb}"
    if not attributes.is_resource:
        return f"{who} path {go_quote(attributes.path)}"
    resource = attributes.resource
    if attributes.subresource:
        resource = f"{resource}/{attributes.subresource}"
    what = f"{who} resource {go_quote(resource)} in API group {go_quote(attributes.group)}"
    if attributes.namespace:
        return f"{what} in the namespace {go_quote(attributes.namespace)}"
    return f"{what} at the cluster scope"
