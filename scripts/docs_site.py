"""A hook of mkdocs: pages that mkdocs.yml does not list are added to the section of their folder.

Blocks of code begin with their language alone; what tests of pages read after it is left out.

Files of the repository outside of `docs` (the architecture, the changelog) are linked by their place in the repository.
"""

from __future__ import annotations

import pathlib
import re
from typing import Any

_SECTIONS = {"design": "Design", "guides": "Guides", "operate": "Operate", "reference": "Reference"}
_OTHER = "About"
_FENCE = re.compile(r"^(```[\w.]+) [^\n`]*$", re.MULTILINE)


def pages_of(entry: Any) -> list[str]:
    """The pages that an entry of the navigation lists."""
    if isinstance(entry, str):
        return [entry]
    if isinstance(entry, dict):
        entry = list(entry.values())
    return [page for one in entry for page in pages_of(one)]


def completed(nav: list[Any], found: list[str]) -> list[Any]:
    """The navigation with every page that there is, and without pages that are missing."""
    listed = set(pages_of(nav))
    for page in sorted(set(found) - listed):
        section = _SECTIONS.get(page.split("/")[0], _OTHER)
        next(entry for entry in nav if isinstance(entry, dict) and section in entry)[
            section
        ].append(page)
    return nav


def on_config(config: Any) -> Any:
    docs = pathlib.Path(config.docs_dir)
    found = [path.relative_to(docs).as_posix() for path in docs.rglob("*.md")]
    config.nav = completed(config.nav, found)
    return config


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Python-Markdown takes a block with two words after the fence for text."""
    return _FENCE.sub(r"\1", markdown)
