"""`kubectl kcp workload explain`: where a workload runs, and why."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from pykcp.cli.plugins.errors import PluginError
from pykcp.cli.plugins.go_text import columns, quote
from pykcp.cli.plugins.session import Session
from pykcp.cli.plugins.shell.command import CommandInvocation, WantsHelp

Object = dict[str, Any]
_BINDINGS = "/apis/workload.kcp.dev/v1alpha1/namespaces/{namespace}/workloadbindings"


def explain(invocation: CommandInvocation) -> None:
    """The Binding of a workload as a table."""
    kind, name = _workload(invocation.arguments)
    session = Session(invocation)
    namespace = invocation["namespace"] or "default"
    path = _BINDINGS.format(namespace=namespace)
    found = session.client.get(f"/clusters/{session.current()}{path}")
    matching = [one for one in found.get("items") or () if _is_of(one, kind, name)]
    if not matching:
        raise PluginError(
            f"{quote(f'{kind}/{name}')} is not placed: there is no such workload in the namespace "
            f"{quote(namespace)}, no cluster accepts its type, no workload needs it, or it is larger than 1.5 MiB"
        )
    for binding in matching:
        for line in columns(list(explanation(binding)), padding=3):
            print(line.rstrip())


def _workload(arguments: list[str] | tuple[str, ...]) -> tuple[str, str]:
    """`deployment/web`, or `deployment web`."""
    words = "/".join(arguments).split("/")
    if len(words) != 2 or not all(words):
        raise WantsHelp
    return words[0], words[1]


def _is_of(binding: Object, kind: str, name: str) -> bool:
    reference = binding["spec"]["ref"]
    given, _, group = kind.lower().partition(".")
    own = reference["kind"].lower()
    type_name = binding["metadata"].get("annotations", {}).get("workloads.kcp.dev/type", "")
    plural, _, own_group = type_name.partition(".")
    is_kind = given in (own, plural) and group in ("", own_group)
    return is_kind and reference["name"] == name


def explanation(binding: Object) -> Iterator[str]:
    """Lines with tabs between columns."""
    spec, status = binding["spec"], binding.get("status") or {}
    reference = spec["ref"]
    yield f"Workload:\t{reference['kind']} {binding['metadata']['namespace']}/{reference['name']}"
    yield f"Placement:\t{spec.get('placement') or '<none>'}"
    if "replicas" in spec:
        yield f"Replicas:\t{spec['replicas']}"
    if spec.get("requiredBy"):
        leaders = ", ".join(f"{one['kind']} {one['name']}" for one in spec["requiredBy"])
        yield f"Required by:\t{leaders}"
    for one in status.get("conditions") or ():
        text = one.get("message") or one.get("reason") or ""
        yield (
            f"{one['type']}:\t{one['status']}, {text}"
            if text
            else f"{one['type']}:\t{one['status']}"
        )
    yield ""
    yield from _clusters(spec, status)
    if spec.get("evicting"):
        yield ""
        yield "LEAVES\tREPLICAS\tUNTIL\tREASON"
        for one in spec["evicting"]:
            count = one.get("replicas", "-")
            yield f"{one['cluster']}\t{count}\t{one.get('deadline', '')}\t{one.get('reason', '')}"


def _clusters(spec: Object, status: Object) -> Iterator[str]:
    chosen = {one["name"]: one for one in spec.get("clusters") or ()}
    reports = {one["name"]: one for one in status.get("clusters") or ()}
    verdicts = {one["name"]: one for one in status.get("explanation") or ()}
    yield "CLUSTER\tCHOSEN\tREPLICAS\tHEALTH\tSCORE\tREASON"
    for name in sorted({*chosen, *reports, *verdicts}):
        target, report, verdict = (m.get(name) or {} for m in (chosen, reports, verdicts))
        health = report.get("health") or "-"
        if report.get("stale"):
            health += " (stale)"
        reason = verdict.get("reason") or target.get("reason") or ""
        if report.get("message"):
            reason = f"{reason}; {report['message']}"
        word = "yes" if name in chosen else "no"
        count, points = target.get("replicas", "-"), verdict.get("score", "-")
        yield f"{name}\t{word}\t{count}\t{health}\t{points}\t{reason}"
