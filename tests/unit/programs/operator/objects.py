"""Objects of an installation for tests of the configuration stage."""

from __future__ import annotations

import pathlib
from collections.abc import Iterable
from typing import Any

from pykcp.programs.operator.compiled import CompiledWorkload
from pykcp.programs.operator.configuration.stage import Configuration, configure
from pykcp.programs.operator.kinds.definitions import read_manifest
from pykcp.programs.operator.names import API_VERSION
from pykcp.programs.operator.platform import HostPlatform, Platform
from pykcp.programs.operator.records import ConfigRecord, Records
from pykcp.types import Object

NOW = 1_800_000_000.0
NAMESPACE = "kcp"


def manifest(kind: str, name: str, **spec: Any) -> Object:
    return {"apiVersion": API_VERSION, "kind": kind, "metadata": {"name": name}, "spec": spec}


def made(kind: str, name: str, **spec: Any) -> Object:
    return read_manifest(manifest(kind, name, **spec), NAMESPACE)


def root_shard(**more: Any) -> Object:
    external = {"hostname": "api.example.com", "port": 6443}
    return made(
        "RootShard", "root", **{"external": external, "cache": {}, "certificates": {}, **more}
    )


def of_root(**more: Any) -> Object:
    return {"rootShard": {"ref": {"name": "root"}}, **more}


def shard(name: str = "alpha", **more: Any) -> Object:
    return made("Shard", name, **of_root(**more))


def front_proxy(name: str = "frontproxy", **more: Any) -> Object:
    return made("FrontProxy", name, **of_root(**more))


def kubeconfig(name: str = "admin", **more: Any) -> Object:
    spec = {
        "target": {"frontProxyRef": {"name": "frontproxy"}},
        "username": "kcp-admin",
        "groups": ["system:kcp:admin"],
        "validity": "8766h",
        "secretRef": {"name": name},
    }
    return made("Kubeconfig", name, **{**spec, **more})


def secret(name: str, **data: str) -> ConfigRecord:
    return ConfigRecord(
        name, {key.replace("__", "."): value.encode() for key, value in data.items()}
    )


def configured(
    *objects: Object,
    platform: Platform | None = None,
    records: Records | None = None,
    now: float = NOW,
) -> Configuration:
    where = platform if platform is not None else HostPlatform("/root-directory")
    return configure(NAMESPACE, objects, records or Records(), where, now)


def again(before: Configuration, *objects: Object, now: float, platform: Platform) -> Configuration:
    """The stage once more, on what it has written."""
    return configured(*objects, records=Records(before.records), now=now, platform=platform)


def only(configuration: Configuration, name: str) -> CompiledWorkload:
    assert not configuration.problems, configuration.problems
    return next(one for one in configuration.workloads if one.name == name)


def written(workloads: Iterable[CompiledWorkload]) -> None:
    """The files of workloads, as a driver writes them."""
    for workload in workloads:
        for file in workload.files:
            path = pathlib.Path(file.path)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(file.content)
            path.chmod(file.mode)
