"""Definitions of Kubernetes' kinds are written without checks at every first start: here they are checked."""

from __future__ import annotations

import pytest

from pykcp.admission.schema_checks import SCHEMA_CHECKS
from pykcp.apis.catalog import definition_of
from pykcp.apis.kcp.resource_schema import resource_schema_errors
from pykcp.apis.kube.validation import strategy_for
from pykcp.apis.kube.validation.rules import NO_FACTS
from pykcp.apis.kube.workloads import workload_crds, workload_schemas
from pykcp.apis.loader import shared_type
from pykcp.machinery.resources import API_RESOURCE_SCHEMAS, CUSTOM_RESOURCE_DEFINITIONS
from pykcp.machinery.schema.custom import custom_type
from pykcp.programs.shard.bootstrap.kubernetes import stored_definition
from pykcp.registry import codec
from pykcp.registry.catalog.native import NativeKind
from pykcp.types import Object

DEFINITIONS = [stored_definition(one) for one in workload_crds()]


SCHEMAS = list(workload_schemas())
FACTS = NO_FACTS._replace(schema_checks=SCHEMA_CHECKS)


@pytest.fixture(scope="module")
def kind() -> NativeKind:
    group, version, plural = CUSTOM_RESOURCE_DEFINITIONS
    definition = definition_of(group, plural)
    return NativeKind(definition, version, strategy_for(group, plural))


@pytest.mark.parametrize("wanted", DEFINITIONS, ids=lambda one: one["metadata"]["name"])
def test_they_are_as_the_server_would_store_them(wanted: Object, kind: NativeKind) -> None:
    obj = kind.decode(codec.copy(wanted), [])
    errors, _ = kind.before_create(obj, FACTS)
    assert errors == []
    assert obj["spec"] == wanted["spec"]
    assert obj["status"]["storedVersions"] == wanted["status"]["storedVersions"]
    assert obj["metadata"] == {**wanted["metadata"], "generation": 1}


@pytest.mark.parametrize("wanted", SCHEMAS, ids=lambda one: one["metadata"]["name"])
def test_so_are_the_schemas_of_the_export(wanted: Object) -> None:
    meta = shared_type("io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta")
    group, version, plural = API_RESOURCE_SCHEMAS
    type_ = custom_type(definition_of(group, plural).schema(version), meta)
    obj = type_.decode(codec.copy(wanted), [])
    assert resource_schema_errors(obj, FACTS) == []
    assert type_.errors(obj, None) == []
    assert obj["spec"] == wanted["spec"]
