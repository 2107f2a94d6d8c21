"""Objects in, workloads out: the command lines are those that the programs accept."""

from __future__ import annotations

import json
import pathlib
import time

import pytest
from tests.unit.programs.operator.objects import (
    NOW,
    again,
    configured,
    front_proxy,
    kubeconfig,
    made,
    only,
    root_shard,
    secret,
    shard,
    written,
)

from pykcp.programs.cache.settings import CacheSettings
from pykcp.programs.front_proxy.settings import FrontProxySettings
from pykcp.programs.kit.settings import ProgramSettings
from pykcp.programs.operator.compiled import CompiledWorkload
from pykcp.programs.operator.kinds.parts import is_kcp_image
from pykcp.programs.operator.platform import HostPlatform, KubernetesPlatform
from pykcp.programs.operator.records import ConfigRecord, Records
from pykcp.programs.shard.settings import ShardSettings
from pykcp.programs.virtual.settings import VirtualWorkspacesSettings
from pykcp.types import Object

SETTINGS: dict[str, type[ProgramSettings]] = {
    "kcp": ShardSettings,
    "kcp-front-proxy": FrontProxySettings,
    "cache-server": CacheSettings,
    "virtual-workspaces": VirtualWorkspacesSettings,
}
POLICY = "apiVersion: audit.k8s.io/v1\nkind: Policy\nrules:\n- level: Metadata\n"
KUBECONFIG = (
    '{"clusters":[{"name":"a","cluster":{"server":"https://hook.example.com"}}],'
    '"contexts":[{"name":"a","context":{"cluster":"a"}}],"current-context":"a"}'
)
AUDIT = {
    "policy": {"configMap": {"name": "policy"}},
    "log": {"maxAge": 10},
    "webhook": {
        "configSecretName": "hook",
        "mode": "batch",
        "batchBufferSize": 100,
        "batchMaxSize": 10,
        "batchMaxWait": "10s",
        "batchThrottleBurst": 5,
        "batchThrottleEnable": True,
        "batchThrottleQPS": "2.5",
        "initialBackoff": "5s",
        "truncateEnabled": True,
        "truncateMaxBatchSize": 100000,
        "truncateMaxEventSize": 10000,
        "version": "audit.k8s.io/v1",
    },
}
AUTH = {
    "oidc": {"issuerURL": "https://auth.example.com", "clientID": "kcp", "groupsClaim": "groups"},
    "webhook": {"configSecretName": "hook", "cacheAuthenticationTTL": "1m", "version": "v1"},
    "tokenAuthFile": {"secretName": "tokens"},
    "serviceAccount": {"enabled": True},
    "dropGroups": ["a", "b"],
    "passOnGroups": ["c"],
}
AUTHORIZATION = {
    "webhook": {
        "allowPaths": ["/healthz"],
        "cacheAuthorizedTTL": "1m",
        "cacheUnauthorizedTTL": "2m",
        "configSecretName": "hook",
        "version": "v1",
    }
}


def _checked(workload: CompiledWorkload) -> ProgramSettings:
    """What the program would say to its command line."""
    words = list(workload.arguments)
    if workload.program == "kcp":
        assert words.pop(0) == "start"
    settings, _ = SETTINGS[workload.program].parse(words)
    assert settings.problems() == []
    return settings


def _installation() -> list[Object]:
    cache = {"ref": {"name": "cache"}}
    return [
        root_shard(cache=cache, auth=AUTH, audit=AUDIT, authorization=AUTHORIZATION),
        shard(auth=AUTH, audit=AUDIT, kcpVirtualWorkspace={"name": "views"}, logging={"level": 4}),
        front_proxy(auth=AUTH),
        kubeconfig(),
        made("CacheServer", "cache", certificates={}),
        made(
            "VirtualWorkspace",
            "views",
            target={"shardRef": {"name": "alpha"}},
            external={"hostname": "views.example.com", "port": 7443},
        ),
    ]


