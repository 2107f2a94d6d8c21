"""`kubectl ws .` and `kubectl ws current`: print the current workspace."""

from __future__ import annotations

from pykcp.cli.plugins.go_text import quote
from pykcp.cli.plugins.session import Session
from pykcp.cli.plugins.shell.command import CommandInvocation, WantsHelp
from pykcp.cli.plugins.workspace.paths import cluster_of_url


def current(invocation: CommandInvocation) -> None:
    if invocation.arguments:
        raise WantsHelp
    show(Session(invocation).target().host, is_short=invocation["short"])


def show(host: str, *, is_short: bool, type_name: str = "") -> None:
    found = cluster_of_url(host)
    if found is None:
        if not is_short:
            print(f"Current workspace is the URL {quote(host)}.")
    elif is_short:
        print(found.path)
    else:
        of_type = f" (type {type_name})" if type_name else ""
        print(f"Current workspace is '{found.path}'{of_type}.")
