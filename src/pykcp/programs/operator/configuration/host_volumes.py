"""`extraVolumes` where there are no containers: their files, and where the program finds them.

A manifest names paths inside of a container. On a host a Secret or a ConfigMap is written below the
workload's directory, an `emptyDir` is a directory there, and a `hostPath` is what it says; the
paths in arguments are replaced by those. Files that name further paths are not changed.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from pykcp.programs.operator.compiled import CONFIG_MAP, SECRET
from pykcp.programs.operator.configuration.files import WorkloadFiles
from pykcp.programs.operator.configuration.world import World
from pykcp.programs.operator.platform import WorkloadPlace
from pykcp.types import Object

_SOURCES = {"secret": (SECRET, "secretName"), "configMap": (CONFIG_MAP, "name")}
_BEFORE, _AFTER = r"(?<![\w./-])", r"(?=[/,;:]|$)"
"""A path begins and ends there, in `--flag=/a/path/b` for instance."""


@dataclass
class HostVolumes:
    """The volumes of one workload."""

    paths: dict[str, str] = field(default_factory=dict)
    """Where what is mounted at a path is."""
    directories: list[str] = field(default_factory=list)
    """Those that the program may write to, and that have to be made."""
    writable: list[str] = field(default_factory=list)
    """Those of the host that it may write to."""
    left: list[Object] = field(default_factory=list)
    """Volumes that mean nothing on a host."""

    def text(self, value: str) -> str:
        """A value with the paths of this host."""
        for path in sorted(self.paths, key=len, reverse=True):
            where = self.paths[path]
            value = re.sub(f"{_BEFORE}{re.escape(path)}{_AFTER}", lambda _, to=where: to, value)  # type: ignore[misc]
        return value


def host_volumes(world: World, place: WorkloadPlace, spec: Object) -> HostVolumes | None:
    """None on a platform that mounts them itself."""
    if world.platform.path(place, "/x") == "/x":
        return None
    found = HostVolumes()
    for volume, mounts in _mounted(spec):
        if not _SOURCES.keys() & volume.keys() and not {"hostPath", "emptyDir"} & volume.keys():
            found.left.append(volume)
        for mount in mounts:
            _find(found, world, place, volume, mount)
    return found


def volume_files(volumes: HostVolumes, files: WorkloadFiles, spec: Object) -> None:
    """Add the files of Secrets and ConfigMaps. Raises NotConfigurable if one is missing."""
    for volume, mounts in _mounted(spec):
        for source, (kind, name) in _SOURCES.items():
            if source in volume:
                for mount in mounts:
                    _copy(files, kind, str(volume[source].get(name) or ""), volume[source], mount)


def _mounted(spec: Object) -> Iterator[tuple[Object, Sequence[Object]]]:
    """Each volume with its mounts."""
    mounts: Sequence[Object] = spec.get("extraVolumeMounts") or ()
    for volume in spec.get("extraVolumes") or ():
        yield volume, [one for one in mounts if one.get("name") == volume.get("name")]


def _find(
    found: HostVolumes, world: World, place: WorkloadPlace, volume: Object, mount: Object
) -> None:
    path, below = _path(mount), _below(mount)
    if _SOURCES.keys() & volume.keys():
        found.paths[path] = world.platform.path(place, path)
    elif "emptyDir" in volume:
        where = world.platform.path(place, f"/volumes/{volume['name']}") + below
        found.paths[path] = where
        found.directories.append(where)
    elif "hostPath" in volume:
        where = str(volume["hostPath"].get("path") or "/").rstrip("/") + below
        found.paths[path] = where or "/"
        if not mount.get("readOnly"):
            found.writable.append(where or "/")


def _copy(files: WorkloadFiles, kind: str, name: str, source: Object, mount: Object) -> None:
    if source.get("optional") and not files.exists(kind, name):
        return
    path, below = _path(mount), str(mount.get("subPath") or "")
    for key, where in _keys(files, kind, name, source).items():
        if below and where != below:
            continue
        target = path if below else f"{path}/{where}"
        files.copy(target, name, key, kind=kind, reloads=False, purpose="extraVolumes")


def _keys(files: WorkloadFiles, kind: str, name: str, source: Object) -> Mapping[str, str]:
    """The paths of keys below the volume: `items`, or all under their own names."""
    if source.get("items"):
        return {str(one["key"]): str(one["path"]) for one in source["items"]}
    return {key: key for key in files.keys(kind, name, "extraVolumes")}


def _path(mount: Object) -> str:
    return str(mount.get("mountPath") or "").rstrip("/") or "/"


def _below(mount: Object) -> str:
    below = str(mount.get("subPath") or "").strip("/")
    return f"/{below}" if below else ""
