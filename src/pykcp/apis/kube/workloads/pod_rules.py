"""Defaults and checks of pods and pod templates that depend on several fields."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from pykcp.apis.kube.validation.rules import Facts
from pykcp.apis.kube.workloads.pod_checks import pod_spec_errors
from pykcp.machinery.quantity import QuantityError, parse
from pykcp.machinery.status import FieldError, forbidden, invalid, not_supported, required
from pykcp.types import Object

_UPDATABLE = (
    "pod updates may not change fields other than "
    "`spec.containers[*].image`,`spec.initContainers[*].image`,`spec.activeDeadlineSeconds`,"
    "`spec.tolerations` (only additions to existing tolerations),"
    "`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)"
)
_FREE = ("activeDeadlineSeconds", "tolerations", "terminationGracePeriodSeconds", "nodeName")
_GROUPS = ("initContainers", "containers")
_TAINTS = ("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable")
_TOLERATED_SECONDS = 300
_TOKEN_SECONDS = 3600
_COMPUTING = ("cpu", "memory")


def default_template(obj: Object, *path: str) -> None:
    """The defaults of the pod template at a path, if there is one."""
    found: Any = obj
    for name in path:
        found = found.get(name) if isinstance(found, dict) else None
    if not isinstance(found, dict):
        return
    found["metadata"] = found.get("metadata") or {}
    if isinstance(found.get("spec"), dict):
        default_pod_spec(found["spec"])


def default_pod_spec(spec: Object) -> None:
    for container in _containers(spec, *_GROUPS, "ephemeralContainers"):
        image = container.get("image")
        if isinstance(image, str) and image and not container.get("imagePullPolicy"):
            container["imagePullPolicy"] = "Always" if _is_latest(image) else "IfNotPresent"
    for container in _containers(spec, "ephemeralContainers"):  # its schema has no defaults
        container.setdefault("terminationMessagePath", "/dev/termination-log")
        container.setdefault("terminationMessagePolicy", "File")
    account = spec.get("serviceAccountName") or spec.get("serviceAccount")
    if account:
        spec["serviceAccountName"] = spec["serviceAccount"] = account
    for volume in spec.get("volumes") or ():
        if isinstance(volume, dict) and all(volume[k] is None for k in volume if k != "name"):
            volume.setdefault("emptyDir", {})
        _default_projection(volume)


def _default_projection(volume: Object) -> None:
    for source in (volume.get("projected") or {}).get("sources") or ():
        token = source.get("serviceAccountToken")
        if token is not None:
            token.setdefault("expirationSeconds", _TOKEN_SECONDS)


def _is_latest(image: str) -> bool:
    if "@" in image:
        return False
    tag = image.rpartition("/")[2].partition(":")[2]
    return tag in ("", "latest")


def default_pod(pod: Object) -> None:
    """What the API server and its standard admission plug-ins add to a pod."""
    spec = pod.get("spec")
    if not isinstance(spec, dict):
        return
    default_pod_spec(spec)
    spec.setdefault("enableServiceLinks", True)
    if (spec.get("terminationGracePeriodSeconds") or 0) < 0:
        spec["terminationGracePeriodSeconds"] = 1
    for container in _containers(spec, *_GROUPS):
        resources = container.get("resources") or {}
        limits = resources.get("limits") or {}
        if limits:
            resources["requests"] = {**limits, **(resources.get("requests") or {})}


def admit_pod(pod: Object, _: Facts) -> None:
    """What Kubernetes' standard admission plug-ins add to a new pod, and its first status."""
    spec = pod.get("spec") or {}
    _default_tolerations(spec)
    if not spec.get("priorityClassName"):
        spec.setdefault("priority", 0)
    spec.setdefault("preemptionPolicy", "PreemptLowerPriority")
    pod["status"] = {"phase": "Pending", "qosClass": quality_of_service(spec)}


def complete_pod(pod: Object, old: Object) -> None:
    """What the same plug-ins add to a pod that is replaced: its author did not write it, either."""
    spec, earlier = pod.get("spec") or {}, old.get("spec") or {}
    _default_tolerations(spec)
    for name in ("priority", "preemptionPolicy"):
        if spec.get(name) is None and name in earlier:
            spec[name] = earlier[name]


def _default_tolerations(spec: Object) -> None:
    tolerations = spec.get("tolerations") or []
    for taint in _TAINTS:
        if not any(_tolerates(toleration, taint) for toleration in tolerations):
            tolerations = [*tolerations, _toleration(taint)]
    spec["tolerations"] = tolerations


def resized(spec: Object, given: Object) -> Object:
    """The spec of a pod with the resources of another one, container by container."""
    made = {**spec}
    for group in _GROUPS:
        wanted = {one.get("name"): one for one in given.get(group) or ()}
        if spec.get(group):
            made[group] = [_resized(one, wanted.get(one.get("name"), one)) for one in spec[group]]
    return made


