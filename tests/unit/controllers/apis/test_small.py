"""The small pure parts of the controllers of APIs."""

import pytest

from pykcp.controllers.apis.apiexport import service_url
from pykcp.controllers.apis.binding_deletion import RemainingBoundObjects, report
from pykcp.controllers.apis.endpoint_urls import urls_of, with_url
from pykcp.controllers.apis.extra_annotations import synced
from pykcp.controllers.apis.objects import crd_group, crd_lock
from pykcp.machinery.kcp.bound_crd import NoConversion, bound_crd
from pykcp.types import Object

NOW = "2026-01-01T00:00:00Z"


def test_extra_annotations() -> None:
    export = {"extra.apis.kcp.io/a": "1", "other": "x"}
    binding = {"extra.apis.kcp.io/b": "2", "own": "y"}
    assert synced(export, binding) == {"own": "y", "extra.apis.kcp.io/a": "1"}
    assert synced({}, binding) == {"own": "y"}


def test_urls() -> None:
    shard: Object = {"spec": {"virtualWorkspaceURL": "https://h:1/x/"}}
    assert service_url(shard, "apiexport", "c", "e") == "https://h:1/x/services/apiexport/c/e"
    assert service_url({"spec": {}}, "apiexport", "c", "e") == ""
    before = [{"url": "a"}]
    assert with_url(before, "a", is_wanted=True) is before
    assert with_url(before, "b", is_wanted=False) is before
    assert with_url(before, "b", is_wanted=True) == [{"url": "a"}, {"url": "b"}]
    assert with_url(before, "a", is_wanted=False) == []


def test_former_urls_of_a_shard() -> None:
    before = [{"url": "other"}, {"url": "old"}]
    new = [{"url": "other"}, {"url": "new"}]
    assert with_url(before, "new", is_wanted=True, former={"old"}) == new
    assert with_url(new, "new", is_wanted=True, former={"new"}) is new
    assert with_url(before, "new", is_wanted=False, former={"old"}) == [{"url": "other"}]
    fields = {"f:status": {"f:endpoints": {".": {}, 'k:{"url":"old"}': {".": {}, "f:url": {}}}}}
    entry = {"manager": "one", "subresource": "status", "fieldsV1": fields}
    found: Object = {"metadata": {"managedFields": [entry]}}
    assert (urls_of(found, "one"), urls_of(found, "two"), urls_of({}, "one")) == (
        {"old"},
        set(),
        set(),
    )


@pytest.mark.parametrize(
    ("name", "group", "lock"),
    [("w.g.io", "g.io", "w.g.io"), ("w.core", "", "w")],
)
def test_crds_and_their_locks(name: str, group: str, lock: str) -> None:
    assert crd_group(name) == group
    assert crd_lock(name) == lock


@pytest.mark.parametrize(
    ("remains", "reason", "message"),
    [
        (RemainingBoundObjects(), None, None),
        (RemainingBoundObjects(errors=["no"]), "ResourceDeletionFailed", "no"),
        (
            RemainingBoundObjects(by_resource={"w.g": 3}),  # type: ignore[arg-type]
            "SomeResourcesRemain",
            "Some resources are remaining: w.g has 3 resource instances",
        ),
        (
            RemainingBoundObjects(by_resource={"w.g": 3}, by_finalizer={"b": 1, "a": 2}),  # type: ignore[arg-type]
            "SomeFinalizersRemain",
            "Some content in the workspace has finalizers remaining: a in 2 resource instances, b in 1 resource instances",
        ),
    ],
)
def test_what_remains(
    remains: RemainingBoundObjects, reason: str | None, message: str | None
) -> None:
    binding: Object = {}
    assert report(binding, remains, NOW) is (reason is None)
    condition = binding["status"]["conditions"][0]
    assert (condition.get("reason"), condition.get("message")) == (reason, message)


def _schema(*versions: str, **more: object) -> Object:
    return {
        "metadata": {"name": "v1.w.g.io", "uid": "u", "annotations": {"other": "x"}},
        "spec": {
            "group": "g.io",
            "scope": "Cluster",
            "names": {"plural": "w", "kind": "W"},
            "versions": [
                {
                    "name": v,
                    "served": True,
                    "storage": v == versions[0],
                    "schema": {"type": "object"},
                }
                for v in versions
            ],
            **more,
        },
    }


def test_a_bound_crd() -> None:
    crd = bound_crd(_schema("v1"), "provider")
    assert crd["metadata"] == {
        "name": "u",
        "annotations": {
            "apis.kcp.io/bound-crd": "",
            "apis.kcp.io/schema-cluster": "provider",
            "apis.kcp.io/schema-name": "v1.w.g.io",
        },
    }
    assert crd["spec"]["versions"] == [
        {
            "name": "v1",
            "served": True,
            "storage": True,
            "subresources": {},
            "schema": {"openAPIV3Schema": {"type": "object"}},
        }
    ]
    assert "conversion" not in crd["spec"]


def test_a_bound_crd_of_several_versions() -> None:
    webhook = {
        "conversionReviewVersions": ["v1"],
        "clientConfig": {"url": "https://x", "caBundle": "QQ=="},
    }
    conversion = {"strategy": "Webhook", "webhook": webhook}
    crd = bound_crd(_schema("v1", "v2", conversion=conversion), "provider")
    assert crd["spec"]["conversion"] == conversion
    with pytest.raises(NoConversion, match=r"multiple versions specified for v1.w.g.io"):
        bound_crd(_schema("v1", "v2"), "provider")


def test_marks_of_a_schema_are_kept() -> None:
    schema = _schema("v1", nameValidation="PathSegmentName")
    schema["metadata"]["annotations"]["api-approved.kubernetes.io"] = "https://x"
    annotations = bound_crd(schema, "c")["metadata"]["annotations"]
    assert annotations["api-approved.kubernetes.io"] == "https://x"
    assert annotations["internal.kcp.io/validate-name"] == "path-segment"
