"""What custom types cost: memory per cluster that brings them, and CEL on writes.

    bench/run crds [--clusters 1000] [--per-cluster 20] [--schemas 40]

Creates logical clusters with CRDs drawn from a number of distinct schemas and prints memory
and the time of discovery and OpenAPI in one of them; then creates custom objects under five
CEL rules beside ConfigMaps of the same size.
"""

from __future__ import annotations

import argparse
import concurrent.futures
import time

from target import Target
from target import load as load_target

from pykcp.testing.client import TestClient, eventually
from pykcp.testing.server import ServerProcess
from pykcp.testing.server import server as run_server

_CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
_RULES = [
    {"rule": "self.replicas >= 0", "message": "not negative"},
    {"rule": "self.replicas <= 100", "message": "at most a hundred"},
    {"rule": "!has(self.name) || self.name.size() < 64", "message": "a short name"},
    {"rule": "self.ports.all(p, p > 0 && p < 65536)", "message": "valid ports"},
    {"rule": "self.ports.size() < 10 || self.replicas > 1", "message": "many ports, many replicas"},
]


def _schema(number: int, rules: list[dict[str, str]] | None = None) -> dict[str, object]:
    spec: dict[str, object] = {
        "type": "object",
        "properties": {
            "replicas": {"type": "integer", "default": 1},
            "name": {"type": "string", "maxLength": 200},
            "ports": {
                "type": "array",
                "maxItems": 50,
                "items": {"type": "integer"},
                "default": [80],
            },
            "filler": {"type": "string"},
            **{f"field{number}x{i}": {"type": "string"} for i in range(20)},
        },
    }
    if rules:
        spec["x-kubernetes-validations"] = rules
    return {"type": "object", "properties": {"spec": spec, "status": {"type": "object"}}}


def _crd(number: int, schema: dict[str, object]) -> dict[str, object]:
    plural = f"kinds{number}"
    version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
    return {
        "metadata": {"name": f"{plural}.bench.example.com"},
        "spec": {
            "group": "bench.example.com",
            "scope": "Namespaced",
            "names": {"plural": plural, "kind": f"Kind{number}"},
            "versions": [version],
        },
    }


def _fill(server: ServerProcess, options: argparse.Namespace) -> None:
    client = server.client()

    def one(number: int) -> None:
        base = f"/clusters/bench{number}"
        made = client.post(
            f"{base}/apis/core.kcp.io/v1alpha1/logicalclusters",
            {
                "apiVersion": "core.kcp.io/v1alpha1",
                "kind": "LogicalCluster",
                "metadata": {"name": "cluster"},
            },
        )
        assert made.status == 201, made
        for i in range(options.per_cluster):
            kind = (number * 7 + i) % options.schemas
            reply = client.post(base + _CRDS, _crd(kind, _schema(kind)))
            assert reply.status == 201, reply

    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        list(pool.map(one, range(options.clusters)))


def _tenants(server: ServerProcess, target: Target, options: argparse.Namespace) -> None:
    before = target.memory()
    began = time.perf_counter()
    _fill(server, options)
    eventually(lambda: _established(server.client(cluster=f"bench{options.clusters - 1}")), 120)
    elapsed = time.perf_counter() - began
    after = target.memory()
    count = options.clusters * options.per_cluster
    print(
        f"{options.clusters} clusters with {options.per_cluster} CRDs each in {elapsed:.1f} s ({count / elapsed:.0f} CRDs/s)"
    )
    print(
        f"memory {before:.0f} -> {after:.0f} MiB, {(after - before) * 1024 / options.clusters:.1f} KiB a cluster"
    )
    for what in ("/apis", "/openapi/v3", "/openapi/v3/apis/bench.example.com/v1"):
        times = []
        for number in range(min(options.clusters, 200)):
            client = server.client(cluster=f"bench{number}")
            start = time.perf_counter()
            reply = client.get(what)
            times.append(time.perf_counter() - start)
            assert reply.status == 200, (what, reply)
        times.sort()
        print(
            f"{what:<40} p50 {times[len(times) // 2] * 1000:7.2f} ms  p99 {times[int(len(times) * 0.99)] * 1000:7.2f} ms"
        )
    print(f"memory after asking {min(options.clusters, 200)} of them: {target.memory():.0f} MiB")


def _established(client: TestClient) -> bool:
    items = client.get(_CRDS).json["items"]
    return all(
        any(c["type"] == "Established" for c in i.get("status", {}).get("conditions") or ())
        for i in items
    )


def _rules(server: ServerProcess, target: Target) -> None:
    client = server.client(cluster="root")
    client.post(_CRDS, _crd(999, _schema(999, _RULES)))
    path = "/apis/bench.example.com/v1/namespaces/default/kinds999"
    eventually(lambda: client.get(path).status == 200)
    filler = "x" * 1200

    def config_map(i: int) -> int:
        body = {"metadata": {"name": f"c{i}"}, "data": {"filler": filler}}
        return client.post("/api/v1/namespaces/default/configmaps", body).status

    def custom(i: int) -> int:
        body = {
            "apiVersion": "bench.example.com/v1",
            "kind": "Kind999",
            "metadata": {"name": f"c{i}"},
            "spec": {"filler": filler, "name": "n", "replicas": 3, "ports": [80, 443]},
        }
        return client.post(path, body).status

    costs = {}
    for name, make in (("ConfigMap", config_map), ("custom, 5 rules", custom)):
        before = target.cpu()
        with concurrent.futures.ThreadPoolExecutor(8) as pool:
            assert set(pool.map(make, range(3000))) == {201}
        costs[name] = (target.cpu() - before) / 3000 * 1e6
        print(f"create {name:<16} {costs[name]:6.0f} µs of CPU")
    print(f"ratio {costs['custom, 5 rules'] / costs['ConfigMap']:.2f}")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--clusters", type=int, default=1000)
    parser.add_argument("--per-cluster", type=int, default=20)
    parser.add_argument("--schemas", type=int, default=40)
    options = parser.parse_args()
    with run_server() as server:
        target = load_target(str(server.kubeconfig), "shard-base", "root", str(server.pid))
        _rules(server, target)
        _tenants(server, target, options)


if __name__ == "__main__":
    main()
