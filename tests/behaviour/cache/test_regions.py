"""Cache servers in a line: each has what the others have, whichever of them is gone."""

from __future__ import annotations

import pathlib
import time
from collections.abc import Iterator
from contextlib import ExitStack

import pytest
from tests.behaviour.cache.test_mirror import EXPORTS, MARKS, export, mark, path, write

from pykcp.cache.part_marks import PartMark
from pykcp.testing.caches import CacheProcess, cache_server
from pykcp.testing.client import eventually
from pykcp.testing.faults.links import Fault, LinkRelay

Line = tuple[CacheProcess, CacheProcess, CacheProcess]


@pytest.fixture(scope="module")
def line(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Line]:
    """The second is linked to the first, the third to the second."""
    tmp_path = tmp_path_factory.mktemp("line")
    with ExitStack() as stack:
        first = stack.enter_context(cache_server(tmp_path / "first"))
        middle = stack.enter_context(
            cache_server(tmp_path / "middle", f"--upstream-kubeconfig={first.kubeconfig}")
        )
        last = stack.enter_context(
            cache_server(tmp_path / "last", f"--upstream-kubeconfig={middle.kubeconfig}")
        )
        yield first, middle, last


def publish(server: CacheProcess, shard: str, session: int, *names: str) -> None:
    """What a shard does: it marks its part as begun, writes it, marks it as complete."""
    mark(server, shard, PartMark(session, 0))
    for name in names:
        obj = export(name)
        obj["metadata"]["annotations"] = {
            "kcp.io/shard": shard,
            "cache.kcp.io/original-resource-version": "7",
        }
        obj["metadata"]["uid"] = f"uid-of-{name}"
        write(server, shard, EXPORTS, obj)
    mark(server, shard, PartMark(session, 7, is_complete=True))


def has(server: CacheProcess, shard: str, *names: str) -> bool:
    """Whether a server has exactly these exports of a shard, and its part is complete."""
    found = server.get(f"{MARKS}/part", shard, "system:cache")
    annotations = found["metadata"]["annotations"] if found else {}
    is_complete = annotations.get("internal.kcp.io/part-complete") == "true"
    return is_complete and server.names(EXPORTS, shard) == set(names)


def test_parts_reach_both_ends(line: Line) -> None:
    first, middle, last = line
    publish(first, "alpha-1", 1, "a")
    publish(middle, "beta-1", 1, "b")
    publish(last, "gamma-1", 1, "c")
    for server in line:
        for shard, name in (("alpha-1", "a"), ("beta-1", "b"), ("gamma-1", "c")):
            eventually(lambda server=server, shard=shard, name=name: has(server, shard, name))
    copy = first.get(f"{EXPORTS}/c", "gamma-1", "acme")
    assert copy["metadata"]["uid"] == "uid-of-c"
    assert copy["metadata"]["annotations"]["kcp.io/shard"] == "gamma-1"
    last.request(path("gamma-1", "acme", f"{EXPORTS}/c"), "DELETE")
    eventually(lambda: has(first, "gamma-1"))
    write(first, "alpha-1", EXPORTS, export("later"))
    eventually(lambda: has(last, "alpha-1", "a", "later"))


def test_the_middle_is_gone_for_a_while(line: Line) -> None:
    first, middle, last = line
    publish(first, "alpha-2", 1, "a", "old")
    publish(last, "gamma-2", 1, "c")
    for server in line:
        eventually(
            lambda server=server: has(server, "alpha-2", "a", "old") and has(server, "gamma-2", "c")
        )
    middle.kill()
    first.request(path("alpha-2", "acme", f"{EXPORTS}/old"), "DELETE")
    write(last, "gamma-2", EXPORTS, export("new"))
    assert has(last, "alpha-2", "a", "old")
    middle.wipe()
    middle.start()
    for server in line:
        eventually(
            lambda server=server: has(server, "alpha-2", "a") and has(server, "gamma-2", "c", "new")
        )


@pytest.mark.slow
@pytest.mark.parametrize("fault", [Fault.RESET, Fault.SILENT], ids=lambda one: one.value)
def test_the_link_between_two_is_cut(tmp_path: pathlib.Path, fault: Fault) -> None:
    """What is published on either side meanwhile reaches the other one when the link is back."""
    with ExitStack() as stack:
        east = stack.enter_context(cache_server(tmp_path / "east"))
        relay = stack.enter_context(LinkRelay(east.port))
        kubeconfig = tmp_path / "through-the-relay"
        kubeconfig.write_text(
            east.kubeconfig.read_text().replace(f":{east.port}", f":{relay.port}")
        )
        link = f"--upstream-kubeconfig={kubeconfig}"
        west = stack.enter_context(cache_server(tmp_path / "west", link))
        publish(east, "alpha", 1, "a", "old")
        publish(west, "beta", 1, "b")
        for server in (east, west):
            eventually(
                lambda server=server: has(server, "alpha", "a", "old") and has(server, "beta", "b")
            )
        relay.fail(fault)
        east.request(path("alpha", "acme", f"{EXPORTS}/old"), "DELETE")
        write(west, "beta", EXPORTS, export("new"))
        time.sleep(3.0)
        assert has(west, "alpha", "a", "old")  # it goes on with what it knows
        relay.mend()
        for server in (east, west):
            eventually(
                lambda server=server: has(server, "alpha", "a") and has(server, "beta", "b", "new"),
                12.0,
            )


def test_a_part_outlives_its_shard_and_its_server(line: Line) -> None:
    """The shard is gone, and its server lost everything: the others fill it again."""
    first, middle, last = line
    publish(first, "alpha-3", 1, "a")
    for server in line:
        eventually(lambda server=server: has(server, "alpha-3", "a"))
    first.kill()
    first.wipe()
    first.start()
    eventually(lambda: has(first, "alpha-3", "a"))
    assert has(middle, "alpha-3", "a")
    assert has(last, "alpha-3", "a")


def test_a_shard_moves_to_another_server(line: Line) -> None:
    first, _, last = line
    publish(first, "alpha-4", 1, "a", "b")
    eventually(lambda: has(last, "alpha-4", "a", "b"))
    mark(last, "alpha-4", PartMark(2, 0))
    last.request(path("alpha-4", "acme", f"{EXPORTS}/b"), "DELETE")
    write(last, "alpha-4", EXPORTS, export("c"))
    mark(last, "alpha-4", PartMark(2, 9, is_complete=True))
    eventually(lambda: has(first, "alpha-4", "a", "c"))
    assert has(last, "alpha-4", "a", "c")
