"""A server with users of all kinds: tokens, certificates, an OpenID Connect issuer; and a browser."""

from __future__ import annotations

import pathlib
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pytest

from pykcp.auth.certificates import create_ca, issue_client
from pykcp.testing.client import TestClient
from pykcp.testing.server import ServerProcess, server

from .browsing import FLAGS, Visitor, find_chromium

if TYPE_CHECKING:
    from playwright.sync_api import Browser

TOKENS = 'admin-token,admin,1,"system:masters"\nalice-token,alice,2,\nbob-token,bob,3,\n'


@dataclass(frozen=True)
class Certified:
    """The certificate of a user, as files."""

    certificate: pathlib.Path
    key: pathlib.Path

    def client(self, shard: ServerProcess, cluster: str = "root") -> TestClient:
        files = (str(self.certificate), str(self.key))
        return shard.client(cluster=cluster).with_certificate(files)


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    return pathlib.Path(tmp_path_factory.mktemp("console"))


@pytest.fixture(scope="module")
def certified(directory: pathlib.Path) -> Certified:
    """An administrator; the CA is the server's."""
    now = time.time()
    authority = create_ca("test-users", now)
    pair = issue_client(authority, "carol", ("system:masters",), now)
    (directory / "client-ca.crt").write_bytes(authority.certificate)
    made = Certified(directory / "carol.crt", directory / "carol.key")
    made.certificate.write_bytes(pair.certificate)
    made.key.write_bytes(pair.key)
    return made


@pytest.fixture(scope="module")
def extra_flags() -> tuple[str, ...]:
    """Of the server; modules may have their own."""
    return ()


@pytest.fixture(scope="module")
def shard(
    directory: pathlib.Path, certified: Certified, extra_flags: tuple[str, ...]
) -> Iterator[ServerProcess]:
    assert certified.certificate.exists()
    tokens = directory / "tokens.csv"
    tokens.write_text(TOKENS)
    flags = (
        f"--token-auth-file={tokens}",
        f"--client-ca-file={directory / 'client-ca.crt'}",
        "--workspace-undelete-window=1h",
        *extra_flags,
    )
    with server(*flags, directory=directory) as process:
        yield process


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """Chromium; every visitor has a profile of their own.

    It ends with the module: asynchronous tests cannot run in this process meanwhile.
    """
    path = find_chromium()
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        found = playwright.chromium.launch(executable_path=path, args=list(FLAGS))
        yield found
        found.close()


@pytest.fixture
def visit(browser: Browser, shard: ServerProcess) -> Iterator[Callable[..., Visitor]]:
    """Opens the console for a new visitor."""
    visitors: list[Visitor] = []

    def make(place: str = "", **options: Any) -> Visitor:
        visitors.append(Visitor(browser, f"https://127.0.0.1:{shard.port}", **options))
        return visitors[-1].open(place)

    yield make
    for visitor in visitors:
        visitor.close()
