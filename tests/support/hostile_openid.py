"""An OpenID provider with invalid tokens and responses that tests configure."""

import base64
import ssl
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qsl, urlsplit

from aiohttp import web
from authlib.oauth2.rfc7636 import create_s256_code_challenge
from joserfc import jwk, jwt

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]
Json = dict[str, Any]
DISCOVERY = "/.well-known/openid-configuration"
USERINFO = {"sub": "1", "email": "ada@example.com", "email_verified": True, "name": "Ada"}


@dataclass
class HostileProvider:
    """Correct unless a test changes it; `requests` has the path of every request."""

    issuer: str = ""
    key: jwk.ECKey = field(default_factory=lambda: jwk.ECKey.generate_key("P-256", {"kid": "one"}))
    document: Json = field(default_factory=dict)
    claims: Json = field(default_factory=lambda: dict(USERINFO))
    userinfo: Json = field(default_factory=lambda: dict(USERINFO))
    sign: Callable[[Json], str] | None = None
    """Replaces the correct signature."""
    handlers: dict[str, Handler] = field(default_factory=dict)
    """Handlers by path that replace the correct ones."""
    requests: list[str] = field(default_factory=list)
    forms: list[dict[str, str]] = field(default_factory=list)
    headers: list[dict[str, str]] = field(default_factory=list)
    codes: dict[str, dict[str, str]] = field(default_factory=dict)

    def callback(self, url: str) -> dict[str, str]:
        """The callback parameters, as after a sign-in without any interaction."""
        query = dict(parse_qsl(urlsplit(url).query, strict_parsing=True))
        code = f"code-{len(self.codes)}"
        self.codes[code] = query
        return {"state": query["state"], "code": code}

    async def handle(self, request: web.Request) -> web.StreamResponse:
        self.requests.append(request.path)
        self.headers.append(dict(request.headers))
        handler = self.handlers.get(request.path) or {
            DISCOVERY: self._discovery,
            "/jwks": self._jwks,
            "/token": self._token,
            "/userinfo": self._userinfo,
        }.get(request.path)
        return web.Response(status=404) if handler is None else await handler(request)

    async def _discovery(self, _: web.Request) -> web.Response:
        document = {
            "issuer": self.issuer,
            "authorization_endpoint": f"{self.issuer}/auth?kept=1",
            "token_endpoint": f"{self.issuer}/token",
            "jwks_uri": f"{self.issuer}/jwks",
            "userinfo_endpoint": f"{self.issuer}/userinfo",
            "id_token_signing_alg_values_supported": ["none", "HS256", "RS256", "ES256"],
        }
        return web.json_response(document | self.document)

    async def _jwks(self, _: web.Request) -> web.Response:
        return web.json_response({"keys": [self.key.as_dict(private=False)]})

    async def _token(self, request: web.Request) -> web.Response:
        form = {name: str(value) for name, value in (await request.post()).items()}
        self.forms.append(form)
        authorization = self.codes.pop(form["code"], {})
        challenge = create_s256_code_challenge(form["code_verifier"])
        if (authorization.get("code_challenge"), authorization.get("code_challenge_method")) != (
            challenge,
            "S256",
        ):
            return web.json_response({"error": "invalid_grant"}, status=400)
        now = int(time.time())
        claims = {
            "iss": self.issuer,
            "aud": authorization["client_id"],
            "nonce": authorization["nonce"],
            "iat": now,
            "exp": now + 60,
        } | self.claims
        sign = self.sign or self.sign_correctly
        return web.json_response({"access_token": "at", "id_token": sign(claims)})

    def sign_correctly(self, claims: Json) -> str:
        return jwt.encode({"alg": "ES256", "kid": self.key.kid}, claims, self.key)

    async def _userinfo(self, _: web.Request) -> web.Response:
        return web.json_response(self.userinfo)


@asynccontextmanager
async def hostile_provider(
    context: ssl.SSLContext | None = None,
) -> AsyncIterator[HostileProvider]:
    provider = HostileProvider()
    application = web.Application()
    application.router.add_route("*", "/{path:.*}", provider.handle)
    runner = web.AppRunner(application)
    await runner.setup()
    try:
        await web.TCPSite(runner, "127.0.0.1", 0, ssl_context=context).start()
        scheme = "http" if context is None else "https"
        provider.issuer = f"{scheme}://127.0.0.1:{runner.addresses[0][1]}"
        yield provider
    finally:
        await runner.shutdown()
        await runner.cleanup()


def basic(client_id: str, secret: str) -> str:
    return "Basic " + base64.b64encode(f"{client_id}:{secret}".encode()).decode()
