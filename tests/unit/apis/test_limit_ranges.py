"""LimitRanges; the texts are kube-apiserver's."""

from __future__ import annotations

from typing import Any

import pytest

from pykcp.apis.kube.workloads.limit_ranges import (
    claim_problems,
    default_limit_range,
    in_one,
    pod_problems,
    set_defaults,
)
from pykcp.types import Object


def limits(kind: str, **item: Any) -> Object:
    return {"spec": {"limits": [{"type": kind, **item}]}}


def pod(*containers: Object, **spec: Any) -> Object:
    named = [{"name": f"c{index}", "resources": one} for index, one in enumerate(containers)]
    return {"metadata": {}, "spec": {"containers": named, **spec}}


def test_a_limit_range_has_defaults_of_its_own() -> None:
    obj = limits("Container", max={"cpu": "2"}, min={"cpu": "1", "memory": "1Mi"})
    default_limit_range(obj)
    (item,) = obj["spec"]["limits"]
    assert item["default"] == {"cpu": "2"}
    assert item["defaultRequest"] == {"cpu": "2", "memory": "1Mi"}
    of_pod = limits("Pod", max={"cpu": "2"})
    default_limit_range(of_pod)
    assert "default" not in of_pod["spec"]["limits"][0]


def test_defaults() -> None:
    given = pod({"limits": {"cpu": "1"}}, {})
    given["spec"]["initContainers"] = [{"name": "i"}]
    wanted = {"default": {"cpu": "2", "memory": "1Gi"}, "defaultRequest": {"cpu": "100m"}}
    set_defaults(limits("Container", **wanted), given)
    first, second = given["spec"]["containers"]
    assert first["resources"] == {
        "limits": {"cpu": "1", "memory": "1Gi"},
        "requests": {"cpu": "100m"},
    }
    assert second["resources"]["limits"] == {"cpu": "2", "memory": "1Gi"}
    assert given["metadata"]["annotations"]["kubernetes.io/limit-ranger"] == (
        "LimitRanger plugin set: cpu request for container c0; memory limit for container c0; "
        "cpu request for container c1; cpu, memory limit for container c1; "
        "cpu request for init container i; cpu, memory limit for init container i"
    )
    untouched = pod({})
    set_defaults(limits("Pod", max={"cpu": "1"}), untouched)
    assert untouched == pod({})


@pytest.mark.parametrize(
    ("item", "resources", "expected"),
    [
        ({"min": {"cpu": "1"}}, {}, ["minimum cpu usage per Container is 1.  No request is specified"]),
        ({"min": {"cpu": "1"}}, {"requests": {"cpu": "500m"}}, ["minimum cpu usage per Container is 1, but request is 500m"]),
        (
            {"min": {"cpu": "1"}},
            {"requests": {"cpu": "1"}, "limits": {"cpu": "900m"}},
            ["minimum cpu usage per Container is 1, but limit is 900m"],
        ),
        ({"max": {"memory": "1Gi"}}, {}, ["maximum memory usage per Container is 1Gi.  No limit is specified"]),
        ({"max": {"memory": "1Gi"}}, {"limits": {"memory": "2Gi"}}, ["maximum memory usage per Container is 1Gi, but limit is 2Gi"]),
        ({"max": {"memory": "1Gi"}}, {"limits": {"memory": "1Gi"}}, []),
        (
            {"maxLimitRequestRatio": {"cpu": "2"}},
            {"requests": {"cpu": "100m"}, "limits": {"cpu": "250m"}},
            ["cpu max limit to request ratio per Container is 2, but provided ratio is 2.500000"],
        ),
        (
            {"maxLimitRequestRatio": {"cpu": "2"}},
            {"limits": {"cpu": "1"}},
            ["cpu max limit to request ratio per Container is 2, but no request is specified or request is 0"],
        ),
        (
            {"maxLimitRequestRatio": {"cpu": "2"}},
            {"requests": {"cpu": "1"}},
            ["cpu max limit to request ratio per Container is 2, but no limit is specified or limit is 0"],
        ),
    ],
)  # fmt: skip
def test_containers(item: Object, resources: Object, expected: list[str]) -> None:
    assert pod_problems(limits("Container", **item), pod(resources)) == expected


def test_pods_are_the_sum_of_their_containers() -> None:
    one = {"requests": {"cpu": "600m", "memory": "1e2000000000"}, "limits": {"cpu": "600m"}}
    item = limits("Pod", max={"cpu": "1"})
    assert pod_problems(item, pod(one)) == []
    text = "maximum cpu usage per Pod is 1, but limit is 1200m"
    assert pod_problems(item, pod(one, one)) == [text]
    waiting = [{"name": "i", "resources": {"limits": {"cpu": "3"}}}]
    text = "maximum cpu usage per Pod is 1, but limit is 3"
    assert pod_problems(item, pod(one, initContainers=waiting)) == [text]
    beside = [{"name": "i", "restartPolicy": "Always", "resources": {"limits": {"cpu": "500m"}}}]
    text = "maximum cpu usage per Pod is 1, but limit is 1100m"
    assert pod_problems(item, pod(one, initContainers=beside)) == [text]
    own = {"limits": {"cpu": "700m"}}
    assert pod_problems(item, pod(one, one, resources=own)) == [
        "maximum cpu usage per Pod is 1, but request is 1200m"
    ]


def test_claims() -> None:
    item = limits("PersistentVolumeClaim", min={"storage": "1Gi"}, max={"storage": "2Gi"})
    claim = {"spec": {"resources": {"requests": {"storage": "3Gi"}}}}
    text = "maximum storage usage per PersistentVolumeClaim is 2Gi, but request is 3Gi"
    assert claim_problems(item, claim) == [text]
    both = claim_problems(item, {"spec": {}})
    assert in_one(both) == (
        "[minimum storage usage per PersistentVolumeClaim is 1Gi.  No request is specified, "
        "maximum storage usage per PersistentVolumeClaim is 2Gi.  No request is specified]"
    )
    assert in_one(["a", "a"]) == "a"
