"""A platform's API over real connections: which requests are retried and what is reported."""

import json
import socket
from collections.abc import AsyncIterator, Callable, Mapping
from email.utils import formatdate
from typing import Any

import aiohttp
import pytest
import trustme
from aiohttp import web

from agentjobs.platforms.http import client as api_module
from agentjobs.platforms.http.client import ApiError, PlatformApi, RetryBudget
from agentjobs.platforms.protocol import PlatformError
from agentjobs_runtime.outbound.guard.addresses import AllowList
from agentjobs_runtime.outbound.guard.sessions import new_session
from tests.support.https_git_server import server_context
from tests.support.manual_clock import ManualClock

SECRET = "glpat-0123456789abcdef"
LOOPBACK = AllowList.parse(["127.0.0.1/32"])
Handler = Callable[[web.Request], web.Response]


def json_response(status: int = 200, value: Any = None, **headers: str) -> web.Response:
    named = {name.replace("_", "-"): text for name, text in headers.items()}
    return web.json_response({"ok": True} if value is None else value, status=status, headers=named)


class ScriptedServer:
    """Sends the responses in order and repeats the last; a callable receives the request."""

    def __init__(self) -> None:
        self.responses: list[web.Response | Handler | None] = []
        self.requests: list[web.Request] = []
        self.bodies: list[bytes] = []
        self.url = ""

    async def handle(self, request: web.Request) -> web.StreamResponse:
        self.requests.append(request)
        self.bodies.append(await request.read())
        response = self.responses.pop(0) if len(self.responses) > 1 else self.responses[0]
        if response is None:
            assert request.transport is not None
            request.transport.abort()
            return web.Response()
        if isinstance(response, web.Response):
            # A response is sent once.
            headers = {k: v for k, v in response.headers.items() if k != "Content-Length"}
            return web.Response(status=response.status, body=response.body, headers=headers)
        return response(request)


