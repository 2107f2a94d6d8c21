"""Lists in pages: tokens, consistency, and what happens when a token is too old."""

from __future__ import annotations

import base64
import json
from typing import Any

import orjson
import pytest

from pykcp.machinery.status import BadRequest, Expired, NotFound, Timeout
from pykcp.registry.verbs.continuing import decode_token, encode_token
from pykcp.registry.verbs.delete import delete
from pykcp.registry.verbs.deletion import DeleteOptions
from pykcp.registry.verbs.read import ListOptions, find, list_objects
from pykcp.registry.watch.selection import select


def names(values: list[bytes]) -> list[str]:
    return [orjson.loads(v)["metadata"]["name"] for v in values]


def token(**content: Any) -> str:
    return base64.urlsafe_b64encode(json.dumps(content).encode()).rstrip(b"=").decode()


def test_tokens_are_upstreams() -> None:
    """Version, revision and the key to go on from, as base64 of JSON without padding."""
    text = encode_token(7, "n/x")
    assert json.loads(base64.urlsafe_b64decode(text + "==")) == {
        "v": "meta.k8s.io/v1",
        "rv": 7,
        "start": "n/x\0",
    }
    assert decode_token(text) == (7, "n/x")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("%%%", "continue key is not valid"),
        ("ü", "continue key is not valid"),
        ("e30", "continue key is not valid"),
        (token(v="v9", rv=1, start="x"), "server does not recognize this encoded version v9"),
        (token(v="meta.k8s.io/v1", rv=0, start="x"), "incorrect encoded start resourceVersion"),
        (token(v="meta.k8s.io/v1", rv=1, start=""), "encoded start key empty"),
        (token(v="meta.k8s.io/v1", rv=1, start="../x"), "continue key is not valid: ../x"),
        (token(v="meta.k8s.io/v1", rv="x", start="a"), "continue key is not valid"),
        (token(v="meta.k8s.io/v1", rv=None, start="a"), "continue key is not valid"),
    ],
)
def test_other_tokens_are_refused(text: str, message: str) -> None:
    """400, whatever a client made of a token; nobody gets out of the prefix with one."""
    with pytest.raises(BadRequest, match=message):
        decode_token(text)


async def test_pages_are_one_snapshot(world: Any) -> None:
    """What is created and deleted between two pages changes neither."""
    for name in "abcde":
        await world.config_map(name)
    resource = world.resource("configmaps")
    first = await list_objects(resource, world.context, "n", ListOptions(limit=2))
    assert (names(first.values), first.remaining) == (["a", "b"], 3)
    await world.config_map("cc")
    await delete(resource, world.context, "n", "d", DeleteOptions())
    revision, start = decode_token(first.continue_token)
    options = ListOptions(after=f"{resource.prefix}c/n/{start}", at=revision, is_continued=True)
    rest = await list_objects(resource, world.context, "n", options)
    assert names(rest.values) == ["c", "d", "e"]
    assert rest.revision == first.revision
    assert rest.continue_token == ""


async def test_selected_pages_do_not_count_the_rest(world: Any) -> None:
    """How much is left is only told when nothing is filtered."""
    for name in "abc":
        await world.config_map(name, app="web")
    selection = select("app=web", "", None)
    options = ListOptions(selection, limit=1)
    page = await list_objects(world.resource("configmaps"), world.context, "n", options)
    assert page.continue_token
    assert page.remaining is None


async def test_an_old_token_expires_with_another_to_go_on(world: Any) -> None:
    """410 whose own token continues without consistency."""
    for name in "abc":
        await world.config_map(name)
    resource = world.resource("configmaps")
    first = await list_objects(resource, world.context, "n", ListOptions(limit=1))
    await world.config_map("d")
    await world.store.compact(world.store.revision)
    revision, start = decode_token(first.continue_token)
    options = ListOptions(after=f"{resource.prefix}c/n/{start}", at=revision, is_continued=True)
    with pytest.raises(Expired) as caught:
        await list_objects(resource, world.context, "n", options)
    assert caught.value.message.startswith("The provided continue parameter is too old")
    assert decode_token(caught.value.continue_token) == (-1, start)


async def test_an_old_revision_is_expired_and_a_future_one_times_out(world: Any) -> None:
    """410 for what is forgotten, 504 for what may still come."""
    await world.config_map("a")
    await world.config_map("b")
    resource = world.resource("configmaps")
    await world.store.compact(world.store.revision)
    with pytest.raises(Expired, match="The resourceVersion for the provided list is too old"):
        await list_objects(resource, world.context, "n", ListOptions(at=1))
    with pytest.raises(Timeout, match="Too large resource version: 999, current: 2"):
        await list_objects(resource, world.context, "n", ListOptions(not_older_than=999))


async def test_a_name_is_looked_up_not_searched(world: Any) -> None:
    """A field selector on the name gives one object or none, and other selectors still count."""
    await world.config_map("a", app="web")
    resource = world.resource("configmaps")
    for labels, expected in (("app=web", ["a"]), ("app=db", [])):
        selection = select(labels, "metadata.name=a", None)
        listing = await list_objects(resource, world.context, "n", ListOptions(selection))
        assert names(listing.values) == expected


async def test_what_is_missing_is_not_found(world: Any) -> None:
    """NotFound names resource and object."""
    with pytest.raises(NotFound, match='configmaps "x" not found'):
        find(world.resource("configmaps"), world.context, "n", "x")
