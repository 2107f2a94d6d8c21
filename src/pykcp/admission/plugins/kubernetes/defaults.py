"""Plug-ins that kube-apiserver has by default: classes, priorities and taints of new objects."""

from __future__ import annotations

from collections.abc import AsyncIterator

from pykcp.admission.plugins.kubernetes import is_kubernetes
from pykcp.admission.plugins.kubernetes.objects import OtherObjects
from pykcp.apis.kube.workloads.forms import WRONG_FORM
from pykcp.machinery import meta
from pykcp.machinery.resources import GroupVersionResource
from pykcp.machinery.status import Forbidden
from pykcp.registry.stored import StoreReader
from pykcp.registry.verbs.admitting import AdmissionRequest
from pykcp.types import Object

_STORAGE_CLASSES = ("storage.k8s.io", "storageclasses")
_INGRESS_CLASSES = ("networking.k8s.io", "ingressclasses")
_PRIORITY_CLASSES = ("scheduling.k8s.io", "priorityclasses")
_RUNTIME_CLASSES = ("node.k8s.io", "runtimeclasses")
_DEFAULT_STORAGE = "storageclass.kubernetes.io/is-default-class"
_DEFAULT_INGRESS = "ingressclass.kubernetes.io/is-default-class"
_NOT_READY: Object = {"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"}


class DefaultClass:
    """The default class of claims and ingresses that name none: the newest one of several."""

    operations = ("CREATE",)

    def __init__(self, store: StoreReader, name: str, kind: GroupVersionResource) -> None:
        self.name, self.kind = name, kind
        self._objects = OtherObjects(store)
        is_claim = kind.resource == "persistentvolumeclaims"
        self._field = "storageClassName" if is_claim else "ingressClassName"
        self._classes = _STORAGE_CLASSES if is_claim else _INGRESS_CLASSES
        self._mark = _DEFAULT_STORAGE if is_claim else _DEFAULT_INGRESS

    def wants(self, request: AdmissionRequest) -> bool:
        return is_kubernetes(request)

    async def mutate(self, request: AdmissionRequest) -> None:
        spec = request.spec_with((self._field,))
        if spec is None or spec.get(self._field) is not None:
            return
        notes = request.metadata.get("annotations") or {}
        if any("class" in key and key.startswith(_NAMED_BEFORE) for key in notes):
            return
        found = [
            one
            async for one in self._objects.marked(request, self._classes, self._mark)
            if meta.annotation(one, self._mark) == "true"
        ]
        if found:
            found.sort(key=lambda one: one["metadata"]["name"])
            found.sort(key=lambda one: one["metadata"]["creationTimestamp"], reverse=True)
            spec[self._field] = found[0]["metadata"]["name"]


_NAMED_BEFORE = ("volume.beta.kubernetes.io/", "kubernetes.io/ingress")
"""Annotations that named a class before there was a field."""


class PodPriority:
    """The priority of a new pod is that of its class; one class may be the default."""

    name = "Priority"
    kinds = (
        GroupVersionResource("", "v1", "pods"),
        GroupVersionResource("scheduling.k8s.io", "v1", "priorityclasses"),
    )
    operations = ("CREATE", "UPDATE")

    def __init__(self, store: StoreReader) -> None:
        self._objects = OtherObjects(store)

    def wants(self, request: AdmissionRequest) -> bool:
        is_pod = request.resource.plural == "pods"
        return is_kubernetes(request) and (request.operation == "CREATE" or not is_pod)

    async def mutate(self, request: AdmissionRequest) -> None:
        if request.resource.plural != "pods":
            return
        spec = request.spec_with(("priorityClassName", "priority", "preemptionPolicy"))
        if spec is None:
            return
        found = await self._class(request, spec.get("priorityClassName") or "")
        priority = found["value"]
        given = spec.get("priority")
        if given is not None and given != priority:
            raise _forbidden(
                request,
                f"the integer value of priority ({given}) must not be provided in pod spec; "
                f"priority admission controller computed {priority} from the given PriorityClass name",
            )
        if found["name"]:
            spec["priorityClassName"] = found["name"]
        spec["priority"] = priority
        policy = found["policy"]
        if spec.setdefault("preemptionPolicy", policy) != policy:
            raise _forbidden(
                request,
                f"the string value of PreemptionPolicy ({spec['preemptionPolicy']}) must not be "
                f"provided in pod spec; priority admission controller computed {policy} from the "
                "given PriorityClass name",
            )

    async def _class(self, request: AdmissionRequest, name: str) -> Object:
        from pykcp.apis.kube.workloads.service_rules import SYSTEM_PRIORITIES

        if name in SYSTEM_PRIORITIES:
            return _priority(name, {"value": SYSTEM_PRIORITIES[name]})
        if name:
            found = self._objects.get(request, _PRIORITY_CLASSES, name)
            if found is None:
                raise _forbidden(request, f"no PriorityClass with name {name} was found")
            return _priority(name, found)
        defaults = [one async for one in self._defaults(request)]
        if not defaults:
            return _priority("", {"value": 0})
        lowest = min(defaults, key=lambda one: one.get("value") or 0)
        return _priority(lowest["metadata"]["name"], lowest)

    async def _defaults(self, request: AdmissionRequest) -> AsyncIterator[Object]:
        async for one in self._objects.marked(request, _PRIORITY_CLASSES, "globalDefault"):
            if one.get("globalDefault") is True:
                yield one

    async def validate(self, request: AdmissionRequest) -> None:
        """There is one default class."""
        if request.resource.plural == "pods" or not (request.obj or {}).get("globalDefault"):
            return
        async for one in self._defaults(request):
            name = one["metadata"]["name"]
            if name != request.name:
                why = (
                    f"PriorityClass {name} is already marked as default. Only one default can exist"
                )
                raise _forbidden(request, why)


