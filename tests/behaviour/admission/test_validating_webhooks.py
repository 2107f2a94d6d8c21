"""Validating webhooks: who is asked, what they are shown, and how their answers end.

Texts and codes are those of a kube-apiserver 1.36 that was asked the same.
"""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from aiohttp import web

ALLOW = {"allowed": True}
GO_STRUCT = (
    'struct { APIVersion string "json:\\"apiVersion,omitempty\\""; '
    'Kind string "json:\\"kind,omitempty\\"" }'
)


def _text(body: str, status: int = 200, kind: str = "text/plain") -> web.Response:
    return web.Response(text=body, status=status, content_type=kind)


def _review(response: Any = None, **head: str) -> web.Response:
    answer = {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", **head}
    return web.json_response(answer | ({"response": response} if response else {}))


FAILURES = {
    "uid": (
        lambda r: {**ALLOW, "uid": "other"},
        'invalid webhook response: expected response.uid="',
    ),
    "absent": (
        lambda r: _review(),
        "received invalid webhook response: webhook response was absent",
    ),
    "version": (
        lambda r: _review({"uid": "x"}, apiVersion="admission.k8s.io/v1beta1"),
        (
            "failed to call webhook: converting (v1beta1.AdmissionReview) to (v1.AdmissionReview): "
            "unknown conversion"
        ),
    ),
    "kind": (
        lambda r: _review({"uid": "x"}, apiVersion="v1", kind="Pod"),
        'no kind "Pod" is registered for version "v1" in scheme "pkg/runtime/scheme.go:111"',
    ),
    "untyped": (
        lambda r: web.json_response({"response": {"uid": r["request"]["uid"], **ALLOW}}),
        "expected webhook response of admission.k8s.io/v1, Kind=AdmissionReview, got /, Kind=",
    ),
    "garbage": (
        lambda r: _text("not json", kind="application/json"),
        (
            "couldn't get version/kind; json parse error: json: cannot unmarshal string into Go value "
            f"of type {GO_STRUCT}"
        ),
    ),
    "empty": (
        lambda r: _text("", kind="application/json"),
        "0-length response with status code: 200 and content type: application/json",
    ),
    "array": (lambda r: _text("[]"), f"cannot unmarshal array into Go value of type {GO_STRUCT}"),
    "mistyped": (
        lambda r: {"allowed": "yes"},
        (
            "cannot unmarshal string into Go struct field AdmissionResponse.response.allowed of type "
            "bool"
        ),
    ),
    "patch": (
        lambda r: {**ALLOW, "patch": "W10="},
        "received invalid webhook response: validating webhook may not return response.patch",
    ),
    "500": (
        lambda r: _text("boom", 500),
        'an error on the server ("unknown") has prevented the request from succeeding',
    ),
    "404": (lambda r: _text("", 404), "the server could not find the requested resource"),
    "302": (
        lambda r: _text("", 302),
        "the server responded with the status code 302 but did not return more information",
    ),
    "status": (
        lambda r: web.json_response({"kind": "Status", "message": "said so"}, status=422),
        "the server rejected our request due to an error in our request",
    ),
}


@pytest.mark.parametrize("case", FAILURES)
def test_no_sensible_answer_fails_closed_or_open(hooks: Any, case: str) -> None:
    respond, why = FAILURES[case]
    hooks.add("Validating", "strict", respond, objectSelector={"matchLabels": {"s": "1"}})
    hooks.add("Validating", "lenient", respond, failurePolicy="Ignore")
    refused = hooks.create("x", labels={"s": "1"})
    assert refused.status == 500
    message = refused.json["message"]
    start = 'Internal error occurred: failed calling webhook "strict.example.com": '
    assert message.startswith(start)
    assert why in message
    cause = message.removeprefix("Internal error occurred: ")
    assert refused.json["details"] == {"causes": [{"message": cause}]}
    assert hooks.create("x").status == 201
    assert len(hooks.seen("lenient")) == 2


DENIALS = {
    "plain": (None, 400, 'admission webhook "no.example.com" denied the request without explanation'),
    "reason": ({"reason": "Because"}, 400, "denied the request: Because"),
    "message": (
        {"message": "no way", "code": 403, "reason": "Forbidden"}, 403, "denied the request: no way",
    ),
    "success": ({"status": "Success", "code": 200, "message": "hm"}, 400, "denied the request: hm"),
}  # fmt: skip


@pytest.mark.parametrize("case", DENIALS)
def test_a_refusal_is_the_webhooks_own_status(hooks: Any, case: str) -> None:
    status, code, message = DENIALS[case]
    hooks.add(
        "Validating", "no", lambda _: {"allowed": False, "status": status}, failurePolicy="Ignore"
    )
    refused = hooks.create("x")
    assert refused.status == refused.json["code"] == code
    assert refused.json["status"] == "Failure"
    assert refused.json["message"].endswith(message)
    assert refused.json.get("reason", "") == (status or {}).get("reason", "")


def test_it_is_shown_the_request_and_the_object(hooks: Any) -> None:
    hooks.add("Validating", "look", lambda _: ALLOW)
    hooks.create("seen", {"a": "1"}, dryRun="All", fieldManager="me")
    (request,) = hooks.seen("look")
    metadata = request["object"].pop("metadata")
    assert request.pop("uid")
    assert request.pop("userInfo")["groups"] == ["system:masters", "system:authenticated"]
    kind, resource = ("ConfigMap", "configmaps")
    assert request == {
        "kind": {"group": "", "version": "v1", "kind": kind},
        "resource": {"group": "", "version": "v1", "resource": resource},
        "requestKind": {"group": "", "version": "v1", "kind": kind},
        "requestResource": {"group": "", "version": "v1", "resource": resource},
        "name": "seen",
        "namespace": "default",
        "operation": "CREATE",
        "object": {"kind": kind, "apiVersion": "v1", "data": {"a": "1"}},
        "oldObject": None,
        "dryRun": True,
        "options": {
            "kind": "CreateOptions", "apiVersion": "meta.k8s.io/v1", "dryRun": ["All"],
            "fieldManager": "me",
        },
    }  # fmt: skip
    assert set(metadata.pop("annotations")) == {"kcp.io/cluster"}
    assert {"name", "namespace", "uid", "creationTimestamp", "managedFields"} == set(metadata)


def test_updates_and_deletions_show_the_old_object(hooks: Any) -> None:
    hooks.create("old", {"a": "1"})
    hooks.add(
        "Validating",
        "keep",
        lambda r: {"allowed": r["request"]["operation"] != "DELETE"},
        rules=[hooks.rule(operations=["*"])],
    )
    path = f"{hooks.CONFIG_MAPS}/old"
    assert hooks.client.patch(path, {"data": {"a": "2"}}).status == 200
    refused = hooks.client.delete(path, {"propagationPolicy": "Background"})
    assert refused.status == 400
    updated, deleted = hooks.seen("keep")
    assert (updated["oldObject"]["data"], updated["object"]["data"]) == ({"a": "1"}, {"a": "2"})
    assert updated["options"]["kind"] == "UpdateOptions"
    assert (deleted["object"], deleted["oldObject"]["data"]) == (None, {"a": "2"})
    assert deleted["oldObject"]["kind"] == "ConfigMap"
    assert deleted["options"] == {
        "kind": "DeleteOptions", "apiVersion": "meta.k8s.io/v1", "propagationPolicy": "Background",
    }  # fmt: skip
    assert hooks.client.delete(hooks.CONFIG_MAPS, fieldSelector="metadata.name=old").status == 400
    assert "name" not in hooks.seen("keep")[-1]


def test_a_webhook_that_hangs_is_given_up(hooks: Any) -> None:
    async def hang() -> dict[str, bool]:
        await asyncio.sleep(30)
        return ALLOW

    hooks.add("Validating", "hang", lambda _: hang(), timeoutSeconds=1)
    refused = hooks.create("x")
    assert refused.status == 500
    assert refused.json["message"].endswith('?timeout=1s": context deadline exceeded')


def test_warnings_reach_the_client(hooks: Any) -> None:
    hooks.add("Validating", "warn", lambda _: {**ALLOW, "warnings": ["careful", 'é "q"']})
    made = hooks.create("x")
    assert made.status == 201
    assert made.header_all("Warning") == [
        '299 - "careful"',
        '299 - "é \\"q\\""'.encode().decode("latin1"),
    ]


def test_certificates_are_verified(hooks: Any) -> None:
    url = hooks.server.on("/untrusted", lambda _: ALLOW)
    hooks.add("Validating", "untrusted", None, clientConfig={"url": url})
    message = hooks.create("x").json["message"]
    assert message.endswith(
        "tls: failed to verify certificate: x509: certificate signed by unknown authority"
    )
    assert hooks.server.seen("/untrusted") == []


def test_services_cannot_be_reached(hooks: Any) -> None:
    service = {"name": "gone", "namespace": "default", "path": "/x"}
    hooks.add("Validating", "service", None, clientConfig={"service": service})
    message = hooks.create("x").json["message"]
    assert message.endswith(
        'Post "https://gone.default.svc:443/x?timeout=5s": service "gone" not found'
    )


def test_dry_run_needs_a_webhook_without_side_effects(hooks: Any) -> None:
    hooks.add("Validating", "effects", lambda _: ALLOW, sideEffects="NoneOnDryRun")
    assert hooks.create("x", dryRun="All").status == 201


def test_conditions_selectors_and_scope_decide(hooks: Any) -> None:
    deny = {"allowed": False}
    hooks.add(
        "Validating", "condition", lambda _: deny,
        matchConditions=[{"name": "big", "expression": "has(object.data) && object.data.size() > 1"}],
    )  # fmt: skip
    hooks.add("Validating", "scope", lambda _: deny, rules=[hooks.rule(scope="Cluster")])
    hooks.add(
        "Validating", "elsewhere", lambda _: deny, namespaceSelector={"matchLabels": {"x": "y"}}
    )
    hooks.add("Validating", "label", lambda _: deny, objectSelector={"matchLabels": {"x": "y"}})
    assert hooks.create("small").status == 201
    assert hooks.create("labelled", labels={"x": "y"}).status == 400
    assert hooks.create("big", {"a": "1", "b": "2"}).status == 400
    hooks.client.patch("/api/v1/namespaces/default", {"metadata": {"labels": {"x": "y"}}})
    assert hooks.create("moved").status == 400


def test_a_condition_that_fails_refuses_unless_failures_are_ignored(hooks: Any) -> None:
    bad = [{"name": "bad", "expression": "object.data.zz == 'x'"}]
    hooks.add("Validating", "lenient", lambda _: ALLOW, matchConditions=bad, failurePolicy="Ignore")
    assert hooks.create("x", {"a": "1"}).status == 201
    assert hooks.seen("lenient") == []
    hooks.add("Validating", "strict", lambda _: ALLOW, matchConditions=bad)
    refused = hooks.create("y", {"a": "1"})
    assert refused.status == 403
    assert refused.json["message"] == (
        "configmaps \"y\" is forbidden: expression 'object.data.zz == 'x'' resulted in error: "
        "no such key: zz"
    )


def test_configurations_are_exempt_and_take_effect_at_once(hooks: Any) -> None:
    everything = [{**hooks.rule(operations=["*"]), "apiGroups": ["*"], "resources": ["*/*"]}]
    everything[0]["apiVersions"] = ["*"]
    hooks.add("Validating", "all", lambda _: {"allowed": False}, rules=everything)
    assert hooks.create("x").status == 400
    path = f"{hooks.ROOT}/validatingwebhookconfigurations/all"
    assert hooks.client.patch(path, {"metadata": {"labels": {"a": "b"}}}).status == 200
    assert hooks.client.delete(path).status == 200
    assert hooks.create("x").status == 201


def test_the_older_review_is_asked_for_by_name(hooks: Any) -> None:
    hooks.add(
        "Validating", "beta", lambda _: {"allowed": False, "uid": "unchecked"},
        admissionReviewVersions=["v2", "v1beta1", "v1"],
    )  # fmt: skip
    assert hooks.create("x").status == 400
    path, review = hooks.server.reviews[-1]
    assert path.endswith("/beta")
    assert review["apiVersion"] == "admission.k8s.io/v1beta1"


def test_clusters_do_not_see_each_others_webhooks(hooks: Any, shard: Any) -> None:
    from pykcp.testing.clusters import make_cluster

    hooks.add("Validating", "mine", lambda _: {"allowed": False})
    other = make_cluster(shard, "elsewhere")
    assert hooks.create("x").status == 400
    assert other.post(hooks.CONFIG_MAPS, {"metadata": {"name": "x"}}).status == 201


def test_all_are_asked_at_once_and_the_first_refusal_counts(hooks: Any) -> None:
    meeting = asyncio.Barrier(2)

    async def meet(message: str) -> dict[str, Any]:
        await meeting.wait()
        return {"allowed": False, "status": {"message": message}}

    for name in ("b", "a"):
        hooks.add("Validating", name, lambda _, name=name: meet(name))
    assert (
        hooks.create("x").json["message"]
        == 'admission webhook "a.example.com" denied the request: a'
    )
