"""One attempt of a delivery: what is sent and kept, connections, and bad receivers."""

import asyncio
import json
from importlib.metadata import version
from pathlib import Path

import msgspec
import pytest

from agentjobs.webhooks import attempt as attempts
from agentjobs.webhooks.attempt import WebhookClient
from agentjobs.webhooks.untrusted_http import pool
from tests.support import bad_receivers as bad
from tests.support.bad_receivers import Behaviour, receiver, responds
from tests.support.delivery_attempts import (
    AT_MS,
    BODY,
    LOOPS,
    NOTHING,
    Run,
    one_attempt,
    send,
    webhook_client,
)

# Requests and stored responses


async def test_an_attempt_keeps_the_exact_request_and_response() -> None:
    attempt, served = await one_attempt(
        responds(200, {"X-Answer": "caf\xe9", "X-Two": "2"}, b"thank you")
    )
    [request] = served.requests
    assert request.head.startswith(b"POST /hook?a=b HTTP/1.1\r\n")
    assert request.body == BODY
    assert request.headers["user-agent"] == f"agentjobs/{version('agentjobs')}"
    assert request.headers["accept-encoding"] == "identity"
    assert request.headers["content-type"] == "application/json"
    assert request.headers["x-service-event"] == "job.queued"
    assert {name.lower(): value for name, value in attempt.request_headers} == request.headers
    assert attempt.succeeded
    assert (attempt.error_class, attempt.error) == (None, None)
    assert attempt.status_code == 200
    assert attempt.response_body == b"thank you"
    assert attempt.response_header("x-two") == "2"
    assert attempt.response_header("x-answer") == "caf�"
    assert attempt.address == f"127.0.0.1:{served.port}"
    assert attempt.at == AT_MS
    assert attempt.duration_ms >= 0
    assert json.loads(msgspec.json.encode(attempt.request_headers))


@pytest.mark.parametrize("status", [200, 201, 202, 204, 299])
async def test_every_2xx_is_a_success(status: int) -> None:
    attempt, _ = await one_attempt(responds(status))
    assert attempt.succeeded
    assert attempt.status_code == status


@pytest.mark.parametrize("status", [400, 401, 404, 410, 429, 500, 503, 599, 999])
async def test_any_other_status_is_a_failure_with_its_response(status: int) -> None:
    attempt, _ = await one_attempt(responds(status, {"X-Why": "no"}, b"because"))
    assert (attempt.error_class, attempt.status_code) == ("http_status", status)
    assert attempt.error == f"the receiver responded with {status} Said"
    assert attempt.response_body == b"because"
    assert attempt.response_header("X-Why") == "no"


@pytest.mark.parametrize("status", [300, 301, 302, 303, 304, 307, 308])
async def test_a_redirect_is_not_followed_and_fails(status: int) -> None:
    attempt, served = await one_attempt(bad.redirects(status))
    assert (attempt.error_class, attempt.status_code) == ("redirect", status)
    assert "http://169.254.169.254/" in (attempt.error or "")
    assert len(served.requests) == 1


@pytest.mark.parametrize("retry_after", bad.RETRY_AFTER.values(), ids=bad.RETRY_AFTER)
async def test_retry_after_is_kept_unchanged(retry_after: str) -> None:
    attempt, _ = await one_attempt(bad.too_many(retry_after))
    assert attempt.status_code == 429
    assert attempt.response_header("retry-after") == retry_after


async def test_a_receiver_that_fails_three_times_succeeds_the_fourth_time() -> None:
    async with receiver(bad.fails_thrice()) as served, webhook_client() as client:
        seen = [(await send(client, served.url())).status_code for _ in range(4)]
    assert seen == [500, 500, 500, 200]


async def test_control_characters_of_a_receiver_are_escaped() -> None:
    attempt, _ = await one_attempt(
        bad.sends(
            b"HTTP/1.1 500 \x1b[31mred\xff\r\nX-A: \xed\xa0\x80\x1b\r\nContent-Length: 0\r\n\r\n"
        )
    )
    kept_text = f"{attempt.error}{attempt.response_headers}"
    kept_text.encode()
    assert "\0" not in kept_text
    assert "\x1b" not in (attempt.error or "")


async def test_the_first_hundred_headers_are_logged() -> None:
    attempt, _ = await one_attempt(responds(200, {f"X-{n}": "x" for n in range(120)}))
    assert attempt.succeeded
    assert len(attempt.response_headers) == 100


async def test_at_most_sixteen_kib_of_headers_are_logged() -> None:
    long_ones = {f"X-Long-{number}": "x" * 7_000 for number in range(12)}

    attempt, _ = await one_attempt(responds(200, long_ones))

    assert attempt.succeeded
    assert [name for name, _ in attempt.response_headers] == ["X-Long-0", "X-Long-1"]


