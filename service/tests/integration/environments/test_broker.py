"""A private host reached through the broker, with the credential added outside of the sandbox."""

import asyncio
import base64
import contextlib
import gzip
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from urllib.parse import quote

import aiohttp
import pytest
from aiohttp import web

from agentjobs_runtime.environments.brokered_host import BrokeredHost
from agentjobs_runtime.outbound.guard.addresses import AllowList
from agentjobs_runtime.sandbox_http import port_server
from agentjobs_worker.environments import broker as brokers
from agentjobs_worker.environments.network import BROKER_PORTS, open_broker
from agentjobs_worker.sandbox.bubblewrap import BubblewrapSandbox
from agentjobs_worker.sandbox.ports import SandboxPorts
from tests.support.brokered import LOOPBACK, SECRET, broker_harness, files
from tests.support.forge_servers.authority import authorities, tls
from tests.support.sandbox import SandboxHarness, unused_uid_base
from tests.support.stores import until

PAGE = {"/simple/": ("text/html", b"a page")}


async def echo(request: web.BaseRequest) -> web.StreamResponse:
    body = await request.read()
    lines = [f"{name}: {value}" for name, value in request.headers.items()]
    return web.Response(text="\n".join([request.method, request.raw_path, *lines, body.decode()]))


async def test_a_request_reaches_the_host_with_the_credential(tmp_path: Path) -> None:
    async with broker_harness(files(PAGE), tmp_path) as harness:
        given = {
            "Authorization": "Basic agent",
            "Cookie": "a=b",
            "X-HTTP-Method-Override": "DELETE",
            "X-Original-URL": "/admin",
            "Range": "bytes=0-1",
            "Accept-Encoding": "br",
            "Connection": "close, Accept",
            "If-None-Match": '"1"',
            "User-Agent": "pip/26",
        }
        status, text, _ = await harness.send("/simple/", headers=given)

        assert (status, text) == (200, "a page")
        [(method, target, headers)] = harness.host.requests
        assert (method, target) == ("GET", "/simple/")
        assert headers == {
            "Host": harness.host.address,
            "Accept": "*/*",
            "If-None-Match": '"1"',
            "User-Agent": "pip/26",
            "Accept-Encoding": "identity",
            "Authorization": f"Bearer {SECRET}",
        }


REFUSED = {
    "POST /simple/ HTTP/1.1\r\nContent-Length: 0": "only GET, HEAD",
    "PROPFIND /simple/ HTTP/1.1": "only GET, HEAD",
    "CONNECT intranet:443 HTTP/1.1": "only GET, HEAD",
    "GET /simple/../admin HTTP/1.1": "'..'",
    "GET /simple/%2e%2E/admin HTTP/1.1": "'..'",
    "GET /simple/..;/admin HTTP/1.1": "'..'",
    "GET //simple/ HTTP/1.1": "'//'",
    "GET /simple\\..\\admin HTTP/1.1": "backslash",
    "GET /other HTTP/1.1": "only paths below /simple",
    "GET http://127.0.0.1/simple/ HTTP/1.1": "not a URL",
    "GET /simple/ HTTP/1.1\r\nContent-Length: 1": "no body",
}


async def test_a_sandbox_reaches_the_host_and_never_sees_the_value(tmp_path: Path) -> None:
    sandbox = SandboxHarness(BubblewrapSandbox(unused_uid_base()), tmp_path)
    async with broker_harness(echo, tmp_path) as harness:
        script = "env; curl --silent --show-error $AGENTJOBS_ARTIFACTORY_URL/a"
        report = await sandbox.shell(script, ports=harness.broker.ports)

        output = sandbox.output.decode()
        assert report.exit_code == 0, output
        assert "AGENTJOBS_ARTIFACTORY_URL=http://127.0.0.1:8470\n" in output
        assert "GET\n/a\n" in output
        assert "Authorization: Bearer *****" in output
        assert SECRET not in output


