"""Registries over real connections: local servers and two public ones."""

import asyncio
import os
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from aiohttp import web
from yarl import URL

from agentjobs.advisories.registries import registry
from agentjobs.advisories.registries import request as asking
from agentjobs.advisories.registries.registry import (
    CACHE_MS,
    COOLDOWN_MS,
    MAX_CONCURRENT,
    MAX_FAILURES,
    Registry,
)
from agentjobs_dependencies.advisories.model import parse_advisory
from agentjobs_dependencies.registries import api
from agentjobs_dependencies.registries.versions import Published, RegistryUnavailable
from agentjobs_dependencies.version_choice import RegistryVersionChooser
from agentjobs_runtime.outbound.guard.addresses import AllowList
from agentjobs_runtime.outbound.guard.sessions import new_session
from agentjobs_runtime.settings import Settings
from tests.support.recorded_registries import (
    RESPONSES,
    RegistryServer,
    hashes_of,
    recorded,
    registry_server,
    send_recorded,
)

LOOPBACK = "127.0.0.1/32"


class Clock:
    def __init__(self) -> None:
        self.now = 1_000_000

    def __call__(self) -> int:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
async def server() -> AsyncIterator[RegistryServer]:
    async with registry_server() as server:
        yield server


@asynccontextmanager
async def asking_of(
    settings: Settings, clock: Clock, *allowed: str, ca_file: str = ""
) -> AsyncIterator[Registry]:
    async with new_session(AllowList.parse(allowed or [LOOPBACK]), ca_file) as session:
        yield Registry(settings, session, clock)


async def test_versions_are_fetched_from_every_registry(
    server: RegistryServer, clock: Clock
) -> None:
    async with asking_of(server.settings(), clock) as client:
        for package in RESPONSES:
            assert await client.fetch_published(*package) == recorded(*package)
    assert len(server.requests) == len(RESPONSES)
    assert {request.headers["Accept-Encoding"] for request in server.requests} == {"identity"}


async def test_an_unknown_package_has_no_versions(server: RegistryServer, clock: Clock) -> None:
    async with asking_of(server.settings(), clock) as client:
        assert await client.fetch_published("npm", "no-such-package") == Published()


async def test_a_response_is_cached_for_an_hour(server: RegistryServer, clock: Clock) -> None:
    async with asking_of(server.settings(), clock) as client:
        await client.fetch_published("npm", "lodash")
        clock.now += CACHE_MS - 1
        await client.fetch_published("npm", "lodash")
        assert len(server.requests) == 1
        clock.now += 1
        await client.fetch_published("npm", "lodash")
        assert len(server.requests) == 2


