"""The files of a workload: kubeconfigs, mapping files, bundles, copies of Secrets."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

from pykcp.programs.operator.compiled import CONFIG_MAP, SECRET, CompiledFile, FileSource
from pykcp.programs.operator.configuration.world import World, input_missing, owner_of
from pykcp.programs.operator.names import owner_labels
from pykcp.programs.operator.platform import WorkloadPlace
from pykcp.programs.operator.records import ConfigRecord
from pykcp.types import Object


class WorkloadFiles:
    """Collects the files of one workload; methods return where the workload finds each."""

    def __init__(self, world: World, place: WorkloadPlace) -> None:
        self._world, self._place = world, place
        self.made: list[CompiledFile] = []

    def path(self, path: str) -> str:
        return self._world.platform.path(self._place, path)

    def copy(
        self,
        path: str,
        name: str,
        key: str,
        *,
        kind: str = SECRET,
        reloads: bool = True,
        purpose: str = "",
    ) -> str:
        """A file that holds what a Secret or ConfigMap has under a key."""
        record = self._world.records.find(kind, name)
        if record is None or key not in record.data:
            what = f'{kind} "{name}"'
            why = f"{what} does not exist" if record is None else f'{what} has no key "{key}"'
            raise input_missing(f"{purpose}: {why}" if purpose else why)
        where = self.path(path)
        mode = 0o600 if kind == SECRET else 0o644
        self.made.append(
            CompiledFile(where, record.data[key], FileSource(kind, name, key), mode, reloads)
        )
        return where

    def exists(self, kind: str, name: str) -> bool:
        return self._world.records.find(kind, name) is not None

    def keys(self, kind: str, name: str, purpose: str) -> Sequence[str]:
        """Those of a Secret or ConfigMap. Raises NotConfigurable if it does not exist."""
        record = self._world.records.find(kind, name)
        if record is None:
            raise input_missing(f'{purpose}: {kind} "{name}" does not exist')
        return sorted(record.data)

    def pair(self, directory: str, secret: str) -> tuple[str, str]:
        """A certificate and its key."""
        return (
            self.copy(f"{directory}/tls.crt", secret, "tls.crt"),
            self.copy(f"{directory}/tls.key", secret, "tls.key"),
        )


def put_record(
    world: World, obj: Object, name: str, data: Mapping[str, bytes], kind: str = SECRET
) -> ConfigRecord:
    """A Secret or ConfigMap that belongs to an object."""
    owner = owner_of(obj)
    return world.records.put(
        ConfigRecord(name, dict(data), kind, owner_labels(owner.kind, owner.name), {}, owner)
    )


def put_kubeconfig(world: World, obj: Object, name: str, text: bytes) -> ConfigRecord:
    return put_record(world, obj, name, {"kubeconfig": text})


def put_config(world: World, obj: Object, name: str, data: Mapping[str, bytes]) -> ConfigRecord:
    return put_record(world, obj, name, data, CONFIG_MAP)


def file_kubeconfig(
    names: tuple[str, str, str], server: str, authority: str, pair: tuple[str, str]
) -> bytes:
    """A kubeconfig that refers to files; `names`: of its cluster, context and user."""
    cluster, context, user = names
    return _kubeconfig(
        {cluster: {"server": server, "certificate-authority": authority}},
        {context: (cluster, user)},
        {user: {"client-certificate": pair[0], "client-key": pair[1]}},
        context,
    )


def embedded_kubeconfig(
    clusters: Mapping[str, str],
    contexts: Mapping[str, str],
    user: str,
    authority: bytes,
    pair: tuple[bytes, bytes],
) -> bytes:
    """A kubeconfig for people, which needs no other file.

    `clusters`: URLs by name; `contexts`: names of clusters by name, the first one is current.
    """
    from base64 import b64encode

    trust = b64encode(authority).decode()
    return _kubeconfig(
        {
            name: {"server": url, "certificate-authority-data": trust}
            for name, url in clusters.items()
        },
        {name: (cluster, user) for name, cluster in contexts.items()},
        {
            user: {
                "client-certificate-data": b64encode(pair[0]).decode(),
                "client-key-data": b64encode(pair[1]).decode(),
            }
        },
        next(iter(contexts)),
    )


def _kubeconfig(
    clusters: Mapping[str, Object],
    contexts: Mapping[str, tuple[str, str]],
    users: Mapping[str, Object],
    current: str,
) -> bytes:
    content: Object = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": name, "cluster": one} for name, one in clusters.items()],
        "contexts": [
            {"name": name, "context": {"cluster": cluster, "user": user}}
            for name, (cluster, user) in contexts.items()
        ],
        "users": [{"name": name, "user": one} for name, one in users.items()],
        "current-context": current,
    }
    return json.dumps(content, indent=2).encode() + b"\n"


def mapping_file(entries: Sequence[Object]) -> bytes:
    """The path mapping of a front-proxy; JSON is YAML."""
    return json.dumps(list(entries), indent=2).encode() + b"\n"
