"""Kubernetes' own kinds, bound by a workspace from the export of `root`: pods and their subresources."""

from __future__ import annotations

import json

import pytest

from pykcp.testing.client import APPLY, TestClient
from pykcp.types import Object

PODS = "/api/v1/namespaces/default/pods"
BUDGETS = "/apis/policy/v1/namespaces/default/poddisruptionbudgets"
TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io"


def pod(name: str, **spec: object) -> Object:
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "labels": {"app": name}},
        "spec": {"containers": [{"name": "web", "image": "web:1"}], **spec},
    }


def binding_of(name: str, node: str) -> Object:
    target = {"kind": "Node", "name": node}
    return {"apiVersion": "v1", "kind": "Binding", "metadata": {"name": name}, "target": target}


def eviction(name: str) -> Object:
    return {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": name}}


def test_tables(workspace: TestClient) -> None:
    workspace.post(PODS, pod("shown"))
    table = workspace.get(f"{PODS}/shown", accept=TABLE).json
    titles = [column["name"] for column in table["columnDefinitions"]]
    assert titles[:5] == ["Name", "Ready", "Status", "Restarts", "Age"]
    assert table["rows"][0]["cells"][:4] == ["shown", "0/1", "Pending", "0"]


def test_discovery(workspace: TestClient) -> None:
    names = {r["name"]: r for r in workspace.get("/api/v1").json["resources"]}
    assert {"pods/binding", "pods/ephemeralcontainers", "pods/log", "pods/exec"} <= set(names)
    assert (names["pods/eviction"]["group"], names["pods/eviction"]["version"]) == ("policy", "v1")
    assert sorted(names["pods"]["verbs"]) == names["configmaps"]["verbs"]


def test_a_pod_is_replaced_by_what_its_author_wrote(workspace: TestClient) -> None:
    """Tolerations and priority, which the server added, need not be in it."""
    written = pod("written", tolerations=[{"key": "own", "operator": "Exists"}])
    assert workspace.post(PODS, written).status == 201
    written["metadata"]["labels"]["changed"] = "true"
    replaced = workspace.put(f"{PODS}/written", written)
    assert replaced.status == 200, replaced
    assert replaced.json["metadata"]["labels"]["changed"] == "true"
    spec = replaced.json["spec"]
    assert (spec["priority"], spec["preemptionPolicy"]) == (0, "PreemptLowerPriority")
    assert len(spec["tolerations"]) == 3
    less = workspace.put(f"{PODS}/written", pod("written"))
    assert (less.status, less.json["reason"]) == (422, "Invalid")


def test_binding(workspace: TestClient) -> None:
    workspace.post(PODS, pod("bound"))
    assert workspace.post(f"{PODS}/bound/binding", binding_of("bound", "n1")).status == 201
    found = workspace.get(f"{PODS}/bound").json
    assert found["spec"]["nodeName"] == "n1"
    assert found["status"]["conditions"][0]["type"] == "PodScheduled"
    again = workspace.post(f"{PODS}/bound/binding", binding_of("bound", "n2"))
    assert (again.status, again.json["message"]) == (
        409,
        'Operation cannot be fulfilled on pods/binding "bound": pod bound is already assigned to node "n1"',
    )
    other = workspace.post(f"{PODS}/bound/binding", binding_of("other", "n2"))
    assert other.json["message"] == "name in URL does not match name in Binding object"
    selected = workspace.get(PODS, fieldSelector="spec.nodeName=n1").json["items"]
    assert [one["metadata"]["name"] for one in selected] == ["bound"]


def events_after(workspace: TestClient, version: str, name: str) -> list[Object]:
    query = {"watch": "true", "timeoutSeconds": "1", "resourceVersion": version}
    lines = workspace.get(PODS, **query).body.splitlines()
    events = [json.loads(line) for line in lines]
    return [one for one in events if one["object"]["metadata"]["name"] == name]


def test_a_pod_without_a_node_is_marked_and_removed(workspace: TestClient) -> None:
    """Controllers look for the mark in a pod that goes."""
    made = workspace.post(PODS, pod("brief")).json
    answer = workspace.delete(f"{PODS}/brief")
    assert answer.json["metadata"]["deletionGracePeriodSeconds"] == 0
    marked, gone = events_after(workspace, made["metadata"]["resourceVersion"], "brief")
    assert (marked["type"], gone["type"]) == ("MODIFIED", "DELETED")
    assert marked["object"]["metadata"]["deletionTimestamp"]
    assert gone["object"]["metadata"]["deletionTimestamp"]
    assert workspace.get(f"{PODS}/brief").status == 404


def test_a_pod_of_a_node_has_time_to_end(workspace: TestClient) -> None:
    workspace.post(PODS, pod("ending"))
    workspace.post(f"{PODS}/ending/binding", binding_of("ending", "n1"))
    marked = workspace.delete(f"{PODS}/ending").json["metadata"]
    assert marked["deletionGracePeriodSeconds"] == 30
    assert workspace.delete(f"{PODS}/ending").json["metadata"] == marked
    shorter = workspace.delete(f"{PODS}/ending", {"gracePeriodSeconds": 5}).json["metadata"]
    assert shorter["deletionGracePeriodSeconds"] == 5
    assert shorter["deletionTimestamp"] < marked["deletionTimestamp"]
    assert workspace.get(f"{PODS}/ending").status == 200
    assert workspace.delete(f"{PODS}/ending", {"gracePeriodSeconds": 0}).status == 200
    assert workspace.get(f"{PODS}/ending").status == 404


def test_conditions_of_a_status_may_repeat(workspace: TestClient) -> None:
    """Tests of operators append a condition without a look at those that are there."""
    made = workspace.post(PODS, pod("conditions")).json
    ready = {"type": "Ready", "status": "True"}
    made["status"]["conditions"] = [ready, ready]
    for _ in range(2):
        reply = workspace.put(f"{PODS}/conditions/status", made)
        assert reply.status == 200, reply
        assert len(reply.json["status"]["conditions"]) == 2
        made = reply.json
    changed = workspace.patch(f"{PODS}/conditions", {"metadata": {"labels": {"a": "b"}}})
    assert changed.status == 200, changed


@pytest.mark.parametrize("version", ["policy/v1", "policy/v1beta1"])
def test_eviction(workspace: TestClient, version: str) -> None:
    workspace.post(PODS, pod("evicted"))
    sent = {**eviction("evicted"), "apiVersion": version}
    evicted = workspace.post(f"{PODS}/evicted/eviction", sent)
    assert (evicted.status, evicted.json["status"], evicted.json["code"]) == (201, "Success", 201)
    assert workspace.get(f"{PODS}/evicted").status == 404
    assert workspace.post(f"{PODS}/evicted/eviction", eviction("evicted")).status == 404


def test_a_budget_protects_pods(workspace: TestClient) -> None:
    workspace.post(PODS, pod("kept"))
    running = {"status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}}
    assert workspace.patch(f"{PODS}/kept/status", running).status == 200
    selector = {"matchLabels": {"app": "kept"}}
    budget = {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": "kept"},
        "spec": {"minAvailable": 1, "selector": selector},
    }
    assert workspace.post(BUDGETS, budget).status == 201
    status: Object = {"observedGeneration": 1, "currentHealthy": 1, "desiredHealthy": 1}
    status |= {"disruptionsAllowed": 0, "expectedPods": 1}
    workspace.patch(f"{BUDGETS}/kept/status", {"status": status})
    denied = workspace.post(f"{PODS}/kept/eviction", eviction("kept"))
    assert denied.status == 429
    assert denied.json["message"] == (
        "Cannot evict pod as it would violate the pod's disruption budget."
    )
    workspace.patch(f"{BUDGETS}/kept/status", {"status": {"disruptionsAllowed": 1}})
    assert workspace.post(f"{PODS}/kept/eviction", eviction("kept")).status == 201
    found = workspace.get(f"{BUDGETS}/kept").json["status"]
    assert found["disruptionsAllowed"] == 0
    assert "kept" in found["disruptedPods"]


def test_ephemeral_containers(workspace: TestClient) -> None:
    workspace.post(PODS, pod("debugged"))
    debugger = {"name": "debugger", "image": "busybox"}
    patch = {"spec": {"ephemeralContainers": [debugger], "nodeName": "ignored"}}
    changed = workspace.patch(f"{PODS}/debugged/ephemeralcontainers", patch)
    assert changed.status == 200, changed
    assert changed.json["spec"]["ephemeralContainers"][0]["name"] == "debugger"
    assert "nodeName" not in changed.json["spec"]
    (debugging,) = changed.json["spec"]["ephemeralContainers"]
    assert debugging["terminationMessagePath"] == "/dev/termination-log"


@pytest.mark.parametrize("subresource", ["log", "exec", "attach", "portforward"])
def test_no_pod_runs_here(workspace: TestClient, subresource: str) -> None:
    workspace.post(PODS, pod("idle"))
    path = f"{PODS}/idle/{subresource}"
    answer = workspace.get(path)
    if subresource == "log":  # a pod that is not scheduled has written nothing
        assert (answer.status, answer.body) == (200, b"")
    else:
        message = "pod idle does not have a host assigned"
        assert (answer.status, answer.json["message"]) == (400, message)
    if subresource != "portforward":
        wrong = workspace.get(path, container="no")
        assert wrong.json["message"] == "container no is not valid for pod idle"
    assert workspace.get(f"{PODS}/none/{subresource}").status == 404


@pytest.mark.parametrize("subresource", ["log", "exec", "attach"])
def test_one_of_several_containers_is_chosen(workspace: TestClient, subresource: str) -> None:
    several = pod("several")
    several["spec"]["containers"] = [{"name": n, "image": "x"} for n in ("a", "b")]
    workspace.post(PODS, several)
    answer = workspace.get(f"{PODS}/several/{subresource}")
    message = "a container name must be specified for pod several, choose one of: [a b]"
    assert (answer.status, answer.json["message"]) == (400, message)


NODES = "/api/v1/nodes"
SERVICES = "/api/v1/namespaces/default/services"


def test_nothing_is_reached_by_proxy(workspace: TestClient) -> None:
    """The answers are those of kube-apiserver, as long as there is no address to connect to."""
    workspace.post(PODS, pod("unscheduled"))
    workspace.post(NODES, {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "bare"}})
    service = {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "web"}}
    workspace.post(SERVICES, {**service, "spec": {"ports": [{"port": 80}]}})
    for path, status, message in (
        (f"{PODS}/unscheduled/proxy", 400, "address not allowed"),
        (f"{PODS}/https:unscheduled:8080/proxy/x/y", 400, "address not allowed"),
        (f"{PODS}/ftp:unscheduled:21/proxy/", 400, 'invalid pod request "ftp:unscheduled:21"'),
        (f"{PODS}/none/proxy/", 404, 'pods "none" not found'),
        (f"{SERVICES}/web/proxy/", 404, 'services "web" not found'),
        (f"{SERVICES}/web:81/proxy/", 503, 'no service port 81 found for service "web"'),
        (f"{NODES}/none/proxy/", 404, 'nodes "none" not found'),
        (f"{NODES}/bare/proxy/", 500, "no preferred addresses found; known addresses: []"),
    ):
        for answer in (workspace.get(path), workspace.post(path, {})):
            assert (answer.status, answer.json["message"]) == (status, message)


