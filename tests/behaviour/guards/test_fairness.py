"""One tenant's flood and the others, on a running server with few seats.

Nothing here looks at the clock: who is served while whom else waits is told by counts.
"""

from __future__ import annotations

import itertools
import pathlib
import re
import socket
import ssl
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial

import pytest

from pykcp.testing.client import Reply, TestClient, eventually
from pykcp.testing.flood import Flood, make_open_cluster
from pykcp.testing.server import ServerProcess, server

CM = "/api/v1/namespaces/default/configmaps"
USERS = ("flooder", "neighbour", "colleague", "watcher")
QUEUE = 8
WATCHES = 5
CLUSTER_WATCHES = 7
_numbers = itertools.count(1)


@dataclass
class Crowd:
    """A server on which every user may do everything in two clusters."""

    shard: ServerProcess
    here: str
    there: str

    def user(self, name: str, cluster: str) -> TestClient:
        return self.shard.client(cluster=cluster).with_token(f"{name}-token")

    def level(self, metric: str, level: str = "long") -> int:
        text = self.shard.client().get("/metrics").body.decode()
        pattern = rf'apiserver_flowcontrol_{metric}\{{priority_level="{level}".*\}} (\d+)'
        return sum(int(number) for number in re.findall(pattern, text))


@pytest.fixture(scope="module")
def shard(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    tokens: pathlib.Path = tmp_path_factory.mktemp("tokens") / "tokens.csv"
    tokens.write_text("".join(f"{name}-token,{name},{name}-uid\n" for name in USERS))
    with server(
        f"--token-auth-file={tokens}",
        "--fairness-seats=8",
        "--fairness-long-seats=4",
        f"--fairness-queue-length={QUEUE}",
        f"--fairness-watches-per-user={WATCHES}",
        f"--fairness-watches-per-cluster={CLUSTER_WATCHES}",
    ) as process:
        yield process


@pytest.fixture
def crowd(shard: ServerProcess) -> Crowd:
    number = next(_numbers)
    names = [f"here{number}", f"there{number}"]
    for name in names:
        make_open_cluster(shard, name, USERS)
    return Crowd(shard, *names)


def _flood(client: TestClient, threads: int) -> Flood:
    """A user who lists everything and creates objects."""

    def send(number: int, round_: int) -> Reply:
        if number % 4:
            return client.get("/api/v1/configmaps")
        return client.post(CM, {"metadata": {"name": f"f{number}-{round_}"}})

    return Flood(send, threads)


def _fill(crowd: Crowd, cluster: str, count: int) -> None:
    client = crowd.shard.client(cluster=cluster)
    data = {"data": "x" * 2000}

    def create(number: int) -> None:
        body = {"metadata": {"name": f"big{number}"}, "data": data}
        assert client.post(CM, body).status == 201

    with ThreadPoolExecutor(8) as threads:
        list(threads.map(create, range(count)))


def test_a_flood_waits_behind_itself(crowd: Crowd) -> None:
    """Others are never refused, however many requests of one user pile up."""
    _fill(crowd, crowd.here, 300)
    flooder = crowd.user("flooder", crowd.here)
    neighbour = crowd.user("neighbour", crowd.there)
    colleague = crowd.user("colleague", crowd.here)
    with _flood(flooder, 64) as flood:
        before = eventually(lambda: crowd.level("rejected_requests_total"))
        answers = []
        for number in range(15):
            for client in (neighbour, colleague):
                body = {"metadata": {"generateName": f"n{number}-"}}
                answers.append(client.get(f"{CM}/kube-root-ca.crt").status)
                answers.append(client.get(CM).status)
                answers.append(client.post(CM, body).status)
        assert crowd.level("rejected_requests_total") > before, "the flood was over too early"
    assert set(answers) == {200, 201}
    codes = {reply.status for reply in flood.replies}
    assert codes == {200, 201, 429}


def test_the_refusal_is_upstreams(crowd: Crowd) -> None:
    _fill(crowd, crowd.here, 300)
    with _flood(crowd.user("flooder", crowd.here), 40) as flood:
        eventually(lambda: any(reply.status == 429 for reply in flood.replies))
    refused = next(reply for reply in flood.replies if reply.status == 429)
    assert refused.header("retry-after") == "1"
    assert refused.header("content-type") == "text/plain; charset=utf-8"
    assert refused.header("x-content-type-options") == "nosniff"
    assert refused.body == b"Too many requests, please try again later.\n"


def test_system_masters_are_exempt(crowd: Crowd) -> None:
    admin = crowd.shard.client(cluster=crowd.here)
    before = crowd.level("dispatched_requests_total", "exempt")
    with ThreadPoolExecutor(40) as threads:
        replies = list(threads.map(lambda _: admin.get("/api/v1/configmaps"), range(200)))
    assert {reply.status for reply in replies} == {200}
    assert crowd.level("dispatched_requests_total", "exempt") >= before + 200


def test_health_answers_while_everything_is_taken(crowd: Crowd) -> None:
    _fill(crowd, crowd.here, 300)
    anybody = crowd.shard.client().with_token("")
    anybody.prefix = ""
    with _flood(crowd.user("flooder", crowd.here), 40):
        eventually(lambda: crowd.level("current_inqueue_requests") > 0)
        assert [anybody.get(path).status for path in ("/healthz", "/livez", "/readyz")] == [200] * 3


def test_clients_learn_that_they_need_not_limit_themselves(crowd: Crowd) -> None:
    """kubectl and Helm look for this header before they send many requests."""
    reply = crowd.shard.client().request("HEAD", "/livez/ping")
    assert (reply.status, bool(reply.header("x-kubernetes-pf-flowschema-uid"))) == (200, True)


def test_watches_are_counted_per_user_over_all_clusters(crowd: Crowd) -> None:
    """One too many is refused; ended ones make room; other users have their own."""
    watcher = crowd.user("watcher", crowd.here)

    there = crowd.user("watcher", crowd.there)
    for client in (watcher, there):
        _fill_one(client)
    opened = [_open_watch(there), *(_open_watch(watcher) for _ in range(WATCHES - 1))]
    for client in (watcher, there):
        assert client.get("/api/v1/configmaps", watch="true").status == 429
    other = _open_watch(crowd.user("colleague", crowd.here))
    opened.pop().close()  # type: ignore[attr-defined]
    opened.append(eventually(lambda: _try_watch(watcher)))
    for events in (*opened, other):
        events.close()  # type: ignore[attr-defined]


def test_watches_are_counted_per_cluster(crowd: Crowd) -> None:
    """However many users there are."""
    _fill_one(crowd.user("watcher", crowd.here))
    opened = [_open_watch(crowd.user("watcher", crowd.here)) for _ in range(WATCHES)]
    more = range(CLUSTER_WATCHES - WATCHES)
    opened += [_open_watch(crowd.user("colleague", crowd.here)) for _ in more]
    for user in ("colleague", "neighbour"):
        refused = crowd.user(user, crowd.here).get("/api/v1/configmaps", watch="true")
        assert refused.status == 429
    for events in opened:
        events.close()  # type: ignore[attr-defined]


def _open_watch(client: TestClient) -> Iterator[object]:
    events = client.watch("/api/v1/configmaps")
    next(events)  # it is open when something comes
    return events


def _fill_one(client: TestClient) -> None:
    assert client.post(CM, {"metadata": {"name": "seen"}}).status == 201


def _try_watch(client: TestClient) -> Iterator[object] | None:
    try:
        events = client.watch("/api/v1/configmaps")
        next(events)
    except AssertionError:
        return None
    return events


def test_a_long_list_arrives_whole(crowd: Crowd) -> None:
    """It is read and sent piece by piece."""
    _fill(crowd, crowd.here, 1200)
    client = crowd.user("neighbour", crowd.here)
    for _ in range(2):
        reply = client.get(CM, fieldSelector="metadata.name!=kube-root-ca.crt")
        assert reply.status == 200
        assert reply.header("content-length") is None
        assert len(reply.body) > 2 << 20
        assert len(reply.json["items"]) == 1200
    assert crowd.level("current_executing_requests") == 0


def test_nothing_is_left_when_all_is_over(crowd: Crowd) -> None:
    _fill(crowd, crowd.here, 100)
    with _flood(crowd.user("flooder", crowd.here), 40):
        eventually(lambda: crowd.level("current_inqueue_requests") > 0)
    for level in ("long", "reads", "writes", "background"):
        eventually(partial(_is_still, crowd, level))


def _read_slowly(crowd: Crowd, user: str, cluster: str) -> ssl.SSLSocket:
    """Ask for a long list and read nothing of it."""
    client = crowd.user(user, cluster)
    raw = socket.socket()
    raw.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    raw.connect((client.access.host, client.access.port))
    connection = client._ssl.wrap_socket(raw, server_hostname=client.access.host)
    head = (
        f"GET {client.prefix}{CM} HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {user}-token\r\n\r\n"
    )
    connection.sendall(head.encode())
    return connection


def test_more_workspaces_are_not_more_seats(crowd: Crowd) -> None:
    """Of four long seats a user has one, in however many clusters they read slowly."""
    for cluster in (crowd.here, crowd.there):
        _fill(crowd, cluster, 3000)
    connections = [
        _read_slowly(crowd, "flooder", cluster)
        for cluster in (crowd.here, crowd.there)
        for _ in range(3)
    ]
    try:
        eventually(lambda: crowd.level("current_inqueue_requests") == 5)
        assert crowd.level("current_executing_requests") == 1
        for cluster in (crowd.here, crowd.there):
            assert crowd.user("neighbour", cluster).get(CM).status == 200
        assert crowd.level("current_inqueue_requests") == 5
    finally:
        for connection in connections:
            connection.close()
    eventually(partial(_is_still, crowd, "long"))


def _is_still(crowd: Crowd, level: str) -> bool:
    metrics = ("current_executing_requests", "current_inqueue_requests")
    return all(crowd.level(metric, level) == 0 for metric in metrics)
