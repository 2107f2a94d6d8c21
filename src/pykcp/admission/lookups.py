"""What admission looks up beside the object: its namespace, other versions, parameters."""

from __future__ import annotations

from collections.abc import Sequence

from pykcp.admission.subject import Subject, typed
from pykcp.aio.slices import in_slices
from pykcp.machinery.labels import from_label_selector_in_steps, to_conditions
from pykcp.machinery.status import NotFound
from pykcp.registry import codec
from pykcp.registry.catalog.directory import Directory
from pykcp.registry.keys import object_key, range_prefix, resource_prefix
from pykcp.registry.resource import Resource
from pykcp.registry.stored import Query, StoreReader
from pykcp.types import Object

_NAMESPACES = resource_prefix("", "namespaces")
_COHABITANTS = {
    ("", "events"): ("events.k8s.io", "v1"),
    ("events.k8s.io", "events"): ("", "v1"),
}
"""Resources of two groups that show the same objects."""
_NAMESPACE_METADATA = (
    "name", "generateName", "namespace", "uid", "resourceVersion", "generation",
    "creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds", "labels",
    "annotations", "finalizers",
)  # fmt: skip


class AdmissionLookups:
    """Reads the store and the directory; the latter is made after admission."""

    def __init__(self, store: StoreReader, directory: Directory) -> None:
        self._store = store
        self._directory = directory

    def namespace(self, cluster: str, name: str) -> Object:
        """NotFound if there is none."""
        entry = self._store.get(object_key(_NAMESPACES, cluster, "", name))
        if entry is None:
            raise NotFound.resource("", "namespaces", name)
        return codec.decode_without_cluster(entry.value)

    def namespace_labels(self, subject: Subject) -> dict[str, str] | None:
        """The labels that a namespace selector is compared with: a namespace's own, if it is one."""
        request = subject.request
        if (
            subject.resource.plural == "namespaces"
            and not subject.subresource
            and subject.operation in ("CREATE", "UPDATE")
        ):
            own: dict[str, str] | None = request.metadata.get("labels")
            return own
        if subject.found_labels is None:  # many policies and webhooks may ask
            name = subject.namespace or subject.name
            found = self.namespace(subject.cluster, name)
            subject.found_labels = (found["metadata"].get("labels"),)
        return subject.found_labels[0]

    def namespace_object(self, subject: Subject) -> Object | None:
        """`namespaceObject`; None for what is in no namespace, and for namespaces."""
        if not subject.namespace or subject.is_namespace:
            return None
        found = self.namespace(subject.cluster, subject.namespace)
        metadata = found["metadata"]
        kept = {name: metadata[name] for name in _NAMESPACE_METADATA if name in metadata}
        return {**found, "metadata": kept}

    def equivalents(self, subject: Subject) -> Sequence[Resource]:
        """Other versions and groups in which the same object is served."""
        own = subject.resource
        definition = own.definition
        asked = [
            (own.group, version)
            for version in definition.versions
            if version != own.version and definition.version(version).served
        ]
        cohabitant = _COHABITANTS.get((own.group, own.plural))
        if cohabitant is not None:
            asked.append(cohabitant)
        directory = self._directory
        found = (
            directory.find(subject.cluster, group, version, own.plural) for group, version in asked
        )
        return [resource for resource in found if resource is not None]

    def kind(self, cluster: str, api_version: str, kind: str) -> Resource | None:
        """The resource of a kind, or None if the cluster does not serve it."""
        group, _, version = api_version.rpartition("/")
        directory = self._directory
        for definition in directory.definitions(cluster):
            if definition.kind == kind and definition.group == group:
                found = directory.find(cluster, group, version, definition.plural)
                if found is not None:
                    return found
        return None

    def resource(self, cluster: str, group: str, version: str, plural: str) -> Resource | None:
        return self._directory.find(cluster, group, version, plural)

    async def get(
        self, cluster: str, resource: Resource, namespace: str, name: str
    ) -> Object | None:
        entry = self._store.get(resource.key(cluster, namespace, name))
        return None if entry is None else _shown(resource, await resource.own_form(entry.value))

    async def select(
        self, cluster: str, resource: Resource, namespace: str, selector: Object
    ) -> list[Object]:
        """Objects by a label selector, of one namespace or of all."""
        parsed = await in_slices(from_label_selector_in_steps(selector), cluster)
        where, residual = to_conditions(parsed)
        prefix = range_prefix(resource.prefix, cluster, namespace)
        page = await self._store.list(Query(prefix, where=where, residual=residual))
        return [_shown(resource, await resource.own_form(value)) for value in page.values]


def _shown(resource: Resource, value: bytes) -> Object:
    obj = resource.object_of(value)
    codec.strip_cluster(obj)
    return obj


def convert(obj: Object | None, source: Resource, target: Resource) -> Object | None:
    """The object as another version or group shows it, unless a webhook has to say how."""
    if obj is None:
        return None
    obj = typed(source, obj)
    if source is target:
        return obj
    if source.conversion is not None:
        obj = source.conversion.to_storage(obj)
    if target.conversion is not None:
        obj = target.conversion.from_storage(obj)
    return {**obj, "kind": target.kind, "apiVersion": target.api_version}


async def converted(
    obj: Object | None, source: Resource, target: Resource, cluster: str
) -> Object | None:
    """The same for all kinds: a conversion webhook is asked by way of the stored form."""
    if obj is None or source is target or source.webhook is None:
        return convert(obj, source, target)
    stored = await source.stored_form(codec.copy(obj))
    value = await target.own_form(codec.fill(source.encode(stored, cluster), 0))
    found = _shown(target, value)
    metadata = found["metadata"]
    del metadata["resourceVersion"]
    if "resourceVersion" in obj["metadata"]:
        metadata["resourceVersion"] = obj["metadata"]["resourceVersion"]
    return found


async def show(subject: Subject, target: Resource) -> None:
    """Make sure that the subject's objects can be seen in the version of `target`."""
    if subject.is_shown(target):
        return
    request, own, cluster = subject.request, subject.resource, subject.cluster
    obj = await converted(request.obj, own, target, cluster)
    old = await converted(request.old, own, target, cluster)
    subject.show(target, obj, old)