def test_no_address_of_a_tenant_is_connected_to(workspace: TestClient) -> None:
    workspace.post(PODS, pod("running"))
    status = {"podIP": "192.0.2.1", "podIPs": [{"ip": "192.0.2.1"}]}
    workspace.patch(f"{PODS}/running/status", {"status": status})
    answer = workspace.get(f"{PODS}/running/proxy/")
    assert answer.status == 503
    assert "no connection to pods" in answer.json["message"]


def test_api_services(workspace: TestClient) -> None:
    path = "/apis/apiregistration.k8s.io/v1/apiservices"
    spec = {"group": "g", "version": "v1", "groupPriorityMinimum": 1, "versionPriority": 1}
    body = {"apiVersion": "apiregistration.k8s.io/v1", "kind": "APIService"}
    named = {"metadata": {"name": "v1.g"}, "spec": {**spec, "service": {"name": "s"}}}
    made = workspace.post(path, {**body, **named})
    assert made.status == 201, made
    assert made.json["spec"]["service"]["port"] == 443
    assert workspace.patch(f"{path}/v1.g", {"spec": {"caBundle": "YQ=="}}).status == 200


def test_scale(workspace: TestClient) -> None:
    path = "/apis/apps/v1/namespaces/default/deployments"
    labels = {"app": "web"}
    template = {"metadata": {"labels": labels}, "spec": pod("x")["spec"]}
    spec = {"selector": {"matchLabels": labels}, "template": template}
    body = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "web"},
        "spec": spec,
    }
    assert workspace.post(path, body).json["status"] == {}
    scale = workspace.get(f"{path}/web/scale").json
    assert scale["status"] == {"replicas": 0, "selector": "app=web"}
    applied = {"apiVersion": "autoscaling/v1", "kind": "Scale", "spec": {"replicas": 4}}
    applied["metadata"] = {"name": "web", "namespace": "default"}
    reply = workspace.patch(
        f"{path}/web/scale",
        applied,
        "application/apply-patch+yaml",
        fieldManager="scaler",
        force="true",
    )
    assert reply.status == 200, reply
    assert workspace.get(f"{path}/web").json["spec"]["replicas"] == 4


