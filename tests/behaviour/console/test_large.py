"""Large and lively content: ten thousand rows, megabytes, all scripts, a server that restarts."""

from __future__ import annotations

import json
import pathlib
import re
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

from pykcp.testing.client import TestClient, eventually
from pykcp.testing.server import ServerProcess
from pykcp.testing.workspaces import make_workspace

from .browsing import Visitor

Visit = Callable[..., Visitor]
MAPS = "/api/v1/namespaces/default/configmaps"
SCRIPTS = {
    "latin": "Grüße, naïve façade",
    "greek": "Καλημέρα κόσμε",
    "cyrillic": "Привет, мир",
    "hebrew": "שלום עולם",
    "arabic": "مرحبا بالعالم",
    "devanagari": "नमस्ते दुनिया",
    "thai": "สวัสดีชาวโลก",
    "chinese": "你好，世界",
    "japanese": "こんにちは世界",
    "korean": "안녕하세요 세계",
    "emoji": "👩‍🚀🏴‍☠️ e\u0301",
    "controls": "\u202eright-to-left\u202c \u200b zero width",
}


@pytest.fixture(scope="module")
def root(shard: ServerProcess) -> TestClient:
    client = shard.client(cluster="root")
    make_workspace(client, "big")
    return client


def smoothness(someone: Visitor, selector: str) -> float:
    """Milliseconds of the longest frame while a list scrolls from end to end."""
    longest: float = someone.page.evaluate(
        """async (selector) => {
          const rows = document.querySelector(selector);
          const end = rows.scrollHeight - rows.clientHeight;
          let longest = 0;
          let last = performance.now();
          for (let i = 0; i <= 120; i++) {
            rows.scrollTop = (end * i) / 120;
            await new Promise((resolve) => requestAnimationFrame(resolve));
            const now = performance.now();
            longest = Math.max(longest, now - last);
            last = now;
          }
          return longest;
        }""",
        selector,
    )
    return longest


def test_names_in_every_script(visit: Visit, root: TestClient) -> None:
    big = root.in_cluster("root:big")
    made = big.post(
        MAPS, {"metadata": {"name": "scripts", "annotations": SCRIPTS}, "data": SCRIPTS}
    )
    assert made.status == 201, made
    someone = visit().sign_in()
    page = someone.go("#/w/root:big/o/-/v1/configmaps/default/scripts?edit", "scripts")
    area = page.get_by_role("textbox", name="YAML")
    eventually(lambda: "latin" in area.input_value())
    area.fill(area.input_value().replace("naïve", "wise"))
    page.get_by_role("button", name="Show difference").click()
    page.get_by_role("region", name="Difference").get_by_text("wise").first.wait_for()
    page.get_by_role("button", name="Apply").click()
    wanted = {**SCRIPTS, "latin": "Grüße, wise façade"}
    eventually(lambda: big.get(f"{MAPS}/scripts").json["data"] == wanted)


@pytest.mark.slow
def test_an_object_of_a_megabyte(visit: Visit, root: TestClient) -> None:
    big = root.in_cluster("root:big")
    data = {f"key-{n:05}": "x" * 80 for n in range(9500)}
    assert big.post(MAPS, {"metadata": {"name": "heavy"}, "data": data}).status == 201
    someone = visit().sign_in()
    page = someone.go("#/w/root:big/o/-/v1/configmaps/default/heavy", "heavy")
    page.get_by_text("key-09499").first.wait_for()
    someone.go("#/w/root:big/o/-/v1/configmaps/default/heavy?edit", "heavy")
    area = page.get_by_role("textbox", name="YAML")
    eventually(lambda: "key-09499" in area.input_value())
    page.evaluate(
        """() => { const area = document.querySelector("textarea.yaml");
          area.value = area.value.replace("key-05000: x", "key-05000: y");
          area.dispatchEvent(new Event("input")); }"""
    )
    page.get_by_role("button", name="Show difference").click()
    page.get_by_role("region", name="Difference").get_by_text("key-05000: y").wait_for()
    page.get_by_role("button", name="Apply").click()
    eventually(lambda: big.get(f"{MAPS}/heavy").json["data"]["key-05000"].startswith("y"))


@pytest.mark.slow
def test_ten_thousand_rows(visit: Visit, root: TestClient) -> None:
    make_workspace(root, "crowd")
    crowd = root.in_cluster("root:crowd")

    def fill(part: int) -> None:
        for number in range(part * 2500, (part + 1) * 2500):
            made = crowd.post(MAPS, {"metadata": {"name": f"row-{number:05}"}})
            assert made.status == 201, made

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(fill, range(4)))
    someone = visit().sign_in()
    page = someone.go("#/w/root:crowd/r/-/v1/configmaps", "ConfigMap")
    page.get_by_text(re.compile("10,00. objects")).wait_for()
    assert page.locator(".grid-row").count() < 100, "only rows in sight exist"
    assert smoothness(someone, ".list-body .rows") < 1000
    page.get_by_role("row", name="row-09999").wait_for()
    page.get_by_label("Filter rows").fill("row-07777")
    page.get_by_text(re.compile("1 of 10,00.")).wait_for()


