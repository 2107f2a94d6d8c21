"""Patterns and rules that are made to take long: answered soon, and rightly.

An engine that backtracks, or a compiler that is not linear, would not come back before the
test times out.
"""

from __future__ import annotations

from typing import Any

import pytest

from pykcp.testing.client import TestClient, eventually

Object = dict[str, Any]
CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
TRAPS = "/apis/example.com/v1/namespaces/default/traps"
SPEC = "spec.validation.openAPIV3Schema.properties[spec]"


def definition(spec: Object) -> Object:
    schema = {"type": "object", "properties": {"spec": spec}}
    return {
        "metadata": {"name": "traps.example.com"},
        "spec": {
            "group": "example.com",
            "scope": "Namespaced",
            "names": {"plural": "traps", "singular": "trap", "kind": "Trap"},
            "versions": [
                {"name": "v1", "served": True, "storage": True,
                 "schema": {"openAPIV3Schema": schema}},
            ],
        },
    }  # fmt: skip


def install(client: TestClient, spec: Object) -> None:
    made = client.post(CRDS, definition(spec))
    assert made.status == 201, made
    eventually(lambda: client.get(TRAPS).status == 200)


def trap(name: str, **spec: Any) -> Object:
    meta = {"name": name}
    return {"apiVersion": "example.com/v1", "kind": "Trap", "metadata": meta, "spec": spec}


PATTERNS = [
    ("^(a?){27}a{27}$", "a" * 27, "a" * 26 + "!"),
    ("^((a?){30}){30}$", "a" * 900, "a" * 5_000),
    ("^(a|a)*b", "aab", "a" * 100_000),
    ("^(a+)+$", "a" * 100_000, "a" * 100_000 + "!"),
]


@pytest.mark.parametrize(("pattern", "good", "bad"), PATTERNS)
def test_a_pattern_that_would_backtrack(
    cluster: TestClient, pattern: str, good: str, bad: str
) -> None:
    text = {"type": "string", "pattern": pattern}
    install(cluster, {"type": "object", "properties": {"text": text}})
    assert cluster.post(TRAPS, trap("good", text=good)).status == 201
    refused = cluster.post(TRAPS, trap("bad", text=bad))
    assert refused.status == 422, refused
    cause = refused.json["details"]["causes"][0]
    assert cause["field"] == "spec.text"
    assert cause["message"].endswith(f"spec.text in body should match '{pattern}'")


REFUSED = [
    ("(x{1000}){1000}", "error parsing regexp: invalid repeat count: `{1000}`"),
    ("(?=a)", "error parsing regexp: invalid or unsupported Perl syntax: `(?=`"),
    (r"\pL{999}", "the regular expression needs more than 1 MiB when compiled"),
    ("a" * 20_001, "the regular expression is longer than 20000 characters"),
]


@pytest.mark.parametrize(("pattern", "why"), REFUSED)
def test_a_pattern_that_is_refused(cluster: TestClient, pattern: str, why: str) -> None:
    text = {"type": "string", "pattern": pattern}
    made = cluster.post(CRDS, definition({"type": "object", "properties": {"text": text}}))
    assert made.status == 422, made
    cause = made.json["details"]["causes"][0]
    assert cause["field"] == f"{SPEC}.properties[text].pattern"
    assert cause["message"].endswith(f"must be a valid regular expression, but isn't: {why}")


def test_many_large_patterns_are_refused_together(cluster: TestClient) -> None:
    fields = {f"f{n}": {"type": "string", "pattern": f"{n}.{{1000}}"} for n in range(1000)}
    made = cluster.post(CRDS, definition({"type": "object", "properties": fields}))
    assert made.status == 422, made
    assert "the patterns of this schema are too large together" in made.json["message"]


def test_a_rule_with_a_pattern_that_would_backtrack(cluster: TestClient) -> None:
    text = {"type": "string", "maxLength": 100_000}
    rules = [{"rule": "!self.text.matches('^(a?){27}a{27}$')"}]
    spec = {"type": "object", "properties": {"text": text}, "x-kubernetes-validations": rules}
    install(cluster, spec)
    assert cluster.post(TRAPS, trap("long", text="a" * 100_000)).status == 201
    refused = cluster.post(TRAPS, trap("short", text="a" * 30))
    assert refused.status == 422, refused
    assert "failed rule: !self.text.matches('^(a?){27}a{27}$')" in refused.json["message"]


def test_a_rule_of_thousands_of_terms(cluster: TestClient) -> None:
    fields = {"size": {"type": "integer"}}
    rules = [{"rule": " && ".join(f"self.size != {n}" for n in range(4_000)), "message": "taken"}]
    install(cluster, {"type": "object", "properties": fields, "x-kubernetes-validations": rules})
    assert cluster.post(TRAPS, trap("good", size=-1)).status == 201
    refused = cluster.post(TRAPS, trap("bad", size=3_999))
    assert refused.status == 422, refused
    assert refused.json["details"]["causes"][0]["message"].endswith(": taken")


def test_a_rule_that_nests_too_deeply(cluster: TestClient) -> None:
    rules = [{"rule": "(" * 5_000 + "true" + ")" * 5_000}]
    spec = {"type": "object", "properties": {}, "x-kubernetes-validations": rules}
    made = cluster.post(CRDS, definition(spec))
    assert made.status == 422, made
    assert "expression recursion limit exceeded: 250" in made.json["message"]


def test_work_that_the_cost_does_not_show_ends(cluster: TestClient) -> None:
    texts = {"type": "array", "maxItems": 1_300, "items": {"type": "string", "maxLength": 10}}
    rules = [{"rule": "self.texts.all(x, self.texts.max() != '')"}]
    spec = {"type": "object", "properties": {"texts": texts}, "x-kubernetes-validations": rules}
    install(cluster, spec)
    assert cluster.post(TRAPS, trap("few", texts=["a"] * 100)).status == 201
    refused = cluster.post(TRAPS, trap("many", texts=["a"] * 1_300))
    assert refused.status == 422, refused
    assert "actual cost limit exceeded" in refused.json["message"]