async def test_the_cache_is_limited_and_evicts_the_oldest(
    server: RegistryServer, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(registry, "MAX_WEIGHT", recorded("npm", "lodash").weight + 5)
    async with asking_of(server.settings(), clock) as client:
        for name in ("minimist", "lodash", "lodash", "minimist"):
            await client.fetch_published("npm", name)
    asked_for = [request.path for request in server.requests]
    assert asked_for == ["/npm/minimist", "/npm/lodash", "/npm/minimist"]


async def test_concurrent_callers_share_one_request(clock: Clock) -> None:
    arrived, may_answer = asyncio.Event(), asyncio.Event()

    async def give(_request: web.Request) -> web.StreamResponse:
        arrived.set()
        await may_answer.wait()
        return web.json_response({"versions": {"1.0.0": {}}})

    async with registry_server(give) as server, asking_of(server.settings(), clock) as client:
        callers = [asyncio.create_task(client.fetch_published("npm", "one")) for _ in range(2)]
        await arrived.wait()
        may_answer.set()
        assert [len(published.versions) for published in await asyncio.gather(*callers)] == [1, 1]
    assert len(server.requests) == 1


async def test_a_caller_that_gives_up_leaves_the_others_their_answer(clock: Clock) -> None:
    arrived, may_answer = asyncio.Event(), asyncio.Event()

    async def give(_request: web.Request) -> web.StreamResponse:
        arrived.set()
        await may_answer.wait()
        return web.json_response({"versions": {"1.0.0": {}}})

    async with registry_server(give) as server, asking_of(server.settings(), clock) as client:
        first, second = (
            asyncio.create_task(client.fetch_published("npm", "one")) for _ in range(2)
        )
        await arrived.wait()
        first.cancel()
        may_answer.set()
        assert len((await second).versions) == 1
        assert first.cancelled()


async def test_concurrent_requests_are_limited(clock: Clock) -> None:
    under_way = most = 0
    enough = asyncio.Event()

    async def give(_request: web.Request) -> web.StreamResponse:
        nonlocal under_way, most
        under_way += 1
        most = max(most, under_way)
        if under_way == MAX_CONCURRENT:
            enough.set()
        await enough.wait()
        under_way -= 1
        return web.json_response({"versions": {}})

    async with registry_server(give) as server, asking_of(server.settings(), clock) as client:
        names = [f"package-{number}" for number in range(3 * MAX_CONCURRENT)]
        await asyncio.gather(*(client.fetch_published("npm", name) for name in names))
    assert most == MAX_CONCURRENT


def _gone(request: web.Request) -> web.StreamResponse:
    assert request.transport is not None
    request.transport.close()
    return web.Response()


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        (lambda _: web.Response(status=503), "status 503"),
        (lambda _: web.Response(status=403), "status 403"),
        (lambda _: web.Response(text="<html>"), "unexpected JSON"),
        (lambda _: web.Response(body=b"{}" * 40), "larger than 0 MiB"),
        (lambda _: web.Response(headers={"Content-Encoding": "gzip"}), "response is compressed"),
        (lambda _: web.Response(status=302, headers={"Location": "http://a.example/x"}), "another"),
        (lambda _: web.Response(status=302, headers={"Location": "lodash"}), "more than 3 times"),
        (lambda _: web.Response(status=302, headers={"Location": "http://[x"}), "invalid URL"),
        (_gone, "Server disconnected"),
    ],
    ids=range(9),
)
async def test_an_invalid_response_is_reported_with_url_and_setting_but_no_password(
    clock: Clock, monkeypatch: pytest.MonkeyPatch, answer, reason: str
) -> None:
    async def give(request: web.Request) -> web.StreamResponse:
        return answer(request)

    short = api.RegistryApi(**{**_parts_of("npm"), "max_bytes": 50})
    monkeypatch.setattr(registry, "REGISTRY_APIS", {**registry.REGISTRY_APIS, "npm": short})
    async with (
        registry_server(give) as server,
        asking_of(server.settings("someone:secret"), clock) as client,
    ):
        with pytest.raises(RegistryUnavailable, match=reason) as caught:
            await client.fetch_published("npm", "lodash")
    message = str(caught.value)
    assert message.startswith(f"http://{server.host}/npm/lodash: ")
    assert "AGENTJOBS_REGISTRY_NPM_URL" in message
    assert "secret" not in message
    assert server.requests[0].headers["Authorization"].startswith("Basic ")


def _parts_of(ecosystem: str) -> dict[str, object]:
    api = registry.REGISTRY_APIS[ecosystem]
    return {name: getattr(api, name) for name in api.__struct_fields__}


async def test_a_redirect_on_the_same_host_is_followed(clock: Clock) -> None:
    async def give(request: web.Request) -> web.StreamResponse:
        if request.path == "/npm/moved":
            raise web.HTTPPermanentRedirect("/npm/here")
        return web.json_response({"versions": {"1.0.0": {}}})

    async with registry_server(give) as server, asking_of(server.settings(), clock) as client:
        assert len((await client.fetch_published("npm", "moved")).versions) == 1


