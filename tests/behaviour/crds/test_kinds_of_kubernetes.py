"""Definitions that become ones of Kubernetes' kinds, with objects that were stored before."""

from __future__ import annotations

import pytest

from pykcp.apis.kube.workloads import workload_crds
from pykcp.machinery.schema.crd import KUBERNETES_KIND
from pykcp.testing.client import TestClient, eventually
from pykcp.types import Object

CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
LABELS = {"app": "a"}
POD: Object = {
    "metadata": {"labels": LABELS},
    "spec": {
        "containers": [
            {
                "name": "a",
                "image": "a",
                "resources": {"requests": {"cpu": "1000m", "memory": "1024Mi"}},
            }
        ]
    },
}
CLAIM: Object = {
    "metadata": {"name": "data"},
    "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1024Mi"}}},
}
SPECS: dict[str, Object] = {
    "statefulsets": {
        "selector": {"matchLabels": LABELS},
        "serviceName": "s",
        "template": POD,
        "volumeClaimTemplates": [CLAIM],
    },
    "deployments": {"selector": {"matchLabels": LABELS}, "template": POD},
}


@pytest.mark.parametrize("plural", SPECS)
def test_what_was_stored_before_can_still_be_changed(cluster: TestClient, plural: str) -> None:
    """Quantities and defaults that it would have now are no change of what is immutable."""
    definition = next(one for one in workload_crds() if one["metadata"]["name"] == f"{plural}.apps")
    del definition["metadata"]["annotations"][KUBERNETES_KIND]
    assert cluster.post(CRDS, definition).status == 201
    path = f"/apis/apps/v1/namespaces/default/{plural}"
    obj: Object = {
        "apiVersion": "apps/v1",
        "kind": definition["spec"]["names"]["kind"],
        "metadata": {"name": "a", "finalizers": ["example.com/a"]},
        "spec": SPECS[plural],
    }
    eventually(lambda: cluster.post(path, obj).status == 201)
    marked = {"metadata": {"annotations": {KUBERNETES_KIND: "true"}}}
    assert cluster.patch(f"{CRDS}/{plural}.apps", marked).status == 200
    eventually(lambda: cluster.post(path, {"metadata": {"name": "b"}}).status == 422)

    freed = cluster.patch(f"{path}/a", {"metadata": {"finalizers": None}})
    assert freed.status == 200, freed
    generation = freed.json["metadata"]["generation"]
    again = cluster.patch(f"{path}/a", {"metadata": {"labels": {"b": "c"}}})
    assert (again.status, again.json["metadata"]["generation"]) == (200, generation)