async def test_methods_and_paths_beyond_the_definition_are_refused(tmp_path: Path) -> None:
    async with broker_harness(files(PAGE), tmp_path, path_prefix="/simple") as harness:
        for head, reason in REFUSED.items():
            body = b"x" if "Content-Length: 1" in head else b""
            answer = (await harness.send_raw(head, body)).decode()

            assert answer.startswith("HTTP/1.1 403 "), head
            assert reason in answer, head
            assert any(reason in note for note in harness.notes), head
        assert harness.host.requests == []


async def test_a_method_that_is_allowed_carries_a_body(tmp_path: Path) -> None:
    async with broker_harness(echo, tmp_path, methods=("GET", "POST")) as harness:

        async def pieces() -> AsyncIterator[bytes]:
            yield b"first "
            yield b"second"

        for body in (b"first second", pieces()):
            status, text, _ = await harness.send("/upload?x=%2F", "POST", data=body, expect100=True)

            assert status == 200
            assert text.startswith("POST\n/upload?x=%2F\n")
            assert text.endswith("first second")


async def test_redirects_are_not_followed_and_stay_on_the_port(tmp_path: Path) -> None:
    async def redirect(request: web.BaseRequest) -> web.StreamResponse:
        target = request.query["to"].replace("HOST", request.host)
        return web.Response(status=302, headers={"Location": target})

    async with broker_harness(redirect, tmp_path) as harness:
        locations = {}
        for to in ("https://HOST/b?c=%2F", "/b", "https://files.example/b", "http://[", "//HOST/b"):
            status, _, headers = await harness.send("/a", params={"to": to})
            assert status == 302
            locations[to] = headers["Location"]

        assert locations == {
            "https://HOST/b?c=%2F": f"http://{harness.address}/b?c=%2F",
            "/b": "/b",
            "https://files.example/b": "https://files.example/b",
            "http://[": "http://[",
            "//HOST/b": f"//{harness.host.address}/b",
        }
        assert len(harness.host.requests) == 5


@pytest.mark.parametrize("size", [1, 100_000])
async def test_a_host_that_repeats_the_credential_does_not_reveal_it(
    tmp_path: Path, size: int
) -> None:
    async def repeat(request: web.BaseRequest) -> web.StreamResponse:
        text = request.headers["Authorization"]
        response = web.StreamResponse(headers={"X-Echo": text, "Set-Cookie": "session=1"})
        response.content_length = size + 2 * len(text)
        await response.prepare(request)
        # The credential is split between two writes, once.
        for part in (b"x" * size, text[:12].encode(), text[12:].encode(), text.encode()):
            await response.write(part)
            await asyncio.sleep(0)
        return response

    async with broker_harness(repeat, tmp_path) as harness:
        status, text, headers = await harness.send("/debug")

        assert status == 200
        masked = "Bearer " + "*" * len(SECRET)
        assert (text[size:], headers["X-Echo"]) == (2 * masked, masked)
        assert int(headers["Content-Length"]) == len(text)
        assert "Set-Cookie" not in headers


async def test_the_credential_is_masked_however_the_host_escapes_it(tmp_path: Path) -> None:
    forms = [quote(SECRET), quote(SECRET, safe="").lower(), SECRET.replace("/", "\\/")]

    async def repeat(request: web.BaseRequest) -> web.StreamResponse:
        return web.Response(text="\n".join(forms), headers={"Location": f"/?token={forms[0]}"})

    async with broker_harness(repeat, tmp_path) as harness:
        _, text, headers = await harness.send("/")

        assert text.splitlines() == ["*" * len(form) for form in forms]
        assert headers["Location"].endswith("*" * len(forms[0]))


async def test_a_password_is_masked_in_its_decoded_form_too(tmp_path: Path) -> None:
    async def decode(request: web.BaseRequest) -> web.StreamResponse:
        return web.Response(text="hello bot, your password is correct horse")

    secret = base64.b64encode(b"bot:correct horse").decode()
    fields = {"header": "Authorization: Basic {secret}", "secret": secret}
    async with broker_harness(decode, tmp_path, credential=f"Basic {secret}", **fields) as harness:
        _, text, _ = await harness.send("/")

        assert text == "hello bot, your password is *************"