def _given() -> Records:
    policy = ConfigRecord("policy", {"audit-policy.yaml": POLICY.encode()}, "ConfigMap")
    tokens = secret("tokens", token__csv="token,user,uid\n")
    return Records([secret("hook", kubeconfig=KUBECONFIG), tokens, policy])


def test_every_command_line_is_accepted_by_its_program(tmp_path: pathlib.Path) -> None:
    platform = HostPlatform(str(tmp_path))
    out = configured(*_installation(), platform=platform, records=_given(), now=time.time())
    assert out.problems == {}
    assert [one.name for one in out.workloads] == [
        "cache-cache-server",
        "root-kcp",
        "alpha-shard-kcp",
        "views-virtual-workspace",
        "frontproxy-front-proxy",
    ]
    written(out.workloads)
    for workload in out.workloads:
        _checked(workload)


def test_running_it_again_changes_nothing() -> None:
    platform = HostPlatform("/root-directory")
    out = configured(*_installation(), platform=platform, records=_given())
    second = again(out, *_installation(), now=1_800_000_060.0, platform=platform)
    assert second.records.changed == {}
    assert [one.revision for one in second.workloads] == [one.revision for one in out.workloads]


@pytest.mark.parametrize(
    ("objects", "missing"),
    [
        ([shard()], 'RootShard "root" does not exist'),
        ([front_proxy()], 'RootShard "root" does not exist'),
        ([kubeconfig()], 'FrontProxy "frontproxy" does not exist'),
        (
            [root_shard(audit={"policy": {"configMap": {"name": "absent"}}})],
            'audit.policy: ConfigMap "absent" does not exist',
        ),
        (
            [root_shard(cache={"ref": {"name": "absent"}})],
            'cache.ref: CacheServer "absent" does not exist',
        ),
        (
            [root_shard(certificates={"caSecretRef": {"name": "absent"}})],
            'Secret "absent" with the authority does not exist',
        ),
    ],
)
def test_what_is_missing_is_named(objects: list[Object], missing: str) -> None:
    out = configured(*objects)
    (problem,) = out.problems.values()
    assert str(problem) == missing
    assert out.workloads == []


def test_an_object_that_is_wrong_does_not_hold_up_the_others() -> None:
    out = configured(root_shard(), shard("beta", cache={"ref": {"name": "absent"}}), shard("alpha"))
    assert list(out.problems) == [("Shard", "beta")]
    assert [one.name for one in out.workloads] == ["root-kcp", "alpha-shard-kcp"]


def test_records_of_an_object_that_cannot_be_configured_are_kept() -> None:
    platform = HostPlatform("/r")
    out = configured(root_shard(), shard(), kubeconfig(), front_proxy(), platform=platform)
    broken = again(
        out, root_shard(), shard(cache={"ref": {"name": "absent"}}), front_proxy(),
        now=1_800_000_060.0, platform=platform,
    )  # fmt: skip
    names = {record.name for record in broken.unneeded(of_deleted=True)}
    assert names == {"kubeconfig-cert-admin", "admin"}  # of the Kubeconfig, which is gone
    assert not list(broken.unneeded(of_deleted=False))
    orphaned = again(out, shard(), now=1_800_000_060.0, platform=platform)
    gone = {record.name for record in orphaned.unneeded(of_deleted=True)}
    assert "alpha-service-account" not in gone
    assert "root-ca" in gone


def test_ports_are_kept_when_workloads_come_and_go() -> None:
    platform = HostPlatform("/r")
    first = configured(root_shard(), shard("alpha"), shard("beta"), platform=platform)
    before = {one.name: one.listen.port for one in first.workloads}
    second = configured(root_shard(), shard("beta"), shard("aaa"), platform=platform)
    after = {one.name: one.listen.port for one in second.workloads}
    assert after["beta-shard-kcp"] == before["beta-shard-kcp"]
    assert after["aaa-shard-kcp"] not in before.values()
    assert only(second, "root-kcp").listen.port == before["root-kcp"]


