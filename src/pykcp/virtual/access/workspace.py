"""The view of `/services/access/clusters/<workspace>`: who may do what, and why.

Every user may ask about themselves. Users who may not enter the workspace get the same answer
whether it exists or not. Asking about others requires `create` on `subjectaccessreviews` in the
workspace, and asking who may do something requires `list` on the bindings.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

from pykcp.aio.slices import in_slices
from pykcp.apis.catalog import ResourceDefinition
from pykcp.apis.loader import library
from pykcp.auth.authz.attributes import (
    ALLOW,
    Attributes,
    Decision,
    StageFinding,
    Verdict,
    forbidden,
)
from pykcp.auth.authz.role_cache import ADMIN_CLUSTER
from pykcp.auth.authz.stages import NO_ACCESS
from pykcp.auth.review_validation import self_review_errors, subject_review_errors
from pykcp.auth.reviews import review_attributes, spec_user
from pykcp.auth.user import AUTHENTICATED, MASTERS, User
from pykcp.machinery.resources import API_BINDINGS
from pykcp.machinery.schema.model import Schema
from pykcp.machinery.status import FieldError, Invalid
from pykcp.registry.catalog.make import make_custom
from pykcp.registry.catalog.native import decode_native
from pykcp.registry.resource import Resource
from pykcp.server import constant_time
from pykcp.server.call import Call, Handler
from pykcp.server.handlers.get import transformed
from pykcp.server.handlers.options import check_write_options
from pykcp.server.media.answers import send_object
from pykcp.server.media.bodies import check_type, media_type, parse_as, raise_or_warn
from pykcp.server.media.negotiation import JSON
from pykcp.steps import Steps
from pykcp.types import Object
from pykcp.virtual.access import kinds, wording
from pykcp.virtual.framework import DENIED, Parts, VirtualView, Visit
from pykcp.virtual.tree import split_path

_REVIEWS = "authorization.k8s.io"
_RBAC = "rbac.authorization.k8s.io"
_ENTRANCE = frozenset(("01-requiredgroups", "02-content"))
_NOT_ENTERED = 'the user has no access to the workspace (verb "access" on the path "/")'
_NO_ACCESS = "the workspace does not exist, or the user has no access to it"
_STAGE_NAMES = {
    "01-requiredgroups": "RequiredGroups",
    "02-content": "WorkspaceAccess",
    "03-systemcrd": "SystemResources",
    "04-maxpermissionpolicy": "MaximalPermissionPolicy",
}


class AccessWorkspace:
    name = "access"
    checks: tuple[str, ...] = ()

    def __init__(self, parts: Parts) -> None:
        self._lookup = parts.lookup
        self._view = AccessView(parts)

    def visit(self, path: str) -> Visit | None:
        place = split_path(path)
        if place is None:
            return None
        # A workspace that does not exist is answered like one that the user may not enter.
        cluster = self._lookup.cluster_of(place[0])
        if cluster is None or self._lookup.logical_cluster(cluster) is None:
            cluster = "system:nowhere"
        return Visit(self._view, cluster, place[1])


class AccessView(VirtualView):
    serves_inactive = True  # a denial must not disclose that a workspace is one of those

    def __init__(self, parts: Parts) -> None:
        self._parts, self._authorizer = parts, parts.authorizer
        self._resources: dict[str, Resource] = {}

    def definitions(self, cluster: str) -> tuple[ResourceDefinition, ...]:
        return (kinds.explanation_definition(), kinds.holder_definition())

    def find(self, call_cluster: str, group: str, version: str, plural: str) -> Resource | None:
        if (group, version) != (kinds.GROUP, kinds.VERSION):
            return None
        if not self._resources:
            services = self._parts.directory.builtin(*API_BINDINGS).services
            for one in self.definitions(call_cluster):
                self._resources[one.plural] = make_custom(one, kinds.VERSION, 0, services)
        return self._resources.get(plural)

    async def authorize(self, call: Call) -> Decision:
        """Every user may ask; what is answered is decided in the handlers."""
        return ALLOW if AUTHENTICATED in call.user.groups else DENIED

    def handler(self, call: Call) -> Handler:
        return self._explain if call.info.resource == kinds.EXPLANATIONS else self._list_holders

    # --- why

    async def _explain(self, call: Call) -> None:
        review = _read(call, kinds.EXPLANATION)
        spec = review.get("spec") or {}
        is_own = not spec.get("user") and not spec.get("groups")
        errors = self_review_errors if is_own else subject_review_errors
        await _refuse_invalid(call, kinds.EXPLANATION, errors, review)
        if not is_own:
            await self._require(call, "create", _REVIEWS, "subjectaccessreviews")
        asked = review_attributes(spec, call.user if is_own else spec_user(spec))
        decision = await self._authorizer.authorize(call.cluster, asked)
        has_entered = not is_own or _may_enter(decision)
        status = await self._status(call, asked, decision, has_entered)
        if not has_entered:
            await constant_time.wait(call.started)
        _send(call, {**review, "status": status})

    async def _status(
        self, call: Call, asked: Attributes, decision: Decision, has_entered: bool
    ) -> Object:
        who, what = wording.user_in_words(asked.user), wording.request_in_words(asked)
        if not has_entered:
            message = f"{who} may not {what}: {_NO_ACCESS}."
            missing = _entrance(asked.user, _NO_ACCESS)
            return {"allowed": False, "message": message, "missing": missing}
        status: Object = {"allowed": decision.allowed}
        if decision.allowed:
            return {**status, **await self._allowed(call.cluster, asked, decision, who, what)}
        stages = _stages(decision)
        blocked = next((s for s in decision.steps if s.stage in _STAGE_NAMES), None)
        if not _is_about_grants(decision) and blocked is not None:
            why = _blocked_by(blocked)
            message = f"{who} may not {what}: {why}."
            status |= {"authorizer": "RBAC", "message": message, "stages": stages}
            if blocked.stage in _ENTRANCE:
                status["missing"] = _entrance(asked.user, why)
            else:
                status["missing"] = {"message": why}
            return status
        return {**status, **await self._denied(call, asked, who, what), "stages": stages}

    async def _allowed(
        self, cluster: str, asked: Attributes, decision: Decision, who: str, what: str
    ) -> Object:
        grants = (await self._authorizer.held_rules(cluster, asked)).allowing
        if not decision.steps and MASTERS in asked.user.groups:
            why, by = f"members of {MASTERS} may do everything", "AlwaysAllowGroups"
        elif not decision.steps and not asked.is_resource:
            why, by = "the path is open to all users", "AlwaysAllowPaths"
        elif grants:
            why, by = f"allowed by {wording.grant_in_words(grants[0])}", "RBAC"
        else:
            why, by = decision.reason or "allowed by the authorization webhook", "Webhook"
        return {
            "message": f"{who} may {what}: {why}.",
            "authorizer": by,
            "stages": _stages(decision),
            "grants": [wording.grant_as_json(one) for one in grants],
        }

    async def _denied(self, call: Call, asked: Attributes, who: str, what: str) -> Object:
        held = await self._authorizer.held_rules(call.cluster, asked)
        why = "no rule that is granted to the user allows it"
        missing: Object = {
            "message": f"Grant the user permission to {what}.",
            "rule": wording.needed_rule(asked),
            "commands": wording.grant_commands(asked),
        }
        if asked.namespace and asked.is_resource:
            missing["namespace"] = asked.namespace
        if held.roles and await self._may(call, "list", _RBAC, "clusterroles"):
            missing["roles"] = held.roles
        near = [wording.grant_as_json(one) for one in held.near]
        if held.near:
            why = f"{why}; the nearest is {wording.grant_in_words(held.near[0])}"
        return {
            "authorizer": "RBAC",
            "message": f"{who} may not {what}: {why}.",
            "nearMisses": near,
            "missing": missing,
        }

    # --- who can

    async def _list_holders(self, call: Call) -> None:
        review = _read(call, kinds.HOLDER_REVIEW)
        await _refuse_invalid(call, kinds.HOLDER_REVIEW, self_review_errors, review)
        for resource in ("clusterrolebindings", "rolebindings"):
            await self._require(call, "list", _RBAC, resource)
        asked = review_attributes(review["spec"], call.user)
        question = Attributes(call.user, "list", group=_RBAC, resource="clusterrolebindings")
        sees_all = (await self._authorizer.authorize(ADMIN_CLUSTER, question)).allowed
        found = await self._authorizer.holders(call.cluster, asked, with_everywhere=sees_all)
        users = {g.grant.subject_name for g in found.found if g.grant.subject_kind != "Group"}
        groups = {g.grant.subject_name for g in found.found if g.grant.subject_kind == "Group"}
        status: Object = {
            "users": sorted(users),
            "groups": sorted(groups),
            "grants": [wording.grant_as_json(one) for one in found.found],
            "incomplete": not found.is_complete,
        }
        _send(call, {**review, "status": status})

    # --- rights of the user who asks

    async def _may(self, call: Call, verb: str, group: str, resource: str) -> bool:
        question = Attributes(call.user, verb, group=group, resource=resource)
        return (await self._authorizer.authorize(call.cluster, question)).allowed

    async def _require(self, call: Call, verb: str, group: str, resource: str) -> None:
        if not await self._may(call, verb, group, resource):
            question = Attributes(call.user, verb, group=group, resource=resource)
            raise forbidden(question, "access denied")


def _read(call: Call, kind: str) -> Object:
    """The review that was sent; its spec is that of a SubjectAccessReview."""
    check_write_options(call, "CreateOptions")
    body = call.exchange.request.body
    obj = check_type(parse_as(call, kind, kinds.API_VERSION), kind, kinds.API_VERSION, body)
    problems: list[str] = []
    text = body if media_type(call) == JSON else None
    review = decode_native(_spec_schema(), kind, kinds.VERSION, obj, problems, text)
    if call.context.field_validation != "Ignore":
        raise_or_warn(call.context.field_validation, problems, call.context.warn)
    metadata = review.get("metadata") or {}
    metadata.pop("creationTimestamp", None)
    head = {"kind": kind, "apiVersion": kinds.API_VERSION, "metadata": metadata}
    return {**head, "spec": review.get("spec") or {}}


@cache
def _spec_schema() -> Schema:
    return library().kind("kube/authorization_v1", "SubjectAccessReview")


_Check = Callable[[Object], Steps[list[FieldError]]]


async def _refuse_invalid(call: Call, kind: str, errors: _Check, review: Object) -> None:
    found = await in_slices(errors({**review, "metadata": {}}), call.cluster)
    if found:
        raise Invalid.fields(kinds.GROUP, kind, "", found)


def _may_enter(decision: Decision) -> bool:
    """Whether the user may know that the workspace exists."""
    if decision.allowed:
        return True
    return bool(decision.steps) and decision.steps[0].stage not in _ENTRANCE


def _is_about_grants(decision: Decision) -> bool:
    return any(step.stage.startswith("05-") for step in decision.steps)


def _stages(decision: Decision) -> list[Object]:
    """The stages in the order in which they were asked; roles of other workspaces are left out."""
    found: list[Object] = []
    for stage, verdict, reason in reversed(decision.steps):
        name = _STAGE_NAMES.get(stage)
        if name is None:
            continue
        is_passed = reason.startswith("delegating due to ") or verdict is Verdict.ALLOW
        shown: Object = {"name": name, "result": "Passed" if is_passed else "Blocked"}
        if stage != "04-maxpermissionpolicy":
            shown["message"] = reason.removeprefix("delegating due to ")
        found.append(shown)
    return found


def _blocked_by(step: StageFinding) -> str:
    if step.stage == "04-maxpermissionpolicy":
        export = step.reason.partition(" policy:")[0]
        return f"the maximal permission policy of {export} does not allow it"
    return _NOT_ENTERED if step.reason == NO_ACCESS else step.reason


def _entrance(user: User, why: str) -> Object:
    return {
        "message": f"An administrator of the workspace can grant access: {why}.",
        "rule": {"verbs": ["access"], "nonResourceURLs": ["/"]},
        "commands": wording.access_commands(user),
    }


def _send(call: Call, answer: Object) -> None:
    send_object(call, transformed(call, answer) if call.accepted.transform else answer, 201)