async def test_a_compressed_response_is_forwarded_unchanged(tmp_path: Path) -> None:
    packed = gzip.compress(b"text " * 1_000)

    async def respond(request: web.BaseRequest) -> web.StreamResponse:
        return web.Response(body=packed, headers={"Content-Encoding": "gzip", "ETag": '"1"'})

    async with (
        broker_harness(respond, tmp_path) as harness,
        harness.http.get(f"http://{harness.address}/") as response,
    ):
        assert await response.read() == packed
        assert response.headers["Content-Encoding"] == "gzip"
        assert response.headers["ETag"] == '"1"'


async def test_a_head_response_has_the_length_and_no_body(tmp_path: Path) -> None:
    async with broker_harness(files(PAGE), tmp_path) as harness:
        status, text, headers = await harness.send("/simple/", "HEAD")

        assert (status, text, headers["Content-Length"]) == (200, "", "6")


async def test_a_rejected_credential_is_explained_to_client_and_log(tmp_path: Path) -> None:
    async with broker_harness(files(PAGE), tmp_path, secret="an old value") as harness:
        status, text, headers = await harness.send("/simple/")

        assert status == 403
        assert "rejected the credential" in text
        assert "agentjobs secrets set artifactory" in harness.notes[0]
        assert "WWW-Authenticate" not in headers
        assert "an old value" not in text + harness.notes[0]


async def test_a_secret_that_no_header_can_carry_is_explained(tmp_path: Path) -> None:
    async with broker_harness(files(PAGE), tmp_path, secret="two\nlines") as harness:
        status, text, _ = await harness.send("/simple/")

        assert status == 502
        assert "not printable ASCII" in text
        assert harness.host.requests == []


async def test_an_address_that_is_not_permitted_is_not_dialled(tmp_path: Path) -> None:
    async with broker_harness(files(PAGE), tmp_path, allowed=()) as harness:
        status, text, _ = await harness.send("/simple/")

        assert status == 502
        assert "127.0.0.1 is a loopback address; AGENTJOBS_EGRESS_ALLOW" in text


async def test_an_unreachable_host_is_a_502_with_its_reason(tmp_path: Path) -> None:
    async with broker_harness(files(PAGE), tmp_path, host="127.0.0.1:9") as harness:
        status, text, _ = await harness.send("/simple/")

        assert status == 502
        assert "127.0.0.1:9 cannot be reached" in text


async def test_a_host_with_an_unknown_certificate_is_refused(tmp_path: Path) -> None:
    async with broker_harness(files(PAGE), tmp_path, is_trusted=False) as harness:
        status, text, _ = await harness.send("/simple/")

        assert status == 502
        assert "certificate" in text
        assert harness.host.requests == []


