"""Definitions of Kubernetes' kinds are written without checks at every first start: here they are checked."""

from __future__ import annotations

import pytest

from pykcp.admission.schema_checks import SCHEMA_CHECKS
from pykcp.apis.catalog import builtin_definitions
from pykcp.apis.kube.validation import strategy_for
from pykcp.apis.kube.validation.rules import NO_FACTS
from pykcp.apis.kube.workloads import workload_crds
from pykcp.machinery.resources import CUSTOM_RESOURCE_DEFINITIONS
from pykcp.programs.shard.bootstrap.kubernetes import stored_definition
from pykcp.registry import codec
from pykcp.registry.catalog.native import NativeKind
from pykcp.types import Object

DEFINITIONS = [stored_definition(one) for one in workload_crds()]


@pytest.fixture(scope="module")
def kind() -> NativeKind:
    group, version, plural = CUSTOM_RESOURCE_DEFINITIONS
    (definition,) = (d for d in builtin_definitions() if (d.group, d.plural) == (group, plural))
    return NativeKind(definition, version, strategy_for(group, plural))


@pytest.mark.parametrize("wanted", DEFINITIONS, ids=lambda one: one["metadata"]["name"])
def test_they_are_as_the_server_would_store_them(wanted: Object, kind: NativeKind) -> None:
    obj = kind.decode(codec.copy(wanted), [])
    facts = NO_FACTS._replace(schema_checks=SCHEMA_CHECKS)
    errors, _ = kind.before_create(obj, facts)
    assert errors == []
    assert obj["spec"] == wanted["spec"]
    assert obj["status"]["storedVersions"] == wanted["status"]["storedVersions"]
    assert obj["metadata"] == {**wanted["metadata"], "generation": 1}
