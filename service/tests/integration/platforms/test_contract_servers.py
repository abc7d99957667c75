"""The contract servers themselves: they refuse the requests that the platform would refuse."""

import ssl
import time
from collections.abc import AsyncIterator
from functools import cached_property
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from joserfc import jwt
from joserfc.jwk import RSAKey

from tests.support.forge_servers.github import GitHubServer

_HEADERS = {
    "Accept": "application/vnd.github+json",
    "X-GitHub-Api-Version": "2022-11-28",
    "User-Agent": "tests",
}


@pytest.fixture
async def session(tmp_path: Path) -> AsyncIterator[aiohttp.ClientSession]:
    authorities = GitHubServer(tmp_path).authorities
    trust = ssl.create_default_context(cafile=authorities)
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(ssl=trust)) as client_session:
        yield client_session


class Client:
    def __init__(self, server: GitHubServer, session: aiohttp.ClientSession) -> None:
        self.server = server
        self.session = session

    async def request(
        self, method: str, path: str, token: str, body: object = None, **query: str
    ) -> tuple[int, Any]:
        headers = {**_HEADERS, "Authorization": f"Bearer {token}"}
        url = f"{self.server.url}/api/v3{path}"
        async with self.session.request(
            method, url, headers=headers, json=body, params=query
        ) as http_response:
            return http_response.status, await http_response.json()

    async def new_token(self, **fields: object) -> str:
        path = f"/app/installations/{self.server.app.installation_id}/access_tokens"
        status, response = await self.request("POST", path, self.sign_jwt(), fields)
        assert status == 201, response
        return str(response["token"])

    def sign_jwt(self, **claims: object) -> str:
        now = int(time.time())
        payload = {"iat": now - 60, "exp": now + 500, "iss": str(self.server.app.id), **claims}
        return jwt.encode({"alg": "RS256"}, payload, self._key)

    @cached_property
    def _key(self) -> RSAKey:
        return RSAKey.import_key(self.server.app.private_key)


async def test_a_request_that_violates_the_description_fails_the_test(
    tmp_path: Path, session: aiohttp.ClientSession
) -> None:
    server = GitHubServer(tmp_path)
    client = Client(server, session)
    with pytest.raises(AssertionError, match="'newest' is not described"):  # noqa: PT012 - raised when the server stops
        async with server.serving():
            server.add_repository("acme/shop")
            path = "/repos/acme/shop/pulls"
            assert (await client.request("GET", path, server.token, newest="1"))[0] == 400
            assert (await client.request("POST", path, server.token, {"title": 1}))[0] == 400
            assert (await client.request("GET", "/nowhere", server.token))[0] == 400
            assert len(server.violations) == 3
            assert "body.head is missing" in server.violations[1]
            assert "body.title should be string" in server.violations[1]


async def test_an_app_is_authenticated_by_its_signature_only(
    tmp_path: Path, session: aiohttp.ClientSession
) -> None:
    now = int(time.time())
    async with GitHubServer(tmp_path).serving() as server:
        client = Client(server, session)
        assert (await client.request("GET", "/app", client.sign_jwt()))[0] == 200
        wrong_signature = jwt.encode({"alg": "RS256"}, {"iss": "4711"}, RSAKey.generate_key(2_048))
        for token in (
            client.sign_jwt(iss="1"),
            client.sign_jwt(iat=now + 600),
            client.sign_jwt(exp=now - 1),
            client.sign_jwt(exp=now + 3_600),
            wrong_signature,
            server.token,
            "",
        ):
            assert (await client.request("GET", "/app", token))[0] == 401


async def test_an_apps_token_works_for_its_repository_only(
    tmp_path: Path, session: aiohttp.ClientSession
) -> None:
    async with GitHubServer(tmp_path).serving() as server:
        client = Client(server, session)
        shop, other = server.add_repository("acme/shop"), server.add_repository("acme/other")
        reads = {"metadata": "read", "pull_requests": "read"}
        token = await client.new_token(repository_ids=[shop.id], permissions=reads)
        assert (await client.request("GET", "/repos/acme/shop", token))[0] == 200
        assert (await client.request("GET", f"/repositories/{shop.id}", token))[0] == 200
        assert (await client.request("GET", "/repos/acme/other", token))[0] == 404
        body = {"head": "a", "base": "main", "title": "b"}
        for method, path, sent in (
            ("POST", "/repos/acme/shop/pulls", body),
            ("GET", "/user", None),
            ("GET", "/repos/acme/shop/branches/main", None),
        ):
            status, response = await client.request(method, path, token, sent)
            assert (status, response["message"]) == (403, "Resource not accessible by integration")
        _, listed = await client.request("GET", "/installation/repositories", token)
        assert [repository["id"] for repository in listed["repositories"]] == [shop.id]
        assert server.git_role("x-access-token", token, shop) == "none"
        server.app.repository_ids = {other.id}
        assert (await client.request("GET", "/repos/acme/shop", token))[0] == 404
        server.clock = lambda: time.time() + 3_601
        assert (await client.request("GET", "/repos/acme/shop", token))[0] == 401
        assert server.git_role("x-access-token", token, shop) is None