@pytest.fixture
async def server() -> AsyncIterator[ScriptedServer]:
    server = ScriptedServer()
    runner = web.ServerRunner(web.Server(server.handle), shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    server.url = f"http://127.0.0.1:{runner.addresses[0][1]}/api/v4"
    yield server
    await runner.cleanup()


@pytest.fixture
async def session() -> AsyncIterator[aiohttp.ClientSession]:
    async with new_session(LOOPBACK) as client_session:
        yield client_session


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


async def headers() -> Mapping[str, str]:
    return {"PRIVATE-TOKEN": SECRET, "Authorization": f"Bearer {SECRET}"}


@pytest.fixture
def api(server: ScriptedServer, session: aiohttp.ClientSession, clock: ManualClock) -> PlatformApi:
    return new_api(server.url, session, clock.retry_budget())


def new_api(url: str, session: aiohttp.ClientSession, retry_budget: RetryBudget) -> PlatformApi:
    return PlatformApi(session, url, platform="GitLab", headers=headers, retry_budget=retry_budget)


async def test_a_request_is_encoded_correctly(server: ScriptedServer, api: PlatformApi) -> None:
    server.responses = [json_response(value=[1, 2])]
    name = api_module.build_path("projects", "a/b ü", 7)
    assert await api.get_as(list, name, head="o:x/y&z", draft=True, page=2, left_out=None) == [1, 2]
    assert server.requests[0].rel_url.raw_path == "/api/v4/projects/a%2Fb%20%C3%BC/7"
    assert dict(server.requests[0].query) == {"head": "o:x/y&z", "draft": "true", "page": "2"}
    assert server.requests[0].headers["PRIVATE-TOKEN"] == SECRET
    assert server.requests[0].headers["User-Agent"].startswith("agentjobs/")
    await api.post("/a", {"title": "ü"})
    assert json.loads(server.bodies[1]) == {"title": "ü"}
    assert server.requests[1].headers["Content-Type"] == "application/json"
    server.responses = [web.Response(status=204)]
    assert (await api.request("DELETE", "/a")).body == b""


@pytest.mark.parametrize("name", ["", ".", ".."])
def test_an_invalid_name_is_never_part_of_a_path(name: str) -> None:
    with pytest.raises(PlatformError):
        api_module.build_path("repos", "acme", name)


async def test_temporary_failures_are_retried_with_growing_waits(
    server: ScriptedServer, api: PlatformApi, clock: ManualClock
) -> None:
    page = web.Response(status=502, text="<html>Bad gateway</html>", content_type="text/html")
    # Cut twice: aiohttp itself retries once.
    server.responses = [
        None,
        None,
        json_response(500),
        page,
        json_response(503, Retry_After="40"),
        json_response(),
    ]
    assert await api.get_as(dict, "/x") == {"ok": True}
    assert len(server.requests) == 6
    for wait, shortest, longest in zip(clock.waits, (1, 2, 4, 40), (1.25, 2.5, 5, 42), strict=True):
        assert shortest <= wait <= longest
    assert "was interrupted (ServerDisconnectedError); trying again in 1 s" in clock.messages[0]
    assert clock.messages[1] == "GitLab has a server error (500); trying again in 2 s"


def _moment(seconds: float) -> Callable[[ManualClock], str]:
    return lambda clock: str(int(clock.now + seconds))


async def test_a_requested_wait_is_respected_even_for_a_post(
    server: ScriptedServer, session: aiohttp.ClientSession
) -> None:
    table: list[tuple[int, str, str, Callable[[ManualClock], str], int]] = [
        (429, "slow down", "Retry-After", lambda _: "33", 33),
        (429, "slow down", "Retry-After", lambda now: formatdate(now() + 44, usegmt=True), 44),
        (429, "slow down", "RateLimit-Reset", _moment(55), 55),
        (429, "slow down", "X-Other", lambda _: "1", 60),
        (403, "no", "Retry-After", lambda _: "66", 66),
        # The hourly limit is not used up, so its reset time does not count.
        (403, "You have exceeded a secondary rate limit.", "x-ratelimit-reset", _moment(900), 60),
    ]
    for status, message, header, value, seconds in table:
        clock = ManualClock()
        limits = {header: value(clock), "x-ratelimit-remaining": "4987"}
        server.responses = [
            json_response(status, {"message": message}, **limits),
            json_response(201),
        ]
        server.requests.clear()
        await new_api(server.url, session, clock.retry_budget()).post("/pulls", {})
        assert len(server.requests) == 2
        assert seconds <= clock.waits[0] <= seconds + 1
        assert "GitLab is busy (rate limit); trying again in" in clock.messages[0]


async def test_a_rate_limit_is_waited_for_only_within_the_retry_budget(
    server: ScriptedServer, session: aiohttp.ClientSession, clock: ManualClock
) -> None:
    limits = {"x_ratelimit_remaining": "0", "x_ratelimit_reset": str(int(clock.now + 1_800))}
    server.responses = [
        json_response(403, {"message": "API rate limit exceeded"}, **limits),
        json_response(),
    ]
    with pytest.raises(ApiError, match="try again in 30 minutes") as caught:
        await new_api(server.url, session, clock.retry_budget(600)).get_as(dict, "/x")
    assert caught.value.fault == "away"
    assert clock.waits == []
    server.responses = [
        json_response(403, {"message": "API rate limit exceeded"}, **limits),
        json_response(),
    ]
    patient = new_api(server.url, session, clock.retry_budget(3_600))
    assert await patient.get_as(dict, "/x") == {"ok": True}


async def test_requests_to_an_unavailable_platform_back_off(
    server: ScriptedServer, api: PlatformApi, clock: ManualClock
) -> None:
    server.responses = [json_response(500, Retry_After="0")]
    with pytest.raises(ApiError) as caught:
        await api.get_as(dict, "/x")
    assert caught.value.fault == "away"
    assert len(server.requests) <= 15
    assert 500 < sum(clock.waits) <= 600


async def test_a_post_that_may_have_been_processed_is_not_repeated(
    server: ScriptedServer, api: PlatformApi
) -> None:
    for lost in (json_response(500), json_response(504), None):
        server.requests.clear()
        server.responses = [lost, json_response()]
        with pytest.raises(ApiError) as caught:
            await api.post("/pulls", {"title": "x"})
        assert (caught.value.fault, len(server.requests)) == ("away", 1)
    # The response says that nothing was done.
    server.responses = [json_response(503), json_response(201)]
    assert (await api.post("/pulls", {})).body == b'{"ok": true}'
    # An idempotent request is repeated.
    server.responses = [None, json_response()]
    assert (await api.request("PUT", "/pulls", {})).status == 200


REFUSALS: list[tuple[int, Any, str, str]] = [
    (401, {"message": "Bad credentials"}, "unauthorized", "(Bad credentials); replace it"),
    (403, {"message": "Not by you."}, "denied", "(Not by you); the connection needs the perm"),
    (404, {"error": "404 Not found"}, "gone", "(404 Not found)"),
    (410, {"message": "Deleted"}, "gone", "(Deleted)"),
    (409, {"message": ["Another open one exists"]}, "refused", "(Another open one exists)"),
    (400, {"message": {"base": ["is taken"]}}, "refused", "(base is taken)"),
    (422, {"message": "Bad", "errors": [{"message": "too long"}]}, "refused", "(Bad; too long)"),
    (418, ["x"], "refused", "refused the request (418)"),
    (404, {"message": "a\nb\x1b[31m" + "x" * 5_000}, "gone", "(a b[31mxxx"),
]


async def test_a_refusal_is_final_and_quotes_the_platform(
    server: ScriptedServer, api: PlatformApi
) -> None:
    for status, body, fault, text in REFUSALS:
        server.responses = [json_response(status, body)]
        with pytest.raises(ApiError) as caught:
            await api.get_as(dict, "/x", needs="Pull requests: read and write")
        error = caught.value
        assert (error.fault, error.status) == (fault, status)
        assert text in str(error)
        assert len(str(error)) < 500
        if fault == "denied":
            assert "“Pull requests: read and write”" in str(error)
    assert len(server.requests) == len(REFUSALS)


async def test_a_response_that_is_not_from_an_api_asks_to_check_the_address(
    server: ScriptedServer, api: PlatformApi
) -> None:
    pages = [
        web.Response(text="<!DOCTYPE html><p>Sign in", content_type="text/html"),
        web.Response(status=404, text="<html>Nothing here", content_type="text/html"),
        web.Response(status=403, text="<html>Sign in", content_type="text/html"),
        web.Response(text='{"id": 1, "na', content_type="application/json"),
        web.Response(body=b"[" * 100_000, content_type="application/json"),
        web.Response(body=b'"\xff"', content_type="application/json"),
    ]
    for page in pages:
        server.responses = [page]
        with pytest.raises(
            ApiError, match="web page instead of an API response; check the address"
        ) as got:
            await api.get_as(object, "/x")
        assert got.value.fault == "unusable"
    assert len(server.requests) == len(pages)
    server.responses = [json_response(value={"id": "x"})]
    with pytest.raises(PlatformError, match="unexpected response"):
        await api.get_as(dict[str, int], "/x")


async def test_redirects_are_followed_if_they_ask_for_the_same_request(
    server: ScriptedServer, api: PlatformApi
) -> None:
    moved = json_response(301, Location="/api/v4/repositories/7?page=1")
    server.responses = [moved, json_response()]
    assert await api.get_as(dict, "/repos/a/b") == {"ok": True}
    assert server.requests[1].rel_url.path_qs == "/api/v4/repositories/7?page=1"
    assert server.requests[1].headers["PRIVATE-TOKEN"] == SECRET
    server.requests.clear()
    server.responses = [json_response(307, Location="/api/v4/repositories/7"), json_response()]
    assert (await api.post("/repos/a/b/pulls", {})).body == b'{"ok": true}'
    assert [request.method for request in server.requests] == ["POST", "POST"]
    server.responses = [json_response(301, Location="/api/v4/repositories/7")]
    with pytest.raises(ApiError, match="has moved"):
        await api.post("/repos/a/b/pulls", {})


async def test_the_credential_is_not_sent_to_another_host(
    server: ScriptedServer, api: PlatformApi
) -> None:
    host = server.url.removeprefix("http://").partition("/")[0]
    elsewhere = ["https://127.0.0.1/api", "http://elsewhere.test/api", f"http://u:p@{host}/api"]
    for address in (*elsewhere, "//x", "http://[x"):
        server.requests.clear()
        server.responses = [json_response(301, Location=address)]
        with pytest.raises(ApiError, match="redirects to another host") as caught:
            await api.get_as(dict, "/x")
        assert caught.value.fault == "unusable"
        assert len(server.requests) == 1


async def test_links_to_another_host_are_followed_on_the_connections_own_address(
    server: ScriptedServer, api: PlatformApi
) -> None:
    for origin in ("https://127.0.0.1", "http://internal.test:8080/git", "//x", "http://[x"):
        server.requests.clear()
        link = f'<{origin}/api/x?page=2&after=a%2Fb#top>; rel="next"'
        server.responses = [json_response(value=[1], Link=link), json_response(value=[2])]
        assert [page async for page in api.pages(list[int], "/x", page=1)] == [[1], [2]]
        assert [request.rel_url.raw_path_qs for request in server.requests] == [
            "/api/v4/x?page=1",
            "/api/v4/x?page=2&after=a%2Fb",
        ]
    # A link that names no other page ends.
    server.responses = [json_response(value=[1], Link='<http://internal.test/>; rel="next"')]
    with pytest.raises(ApiError, match="endless"):
        _ = [page async for page in api.pages(list[int], "/x")]


async def test_a_redirect_loop_ends(server: ScriptedServer, api: PlatformApi) -> None:
    server.responses = [json_response(302, Location=server.url)]
    with pytest.raises(ApiError, match="endlessly") as caught:
        await api.get_as(dict, "/x")
    assert caught.value.fault == "unusable"
    assert len(server.requests) == 4


async def test_pages_are_read_to_their_end_and_a_list_without_one_is_refused(
    server: ScriptedServer, api: PlatformApi
) -> None:
    def page(request: web.Request) -> web.Response:
        number = int(request.query.get("page", "1"))
        link = (
            f'<{request.path}?page=1>; rel="first", <{server.url}/x?page={number + 1}>; rel="next"'
        )
        return json_response(value=[number], **({"Link": link} if number < 3 else {}))

    server.responses = [page]
    assert [page async for page in api.pages(list[int], "/x", per_page=1)] == [[1], [2], [3]]
    server.responses = [json_response(value=[1], Link=f'<{server.url}/x>; rel="next"')]
    with pytest.raises(ApiError, match="endless list"):
        _ = [page async for page in api.pages(list[int], "/x")]


async def test_a_list_without_an_end_is_read_no_further_than_its_bounds(
    server: ScriptedServer, api: PlatformApi, monkeypatch: pytest.MonkeyPatch
) -> None:
    def endless(request: web.Request) -> web.Response:
        number = int(request.query.get("page", "1"))
        link = f'<{server.url}/x?page={number + 1}>; rel="next"'
        return json_response(value=["x" * 1_000], Link=link)

    async def read(**bounds: int) -> int:
        server.requests.clear()
        with pytest.raises(ApiError, match="endless list") as caught:
            _ = [page async for page in api.pages(list[str], "/x", **bounds)]
        assert caught.value.fault == "unusable"
        return len(server.requests)

    server.responses = [endless]
    assert await read() == 51
    assert await read(max_pages=60) == 61
    monkeypatch.setattr(api_module, "MEAN_PAGE_BYTES", 200)
    assert await read() == 10
    server.responses = [json_response(value=["x"] * 1_001)]
    assert await read() == 1


async def test_the_last_page_is_read_first_if_the_platform_names_it(
    server: ScriptedServer, api: PlatformApi
) -> None:
    names_last_page = True

    def page(request: web.Request) -> web.Response:
        number = int(request.query.get("page", "1"))
        near = {"prev": number - 1, "next": number + 1, "last": 4 if names_last_page else 0}
        links = [
            f'<{server.url}/x?page={target}>; rel="{name}"'
            for name, target in near.items()
            if 0 < target <= 4 and target != number
        ]
        return json_response(value=[number], Link=", ".join(links))

    server.responses = [page]
    newest = [page async for page in api.pages_backwards(list[int], "/x")]
    assert newest == [[4], [3], [2], [1]]
    names_last_page = False
    assert [page async for page in api.pages_backwards(list[int], "/x")] == newest
    server.responses = [json_response(value=[1])]
    assert [page async for page in api.pages_backwards(list[int], "/x")] == [[1]]


async def test_a_response_is_bounded_and_never_decompressed(
    server: ScriptedServer, api: PlatformApi, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(api_module, "MAX_RESPONSE_BYTES", 2**20)
    server.responses = [web.Response(body=b" " * (2**20 + 1))]
    with pytest.raises(ApiError, match="more than 1 MiB") as caught:
        await api.get_as(dict, "/x")
    assert caught.value.fault == "unusable"
    server.responses = [web.Response(body=b"x", headers={"Content-Encoding": "gzip"})]
    with pytest.raises(ApiError, match="compressed"):
        await api.get_as(dict, "/x")


async def test_a_platform_that_does_not_respond_is_unavailable(
    server: ScriptedServer,
    session: aiohttp.ClientSession,
    clock: ManualClock,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent, monkeypatch.context() as patch:
        # Enough to connect, even on a busy machine.
        patch.setattr(api_module, "REQUEST_SECONDS", 0.5)
        url = f"http://127.0.0.1:{silent.getsockname()[1]}"
        with pytest.raises(ApiError, match="did not answer in time") as caught:
            await new_api(url, session, clock.retry_budget(0)).post("/x", {})
    assert (caught.value.fault, caught.value.is_unprocessed) == ("away", False)
    # The port is closed now, so nothing can have been processed.
    with pytest.raises(ApiError, match="could not be reached") as caught:
        await new_api(url, session, clock.retry_budget(5)).post("/x", {})
    assert (caught.value.fault, caught.value.is_unprocessed) == ("away", True)
    assert len(clock.waits) == 2


async def test_an_address_that_may_not_be_dialled_is_refused_at_once(
    server: ScriptedServer, clock: ManualClock
) -> None:
    server.responses = [json_response()]
    async with new_session(AllowList.parse([], setting="AGENTJOBS_TEST_ALLOW")) as guarded:
        with pytest.raises(ApiError, match="AGENTJOBS_TEST_ALLOW") as caught:
            await new_api(server.url, guarded, clock.retry_budget()).get_as(dict, "/x")
    assert caught.value.fault == "unusable"
    assert (server.requests, clock.waits) == ([], [])


async def test_an_untrusted_certificate_error_says_what_the_operator_can_do(
    session: aiohttp.ClientSession, clock: ManualClock
) -> None:
    runner = web.ServerRunner(web.Server(lambda _: web.Response()), shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0, ssl_context=server_context(trustme.CA())).start()
    url = f"https://127.0.0.1:{runner.addresses[0][1]}"
    with pytest.raises(ApiError, match="AGENTJOBS_CA_FILE") as caught:
        await new_api(url, session, clock.retry_budget()).get_as(dict, "/x")
    assert (caught.value.fault, clock.waits) == ("unusable", [])
    await runner.cleanup()


async def test_no_message_contains_a_credential_that_the_platform_echoes(
    server: ScriptedServer, api: PlatformApi, clock: ManualClock
) -> None:
    def echo(request: web.Request) -> web.Response:
        shown = f"{request.headers['Authorization']} and {request.headers['PRIVATE-TOKEN']}"
        return json_response(int(request.query["status"]), {"message": shown}, Retry_After="1")

    server.responses = [echo]
    for status in (400, 401, 403, 404, 422, 429, 500):
        with pytest.raises(ApiError) as caught:
            await api.get_as(dict, "/x", status=status)
        chain = (caught.value, caught.value.__cause__, caught.value.__context__)
        assert SECRET not in f"{chain!r} {caught.value} {caught.value.summary}"
    assert SECRET not in " ".join(clock.messages)


async def test_a_credential_with_invalid_characters_is_refused_without_quoting_it(
    server: ScriptedServer, session: aiohttp.ClientSession, clock: ManualClock
) -> None:
    async def broken() -> Mapping[str, str]:
        return {"Authorization": f"Bearer {SECRET}\r\nX-Other: 1"}

    api = PlatformApi(
        session, server.url, platform="GitLab", headers=broken, retry_budget=clock.retry_budget()
    )
    with pytest.raises(ApiError) as caught:
        await api.get_as(dict, "/x")
    assert caught.value.fault == "unauthorized"
    assert SECRET not in f"{caught.value!r}"
    assert server.requests == []


async def test_a_credential_that_can_be_renewed_is_renewed_once(
    server: ScriptedServer, session: aiohttp.ClientSession, clock: ManualClock
) -> None:
    tokens = ["old"]

    async def shown() -> Mapping[str, str]:
        return {"Authorization": f"Bearer {tokens[-1]}"}

    def renew() -> bool:
        tokens.append(f"new{len(tokens)}")
        return True

    def authenticate(request: web.Request) -> web.Response:
        return json_response(201 if request.headers["Authorization"] == "Bearer new1" else 401)

    api = PlatformApi(
        session,
        server.url,
        platform="GitHub",
        headers=shown,
        retry_budget=clock.retry_budget(),
        renew=renew,
    )
    server.responses = [authenticate]
    assert (await api.post("/x", {})).body == b'{"ok": true}'
    server.responses = [json_response(401)]
    with pytest.raises(ApiError) as caught:
        await api.get_as(dict, "/x")
    assert caught.value.fault == "unauthorized"
    assert len(server.requests) == 4
