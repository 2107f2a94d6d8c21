"""Paths are followed from fact to fact; what is missing is asked for."""

from __future__ import annotations

import pytest

from pykcp.clients.where import RouteAnswer, WorkspaceStep
from pykcp.machinery.kcp.hashes import home_cluster_name
from pykcp.proxy.routes import ClusterRoute, RouteQuestion, RouteTable


def table(*live: str) -> RouteTable:
    return RouteTable(lambda shard: shard in live)


def test_the_first_question_is_the_whole_path() -> None:
    assert table().find("root:org:team") == RouteQuestion("root:org:team")
    assert table().find("abc") == RouteQuestion("abc")
    assert table().find("system:admin") == RouteQuestion("system:admin")


def test_homes_begin_with_the_cluster_of_the_user() -> None:
    home = home_cluster_name("alice")
    assert table().find("user:alice:shop") == RouteQuestion(f"{home}:shop")
    assert table().find("user") == RouteQuestion("user")


def test_a_path_over_two_shards() -> None:
    routes = table()
    org = WorkspaceStep("root", "org", "c1", "beta")
    routes.learn(RouteAnswer("alpha", 5, True, (org,)))
    assert routes.find("root:org:team") == RouteQuestion("c1:team", "beta")
    team = WorkspaceStep("c1", "team", "c2", "beta")
    routes.learn(RouteAnswer("beta", 3, True, (team,), "c2", "root:universal"))
    found = ClusterRoute("beta", "c2", "root:universal")
    assert routes.find("root:org:team") == routes.find("c1:team") == routes.find("c2") == found
    assert routes.find("root:org") == RouteQuestion("c1", "beta")


def test_changes_remove_facts() -> None:
    routes = table()
    org = WorkspaceStep("root", "org", "c1", "alpha")
    answer = RouteAnswer("alpha", 5, True, (org,), "c1")
    routes.learn(answer)
    assert isinstance(routes.find("root:org"), ClusterRoute)
    routes.change("alpha", "root", "org", 6)
    assert routes.find("root:org") == RouteQuestion("root:org")
    routes.learn(answer)  # it was on its way when the Workspace changed
    assert routes.find("root:org") == RouteQuestion("root:org")
    routes.learn(RouteAnswer("alpha", 6, True, (org,), "c1"))
    assert isinstance(routes.find("root:org"), ClusterRoute)
    routes.change("alpha", "c1", "", 7)
    assert routes.find("root:org") == RouteQuestion("c1", "alpha")


def test_what_a_shard_said_is_void_when_its_changes_were_missed() -> None:
    routes = table()
    routes.learn(RouteAnswer("alpha", 5, True, (WorkspaceStep("root", "org", "c1"),), "c1"))
    routes.learn(RouteAnswer("beta", 5, True, (), "c2"))
    routes.forget_shard("alpha")
    assert routes.find("root:org") == RouteQuestion("root:org")
    assert routes.find("c1") == RouteQuestion("c1")
    assert routes.find("c2") == ClusterRoute("beta", "c2")


@pytest.mark.parametrize(
    ("step", "found"),
    [
        (
            WorkspaceStep("root", "org", "c1", is_available=False),
            ClusterRoute("", "", is_available=False),
        ),
        (WorkspaceStep("root", "org", mount="https://m"), ClusterRoute("", "", mount="https://m")),
    ],
)
def test_final_answers_need_a_live_stream(step: WorkspaceStep, found: ClusterRoute) -> None:
    live, dead = table("alpha"), table()
    for routes in (live, dead):
        routes.learn(RouteAnswer("alpha", 5, True, (step,)))
    assert live.find("root:org") == found
    assert dead.find("root:org") == RouteQuestion("root:org")


def test_below_a_mount_and_below_what_is_not_available() -> None:
    routes = table("alpha")
    mounted = WorkspaceStep("root", "m", mount="https://m")
    away = WorkspaceStep("root", "away", "c1", is_available=False)
    routes.learn(RouteAnswer("alpha", 5, True, (mounted,)))
    routes.learn(RouteAnswer("alpha", 5, True, (away,)))
    assert routes.find("root:m:below") == ClusterRoute("", "")
    assert routes.find("root:away:below") == ClusterRoute("", "", is_available=False)


def test_a_wrong_way_is_forgotten_whole() -> None:
    routes = table()
    org = WorkspaceStep("root", "org", "c1", "alpha")
    routes.learn(RouteAnswer("alpha", 5, True, (org,), "c1"))
    routes.forget_path("root:org")
    assert routes.find("root:org") == RouteQuestion("root:org")
    assert routes.find("c1") == RouteQuestion("c1")


def test_the_table_is_bounded() -> None:
    routes = RouteTable(lambda _: True, limit=1000)
    for number in range(5000):
        routes.learn(RouteAnswer("alpha", 1, True, (), f"c{number}"))
    assert len(routes) <= 500
    assert routes.find("c4999") == ClusterRoute("alpha", "c4999")


def test_a_tree_beside_root() -> None:
    routes = table("alpha")
    team = WorkspaceStep("c1", "team", "c2", "alpha")
    routes.learn(
        RouteAnswer("alpha", 5, True, (team,), "c2", path="acme", start="c1", start_type="x:y")
    )
    assert routes.find("acme:team") == ClusterRoute("alpha", "c2")
    assert routes.find("acme") == ClusterRoute("alpha", "c1", "x:y")
    assert routes.find("acme:other") == RouteQuestion("c1:other", "alpha")
    routes.change("alpha", "c1", "", 6)  # its logical cluster is gone
    assert routes.find("acme") == RouteQuestion("acme")


def test_a_canonical_path_counts_while_the_shard_above_is_away() -> None:
    live: set[str] = set()
    routes = RouteTable(live.__contains__)
    answer = RouteAnswer("beta", 5, True, (), "c2", path="root:org", start="c2")
    routes.learn(answer, instead_of="alpha")
    assert routes.find("root:org") == ClusterRoute("beta", "c2")
    live.add("alpha")
    assert routes.find("root:org") == RouteQuestion("root:org")
