import pytest

from pykcp.machinery.kcp import clusters


@pytest.mark.parametrize(
    "path", ["*", "root", "root:org:team", "system:admin", "a", "a-b", "0", "a" * 63, "1:2:3"]
)
def test_valid_paths(path: str) -> None:
    assert clusters.is_valid_path(path)


@pytest.mark.parametrize(
    "path",
    ["", ":", "root:", ":root", "Root", "a_b", "-a", "a-", "root::x", "a" * 64, "**", "root:*",
     "a/b", "root\n", "é"],
)  # fmt: skip
def test_invalid_paths(path: str) -> None:
    assert not clusters.is_valid_path(path)


def test_depth() -> None:
    deepest = clusters.SEPARATOR.join("a" * clusters.MAX_DEPTH)
    assert not clusters.is_too_deep(deepest)
    assert clusters.is_too_deep(f"{deepest}:a")
    assert clusters.is_valid_path(f"{deepest}:a")
    assert not clusters.is_valid_path("a:" * 1_500_000 + "a")


def test_split_and_parent() -> None:
    assert clusters.split("root:org:team") == ("root:org", "team")
    assert clusters.split("root") == ("", "root")
    assert clusters.split("system:admin") == ("system:admin", "")
    assert clusters.parent("root:org") == "root"
    assert clusters.parent("root") is None
    assert clusters.parent("system:admin") is None
    assert clusters.base("root:org") == "org"
    assert clusters.join("root", "org") == "root:org"
    assert clusters.join("", "root") == "root"


def test_names() -> None:
    assert clusters.is_name("root")
    assert clusters.is_name("system:admin")
    assert not clusters.is_name("root:org")
    assert not clusters.is_name("*")
    assert clusters.is_valid_name("36ks9xj4a2n61")
    assert clusters.is_valid_name("system:bound-crds")
    assert not clusters.is_valid_name("root:org")
    assert not clusters.is_valid_name("*")
    assert not clusters.is_valid_name("system:")


def test_prefixes_end_at_a_colon() -> None:
    assert clusters.has_prefix("root:org", "root")
    assert clusters.has_prefix("root", "root")
    assert clusters.has_prefix("root", "")
    assert not clusters.has_prefix("rooted", "root")
    assert clusters.request_path("root:org") == "/clusters/root:org"
