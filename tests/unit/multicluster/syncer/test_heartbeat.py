"""What a syncer reports of the capacity of a cluster."""

from __future__ import annotations

import pytest

from pykcp.multicluster.scheduling.filters import lacking_resource
from pykcp.multicluster.scheduling.model import ClusterView
from pykcp.multicluster.scheduling.snapshot import free_capacity
from pykcp.multicluster.syncer.heartbeat import totals
from pykcp.types import Object

GPU = "nvidia.com/gpu"
MANY = {f"example.com/device-{number}": "1" for number in range(100)}


@pytest.mark.parametrize(("lists", "expected"), [
    ([], {}),
    ([{"cpu": "4"}, {"cpu": "500m"}], {"cpu": "4500m"}),
    ([{"memory": "1Gi"}, {"memory": "1Mi"}], {"memory": str((1 << 30) + (1 << 20))}),
    ([{"cpu": "4", GPU: "2"}, {"cpu": "4"}, {GPU: 6}], {"cpu": "8000m", GPU: "8"}),
    ([{"hugepages-2Mi": "0"}, {"bad": "many"}], {"hugepages-2Mi": "0"}),
])  # fmt: skip
def test_all_resources_are_summed(lists: list[Object], expected: Object) -> None:
    assert totals(lists) == expected


def test_a_report_has_a_limited_number_of_resources() -> None:
    found = totals([MANY, {"cpu": "1", "memory": "1", "example.com/device-0": "1"}])
    assert len(found) == 64 + 2
    assert (found["cpu"], found["memory"], found["example.com/device-0"]) == ("1000m", "1", "2")


@pytest.mark.parametrize(("requests", "lacking"), [
    ({"cpu": 1000}, ""),
    ({GPU: 1000}, ""),
    ({GPU: 2000}, GPU),
    ({"amd.com/gpu": 1000}, "amd.com/gpu"),
])  # fmt: skip
def test_workloads_that_need_a_device_fit_where_there_is_one(
    requests: dict[str, int], lacking: str
) -> None:
    status = {
        "allocatable": totals([{"cpu": "4", GPU: "2"}]),
        "requested": totals([{"cpu": "1", GPU: "1"}]),
    }
    view = ClusterView("a", free=free_capacity(status))
    assert lacking_resource(view, requests) == lacking