@pytest.mark.slow
def test_a_hundred_thousand_workspaces(visit: Visit, root: TestClient) -> None:
    """The answers are made here: what is tested is what the page does with them."""
    total, size = 100_000, 1000

    def item(number: int) -> dict[str, Any]:
        name = f"w{number:06}"
        return {"path": f"root:{name}", "name": name, "cluster": f"c{number}", "phase": "Ready"}

    def answer(route: Any) -> None:
        query = parse_qs(urlsplit(route.request.url).query)
        start = int(query.get("continue", ["0"])[0])
        found = [item(n) | {"children": n % 3} for n in range(start, start + size)]
        metadata = {"resourceVersion": "1"}
        if start + size < total:
            metadata["continue"] = str(start + size)
        body = {"kind": "WorkspaceTree", "metadata": metadata, "path": "root", "items": found}
        route.fulfill(status=200, content_type="application/json", body=json.dumps(body))

    someone = visit()
    someone.page.route("**/services/tree/clusters/root?*", answer)
    someone.page.route("**/services/readable/**", lambda route: route.abort())
    someone.sign_in()
    page = someone.page
    page.get_by_role("tree").get_by_text("100,000").wait_for(timeout=60_000)
    assert page.get_by_role("treeitem").count() < 120
    longest = smoothness(someone, ".tree .rows")
    assert longest < 1000, f"a frame took {longest:.0f} ms"
    page.get_by_role("treeitem", name="w099999").wait_for()
    page.get_by_role("tree").focus()
    page.keyboard.press("Home")
    page.keyboard.press("End")
    page.get_by_role("treeitem", name="w099999").wait_for()
    page.get_by_label("Filter workspaces").fill("w0123")
    page.get_by_role("treeitem", name="root:w012399").wait_for()


def test_a_server_that_restarts(visit: Visit, root: TestClient, shard: ServerProcess) -> None:
    big = root.in_cluster("root:big")
    assert big.post(MAPS, {"metadata": {"name": "before"}, "data": {"a": "1"}}).status == 201
    someone = visit().sign_in()
    page = someone.go("#/w/root:big/o/-/v1/configmaps/default/before?edit", "before")
    area = page.get_by_role("textbox", name="YAML")
    eventually(lambda: "metadata" in area.input_value())
    area.fill(area.input_value().replace("a: '1'", "a: '2'").replace('a: "1"', 'a: "2"'))
    shard.kill()
    page.get_by_role("button", name="Show difference").click()
    page.get_by_role("alert").get_by_text("The server does not answer.").first.wait_for()
    shard.start()
    big.drop()
    someone.go("#/w/root:big/r/-/v1/configmaps", "ConfigMap")
    page.get_by_role("row", name="before").wait_for()
    assert big.post(MAPS, {"metadata": {"name": "after"}}).status == 201
    page.get_by_role("row", name="after").wait_for()
    someone.go("#/w/root:big/o/-/v1/configmaps/default/before?edit", "before")
    page.get_by_text("Your unfinished changes are back.").wait_for()
    page.get_by_role("button", name="Show difference").click()
    page.get_by_role("button", name="Apply").click()
    eventually(lambda: big.get(f"{MAPS}/before").json["data"]["a"] == "2")
    someone.complaints.clear()  # browsers report lost connections


def run_seconds(pid: int) -> float:
    """Of CPU that a process has used, exactly: ticks are too coarse."""
    tasks = pathlib.Path(f"/proc/{pid}/task").glob("*/schedstat")
    return sum(int(task.read_text().split()[0]) for task in tasks) / 1e9


@pytest.mark.slow
def test_idle_consoles_cost_nothing(visit: Visit, root: TestClient, shard: ServerProcess) -> None:
    """In ten seconds the server works no longer for ten open consoles than for none.

    Two milliseconds, of ten seconds, are for what happens beside them.
    """

    def usage() -> float:
        before = run_seconds(shard.pid)
        time.sleep(10)
        return run_seconds(shard.pid) - before

    alone = min(usage() for _ in range(2))
    for _ in range(10):
        someone = visit().sign_in()
        someone.go("#/w/root/r/tenancy.kcp.io/v1alpha1/workspaces", "Workspace")
        someone.page.get_by_role("row", name="big").wait_for()
    asked: list[str] = []
    someone.page.on("request", lambda request: asked.append(request.url))
    found = min(usage() for _ in range(3))
    assert found - alone < 0.002, f"{found * 1000:.2f} ms instead of {alone * 1000:.2f}"
    assert not asked, "an idle page asks for nothing"
