"""authorizer.…check('verb'): checks the permissions of a user.

The caller that evaluates the expression passes a `CelAuthorizer` with a function that decides.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, ClassVar

from pykcp.machinery.cel.library.formats import _FORMATS
from pykcp.machinery.cel.runtime.values import EvalError


@dataclass(frozen=True, slots=True)
class CelAccessCheck:
    """What is asked: a path, or a resource when `path` is empty."""

    user: Any
    verb: str
    path: str = ""
    group: str = ""
    resource: str = ""
    subresource: str = ""
    namespace: str = ""
    name: str = ""
    field_selector: str = ""
    label_selector: str = ""


@dataclass(frozen=True, slots=True)
class CelDecision:
    cel_type: ClassVar[str] = "kubernetes.authorization.Decision"
    allowed: bool
    reason: str = ""
    error: str = ""


@dataclass(frozen=True, slots=True)
class CelAuthorizer:
    """`service_account` makes the user for a namespace and a name."""

    cel_type: ClassVar[str] = "kubernetes.authorization.Authorizer"
    user: Any
    decide: Callable[[CelAccessCheck], CelDecision]
    service_account: Callable[[str, str], Any]


@dataclass(frozen=True, slots=True)
class PathCheck:
    cel_type: ClassVar[str] = "kubernetes.authorization.PathCheck"
    authorizer: CelAuthorizer
    path: str

    def check(self, verb: str) -> CelDecision:
        return self.authorizer.decide(CelAccessCheck(self.authorizer.user, verb, path=self.path))


@dataclass(frozen=True, slots=True)
class GroupCheck:
    cel_type: ClassVar[str] = "kubernetes.authorization.GroupCheck"
    authorizer: CelAuthorizer
    group: str


@dataclass(frozen=True, slots=True)
class ResourceCheck:
    cel_type: ClassVar[str] = "kubernetes.authorization.ResourceCheck"
    authorizer: CelAuthorizer
    question: CelAccessCheck

    def check(self, verb: str) -> CelDecision:
        return self.authorizer.decide(replace(self.question, verb=verb))

    def but(self, **fields: str) -> ResourceCheck:
        return ResourceCheck(self.authorizer, replace(self.question, **fields))


def _path(authorizer: CelAuthorizer, path: str) -> PathCheck:
    if not path.strip():
        raise EvalError("path must not be empty")
    return PathCheck(authorizer, path)


def _resource(group: GroupCheck, resource: str) -> ResourceCheck:
    if not resource.strip():
        raise EvalError("resource must not be empty")
    question = CelAccessCheck(group.authorizer.user, "", group=group.group, resource=resource)
    return ResourceCheck(group.authorizer, question)


def _service_account(authorizer: CelAuthorizer, namespace: str, name: str) -> CelAuthorizer:
    if _FORMATS["dns1123Subdomain"].check(name):
        raise EvalError("Invalid service account name")
    if _FORMATS["dns1123Label"].check(namespace):
        raise EvalError("Invalid service account namespace")
    return replace(authorizer, user=authorizer.service_account(namespace, name))


FUNCTIONS: dict[str, Callable[..., Any]] = {
    "authorizer_path": _path,
    "authorizer_group": GroupCheck,
    "authorizer_serviceaccount": _service_account,
    "groupcheck_resource": _resource,
    "resourcecheck_subresource": lambda c, v: c.but(subresource=v),
    "resourcecheck_namespace": lambda c, v: c.but(namespace=v),
    "resourcecheck_name": lambda c, v: c.but(name=v),
    "authorizer_fieldselector": lambda c, v: c.but(field_selector=v),
    "authorizer_labelselector": lambda c, v: c.but(label_selector=v),
    "pathcheck_check": PathCheck.check,
    "resourcecheck_check": ResourceCheck.check,
    "decision_allowed": lambda d: d.allowed,
    "decision_reason": lambda d: d.reason,
    "decision_error": lambda d: d.error,
    "decision_errored": lambda d: bool(d.error),
}
