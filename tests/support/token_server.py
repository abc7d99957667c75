"""A token server as registries use it: basic authentication for a signed list of permissions."""

import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import trustme
from aiohttp import encode_basic_auth, web
from joserfc import jwt
from joserfc.jwk import ECKey

from tests.support.image_registry import PASSWORD, USERNAME, ImageRegistry

SERVICE, ISSUER = "registry", "tokens"


class TokenServer:
    def __init__(self, authority: trustme.CA) -> None:
        self.requests: list[str] = []
        certificate = authority.issue_cert("tokens.test")
        self._key = ECKey.import_key(certificate.private_key_pem.bytes())
        pem = certificate.cert_chain_pems[0].bytes().decode()
        self._certificate = "".join(pem.splitlines()[1:-1])

    async def handle(self, request: web.BaseRequest) -> web.StreamResponse:
        self.requests.append(request.path_qs)
        header = request.headers.get("Authorization")
        if header not in (None, encode_basic_auth(USERNAME, PASSWORD)):
            return web.json_response({"details": "incorrect username or password"}, status=401)
        scopes = parse_qs(urlsplit(request.path_qs).query).get("scope", [])
        access = [_permission(scope) for scope in scopes] if header is not None else []
        now = int(time.time())
        claims = {
            "iss": ISSUER,
            "aud": SERVICE,
            "sub": USERNAME,
            "access": access,
            "iat": now,
            "nbf": now - 60,
            "exp": now + 3600,
            "jti": str(now),
        }
        token = jwt.encode({"alg": "ES256", "x5c": [self._certificate]}, claims, self._key)
        return web.json_response({"token": token})


def _permission(scope: str) -> dict[str, Any]:
    kind, name, actions = scope.split(":")
    return {"type": kind, "name": name, "actions": actions.split(",")}


@asynccontextmanager
async def registry_with_tokens(
    directory: Path, storage: Path
) -> AsyncIterator[tuple[ImageRegistry, TokenServer]]:
    """It has the images that another registry has stored."""
    directory.mkdir(parents=True)
    authority = trustme.CA(key_type=trustme.KeyType.ECDSA)
    authority.cert_pem.write_to_path(str(directory / "authority.pem"))
    tokens = TokenServer(authority)
    runner = web.ServerRunner(web.Server(tokens.handle), shutdown_timeout=0)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    registry = ImageRegistry(
        directory / "registry",
        storage=storage,
        token={
            "realm": f"http://tokens.test:{runner.addresses[0][1]}/token",
            "service": SERVICE,
            "issuer": ISSUER,
            "rootcertbundle": str(directory / "authority.pem"),
        },
    )
    try:
        yield registry, tokens
    finally:
        registry.stop()
        await runner.cleanup()
