"""Manifests written for Kubernetes, on a host: volumes, mapped paths, probes."""

from __future__ import annotations

import json
from typing import Any

import pytest
import yaml

from pykcp.programs.operator.compiled import SHARD_PROBES, CompiledWorkload, Probes
from pykcp.programs.operator.configuration.stage import Configuration
from pykcp.programs.operator.platform import HostPlatform, KubernetesPlatform
from pykcp.programs.operator.records import Records

from .objects import configured, front_proxy, kubeconfig, made, only, root_shard, secret, shard

_ROOT = "/root-directory/kcp"
_VOLUMES = [
    {"name": "encryption", "secret": {"secretName": "keys"}},
    {"name": "policy", "configMap": {"name": "p", "items": [{"key": "a", "path": "b/c.yaml"}]}},
    {"name": "logs", "hostPath": {"path": "/var/log/kcp"}},
    {"name": "scratch", "emptyDir": {}},
    {"name": "claim", "persistentVolumeClaim": {"claimName": "x"}},
]
_MOUNTS = [
    {"name": "encryption", "mountPath": "/etc/kcp/encryption"},
    {"name": "policy", "mountPath": "/etc/kcp/policy", "readOnly": True},
    {"name": "logs", "mountPath": "/logs"},
    {"name": "scratch", "mountPath": "/scratch/"},
]
_ARGUMENTS = [
    "--encryption-provider-config=/etc/kcp/encryption/config.yaml",
    "--audit-policy-file=/etc/kcp/policy/b/c.yaml",
    "--audit-log-path=/logs/audit.log",
    "--x=/scratch,/scratchy,/a/logs",
]


def _with_volumes(**more: Any) -> Configuration:
    root = root_shard(
        extraVolumes=_VOLUMES, extraVolumeMounts=_MOUNTS, extraArgs=_ARGUMENTS, **more
    )
    policy = {"kind": "ConfigMap", "metadata": {"name": "p"}, "data": {"a": "policy", "z": ""}}
    records = Records([secret("keys", config__yaml="key"), _config(policy)])
    return configured(root, records=records)


def _config(obj: Any) -> Any:
    from pykcp.programs.operator.records import ConfigRecord

    return ConfigRecord.from_object(obj)


def test_volumes_of_manifests_are_files_of_the_host() -> None:
    workload = only(_with_volumes(), "root-kcp")
    files = f"{_ROOT}/root-kcp/files"
    assert workload.arguments[-4:] == (
        f"--encryption-provider-config={files}/etc/kcp/encryption/config.yaml",
        f"--audit-policy-file={files}/etc/kcp/policy/b/c.yaml",
        "--audit-log-path=/var/log/kcp/audit.log",
        f"--x={files}/volumes/scratch,/scratchy,/a/logs",
    )
    found = {one.path: one.content for one in workload.files}
    assert found[f"{files}/etc/kcp/encryption/config.yaml"] == b"key"
    assert found[f"{files}/etc/kcp/policy/b/c.yaml"] == b"policy"
    assert f"{files}/etc/kcp/policy/z" not in found  # not among the items
    assert workload.directories == (f"{files}/volumes/scratch",)
    assert workload.writable == ("/var/log/kcp",)
    assert [one["name"] for one in workload.volumes] == ["claim"]
    assert CompiledWorkload.from_object(workload.to_object()) == workload


def test_what_uses_no_volumes_is_described_as_before() -> None:
    workload = only(configured(root_shard()), "root-kcp")
    assert not {"directories", "writable"} & workload.to_object().keys()


def test_a_secret_of_a_volume_that_is_missing_is_named() -> None:
    root = root_shard(extraVolumes=_VOLUMES[:1], extraVolumeMounts=_MOUNTS[:1])
    (problem,) = configured(root).problems.values()
    assert problem.message == 'extraVolumes: Secret "keys" does not exist'


def test_kubernetes_mounts_volumes_itself() -> None:
    root = root_shard(extraVolumes=_VOLUMES, extraVolumeMounts=_MOUNTS, extraArgs=_ARGUMENTS)
    workload = only(configured(root, platform=KubernetesPlatform()), "root-kcp")
    assert workload.arguments[-4:] == tuple(_ARGUMENTS)
    assert len(workload.volumes) == len(_VOLUMES)


def _views(**more: Any) -> Any:
    external = {"hostname": "views.example.com", "port": 6443}
    target = {"shardRef": {"name": "alpha"}}
    return made("VirtualWorkspace", "views", target=target, external=external, **more)


def test_mapped_paths_are_those_of_the_host() -> None:
    entry = {
        "path": "/services/views/",
        "backend": "https://views-virtual-workspace.kcp.svc.cluster.local:6443/x",
        "backend_server_ca": "/etc/kcp/tls/ca/tls.crt",
        "proxy_client_cert": "/etc/kcp-front-proxy/requestheader-client/tls.crt",
        "proxy_client_key": "/elsewhere/tls.key",
    }
    proxy = front_proxy(additionalPathMappings=[entry])
    objects = (root_shard(), shard(), _views(), proxy, kubeconfig())
    found = configured(*objects)
    workload = only(found, "frontproxy-front-proxy")
    (words,) = (w for w in workload.arguments if w.startswith("--mapping-file="))
    mapping = workload.file(words.partition("=")[2])
    assert mapping is not None
    files = f"{_ROOT}/frontproxy-front-proxy/files"
    (made_,) = (one for one in yaml.safe_load(mapping.content) if "views" in one["path"])
    views = only(found, "views-virtual-workspace")
    assert made_ == {
        **entry,
        "backend": f"https://127.0.0.1:{views.listen.port}/x",
        "backend_server_ca": f"{files}/etc/kcp/tls/ca/tls.crt",
        "proxy_client_cert": f"{files}{entry['proxy_client_cert']}",
    }
    kept = only(configured(*objects, platform=KubernetesPlatform()), workload.name)
    mapping = next(one for one in kept.files if one.path.endswith("path-mapping.yaml"))
    assert entry in json.loads(mapping.content)


@pytest.mark.parametrize(
    ("platform", "more", "probes"),
    [
        (HostPlatform("/root-directory"), {}, SHARD_PROBES),
        (HostPlatform("/root-directory"), {"command": ["/bin/own"]}, Probes()),
        (KubernetesPlatform(), {}, Probes()),
        (KubernetesPlatform(), {"image": {"repository": "example.com/pykcp"}}, SHARD_PROBES),
    ],
)
def test_virtual_workspaces_of_ours_are_probed(platform: Any, more: Any, probes: Probes) -> None:
    found = configured(root_shard(), shard(), _views(**more), platform=platform)
    assert only(found, "views-virtual-workspace").probes == probes