# Connections


async def test_a_connection_is_reused_and_its_address_logged() -> None:
    async with receiver(responds(200, body=b"x" * 5_000)) as served, webhook_client() as client:
        results = [await send(client, served.url()) for _ in range(5)]
        assert {attempt.address for attempt in results} == {f"127.0.0.1:{served.port}"}
        assert (served.connections, len(served.requests)) == (1, 5)


async def test_a_response_that_is_not_read_whole_only_costs_the_connection() -> None:
    body = b"x" * 100_000
    async with receiver(responds(200, body=body)) as served, webhook_client() as client:
        results = [await send(client, served.url()) for _ in range(2)]
    assert [attempt.response_body for attempt in results] == [body[:16_384]] * 2
    assert served.connections == 2


async def test_endpoints_share_no_connection() -> None:
    async with receiver(responds(200)) as served, webhook_client() as client:
        for endpoint in ("whk_1", "whk_2", "whk_1", "whk_2"):
            assert (await send(client, served.url(), endpoint)).succeeded
        assert served.connections == 2


async def test_the_number_of_idle_connections_is_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pool, "MAX_IDLE", 2)
    async with receiver(responds(200)) as served, webhook_client() as client:
        for endpoint in ("a", "b", "c", "a", "b", "c"):
            assert (await send(client, served.url(), endpoint)).succeeded
        # Only those of c were closed after their response.
        assert served.connections == 4


async def test_a_connection_in_use_is_not_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pool, "MAX_IDLE", 1)
    may_answer = asyncio.Event()

    async def waits(connection: bad.Connection) -> None:
        await connection.request()
        await may_answer.wait()
        await connection.send(bad.response(200))

    async with (
        receiver(waits) as slow,
        receiver(responds(200)) as quick,
        webhook_client() as client,
    ):
        waiting = asyncio.create_task(send(client, slow.url(), "slow"))
        await slow.until(lambda it: bool(it.requests))
        for endpoint in ("a", "b"):
            assert (await send(client, quick.url(), endpoint)).succeeded
        may_answer.set()
        assert (await waiting).succeeded


async def test_an_endpoint_can_change_its_url() -> None:
    async with (
        receiver(responds(200)) as first,
        receiver(responds(201)) as second,
        webhook_client() as client,
    ):
        seen = [(await send(client, target.url())).status_code for target in (first, second, first)]
    assert seen == [200, 201, 200]


async def test_a_cancelled_attempt_leaves_no_connection() -> None:
    async with receiver(bad.never_responds) as served, webhook_client() as client:
        waiting = asyncio.create_task(send(client, served.url()))
        await served.until(lambda it: bool(it.requests))
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting


# Bad receivers, on both event loops

