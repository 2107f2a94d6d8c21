"""Pods of a placed workload, asked for in the workspace and answered by the cluster that runs them."""

from __future__ import annotations

import pathlib
import shutil
import socket
import subprocess
import threading
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from dataclasses import replace

import pytest

from pykcp.testing.client import TestClient, eventually
from pykcp.testing.kubectl import Kubectl, write_kubeconfig
from pykcp.testing.multicluster.downstream import (
    PhysicalCluster,
    make_node,
    missing_for_real_cluster,
    own_cluster,
    program,
    real_cluster,
)
from pykcp.testing.multicluster.syncers import (
    SyncerProcess,
    deployment,
    running,
    serve_workloads,
)
from pykcp.testing.multicluster.workloads import Kubelet, WorkloadController
from pykcp.testing.multicluster.workspaces import CLUSTERS, bind_workload, cluster_object, is_ready
from pykcp.testing.server import ServerProcess, server
from pykcp.testing.sharded import free_ports
from pykcp.testing.workspaces import inside, make_workspace
from pykcp.types import Object

STANDIN = program("kubelet-standin", "PYKCP_KUBELET_STANDIN")
"""Built from `kubelet.go`, which is beside this file."""
DEPLOYMENTS = "/apis/apps/v1/namespaces/default/deployments"
PODS = "/api/v1/namespaces/default/pods"


@pytest.fixture(scope="module")
def hub() -> Iterator[ServerProcess]:
    with server("--cluster-probe-interval=500ms", "--cluster-recovery=1s") as process:
        yield process


def make_place(
    hub: ServerProcess, name: str, cluster: PhysicalCluster, mode: str = "Push"
) -> TestClient:
    """A workspace with one cluster."""
    root = hub.client(cluster="root")
    make_workspace(root, name)
    workspace = inside(root, name)
    bind_workload(workspace)
    serve_workloads(workspace, "pods")
    assert workspace.get(PODS).json["items"] == []
    spec = {"kubeconfig": cluster.kubeconfig_text()} if mode == "Push" else {}
    registered = cluster_object("east", mode=mode, syncResources=["deployments.apps"], **spec)
    made = workspace.post(CLUSTERS, registered)
    assert made.status == 201, made
    return workspace


def place_workload(workspace: TestClient) -> None:
    eventually(lambda: is_ready(workspace, "east"), 30)
    eventually(lambda: workspace.get(DEPLOYMENTS).status == 200, 30)  # the type is negotiated
    made = workspace.post(DEPLOYMENTS, deployment("web", "east", replicas=2))
    assert made.status == 201, made


def test_pods_of_a_placed_workload_are_seen_in_the_workspace(
    hub: ServerProcess, tmp_path: pathlib.Path
) -> None:
    with (
        own_cluster("east", tmp_path) as cluster,
        WorkloadController(cluster.client, makes_pods=True),
    ):
        workspace = make_place(hub, "seen", cluster)
        place_workload(workspace)
        pods = eventually(lambda: _named(workspace, 2), 30)
        assert sorted(pods) == ["web-0", "web-1"]
        pod = workspace.get(f"{PODS}/web-0").json
        assert pod["metadata"]["namespace"] == "default"
        assert pod["metadata"]["labels"]["workloads.kcp.dev/cluster"] == "east"
        assert pod["status"]["phase"] == "Running"
        chosen = workspace.get(PODS, labelSelector="app=web,workloads.kcp.dev/cluster=east")
        assert len(chosen.json["items"]) == 2
        assert workspace.get(PODS, labelSelector="app=other").json["items"] == []
        everywhere = workspace.get("/api/v1/pods").json["items"]
        assert {pod["metadata"]["namespace"] for pod in everywhere} == {"default"}
        table = workspace.get(PODS, accept="application/json;as=Table;g=meta.k8s.io;v=v1").json
        assert table["rows"][0]["cells"][:3] == ["web-0", "1/1", "Running"]
        assert workspace.get(f"{PODS}/absent").status == 404
        _check_watches(workspace, cluster)
        # What the cluster says is what the user gets; a pod without a node has no log yet.
        answer = workspace.get(f"{PODS}/web-0/log")
        assert (answer.status, answer.body) == (200, b""), answer
        answer = workspace.get(f"{PODS}/web-0/log", container="none")
        assert answer.status == 400, answer
        assert answer.json["message"] == "container none is not valid for pod web-0"
        assert workspace.delete(f"{PODS}/web-0").status == 200
        nobody = workspace.with_token("nobody")
        assert nobody.get(f"{PODS}/web-1/log").status == 401
        # A cluster that does not answer costs a warning, not the list.
        assert cluster.process is not None
        cluster.process.kill()
        reply = workspace.get(PODS)
        assert reply.status == 200
        assert "cluster east cannot be read" in (reply.header("warning") or "")
        assert workspace.get(f"{PODS}/web-1/log").status == 503
        cluster.process.start()


