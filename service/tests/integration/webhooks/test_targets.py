"""The receivers an attempt may reach: certificates, names, blocked addresses and proxies."""

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.support import bad_receivers as bad
from tests.support.bad_receivers import (
    Authority,
    Behaviour,
    Receiver,
    new_authority,
    receiver,
    responds,
)
from tests.support.delivery_attempts import (
    LOOPBACK,
    LOOPS,
    NOTHING,
    SETTING,
    Run,
    send,
    webhook_client,
)
from tests.support.silent_resolver import silent_resolver


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return new_authority(tmp_path)


# TLS


@pytest.mark.parametrize("run", LOOPS)
def test_a_receiver_with_a_valid_certificate_is_reached(run: Run, authority: Authority) -> None:
    async def check() -> None:
        tls = authority.certificate("127.0.0.1")
        async with (
            receiver(responds(200), tls) as served,
            webhook_client(authority=authority) as client,
        ):
            attempts = [await send(client, served.url()) for _ in range(3)]
            assert [attempt.error for attempt in attempts] == [None] * 3
            assert {attempt.address for attempt in attempts} == {f"127.0.0.1:{served.port}"}
            assert served.connections == 1

    run(check())


@pytest.mark.parametrize("run", LOOPS)
@pytest.mark.parametrize(
    ("certificate", "message"),
    [
        (lambda it: it.untrusted("127.0.0.1"), "unable to get local issuer"),
        (lambda it: it.certificate("other.test"), "IP address mismatch"),
        (lambda it: it.certificate("127.0.0.1", expired=True), "certificate has expired"),
    ],
    ids=["self-signed", "wrong name", "expired"],
)
def test_an_invalid_certificate_is_not_accepted(
    run: Run, authority: Authority, certificate: Callable[[Authority], Any], message: str
) -> None:
    async def check() -> None:
        async with (
            receiver(responds(200), certificate(authority)) as served,
            webhook_client(authority=authority) as client,
        ):
            attempt = await send(client, served.url())
            assert attempt.error_class == "tls"
            assert message in (attempt.error or "")
            assert attempt.address == f"127.0.0.1:{served.port}"
            assert served.requests == []

    run(check())


@pytest.mark.parametrize("run", LOOPS)
@pytest.mark.parametrize(
    "behaviour",
    [bad.resets_in_handshake, bad.resets_at_once, bad.closes_in_handshake, bad.speaks_plain_text],
    ids=["reset", "reset at once", "closed", "plain text"],
)
def test_a_failed_handshake_is_a_tls_failure(run: Run, behaviour: Behaviour) -> None:
    async def check() -> None:
        async with receiver(behaviour) as served, webhook_client() as client:
            attempt = await send(client, f"https://127.0.0.1:{served.port}/")
        assert attempt.error_class == "tls", attempt
        assert attempt.address == f"127.0.0.1:{served.port}"

    run(check())


@pytest.mark.parametrize("run", LOOPS)
def test_an_endless_handshake_times_out(run: Run) -> None:
    async def check() -> None:
        async with (
            receiver(bad.never_starts_tls) as served,
            webhook_client(connect_seconds=0.3) as client,
        ):
            attempt = await send(client, f"https://127.0.0.1:{served.port}/")
        assert attempt.error_class == "timeout"
        assert attempt.error == "no connection within 0.3 seconds"
        assert attempt.address == f"127.0.0.1:{served.port}"

    run(check())


@pytest.mark.parametrize("run", LOOPS)
def test_a_receiver_that_requires_a_client_certificate_is_a_tls_failure(
    run: Run, authority: Authority
) -> None:
    async def check() -> None:
        async with (
            receiver(authority.wants_client_certificate("127.0.0.1")) as served,
            webhook_client(authority=authority) as client,
        ):
            attempt = await send(client, f"https://127.0.0.1:{served.port}/")
        assert attempt.error_class == "tls", attempt

    run(check())


# Names


async def test_a_name_without_an_address_is_a_dns_failure() -> None:
    def nobody(host: str) -> Sequence[str]:
        raise OSError(f"{host} is unknown")

    async with webhook_client(lookup=nobody) as client:
        attempt = await send(client, "https://hooks.test/")
        assert (attempt.error_class, attempt.address) == ("dns", None)
        assert attempt.error == "the host name was not resolved: hooks.test is unknown"
    async with webhook_client(lookup=lambda _: []) as client:
        assert (await send(client, "https://hooks.test/")).error_class == "dns"


async def test_an_invalid_name_is_not_resolved() -> None:
    async with webhook_client() as client:
        for host in ("a..b", "x" * 70 + ".test"):
            attempt = await send(client, f"https://{host}/")
            assert attempt.error_class == "blocked_address"
            assert "neither a name nor an IP address" in (attempt.error or "")