def test_quantities_are_written_as_kubernetes_writes_them(workspace: TestClient) -> None:
    limits = {"cpu": 0.5, "memory": "1.5Gi", "ephemeral-storage": 1000, "a.example.com/n": 2}
    container = {"name": "web", "image": "web:1", "resources": {"limits": limits}}
    volume = {"name": "v", "emptyDir": {"sizeLimit": "0.5Gi"}}
    spec = {"containers": [container], "volumes": [volume]}
    made = workspace.post(PODS, {**pod("amounts"), "spec": spec})
    assert made.status == 201, made
    written = {"cpu": "500m", "memory": "1536Mi", "ephemeral-storage": "1k", "a.example.com/n": "2"}
    assert made.json["spec"]["containers"][0]["resources"]["limits"] == written
    assert made.json["spec"]["volumes"][0]["emptyDir"]["sizeLimit"] == "512Mi"


def test_quantities_of_templates_and_applied_ones(workspace: TestClient) -> None:
    """The same configuration, applied again, changes nothing."""
    resources = {"requests": {"cpu": 0.25, "memory": "1024Mi"}}
    template = {
        "metadata": {"labels": {"a": "b"}},
        "spec": {"containers": [{"name": "c", "image": "i", "resources": resources}]},
    }
    body = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "amounts"},
        "spec": {"selector": {"matchLabels": {"a": "b"}}, "template": template},
    }
    path = "/apis/apps/v1/namespaces/default/deployments/amounts"
    replies = [
        workspace.request("PATCH", path, body, content_type=APPLY, fieldManager="m")
        for _ in range(2)
    ]
    assert [reply.status for reply in replies] == [201, 200]
    (container,) = replies[0].json["spec"]["template"]["spec"]["containers"]
    assert container["resources"]["requests"] == {"cpu": "250m", "memory": "1Gi"}
    assert replies[1].json == replies[0].json


