"""Which flags programs are given, by the version of their image."""

from __future__ import annotations

from typing import Any

import pytest
from tests.unit.programs.operator.objects import configured, made, only, root_shard, shard

from pykcp.programs.operator.compiled import CompiledWorkload
from pykcp.programs.operator.configuration.images import (
    CACHE_CLIENTS,
    MOUNTS,
    KcpVersion,
    kcp_version,
    knows,
)
from pykcp.programs.operator.platform import HostPlatform, KubernetesPlatform
from pykcp.types import Object

KUBERNETES = KubernetesPlatform()


@pytest.mark.parametrize(
    ("tag", "version"),
    [
        ("v0.32.3", KcpVersion(0, 32, 3)),
        ("0.32.3", KcpVersion(0, 32, 3)),
        ("v0.32", KcpVersion(0, 32, 0)),
        ("v1", KcpVersion(1)),
        ("v0.31.6-rc.1", KcpVersion(0, 31, 6, False)),
        ("v0.31.6+dirty", KcpVersion(0, 31, 6)),
        ("v0.31.6-rc.1+dirty", KcpVersion(0, 31, 6, False)),
        ("main", None),
        ("v0.32.x", None),
        ("3f2a", None),
        ("", None),
    ],
)
def test_tags_name_versions(tag: str, version: KcpVersion | None) -> None:
    assert kcp_version(tag) == version


@pytest.mark.parametrize(
    ("tag", "mounts", "cache_clients"),
    [
        ("v0.28.9", False, False),
        ("v0.29.1", False, False),
        ("v0.29.2", False, True),
        ("v0.30.1", False, False),
        ("v0.30.2", False, True),
        ("v0.31.0-rc.0", False, False),
        ("v0.31.0", False, True),
        ("v0.31.5", False, True),
        ("v0.31.6-rc.1", False, True),
        ("v0.31.6", True, True),
        ("v0.32.0", False, True),
        ("v0.32.2", False, True),
        ("v0.32.3", True, True),
        ("v0.33.0-rc.0", True, True),
        ("v1.0.0", True, True),
        ("main", True, True),
    ],
)
def test_flags_exist_since_a_version_of_each_line(
    tag: str, mounts: bool, cache_clients: bool
) -> None:
    spec: Object = {"image": {"tag": tag}}
    assert knows(KUBERNETES, spec, MOUNTS) == mounts
    assert knows(KUBERNETES, spec, CACHE_CLIENTS) == cache_clients
    # Programs of this project know them, whatever their tags are.
    assert knows(HostPlatform("/root-directory"), spec, MOUNTS)
    ours: Object = {"image": {"repository": "example.com/pykcp", "tag": tag}}
    assert knows(KUBERNETES, ours, MOUNTS)


def _words(workload: CompiledWorkload, flag: str) -> int:
    return sum(word.startswith(f"--{flag}") for word in workload.arguments)


@pytest.mark.parametrize(("tag", "count"), [("v0.31.0", 0), ("v0.32.3", 2), ("main", 2)])
def test_old_programs_are_not_given_flags_for_mounts(tag: str, count: int) -> None:
    image = {"tag": tag}
    cache = made("CacheServer", "cache", certificates={}, image=image)
    out = configured(root_shard(image=image), shard(image=image), cache, platform=KUBERNETES)
    for name in ("root-kcp", "alpha-shard-kcp"):
        workload = only(out, name)
        assert _words(workload, "mount-proxy-client") == count
        assert any("mounts-proxy" in file.path for file in workload.files) == bool(count)
    assert _words(only(out, "cache-cache-server"), "client-ca-file") == 1


def test_an_old_cache_server_does_not_verify_clients() -> None:
    cache = made("CacheServer", "cache", certificates={}, image={"tag": "v0.30.0"})
    workload = only(configured(cache, platform=KUBERNETES), "cache-cache-server")
    assert _words(workload, "client-ca-file") == 0


OURS = {"repository": "example.com/pykcp", "tag": "1", "imagePullSecrets": [{"name": "registry"}]}


@pytest.mark.parametrize(
    ("proxy", "image", "has_our_flags"),
    [
        (None, "example.com/pykcp:1", True),
        ({}, "example.com/pykcp:1", True),
        ({"replicas": 1}, "example.com/pykcp:1", True),
        ({"image": {"tag": "2"}}, "example.com/pykcp:2", True),
        ({"image": {"repository": "ghcr.io/kcp-dev/kcp"}}, "ghcr.io/kcp-dev/kcp:1", False),
    ],
)
def test_the_internal_proxy_has_the_image_of_its_root_shard(
    proxy: Object | None, image: str, has_our_flags: bool
) -> None:
    more: dict[str, Any] = {} if proxy is None else {"proxy": proxy}
    workload = only(configured(root_shard(image=OURS, **more), platform=KUBERNETES), "root-proxy")
    assert workload.image == image
    assert workload.pull_secrets == ("registry",)
    assert _words(workload, "shards-file") == has_our_flags
