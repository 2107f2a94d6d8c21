"""Static bearer tokens: those of the admin kubeconfig, and a token file."""

from __future__ import annotations

import csv
import hashlib
import io
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from pykcp.auth.authn.interface import Authenticated, common_audiences
from pykcp.auth.files import CredentialError
from pykcp.auth.kubeconfig import KCP_ADMIN, PLAIN_USER, SHARD_ADMIN, AdminTokens
from pykcp.auth.user import KCP_ADMIN as KCP_ADMIN_GROUP
from pykcp.auth.user import MASTERS, User, authenticated


class StaticTokens:
    """Tokens by their hash, so that the time of a comparison discloses nothing."""

    def __init__(self, users: Mapping[bytes, User], api_audiences: Sequence[str]) -> None:
        self._users = {digest: authenticated(user) for digest, user in users.items()}
        self._api_audiences = tuple(api_audiences)

    async def authenticate(
        self, token: str, audiences: Sequence[str], cluster: str, now: float
    ) -> Authenticated | None:
        del cluster, now  # good everywhere, for ever
        user = self._users.get(_digest(token))
        if user is None:
            return None
        common = common_audiences(self._api_audiences, audiences)
        return None if common is None else Authenticated(user, common)


def admin_tokens(
    tokens: AdminTokens, new_uid: Callable[[], str], api_audiences: Sequence[str]
) -> StaticTokens:
    """The users of the admin kubeconfig."""
    users = {
        _digest(tokens.shard_admin): User(SHARD_ADMIN, new_uid(), (MASTERS,)),
        _digest(tokens.kcp_admin): User(KCP_ADMIN, new_uid(), (KCP_ADMIN_GROUP,)),
        _digest(tokens.user): User(PLAIN_USER, new_uid()),
    }
    return StaticTokens(users, api_audiences)


@dataclass(slots=True)
class TokenFile:
    """What a token file says: users by token, and what is odd about it."""

    users: dict[str, User] = field(default_factory=dict)
    warnings: list[str] = field(default_factory=list)

    def authenticator(self, api_audiences: Sequence[str]) -> StaticTokens:
        by_digest = {_digest(token): user for token, user in self.users.items()}
        return StaticTokens(by_digest, api_audiences)


def parse_token_file(text: str, path: str) -> TokenFile:
    """`token,user,uid[,"group1,group2"]` a line, as kube-apiserver reads it."""
    parsed = TokenFile()
    number = 0
    try:
        for record in csv.reader(io.StringIO(text), strict=True):
            if not record:
                continue
            if len(record) < 3:
                raise CredentialError(
                    f"token file '{path}' must have at least 3 columns "
                    f"(token, user name, user uid), found {len(record)}"
                )
            number += 1
            _add_record(parsed, record, number, path)
    except csv.Error as error:
        raise CredentialError(f"token file '{path}': {error}") from error
    return parsed


def _add_record(parsed: TokenFile, record: Sequence[str], number: int, path: str) -> None:
    token, name, uid = record[:3]
    where = f"in token file '{path}', record number '{number}'"
    if not token:
        parsed.warnings.append(f"empty token has been found {where}")
        return
    if token in parsed.users:
        parsed.warnings.append(f"duplicate token has been found {where}")
    groups = tuple(record[3].split(",")) if len(record) > 3 else ()
    parsed.users[token] = User(name, uid, groups)


def _digest(token: str) -> bytes:
    return hashlib.sha256(token.encode()).digest()
