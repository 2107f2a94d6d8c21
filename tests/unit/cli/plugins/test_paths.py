"""Which workspace a user means."""

from __future__ import annotations

import pytest

from pykcp.cli.plugins.errors import PluginError
from pykcp.cli.plugins.workspace.paths import (
    ROOT_NOTE,
    BadURL,
    check_url,
    home_path,
    parse_cluster_url,
    resolve,
    tidy,
    topmost,
    url_of_workspace,
)


@pytest.mark.parametrize(
    ("current", "name", "expected"),
    [
        ("root:a", "b", "root:a:b"),
        ("root:a", "b:c", "root:a:b:c"),
        ("root:a", ":root:x", "root:x"),
        ("root:a:b", "..", "root:a"),
        ("root:a:b", "..:c", "root:a:c"),
        ("root:a:b", "..:..", "root"),
        ("root:a", ".", "root:a"),
        ("root:a", ".:b:.:..", "root:a"),
        ("root", ":root:a:..:b", "root:b"),
        ("root", "..", ""),
        ("system:admin", "..", "system:admin"),
        ("root", "a::b", "root:a::b"),
    ],
)
def test_resolve(current, name, expected):
    assert resolve(current, name) == expected


def test_nobody_goes_above_the_top():
    with pytest.raises(PluginError, match=r"^cannot go up from root$"):
        resolve("root", "..:..")


@pytest.mark.parametrize(
    ("typed", "is_short", "name", "has_note"),
    [
        ("", False, "~", False),
        ("a/b", False, "a:b", False),
        ("root", False, ":root", True),
        ("root:a", False, ":root:a", True),
        ("root:a", True, "root:a", False),
        ("root", True, ":root", True),
        ("rootless", False, "rootless", False),
        (":root:a", False, ":root:a", False),
        ("/home/me", False, "~", False),
        ("/home/me/x", False, "~:x", False),
        ("-", False, "-", False),
    ],
)
def test_tidy(typed, is_short, name, has_note):
    destination = tidy(typed, "/home/me", is_short=is_short)
    assert destination.name == name
    assert destination.note == (ROOT_NOTE if has_note else "")


@pytest.mark.parametrize(
    ("url", "base", "path"),
    [
        ("https://h:6443/clusters/root:a", "https://h:6443", "root:a"),
        ("https://h/clusters/root/", "https://h", "root"),
        ("https://h/services/x/clusters/root:a/api", "https://h/services/x", "root:a"),
        ("https://h/clusters/*", "https://h", "*"),
    ],
)
def test_parse_cluster_url(url, base, path):
    assert parse_cluster_url(url) == (base, path)
    assert parse_cluster_url(url).of("root:z") == f"{base}/clusters/root:z"


@pytest.mark.parametrize(
    ("url", "complaint"),
    [
        ("https://h:6443", "current cluster URL https://h:6443 is not pointing to a workspace"),
        ("https://h/clusters/Bad_", 'invalid cluster name: "Bad_"'),
        ("https://h/clusters/", 'invalid cluster name: ""'),
    ],
)
def test_urls_that_point_to_no_workspace(url, complaint):
    with pytest.raises(BadURL) as caught:
        parse_cluster_url(url)
    assert str(caught.value) == complaint


@pytest.mark.parametrize(
    ("workspace", "path"),
    [("b", "root:a:b"), (":root:b", "root:b"), ("..", "root"), (".", "root:a")],
)
def test_url_of_workspace(workspace, path):
    assert url_of_workspace("https://h/clusters/root:a", workspace) == f"https://h/clusters/{path}"


@pytest.mark.parametrize(
    ("url", "workspace", "complaint"),
    [
        ("https://h/clusters/root", "..:..", "cannot go above the root workspace"),
        ("https://h/clusters/root", "A_", "invalid workspace path: A_"),
        (
            "https://h",
            "a",
            (
                'current URL "https://h" does not point to a workspace: '
                "current cluster URL https://h is not pointing to a workspace"
            ),
        ),
    ],
)
def test_workspace_flags_that_make_no_sense(url, workspace, complaint):
    with pytest.raises(PluginError) as caught:
        url_of_workspace(url, workspace)
    assert str(caught.value) == complaint


@pytest.mark.parametrize(
    ("path", "top"), [("root:a:b", "root"), ("abc", "abc"), ("system:admin", "system:admin")]
)
def test_topmost(path, top):
    assert topmost(path) == top


def test_home_path():
    assert home_path("https://h:6443/clusters/kvdk2spgmbix") == "kvdk2spgmbix"


def test_an_address_is_no_url():
    check_url("https://h:6443/clusters/root")
    with pytest.raises(PluginError, match=r'^parse "h:6443": first path segment in URL cannot'):
        check_url("h:6443")