async def test_a_silent_registry_times_out(clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    given_up = asyncio.Event()

    async def late(_request: web.Request) -> web.StreamResponse:
        await given_up.wait()
        return web.Response()

    monkeypatch.setattr(asking, "_TIMEOUT", asking.aiohttp.ClientTimeout(total=0.05))
    async with registry_server(late) as server, asking_of(server.settings(), clock) as client:
        with pytest.raises(RegistryUnavailable, match="no response within"):
            await client.fetch_published("npm", "lodash")
        given_up.set()


async def test_an_unreachable_registry_is_retried_after_a_cooldown(clock: Clock) -> None:
    is_up = False

    async def give(request: web.Request) -> web.StreamResponse:
        return web.json_response({"versions": {}}) if is_up else _gone(request)

    async with registry_server(give) as server, asking_of(server.settings(), clock) as client:
        for number in range(2 * MAX_FAILURES):
            with pytest.raises(RegistryUnavailable):
                await client.fetch_published("npm", f"package-{number}")
        paths = {request.path for request in server.requests}
        assert len(paths) == MAX_FAILURES
        is_up = True
        clock.now += COOLDOWN_MS
        assert await client.fetch_published("npm", "package-0") == Published()


async def test_a_blocked_address_is_reported(server: RegistryServer, clock: Clock) -> None:
    async with asking_of(server.settings(), clock, "192.0.2.1/32") as client:
        with pytest.raises(RegistryUnavailable, match="AGENTJOBS_EGRESS_ALLOW"):
            await client.fetch_published("npm", "lodash")
    assert server.requests == []


async def test_a_version_is_chosen_with_the_registry_and_without_it(clock: Clock) -> None:
    events = [{"introduced": "0"}, {"fixed": "0.2.1"}]
    affected = {"package": {"ecosystem": "npm", "name": "minimist"}}
    affected["ranges"] = [{"type": "SEMVER", "events": events}]
    record = {"id": "TEST-1", "modified": "2020-01-01T00:00:00Z", "affected": [affected]}
    advisory = parse_advisory(record)
    assert advisory is not None
    async with registry_server() as server, asking_of(server.settings(), clock) as client:
        chosen = await RegistryVersionChooser(client).choose("npm", "minimist", "0.0.8", [advisory])
        assert (chosen.version, chosen.source) == ("0.2.1", "registry")
        unasked = await RegistryVersionChooser(client).choose("npm", "..", "0.0.8", [advisory])
        assert (unasked.version, unasked.source) == (None, "advisories")
    async with asking_of(server.settings(), clock) as client:
        chosen = await RegistryVersionChooser(client).choose("npm", "minimist", "0.0.8", [advisory])
        assert (chosen.version, chosen.source) == ("0.2.1", "advisories")
        assert "The npm registry is unreachable" in chosen.reason


@pytest.mark.parametrize(
    ("ecosystem", "name", "version"),
    [("PyPI", "requests", "2.31.0"), ("npm", "minimist", "0.2.4")],
)
async def test_a_public_registry_lists_versions(
    clock: Clock, ecosystem: str, name: str, version: str
) -> None:
    settings = Settings(data_dir="unused")
    host = URL(settings.registry_url(ecosystem)).host
    try:
        results = await asyncio.get_running_loop().getaddrinfo(host, 443, type=socket.SOCK_STREAM)
    except OSError:
        pytest.skip(f"{host} cannot be looked up here")
    # Allow the resolved addresses; other tests cover the address policy.
    addresses = {address[0] for *_, address in results}
    masks = [f"{address}/{128 if ':' in address else 32}" for address in addresses]
    certificates = os.environ.get("SSL_CERT_FILE", "")
    async with asking_of(settings, clock, *masks, ca_file=certificates) as client:
        published = await client.fetch_published(ecosystem, name)
        assert version in {release.version for release in published.versions}
        assert bool(hashes_of(published, version)) == (ecosystem == "PyPI")
        assert (
            await client.fetch_published(ecosystem, "no-such-package-was-published") == Published()
        )


async def test_a_published_pom_is_fetched_by_its_coordinates(clock: Clock) -> None:
    responses = {"/maven/org/boot/starter/2.1/starter-2.1.pom": b"<project/>"}

    async def send(request: web.Request) -> web.StreamResponse:
        if request.path.endswith("large-1.pom"):
            return web.Response(body=b"x" * (3 << 20))
        if request.path not in responses:
            raise web.HTTPNotFound
        return web.Response(body=responses[request.path])

    async with registry_server(send) as server, asking_of(server.settings(), clock) as registry:
        assert await registry.fetch_pom("org.boot:starter:2.1") == b"<project/>"
        for absent in ("org.boot:starter:2.2", "org.boot:large:1", "org.boot", "a:../b:1", "a:b:"):
            assert await registry.fetch_pom(absent) is None
        assert len(server.requests) == 3


async def test_an_unreachable_registry_has_no_poms(clock: Clock) -> None:
    async with registry_server() as server:
        settings = server.settings()
    async with asking_of(settings, clock) as registry:
        for _ in range(5):
            assert await registry.fetch_pom("org.boot:starter:2.1") is None


async def test_the_time_of_a_go_version_is_requested(clock: Clock) -> None:
    events = [{"introduced": "0"}, {"fixed": "0.3.8"}]
    affected = {"package": {"ecosystem": "Go", "name": "golang.org/x/text"}}
    affected["ranges"] = [{"type": "SEMVER", "events": events}]
    record = {"id": "TEST-1", "modified": "2020-01-01T00:00:00Z", "affected": [affected]}
    advisory = parse_advisory(record)
    assert advisory is not None
    young = "2999-01-01T00:00:00Z"
    times = {"v0.3.8": young, "v0.4.0": "2023-01-01T00:00:00Z", "v0.5.0": young}

    async def send(request: web.Request) -> web.StreamResponse:
        version = request.path.rpartition("/")[2].removesuffix(".info")
        if version in times:
            return web.json_response({"Time": times[version]})
        return await send_recorded(request)

    async with registry_server(send) as server, asking_of(server.settings(), clock) as client:
        chooser = RegistryVersionChooser(client, min_age_days=3)
        chosen = await chooser.choose("Go", "golang.org/x/text", "v0.3.7", [advisory], 3)
    assert chosen.version == "v0.4.0"
    assert [each.version for each in chosen.candidates] == ["v0.4.0", "v0.6.0", "v0.7.0"]
