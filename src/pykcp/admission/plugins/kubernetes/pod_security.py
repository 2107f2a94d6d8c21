"""PodSecurity: namespaces ask by labels which pods they allow, note in the audit log, or warn of."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress

from pykcp.admission.plugins.kubernetes.objects import OtherObjects
from pykcp.aio.resting import rest
from pykcp.apis.kube.workloads import pod_security
from pykcp.apis.kube.workloads.forms import WRONG_FORM
from pykcp.apis.kube.workloads.pod_security import LevelVersion, PodPolicy, Summary
from pykcp.machinery import meta
from pykcp.machinery.resources import GroupVersionResource
from pykcp.machinery.status import Forbidden, Invalid
from pykcp.registry import codec
from pykcp.registry.keys import object_key, resource_prefix
from pykcp.registry.resource import Resource
from pykcp.registry.stored import StoreReader
from pykcp.registry.verbs.admitting import AdmissionRequest
from pykcp.types import Object

_NAMESPACES = resource_prefix("", "namespaces")
_PREFIX = pod_security.PREFIX.encode()
_CHECKED_SUBRESOURCES = ("", "ephemeralcontainers", "resize")
_MAX_PODS = 3000
"""Pods of a namespace that are checked when it asks for another level."""
_PER_STEP = 50
_ANY = "spec"


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
            try:
                self._check_pod(request)
            except WRONG_FORM as error:  # of a CRD that is not Kubernetes' own
                why = "it does not have the form of a pod"
                resource = request.resource
                raise Forbidden.resource(
                    resource.group, resource.plural, request.name, why
                ) from error

    def _check_pod(self, request: AdmissionRequest) -> None:
        policy = self._policy(request.context.cluster, request.namespace)
        if policy is None or policy.allows_everything or request.obj is None:
            return
        resource = request.resource
        pod = pod_security.pod_of((resource.group, resource.plural), request.obj)
        if pod is None:
            return
        metadata, spec = pod.get("metadata") or {}, pod.get("spec") or {}
        audit = request.context.audit
        if resource.plural == "pods":
            old = request.old
            if old is not None and not pod_security.changes_images(spec, old.get("spec") or {}):
                return
            audit[f"{pod_security.PREFIX}enforce-policy"] = str(policy.enforce)
            bad = pod_security.violations(policy.enforce, metadata, spec)
            if bad:
                why = f'violates PodSecurity "{policy.enforce}": {pod_security.describe(bad)}'
                raise Forbidden.resource("", "pods", request.name, why)
        if noted := _would_violate(policy.audit, metadata, spec):
            audit[f"{pod_security.PREFIX}audit-violations"] = noted
        if warning := _would_violate(policy.warn, metadata, spec):
            request.context.warn(warning)

    def _policy(self, cluster: str, namespace: str) -> PodPolicy | None:
        """What a namespace asks for; None if it has no such labels."""
        entry = self._store.get(object_key(_NAMESPACES, cluster, "", namespace))
        if entry is None or _PREFIX not in entry.value:
            return None
        return pod_security.read_policy(meta.labels(codec.decode(entry.value)))[0]

    async def _check_namespace(self, request: AdmissionRequest) -> None:
        labels = meta.labels(request.obj or {})
        if not any(label.startswith(pod_security.PREFIX) for label in labels):
            return
        pods = self._pods_of(request.context.cluster)
        if pods is None or not pods.definition.is_kubernetes:
            return
        policy, errors = pod_security.read_policy(labels)
        before, old_errors = pod_security.read_policy(meta.labels(request.old or {}))
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


def _would_violate(asked: LevelVersion, metadata: Object, spec: Object) -> str:
    bad = pod_security.violations(asked, metadata, spec)
    return f'would violate PodSecurity "{asked}": {pod_security.describe(bad)}' if bad else ""


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
