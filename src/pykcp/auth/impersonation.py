"""Impersonation: the `Impersonate-*` headers.

Three checks, in kcp's order. First, system groups are rejected unless the requestor has them,
itself or by a warrant. Then upstream's modes are tried: the constrained ones
(`impersonate:<mode>` on the identity, `impersonate-on:<mode>:<verb>` on the action), and the
plain verb `impersonate`; the mode that last succeeded for a user is tried first, and the first
error is the one that is returned. Finally the new identity, including its warrants, is scoped to
the logical cluster of the request, so that it is not valid in others.

The mode for service accounts that impersonate the node they run on is not supported: there are
no nodes.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass

from pykcp.aio.slices import Slices
from pykcp.auth.authn.request_header import extra_key
from pykcp.auth.authz.attributes import Attributes, Decision, forbidden
from pykcp.auth.scopes import has_lifecycle_group, scoped, warrants
from pykcp.auth.user import (
    ANONYMOUS,
    AUTHENTICATED,
    EXTERNAL_LOGICAL_CLUSTER_ADMIN,
    KCP_ADMIN,
    LOGICAL_CLUSTER_ADMIN,
    MASTERS,
    UNAUTHENTICATED,
    WORKSPACE_BOOTSTRAPPER,
    User,
    service_account_groups,
    split_service_account,
)
from pykcp.caching import BoundedCache
from pykcp.machinery import names
from pykcp.machinery.status import BadRequest, Forbidden, go_quote, invalid
from pykcp.steps import Steps
from pykcp.wire.exchange import Header

USER_HEADER = "impersonate-user"
UID_HEADER = "impersonate-uid"
GROUP_HEADER = "impersonate-group"
EXTRA_PREFIX = "impersonate-extra-"

_SPECIAL_GROUPS = frozenset(
    {
        MASTERS,
        LOGICAL_CLUSTER_ADMIN,
        EXTERNAL_LOGICAL_CLUSTER_ADMIN,
        WORKSPACE_BOOTSTRAPPER,
        KCP_ADMIN,
        AUTHENTICATED,
    }
)
_AUTHENTICATION = "authentication.k8s.io"
_NODE_PREFIX, _NODES = "system:node:", "system:nodes"
_MANY = 4
"""From so many groups or extras on, a constrained mode asks for all of them at once first."""

Authorize = Callable[[Attributes], Awaitable[Decision]]


def is_requested(headers: Sequence[Header]) -> bool:
    """Whether any header asks for impersonation; cheap enough for every request."""
    for name, _ in headers:  # noqa: SIM110 - half as long as `any` over a generator
        if name.startswith("impersonate-"):
            return True
    return False


def requested_user(headers: Sequence[Header]) -> User | None:
    """The user in the headers; None without impersonation. Raises BadRequest."""
    name = uid = ""
    groups: list[str] = []
    collected: dict[str, list[str]] = {}
    for header, value in headers:
        if header == USER_HEADER:
            name = name or value
        elif header == UID_HEADER:
            uid = uid or value
        elif header == GROUP_HEADER:
            groups.append(value)
        elif header.startswith(EXTRA_PREFIX):
            collected.setdefault(extra_key(header[len(EXTRA_PREFIX) :]), []).append(value)
    extra = {key: tuple(values) for key, values in collected.items()}
    if name:
        return User(name, uid, tuple(groups), extra)
    if uid or groups or extra:
        shown = _go_user(uid, groups, extra)
        raise BadRequest(f"requested {shown} without impersonating a user name")
    return None


def check_gate(requestor: User, wanted: User) -> Steps[None]:
    """kcp's gatekeeper: special groups require membership. Raises Forbidden.

    Applies to warrants, too, and to the groups that virtual workspaces add to their requests.
    """
    if MASTERS in requestor.groups:
        return
    yield
    for group in wanted.groups:
        is_special = group in _SPECIAL_GROUPS or has_lifecycle_group((group,))
        if is_special and group not in requestor.groups:
            why = "impersonation is not allowed for the requestor"
            raise Forbidden.resource("", "", "", why)
    for warrant in warrants(wanted):
        yield from check_gate(requestor, warrant)


def tie_to_cluster(requestor: User, impersonated: User, cluster: str) -> Steps[User]:
    """The impersonated user, valid in this logical cluster only (unless a master asks)."""
    if MASTERS in requestor.groups:
        return impersonated
    return (yield from scoped(impersonated, cluster))


@dataclass(frozen=True, slots=True)
class _Mode:
    verb: str
    """What must be allowed on the identity."""
    on_verb: str
    """Prefix of what must be allowed on the request; "" for the plain mode."""
    applies: Callable[[User], bool]


def _is_bare(wanted: User) -> bool:
    return not (wanted.uid or wanted.groups or wanted.extra)


def _node_name(username: str) -> str | None:
    name = username.removeprefix(_NODE_PREFIX)
    if name == username or names.dns1123_subdomain(name):
        return None
    return name


def _is_plain_user(wanted: User) -> bool:
    return _node_name(wanted.name) is None and split_service_account(wanted.name) is None


def _constrained(name: str, applies: Callable[[User], bool]) -> _Mode:
    return _Mode(f"impersonate:{name}", f"impersonate-on:{name}:", applies)


_MODES = (
    _constrained("arbitrary-node", lambda w: _is_bare(w) and _node_name(w.name) is not None),
    _constrained(
        "serviceaccount", lambda w: _is_bare(w) and split_service_account(w.name) is not None
    ),
    _constrained("user-info", _is_plain_user),
    _Mode("impersonate", "", lambda _: True),
)


class Impersonator:
    """Decides who may act as whom, remembering which mode worked for a requestor."""

    def __init__(self, remember: int = 10_000) -> None:
        self._last: BoundedCache[str, _Mode] = BoundedCache("impersonation", remember)

    async def impersonate(self, authorize: Authorize, attributes: Attributes, wanted: User) -> User:
        """The new identity for the request `attributes` describe. Raises Forbidden."""
        requestor = attributes.user
        slices = Slices(requestor.name)

        async def ask(question: Attributes) -> Decision:
            if slices.is_over():  # there may be thousands of groups to ask for
                await slices.next()
            return await authorize(question)

        last = self._last.get(requestor.name)
        order = _MODES if last is None else (last, *(mode for mode in _MODES if mode is not last))
        refusal: Forbidden | None = None
        for mode in order:
            if not mode.applies(wanted):
                continue
            try:
                user = await _try_mode(mode, ask, attributes, wanted)
            except Forbidden as error:
                refusal = refusal or error
                continue
            self._last.put(requestor.name, mode)
            return user
        assert refusal is not None  # the plain mode applies to all users
        raise refusal

    def constraint(self, requestor: User) -> str:
        """The constrained mode by which a requestor was let through last, for the audit log."""
        mode = self._last.get(requestor.name)
        return mode.verb if mode is not None and mode.on_verb else ""


async def _try_mode(
    mode: _Mode, authorize: Authorize, attributes: Attributes, wanted: User
) -> User:
    if mode.on_verb:
        await _require(authorize, attributes._replace(verb=mode.on_verb + attributes.verb))
    question = _Question(mode, authorize, attributes.user)
    groups = await question.ask_name(wanted)
    if wanted.uid:
        await question.ask("uids", wanted.uid)
    await question.ask_groups(wanted.groups)
    await question.ask_extra(wanted)
    if wanted.name == ANONYMOUS:
        groups = groups if UNAUTHENTICATED in groups else (*groups, UNAUTHENTICATED)
    elif UNAUTHENTICATED not in groups and AUTHENTICATED not in groups:
        groups = (*groups, AUTHENTICATED)
    return User(wanted.name, wanted.uid, groups, wanted.extra)


@dataclass(frozen=True, slots=True)
class _Question:
    """May the requestor be this, in this mode?"""

    mode: _Mode
    authorize: Authorize
    requestor: User

    @property
    def is_constrained(self) -> bool:
        return bool(self.mode.on_verb)

    def _attributes(self, resource: str, name: str, subresource: str = "") -> Attributes:
        # The plain mode asks about users and groups as if they were in the core group.
        is_core = not self.is_constrained and resource in {"users", "groups", "serviceaccounts"}
        group, version = ("", "v1") if is_core else (_AUTHENTICATION, "v1")
        return Attributes(
            self.requestor, self.mode.verb, "", group, resource, subresource, name=name,
            version=version,
        )  # fmt: skip

    async def ask(self, resource: str, name: str, subresource: str = "") -> None:
        await _require(self.authorize, self._attributes(resource, name, subresource))

    async def ask_name(self, wanted: User) -> tuple[str, ...]:
        """Returns the groups that come with the name."""
        node = _node_name(wanted.name) if self.is_constrained else None
        if node is not None:
            await self.ask("nodes", node)
            return (_NODES,)
        account = split_service_account(wanted.name)
        if account is None:
            await self.ask("users", wanted.name)
            return wanted.groups
        namespace, name = account
        asked = self._attributes("serviceaccounts", name)._replace(namespace=namespace)
        await _require(self.authorize, asked)
        return wanted.groups or service_account_groups(namespace)

    async def ask_groups(self, groups: Sequence[str]) -> None:
        if self.is_constrained and groups:
            self._refuse_groups(groups)
            if len(groups) >= _MANY and await self._may("groups", "*"):
                return
        for group in groups:
            await self.ask("groups", group)

    def _refuse_groups(self, groups: Sequence[str]) -> None:
        if "" in groups:
            why = "impersonating the empty string group is not allowed"
            raise forbidden(self._attributes("groups", ""), why)
        if MASTERS in groups:
            why = "impersonating the system:masters group is not allowed"
            raise forbidden(self._attributes("groups", MASTERS), why)

    async def ask_extra(self, wanted: User) -> None:
        if self.is_constrained and wanted.extra:
            why = _extra_problem(wanted)
            if why:
                raise forbidden(self._attributes("userextras", ""), why)
            many = sum(len(values) for values in wanted.extra.values()) >= _MANY
            if many and await self._may("userextras", "*", "*"):
                return
        for key, values in wanted.extra.items():
            for value in values:
                await self.ask("userextras", value, key)

    async def _may(self, resource: str, name: str, subresource: str = "") -> bool:
        return (await self.authorize(self._attributes(resource, name, subresource))).allowed


async def _require(authorize: Authorize, attributes: Attributes) -> None:
    decision = await authorize(attributes)
    if not decision.allowed:
        parts = (decision.error, decision.reason)
        raise forbidden(attributes, ": ".join(part for part in parts if part))


def _extra_problem(wanted: User) -> str | None:
    """Why a constrained mode will not take these extras."""
    for key, values in wanted.extra.items():
        if not key:
            return "impersonating the empty string key in extra is not allowed"
        problem = _path_problem(key)
        if problem:
            return f"impersonating an invalid key in extra is not allowed: {problem}"
        if "" in values:
            return "impersonating the empty string value in extra is not allowed"
    return None


def _path_problem(key: str) -> str | None:
    host, _, path = key.partition("/")
    if not host or not path:
        why = 'must be a domain-prefixed path (such as "acme.io/foo")'
        return invalid("extra.key", key, why).text()
    problems = [invalid("extra.key", host, why) for why in names.dns1123_subdomain(host)]
    problems += [invalid("extra.key", path, why) for why in names.http_path(path)]
    if not problems:
        return None
    texts = [problem.text() for problem in problems]
    return texts[0] if len(texts) == 1 else "[" + ", ".join(texts) + "]"


def _go_user(uid: str, groups: Sequence[str], extra: dict[str, tuple[str, ...]]) -> str:
    """A user without a name as Go prints its structs; the text is upstream's, so be it."""
    shown_groups = _go_strings(groups) if groups else "[]string(nil)"
    pairs = (f"{go_quote(key)}:{_go_strings(extra[key])}" for key in sorted(extra))
    shown_extra = "{" + ", ".join(pairs) + "}" if extra else "(nil)"
    return (
        f'&user.DefaultInfo{{Name:"", UID:{go_quote(uid)}, Groups:{shown_groups}, '
        f"Extra:map[string][]string{shown_extra}}}"
    )


def _go_strings(values: Sequence[str]) -> str:
    return "[]string{" + ", ".join(go_quote(value) for value in values) + "}"