def _resized(container: Object, wanted: Object) -> Object:
    made = {**container}
    for name in ("resources", "resizePolicy"):
        if name in wanted:
            made[name] = wanted[name]
        else:
            made.pop(name, None)
    return made


def resize_errors(new: Object, old: Object) -> list[FieldError]:
    """The class of a pod stays, and only its CPU and memory change."""
    spec, earlier = new.get("spec") or {}, old.get("spec") or {}
    errors = []
    quality = quality_of_service(earlier)
    if quality_of_service(spec) != quality:
        errors.append(
            invalid("spec", quality, "Pod QOS Class may not change as a result of resizing")
        )
    pairs = zip(_containers(spec, *_GROUPS), _containers(earlier, *_GROUPS), strict=False)
    if any(_other_resources(one) != _other_resources(before) for one, before in pairs):
        errors.append(forbidden("spec", "only cpu and memory resources are mutable"))
    return errors


def _other_resources(container: Object) -> Object:
    resources = container.get("resources") or {}
    return {
        group: {k: v for k, v in (resources.get(group) or {}).items() if k not in _COMPUTING}
        for group in ("limits", "requests")
    }


def _tolerates(toleration: Object, taint: str) -> bool:
    return toleration.get("key") in (taint, None, "") and toleration.get("effect") in (
        "NoExecute",
        None,
        "",
    )


def _toleration(taint: str) -> Object:
    return {
        "key": taint,
        "operator": "Exists",
        "effect": "NoExecute",
        "tolerationSeconds": _TOLERATED_SECONDS,
    }


def quality_of_service(spec: Object) -> str:
    """Guaranteed: all containers have limits of CPU and memory, and request as much."""
    requests: list[Object] = []
    limits: list[Object] = []
    for container in _containers(spec, *_GROUPS):
        resources = container.get("resources") or {}
        requests.append(_computing(resources.get("requests")))
        limits.append(_computing(resources.get("limits")))
    if not any(requests) and not any(limits):
        return "BestEffort"
    is_guaranteed = all(set(given) == {"cpu", "memory"} for given in limits) and requests == limits
    return "Guaranteed" if is_guaranteed else "Burstable"


def _computing(amounts: Object | None) -> Object:
    """The amounts of CPU and memory, as numbers that can be compared."""
    found = {}
    for name in _COMPUTING:
        try:
            amount = parse(str((amounts or {}).get(name, "0")))
        except QuantityError:
            continue
        if amount.sign:
            found[name] = amount
    return found


def _containers(spec: Object, *groups: str) -> Iterator[Object]:
    for group in groups:
        for container in spec.get(group) or ():
            if isinstance(container, dict):
                yield container


def pod_errors(new: Object, old: Object | None) -> list[FieldError]:
    spec = new.get("spec") or {}
    if old is None:
        return pod_spec_errors(spec, "spec", is_pod=True)
    if not _is_allowed_change(spec, old.get("spec") or {}):
        return [forbidden("spec", _UPDATABLE)]
    return []


def template_errors(template: Object, path: str, claims: Iterable[str] = ()) -> list[FieldError]:
    """`claims`: names of volumes that a StatefulSet adds to its pods."""
    return pod_spec_errors(template.get("spec") or {}, f"{path}.spec", claims)


def _is_allowed_change(new: Object, old: Object) -> bool:
    """Whether only what may change in a running pod has changed."""
    if old.get("nodeName") and new.get("nodeName") != old.get("nodeName"):
        return False
    earlier = old.get("tolerations") or []
    if any(toleration not in (new.get("tolerations") or ()) for toleration in earlier):
        return False
    return _fixed(new) == _fixed(old)


def _fixed(spec: Object) -> Object:
    kept = {name: value for name, value in spec.items() if name not in _FREE and value}
    kept.pop("schedulingGates", None)
    kept.pop("ephemeralContainers", None)
    for group in _GROUPS:
        if group in kept:
            kept[group] = [
                {key: value for key, value in container.items() if key != "image"}
                for container in kept[group]
            ]
    return kept


def restart_policy_errors(
    template: Object, path: str, allowed: Sequence[str], *, is_job: bool = False
) -> list[FieldError]:
    """A controller's pods are restarted in certain ways only."""
    policy = (template.get("spec") or {}).get("restartPolicy", "")
    if policy in allowed:
        return []
    at = f"{path}.spec.restartPolicy"
    if is_job and policy in ("", "Always"):
        return [required(at, 'valid values: "OnFailure", "Never"')]
    return [not_supported(at, policy, allowed)]
