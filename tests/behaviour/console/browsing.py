"""The console in a real browser: pages, pictures, and what must never happen in one."""

from __future__ import annotations

import os
import pathlib
import re
import shutil
from typing import TYPE_CHECKING, Any

import pytest

from .pictures import is_like, shrunk

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-lcd-text",
    "--font-render-hinting=none",
)
PICTURES = pathlib.Path(__file__).parents[3] / "docs" / "console"
MOST_BYTES = 60 * 1024
"""Of a picture in the documentation."""


def find_chromium() -> str:
    """Where it is; skips the test if there is none."""
    pytest.importorskip("playwright", reason="playwright is not installed")
    found = shutil.which("chromium") or shutil.which("chromium-browser")
    if found is None:
        pytest.skip("there is no chromium here")
    return found


class Visitor:
    """A user at a browser of their own."""

    def __init__(self, browser: Browser, url: str, **options: Any) -> None:
        viewport = options.pop("viewport", {"width": 1120, "height": 720})
        self.context = browser.new_context(
            ignore_https_errors=True, viewport=viewport, reduced_motion="reduce", **options
        )
        self.url = url
        self.page: Page = self.context.new_page()
        self.page.set_default_timeout(20_000)
        self.complaints: list[str] = []
        self.page.on("console", self._note)
        self.page.on("pageerror", lambda error: self.complaints.append(str(error)))

    def _note(self, message: Any) -> None:
        text = message.text
        if message.type == "error" and not text.startswith("Failed to load resource"):
            self.complaints.append(text)

    def open(self, place: str = "") -> Visitor:
        self.page.goto(f"{self.url}/console/{place}")
        return self

    def sign_in(self, token: str = "admin-token") -> Visitor:
        self.page.get_by_label("Token").fill(token)
        self.page.get_by_role("button", name="Sign in with token").click()
        self.page.get_by_role("tree").wait_for()
        return self

    def go(self, place: str, title: str | re.Pattern[str]) -> Page:
        """To a page of the console, until it shows its title."""
        self.page.evaluate("place => { location.hash = place }", place)
        self.page.get_by_role(
            "heading", level=1, name=title, exact=isinstance(title, str)
        ).wait_for()
        return self.page

    def picture(self, name: str) -> None:
        """Into the documentation, if PYKCP_PICTURES is set and the page looks different now."""
        if os.environ.get("PYKCP_PICTURES"):
            self.page.wait_for_timeout(300)
            shot = shrunk(self.page.screenshot())
            assert len(shot) < MOST_BYTES, f"{name}: {len(shot)} bytes"
            PICTURES.mkdir(exist_ok=True)
            path = PICTURES / f"{name}.png"
            if not path.exists() or not is_like(path.read_bytes(), shot):
                path.write_bytes(shot)

    def close(self) -> None:
        self.context.close()
        assert not self.complaints, self.complaints
