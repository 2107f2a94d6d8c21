"""Which objects need which others, in the same namespace.

An edge goes from a leader to a follower. Most are found in the leader (a pod template names a
ConfigMap), some in the follower (a Service selects pods, an Ingress names its Services).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

from pykcp.machinery import meta
from pykcp.multicluster.interpreter.kinds import KindTraits, pod_spec, value_at
from pykcp.multicluster.names import DEPENDS_ON
from pykcp.types import Object


class Item(NamedTuple):
    """An object of a namespace."""

    type: str
    """As `deployments.apps`."""
    name: str

    def __str__(self) -> str:
        return f"{self.type}/{self.name}"


@dataclass(frozen=True, slots=True)
class Relations:
    """What one object says about others."""

    needs: frozenset[Item] = frozenset()
    """Its followers."""
    follows: frozenset[Item] = frozenset()
    """Its leaders."""
    selector: tuple[tuple[str, str], ...] = ()
    """Labels of the pods of its leaders; empty: it selects none."""
    pod_labels: tuple[tuple[str, str], ...] = ()
    """Labels of its own pods."""


def relations(rules: KindTraits, type_name: str, obj: Object) -> Relations:
    needs = set(_named_in_annotation(obj))
    spec = pod_spec(rules, obj, type_name)
    needs.update(_of_pods(spec))
    follows: set[Item] = set()
    finder = _FINDERS.get(type_name)
    if finder is not None:
        for is_leader, item in finder(obj):
            (follows if is_leader else needs).add(item)
    return Relations(
        frozenset(item for item in needs if item.name),
        frozenset(item for item in follows if item.name),
        _selector(type_name, obj),
        _pod_labels(rules, type_name, obj),
    )


def _named_in_annotation(obj: Object) -> Iterator[Item]:
    """`configmaps/settings, widgets.example.io/large`."""
    for part in meta.annotation(obj, DEPENDS_ON).split(","):
        type_name, _, name = part.strip().partition("/")
        if type_name and name:
            yield Item(type_name, name)


# --- pods ----------------------------------------------------------------------


def _of_pods(spec: Object) -> Iterator[Item]:
    account = spec.get("serviceAccountName") or ""
    if account != "default":
        yield Item("serviceaccounts", account)
    for secret in spec.get("imagePullSecrets") or ():
        yield Item("secrets", secret.get("name") or "")
    for volume in spec.get("volumes") or ():
        yield from _of_volume(volume)
        for source in (volume.get("projected") or {}).get("sources") or ():
            yield Item("configmaps", (source.get("configMap") or {}).get("name") or "")
            yield Item("secrets", (source.get("secret") or {}).get("name") or "")
    for field in ("containers", "initContainers"):
        for container in spec.get(field) or ():
            yield from _of_container(container)


def _of_volume(volume: Object) -> Iterator[Item]:
    yield Item("configmaps", (volume.get("configMap") or {}).get("name") or "")
    yield Item("secrets", (volume.get("secret") or {}).get("secretName") or "")
    claim = (volume.get("persistentVolumeClaim") or {}).get("claimName") or ""
    yield Item("persistentvolumeclaims", claim)


def _of_container(container: Object) -> Iterator[Item]:
    for source in container.get("envFrom") or ():
        yield Item("configmaps", (source.get("configMapRef") or {}).get("name") or "")
        yield Item("secrets", (source.get("secretRef") or {}).get("name") or "")
    for variable in container.get("env") or ():
        origin = variable.get("valueFrom") or {}
        yield Item("configmaps", (origin.get("configMapKeyRef") or {}).get("name") or "")
        yield Item("secrets", (origin.get("secretKeyRef") or {}).get("name") or "")


# --- other kinds: (whether the item is a leader of the object, the item) ---------

_Edge = tuple[bool, Item]


def _of_stateful_set(obj: Object) -> Iterator[_Edge]:
    yield False, Item("services", value_at(obj, ("spec", "serviceName")) or "")


def _of_ingress(obj: Object) -> Iterator[_Edge]:
    spec = obj.get("spec") or {}
    for tls in spec.get("tls") or ():
        yield False, Item("secrets", tls.get("secretName") or "")
    paths = [
        path
        for rule in spec.get("rules") or ()
        for path in (rule.get("http") or {}).get("paths") or ()
    ]
    for backend in (spec.get("defaultBackend"), *(path.get("backend") for path in paths)):
        yield True, Item("services", value_at(backend, ("service", "name")) or "")


def _of_autoscaler(obj: Object) -> Iterator[_Edge]:
    target = value_at(obj, ("spec", "scaleTargetRef")) or {}
    group = (target.get("apiVersion") or "").rpartition("/")[0]
    plural = f"{(target.get('kind') or '').lower()}s"
    yield True, Item(f"{plural}.{group}" if group else plural, target.get("name") or "")


def _of_role_binding(obj: Object) -> Iterator[_Edge]:
    role = obj.get("roleRef") or {}
    if role.get("kind") == "Role":
        yield False, Item("roles.rbac.authorization.k8s.io", role.get("name") or "")
    for subject in obj.get("subjects") or ():
        if subject.get("kind") == "ServiceAccount":
            yield True, Item("serviceaccounts", subject.get("name") or "")


def _of_account(obj: Object) -> Iterator[_Edge]:
    for secret in obj.get("imagePullSecrets") or ():
        yield False, Item("secrets", secret.get("name") or "")


_FINDERS = {
    "statefulsets.apps": _of_stateful_set,
    "ingresses.networking.k8s.io": _of_ingress,
    "horizontalpodautoscalers.autoscaling": _of_autoscaler,
    "rolebindings.rbac.authorization.k8s.io": _of_role_binding,
    "serviceaccounts": _of_account,
}


def _selector(type_name: str, obj: Object) -> tuple[tuple[str, str], ...]:
    spec = obj.get("spec") or {}
    if type_name == "services":
        found = spec.get("selector") or {}
    elif type_name == "poddisruptionbudgets.policy":
        found = (spec.get("selector") or {}).get("matchLabels") or {}
    else:
        return ()
    return tuple(sorted(found.items()))


def _pod_labels(rules: KindTraits, type_name: str, obj: Object) -> tuple[tuple[str, str], ...]:
    if type_name == "pods":
        return tuple(sorted(meta.labels(obj).items()))
    if not rules.template:
        return ()
    found = value_at(obj, (*rules.template, "metadata", "labels"))
    return tuple(sorted(found.items())) if isinstance(found, dict) else ()