async def test_a_silent_host_is_a_504(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(brokers, "_TIMEOUT", aiohttp.ClientTimeout(sock_read=0.1))

    async def silent(request: web.BaseRequest) -> web.StreamResponse:
        await asyncio.Event().wait()
        raise AssertionError

    async with broker_harness(silent, tmp_path) as harness:
        assert (await harness.send("/"))[0] == 504


async def test_a_malformed_response_is_refused_without_quoting_it(tmp_path: Path) -> None:
    async def repeat(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        assert SECRET.encode() in head
        writer.write(b"HTTP/1.1 200 OK\r\nBroken\0: " + head)
        writer.close()

    async with await asyncio.start_server(repeat, "127.0.0.1", 0, ssl=tls()) as server:
        host = f"127.0.0.1:{server.sockets[0].getsockname()[1]}"
        async with broker_harness(files(PAGE), tmp_path, host=host) as harness:
            status, text, _ = await harness.send("/simple/")

            assert (status, text) == (502, f"agentjobs: the response of {host} is not HTTP\n")


async def test_a_response_that_is_cut_does_not_look_complete(tmp_path: Path) -> None:
    async def cut(request: web.BaseRequest) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        await response.write(b"part")
        assert request.transport is not None
        request.transport.abort()
        return response

    async with broker_harness(cut, tmp_path) as harness:
        with pytest.raises(aiohttp.ClientError):
            await harness.send("/")


async def test_a_download_waits_for_a_client_that_does_not_read(tmp_path: Path) -> None:
    sent = 0

    async def endless(request: web.BaseRequest) -> web.StreamResponse:
        nonlocal sent
        response = web.StreamResponse()
        await response.prepare(request)
        while sent < 200 * 1024 * 1024:
            await response.write(b"x" * 65536)
            sent += 65536
        return response

    async with broker_harness(endless, tmp_path) as harness:
        async with harness.http.get(f"http://{harness.address}/") as response:
            assert response.status == 200
            before = -1
            while sent > before:
                before = sent
                # The server blocks once all buffers are full.
                for _ in range(1_000):
                    await asyncio.sleep(0)
            assert sent < 100 * 1024 * 1024
        await until(lambda: not harness.broker._servers[0].active_requests)


async def test_connections_to_one_host_are_bounded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(port_server, "MAX_CONNECTIONS", 1)
    async with (
        broker_harness(files(PAGE), tmp_path) as harness,
        harness.http.get(f"http://{harness.address}/simple/") as held,
    ):
        assert held.status == 200
        assert await harness.send_raw("GET /simple/ HTTP/1.1") == b""


async def test_a_closed_broker_ends_its_requests(tmp_path: Path) -> None:
    asked = asyncio.Event()

    async def silent(request: web.BaseRequest) -> web.StreamResponse:
        asked.set()
        await asyncio.Event().wait()
        raise AssertionError

    async with broker_harness(silent, tmp_path) as harness:
        asking = asyncio.create_task(harness.send("/"))
        await asked.wait()

        await harness.broker.close()

        with pytest.raises(aiohttp.ClientError):
            await asking


@asynccontextmanager
async def broker_of(secret: str, host: str, directory: Path) -> AsyncIterator[str]:
    """The address of a run's own broker that may send anything to the host."""
    header, methods = "Authorization: Bearer {secret}", ("GET", "POST")
    brokered = BrokeredHost(name="x", host=host, header=header, secret=secret, methods=methods)
    allowed, ca_file = AllowList.parse(LOOPBACK), str(authorities(directory))
    async with open_broker([brokered], allowed, ca_file, lambda _: None) as broker_ports:
        ports = SandboxPorts(broker_ports)
        try:
            yield (await ports.open_on_host())[BROKER_PORTS.start]
        finally:
            await ports.close()


async def test_a_body_that_the_host_takes_as_a_request_does_not_reach_into_another_run(
    tmp_path: Path,
) -> None:
    smuggled = b"POST /collect HTTP/1.1\r\nHost: x\r\nContent-Length: 999\r\n\r\n"
    connections: list[list[bytes]] = []

    async def ignore_bodies(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        requests: list[bytes] = []
        connections.append(requests)
        with contextlib.suppress(asyncio.IncompleteReadError):
            while head := await reader.readuntil(b"\r\n\r\n"):
                requests.append(head)
                # It waits for the body of the smuggled request.
                if head != smuggled:
                    writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
        writer.close()

    server = await asyncio.start_server(ignore_bodies, "127.0.0.1", 0, ssl=tls())
    async with server, aiohttp.ClientSession() as http:
        host = f"127.0.0.1:{server.sockets[0].getsockname()[1]}"
        async with (
            broker_of("the attackers own", host, tmp_path) as own,
            broker_of("of another organization", host, tmp_path) as other,
        ):
            async with http.post(f"http://{own}/", data=smuggled) as response:
                assert response.status == 200
            async with http.get(f"http://{other}/") as response:
                assert response.status == 200

            attacked, untouched = connections
            assert smuggled in attacked
            assert not any(b"another organization" in request for request in attacked)
            assert len(untouched) == 1
