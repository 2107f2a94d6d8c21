"""A request as matching sees it, and as webhooks and expressions are shown it."""

from __future__ import annotations

from typing import Any

import orjson

from pykcp.machinery.status import Forbidden
from pykcp.registry.codec import with_cluster
from pykcp.registry.resource import Resource
from pykcp.registry.verbs.admitting import AdmissionRequest, ShownKind
from pykcp.registry.verbs.deletion import DeleteOptions
from pykcp.registry.verbs.large_request import LargeRequest
from pykcp.types import Object

_OPTIONS = {"CREATE": "CreateOptions", "UPDATE": "UpdateOptions", "DELETE": "DeleteOptions"}
_EXEMPT = frozenset(
    (
        "validatingwebhookconfigurations",
        "mutatingwebhookconfigurations",
        "validatingadmissionpolicies",
        "validatingadmissionpolicybindings",
        "mutatingadmissionpolicies",
        "mutatingadmissionpolicybindings",
    )
)
_REVIEWS = frozenset(
    (
        ("authentication.k8s.io", "selfsubjectreviews"),
        ("authentication.k8s.io", "tokenreviews"),
        ("authorization.k8s.io", "localsubjectaccessreviews"),
        ("authorization.k8s.io", "selfsubjectaccessreviews"),
        ("authorization.k8s.io", "selfsubjectrulesreviews"),
        ("authorization.k8s.io", "subjectaccessreviews"),
    )
)
GROUP = "admissionregistration.k8s.io"


def is_exempt(resource: Resource) -> bool:
    """Whether it configures admission itself: nothing could repair it if it were subject to it."""
    return resource.group == GROUP and resource.plural in _EXEMPT


def is_exempt_from_policies(resource: Resource) -> bool:
    """The same for policies, which are not asked about reviews either: webhooks are."""
    return is_exempt(resource) or (resource.group, resource.plural) in _REVIEWS


class Subject:
    """One write. What does not change while plug-ins work on it."""

    __slots__ = (
        "_shown", "cluster", "encoded", "found_labels", "kind", "name", "namespace", "operation", "request", "resource",
        "subresource",
    )  # fmt: skip

    def __init__(self, request: AdmissionRequest) -> None:
        self.request = request
        self.cluster = request.context.cluster
        self.resource = request.resource
        self.operation = request.operation
        self.subresource = request.subresource
        self.kind = request.kind
        self.name = request.name
        self.namespace = request.namespace
        if self.is_namespace and request.operation == "CREATE":
            self.namespace = request.name
        self._shown: dict[Resource, tuple[Object | None, Object | None]] = {}
        self.encoded: dict[Resource, tuple[bytes, bytes]] = {}
        """What webhooks are sent of the objects, until one of them changes."""
        self.found_labels: tuple[dict[str, str] | None] | None = None
        """Those of the namespace, once they have been looked up for a selector."""

    def shown(self, target: Resource) -> tuple[Object | None, Object | None]:
        """The new and the old object as `target` shows them; see `show` for other versions."""
        if self.is_own(target):
            obj, old = self.request.obj, self.request.old
            return obj and typed(target, obj), old and typed(target, old)
        return self._shown[target]

    def sent(self, target: Resource, *, cluster: str = "") -> tuple[Any, Any]:
        """The same to be written into a text; `cluster`: to be named in them.

        A large object is not decoded for that.
        """
        request = self.request
        if isinstance(request, LargeRequest) and self.is_own(target) and self.kind is None:
            texts = request.shown_texts(cluster)
            if texts is not None:
                return orjson.Fragment(texts[0]), orjson.Fragment(texts[1])
        new, old = self.shown(target)
        if cluster:
            new, old = new and with_cluster(new, cluster), old and with_cluster(old, cluster)
        return new, old

    def show(self, target: Resource, obj: Object | None, old: Object | None) -> None:
        """Keep what the objects are in another version, until one of them changes."""
        self._shown[target] = obj, old

    def is_own(self, target: Resource) -> bool:
        """Whether the objects are what `target` shows: a scale is the same in all versions."""
        return target is self.resource or self.kind is not None

    def is_shown(self, target: Resource) -> bool:
        return self.is_own(target) or target in self._shown

    def changed(self) -> None:
        """The object changed: other versions of it are out of date."""
        self._shown.clear()
        self.encoded.clear()

    @property
    def is_namespace(self) -> bool:
        return not self.resource.group and self.resource.plural == "namespaces"

    def forbidden(self, why: str) -> Forbidden:
        """A refusal that names the object, by its generated name's beginning if need be."""
        name = self.name
        if not name:
            metadata = self.request.metadata
            name = metadata.get("name") or metadata.get("generateName") or "Unknown"
        return Forbidden.resource(self.resource.group, self.resource.plural, name, why)


def typed(resource: Resource, obj: Object) -> Object:
    """The object with its type, which what comes from the store does without."""
    if "kind" in obj:
        return obj
    return {"kind": resource.kind, "apiVersion": resource.api_version, **obj}


def request_json(subject: Subject, target: Resource) -> Object:
    """The request for reviews and expressions, without uid and objects.

    `target`: the version of the resource that the rule asked for.
    """
    own, context = subject.resource, subject.request.context
    out: Object = {"kind": _kind(subject.kind or target), "resource": _resource(target)}
    if subject.subresource:
        out["subResource"] = subject.subresource
    out["requestKind"] = _kind(subject.kind or own)
    out["requestResource"] = _resource(own)
    if subject.subresource:
        out["requestSubResource"] = subject.subresource
    if subject.name:
        out["name"] = subject.name
    if subject.namespace:
        out["namespace"] = subject.namespace
    out["operation"] = subject.operation
    out["userInfo"] = context.user.to_json()
    out["dryRun"] = context.dry_run
    out["options"] = _options(subject)
    return out


def _kind(of: Resource | ShownKind) -> Object:
    return {"group": of.group, "version": of.version, "kind": of.kind}


def _resource(resource: Resource) -> Object:
    return {"group": resource.group, "version": resource.version, "resource": resource.plural}


def _options(subject: Subject) -> Any:
    """The options of the request as far as the client gave any."""
    kind = _OPTIONS.get(subject.operation)
    if kind is None:
        return None
    context, deletion = subject.request.context, subject.request.deletion
    out: Object = {"kind": kind, "apiVersion": "meta.k8s.io/v1"}
    if deletion is not None:
        out |= _deletion(deletion)
    if context.dry_run:
        out["dryRun"] = ["All"]
    if deletion is None and context.query:
        for name in ("fieldManager", "fieldValidation"):
            given = context.query.get(name)
            if given and given[0]:
                out[name] = given[0]
    return out


def _deletion(options: DeleteOptions) -> Object:
    out: Object = {}
    if options.grace_period is not None:
        out["gracePeriodSeconds"] = options.grace_period
    preconditions = {"uid": options.uid, "resourceVersion": options.resource_version}
    given = {name: value for name, value in preconditions.items() if value is not None}
    if given:
        out["preconditions"] = given
    if options.orphan_dependents is not None:
        out["orphanDependents"] = options.orphan_dependents
    if options.propagation is not None:
        out["propagationPolicy"] = options.propagation
    return out
