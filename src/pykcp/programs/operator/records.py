"""Secrets and ConfigMaps as the configuration stage reads and writes them."""

from __future__ import annotations

import base64
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace

from pykcp.programs.operator.compiled import CONFIG_MAP, SECRET, WorkloadOwner
from pykcp.programs.operator.names import API_VERSION
from pykcp.types import Object


@dataclass(frozen=True, slots=True)
class ConfigRecord:
    """A Secret or a ConfigMap of one namespace."""

    name: str
    data: Mapping[str, bytes] = field(repr=False)
    kind: str = SECRET
    labels: Mapping[str, str] = field(default_factory=dict)
    annotations: Mapping[str, str] = field(default_factory=dict)
    owner: WorkloadOwner | None = None
    type: str = "Opaque"

    def to_object(self, namespace: str) -> Object:
        """As Kubernetes has it."""
        metadata: Object = {"name": self.name, "namespace": namespace}
        if self.labels:
            metadata["labels"] = dict(self.labels)
        if self.annotations:
            metadata["annotations"] = dict(self.annotations)
        if self.owner is not None and self.owner.uid:
            metadata["ownerReferences"] = [owner_reference(self.owner)]
        made: Object = {"apiVersion": "v1", "kind": self.kind, "metadata": metadata}
        if self.kind == SECRET:
            made["type"] = self.type
            made["data"] = {
                key: base64.b64encode(value).decode() for key, value in self.data.items()
            }
        else:
            made["data"] = {key: value.decode() for key, value in self.data.items()}
        return made

    @classmethod
    def from_object(cls, obj: Object) -> ConfigRecord:
        """What Kubernetes, or a file of the user, holds; `stringData` counts, too."""
        metadata, kind = obj.get("metadata") or {}, str(obj["kind"])
        given = obj.get("data") or {}
        if kind == SECRET:
            data = {key: base64.b64decode(value or "") for key, value in given.items()}
            plain = obj.get("stringData") or {}
            data |= {key: str(value).encode() for key, value in plain.items()}
        else:
            data = {key: str(value).encode() for key, value in given.items()}
        return cls(
            str(metadata.get("name") or ""),
            data,
            kind,
            dict(metadata.get("labels") or {}),
            dict(metadata.get("annotations") or {}),
            _owner_of(metadata),
            str(obj.get("type") or "Opaque"),
        )


def owner_reference(owner: WorkloadOwner) -> Object:
    return {
        "apiVersion": API_VERSION,
        "kind": owner.kind,
        "name": owner.name,
        "uid": owner.uid,
        "controller": True,
        "blockOwnerDeletion": True,
    }


def _owner_of(metadata: Object) -> WorkloadOwner | None:
    for one in metadata.get("ownerReferences") or ():
        if one.get("apiVersion") == API_VERSION:
            return WorkloadOwner(one["kind"], one["name"], one.get("uid") or "")
    return None


class RecordTaken(Exception):
    """A record belongs to another object, which exists; the message names both."""


class Records:
    """All Secrets and ConfigMaps of one namespace, and what was changed of them."""

    def __init__(self, given: Iterable[ConfigRecord] = ()) -> None:
        self._all = {(one.kind, one.name): one for one in given}
        self.changed: dict[tuple[str, str], ConfigRecord] = {}
        """What has to be written, by kind and name."""
        self.wanted: set[tuple[str, str]] = set()
        """What the objects of the installation need; what the operator made besides is old."""
        self.owners: frozenset[tuple[str, str]] = frozenset()
        """Kinds and names of the objects that keep what they have."""

    def secret(self, name: str) -> ConfigRecord | None:
        return self._all.get((SECRET, name))

    def config_map(self, name: str) -> ConfigRecord | None:
        return self._all.get((CONFIG_MAP, name))

    def find(self, kind: str, name: str) -> ConfigRecord | None:
        return self._all.get((kind, name))

    def put(self, record: ConfigRecord) -> ConfigRecord:
        """Set it, unless it is that already. Labels and annotations of others stay.

        Raises RecordTaken.
        """
        key = (record.kind, record.name)
        old = self._all.get(key)
        if old is not None and self._is_taken(old, record):
            assert old.owner is not None
            raise RecordTaken(
                f'{old.kind} "{old.name}" belongs to {old.owner.kind} "{old.owner.name}"'
            )
        self.wanted.add(key)
        if old is not None:
            record = replace(
                record,
                labels={**old.labels, **record.labels},
                annotations={**old.annotations, **record.annotations},
            )
        if record != old:
            self._all[key] = self.changed[key] = record
        return record

    def _is_taken(self, old: ConfigRecord, new: ConfigRecord) -> bool:
        if old.owner is None or new.owner is None:
            return False
        holder = (old.owner.kind, old.owner.name)
        return holder != (new.owner.kind, new.owner.name) and holder in self.owners

    def __iter__(self) -> Iterator[ConfigRecord]:
        return iter(self._all.values())
