"""Subresources of pods: binding, eviction, and what only a kubelet can answer.

They exist for pods that a schema defines as Kubernetes' own kind. No pod runs here, so logs and commands
get the answers that Kubernetes gives for a pod without a node.
"""

from __future__ import annotations

from typing import Any

import msgspec

from pykcp.apis.kube.validation.custom import WHOLE
from pykcp.apis.kube.workloads.definition import STREAMED
from pykcp.machinery.conditions import is_true
from pykcp.machinery.labels import SelectorError, from_label_selector
from pykcp.machinery.meta import now_rfc3339
from pykcp.machinery.resources import GroupVersionResource
from pykcp.machinery.schema.openapi_json import from_json
from pykcp.machinery.status import (
    BadRequest,
    Cause,
    Forbidden,
    InternalError,
    Invalid,
    NotFound,
    ServiceUnavailable,
    TooManyRequests,
    go_quote,
    required,
)
from pykcp.registry import codec
from pykcp.registry.local import LocalClient
from pykcp.registry.resource import LARGE, Resource
from pykcp.registry.verbs.admitting import AdmissionRequest, ShownKind
from pykcp.registry.verbs.changes import ObjectChange, WriteTarget
from pykcp.registry.verbs.delete import delete
from pykcp.registry.verbs.deletion import DeleteOptions
from pykcp.registry.verbs.read import find
from pykcp.registry.verbs.update import update
from pykcp.server.call import Call, Handler
from pykcp.server.handlers.options import check_write_options
from pykcp.server.large.bindings import PodBinding
from pykcp.server.media.answers import send_object, send_text, success
from pykcp.server.media.bodies import body_of, check_type, parse_as
from pykcp.types import Object

_BUDGETS = GroupVersionResource("policy", "v1", "poddisruptionbudgets")
_ANY = from_json({"type": "object", "x-kubernetes-preserve-unknown-fields": True})
_FINISHED = ("Succeeded", "Failed", "Pending")
"""Phases in which no budget protects a pod: it does not run, or not yet."""
_OLD = "policy/v1beta1"
_MAX_DISRUPTED = 2000
_VIOLATED = "Cannot evict pod as it would violate the pod's disruption budget."


class PodVerbs:
    def __init__(self, client: LocalClient) -> None:
        self._client = client

    def find(self, call: Call) -> Handler | None:
        subresource = call.info.subresource
        if subresource == "binding":
            return self._bind
        if subresource == "eviction":
            return self._evict
        return self._stream if subresource in STREAMED else None

    async def _bind(self, call: Call) -> None:
        check_write_options(call, "CreateOptions")
        binding = await self._sent(call, "Binding", "v1")
        target = (binding.get("target") or {}).get("name")
        if not target:
            raise Invalid.fields("", "Binding", call.info.name, [required("target.name")])
        given = binding.get("metadata") or {}

        now = now_rfc3339(call.resource.services.sources.now.clock())
        recipe = PodBinding(target, given, now)
        place = WriteTarget(call.resource, call.context, call.info.namespace, call.info.name, WHOLE)
        await update(place, ObjectChange.of(recipe, call.resource, call.context))
        send_object(call, {**success(details=False), "code": 201}, 201)

    async def _evict(self, call: Call) -> None:
        check_write_options(call, "CreateOptions")
        eviction = await self._sent(call, "Eviction", "policy/v1")
        raw = eviction.get("deleteOptions") or {}
        if "All" in (raw.get("dryRun") or ()):
            call.context.dry_run = True
        info = call.info
        entry = find(call.resource, call.context, info.namespace, info.name)
        pod = call.resource.object_of(entry.value)
        if not _is_unprotected(pod):
            await self._use_budget(call, pod)
        conditions = raw.get("preconditions") or {}
        options = DeleteOptions(
            grace_period=raw.get("gracePeriodSeconds"),
            uid=conditions.get("uid"),
            resource_version=conditions.get("resourceVersion"),
            orphan_dependents=raw.get("orphanDependents"),
            propagation=raw.get("propagationPolicy"),
        )
        await delete(call.resource, call.context, info.namespace, info.name, options)
        send_object(call, {**success(details=False), "code": 201}, 201)

    async def _sent(self, call: Call, kind: str, api_version: str) -> Object:
        """What was sent, after admission."""
        value = parse_as(call, kind, api_version)
        if kind == "Eviction" and isinstance(value, dict) and value.get("apiVersion") == _OLD:
            value["apiVersion"] = api_version  # drains of older clients; both have the same fields
        obj = check_type(value, kind, api_version, body_of(call))
        codec.strip_cluster(obj)
        info = call.info
        metadata = obj.setdefault("metadata", {})
        if not isinstance(metadata, dict) or metadata.get("name", info.name) != info.name:
            raise BadRequest(f"name in URL does not match name in {kind} object")
        metadata["name"] = info.name
        if metadata.setdefault("namespace", info.namespace) != info.namespace:
            raise BadRequest(
                "the namespace of the provided object does not match the namespace sent on the request"
            )
        group, _, version = api_version.rpartition("/")
        request = AdmissionRequest(
            call.context,
            call.resource,
            "CREATE",
            info.namespace,
            info.name,
            obj,
            None,
            info.subresource,
        )
        request.kind = ShownKind(group, version, kind, _ANY)
        admission = call.resource.services.admission
        await admission.mutate(request)
        await admission.validate(request)
        assert request.obj is not None
        return request.obj

    async def _use_budget(self, call: Call, pod: Object) -> None:
        budgets = await self._budgets(call.cluster, pod)
        if not budgets:
            return
        if len(budgets) > 1:
            raise InternalError(
                "This pod has more than one PodDisruptionBudget, which the eviction subresource "
                "does not support."
            )
        (budget,) = budgets
        status = budget.get("status") or {}
        if not is_true(pod, "Ready") and _allows_unready(budget, status):
            return
        name = budget["metadata"]["name"]

        def take(live: Object) -> None:
            found = live.setdefault("status", {})
            _check_allowed(live, name)
            found["disruptionsAllowed"] -= 1
            now = now_rfc3339(call.resource.services.sources.now.clock())
            disrupted = found["disruptedPods"] = found.get("disruptedPods") or {}
            disrupted[pod["metadata"]["name"]] = now

        if call.context.dry_run:
            take(codec.copy(budget))
            return
        await self._client.change(call.cluster, _BUDGETS, name, take, call.info.namespace, "status")

    async def _budgets(self, cluster: str, pod: Object) -> list[Object]:
        """The budgets that select a pod."""
        labels = pod["metadata"].get("labels") or {}
        try:
            found = await self._client.list(cluster, _BUDGETS, pod["metadata"]["namespace"])
        except NotFound:
            return []  # the workspace has no budgets
        return [budget for budget in found if _selects(budget, labels)]

    async def _stream(self, call: Call) -> None:
        info = call.info
        entry = find(call.resource, call.context, info.namespace, info.name)
        spec = _spec_of(call.resource, entry.value)
        if info.subresource != "portforward":
            _check_container(spec, info.param("container"), info.name)
        node = spec.get("nodeName")
        if not node and info.subresource == "log":
            send_text(call, "")  # it has written nothing yet
            return
        if not node:
            raise BadRequest(f"pod {info.name} does not have a host assigned")
        raise ServiceUnavailable(
            f"this server has no connection to the node {go_quote(str(node))}, "
            f"which the pod {info.name} is assigned to"
        )


