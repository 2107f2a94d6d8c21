"""The mapping file and which of its entries a path belongs to."""

from __future__ import annotations

import pathlib

import pytest

from pykcp.clients.credential_files import CredentialError
from pykcp.proxy.mapping import MappingMatcher, Matched, load_mappings

GOOD = """
- path: /services/
  backend: https://localhost:6444
  backend_server_ca: ca.crt
  proxy_client_cert: tls.crt
  proxy_client_key: tls.key
  group_header: X-Team
"""


def load(tmp_path: pathlib.Path, text: str) -> list[object]:
    file = tmp_path / "mapping.yaml"
    file.write_text(text)
    return list(load_mappings(str(file)))


def test_a_file_is_read(tmp_path: pathlib.Path) -> None:
    (mapping,) = load_mappings(str(_written(tmp_path)))
    assert mapping.path == "/services/"
    assert not mapping.is_for_shards
    assert (mapping.user_header, mapping.group_header) == ("x-remote-user", "x-team")
    assert mapping.extra_header_prefix == "x-remote-extra-"


def _written(tmp_path: pathlib.Path) -> pathlib.Path:
    file = tmp_path / "mapping.yaml"
    file.write_text(GOOD)
    return file


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("path: /", "must be a list of mappings"),
        ("- 1", "must be a list of mappings"),
        ("- [", "not YAML"),
        (GOOD.replace("  backend: https://localhost:6444\n", ""), "backend is required"),
        (GOOD.replace("https://localhost:6444", "ftp://x"), "backend is not an http or https URL"),
        (GOOD.replace("/services/", "services"), "the path must begin with a slash"),
        (GOOD.replace("tls.key", "7"), "proxy_client_key must be a string"),
        (GOOD.replace("X-Team", '"X Team"'), "group_header is not the name of a header"),
    ],
)
def test_mistakes_are_named(tmp_path: pathlib.Path, text: str, problem: str) -> None:
    with pytest.raises(CredentialError, match=problem):
        load(tmp_path, text)


@pytest.mark.parametrize(
    ("path", "found"),
    [
        ("/services", Matched(0)),
        ("/services/x", Matched(0)),
        ("/services/apiexport/a/b/clusters/root:x/api", Matched(1, "root:x")),
        ("/services/apiexport/a/b/clusters/*/api", Matched(1, "*")),
        ("/e2e/clusters/root:y/anything", Matched(2, "root:y")),
        ("/e2e/clusters", None),
        ("/e2e/clusters//x", None),
        ("/serviceshop", None),
        ("/", None),
    ],
)
def test_the_longest_prefix_wins(path: str, found: Matched | None) -> None:
    matcher = MappingMatcher(["/services/", "/services/apiexport", "/e2e/clusters/{cluster}/"])
    assert matcher.find(path) == found


def test_the_default() -> None:
    matcher = MappingMatcher(["/", "/a/"])
    assert matcher.find("/a") == Matched(1)
    assert matcher.find("/b/clusters/c") == Matched(0, "c")