def _check_watches(workspace: TestClient, cluster: PhysicalCluster) -> None:
    """Lists and watches as kubectl and informers use them."""
    listed = workspace.get(PODS).json
    version = listed["metadata"]["resourceVersion"]
    assert not version.isdecimal()  # it has a part for the cluster
    # A change between the list and the watch is not missed.
    place = cluster.client.get("/api/v1/pods").json["items"][0]["metadata"]["namespace"]
    path = f"/api/v1/namespaces/{place}/pods"
    _label(cluster, f"{path}/web-1", "first")
    for where in (PODS, "/api/v1/pods"):
        with closing(workspace.watch(where, resourceVersion=version)) as events:
            event = next(one for one in events if _step(one) == "first")
            assert event["type"] == "MODIFIED"
            assert event["object"]["metadata"]["namespace"] == "default"
            assert event["object"]["metadata"]["labels"]["workloads.kcp.dev/cluster"] == "east"
            last = event["object"]["metadata"]["resourceVersion"]
    # One that goes on from an event gets what follows, and stored pods as well.
    with closing(workspace.watch(PODS, resourceVersion=last)) as events:
        _label(cluster, f"{path}/web-1", "second")
        assert _step(next(events)) == "second"
        stored = {"metadata": {"name": "stored"}, "spec": {"containers": [_CONTAINER]}}
        assert workspace.post(PODS, {**_POD, **stored}).status == 201
        event = next(events)
        assert (event["type"], event["object"]["metadata"]["name"]) == ("ADDED", "stored")
        last = event["object"]["metadata"]["resourceVersion"]
        assert workspace.delete(f"{PODS}/stored").status == 200
    # A streaming list: everything, a bookmark at its end, then changes.
    streamed = {"sendInitialEvents": "true", "resourceVersionMatch": "NotOlderThan"}
    asked = {**streamed, "allowWatchBookmarks": "true", "labelSelector": "app=web"}
    with closing(workspace.watch("/api/v1/pods", **asked)) as events:
        first = [next(events) for _ in range(3)]
        names = sorted(one["object"]["metadata"].get("name", "") for one in first)
        assert [one["type"] for one in first] == ["ADDED", "ADDED", "BOOKMARK"], first
        assert names == ["", "web-0", "web-1"]
        marks = first[2]["object"]["metadata"]
        assert marks["annotations"] == {"k8s.io/initial-events-end": "true"}
        _label(cluster, f"{path}/web-0", "third")
        assert _step(next(one for one in events if one["type"] == "MODIFIED")) == "third"
    # The version of one pod is that of its cluster; clusters that are gone are not waited for.
    own = workspace.get(f"{PODS}/web-0").json["metadata"]["resourceVersion"]
    with closing(workspace.watch(PODS, resourceVersion=own)) as events:
        _label(cluster, f"{path}/web-0", "fourth")
        assert _step(next(events)) == "fourth"
    assert workspace.get(PODS, resourceVersion=last).status == 200
    lost = workspace.get(PODS, watch="true", resourceVersion="1.zzzzzz-5")
    assert lost.status == 410, lost
    chosen = {"labelSelector": "workloads.kcp.dev/cluster=west", "timeoutSeconds": "1"}
    assert list(workspace.watch(PODS, **chosen)) == []
    table = "application/json;as=Table;g=meta.k8s.io;v=v1"
    with closing(workspace.watch(PODS, table, resourceVersion=own)) as events:
        assert next(events)["object"]["rows"][0]["cells"][0] == "web-0"


_CONTAINER = {"name": "main", "image": "nginx"}
_POD = {"apiVersion": "v1", "kind": "Pod"}


def _label(cluster: PhysicalCluster, path: str, step: str) -> None:
    done = cluster.client.patch(path, {"metadata": {"labels": {"step": step}}})
    assert done.status == 200, done


def _step(event: Object) -> str:
    labels = event["object"]["metadata"].get("labels") or {}
    return str(labels.get("step", ""))