def _priority(name: str, found: Object) -> Object:
    policy = found.get("preemptionPolicy") or "PreemptLowerPriority"
    return {"name": name, "value": found.get("value") or 0, "policy": policy}


class PodRuntime:
    """The overhead, nodes and tolerations of a new pod's RuntimeClass."""

    name = "RuntimeClass"
    kind = GroupVersionResource("", "v1", "pods")
    operations = ("CREATE",)

    def __init__(self, store: StoreReader) -> None:
        self._objects = OtherObjects(store)

    def wants(self, request: AdmissionRequest) -> bool:
        return is_kubernetes(request)

    async def mutate(self, request: AdmissionRequest) -> None:
        names = ("runtimeClassName", "overhead", "nodeSelector", "tolerations")
        spec = request.spec_with(names)
        if spec is None:
            return
        name, found = spec.get("runtimeClassName"), None
        if name:
            found = self._objects.get(request, _RUNTIME_CLASSES, name)
            if found is None:
                raise _forbidden(request, f'pod rejected: RuntimeClass "{name}" not found')
        try:
            _set_overhead(request, spec, ((found or {}).get("overhead") or {}).get("podFixed"))
            _set_scheduling(request, spec, (found or {}).get("scheduling") or {})
        except WRONG_FORM:
            return  # the checks reject it


def _set_overhead(request: AdmissionRequest, spec: Object, overhead: Object | None) -> None:
    given = spec.get("overhead")
    if overhead is None:
        if given:
            text = (
                "pod rejected: Pod Overhead set without corresponding RuntimeClass defined Overhead"
            )
            raise _forbidden(request, text)
        return
    if given and given != overhead:
        text = "pod rejected: Pod's Overhead doesn't match RuntimeClass's defined Overhead"
        raise _forbidden(request, text)
    spec["overhead"] = overhead


def _set_scheduling(request: AdmissionRequest, spec: Object, scheduling: Object) -> None:
    wanted, selector = scheduling.get("nodeSelector") or {}, spec.get("nodeSelector") or {}
    for key, value in sorted(wanted.items()):
        if selector.get(key, value) != value:
            text = (
                f"conflict: runtimeClass.scheduling.nodeSelector[{key}] = {value}; "
                f"pod.spec.nodeSelector[{key}] = {selector[key]}"
            )
            raise _forbidden(request, text)
    if wanted:
        spec["nodeSelector"] = {**selector, **wanted}
    tolerations = spec.get("tolerations") or []
    more = [one for one in scheduling.get("tolerations") or () if one not in tolerations]
    if more:
        spec["tolerations"] = [*tolerations, *more]


_PROTECTING = {
    "persistentvolumeclaims": "kubernetes.io/pvc-protection",
    "persistentvolumes": "kubernetes.io/pv-protection",
    "volumeattributesclasses": "kubernetes.io/vac-protection",
}


class VolumeProtection:
    """Finalizers that protect volumes and claims in use, where the server is as bare as kube-apiserver.

    No controller removes them: on other servers, such objects could never be deleted.
    """

    name = "StorageObjectInUseProtection"
    kinds = (
        GroupVersionResource("", "v1", "persistentvolumeclaims"),
        GroupVersionResource("", "v1", "persistentvolumes"),
        GroupVersionResource("storage.k8s.io", "v1", "volumeattributesclasses"),
    )
    operations = ("CREATE",)

    def wants(self, request: AdmissionRequest) -> bool:
        return is_kubernetes(request)

    async def mutate(self, request: AdmissionRequest) -> None:
        finalizer = _PROTECTING[request.resource.plural]
        metadata = request.metadata
        finalizers = metadata.get("finalizers") or []
        if finalizer not in finalizers:
            metadata["finalizers"] = [*finalizers, finalizer]


class NodeTaints:
    """A new node gets no pods until it reports that it is ready."""

    name = "TaintNodesByCondition"
    kind = GroupVersionResource("", "v1", "nodes")
    operations = ("CREATE",)

    def wants(self, request: AdmissionRequest) -> bool:
        return is_kubernetes(request)

    async def mutate(self, request: AdmissionRequest) -> None:
        if request.obj is None:
            return
        try:
            taints = request.obj.setdefault("spec", {}).setdefault("taints", [])
            if not any(taint == _NOT_READY for taint in taints):
                taints.append({**_NOT_READY})
        except WRONG_FORM:
            return  # the checks reject it


def _forbidden(request: AdmissionRequest, why: str) -> Forbidden:
    resource = request.resource
    return Forbidden.resource(resource.group, resource.plural, request.name, why)