async def test_a_silent_name_server_is_a_dns_failure_and_delays_no_other_endpoint() -> None:
    with silent_resolver() as names:

        def lookup(host: str) -> Sequence[str]:
            return names.lookup(host) if host.startswith("silent") else ["127.0.0.1"]

        async with (
            receiver(responds(200)) as served,
            webhook_client(lookup=lookup, connect_seconds=1.5) as client,
        ):
            waiting = [
                asyncio.create_task(send(client, f"https://silent{n}.test/", f"whk_{n % 10}"))
                for n in range(100)
            ]
            good = await send(client, served.url("good.test"), "good")
            assert good.succeeded, good
            for task in waiting:
                attempt = await task
                assert attempt.error_class == "dns"
                assert attempt.error == "the host name was not resolved within 1.5 seconds"
            assert len(names.lookups) <= 20


async def test_a_rebound_name_is_checked_when_it_is_dialled() -> None:
    addresses = iter(["127.0.0.1", "169.254.169.254"])
    async with (
        receiver(bad.in_sequence(bad.response(200, {"Connection": "close"}))) as served,
        webhook_client(lookup=lambda _: [next(addresses)]) as client,
    ):
        first = await send(client, served.url("moving.test"), "whk_1")
        second = await send(client, served.url("moving.test"), "whk_2")
    assert first.succeeded
    assert (second.error_class, second.address) == ("blocked_address", None)
    assert "169.254.169.254" in (second.error or "")
    assert SETTING in (second.error or "")


async def test_the_permitted_address_of_a_name_is_dialled() -> None:
    async with (
        receiver(responds(200)) as served,
        webhook_client(lookup=lambda _: ["10.0.0.1", "127.0.0.2", "127.0.0.1"]) as client,
    ):
        attempt = await send(client, served.url("two.test"))
    assert attempt.address == f"127.0.0.1:{served.port}"
    assert attempt.succeeded


# Blocked addresses

ODD_HOSTS = [
    *("127.0.0.1", "127.1", "0x7f.1", "2130706433", "0177.0.0.1", "0x7f000001", "0", "0x7f.1."),
    *("[::1]", "[::]", "[::ffff:127.0.0.1]", "[64:ff9b::7f00:1]", "[2002:7f00:1::]"),
    *("[fe80::1%25lo]", "[::1%25lo]", "[::127.0.0.1]", "127.0.0.1.", "127.0.0.1..", "256.1.1.1"),
    *("127%2e0%2e0%2e1", "127.0.0.%31", "１２７.0.0.1", "127。0。0。1", "①②⑦.0.0.1", "%00"),  # noqa: RUF001 - that is the trick
    *("127.0.0.1%00.example.com", "localhost", "169.254.169.254", "10.0.0.1", "a@127.0.0.1"),
    *("127.0.0.1\\@example.com", "[::1", "", "foo bar", "1" * 20),
]


@pytest.mark.parametrize("scheme", ["https", "http"])
@pytest.mark.parametrize("host", ODD_HOSTS)
async def test_no_spelling_of_an_internal_address_is_dialled(scheme: str, host: str) -> None:
    async with receiver(responds(200)) as served, webhook_client(NOTHING) as client:
        attempt = await send(client, f"{scheme}://{host}:{served.port}/hook")
        assert attempt.error_class == "blocked_address", attempt
        assert attempt.address is None
        assert attempt.error
        assert attempt.error.isprintable()
        assert served.connections == 0


@pytest.mark.parametrize("url", ["", "hook", "ftp://127.0.0.1/", "https:///a", "http://a:99999/"])
async def test_a_url_that_is_not_http_is_refused(url: str) -> None:
    async with webhook_client() as client:
        attempt = await send(client, url)
    assert attempt.error_class == "blocked_address"
    assert (attempt.error or "").startswith("the URL is invalid")


async def test_http_only_reaches_listed_addresses() -> None:
    async with webhook_client(LOOPBACK, lookup=lambda _: ["8.8.8.8"]) as client:
        for host in ("8.8.8.8", "public.test"):
            attempt = await send(client, f"http://{host}/")
            assert (attempt.error_class, attempt.address) == ("blocked_address", None)
            assert (attempt.error or "").endswith(
                "8.8.8.8 is not a listed address; AGENTJOBS_WEBHOOKS_ALLOW lists what may "
                "be reached, and http is limited to these"
            )


# Proxies


@asynccontextmanager
async def connect_proxy(port: int, refusal: bytes = b"") -> AsyncIterator[Receiver]:
    """Joins every tunnel to 127.0.0.1:port, whatever it was asked for."""

    async def behave(connection: bad.Connection) -> None:
        await connection.request()
        if refusal:
            await connection.send(refusal)
            await connection.until_closed()
            return
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        await connection.send(b"HTTP/1.1 200 Connection established\r\n\r\n")
        try:
            async with asyncio.TaskGroup() as both:
                both.create_task(_pump(connection.reader, writer))
                both.create_task(_pump(reader, connection.writer))
        except* OSError:
            pass
        finally:
            writer.transport.abort()

    async with receiver(behave) as served:
        yield served


