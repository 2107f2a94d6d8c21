"""What drivers are given: it survives a copy, and says when a program has to be restarted."""

from __future__ import annotations

from dataclasses import replace

import orjson
import pytest

from pykcp.programs.operator.compiled import (
    ROOT_SHARD,
    SHARD_PROBES,
    CompiledFile,
    CompiledWorkload,
    FileSource,
    InitStep,
    Listen,
    WorkloadOwner,
)

CERTIFICATE = CompiledFile("/tls.crt", b"one", FileSource("Secret", "root-server", "tls.crt"))
POLICY = CompiledFile("/policy.yaml", b"rules", mode=0o644, reloads=False)
COMPILED = CompiledWorkload(
    name="root-kcp",
    namespace="kcp",
    component=ROOT_SHARD,
    owner=WorkloadOwner("RootShard", "root", "uid", 3),
    program="kcp",
    arguments=("start", "--v=4"),
    listen=Listen("127.0.0.1", 6443),
    files=(CERTIFICATE, POLICY),
    environment={"A": "b"},
    probes=SHARD_PROBES,
    resources={"limits": {"cpu": "2"}},
    init=(InitStep("first", ("/bin/true",), ("--x",), files=(POLICY,)),),
    volumes=({"name": "v", "emptyDir": {}},),
)


def test_it_survives_a_copy_as_json() -> None:
    copied = CompiledWorkload.from_object(orjson.loads(orjson.dumps(COMPILED.to_object())))
    assert copied == COMPILED
    assert copied.revision == COMPILED.revision
    assert copied.restart_revision == COMPILED.restart_revision


@pytest.mark.parametrize(
    ("changed", "restarts"),
    [
        (replace(COMPILED, arguments=("start",)), True),
        (replace(COMPILED, environment={}), True),
        (replace(COMPILED, files=(replace(CERTIFICATE, content=b"two"), POLICY)), False),
        (replace(COMPILED, files=(CERTIFICATE, replace(POLICY, content=b"none"))), True),
        (replace(COMPILED, files=(CERTIFICATE,)), True),
        (replace(COMPILED, replicas=3), False),
        (replace(COMPILED, owner=replace(COMPILED.owner, generation=4)), False),
    ],
)
def test_a_change_has_another_revision_and_restarts_if_it_must(
    changed: CompiledWorkload, restarts: bool
) -> None:
    assert changed.revision != COMPILED.revision
    assert (changed.restart_revision != COMPILED.restart_revision) is restarts
