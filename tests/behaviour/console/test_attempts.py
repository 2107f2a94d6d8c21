"""Attempts against users of the console: markup in every field that a tenant controls, framing,
forged requests, sign-ins that are not the user's. None gets through."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

import pytest
from aiohttp import web

from pykcp.testing.apis import BINDINGS, EXPORTS, RESOURCE, SCHEMAS, binding, export, schema
from pykcp.testing.client import TestClient, eventually
from pykcp.testing.https import Answer, HTTPSServer, Received
from pykcp.testing.server import ServerProcess
from pykcp.testing.workspaces import WORKSPACES, make_workspace

from .browsing import Visitor
from .conftest import Certified

if TYPE_CHECKING:
    from playwright.sync_api import Page

Visit = Callable[..., Visitor]
MAPS = "/api/v1/namespaces/default/configmaps"
MARKUP = (
    '<img src=x onerror="window.broken=1"><script>window.broken=1</script>'
    '<svg onload="window.broken=1"></svg>"><iframe srcdoc="<script>parent.broken=1</script>">'
    "javascript:window.broken=1 {{constructor.constructor('window.broken=1')()}}"
)


@pytest.fixture(scope="module")
def root(shard: ServerProcess) -> TestClient:
    """With a tenant who has written markup wherever it can be written."""
    client = shard.client(cluster="root")
    make_workspace(client, "evil")
    evil = client.in_cluster("root:evil")
    described = schema()
    described["spec"]["versions"][0]["schema"]["description"] = MARKUP
    described["spec"]["versions"][0]["additionalPrinterColumns"] = [
        {"name": MARKUP[:60], "type": "string", "jsonPath": ".spec.intent", "description": MARKUP}
    ]
    assert evil.post(SCHEMAS, described).status == 201
    offered = export("cowboys", resources=[RESOURCE])
    offered["metadata"]["annotations"] = {"note": MARKUP}
    assert evil.post(EXPORTS, offered).status == 201
    assert evil.post(BINDINGS, binding("cowboys", "cowboys", "root:evil")).status == 201
    annotated = {"metadata": {"name": "bad", "annotations": {"a": MARKUP}}, "data": {"k": MARKUP}}
    annotated["metadata"]["finalizers"] = ["evil.example/finalizer"]
    manager = {"fieldManager": "<b>manager</b>"}
    made = evil.post(MAPS, annotated, **manager)
    assert made.status == 201, made
    event = {
        "metadata": {"generateName": "e", "namespace": "default"},
        "involvedObject": {"uid": made.json["metadata"]["uid"], "namespace": "default"},
        "type": MARKUP,
        "reason": MARKUP[:120],
        "message": MARKUP,
    }
    told = evil.post("/api/v1/namespaces/default/events", event)
    assert told.status == 201, told
    cowboys = "/apis/wild.west/v1/namespaces/default/cowboys"
    body = {"apiVersion": "wild.west/v1", "kind": "Cowboy", "metadata": {"name": "c"}}
    body["spec"] = {"intent": MARKUP}
    eventually(lambda: evil.post(cowboys, body).status in (201, 409))
    note = {"metadata": {"annotations": {"x": MARKUP}}}
    assert client.patch(f"{WORKSPACES}/evil", note).status == 200
    return client


PLACES = (
    "#/w/root:evil",
    "#/w/root:evil/kinds",
    "#/w/root:evil/r/-/v1/configmaps",
    "#/w/root:evil/r/-/v1/events",
    "#/w/root:evil/r/wild.west/v1/cowboys",
    "#/w/root:evil/o/-/v1/configmaps/default/bad",
    "#/w/root:evil/o/-/v1/configmaps/default/bad?edit",
    "#/w/root:evil/o/wild.west/v1/cowboys/default/c",
    "#/w/root:evil/o/apis.kcp.io/v1alpha2/apiexports/-/cowboys",
    "#/w/root:evil/new/wild.west/v1/cowboys",
    "#/w/root:evil/exports/cowboys",
    "#/w/root:evil/bindings",
    "#/w/root:evil/usage",
    "#/w/root:evil/why?verb=get&resource=%3Cimg%20src=x%20onerror=window.broken=1%3E&user=%3Cb%3Ex",
    "#/w/%3Cimg%20src=x%20onerror=window.broken=1%3E",
    "#/w/root:evil/o/-/v1/configmaps/default/%3Cscript%3Ewindow.broken=1%3C%2Fscript%3E",
    "#/w/root:evil/r/..%2F..%2Fapi/v1/secrets",
    "#javascript:window.broken=1",
    "#/%E0%A4%A",
)


def test_markup_is_shown_and_never_parsed(visit: Visit, root: TestClient) -> None:
    someone = visit().sign_in()
    page = someone.page
    for place in PLACES:
        page.evaluate("place => { location.hash = place }", place)
        page.get_by_role("heading", level=1).first.wait_for()
        loading = page.locator("main .loading")
        eventually(lambda loading=loading: loading.count() == 0)
        assert page.evaluate("window.broken") is None, place
        found = page.locator("img, iframe, object, embed, script:not([src]), [onerror], [onload]")
        assert found.count() == 0, place
    someone.go("#/w/root:evil/o/-/v1/configmaps/default/bad", "bad")
    page.get_by_text("<b>manager</b>").wait_for()
    page.get_by_text('<img src=x onerror="window.broken=1">').first.wait_for()


# --- other sites


@pytest.fixture
def evil_site() -> Iterator[HTTPSServer]:
    site = HTTPSServer()

    def page(_: Received) -> Answer:
        return web.Response(text="<!doctype html><title>evil</title>", content_type="text/html")

    site.on("/", page)
    yield site
    site.close()


FETCH = """async ([url, options]) => {
  try {
    const response = await fetch(url, {mode: "no-cors", credentials: "include", ...options,
      body: options.text === undefined ? options.body : new Blob([options.text])});
    return [response.type, await response.text()];
  } catch (error) { return ["failed", String(error)]; }
}"""
SOCKET = """(url) => new Promise((resolve) => {
  const socket = new WebSocket(url);
  socket.onopen = () => resolve("open");
  socket.onerror = () => resolve("refused");
})"""
FRAME = """(url) => new Promise((resolve) => {
  const frame = document.createElement("iframe");
  frame.src = url;
  frame.onload = () => { try { resolve(frame.contentDocument ? "own" : "opaque"); } catch { resolve("opaque"); } };
  document.body.append(frame);
})"""


def test_another_site_can_do_nothing(
    visit: Visit,
    root: TestClient,
    shard: ServerProcess,
    certified: Certified,
    evil_site: HTTPSServer,
) -> None:
    """Its page runs in the browser of a user whose certificate the browser sends."""
    origin = f"https://127.0.0.1:{shard.port}"
    files = {"certPath": str(certified.certificate), "keyPath": str(certified.key)}
    someone = visit(client_certificates=[{"origin": origin, **files}])
    someone.page.get_by_role("tree").wait_for()  # the user is signed in
    page = someone.context.new_page()
    page.goto(f"{evil_site.url}/")
    namespaces = f"{origin}/clusters/root/api/v1/namespaces"
    body = '{"kind":"Namespace","apiVersion":"v1","metadata":{"name":"forged"}}'
    for options in (
        {"method": "POST", "text": body},
        {"method": "POST", "body": body, "headers": {"content-type": "text/plain"}},
        {
            "method": "POST",
            "body": body,
            "mode": "cors",
            "headers": {"content-type": "application/json"},
        },
        {"method": "PUT", "body": body, "mode": "cors"},
        {"method": "DELETE", "mode": "cors"},
    ):
        page.evaluate(FETCH, [namespaces, options])
        assert root.get("/api/v1/namespaces/forged").status == 404, options
    read = page.evaluate(FETCH, [namespaces, {"method": "GET", "mode": "cors"}])
    assert read[0] == "failed", "another site may not read"
    undelete = f"{origin}/services/trash/clusters/root/workspaces/evil/undelete"
    page.evaluate(FETCH, [undelete, {"method": "POST"}])
    assert (
        page.evaluate(
            SOCKET, f"{origin.replace('https', 'wss')}/clusters/root/api/v1/secrets?watch=true"
        )
        == "refused"
    )
    assert _framed(page, f"{origin}/console/") is None
    stolen = page.evaluate(
        FETCH, [f"{origin}/console/api/config", {"method": "GET", "mode": "cors"}]
    )
    assert stolen[0] == "failed"


def _framed(page: Page, url: str) -> str | None:
    """The text of the console in a frame of this page; None: the browser has refused it."""
    page.evaluate(FRAME, url)
    frame = next((f for f in page.frames if f.url.startswith(url)), None)
    return None if frame is None else frame.text_content("body")
