"""PodSecurity: namespaces ask by labels which pods they allow, note in the audit log, or warn of."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress

from pykcp.admission.plugins.kubernetes.objects import OtherObjects
from pykcp.aio.resting import rest
from pykcp.apis.kube.workloads import pod_security
from pykcp.apis.kube.workloads.forms import WRONG_FORM
from pykcp.apis.kube.workloads.pod_security import Judgement, LevelVersion, PodPolicy, Summary
from pykcp.machinery import meta
from pykcp.machinery.resources import GroupVersionResource
from pykcp.machinery.status import Forbidden, Invalid
from pykcp.registry import codec
from pykcp.registry.keys import object_key, resource_prefix
from pykcp.registry.resource import Resource
from pykcp.registry.stored import StoreReader
from pykcp.registry.verbs.admitting import AdmissionRequest
from pykcp.registry.verbs.large_request import LargeRequest
from pykcp.types import Object

_NAMESPACES = resource_prefix("", "namespaces")
_PREFIX = pod_security.PREFIX.encode()
_CHECKED_SUBRESOURCES = ("", "ephemeralcontainers", "resize")
_MAX_PODS = 3000
"""Pods of a namespace that are checked when it asks for another level."""
_PER_STEP = 50
_ANY = "spec"
_JOB = "pykcp.apis.kube.workloads.pod_security:judge_texts"


class PodSecurity:
    name = "PodSecurity"
    kinds = (
        GroupVersionResource("", "v1", "namespaces"),
        GroupVersionResource("", "v1", "pods"),
        *(GroupVersionResource(group, "v1", plural) for group, plural in pod_security.TEMPLATED),
    )
    operations = ("CREATE", "UPDATE")

    def __init__(self, store: StoreReader, pods_of: Callable[[str], Resource | None]) -> None:
        """`pods_of`: the resource `pods` of a logical cluster, if it has one."""
        self._store, self._pods_of = store, pods_of
        self._objects = OtherObjects(store)

    def wants(self, request: AdmissionRequest) -> bool:
        if request.resource.plural == "namespaces":
            return not request.subresource
        if not request.resource.definition.is_kubernetes:
            return False
        allowed = _CHECKED_SUBRESOURCES if request.resource.plural == "pods" else ("",)
        return request.subresource in allowed

    async def validate(self, request: AdmissionRequest) -> None:
        if request.resource.plural == "namespaces":
            await self._check_namespace(request)
        else:
            await self._check_pod(request)

    async def _check_pod(self, request: AdmissionRequest) -> None:
        policy = self._policy(request.context.cluster, request.namespace)
        if policy is None or policy.allows_everything or not request.has_object:
            return
        found = await _judged(request, policy)
        if found is None:
            return
        resource, audit = request.resource, request.context.audit
        if not found.has_form:
            why = "it does not have the form of a pod"
            raise Forbidden.resource(resource.group, resource.plural, request.name, why)
        if resource.plural == "pods":
            audit[f"{pod_security.PREFIX}enforce-policy"] = str(policy.enforce)
        if found.enforced:
            why = f'violates PodSecurity "{policy.enforce}": {found.enforced}'
            raise Forbidden.resource("", "pods", request.name, why)
        if found.audited:
            noted = _would_violate(policy.audit, found.audited)
            audit[f"{pod_security.PREFIX}audit-violations"] = noted
        if found.warned:
            request.context.warn(_would_violate(policy.warn, found.warned))

    def _policy(self, cluster: str, namespace: str) -> PodPolicy | None:
        """What a namespace asks for; None if it has no such labels."""
        entry = self._store.get(object_key(_NAMESPACES, cluster, "", namespace))
        if entry is None or _PREFIX not in entry.value:
            return None
        return pod_security.read_policy(meta.labels(codec.decode(entry.value)))[0]

    async def _check_namespace(self, request: AdmissionRequest) -> None:
        labels = request.metadata.get("labels") or {}
        if not any(label.startswith(pod_security.PREFIX) for label in labels):
            return
        pods = self._pods_of(request.context.cluster)
        if pods is None or not pods.definition.is_kubernetes:
            return
        policy, errors = pod_security.read_policy(labels)
        before, old_errors = pod_security.read_policy(request.old_metadata.get("labels") or {})
        if errors and errors != old_errors:
            raise Invalid.fields("", "Namespace", request.name, errors)
        if request.operation == "UPDATE" and _is_stricter(policy.enforce, before.enforce):
            await self._warn_of_pods(request, pods, policy.enforce)

    async def _warn_of_pods(
        self, request: AdmissionRequest, pods: Resource, asked: LevelVersion
    ) -> None:
        """Warnings of pods that are there already, which stay."""
        found, count = Summary(asked), 0
        async for pod in self._objects.of_resource(
            request.context.cluster, pods, _ANY, request.name
        ):
            count += 1
            if count <= _MAX_PODS:
                _add_safely(found, pod)
            if count % _PER_STEP == 0:
                await rest()
        warn = request.context.warn
        if count > _MAX_PODS:
            warn(
                f"new PodSecurity enforce level only checked against the first {_MAX_PODS} of "
                f"{count} existing pods"
            )
        lines = found.lines()
        if lines:
            warn(
                f'existing pods in namespace "{request.name}" violate the new PodSecurity enforce '
                f'level "{asked}"'
            )
        for line in lines:
            warn(line)


async def _judged(request: AdmissionRequest, policy: PodPolicy) -> Judgement | None:
    """By a worker process, if the object is large."""
    resource = request.resource
    kind, large = (resource.group, resource.plural), resource.services.large
    if not isinstance(request, LargeRequest) or large is None:
        return pod_security.judge(kind, request.obj or {}, request.old, policy)
    found: Judgement | None = await large.compute(
        request.context.cluster, _JOB, kind, request.text(), request.old_text(), policy
    )
    return found


def _would_violate(asked: LevelVersion, why: str) -> str:
    return f'would violate PodSecurity "{asked}": {why}'


def _add_safely(summary: Summary, pod: Object) -> None:
    with suppress(*WRONG_FORM):  # stored under a schema of another form
        summary.add(pod)


def _is_stricter(new: LevelVersion, old: LevelVersion) -> bool:
    """Whether pods that were allowed may no longer be."""
    if new.level == pod_security.PRIVILEGED:
        return False
    if new.version != old.version:
        return True
    return pod_security.LEVELS.index(new.level) > pod_security.LEVELS.index(old.level)
