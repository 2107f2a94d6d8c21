"""What a path means: the table of Kubernetes' rules, with kcp's clusters in front."""

from __future__ import annotations

from urllib.parse import parse_qs, unquote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pykcp.server import escapes
from pykcp.server.request_info import (
    MAX_PARAMETERS,
    TOO_MANY_PARAMETERS,
    RequestInfo,
    name_in_field_selector,
    parse,
    parse_query,
    split_cluster,
)


def shown(info: RequestInfo) -> str:
    """`verb group/version namespace resource/name/subresource`, dots for what is empty."""
    words = (
        info.verb,
        f"{info.group or 'core'}/{info.version}",
        info.namespace or ".",
        "/".join((info.resource, info.name or ".", info.subresource or ".")),
    )
    return " ".join(words)


@pytest.mark.parametrize(
    ("method", "path", "query", "meaning"),
    [
        ("GET", "/api/v1/namespaces", "", "list core/v1 . namespaces/./."),
        ("GET", "/api/v1/namespaces/x", "", "get core/v1 x namespaces/x/."),
        ("GET", "/api/v1/namespaces/x/status", "", "get core/v1 x namespaces/x/status"),
        ("PUT", "/api/v1/namespaces/x/finalize", "", "update core/v1 x namespaces/x/finalize"),
        ("GET", "/api/v1/namespaces/x/secrets", "", "list core/v1 x secrets/./."),
        ("GET", "/api/v1/secrets", "", "list core/v1 . secrets/./."),
        ("GET", "/api/v1/namespaces/x/secrets/y", "", "get core/v1 x secrets/y/."),
        ("HEAD", "/api/v1/namespaces/x/secrets/y", "", "get core/v1 x secrets/y/."),
        ("POST", "/api/v1/namespaces/x/secrets", "", "create core/v1 x secrets/./."),
        ("PUT", "/api/v1/namespaces/x/secrets/y", "", "update core/v1 x secrets/y/."),
        ("PATCH", "/api/v1/namespaces/x/secrets/y", "", "patch core/v1 x secrets/y/."),
        ("DELETE", "/api/v1/namespaces/x/secrets/y", "", "delete core/v1 x secrets/y/."),
        ("DELETE", "/api/v1/namespaces/x/secrets", "", "deletecollection core/v1 x secrets/./."),
        ("GET", "/api/v1/secrets", "watch=true", "watch core/v1 . secrets/./."),
        ("GET", "/api/v1/secrets", "watch", "watch core/v1 . secrets/./."),
        ("GET", "/api/v1/secrets", "watch=1", "watch core/v1 . secrets/./."),
        ("GET", "/api/v1/secrets", "watch=false", "list core/v1 . secrets/./."),
        ("GET", "/api/v1/secrets", "watch=0", "list core/v1 . secrets/./."),
        ("GET", "/api/v1/watch/secrets", "", "watch core/v1 . secrets/./."),
        ("GET", "/api/v1/watch/namespaces/x/secrets/y", "", "watch core/v1 x secrets/y/."),
        ("GET", "/api/v1/secrets", "fieldSelector=metadata.name%3Dy", "list core/v1 . secrets/y/."),
        ("GET", "/apis/a.b/v1/things", "", "list a.b/v1 . things/./."),
        ("GET", "/apis/a.b/v1/namespaces/x/things/y/scale", "", "get a.b/v1 x things/y/scale"),
        ("PROPFIND", "/api/v1/secrets", "", " core/v1 . secrets/./."),
        ("GET", "/api/v1/namespaces/%C3%BC/secrets", "", "list core/v1 ü secrets/./."),
    ],
)  # fmt: skip
def test_resource_requests(method: str, path: str, query: str, meaning: str) -> None:
    """Method, path and query give verb, group, version, namespace, resource, name, subresource."""
    info = parse(method, path, query)
    assert info.is_resource
    assert shown(info) == meaning


@pytest.mark.parametrize(
    "path",
    ["/", "/api", "/api/v1", "/apis", "/apis/a", "/apis/a/v1", "/healthz", "/api//v1/secrets", "/metrics", ""],
)  # fmt: skip
def test_other_paths(path: str) -> None:
    """Everything else is a path, whose verb is the method in small letters."""
    info = parse("GET", path, "")
    assert not info.is_resource
    assert info.verb == "get"
    assert info.path == path


