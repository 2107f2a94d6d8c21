"""`kubectl kcp bind apiexport`: bind an export in the current workspace."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pykcp.cli.plugins.apis.bindings import ACCEPTED, REJECTED, collection
from pykcp.cli.plugins.errors import PluginError, Prefixed
from pykcp.cli.plugins.go_text import bracketed, quote
from pykcp.cli.plugins.session import Session
from pykcp.cli.plugins.shell.command import CommandInvocation
from pykcp.cli.plugins.wait import poll
from pykcp.cli.plugins.workspace.resources import apis, phase, unmet
from pykcp.machinery.kcp import clusters

Object = dict[str, Any]
_CONFLICTS = (
    ("accept-all-permission-claims", "reject-all-permission-claims", "cannot use both --{0} and --{1}"),
    ("accept-all-permission-claims", "accept-permission-claim", "cannot use --{0} with --{1}"),
    ("accept-all-permission-claims", "reject-permission-claim", "cannot use --{0} together with --{1}"),
    ("reject-all-permission-claims", "reject-permission-claim", "cannot use --{0} with --{1}"),
    ("reject-all-permission-claims", "accept-permission-claim", "cannot use --{0} together with --{1}"),
)  # fmt: skip


def bind(invocation: CommandInvocation) -> None:
    reference = invocation.arguments[0] if invocation.arguments else ""
    claims = checked(reference, invocation.values)
    path, name = clusters.split(reference)
    session = Session(invocation)
    current = session.current("does not point to workspace")
    bindings, version = collection(session.client, current)
    for flag, state in (
        ("accept-all-permission-claims", ACCEPTED),
        ("reject-all-permission-claims", REJECTED),
    ):
        if invocation[flag]:
            claims += _claims_of_export(session, path, name, state)
    try:
        body = binding(version, invocation["name"] or name, path, name, claims)
        made = bindings.create(body)
    except PluginError as error:
        raise Prefixed("failed to create APIBinding", error) from error
    own_name = made["metadata"]["name"]
    print(f"apibinding {own_name} created. Waiting to successfully bind ...", flush=True)
    if phase(made) != "Bound":
        latest = made

        def is_bound() -> bool:
            nonlocal latest
            latest = bindings.get(own_name)
            return phase(latest) == "Bound"

        try:
            poll(is_bound, invocation["timeout"], lambda: f"it is not bound{unmet(latest)}")
        except PluginError as error:
            raise Prefixed(f"could not bind {own_name}", error) from error
    print(f"{own_name} created and bound.")


def checked(reference: str, flags: Object) -> list[Object]:
    """The claims given by flags; checks the command line."""
    if not reference:
        raise PluginError("`root:ws:apiexport_object` reference to bind is required as an argument")
    for one, other, words in _CONFLICTS:
        if flags[one] and flags[other]:
            raise PluginError(words.format(one, other))
    if not clusters.is_valid_path(clusters.split(reference).parent):
        raise PluginError(
            "fully qualified reference to workspace where APIExport exists is required. The format "
            "is `<logical-cluster-name>:<apiexport>` or `<full>:<path>:<to>:<apiexport>`"
        )
    accepted = _parsed(flags["accept-permission-claim"], ACCEPTED, "accepted")
    rejected = _parsed(flags["reject-permission-claim"], REJECTED, "rejected")
    for claim in accepted:
        for against in rejected:
            if _key(claim) == _key(against):
                raise PluginError(
                    f"accepted permission claim {_described(claim)} conflicts with "
                    f"rejected permission claim {_described(against)}"
                )
    return accepted + rejected


def _parsed(texts: Sequence[str], state: str, word: str) -> list[Object]:
    bad = [
        f"invalid permission claim {quote(text)}" for text in texts if len(text.split(".", 1)) < 2
    ]
    if bad:
        raise PluginError(f"invalid {word} permission claims: {bracketed(bad)}")
    pairs = [text.split(".", 1) for text in texts]
    return [claim("" if group == "core" else group, resource, state) for resource, group in pairs]


def claim(group: str, resource: str, state: str) -> Object:
    """An accepted or rejected claim, for all verbs and all objects."""
    return {
        "group": group,
        "resource": resource,
        "verbs": ["*"],
        "selector": {"matchAll": True},
        "state": state,
    }


def _key(answer: Object) -> tuple[str, str]:
    return answer["group"], answer["resource"]


def _described(answer: Object) -> str:
    return f"{answer['resource']}.{answer['group']}" if answer["group"] else str(answer["resource"])


def _claims_of_export(session: Session, path: str, name: str, state: str) -> list[Object]:
    try:
        export = apis(session.client, path, "apiexports", "v1alpha1").get(name)
    except PluginError as error:
        raise Prefixed(f"failed to get APIExport {quote(name)}", error) from error
    return [
        claim(entry.get("group") or "", entry["resource"], state)
        for entry in (export.get("spec") or {}).get("permissionClaims") or []
    ]


def binding(version: str, own_name: str, path: str, export: str, claims: list[Object]) -> Object:
    """The object to create, in the given version."""
    if version not in ("v1alpha1", "v1alpha2"):
        raise PluginError(f"{version} is not supported by this plugin")
    spec: Object = {"reference": {"export": {"path": path, "name": export}}}
    if claims:
        spec["permissionClaims"] = (
            claims if version == "v1alpha2" else [_in_v1alpha1(one) for one in claims]
        )
    return {
        "apiVersion": f"apis.kcp.io/{version}",
        "kind": "APIBinding",
        "metadata": {"name": own_name},
        "spec": spec,
    }


def _in_v1alpha1(answer: Object) -> Object:
    kept = {name: answer[name] for name in ("group", "resource", "state")}
    return {**kept, "all": True}