@pytest.mark.slow
@pytest.mark.skipif(STANDIN is None, reason="the stand-in of the kubelet is not built")
@pytest.mark.skipif(bool(missing_for_real_cluster()), reason="no Kubernetes on this machine")
@pytest.mark.skipif(shutil.which("kubectl") is None, reason="no kubectl on this machine")
@pytest.mark.parametrize("mode", ["Push", "Pull"])
def test_logs_commands_files_and_ports_of_pods(
    hub: ServerProcess, tmp_path: pathlib.Path, mode: str
) -> None:
    with (
        real_cluster("east", tmp_path) as cluster,
        kubelet_server(cluster, tmp_path),
        Kubelet(cluster.client),
        ExitStack() as stack,
    ):
        workspace = make_place(hub, f"streams-{mode.lower()}", cluster, mode)
        if mode == "Pull":
            upstream = replace(workspace.access, path=workspace.prefix)
            text = cluster.kubeconfig_text()
            stack.enter_context(running(SyncerProcess(tmp_path, "east", upstream, text)))
        place_workload(workspace)
        pods = eventually(lambda: _named(workspace, 2, "Running"), 60)
        access = replace(workspace.access, path=workspace.prefix)
        kubeconfig = write_kubeconfig(tmp_path / "kubeconfig", access, tmp_path / "ca.crt")
        kubectl = Kubectl(str(shutil.which("kubectl")), kubeconfig)
        logs = kubectl.attempt("logs", "deployment/web")
        assert logs.stdout.startswith("log of web-"), logs
        for websockets in ("true", "false"):  # otherwise SPDY
            chosen = {
                "KUBECTL_REMOTE_COMMAND_WEBSOCKETS": websockets,
                "KUBECTL_PORT_FORWARD_WEBSOCKETS": websockets,
            }
            said = kubectl.attempt("exec", pods[0], "--", "echo", "hello", **chosen)
            assert said.stdout == "hello\n", said
            typed = kubectl.attempt("exec", "-i", pods[0], "--", "cat", stdin="typed", **chosen)
            assert typed.stdout == "typed", typed
            failed = kubectl.attempt("exec", pods[0], "--", "sh", "-c", "exit 3", **chosen)
            assert failed.returncode == 3, failed
            _check_copy(kubectl, pods[0], tmp_path / f"files-{websockets}", chosen)
            _check_ports(kubectl, pods[0], chosen)


def _check_copy(
    kubectl: Kubectl, pod: str, folder: pathlib.Path, environment: dict[str, str]
) -> None:
    folder.mkdir()
    (folder / "there").mkdir()
    (folder / "sent").write_text("content")
    done = kubectl.attempt(
        "cp", str(folder / "sent"), f"{pod}:{folder}/there/received", **environment
    )
    assert done.returncode == 0, done
    assert (folder / "there" / "received").read_text() == "content"
    done = kubectl.attempt(
        "cp", f"{pod}:{folder}/there/received", str(folder / "back"), **environment
    )
    assert done.returncode == 0, done
    assert (folder / "back").read_text() == "content"


def _check_ports(kubectl: Kubectl, pod: str, environment: dict[str, str]) -> None:
    (local,) = free_ports(1)
    with echo_server() as port:
        process = subprocess.Popen(
            [kubectl.binary, "port-forward", f"pod/{pod}", f"{local}:{port}"],
            env={**kubectl._environment, **environment},
            stdout=subprocess.PIPE,
        )
        try:
            eventually(lambda: _echoed(local) == b"ping", 20)
        finally:
            process.terminate()
            process.communicate()


def _echoed(port: int) -> bytes:
    try:
        with socket.create_connection(("127.0.0.1", port), 5) as connection:
            connection.sendall(b"ping")
            return connection.recv(100)
    except OSError:
        return b""


@contextmanager
def echo_server() -> Iterator[int]:
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def serve() -> None:
            while True:
                try:
                    connection, _ = listening.accept()
                except OSError:
                    return
                with connection:
                    connection.sendall(connection.recv(100))

        threading.Thread(target=serve, daemon=True).start()
        yield listening.getsockname()[1]
        listening.shutdown(socket.SHUT_RDWR)


@contextmanager
def kubelet_server(cluster: PhysicalCluster, folder: pathlib.Path) -> Iterator[None]:
    """What answers for logs and commands of the node."""
    (port,) = free_ports(1)
    home = folder / cluster.name
    words = [str(STANDIN), f"127.0.0.1:{port}", home / "serving.crt", home / "serving.key"]
    process = subprocess.Popen(words)
    make_node(cluster.client)
    status = {
        "status": {
            "addresses": [{"type": "InternalIP", "address": "127.0.0.1"}],
            "daemonEndpoints": {"kubeletEndpoint": {"Port": port}},
        }
    }
    assert cluster.client.patch("/api/v1/nodes/node-1/status", status).status == 200
    try:
        yield
    finally:
        process.kill()
        process.wait()


def _named(workspace: TestClient, count: int, phase: str = "") -> list[str] | None:
    pods = [
        pod["metadata"]["name"]
        for pod in workspace.get(PODS).json["items"]
        if not phase or (pod.get("status") or {}).get("phase") == phase
    ]
    return pods if len(pods) == count else None
