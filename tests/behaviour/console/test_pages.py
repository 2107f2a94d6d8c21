"""Every page: what axe finds, in light and dark, on a phone, and within which time it appears."""

from __future__ import annotations

import pathlib
import re
from collections.abc import Callable
from typing import Any

import pytest

from pykcp.testing.apis import BINDINGS, binding
from pykcp.testing.client import TestClient, eventually
from pykcp.testing.server import ServerProcess
from pykcp.testing.workspaces import make_workspace

from .browsing import Visitor

Visit = Callable[..., Visitor]
AXE = pathlib.Path(__file__).parents[3] / ".cache/axe/node_modules/axe-core/axe.min.js"
PAGES = (
    ("#/w/root", "root"),
    ("#/w/root/kinds", "Resources"),
    ("#/w/root/r/tenancy.kcp.io/v1alpha1/workspacetypes", "WorkspaceType"),
    ("#/w/root/r/-/v1/limitranges", re.compile("limitranges|LimitRange")),
    ("#/w/root/o/tenancy.kcp.io/v1alpha1/workspaces/-/team", "team"),
    ("#/w/root/o/tenancy.kcp.io/v1alpha1/workspaces/-/team?edit", "team"),
    ("#/w/root/new/tenancy.kcp.io/v1alpha1/workspaces", "New Workspace"),
    ("#/w/root:team/new/-/v1/configmaps", "New ConfigMap"),
    ("#/w/root:team/bindings", "Bindings"),
    ("#/w/root/exports", "Exports"),
    ("#/w/root/exports/tenancy.kcp.io", "tenancy.kcp.io"),
    ("#/w/root:team/usage", "Usage"),
    ("#/w/root/trash", "Trash"),
    ("#/w/root/why?verb=delete&resource=secrets&user=alice", "Why can’t I?"),
    ("#/admin/shards", "Administration"),
    ("#/admin/moves", "Administration"),
    ("#/admin/caches", "Administration"),
    ("#/admin/placements", "Administration"),
    ("#/admin/certificates", "Administration"),
    ("#/admin/requests", "Administration"),
    ("#/w/root:none", "none"),
)


@pytest.fixture(scope="module")
def root(shard: ServerProcess) -> TestClient:
    client = shard.client(cluster="root")
    make_workspace(client, "team")
    return client


def settled(someone: Visitor) -> None:
    loading = someone.page.locator("main .loading")
    eventually(lambda: loading.count() == 0)


def findings(someone: Visitor) -> list[str]:
    """What axe calls serious or critical."""
    result: dict[str, Any] = someone.page.evaluate(
        """async () => {
          const {passes, violations} = await axe.run(document);
          const bad = violations.filter((one) => ["serious", "critical"].includes(one.impact));
          const shown = ({html, failureSummary}) => `${html.slice(0, 200)} ${failureSummary}`;
          return {passed: passes.length, bad: bad.map(({id, nodes}) => [id, nodes.slice(0, 3).map(shown)])};
        }"""
    )
    assert result["passed"] > 5, "axe has looked at nothing"
    return [f"{rule}: {nodes}" for rule, nodes in result["bad"]]


@pytest.mark.parametrize("scheme", ["light", pytest.param("dark", marks=pytest.mark.slow)])
def test_axe_finds_nothing_serious(visit: Visit, root: TestClient, scheme: str) -> None:
    if not AXE.exists():
        pytest.skip("axe is not installed")
    someone = visit(color_scheme=scheme, bypass_csp=True)
    someone.page.get_by_label("Token").wait_for()
    someone.page.add_script_tag(path=AXE)
    problems = {"sign-in": findings(someone)}
    someone.sign_in()
    for place, title in PAGES:
        someone.go(place, title)
        settled(someone)
        problems[place] = findings(someone)
    someone.page.keyboard.press("Control+k")
    someone.page.get_by_role("combobox").wait_for()
    problems["palette"] = findings(someone)
    bad = {place: found for place, found in problems.items() if found}
    assert not bad, "\n".join(f"{place}\n  {found}" for place, found in bad.items())


def test_pictures(visit: Visit, root: TestClient) -> None:
    """Of pages that other tests do not take; none has an error in it."""
    someone = visit().sign_in()
    for name, place, title in (
        ("resources", "#/w/root/kinds", "Resources"),
        ("usage", "#/w/root/usage", "Usage"),
        ("shards", "#/admin/shards", "Administration"),
        ("certificates", "#/admin/certificates", "Administration"),
    ):
        someone.go(place, title)
        settled(someone)
        assert someone.page.locator("main .problem").count() == 0, name
        someone.picture(name)
    dark = visit(color_scheme="dark").sign_in()
    dark.go("#/w/root/o/tenancy.kcp.io/v1alpha1/workspaces/-/team", "team")
    settled(dark)
    dark.picture("dark")


def test_placements(visit: Visit, root: TestClient) -> None:
    team = root.in_cluster("root:team")
    made = team.post(BINDINGS, binding("workload", "workload.kcp.dev", "root"))
    assert made.status == 201, made
    kind = {"apiVersion": "workload.kcp.dev/v1alpha1", "kind": "Placement"}
    body = {**kind, "metadata": {"name": "everywhere"}, "spec": {"strategy": "Duplicated"}}
    path = "/apis/workload.kcp.dev/v1alpha1/namespaces/default/placements"
    eventually(lambda: team.post(path, body).status in (201, 409))
    someone = visit().sign_in()
    page = someone.go("#/admin/placements", "Administration")
    page.get_by_role("cell", name="everywhere").wait_for()
    page.get_by_role("cell", name="Duplicated").wait_for()
    page.get_by_text("No cluster is registered.").wait_for()


LOADED = (
    "performance.getEntriesByType('resource').filter((e) => e.name.includes('/console/'))"
    ".reduce((sum, e) => sum + e.decodedBodySize,"
    " performance.getEntriesByType('navigation')[0].decodedBodySize)"
)
"""Bytes of the console that were loaded."""
WIDE = """() => ["header.bar", "main"].filter((one) => {
  const element = document.querySelector(one);
  return element.scrollWidth > element.clientWidth + 1;
})"""
"""Parts of the frame that are cut off; tables and texts scroll by themselves."""


def test_on_a_phone(visit: Visit, root: TestClient) -> None:
    someone = visit(viewport={"width": 390, "height": 760}, has_touch=True).open()
    page = someone.page
    page.get_by_label("Token").fill("admin-token")
    page.get_by_role("button", name="Sign in with token").click()
    page.get_by_role("heading", level=1, name="root").wait_for()
    assert not page.get_by_role("tree").is_visible()
    page.get_by_role("button", name="Workspaces").tap()
    page.get_by_role("treeitem", name="team").tap()
    page.get_by_role("heading", level=1, name="team").wait_for()
    settled(someone)
    someone.picture("phone")
    for place, title in PAGES:
        someone.go(place, title)
        settled(someone)
        width = page.evaluate("document.documentElement.scrollWidth")
        assert width <= 390, f"{place} is {width} pixels wide"
        wide = page.evaluate(WIDE)
        assert not wide, f"{place}: {wide}"
    assert 50_000 < page.evaluate(LOADED) < 300_000