async def _pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while data := await reader.read(65_536):
        writer.write(data)
        await writer.drain()
    writer.transport.abort()


@pytest.mark.parametrize("run", LOOPS)
def test_https_uses_the_proxy_which_resolves_names(run: Run, authority: Authority) -> None:
    async def check() -> None:
        tls = authority.certificate("hooks.test")
        async with (
            receiver(responds(200), tls) as served,
            connect_proxy(served.port) as proxy,
            webhook_client(
                NOTHING, authority=authority, proxy=f"http://u:secret@127.0.0.1:{proxy.port}"
            ) as client,
        ):
            attempts = [await send(client, "https://hooks.test/hook") for _ in range(2)]
        assert [attempt.error for attempt in attempts] == [None, None]
        assert {attempt.address for attempt in attempts} == {f"127.0.0.1:{proxy.port}"}
        assert "Proxy-Authorization" not in str(attempts)
        [tunnel] = proxy.requests
        assert tunnel.head.startswith(b"CONNECT hooks.test:443 HTTP/1.1\r\n")
        assert "proxy-authorization" in tunnel.headers
        assert len(served.requests) == 2
        assert "proxy-authorization" not in served.requests[0].headers

    run(check())


async def test_the_proxy_is_not_asked_for_internal_addresses() -> None:
    async with (
        connect_proxy(1) as proxy,
        webhook_client(NOTHING, proxy=f"http://127.0.0.1:{proxy.port}") as client,
    ):
        for host in ("127.0.0.1", "0x7f.1", "[::1]", "169.254.169.254", "127.1", "2130706433"):
            attempt = await send(client, f"https://{host}/")
            assert (attempt.error_class, attempt.address) == ("blocked_address", None)
        assert proxy.connections == 0


async def test_http_does_not_use_the_proxy() -> None:
    async with (
        receiver(responds(200)) as served,
        connect_proxy(1) as proxy,
        webhook_client(proxy=f"http://127.0.0.1:{proxy.port}") as client,
    ):
        attempt = await send(client, served.url())
        assert attempt.address == f"127.0.0.1:{served.port}"
        assert attempt.succeeded
        assert proxy.connections == 0


async def test_a_proxy_that_refuses_is_a_connect_failure() -> None:
    async with (
        connect_proxy(1, bad.response(403, reason="Not You")) as proxy,
        webhook_client(proxy=f"http://127.0.0.1:{proxy.port}") as client,
    ):
        attempt = await send(client, "https://hooks.test/")
        assert attempt.error_class == "connect"
        assert attempt.error == "the proxy responded to CONNECT with 403 Not You"
        assert attempt.address == f"127.0.0.1:{proxy.port}"


async def test_an_unreachable_proxy_is_a_connect_failure() -> None:
    async with webhook_client(proxy=f"http://127.0.0.1:{bad.closed_port()}") as client:
        attempt = await send(client, "https://hooks.test/")
    assert attempt.error_class == "connect"
    assert "the proxy" in (attempt.error or "")


async def tunnels_to_nobody(connection: bad.Connection) -> None:
    await connection.request()
    await connection.send(b"HTTP/1.1 200 Connection established\r\n\r\n")
    await connection.reader.readexactly(5)


async def tunnels_to_plain_text(connection: bad.Connection) -> None:
    await connection.request()
    await connection.send(b"HTTP/1.1 200 Connection established\r\n\r\n")
    await bad.speaks_plain_text(connection)


BAD_PROXIES: dict[str, tuple[Behaviour, str]] = {
    "silent": (bad.never_responds, "timeout"),
    "not HTTP": (bad.sends(b"220 mail.test ESMTP\r\n"), "connect"),
    "closes": (bad.closes_after_request, "connect"),
    "resets": (bad.resets_after_request, "connect"),
    "one huge header": (bad.one_huge_header, "connect"),
    "a tunnel that is cut": (tunnels_to_nobody, "tls"),
    "a tunnel to plain text": (tunnels_to_plain_text, "tls"),
}


@pytest.mark.parametrize("run", LOOPS)
@pytest.mark.parametrize(("behaviour", "expected"), BAD_PROXIES.values(), ids=BAD_PROXIES)
def test_an_invalid_response_of_the_proxy_is_reported(
    run: Run, behaviour: Behaviour, expected: str
) -> None:
    async def check() -> None:
        limit = 0.3 if expected == "timeout" else 30
        async with (
            receiver(behaviour) as proxy,
            webhook_client(
                proxy=f"http://u:secret@127.0.0.1:{proxy.port}", connect_seconds=limit
            ) as client,
        ):
            attempt = await send(client, "https://hooks.test/")
        assert attempt.error_class == expected, attempt
        assert attempt.address == f"127.0.0.1:{proxy.port}"
        assert "secret" not in str(attempt)

    run(check())
