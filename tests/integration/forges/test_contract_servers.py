"""The contract servers themselves: they refuse what the platform would refuse."""

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
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(ssl=trust)) as made:
        yield made


class Client:
    def __init__(self, server: GitHubServer, session: aiohttp.ClientSession) -> None:
        self.server = server
        self.session = session

    async def ask(
        self, method: str, path: str, token: str, body: object = None, **query: str
    ) -> tuple[int, Any]:
        headers = {**_HEADERS, "Authorization": f"Bearer {token}"}
        url = f"{self.server.url}/api/v3{path}"
        async with self.session.request(
            method, url, headers=headers, json=body, params=query
        ) as answer:
            return answer.status, await answer.json()

    async def new_token(self, **wanted: object) -> str:
        path = f"/app/installations/{self.server.app.installation_id}/access_tokens"
        status, told = await self.ask("POST", path, self.signed(), wanted)
        assert status == 201, told
        return str(told["token"])

    def signed(self, **claims: object) -> str:
        now = int(time.time())
        given = {"iat": now - 60, "exp": now + 500, "iss": str(self.server.app.id), **claims}
        return jwt.encode({"alg": "RS256"}, given, self._key)

    @cached_property
    def _key(self) -> RSAKey:
        return RSAKey.import_key(self.server.app.private_key)


async def test_a_request_that_violates_the_description_fails_the_test(
    tmp_path: Path, session: aiohttp.ClientSession
) -> None:
    server = GitHubServer(tmp_path)
    client = Client(server, session)
    with pytest.raises(AssertionError, match="'newest' is not described"):  # noqa: PT012 - at its end
        async with server.serving():
            server.add_repository("acme/shop")
            path = "/repos/acme/shop/pulls"
            assert (await client.ask("GET", path, server.token, newest="1"))[0] == 400
            assert (await client.ask("POST", path, server.token, {"title": 1}))[0] == 400
            assert (await client.ask("GET", "/nowhere", server.token))[0] == 400
            assert len(server.violations) == 3
            assert "body.head is missing" in server.violations[1]
            assert "body.title should be string" in server.violations[1]


async def test_an_app_is_authenticated_by_its_signature_only(
    tmp_path: Path, session: aiohttp.ClientSession
) -> None:
    now = int(time.time())
    async with GitHubServer(tmp_path).serving() as server:
        client = Client(server, session)
        assert (await client.ask("GET", "/app", client.signed()))[0] == 200
        stranger = jwt.encode({"alg": "RS256"}, {"iss": "4711"}, RSAKey.generate_key(2_048))
        for shown in (
            client.signed(iss="1"),
            client.signed(iat=now + 600),
            client.signed(exp=now - 1),
            client.signed(exp=now + 3_600),
            stranger,
            server.token,
            "",
        ):
            assert (await client.ask("GET", "/app", shown))[0] == 401


async def test_an_apps_token_works_for_its_repository_only(
    tmp_path: Path, session: aiohttp.ClientSession
) -> None:
    async with GitHubServer(tmp_path).serving() as server:
        client = Client(server, session)
        shop, other = server.add_repository("acme/shop"), server.add_repository("acme/other")
        reads = {"metadata": "read", "pull_requests": "read"}
        token = await client.new_token(repository_ids=[shop.id], permissions=reads)
        assert (await client.ask("GET", "/repos/acme/shop", token))[0] == 200
        assert (await client.ask("GET", f"/repositories/{shop.id}", token))[0] == 200
        assert (await client.ask("GET", "/repos/acme/other", token))[0] == 404
        body = {"head": "a", "base": "main", "title": "b"}
        for method, path, sent in (
            ("POST", "/repos/acme/shop/pulls", body),
            ("GET", "/user", None),
            ("GET", "/repos/acme/shop/branches/main", None),
        ):
            status, told = await client.ask(method, path, token, sent)
            assert (status, told["message"]) == (403, "Resource not accessible by integration")
        _, listed = await client.ask("GET", "/installation/repositories", token)
        assert [one["id"] for one in listed["repositories"]] == [shop.id]
        assert server.git_role("x-access-token", token, shop) == "none"
        server.app.reach = {other.id}
        assert (await client.ask("GET", "/repos/acme/shop", token))[0] == 404
        server.clock = lambda: time.time() + 3_601
        assert (await client.ask("GET", "/repos/acme/shop", token))[0] == 401
        assert server.git_role("x-access-token", token, shop) is None
