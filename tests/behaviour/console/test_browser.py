"""The console as its users see it, in Chromium."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import pytest

from pykcp.testing.apis import EXPORTS, RESOURCE, SCHEMAS, export, schema
from pykcp.testing.client import TestClient, eventually
from pykcp.testing.issuer import AUDIENCE
from pykcp.testing.server import ServerProcess
from pykcp.testing.workspaces import WORKSPACES, make_workspace

from .browsing import Visitor
from .conftest import Certified
from .issuer import CodeFlowIssuer

if TYPE_CHECKING:
    import pathlib

    from playwright.sync_api import Page

Visit = Callable[..., Visitor]
MAPS = "/api/v1/namespaces/default/configmaps"
RBAC = "/apis/rbac.authorization.k8s.io/v1"


@pytest.fixture(scope="module")
def issuer() -> Iterator[CodeFlowIssuer]:
    made = CodeFlowIssuer()
    yield made
    made.close()


@pytest.fixture(scope="module")
def extra_flags(issuer: CodeFlowIssuer, directory: pathlib.Path) -> tuple[str, ...]:
    authority = directory / "issuer-ca.crt"
    authority.write_text(issuer.ca)
    return (
        f"--oidc-issuer-url={issuer.url}",
        f"--oidc-client-id={AUDIENCE}",
        f"--oidc-ca-file={authority}",
        "--oidc-username-prefix=-",
    )


@pytest.fixture(scope="module")
def root(shard: ServerProcess) -> TestClient:
    """system:masters, with some workspaces and an export with claims."""
    client = shard.client(cluster="root")
    for name in ("org", "shop", "provider", "old"):
        make_workspace(client, name)
    provider = client.in_cluster("root:provider")
    assert provider.post(SCHEMAS, schema()).status == 201
    claims = [
        {"group": "", "resource": "configmaps", "verbs": ["get", "list", "watch"]},
        {"group": "", "resource": "secrets", "verbs": ["*"]},
    ]
    offered = export("cowboys", resources=[RESOURCE], permissionClaims=claims)
    made = provider.post(EXPORTS, offered)
    assert made.status == 201, made
    return client


def button(page: Page, name: str) -> Any:
    return page.get_by_role("button", name=name, exact=True)


def edit(page: Page, change: Callable[[str], str]) -> None:
    area = page.get_by_role("textbox", name="YAML")
    eventually(lambda: "metadata" in area.input_value())
    area.fill(change(area.input_value()))


def grant(workspace: TestClient, name: str, role: str, user: str) -> None:
    group = {"apiGroup": "rbac.authorization.k8s.io"}
    body = {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRoleBinding",
        "metadata": {"name": name},
        "roleRef": {**group, "kind": "ClusterRole", "name": role},
        "subjects": [{**group, "kind": "User", "name": user}],
    }
    assert workspace.post(f"{RBAC}/clusterrolebindings", body).status == 201


# --- sign-in


def test_sign_in_with_a_token(visit: Visit, root: TestClient) -> None:
    someone = visit()
    page = someone.page
    someone.picture("sign-in")
    page.get_by_label("Token").fill("wrong")
    button(page, "Sign in with token").click()
    page.get_by_role("alert").get_by_text("Unauthorized").first.wait_for()
    someone.sign_in("admin-token")
    page.get_by_role("treeitem", name="shop").wait_for()
    page.reload()
    page.get_by_role("treeitem", name="shop").wait_for()  # the tab is still signed in
    someone.picture("overview")
    page.get_by_text("admin", exact=True).click()
    button(page, "Sign out").click()
    page.get_by_label("Token").wait_for()
    assert page.evaluate("Object.keys(sessionStorage).length") == 0


def test_sign_in_with_a_certificate(
    visit: Visit, root: TestClient, shard: ServerProcess, certified: Certified
) -> None:
    origin = f"https://127.0.0.1:{shard.port}"
    files = {"certPath": str(certified.certificate), "keyPath": str(certified.key)}
    someone = visit(client_certificates=[{"origin": origin, **files}])
    someone.page.get_by_role("treeitem", name="shop").wait_for()
    someone.page.get_by_text("carol", exact=True).wait_for()


def test_sign_in_with_openid_connect(
    visit: Visit, root: TestClient, issuer: CodeFlowIssuer
) -> None:
    someone = visit("#/w/root/why")
    page = someone.page
    button(page, "Sign in with OpenID Connect").click()
    page.get_by_text("dora", exact=True).wait_for()
    page.get_by_role("heading", name="Why can’t I?").wait_for()  # where the sign-in began
    assert "code=" not in page.url
    assert someone.context.cookies() == []
    assert not issuer.codes


FLOW = "sessionStorage.setItem('kcp.flow', JSON.stringify({state: 'own', verifier: 'v', nonce: 'n', hash: '#/w/root'}))"
MIXED = {
    "?code=stolen&state=other": "This sign-in was not started in this tab",
    "?code=stolen": "This sign-in was not started in this tab",
    "?code=unknown&state=own": "the code is not valid",
    "?error=x&error_description=%3Cimg%20src=x%3E&state=own": "<img src=x>",
    "?error=x&state=other": "This sign-in was not started in this tab",
}


def test_answers_of_other_sign_ins_are_not_used(
    visit: Visit, root: TestClient, issuer: CodeFlowIssuer
) -> None:
    someone = visit()
    page = someone.page
    for query, words in MIXED.items():
        page.evaluate(FLOW)
        someone.open(query)
        page.get_by_text(re.compile(words, re.IGNORECASE)).wait_for()
        page.get_by_label("Token").wait_for()
        assert page.url.startswith(f"{someone.url}/console/"), page.url
        assert "code" not in page.url
        assert page.evaluate("sessionStorage.length") == 0, query
    issuer.nonce = "of-another-sign-in"
    try:
        button(page, "Sign in with OpenID Connect").click()
        page.get_by_text("belongs to another sign-in").wait_for()
    finally:
        issuer.nonce = ""
    assert page.evaluate("sessionStorage.length") == 0


# --- workspaces


def test_make_a_workspace(visit: Visit, root: TestClient) -> None:
    someone = visit().sign_in()
    page = someone.go("#/w/root:org/new/tenancy.kcp.io/v1alpha1/workspaces", "New Workspace")
    page.get_by_label("Name", exact=True).fill("fresh")
    button(page, "Create").click()
    page.get_by_role("heading", level=1, name="fresh").wait_for()
    page.get_by_role("treeitem", name="fresh").wait_for()
    assert root.in_cluster("root:org").get(f"{WORKSPACES}/fresh").json["status"]["phase"] == "Ready"
    made = root.in_cluster("root:org").post(
        WORKSPACES,
        {
            "apiVersion": "tenancy.kcp.io/v1alpha1",
            "kind": "Workspace",
            "metadata": {"name": "seen"},
        },
    )
    assert made.status == 201, made
    page.get_by_role("treeitem", name="seen").wait_for()  # others' changes appear by themselves


def test_delete_and_restore_a_workspace(visit: Visit, root: TestClient) -> None:
    kept = root.in_cluster("root:old").post(MAPS, {"metadata": {"name": "kept"}})
    assert kept.status == 201, kept
    someone = visit().sign_in()
    page = someone.go("#/w/root:old", "old")
    button(page, "Delete").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_text("finalizers").wait_for()
    button(dialog, "Delete").click()
    dialog.get_by_text("Type old to confirm.").wait_for()
    dialog.get_by_label("Type old to confirm").fill("old")
    button(dialog, "Delete").click()
    eventually(lambda: root.get(f"{WORKSPACES}/old").status == 404)
    further = page.get_by_role("button", name="Continue")  # if it took a moment
    eventually(lambda: further.count() == 1 or dialog.count() == 0)
    if further.count():
        further.click()
    page.get_by_role("heading", level=1, name="root", exact=True).wait_for()
    someone.go("#/w/root/trash", "Trash")
    someone.picture("trash")
    button(page, "Restore").click()
    asked = page.get_by_role("dialog", name="Restore old?")
    asked.get_by_text("kubectl ws undelete :root:old").wait_for()
    button(asked, "Restore").click()
    page.get_by_role("heading", level=1, name="old").wait_for()
    assert root.in_cluster("root:old").get(f"{MAPS}/kept").status == 200


def test_a_protected_workspace_says_what_blocks_its_deletion(
    visit: Visit, root: TestClient
) -> None:
    note = {"metadata": {"annotations": {"tenancy.pykcp.io/deletion-protection": "true"}}}
    assert root.patch(f"{WORKSPACES}/shop", note).status == 200
    someone = visit().sign_in()
    page = someone.go("#/w/root:shop", "shop")
    button(page, "Delete").click()
    page.get_by_role("dialog").get_by_text("is protected from deletion").first.wait_for()


# --- APIs


def test_bind_with_claims(visit: Visit, root: TestClient) -> None:
    someone = visit().sign_in()
    page = someone.go("#/w/root:org/bindings", "Bindings")
    page.get_by_text("Bind an API").click()
    page.get_by_label("Workspace of the provider").fill("root:provider")
    page.get_by_label("Export", exact=True).fill("cowboys")
    button(page, "Show claims").click()
    claim = "The provider may read configmaps in this workspace"
    page.get_by_role("group", name=re.compile(claim)).get_by_label("Accept").check()
    page.get_by_text("--accept-permission-claim configmaps.core").wait_for()
    button(page, "Bind").click()
    card = page.get_by_role("article", name="cowboys")
    card.get_by_text("Accepted").wait_for()
    someone.picture("bindings")
    button(card, "Accept").click()  # the one that was rejected
    asked = page.get_by_role("dialog", name="Accept this claim?")
    asked.get_by_text("Secrets hold passwords and keys.").wait_for()
    asked.get_by_text("kubectl kcp claims accept cowboys --resource secrets").wait_for()
    button(asked, "Accept").click()
    org = root.in_cluster("root:org")
    path = "/apis/apis.kcp.io/v1alpha2/apibindings/cowboys"

    def states() -> dict[str, str]:
        claims = org.get(path).json["spec"]["permissionClaims"]
        return {claim["resource"]: claim["state"] for claim in claims}

    eventually(lambda: states() == {"configmaps": "Accepted", "secrets": "Accepted"})
    someone.go("#/w/root:provider/exports/cowboys", "cowboys")
    page.get_by_role("link", name="root:org", exact=True).wait_for()
    page.get_by_text("1 workspace holds").wait_for()
    someone.picture("export")


# --- objects


def test_edit_into_a_conflict_and_resolve_it(visit: Visit, root: TestClient) -> None:
    org = root.in_cluster("root:org")
    data = {"color": "red", "size": "small", "shape": "round"}
    assert org.post(MAPS, {"metadata": {"name": "thing"}, "data": data}).status == 201
    someone = visit().sign_in()
    page = someone.go("#/w/root:org/o/-/v1/configmaps/default/thing?edit", "thing")
    edit(page, lambda text: text.replace("color: red", "color: blue"))
    button(page, "Show difference").click()
    page.get_by_role("region", name="Difference").get_by_text("color: blue").wait_for()
    someone.picture("difference")
    other = org.patch(f"{MAPS}/thing", {"data": {"color": "green", "size": "large"}})
    assert other.status == 200, other
    button(page, "Apply").click()
    merged = page.get_by_role("region", name="Merge").first
    merged.get_by_text("1 place was changed on both sides").wait_for()
    merged.get_by_text("size: large").wait_for()
    assert button(page, "Use the merged text").is_disabled()
    merged.get_by_label("Keep mine").check()
    someone.picture("merge")
    button(page, "Use the merged text").click()
    button(page, "Show difference").click()
    button(page, "Apply").click()
    eventually(lambda: org.get(f"{MAPS}/thing").json["data"]["color"] == "blue")
    assert org.get(f"{MAPS}/thing").json["data"] == {**data, "color": "blue", "size": "large"}
    page.get_by_role("heading", name="Managers").wait_for()
    page.get_by_role("cell", name="console", exact=True).wait_for()
    someone.picture("object")


def test_create_from_the_schema(visit: Visit, root: TestClient) -> None:
    someone = visit().sign_in()
    page = someone.go("#/w/root:org/new/-/v1/configmaps", "New ConfigMap")
    page.get_by_text("binaryData").first.wait_for()  # the fields of the kind
    button(page, "Create").click()
    page.get_by_role("alert").get_by_text("metadata.name").first.wait_for()
    edit(page, lambda text: text.replace('name: ""', "name: made").replace("{}", "{a: b}"))
    button(page, "Check").click()
    page.get_by_text("The server would store this").wait_for()
    someone.picture("create")
    button(page, "Create").click()
    page.get_by_role("heading", level=1, name="made").wait_for()
    assert root.in_cluster("root:org").get(f"{MAPS}/made").json["data"] == {"a": "b"}


def test_an_edit_survives_an_expired_sign_in(
    visit: Visit, root: TestClient, shard: ServerProcess
) -> None:
    org = root.in_cluster("root:org")
    assert org.post(MAPS, {"metadata": {"name": "slow"}, "data": {"a": "1"}}).status == 201
    someone = visit().sign_in()
    page = someone.go("#/w/root:org/o/-/v1/configmaps/default/slow?edit", "slow")
    edit(page, lambda text: text.replace('a: "1"', 'a: "2"').replace("a: '1'", "a: '2'"))
    page.evaluate("sessionStorage.setItem('kcp.token', 'expired')")
    button(page, "Show difference").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_text("Your sign-in has expired").wait_for()
    dialog.get_by_label("Token").fill("admin-token")
    button(dialog, "Sign in with token").click()
    page.get_by_role("region", name="Difference").wait_for()
    button(page, "Apply").click()
    eventually(lambda: org.get(f"{MAPS}/slow").json["data"]["a"] == "2")


def test_an_edit_survives_a_new_sign_in_at_the_issuer(visit: Visit, root: TestClient) -> None:
    org = root.in_cluster("root:org")
    assert org.post(MAPS, {"metadata": {"name": "far"}, "data": {"a": "one"}}).status == 201
    grant(org, "dora-in", "system:kcp:workspace:access", "dora")
    grant(org, "dora-edits", "cluster-admin", "dora")
    someone = visit("#/w/root:org/o/-/v1/configmaps/default/far?edit")
    page = someone.page
    button(page, "Sign in with OpenID Connect").click()
    edit(page, lambda text: text.replace("a: one", "a: two"))
    someone.context.set_offline(True)
    button(page, "Show difference").click()
    page.get_by_role("alert").get_by_text("The server does not answer.").first.wait_for()
    page.evaluate("sessionStorage.setItem('kcp.token', 'expired')")
    someone.context.set_offline(False)
    # The dialog may be there already, because a watch has reconnected.
    page.locator("button", has_text="Show difference").evaluate("one => one.click()")
    dialog = page.get_by_role("dialog")
    dialog.get_by_text("Your sign-in has expired").wait_for()
    button(dialog, "Sign in with OpenID Connect").click()
    page.get_by_text("Your unfinished changes are back.").wait_for()
    assert "a: two" in page.get_by_role("textbox", name="YAML").input_value()
    button(page, "Show difference").click()
    button(page, "Apply").click()
    eventually(lambda: org.get(f"{MAPS}/far").json["data"]["a"] == "two")


def test_a_list_is_live(visit: Visit, root: TestClient) -> None:
    shop = root.in_cluster("root:shop")
    for number in range(30):
        name, data = f"item-{number:02}", {"n": str(number)}
        assert shop.post(MAPS, {"metadata": {"name": name}, "data": data}).status == 201
    someone = visit().sign_in()
    page = someone.go("#/w/root:shop/r/-/v1/configmaps", "ConfigMap")
    page.get_by_role("row", name="item-05").wait_for()
    someone.picture("list")
    assert shop.delete(f"{MAPS}/item-05").status == 200
    page.get_by_role("row", name="item-05").wait_for(state="detached")
    assert shop.post(MAPS, {"metadata": {"name": "item-new"}}).status == 201
    page.get_by_label("Filter rows").fill("new")
    page.get_by_role("row", name="item-new").wait_for()
    assert page.get_by_role("row", name="item-1").count() == 0


def test_keyboard_alone(visit: Visit, root: TestClient) -> None:
    made = root.in_cluster("root:shop").post(MAPS, {"metadata": {"name": "a-first"}})
    assert made.status == 201, made
    someone = visit().sign_in()
    page = someone.page
    page.get_by_role("treeitem", name="shop").wait_for()
    page.keyboard.press("Control+k")
    page.get_by_role("combobox").wait_for()
    page.keyboard.type("root:shop")
    someone.picture("palette")
    page.keyboard.press("Enter")
    page.get_by_role("heading", level=1, name="shop").wait_for()
    page.keyboard.press("Control+k")
    page.keyboard.type("configm")
    page.get_by_role("option", name="ConfigMap configmaps").first.wait_for()
    page.keyboard.press("Enter")
    page.get_by_role("heading", level=1, name="ConfigMap").wait_for()
    page.get_by_role("row", name="a-first").wait_for()
    page.get_by_role("grid").focus()
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Enter")
    page.get_by_role("heading", level=1, name=re.compile("a-first|item-|kube-root")).wait_for()
    page.keyboard.press("/")
    page.keyboard.type("provid")
    page.get_by_role("treeitem", name="root:provider").wait_for()


# --- access


def test_a_denial_is_explained(visit: Visit, root: TestClient) -> None:
    org = root.in_cluster("root:org")
    grant(org, "alice-in", "system:kcp:workspace:access", "alice")
    grant(org, "alice-views", "view", "alice")
    someone = visit().sign_in("alice-token")
    page = someone.go("#/w/root:org/r/-/v1/secrets", "Secret")
    page.get_by_role("alert").get_by_text('cannot list resource "secrets"').wait_for()
    page.get_by_role("main").get_by_role("link", name="Why can’t I?").click()
    page.get_by_text('User "alice" may not list secrets').wait_for()
    page.get_by_text("kubectl create clusterrole alice-list-secrets").wait_for()
    someone.picture("why")
    page.get_by_label("Resource or path").fill("configmaps")
    button(page, "Explain").click()
    page.get_by_text('User "alice" may list configmaps').wait_for()
    page.get_by_role("cell", name="alice-views").wait_for()
    page.get_by_label("User").fill("bob")
    button(page, "Explain").click()
    page.get_by_role("alert").get_by_text("subjectaccessreviews").wait_for()
