"""The official client `kubernetes`: everyday verbs, watch, patches, apply, errors, election."""

# ruff: noqa: PT017 -- a program of its own, without pytest

from __future__ import annotations

import json
import os
import threading
from collections.abc import Callable
from typing import Any

from kubernetes import client, config, dynamic, utils, watch
from kubernetes.client import ApiException
from kubernetes.leaderelection import electionconfig, leaderelection
from kubernetes.leaderelection.resourcelock.leaselock import LeaseLock

NAMESPACE = os.environ["TEST_NAMESPACE"]


def refused(code: int, reason: str, call: Callable[[], Any]) -> str:
    """The message with which the server refuses."""
    try:
        call()
    except ApiException as error:
        status = json.loads(error.body)
        assert (error.status, status["code"], status["reason"]) == (code, code, reason), status
        return str(status["message"])
    raise AssertionError(f"not refused with {code}")


def config_map(name: str, **data: str) -> client.V1ConfigMap:
    return client.V1ConfigMap(
        metadata=client.V1ObjectMeta(name=name, labels={"app": "official"}), data=data
    )


def everyday_work(core: client.CoreV1Api) -> None:
    made = core.create_namespaced_config_map(NAMESPACE, config_map("one", colour="blue"))
    assert made.metadata.uid
    assert core.read_namespaced_config_map("one", NAMESPACE).data == {"colour": "blue"}
    made.data["colour"] = "red"
    assert core.replace_namespaced_config_map("one", NAMESPACE, made).data == {"colour": "red"}
    message = refused(
        409, "Conflict", lambda: core.replace_namespaced_config_map("one", NAMESPACE, made)
    )
    assert "the object has been modified" in message
    patched = core.patch_namespaced_config_map("one", NAMESPACE, {"data": {"size": "big"}})
    assert patched.data == {"colour": "red", "size": "big"}
    patched = core.patch_namespaced_config_map(
        "one", NAMESPACE, [{"op": "remove", "path": "/data/size"}]
    )
    assert patched.data == {"colour": "red"}
    listed = core.list_namespaced_config_map(NAMESPACE, label_selector="app=official")
    assert [item.metadata.name for item in listed.items] == ["one"]
    assert core.delete_namespaced_config_map("one", NAMESPACE)["status"] == "Success"


def errors(core: client.CoreV1Api) -> None:
    message = refused(404, "NotFound", lambda: core.read_namespaced_config_map("no", NAMESPACE))
    assert message == 'configmaps "no" not found'
    refused(422, "Invalid", lambda: core.create_namespaced_config_map(NAMESPACE, config_map("A b")))
    refused(
        409,
        "AlreadyExists",
        lambda: core.create_namespaced_config_map(NAMESPACE, config_map("kube-root-ca.crt")),
    )
    refused(
        400, "BadRequest", lambda: core.list_namespaced_config_map(NAMESPACE, label_selector="=")
    )


def follow(core: client.CoreV1Api) -> None:
    """A watch from a list's resource version sees what happens afterwards, and ends in time."""
    start = core.list_namespaced_config_map(NAMESPACE).metadata.resource_version
    core.create_namespaced_config_map(NAMESPACE, config_map("seen", step="1"))
    core.patch_namespaced_config_map("seen", NAMESPACE, {"data": {"step": "2"}})
    core.delete_namespaced_config_map("seen", NAMESPACE)
    events = watch.Watch().stream(
        core.list_namespaced_config_map, NAMESPACE, resource_version=start, timeout_seconds=2
    )
    seen = [(event["type"], event["object"].data["step"]) for event in events]
    assert seen == [("ADDED", "1"), ("MODIFIED", "2"), ("DELETED", "2")], seen


def pages(core: client.CoreV1Api) -> None:
    for number in range(7):
        core.create_namespaced_config_map(NAMESPACE, config_map(f"page-{number}"))
    names: list[str] = []
    token = None
    while True:
        page = core.list_namespaced_config_map(
            NAMESPACE, label_selector="app=official", limit=3, _continue=token
        )
        names += [item.metadata.name for item in page.items]
        if not (token := page.metadata._continue):
            break
    assert names == [f"page-{number}" for number in range(7)]
    core.delete_collection_namespaced_config_map(NAMESPACE, label_selector="app=official")
    assert not core.list_namespaced_config_map(NAMESPACE, label_selector="app=official").items


def dynamic_client(api: client.ApiClient) -> None:
    maps = dynamic.DynamicClient(api).resources.get(api_version="v1", kind="ConfigMap")
    body = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "applied"},
        "data": {"a": "1"},
    }
    applied = maps.server_side_apply(body, namespace=NAMESPACE, field_manager="one")
    assert applied.data.a == "1"
    body["data"] = {"a": "2"}
    message = refused(
        409,
        "Conflict",
        lambda: maps.server_side_apply(body, namespace=NAMESPACE, field_manager="two"),
    )
    assert 'conflict with "one"' in message, message
    forced = maps.server_side_apply(
        body, namespace=NAMESPACE, field_manager="two", force_conflicts=True
    )
    assert forced.data.a == "2"
    maps.delete("applied", NAMESPACE)


def yaml_and_access(api: client.ApiClient) -> None:
    role = {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "Role",
        "metadata": {"name": "reader", "namespace": NAMESPACE},
        "rules": [{"apiGroups": [""], "resources": ["configmaps"], "verbs": ["get"]}],
    }
    utils.create_from_dict(api, role)
    review = client.V1SelfSubjectAccessReview(
        spec=client.V1SelfSubjectAccessReviewSpec(
            resource_attributes=client.V1ResourceAttributes(
                verb="get", resource="configmaps", namespace=NAMESPACE
            )
        )
    )
    answer = client.AuthorizationV1Api(api).create_self_subject_access_review(review)
    assert answer.status.allowed
    assert client.VersionApi(api).get_code().minor == "36"
    assert any(group.name == "rbac.authorization.k8s.io" for group in groups(api))


def groups(api: client.ApiClient) -> list[client.V1APIGroup]:
    found: list[client.V1APIGroup] = client.ApisApi(api).get_api_versions().groups
    return found


def election() -> None:
    leading, seen = threading.Event(), threading.Event()

    def lead() -> None:
        leading.set()
        seen.wait()
        raise RuntimeError("enough; the client gives the lead up when this fails")

    settings = electionconfig.Config(
        LeaseLock("election", NAMESPACE, "me"),
        lease_duration=6,
        renew_deadline=4,
        retry_period=1,
        onstarted_leading=lead,
        onstopped_leading=None,
    )
    candidate = threading.Thread(target=leaderelection.LeaderElection(settings).run, daemon=True)
    candidate.start()
    assert leading.wait(20), "nobody leads"
    lease = client.CoordinationV1Api().read_namespaced_lease("election", NAMESPACE)
    assert lease.spec.holder_identity == "me"
    seen.set()
    candidate.join(20)
    assert not candidate.is_alive()


def main() -> None:
    config.load_kube_config()
    core, api = client.CoreV1Api(), client.ApiClient()
    everyday_work(core)
    errors(core)
    follow(core)
    pages(core)
    dynamic_client(api)
    yaml_and_access(api)
    election()


main()