@pytest.mark.parametrize(
    ("path", "cluster", "rest"),
    [
        ("/clusters/root/api/v1/secrets", "root", "/api/v1/secrets"),
        ("/clusters/root:a:b/apis", "root:a:b", "/apis"),
        ("/clusters/*/api/v1/secrets", "*", "/api/v1/secrets"),
        ("/clusters/root", "root", "/"),
        ("/clusters/root/", "root", "/"),
        ("/api", "", "/api"),
        ("/clusters", "", "/clusters"),
        ("/clusters/a/clusters/b/api", "a", "/clusters/b/api"),
    ],
)
def test_clusters(path: str, cluster: str, rest: str) -> None:
    """`/clusters/<path>` names the logical cluster; the rest is understood as if it stood alone."""
    assert split_cluster(path) == (cluster, rest)
    info = parse("GET", path, "")
    assert (info.cluster, info.path) == (cluster, rest)


def test_escaped_slashes_are_decoded_before_splitting() -> None:
    """Like Go's router: an escaped path is decoded first, so an escape cannot hide a segment."""
    assert parse("GET", "/clusters/a%2Fapi/v1/secrets", "").cluster == "a"


def test_identity() -> None:
    """`resource:identity` names the resource of one exporter."""
    info = parse("GET", "/apis/a.b/v1/things:abc123", "")
    assert (info.resource, info.identity) == ("things", "abc123")


def test_whether_the_path_went_through_a_namespace() -> None:
    """A resource below a namespace is told from the namespace itself."""
    assert parse("GET", "/api/v1/namespaces/x/secrets", "").in_namespace
    assert not parse("GET", "/api/v1/namespaces/x", "").in_namespace
    assert not parse("GET", "/api/v1/namespaces/x/status", "").in_namespace


def test_badly_escaped_parameters_are_dropped() -> None:
    """Pairs with a broken escape are left out, the others stay, as Go does."""
    assert parse_query("a=1&b=%zz&c=%41&d") == {"a": ["1"], "c": ["A"], "d": [""]}


@given(st.text(alphabet="a=&+%41é/;", max_size=40))
def test_parameters_are_those_of_the_standard_library(query: str) -> None:
    """But for pairs with a broken escape."""
    pairs = (pair for pair in query.split("&") if ";" not in pair)
    good = "&".join(pair for pair in pairs if not escapes.has_bad(pair))
    assert parse_query(query) == parse_qs(good, keep_blank_values=True)


@given(st.text(alphabet='a%41Fé\\xu"\n', max_size=40), st.integers(1, 50))
def test_escapes_are_decoded_as_by_the_standard_library(text: str, times: int) -> None:
    """However long the text is."""
    assert escapes.decode(text * times) == unquote(text * times)


def test_too_many_parameters_are_not_looked_at() -> None:
    """A million of them take no longer than counting them."""
    most = "&".join(f"a{n}=1" for n in range(MAX_PARAMETERS))
    assert len(parse_query(most)) == MAX_PARAMETERS
    assert parse_query(f"{most}&b=1") is TOO_MANY_PARAMETERS
    assert parse_query("&" * 1_000_000) is TOO_MANY_PARAMETERS


@pytest.mark.parametrize(
    ("value", "expected"),
    [("true", True), ("", True), ("1", True), ("yes", True), ("false", False), ("FALSE", False), ("0", False)],
)  # fmt: skip
def test_booleans(value: str, expected: bool) -> None:
    """Anything but false and 0 is true once the parameter is there."""
    info = parse("GET", "/api/v1/secrets", f"pretty={value}")
    assert info.is_true("pretty") is expected
    assert not info.is_true("force")


@pytest.mark.parametrize(
    ("selector", "name"),
    [
        ("metadata.name=x", "x"), ("metadata.name==x", "x"), ("a=b,metadata.name=x", "x"),
        ("metadata.name!=x", ""), ("metadata.namespace=x", ""), ("", ""),
        ("a=metadata.name=x", ""), ("xmetadata.name=x", ""), (" metadata.name = x ,a=b", "x"),
        ("metadata.name", ""), ("metadata.name=,metadata.name=x", ""),
    ],
)  # fmt: skip
def test_name_in_field_selector(selector: str, name: str) -> None:
    """A list of one name is authorized like a get of it."""
    assert name_in_field_selector(selector) == name


@given(st.text(), st.text(), st.text())
def test_anything_can_be_parsed(method: str, path: str, query: str) -> None:
    """No path or query is too odd to be understood as something."""
    info = parse(method, path, query)
    assert info.verb is not None