class _Named(msgspec.Struct):
    name: str = ""


class _Spec(msgspec.Struct, rename="camel"):
    """What is looked at here."""

    node_name: str = ""
    init_containers: list[_Named] = []
    containers: list[_Named] = []
    ephemeral_containers: list[_Named] = []


class _Pod(msgspec.Struct):
    spec: _Spec


_decode_pod = msgspec.json.Decoder(_Pod).decode


def _spec_of(resource: Resource, value: bytes) -> Object:
    """The spec of a pod: node and names of containers, if it is large."""
    if len(value) <= LARGE:
        return resource.object_of(value).get("spec") or {}
    try:
        found: Object = msgspec.to_builtins(_decode_pod(value).spec)
    except msgspec.ValidationError:  # stored under a schema of another form
        return resource.object_of(value).get("spec") or {}
    return found


def _check_container(spec: Object, chosen: str, pod: str) -> None:
    """Raises if no container is chosen and there are several, or one that the pod does not have."""
    groups = ("initContainers", "containers", "ephemeralContainers")
    known = [str(one.get("name")) for group in groups for one in spec.get(group) or ()]
    if chosen and chosen not in known:
        raise BadRequest(f"container {chosen} is not valid for pod {pod}")
    if not chosen and len(spec.get("containers") or ()) > 1:
        names = " ".join(known)
        raise BadRequest(
            f"a container name must be specified for pod {pod}, choose one of: [{names}]"
        )


def _is_unprotected(pod: Object) -> bool:
    phase = (pod.get("status") or {}).get("phase")
    return phase in _FINISHED or bool(pod["metadata"].get("deletionTimestamp"))


def _selects(budget: Object, labels: dict[str, Any]) -> bool:
    try:
        selector = from_label_selector((budget.get("spec") or {}).get("selector"))
    except SelectorError:
        return False
    return selector.matches(labels)


def _allows_unready(budget: Object, status: Object) -> bool:
    if (budget.get("spec") or {}).get("unhealthyPodEvictionPolicy") == "AlwaysAllow":
        return True
    desired = status.get("desiredHealthy") or 0
    return desired > 0 and (status.get("currentHealthy") or 0) >= desired


def _check_allowed(budget: Object, name: str) -> None:
    """Raises why a budget does not allow one more pod to be evicted."""
    status = budget.get("status") or {}
    if (status.get("observedGeneration") or 0) < (budget["metadata"].get("generation") or 0):
        why = f"The disruption budget {name} is still being processed by the server."
        raise TooManyRequests(_VIOLATED, retry_after=10, causes=[Cause("DisruptionBudget", why)])
    allowed = status.get("disruptionsAllowed") or 0
    group, kind = "policy", "poddisruptionbudget"
    if allowed < 0:
        raise Forbidden.resource(group, kind, name, "pdb disruptions allowed is negative")
    if len(status.get("disruptedPods") or ()) > _MAX_DISRUPTED:
        why = "DisruptedPods map too big - too many evictions not confirmed by PDB controller"
        raise Forbidden.resource(group, kind, name, why)
    if allowed == 0:
        healthy, desired = status.get("currentHealthy") or 0, status.get("desiredHealthy") or 0
        why = f"The disruption budget {name} does not allow evicting pods currently"
        if healthy <= desired:
            why = f"The disruption budget {name} needs {desired} healthy pods and has {healthy} currently"
        raise TooManyRequests(_VIOLATED, causes=[Cause("DisruptionBudget", why)])