def test_a_virtual_workspace_of_the_user_has_steps_and_no_flags_of_kcp() -> None:
    image = {"repository": "example.com/setup", "tag": "v1"}
    server = made(
        "VirtualWorkspace",
        "mine",
        target={"rootShardRef": {"name": "root"}},
        external={"hostname": "mine.example.com", "port": 7443},
        command=["/bin/mine", "serve"],
        initContainers=[
            {"name": "setup", "image": image, "command": ["/bin/setup"], "args": ["--now"]},
            {"name": "check", "kubeconfigSecretRef": {"name": "own"}},
        ],
    )
    records = Records([secret("own", kubeconfig=KUBECONFIG)])
    workload = only(configured(root_shard(), server, records=records), "mine-virtual-workspace")
    assert workload.program == "/bin/mine"
    assert workload.arguments[0] == "serve"
    assert not any("shard-external-url" in word for word in workload.arguments)
    first, second = workload.init
    assert (first.image, first.command, first.arguments) == (
        "example.com/setup:v1",
        ("/bin/setup",),
        ("--now",),
    )
    assert second.image == ""
    assert second.files[0].path.endswith("/etc/kcp/init-kubeconfig/kubeconfig")


def test_what_was_written_to_a_cluster_is_not_written_again() -> None:
    obj = root_shard()
    obj["metadata"] |= {"uid": "u", "generation": 3}
    first = configured(obj)
    stored = [ConfigRecord.from_object(one.to_object("kcp")) for one in first.records]
    again = Records(stored)
    configured(obj, records=again)
    assert first.records.changed
    assert again.changed == {}


def test_proxies_know_the_shards_without_the_root_shard() -> None:
    """Only those of our own programs: kcp's would refuse the flag."""
    ours = {"image": {"repository": "example.com/pykcp"}}
    server = made(
        "VirtualWorkspace",
        "own",
        target={"shardRef": {"name": "alpha"}},
        external={"hostname": "own.example.com", "port": 443},
    )
    alpha = shard(kcpVirtualWorkspace={"name": "own"})
    proxies = front_proxy(**ours), front_proxy("kcps")
    where = KubernetesPlatform()
    before = configured(root_shard(), alpha, server, *proxies, platform=where)
    assert not before.problems
    file = only(before, "frontproxy-front-proxy").file("/etc/kcp-front-proxy/shards/shards.json")
    assert file is not None
    assert file.reloads
    assert {one["metadata"]["name"]: one["spec"] for one in json.loads(file.content)} == {
        "root": {
            "baseURL": "https://root-kcp.kcp.svc.cluster.local:6443",
            "externalURL": "https://api.example.com:6443",
            "virtualWorkspaceURL": "https://root-kcp.kcp.svc.cluster.local:6443",
        },
        "alpha": {
            "baseURL": "https://alpha-shard-kcp.kcp.svc.cluster.local:6443",
            "externalURL": "https://api.example.com:6443",
            "virtualWorkspaceURL": "https://own.example.com:443",
        },
    }
    for name in ("kcps-front-proxy", "root-proxy"):
        assert "--shards-file" not in " ".join(only(before, name).arguments)
    beta = shard("beta")
    after = again(before, root_shard(), alpha, beta, server, *proxies, now=NOW, platform=where)
    revisions = [only(one, "frontproxy-front-proxy").restart_revision for one in (before, after)]
    assert revisions[0] == revisions[1]


@pytest.mark.parametrize(
    ("image", "is_kcp"),
    [
        ("ghcr.io/kcp-dev/kcp:v0.32.3", True),
        ("mirror.example.com:5000/kcp-dev/kcp", True),
        ("kcp-dev/kcp@sha256:00", True),
        ("example.com/pykcp:1", False),
        ("example.com:5000/kcp", False),
        ("example.com/my-kcp-dev/kcp", False),
    ],
)
def test_images_of_kcp(image: str, is_kcp: bool) -> None:
    assert is_kcp_image(image) == is_kcp
