"""Resolution of workspaces: URLs, absolute and relative paths, `.` and `..`.

All of it is text in, text out.
"""

from __future__ import annotations

from typing import NamedTuple
from urllib.parse import urlsplit, urlunsplit

from pykcp.cli.plugins.errors import PluginError
from pykcp.cli.plugins.go_text import quote
from pykcp.machinery.kcp import clusters

_PREFIX = "/clusters/"
ROOT_NOTE = (
    "Note: Using 'root:' to define an absolute path is no longer supported. "
    "Instead, use ':root' to specify an absolute path."
)


class ClusterURL(NamedTuple):
    """The parts of a server's URL: before `/clusters/`, and the path after it."""

    base: str
    path: str

    def of(self, path: str) -> str:
        """The URL of another workspace of the same server."""
        scheme, netloc, folder, query, fragment = urlsplit(self.base)
        return urlunsplit((scheme, netloc, f"{folder}{_PREFIX}{path}", query, fragment))


class BadURL(PluginError):
    """A URL that points to no workspace."""


def parse_cluster_url(url: str) -> ClusterURL:
    scheme, netloc, path, query, fragment = urlsplit(url)
    before, found, behind = path.partition(_PREFIX)
    if not found:
        raise BadURL(f"current cluster URL {url} is not pointing to a workspace")
    cluster = behind.partition("/")[0]
    if not clusters.is_valid_path(cluster):
        raise BadURL(f"invalid cluster name: {quote(cluster)}")
    return ClusterURL(urlunsplit((scheme, netloc, before, query, fragment)), cluster)


def check_url(url: str) -> None:
    """Reject `host:port`, which looks like a URL but is not one."""
    first = url.partition("/")[0]
    if "://" not in url and ":" in first:
        raise PluginError(f"parse {quote(url)}: first path segment in URL cannot contain colon")


def cluster_of_url(url: str) -> ClusterURL | None:
    try:
        return parse_cluster_url(url)
    except BadURL:
        return None


def url_of_workspace(url: str, workspace: str) -> str:
    """The URL of the workspace in a `--workspace` flag, relative to another one."""
    try:
        here = parse_cluster_url(url)
    except BadURL as error:
        raise PluginError(
            f"current URL {quote(url)} does not point to a workspace: {error}"
        ) from None
    path = resolve(here.path, workspace, above="cannot go above the root workspace")
    if not clusters.is_valid_path(path):
        raise PluginError(f"invalid workspace path: {workspace}")
    return here.of(path)


def resolve(current: str, name: str, above: str = "cannot go up from root") -> str:
    """An absolute path without dots; `above` is the error message for leaving the tree."""
    words = name[1:] if name.startswith(":") else clusters.join(current, name)
    path = ""
    for word in words.split(":"):
        if word == ".":
            continue
        if word != "..":
            path = clusters.join(path, word)
        elif not path:
            raise PluginError(above)
        else:
            path = clusters.split(path).parent
    return path


class NavigationTarget(NamedTuple):
    """The normalized destination; `note` is printed for the user."""

    name: str
    note: str = ""


def tidy(name: str, home_folder: str, *, is_short: bool) -> NavigationTarget:
    """Normalize a typed path: slashes, and a `~` that the shell has expanded."""
    if home_folder and name.startswith(home_folder):
        name = "~" + name[len(home_folder) :]
    name = name.replace("/", ":")
    if name == clusters.ROOT or (name.startswith(f"{clusters.ROOT}:") and not is_short):
        return NavigationTarget(":" + name, ROOT_NOTE)
    return NavigationTarget(name or "~")


def topmost(path: str) -> str:
    """The first segment of a path; system clusters have no further segments."""
    above = clusters.parent(path)
    while above is not None:
        path, above = above, clusters.parent(above)
    return path


def home_path(url: str) -> str:
    """The path in the URL of a home workspace."""
    path = urlsplit(url).path
    return path.removeprefix(_PREFIX)
