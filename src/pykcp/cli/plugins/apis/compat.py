"""`kubectl kcp compat`: two CRDs compared, and what they have in common."""

from __future__ import annotations

from typing import Any

from pykcp.cli.plugins.apis.snapshot import decode, documents, read_file
from pykcp.cli.plugins.errors import PluginError
from pykcp.cli.plugins.go_yaml import dump
from pykcp.cli.plugins.shell.command import CommandInvocation
from pykcp.machinery.negotiation.findings import Severity, problems
from pykcp.machinery.negotiation.resource import meet_crds

Object = dict[str, Any]


def compat(invocation: CommandInvocation) -> int:
    if len(invocation.arguments) != 2:
        raise PluginError("two files are required: the existing CRD and the new one")
    existing, new = (_read(name) for name in invocation.arguments)
    met = meet_crds(existing, new)
    is_lcd = invocation["lcd"]
    found = problems(met.findings, may_narrow=is_lcd)
    if found:
        raise PluginError("\n".join(str(finding) for finding in found))
    if is_lcd:
        print(dump(met.schema), end="")
    else:
        for finding in met.findings:
            if finding.severity is Severity.WARNING:
                print(f"warning: {finding}")
    return 0


def _read(name: str) -> Object:
    parts = list(documents(read_file(name)))
    if len(parts) != 1:
        raise PluginError(f"{name}: {len(parts)} documents; one CRD is required")
    return decode(parts[0])
