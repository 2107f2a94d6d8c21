"""Keys, certificates and tokens of a shard: made once, kept in its root directory."""

from __future__ import annotations

import pathlib
import time
import uuid
from collections.abc import Sequence
from typing import TYPE_CHECKING

from pykcp.auth.authn.chain import Authentication
from pykcp.auth.authn.interface import TokenAuthenticator
from pykcp.auth.authn.service_account import BoundTokens, SecretTokens
from pykcp.auth.authn.static_tokens import admin_tokens as admin_authenticator
from pykcp.auth.authn.static_tokens import parse_token_file
from pykcp.auth.authn.x509 import CertificateVerifier, ClientCertificates
from pykcp.auth.certificates import ensure_client_ca, ensure_signing_key
from pykcp.auth.claims import LEGACY_ISSUER, legacy_claims
from pykcp.auth.external import ExternalSignIn
from pykcp.auth.kubeconfig import AdminTokens, KubeconfigPaths, admin_tokens, write_admin_kubeconfig
from pykcp.auth.token_request import TokenPolicy
from pykcp.auth.tokens import (
    TokenSigner,
    TokenVerifier,
    jwks,
    openid_configuration,
)
from pykcp.programs.shard.settings import ShardSettings
from pykcp.programs.shard.sign_in.accounts import FleetObjects, StoredObjects
from pykcp.registry.local import LocalClient
from pykcp.types import Object

if TYPE_CHECKING:
    from pykcp.clients.peers import Peers


class Credentials:
    def __init__(self, settings: ShardSettings, tokens: AdminTokens | None = None) -> None:
        """`tokens`: of another process that serves the same shard."""
        self._settings = settings
        self._root = settings.generic.root_directory
        now = time.time()
        self.serving = settings.serving.files(self._root, settings.generic.external_hostname)
        self.client_ca = self._client_ca(now)
        self._paths = KubeconfigPaths(
            self._root / settings.generic.kubeconfig_path,
            self._root / settings.generic.admin_token_path,
        )
        self.tokens = tokens or admin_tokens(self._paths, lambda: str(uuid.uuid4()))
        key_file = settings.service_accounts.service_account_signing_key_file
        signing_file = key_file or str(self._root / "sa.key")
        signing_key = ensure_signing_key(pathlib.Path(signing_file))
        issuer = settings.service_accounts.issuer
        self._signer = TokenSigner(signing_key, issuer, file=signing_file)
        secret_file = settings.service_accounts.service_account_private_key_file or signing_file
        secret_key = pathlib.Path(secret_file).read_bytes()
        self._secret_signer = TokenSigner(secret_key, LEGACY_ISSUER, file=secret_file)
        self._verifier = TokenVerifier.of_files(
            settings.service_accounts.service_account_key_files or (signing_file, secret_file)
        )
        self._audiences = settings.service_accounts.api_audiences or (
            settings.service_accounts.issuer,
        )
        self.policy = TokenPolicy(
            self._signer,
            self._audiences,
            int(settings.service_accounts.service_account_max_token_expiration),
        )
        self.address = ""
        """host:port under which this server is known."""

    def _client_ca(self, now: float) -> bytes:
        given = self._settings.client_ca.bundle()
        return ensure_client_ca(self._root, now).certificate if given is None else given

    @property
    def root_ca(self) -> str:
        """The CA by which clients inside can trust this server."""
        if self._settings.service_accounts.root_ca_file:
            return pathlib.Path(self._settings.service_accounts.root_ca_file).read_text()
        return self.serving.ca.decode()

    def serving_address(self) -> str:
        """`address`, for parts that are made before the port is known."""
        return self.address

    def locate(self, port: int) -> None:
        """The port is known."""
        host = self._settings.generic.external_hostname or _reachable(
            self._settings.serving.bind_address
        )
        self.address = f"{host}:{port}"

    def publish(self) -> None:
        """Write the admin kubeconfig."""
        if "admin" in self._settings.generic.batteries:
            write_admin_kubeconfig(
                self._paths,
                f"https://{self.address}",
                self.serving.ca,
                self.tokens,
                with_user="user" in self._settings.generic.batteries,
            )

    def external_sign_in(self, client: LocalClient) -> ExternalSignIn:
        """Issuers, webhooks and bootstrap tokens; `run` it while the shard runs."""
        settings = self._settings
        return ExternalSignIn(
            settings.sign_in,
            self._audiences,
            (settings.service_accounts.issuer,),
            StoredObjects(client),
        )

    def authentication(
        self,
        client: LocalClient,
        external: ExternalSignIn,
        more: Sequence[TokenAuthenticator] = (),
        peers: Peers | None = None,
    ) -> Authentication:
        """`more`: authenticators that are asked when no other knows a token; `peers`: the other
        shards, whose service accounts may send requests here."""
        settings = self._settings
        audiences = self._audiences
        verifier = self._verifier
        lookup = None
        if settings.service_accounts.service_account_lookup:
            lookup = StoredObjects(client) if peers is None else FleetObjects(client, peers)
        tokens: list[TokenAuthenticator] = []
        if settings.authentication.token_auth_file:
            text = pathlib.Path(settings.authentication.token_auth_file).read_text()
            tokens.append(
                parse_token_file(text, settings.authentication.token_auth_file).authenticator(
                    audiences
                )
            )
        tokens += [
            SecretTokens(verifier, audiences, lookup),
            BoundTokens((settings.service_accounts.issuer,), verifier, audiences, lookup),
            *external.tokens(),
            *more,
        ]
        authentication = Authentication(
            clock=time.time,
            admin=admin_authenticator(self.tokens, lambda: str(uuid.uuid4()), audiences),
            proxy=settings.request_header.authenticator(),
            certificates=settings.client_ca.authenticator()
            or ClientCertificates(CertificateVerifier(self.client_ca)),
            tokens=tokens,
            anonymous=external.anonymous(settings.authentication.anonymous_auth),
            api_audiences=audiences,
        )
        external.on_change(authentication.forget)
        return authentication

    @property
    def audiences(self) -> tuple[str, ...]:
        """For which tokens must be good here."""
        return tuple(self._audiences)

    def sign_secret_token(self, account: Object, secret: Object, cluster: str) -> str:
        """The token that lies in a secret of type service-account-token."""
        return self._secret_signer.sign(legacy_claims(account, secret, cluster))

    def configuration(self) -> bytes:
        uri = f"https://{self.address}/openid/v1/jwks"
        return openid_configuration(
            self._settings.service_accounts.issuer, uri, self._verifier.keys
        )

    def keys(self) -> bytes:
        return jwks(self._verifier.keys)


def _reachable(address: str) -> str:
    """An address that clients on this machine can use."""
    if address in ("0.0.0.0", "::", ""):  # noqa: S104
        return "127.0.0.1"
    return f"[{address}]" if ":" in address else address
