"""What objects use of quotas: sums, scopes, and objects of another form than Kubernetes'."""

from __future__ import annotations

import pytest

from pykcp.apis.kube.workloads.quota_usage import METERS, growth
from pykcp.types import Object

PODS, CLAIMS = METERS["", "pods"], METERS["", "persistentvolumeclaims"]
missing = PODS.missing
DEVICES = METERS["resource.k8s.io", "resourceclaims"]


def usage(pod: Object, now: float = 0.0) -> dict[str, str]:
    return {name: str(amount) for name, amount in PODS.usage(pod, now).items()}


def container(name: str, **requests: str) -> Object:
    return {"name": name, "resources": {"requests": requests}}


def test_a_pod_that_is_resized_uses_the_larger_amount() -> None:
    pod: Object = {
        "metadata": {},
        "spec": {"containers": [container("a", cpu="100m")]},
        "status": {
            "containerStatuses": [
                {
                    "name": "a",
                    "resources": {"requests": {"cpu": "300m"}},
                    "allocatedResources": {"cpu": "200m"},
                }
            ]
        },
    }
    assert usage(pod)["requests.cpu"] == "300m"


def test_overhead_and_huge_pages() -> None:
    containers = [container("a", cpu="1"), container("b", cpu="500m")]
    containers[0]["resources"]["requests"]["hugepages-2Mi"] = "4Mi"
    spec = {"containers": containers, "overhead": {"cpu": "250m"}}
    used = usage({"metadata": {}, "spec": spec})
    assert used["cpu"] == used["requests.cpu"] == "1750m"
    assert used["hugepages-2Mi"] == used["requests.hugepages-2Mi"] == "4Mi"


def test_pods_that_are_stuck_use_nothing() -> None:
    metadata = {"deletionTimestamp": "1970-01-01T00:01:00Z", "deletionGracePeriodSeconds": 30}
    pod = {"metadata": metadata, "spec": {"containers": [container("a", cpu="1")]}}
    assert usage(pod, 80)["pods"] == "1"
    assert usage(pod, 91) == {"count/pods": "1"}


@pytest.mark.parametrize(
    ("selector", "names", "expected"),
    [
        ({"operator": "Exists"}, "gold", True),
        ({"operator": "Exists"}, None, False),
        ({"operator": "DoesNotExist"}, None, True),
        ({"operator": "In", "values": ["gold"]}, "gold", True),
        ({"operator": "In", "values": ["gold"]}, "silver", False),
        ({"operator": "NotIn", "values": ["gold"]}, "silver", True),
        ({"operator": "NotIn", "values": ["gold"]}, None, True),
    ],
)
def test_selectors_of_scopes(selector: Object, names: str | None, expected: bool) -> None:
    for meter, scope, field in (
        (PODS, "PriorityClass", "priorityClassName"),
        (CLAIMS, "VolumeAttributesClass", "volumeAttributesClassName"),
    ):
        spec: Object = {field: names} if names else {}
        obj: Object = {"metadata": {}, "spec": {**spec, "containers": []}}
        assert meter.is_selected({**selector, "scopeName": scope}, obj) is expected


def test_alternatives_of_devices_use_the_most_of_each_class() -> None:
    wanted = [
        {"deviceClassName": "a", "count": 2},
        {"deviceClassName": "a", "count": 5},
        {"deviceClassName": "b", "allocationMode": "All"},
    ]
    claim: Object = {"spec": {"devices": {"requests": [{"firstAvailable": wanted}]}}}
    used = {name: str(amount) for name, amount in DEVICES.usage(claim, 0).items()}
    assert used == {
        "count/resourceclaims.resource.k8s.io": "1",
        "a.deviceclass.resource.k8s.io/devices": "5",
        "b.deviceclass.resource.k8s.io/devices": "32",
    }


def test_only_growth_is_charged() -> None:
    def claim(size: str) -> Object:
        return {"metadata": {}, "spec": {"resources": {"requests": {"storage": size}}}}

    grown = growth(CLAIMS, claim("3Gi"), claim("1Gi"), 0)
    assert {name: str(amount) for name, amount in grown.items()} == {
        "count/persistentvolumeclaims": "0",
        "persistentvolumeclaims": "0",
        "requests.storage": "2Gi",
    }


def test_pods_with_resources_of_their_own_need_name_none_in_containers() -> None:
    spec: Object = {"containers": [container("a")]}
    assert missing(["requests.cpu"], {"spec": spec}) == "must specify requests.cpu for: a"
    assert missing(["requests.cpu"], {"spec": {**spec, "resources": {"requests": {}}}}) == ""


@pytest.mark.parametrize("kind", METERS)
@pytest.mark.parametrize(
    "obj",
    [{}, {"spec": None}, {"metadata": {}, "spec": "text"}, {"metadata": {}, "spec": {"ports": 1}},
     {"metadata": {}, "spec": {"containers": ["a"], "devices": "b", "resources": [1]}}],
)  # fmt: skip
def test_objects_of_another_form(kind: tuple[str, str], obj: Object) -> None:
    """A schema of another form must not stop whoever counts."""
    meter = METERS[kind]
    assert isinstance(meter.usage(obj, 0), dict)
    assert meter.is_selected({"scopeName": "BestEffort", "operator": "Exists"}, obj) in (
        True,
        False,
    )
    assert meter.charges("", obj, obj) in (True, False)


def test_nothing_is_missing_in_pods_of_another_form() -> None:
    for spec in ({}, {"spec": {"containers": [{}]}}, {"spec": {"containers": ["a"]}}, {"spec": 1}):
        assert missing(["requests.cpu"], spec) == ""
