"""Which requests a rule, a selector or an equivalent version lets through."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from pykcp.admission.matching import parse_criteria, parse_rule
from pykcp.admission.subject import Subject
from pykcp.auth.user import User
from pykcp.machinery.status import NotFound
from pykcp.registry.context import RequestContext
from pykcp.registry.verbs.admitting import AdmissionRequest


def _resource(group: str = "", version: str = "v1", plural: str = "configmaps") -> Any:
    return SimpleNamespace(group=group, version=version, plural=plural, kind="Kind")


def _subject(
    resource: Any = None,
    *,
    operation: str = "CREATE",
    namespace: str = "ns",
    name: str = "x",
    labels: dict[str, str] | None = None,
    old_labels: dict[str, str] | None = None,
    subresource: str = "",
) -> Subject:
    return Subject(
        AdmissionRequest(
            RequestContext("c", User("u")),
            resource or _resource(),
            operation,
            namespace,
            name,
            {"metadata": {"name": name, "labels": labels or {}}},
            {"metadata": {"labels": old_labels}} if old_labels is not None else None,
            subresource,
        )
    )


def _rule(**changes: Any) -> Any:
    return {
        "operations": ["CREATE"], "apiGroups": [""], "apiVersions": ["v1"],
        "resources": ["configmaps"], **changes,
    }  # fmt: skip


RULES: dict[str, tuple[Any, dict[str, Any], bool]] = {
    "exact": (_rule(), {}, True),
    "operation": (_rule(operations=["DELETE"]), {}, False),
    "any operation": (_rule(operations=["*"]), {}, True),
    "group": (_rule(apiGroups=["apps"]), {}, False),
    "any group": (_rule(apiGroups=["*"]), {}, True),
    "version": (_rule(apiVersions=["v2"]), {}, False),
    "resource": (_rule(resources=["secrets"]), {}, False),
    "any resource": (_rule(resources=["*"]), {}, True),
    "no subresource": (_rule(), {"subresource": "status"}, False),
    "any resource, no subresource": (_rule(resources=["*"]), {"subresource": "status"}, False),
    "subresource": (_rule(resources=["configmaps/status"]), {"subresource": "status"}, True),
    "any subresource": (_rule(resources=["configmaps/*"]), {"subresource": "status"}, True),
    "any subresource, none": (_rule(resources=["configmaps/*"]), {}, True),
    "everything": (_rule(resources=["*/*"]), {"subresource": "scale"}, True),
    "that subresource of any": (_rule(resources=["*/scale"]), {"subresource": "scale"}, True),
    "namespaced": (_rule(scope="Namespaced"), {}, True),
    "cluster": (_rule(scope="Cluster"), {}, False),
    "in no namespace": (_rule(scope="Cluster"), {"namespace": ""}, True),
}


@pytest.mark.parametrize("case", RULES)
def test_rules(case: str) -> None:
    rule, changes, expected = RULES[case]
    subject = _subject(**changes)
    assert parse_rule(rule).matches(subject, subject.resource) is expected


def test_a_namespace_is_of_cluster_scope_though_it_is_in_itself() -> None:
    namespaces = _resource(plural="namespaces")
    subject = _subject(namespaces, namespace="", name="made")
    assert subject.namespace == "made"
    cluster = parse_rule(_rule(resources=["namespaces"], scope="Cluster"))
    assert cluster.matches(subject, namespaces)
    assert not parse_rule(_rule(resources=["*"], scope="Namespaced")).matches(subject, namespaces)


def _found(holder: dict[str, Any], subject: Subject, **more: Any) -> Any:
    criteria = parse_criteria(holder, more.pop("rules", "resourceRules"))
    labels = more.pop("labels", lambda _: {"team": "a"})
    return criteria.find(subject, labels, lambda _: more.get("others", ()))


def test_objects_are_selected_by_their_new_or_their_old_labels() -> None:
    holder = {"objectSelector": {"matchLabels": {"x": "1"}}}
    assert _found(holder, _subject()) is None
    assert _found(holder, _subject(labels={"x": "1"})) is not None
    assert _found(holder, _subject(labels={"x": "2"}, old_labels={"x": "1"})) is not None


def test_a_missing_namespace_matters_only_if_all_else_matches() -> None:
    def missing(_: Subject) -> dict[str, str] | None:
        raise NotFound.resource("", "namespaces", "ns")

    holder = {"namespaceSelector": {"matchLabels": {"team": "a"}}, "resourceRules": [_rule()]}
    with pytest.raises(NotFound):
        _found(holder, _subject(), labels=missing)
    assert _found(holder, _subject(operation="DELETE"), labels=missing) is None
    assert _found(holder, _subject(namespace=""), labels=missing) is not None


def test_exclusions_and_names() -> None:
    holder = {"resourceRules": [_rule(resources=["*"])], "excludeResourceRules": [_rule()]}
    assert _found(holder, _subject()) is None
    assert _found(holder, _subject(_resource(plural="secrets"))) is not None
    named = {"resourceRules": [_rule(resourceNames=["a", "b"])]}
    assert _found(named, _subject()) is None
    assert _found(named, _subject(name="b")) is not None


def test_other_versions_count_unless_only_the_exact_one_is_asked_for() -> None:
    other = _resource(version="v2")
    holder: dict[str, Any] = {"resourceRules": [_rule(apiVersions=["v2"])]}
    assert _found(holder, _subject(), others=[other]) is other
    assert _found({**holder, "matchPolicy": "Exact"}, _subject(), others=[other]) is None


def test_a_policy_without_rules_is_for_all_and_a_webhook_for_none() -> None:
    assert _found({}, _subject()) is not None
    assert _found({}, _subject(), rules="rules") is None
