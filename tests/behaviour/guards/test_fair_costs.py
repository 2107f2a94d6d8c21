"""Whoever takes more than their share of the event loop yields to others, on a running server.

The shares are so small that every flood exceeds them. Nothing here looks at the clock: a flood
that is held back fills its queue and is refused, the others never are.
"""

from __future__ import annotations

import pathlib
import re
from collections.abc import Iterator

import pytest

from pykcp.testing.client import Reply, TestClient, eventually
from pykcp.testing.flood import Flood, make_open_cluster
from pykcp.testing.server import ServerProcess, server

CM = "/api/v1/namespaces/default/configmaps"
USERS = ("flooder", "neighbour", "writer")
THREADS = 40
CLUSTERS = ("one", "two", "three", "quiet")


@pytest.fixture(scope="module")
def shard(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    tokens: pathlib.Path = tmp_path_factory.mktemp("tokens") / "tokens.csv"
    tokens.write_text("".join(f"{name}-token,{name},{name}-uid\n" for name in USERS))
    with server(
        f"--token-auth-file={tokens}",
        "--fairness-queue-length=8",
        "--fairness-cost-per-user=20ms",
        "--fairness-cost-per-cluster=20ms",
        "--fairness-cost-per-address=5ms",
        "--fairness-cost-burst=5ms",
    ) as process:
        for cluster in CLUSTERS:
            client = make_open_cluster(process, cluster, USERS)
            assert client.post(CM, {"metadata": {"name": "one"}}).status == 201
        yield process


def _user(shard: ServerProcess, name: str, cluster: str) -> TestClient:
    return shard.client(cluster=cluster).with_token(f"{name}-token")


def _neighbour_works(shard: ServerProcess, flood: Flood) -> None:
    """While the flood is being refused the neighbour reads and writes, and never is."""
    neighbour = _user(shard, "neighbour", "quiet")
    answers: list[int] = []

    def is_refused() -> bool:
        answers.append(neighbour.get(f"{CM}/one").status)
        answers.append(neighbour.get(CM, limit=1).status)
        answers.append(neighbour.post(CM, {"metadata": {"generateName": "n-"}}).status)
        return flood.codes[429] > 0

    eventually(is_refused)
    for _ in range(5):
        is_refused()
    assert set(answers) == {200, 201}


def test_gets_of_one_user_are_held_back_in_all_clusters(shard: ServerProcess) -> None:
    """They need no seat, and are neither more welcome for coming from several clusters."""
    clients = [_user(shard, "flooder", cluster) for cluster in CLUSTERS[:3]]
    with Flood(lambda number, _: clients[number % 3].get(f"{CM}/one"), THREADS) as flood:
        _neighbour_works(shard, flood)
        text = shard.client().get("/debug/flow").body.decode()
    assert set(flood.codes) == {200, 429}
    assert re.search(r"\n +[\d.]+ +[\d.]+ +\d+ +\d+ +[1-9]\d* +\d+  user:flooder\n", text), text


def test_writes_of_one_user_are_held_back(shard: ServerProcess) -> None:
    clients = [_user(shard, "flooder", cluster) for cluster in CLUSTERS[:3]]

    def send(number: int, _: int) -> Reply:
        body = {"metadata": {"generateName": "f-"}, "data": {"text": "x" * 10_000}}
        return clients[number % 3].post(CM, body)

    with Flood(send, THREADS) as flood:
        _neighbour_works(shard, flood)
    assert set(flood.codes) == {201, 429}


def test_sign_ins_that_fail_are_held_back_by_address(shard: ServerProcess) -> None:
    """A user from there whose token is known goes on."""
    assert _user(shard, "neighbour", "quiet").get(f"{CM}/one").status == 200
    strangers = [shard.client(cluster="quiet").with_token(f"wrong-{n}") for n in range(THREADS)]
    with Flood(lambda number, _: strangers[number].get(f"{CM}/one"), THREADS) as flood:
        _neighbour_works(shard, flood)
        anybody = shard.client().with_token("")
        anybody.prefix = ""
        assert anybody.get("/livez").status == 200
    assert set(flood.codes) == {401, 429}


def _cost_of(shard: ServerProcess, name: str) -> float:
    """Milliseconds in the last minute, as the operator sees them."""
    text = shard.client().get("/debug/flow").body.decode()
    found = re.search(rf"\n +([\d.]+) +[\d.]+ .*  {name}\n", text)
    return float(found[1]) if found else 0.0


def test_what_workers_compute_is_charged(shard: ServerProcess) -> None:
    """A large write takes hardly any time on the event loop, but a lot in a worker process."""
    writer = _user(shard, "writer", "quiet")
    data = {f"k{number}": "x" for number in range(40_000)}
    before = shard.client().get("/metrics").body.decode()
    reply = writer.post(CM, {"metadata": {"name": "large"}, "data": data})
    assert reply.status == 201, reply.body
    spent = _metric(shard, "pykcp_worker_cpu_seconds_total") - _metric_in(
        before, "pykcp_worker_cpu_seconds_total"
    )
    assert spent > 0
    assert _cost_of(shard, "user:writer") >= spent * 1000


def _metric(shard: ServerProcess, name: str) -> float:
    return _metric_in(shard.client().get("/metrics").body.decode(), name)


def _metric_in(text: str, name: str) -> float:
    found = re.search(rf"^{name} ([\d.e-]+)$", text, re.MULTILINE)
    assert found, f"no {name}"
    return float(found[1])


def test_only_operators_see_who_is_held_back(shard: ServerProcess) -> None:
    assert "user:neighbour" in shard.client().get("/debug/flow").body.decode()
    for path in ("/debug/flow", "/clusters/quiet/debug/flow"):
        neighbour = shard.client().with_token("neighbour-token")
        neighbour.prefix = ""
        assert neighbour.get(path).status in {403, 404}


def test_metrics_tell_sorts_and_no_names(shard: ServerProcess) -> None:
    text = shard.client().get("/metrics").body.decode()
    sorts = re.findall(r'pykcp_flowcontrol_cost_seconds_total\{caller="(\w+)"\} [\d.e-]+', text)
    assert {"user", "exempt"} <= set(sorts) <= {"user", "exempt", "accounts", "address", "probes"}
    assert "neighbour" not in text
