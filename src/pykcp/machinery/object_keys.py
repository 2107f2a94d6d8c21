"""How objects are named between programs: small values that say nothing of how they are stored.

`ObjectKey` names an object of a kind that is known from the context, `ObjectRef` one of any kind.
"""

from __future__ import annotations

from typing import NamedTuple


class ObjectKey(NamedTuple):
    """An object of a kind that its controller knows: what work queues hold."""

    cluster: str
    namespace: str
    name: str


class ObjectRef(NamedTuple):
    """An object of any kind."""

    resource: str
    """What `resource_id` makes: two kinds of the same name, with other identities, differ."""
    cluster: str
    namespace: str
    name: str

    @property
    def key(self) -> ObjectKey:
        return ObjectKey(self.cluster, self.namespace, self.name)

    def __str__(self) -> str:
        return f"{self.resource}/{self.cluster}/{self.namespace}/{self.name}"


def resource_id(group: str, resource: str, identity: str = "") -> str:
    """`core/configmaps`, `apps/deployments`, `example.io/widgets:<identity of the export>`."""
    suffix = f":{identity}" if identity else ""
    return f"{group or 'core'}/{resource}{suffix}"
