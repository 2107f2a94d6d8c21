"""`kubectl kcp claims`: list, accept and reject permission claims of bindings."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from pykcp.cli.plugins.apis.bindings import ACCEPTED, REJECTED, check_version, collection
from pykcp.cli.plugins.errors import PluginError, Prefixed
from pykcp.cli.plugins.go_text import columns, quote
from pykcp.cli.plugins.session import Session
from pykcp.cli.plugins.shell.command import CommandInvocation

Object = dict[str, Any]


def show(invocation: CommandInvocation) -> None:
    """`claims get apibinding [name]`."""
    session = Session(invocation)
    current = session.current("does not point to workspace")
    bindings, version = collection(session.client, current)
    check_version(version)
    if invocation.arguments:
        try:
            found = [bindings.get(invocation.arguments[0])]
        except PluginError as error:
            raise Prefixed("error finding APIBinding", error) from error
    else:
        try:
            found = bindings.list()
        except PluginError as error:
            words = f"error listing APIBindings in {quote(current)} workspace"
            raise Prefixed(words, error) from error
    for line in table(found, has_verbs=version != "v1alpha1"):
        print(line)


def table(bindings: Sequence[Object], *, has_verbs: bool) -> list[str]:
    verbs = ["VERBS"] if has_verbs else []
    rows = [["APIBINDING", "GROUP-RESOURCE", *verbs, "STATUS"]]
    for binding in bindings:
        for claim in (binding.get("spec") or {}).get("permissionClaims") or []:
            group = claim.get("group") or ""
            resource = f"{claim['resource']}.{group}" if group else claim["resource"]
            allowed = [",".join(claim.get("verbs") or [])] if has_verbs else []
            state = claim.get("state") or ""
            rows.append([binding["metadata"]["name"], resource, *allowed, state])
    return columns(["\t".join(row) for row in rows], padding=3, least=6)


def answer(state: str) -> Callable[[CommandInvocation], None]:
    """`claims accept` or `claims reject`."""

    def run(invocation: CommandInvocation) -> None:
        if not invocation.arguments:
            raise PluginError("error APIBinding name is missing")
        name = invocation.arguments[0]
        session = Session(invocation)
        bindings, version = collection(
            session.client, session.current("does not point to workspace")
        )
        resource, identity = invocation["resource"], invocation["identity-hash"]
        if not resource and not identity:
            raise PluginError("no claim is selected, use --resource or --identity-hash")
        try:
            check_version(version)
            body = bindings.get(name)
            bindings.replace(answered(body, state, resource=resource, identity=identity))
        except PluginError as error:
            words = f"error updating permission claim for APIBinding {quote(name)}"
            raise Prefixed(words, error) from error
        about = f"claim {quote(resource)}" if resource else f"claim {_of_identity(identity)}"
        print(f"{about} on APIBinding {quote(name)} is {state.lower()}")

    return run


accept = answer(ACCEPTED)
reject = answer(REJECTED)


def answered(binding: Object, state: str, *, resource: str, identity: str) -> Object:
    """The binding with updated claims; an identity selects one claim, a resource all of its claims."""
    wanted_resource, _, group = resource.partition(".")
    wanted_group = "" if group == "core" else group
    is_answered = False
    claims = []
    for claim in (binding.get("spec") or {}).get("permissionClaims") or []:
        if identity:
            matches = not is_answered and claim.get("identityHash") == identity
        else:
            matches = (
                bool(resource)
                and (claim.get("group") or "") == wanted_group
                and claim.get("resource") == wanted_resource
            )
        is_answered = is_answered or matches
        claims.append({**claim, "state": state} if matches else claim)
    if not is_answered:
        about = _of_identity(identity) if identity else f"for {quote(resource)}"
        raise PluginError(f"it has no permission claim {about}")
    return {**binding, "spec": {**binding["spec"], "permissionClaims": claims}}


def _of_identity(identity: str) -> str:
    return f"with identity hash {quote(identity)}"