def test_quantities_of_another_form_are_rejected(workspace: TestClient) -> None:
    container = {"name": "web", "image": "web:1", "resources": {"limits": {"cpu": "many"}}}
    refused = workspace.post(PODS, {**pod("wrong"), "spec": {"containers": [container]}})
    assert refused.status in (400, 422)


JOBS = "/apis/batch/v1/namespaces/default/jobs"
NODES = "/api/v1/nodes"


def _names(client: TestClient, path: str, selector: str) -> set[str]:
    found = client.get(path, fieldSelector=selector)
    assert found.status == 200, found
    return {item["metadata"]["name"] for item in found.json["items"]}


def test_selectors_of_fields_that_are_not_set(workspace: TestClient) -> None:
    """Flags and numbers that are not set are false and 0, not empty."""
    node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "unset"}}
    assert workspace.post(NODES, node).status == 201
    assert "unset" in _names(workspace, NODES, "spec.unschedulable=false")
    assert "unset" in _names(workspace, NODES, "spec.unschedulable!=true")
    assert "unset" not in _names(workspace, NODES, "spec.unschedulable=")
    workspace.patch(f"{NODES}/unset", {"spec": {"unschedulable": True}})
    assert "unset" in _names(workspace, NODES, "spec.unschedulable=true")
    workspace.post(PODS, pod("plain"))
    assert "plain" in _names(workspace, PODS, "spec.hostNetwork=false")


def test_selectors_of_jobs_slices_and_replica_sets(workspace: TestClient) -> None:
    template = {"spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]}}
    job = {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": "counted"},
        "spec": {"template": template},
    }
    assert workspace.post(JOBS, job).status == 201
    assert "counted" in _names(workspace, JOBS, "status.successful=0")
    workspace.patch(f"{JOBS}/counted/status", {"status": {"succeeded": 2}})
    assert _names(workspace, JOBS, "status.successful=2") == {"counted"}
    slices = "/apis/resource.k8s.io/v1/resourceslices"
    assert _names(workspace, slices, "spec.driver=x.example.com,spec.nodeName=n") == set()
    sets = "/apis/apps/v1/namespaces/default/replicasets"
    refused = workspace.get(sets, fieldSelector="status.replicas=0")
    known = 'only "metadata.name", "metadata.namespace"'
    why = f'"status.replicas" is not a known field selector: {known}'
    assert (refused.status, refused.json["message"].endswith(why)) == (400, True), refused


def test_subresources_of_large_pods(workspace: TestClient) -> None:
    """Bound by a worker, and not decoded for their logs."""
    containers = [{"name": f"c{n}", "image": "i" * 50} for n in range(1_000)]
    body = {**pod("large"), "spec": {"containers": containers}}
    assert workspace.post(PODS, body).status == 201
    path = f"{PODS}/large"
    chosen = workspace.get(f"{path}/log").json["message"]
    assert chosen.startswith("a container name must be specified for pod large, choose one of: [c0")
    assert workspace.get(f"{path}/log?container=c999").status == 200
    missing = workspace.get(f"{path}/log?container=x").json["message"]
    assert missing == "container x is not valid for pod large"
    labelled = binding_of("large", "n1")
    labelled["metadata"]["labels"] = {"zone": "a"}
    assert workspace.post(f"{path}/binding", labelled).status == 201
    bound = workspace.get(path).json
    assert (bound["spec"]["nodeName"], bound["metadata"]["labels"]["zone"]) == ("n1", "a")
    assert [c["type"] for c in bound["status"]["conditions"]] == ["PodScheduled"]
    again = workspace.post(f"{path}/binding", binding_of("large", "n2"))
    assert (again.status, "already assigned to node" in again.json["message"]) == (409, True)
