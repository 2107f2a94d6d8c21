"""What a syncer serves, and its times. Tests make the times shorter."""

from __future__ import annotations

from dataclasses import dataclass

from pykcp.machinery.meta import CLUSTER_ANNOTATION, name, uid
from pykcp.machinery.meta import annotations as annotations_of
from pykcp.multicluster.names import registration_label, shared_name, syncer_finalizer
from pykcp.types import Object


@dataclass(frozen=True, slots=True)
class Registration:
    """The Cluster object that a syncer works for."""

    workspace: str
    """Logical cluster of the Cluster object."""
    name: str
    uid: str
    installation: str
    """Identity of the control plane: the same name and UID in another one is another owner."""

    @classmethod
    def of(cls, cluster: Object) -> Registration:
        """That of a Cluster object as it was read.

        Its installation is the logical cluster of the object, which all modes know.
        """
        workspace = annotations_of(cluster).get(CLUSTER_ANNOTATION, "")
        return cls(workspace, name(cluster), uid(cluster), workspace)

    @property
    def shared(self) -> str:
        """The name of the Cluster in workspaces that bind an API of its own one."""
        return shared_name(self.workspace, self.name)

    def label_in(self, workspace: str) -> str:
        """The value of the cluster label that assigns an object of a workspace."""
        return self.name if workspace == self.workspace else self.shared

    def finalizer_in(self, workspace: str) -> str:
        return syncer_finalizer(self.label_in(workspace))

    @property
    def downstream_label(self) -> str:
        return registration_label(self.uid)


@dataclass(frozen=True, slots=True)
class SyncSettings:
    """Times in seconds."""

    workers: int = 16
    status_delay: float = 0.25
    """Changes of a status within this time are written as one."""
    note_delay: float = 1.0
    """For which the first status of a copy is waited for: it says that the object was applied."""
    permanent_retry: float = 300.0
    """Until something that the cluster rejects for its content is tried again."""
    deleting_retry: float = 2.0
    """Until a copy that is being deleted is looked at again, should its event be lost."""
    sweep_interval: float = 600.0
    """Between searches for copies without an origin."""
    namespace_grace: float = 30.0
    """For which a namespace without copies is kept."""
    discovery_interval: float = 30.0
    """Between looks for types that the cluster does not serve."""
    unschedulable_interval: float = 30.0
    """Between looks for replicas that no node takes."""
    lease_seconds: float = 10.0
    heartbeat_interval: float = 10.0
    capacity_interval: float = 60.0
