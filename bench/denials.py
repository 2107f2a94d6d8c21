"""Whether time tells what a refusal does not: a foreign workspace against one that does not exist.

    bench/run denials [--count 4000]

A user without rights asks for workspaces that are there and for workspaces that are not, in
random order, and is refused each time. For each way to name a workspace it prints the median of both
times and how often a guess from one time would be right: 50% is chance. Each is measured twice,
with places that were asked for again and again, and with places asked for once.
"""

from __future__ import annotations

import argparse
import pathlib
import random
import statistics
import tempfile
import time

from pykcp.testing.client import TestClient, eventually
from pykcp.testing.server import server

WORKSPACES = "/apis/tenancy.kcp.io/v1alpha1/workspaces"
ASKED = "/api/v1/namespaces/default/configmaps"


def make(parent: TestClient, names: list[str]) -> dict[str, str]:
    """Workspaces that are ready; their logical clusters by name."""
    for name in names:
        body = {
            "apiVersion": "tenancy.kcp.io/v1alpha1",
            "kind": "Workspace",
            "metadata": {"name": name},
            "spec": {"type": {"name": "universal", "path": "root"}},
        }
        assert parent.post(WORKSPACES, body).status == 201
    found: dict[str, str] = {}

    def all_ready() -> bool:
        items = parent.get(WORKSPACES).json["items"]
        ready = [i for i in items if (i.get("status") or {}).get("phase") == "Ready"]
        found.update((i["metadata"]["name"], i["spec"]["cluster"]) for i in ready)
        return all(name in found for name in names)

    eventually(all_ready, 120)
    return found


def ask(client: TestClient, place: str) -> float:
    client.prefix = f"/clusters/{place}"
    began = time.perf_counter()
    reply = client.get(ASKED)
    took = time.perf_counter() - began
    assert reply.status == 403, reply
    return took


def right_guesses(there: list[float], nowhere: list[float]) -> float:
    """How often the slower one of two answers is the one that a guesser takes it for."""
    ranked = sorted([(t, True) for t in there] + [(t, False) for t in nowhere])
    ranks = sum(rank for rank, (_, is_there) in enumerate(ranked, 1) if is_there)
    n, m = len(there), len(nowhere)
    share = (ranks - n * (n + 1) / 2) / (n * m)
    return max(share, 1 - share)


def measure(title: str, client: TestClient, there: list[str], nowhere: list[str]) -> None:
    asked = [(place, True) for place in there] + [(place, False) for place in nowhere]
    random.shuffle(asked)
    times: dict[bool, list[float]] = {True: [], False: []}
    for place, is_there in asked:
        times[is_there].append(ask(client, place))
    medians = [statistics.median(times[which]) * 1e6 for which in (True, False)]
    print(
        f"{title:24} there {medians[0]:7.0f} µs   nowhere {medians[1]:7.0f} µs   "
        f"right guesses {right_guesses(times[True], times[False]):.1%}"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--count", type=int, default=4000, help="requests of each kind")
    count = parser.parse_args().count
    with tempfile.TemporaryDirectory() as folder:
        tokens = pathlib.Path(folder, "tokens.csv")
        tokens.write_text("stranger-token,stranger,s1\n")
        with server(f"--token-auth-file={tokens}", directory=pathlib.Path(folder)) as process:
            org = process.client(cluster="root").in_cluster(
                make(process.client(cluster="root"), ["org"])["org"]
            )
            names = [f"w{i:04}" for i in range(min(count, 300))]
            clusters = make(org, names)
            stranger = process.client().with_token("stranger-token")
            for _ in range(200):
                ask(stranger, "root:org:warm")
            by_path = [f"root:org:{name}" for name in names]
            missing = [f"root:org:x{name[1:]}" for name in names]
            by_name = [clusters[name] for name in names]
            no_name = [f"{name[:-3]}zzz" for name in by_name]
            for title, there, nowhere in (
                ("path, asked once", by_path, missing),
                ("name, asked once", by_name, no_name),
                ("path, again and again", by_path[:1] * count, missing[:1] * count),
                ("name, again and again", by_name[:1] * count, no_name[:1] * count),
            ):
                measure(title, stranger, there, nowhere)


if __name__ == "__main__":
    main()
