"""An issuer with the code flow and PKCE, as a browser and a server see it."""

from __future__ import annotations

import hashlib
import secrets
from urllib.parse import parse_qs, urlencode

from aiohttp import web

from pykcp.testing.https import Answer, Received
from pykcp.testing.issuer import AUDIENCE, KEYS, TestIssuer, encode


class CodeFlowIssuer(TestIssuer):
    """Signs in everyone as `sub` at once; codes can be used once."""

    def __init__(self) -> None:
        super().__init__("RS256")
        self.codes: dict[str, dict[str, str]] = {}
        self.user = "dora"
        self.expires = 600
        self.nonce = ""
        """In place of the nonce of the sign-in."""
        self.server.on("/authorize", self._authorize)
        self.server.on("/token", self._exchange)

    def _discovery(self, received: Received) -> Answer:
        return {
            "issuer": self.url,
            "jwks_uri": self.url + KEYS,
            "authorization_endpoint": f"{self.url}/authorize",
            "token_endpoint": f"{self.url}/token",
        }

    def _authorize(self, received: Received) -> Answer:
        asked = {key: values[0] for key, values in parse_qs(received.query).items()}
        assert asked["response_type"] == "code"
        assert asked["client_id"] == AUDIENCE
        assert asked["code_challenge_method"] == "S256"
        code = secrets.token_urlsafe(16)
        self.codes[code] = asked
        answer = urlencode({"code": code, "state": asked["state"]})
        return web.Response(status=302, headers={"Location": f"{asked['redirect_uri']}?{answer}"})

    def _exchange(self, received: Received) -> Answer:
        asked = {key: values[0] for key, values in parse_qs(received.body.decode()).items()}
        begun = self.codes.pop(asked["code"], None)
        digest = encode(hashlib.sha256(asked["code_verifier"].encode()).digest())
        is_good = begun is not None and begun["code_challenge"] == digest
        if begun is None or not is_good or begun["redirect_uri"] != asked["redirect_uri"]:
            body = {"error": "invalid_grant", "error_description": "the code is not valid"}
            return web.json_response(body, status=400)
        token = self.token(sub=self.user, nonce=self.nonce or begun["nonce"])
        return {"id_token": token, "token_type": "Bearer", "expires_in": self.expires}