CUT_OFF: dict[str, tuple[Behaviour, str]] = {
    # A race between the reset and the check of the new connection.
    "reset at once": (bad.resets_at_once, "protocol or connect"),
    "reset after the request's head": (bad.resets_after_request_head, "protocol"),
    "reset after the request": (bad.resets_after_request, "protocol"),
    "reset within the head": (bad.resets_mid_head, "protocol"),
    "closed after the request": (bad.closes_after_request, "protocol"),
    "not HTTP": (bad.sends(b"220 mail.test ESMTP\r\n"), "protocol"),
    "a NUL in a header": (
        bad.sends(b"HTTP/1.1 200 OK\r\nX-A: a\0b\r\nContent-Length: 0\r\n\r\n"),
        "protocol",
    ),
    "half a head": (bad.sends(b"HTTP/1.1 200 OK\r\nX-Half: "), "protocol"),
    "two lengths": (
        bad.sends(b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nab"),
        "protocol",
    ),
    "one huge header": (bad.one_huge_header, "protocol"),
    "many headers": (bad.many_headers, "protocol"),
    "endless interim answers": (bad.endless_interim_responses, "protocol"),
}


@pytest.mark.parametrize("run", LOOPS)
@pytest.mark.parametrize(("behaviour", "expected"), CUT_OFF.values(), ids=CUT_OFF)
def test_a_cut_connection_or_invalid_http_fails(
    run: Run, behaviour: Behaviour, expected: str
) -> None:
    async def check() -> None:
        attempt, served = await one_attempt(behaviour)
        assert attempt.error_class in expected.split(" or "), attempt
        assert attempt.status_code is None
        assert attempt.address == f"127.0.0.1:{served.port}"
        assert attempt.error
        assert len(attempt.error) <= 500
        assert attempt.error.isprintable()

    run(check())


ENDLESS: dict[str, Behaviour] = {
    "endless body": bad.endless_body,
    "endless answers": bad.endless_responses,
    "an endless chunk extension": bad.endless_chunk_extension,
}


@pytest.mark.parametrize("run", LOOPS)
@pytest.mark.parametrize("behaviour", ENDLESS.values(), ids=ENDLESS)
def test_only_the_beginning_of_a_long_response_is_read(
    run: Run, behaviour: Behaviour, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The length limit applies, not the time limit.
    monkeypatch.setattr(attempts, "BODY_SECONDS", 90)

    async def check() -> None:
        attempt, _ = await one_attempt(behaviour)
        assert attempt.succeeded, attempt
        assert len(attempt.response_body) <= 16_384

    run(check())


@pytest.mark.parametrize("run", LOOPS)
def test_nothing_is_decompressed(run: Run) -> None:
    async def check() -> None:
        attempt, _ = await one_attempt(bad.gzip_bomb)
        assert attempt.response_body[:2] == b"\x1f\x8b"
        assert len(attempt.response_body) == 16_384

    run(check())


@pytest.mark.parametrize("run", LOOPS)
@pytest.mark.parametrize(
    "behaviour", [bad.never_responds, bad.drips_head(0.05)], ids=["silent", "dripping"]
)
def test_a_late_response_head_fails(run: Run, behaviour: Behaviour) -> None:
    async def check() -> None:
        attempt, served = await one_attempt(behaviour, timeout_seconds=0.4, connect_seconds=0.4)
        assert attempt.error_class == "timeout"
        assert attempt.error == "no response headers within 0.4 seconds"
        assert attempt.address == f"127.0.0.1:{served.port}"
        # uvloop counts whole milliseconds and includes the current one.
        assert attempt.duration_ms >= 398
        assert len(served.requests) == 1

    run(check())


@pytest.mark.parametrize("run", LOOPS)
def test_a_late_body_is_not_a_failure(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(attempts, "BODY_SECONDS", 0.3)

    async def check() -> None:
        attempt, _ = await one_attempt(bad.drips_body(0.05))
        assert attempt.succeeded, attempt
        assert 0 < len(attempt.response_body) < 10_000

    run(check())


@pytest.mark.parametrize("run", LOOPS)
def test_endless_trailers_end_the_attempt(run: Run) -> None:
    async def check() -> None:
        attempt, _ = await one_attempt(bad.endless_trailers)
        # Trailers read together with the head are a protocol error.
        assert attempt.error_class in (None, "protocol"), attempt

    run(check())


@pytest.mark.parametrize("run", LOOPS)
def test_a_truncated_body_is_not_a_failure(run: Run) -> None:
    async def check() -> None:
        head_was_read = asyncio.Event()
        async with (
            receiver(bad.resets_mid_body(head_was_read)) as served,
            webhook_client() as client,
        ):
            waiting = asyncio.create_task(send(client, served.url()))
            await served.until(lambda it: bool(it.requests))
            head_was_read.set()
            attempt = await waiting
        assert (attempt.status_code, attempt.error_class) == (200, None)

    run(check())


@pytest.mark.parametrize("run", LOOPS)
def test_a_closed_port_is_a_connect_failure(run: Run) -> None:
    async def check() -> None:
        port = bad.closed_port()
        async with webhook_client() as client:
            attempt = await send(client, f"http://127.0.0.1:{port}/")
        assert attempt.error_class == "connect"
        assert attempt.address == f"127.0.0.1:{port}"
        assert "could not connect to the receiver" in (attempt.error or "")

    run(check())


async def test_a_flood_of_interim_responses_does_not_delay_other_receivers() -> None:
    async with (
        receiver(bad.endless_interim_responses) as flood,
        receiver(responds(200)) as good,
        webhook_client() as client,
    ):
        floods = [asyncio.create_task(send(client, flood.url(), "flood")) for _ in range(8)]
        assert (await send(client, good.url(), "good")).succeeded
        assert {(await task).error_class for task in floods} == {"protocol"}


async def test_a_silent_endpoint_does_not_delay_others() -> None:
    async with (
        receiver(bad.never_responds) as silent,
        receiver(responds(200)) as good,
        webhook_client() as client,
    ):
        waiting = [asyncio.create_task(send(client, silent.url(), "silent")) for _ in range(50)]
        await silent.until(lambda it: len(it.requests) == 50)
        for _ in range(20):
            assert (await send(client, good.url(), "good")).succeeded
        for task in waiting:
            task.cancel()
        await asyncio.wait(waiting)


async def test_certificates_that_cannot_be_read_are_named(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="AGENTJOBS_CA_FILE"):
        WebhookClient(
            NOTHING, ca_file=str(tmp_path / "none.pem"), timeout_seconds=1, connect_seconds=1
        )
