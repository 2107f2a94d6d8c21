"""The common type of clusters: unpublished, published, made by hand."""

from __future__ import annotations

import copy
import itertools
import random
import time
from typing import Any

import pytest

from pykcp.apis.kube.workloads import workload_crds
from pykcp.multicluster.importing.negotiation import ImportedType, negotiate, summary
from pykcp.multicluster.importing.objects import (
    UPDATE_NEVER,
    UPDATE_PUBLISHED,
    UPDATE_UNPUBLISHED,
    schema_hash,
)
from pykcp.types import Object

STRING: Object = {"type": "string"}
INTEGER: Object = {"type": "integer"}


def schema(**fields: Any) -> Object:
    return {"type": "object", "properties": fields}


def spec(fields: Object, **more: Any) -> Object:
    return {
        "groupVersion": {"group": "example.com", "version": "v1"},
        "scope": "Namespaced",
        "plural": "things",
        "kind": "Thing",
        "openAPIV3Schema": schema(spec=schema(**fields)),
        **more,
    }


def imported(
    name: str, fields: Object, strategy: str = UPDATE_UNPUBLISHED, **more: Any
) -> ImportedType:
    return ImportedType(name, spec(fields, **more), strategy)


def names(result: Object | None) -> set[str]:
    assert result is not None
    return set(result["openAPIV3Schema"]["properties"]["spec"]["properties"])


def test_before_it_is_published_a_missing_property_is_dropped() -> None:
    made = negotiate(
        [imported("a", {"x": STRING, "y": STRING}), imported("b", {"x": STRING})],
        None,
        is_fixed=False,
        is_published=False,
    )
    assert names(made.spec) == {"x"}
    assert not made.incompatible


def test_a_published_type_is_not_narrowed() -> None:
    base = spec({"x": STRING, "y": STRING})
    imports = [imported("a", {"x": STRING, "y": STRING}), imported("b", {"x": STRING})]
    made = negotiate(imports, base, is_fixed=False, is_published=True)
    assert names(made.spec) == {"x", "y"}
    assert made.incompatible == {"b"}
    assert "properties[y]" in summary(made.findings["b"])
    assert not made.findings["a"]


def test_a_published_type_is_narrowed_where_that_is_asked_for() -> None:
    base = spec({"x": STRING, "y": STRING})
    imports = [
        imported("a", {"x": STRING, "y": STRING}),
        imported("b", {"x": STRING}, UPDATE_PUBLISHED),
    ]
    made = negotiate(imports, base, is_fixed=False, is_published=True)
    assert names(made.spec) == {"x"}
    assert not made.incompatible


def test_stored_objects_keep_a_published_type_as_it_is() -> None:
    base = spec({"x": STRING, "y": STRING})
    imports = [
        imported("a", {"x": STRING, "y": STRING}),
        imported("b", {"x": STRING}, UPDATE_PUBLISHED),
    ]
    made = negotiate(
        imports,
        base,
        is_fixed=False,
        is_published=True,
        refusal=lambda _: "3 objects do not fit: a/b",
    )
    assert names(made.spec) == {"x", "y"}
    assert made.incompatible == {"b"}
    assert "3 objects do not fit" in summary(made.findings["b"])


def test_a_published_type_is_widened_when_all_clusters_can_serve_more() -> None:
    base = spec({"x": STRING})
    made = negotiate(
        [imported("a", {"x": STRING, "y": STRING})], base, is_fixed=False, is_published=True
    )
    assert names(made.spec) == {"x", "y"}


def test_without_imports_a_published_type_stays() -> None:
    base = spec({"x": STRING})
    assert negotiate([], base, is_fixed=False, is_published=True).spec == base


def test_a_type_made_by_hand_is_only_compared_with() -> None:
    base = spec({"x": STRING, "y": STRING})
    imports = [
        imported("a", {"x": STRING, "y": STRING, "z": STRING}),
        imported("b", {"x": STRING}, UPDATE_PUBLISHED),
    ]
    made = negotiate(imports, base, is_fixed=True, is_published=True)
    assert made.spec == base
    assert made.incompatible == {"b"}


def test_conflicts_concern_one_cluster_only() -> None:
    for other in (
        imported("b", {"x": INTEGER}),
        imported("b", {"x": STRING}, scope="Cluster"),
        imported("b", {"x": STRING}, kind="Other"),
        imported(
            "b",
            {"x": STRING, "l": _list("other")},
        ),
    ):
        first = imported("a", {"x": STRING, "l": _list("name")})
        made = negotiate([first, other], None, is_fixed=False, is_published=False)
        assert made.incompatible == {"b"}, other
        assert made.spec is not None
        assert schema_hash(made.spec) == schema_hash(first.spec)
        assert summary(made.findings["b"])


def _list(key: str) -> Object:
    return {
        "type": "array",
        "x-kubernetes-list-type": "map",
        "x-kubernetes-list-map-keys": [key],
        "items": {**schema(name=STRING, other=STRING), "required": [key]},
    }


def test_one_that_never_updates_takes_no_part() -> None:
    imports = [
        imported("a", {"x": STRING}, UPDATE_NEVER),
        imported("b", {"x": STRING, "y": STRING}),
    ]
    made = negotiate(imports, None, is_fixed=False, is_published=False)
    assert names(made.spec) == {"x", "y"}
    assert made.incompatible == {"a"}


def test_subresources_are_those_of_all() -> None:
    both, status = [{"name": "scale"}, {"name": "status"}], [{"name": "status"}]
    made = negotiate(
        [imported("a", {}, subResources=both), imported("b", {}, subResources=status)],
        None,
        is_fixed=False,
        is_published=False,
    )
    assert made.spec is not None
    assert made.spec["subResources"] == status


def test_the_order_of_registration_does_not_matter() -> None:
    chosen = random.Random(7)
    for _ in range(50):
        fields = [
            {name: chosen.choice((STRING, INTEGER)) for name in chosen.sample("abcdef", 4)}
            for _ in range(4)
        ]
        imports = [imported(f"c{number}", one) for number, one in enumerate(fields)]
        hashes = set()
        for order in itertools.permutations(imports):
            made = negotiate(order, None, is_fixed=False, is_published=False)
            assert made.spec is not None
            hashes.add((schema_hash(made.spec), frozenset(made.incompatible)))
        assert len(hashes) == 1


def test_descriptions_do_not_count() -> None:
    plain, described = spec({"x": STRING}), spec({"x": {**STRING, "description": "An x."}})
    assert schema_hash(plain) == schema_hash(described)
    assert schema_hash(plain) != schema_hash(spec({"description": STRING}))


@pytest.mark.slow
def test_two_hundred_types_of_fifty_clusters_take_less_than_30_seconds() -> None:
    """Types as large as Deployments, in three versions of the clusters."""
    (crd,) = (one for one in workload_crds() if one["metadata"]["name"] == "deployments.apps")
    whole = crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    forms = [copy.deepcopy(whole) for _ in range(3)]
    for number, form in enumerate(forms):
        form["properties"]["spec"]["properties"][f"new{number}"] = STRING
    began = time.process_time()
    for number in range(200):
        plural = f"things{number}"
        imports = [
            imported(f"c{cluster}", {}, plural=plural, openAPIV3Schema=forms[cluster % 3])
            for cluster in range(50)
        ]
        made = negotiate(imports, None, is_fixed=False, is_published=False)
        assert made.spec is not None
        assert not made.incompatible
    assert time.process_time() - began < 30
