"""A worker's connection to a supervisor, over TLS."""

import asyncio
import contextlib
from collections.abc import AsyncIterator

import pytest

from agentjobs_kubernetes import connection as connection_module
from agentjobs_kubernetes import dial
from agentjobs_kubernetes.channels import Channel, ConnectionLost
from agentjobs_kubernetes.connection import RequestFailed, Supervisor
from agentjobs_kubernetes.credentials import Credentials, new_credentials
from agentjobs_kubernetes.dial import connect
from agentjobs_kubernetes.frames import FrameType
from agentjobs_kubernetes.messages import Ended, Ports, Prepared
from tests.support.sandbox import eventually
from tests.support.scripted_supervisor import ScriptedSupervisor, descriptors


class KeptOutput:
    def __init__(self, offset: int = 0, *, may_skip: bool = False) -> None:
        self.offset = offset
        self.may_skip = may_skip
        self.data = b""

    def receive(self, data: bytes) -> None:
        self.offset += len(data)
        self.data += data


def no_port(channel: Channel, address: tuple[str, int]) -> None:
    raise AssertionError((channel, address))


@pytest.fixture(scope="module")
def credentials() -> Credentials:
    return new_credentials()


@pytest.fixture
async def supervisor(credentials: Credentials) -> AsyncIterator[ScriptedSupervisor]:
    async with ScriptedSupervisor(credentials).serve() as supervisor:
        yield supervisor


@contextlib.asynccontextmanager
async def connected(
    supervisor: ScriptedSupervisor,
    credentials: Credentials,
    output: KeptOutput | None = None,
    silence_seconds: float = 60,
) -> AsyncIterator[Supervisor]:
    worker = await connect(
        supervisor.address, credentials, output or KeptOutput(), no_port, silence_seconds
    )
    try:
        yield worker
    finally:
        worker.close()


async def test_a_worker_greets_with_its_token_and_learns_the_state(
    supervisor: ScriptedSupervisor, credentials: Credentials
) -> None:
    async with connected(supervisor, credentials, KeptOutput(7)) as worker:
        assert (worker.hello.state, worker.hello.architecture) == ("new", "x86_64")
        assert supervisor.greeting == [
            {"type": "hello", "version": 1, "token": credentials.token, "output_from": 7}
        ]
        assert not worker.ended.done()


async def test_another_certificate_never_gets_the_token(credentials: Credentials) -> None:
    before = descriptors()
    async with ScriptedSupervisor(new_credentials()).serve() as impostor:
        with pytest.raises(ConnectionLost, match="not the supervisor of this run"):
            await connect(impostor.address, credentials, KeptOutput(), no_port, 60)
        await impostor.lost.get()
        assert impostor.greeting == []
    await eventually(lambda: descriptors() == before)


async def test_where_nobody_listens_a_connection_fails_at_once(credentials: Credentials) -> None:
    before = descriptors()
    with pytest.raises(ConnectionLost, match=r"127\.64\.0\.9"):
        await connect("127.64.0.9", credentials, KeptOutput(), no_port, 60)
    assert descriptors() == before


async def test_a_peer_that_never_answers_costs_a_bounded_time(
    supervisor: ScriptedSupervisor, credentials: Credentials, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dial, "HELLO_SECONDS", 0.2)
    supervisor.is_silent = True
    with pytest.raises(ConnectionLost, match="no answer"):
        await connect(supervisor.address, credentials, KeptOutput(), no_port, 60)
    await supervisor.lost.get()


@pytest.mark.parametrize(
    ("hello", "reason"),
    [
        ({"type": "pong"}, "not a hello"),
        ({"version": 2}, "version 2"),
        ({"state": "asleep"}, "cannot be read"),
        ({"type": "surprise"}, "cannot be read"),
    ],
)
async def test_a_wrong_hello_is_a_lost_connection(
    supervisor: ScriptedSupervisor, credentials: Credentials, hello: dict[str, str], reason: str
) -> None:
    supervisor.hello |= hello
    with pytest.raises(ConnectionLost, match=reason):
        await connect(supervisor.address, credentials, KeptOutput(), no_port, 60)


async def test_a_request_gets_its_reply_or_the_reason_why_not(
    supervisor: ScriptedSupervisor, credentials: Credentials
) -> None:
    async with connected(supervisor, credentials) as worker:
        requests = [
            asyncio.ensure_future(worker.request({"type": "list_ports"}, Ports)),
            asyncio.ensure_future(worker.request({"type": "prepare"}, Prepared)),
        ]
        assert await supervisor.next_message() == {"type": "list_ports"}
        assert supervisor.messages.empty()
        supervisor.say("ports", ports=[80, 8080])
        assert (await requests[0]).ports == [80, 8080]
        await supervisor.next_message()
        supervisor.say("failed", reason="port 80 is in use")
        with pytest.raises(RequestFailed, match="port 80 is in use"):
            await requests[1]


async def test_the_reply_to_a_cancelled_request_is_not_taken_for_the_next_one(
    supervisor: ScriptedSupervisor, credentials: Credentials
) -> None:
    async with connected(supervisor, credentials) as worker:
        cancelled, request = (
            asyncio.ensure_future(worker.request({"type": "list_ports"}, Ports)) for _ in range(2)
        )
        await supervisor.next_message()
        cancelled.cancel()
        await supervisor.next_message()
        supervisor.say("ports", ports=[80])
        supervisor.say("ports", ports=[81])
        assert (await request).ports == [81]


async def test_output_arrives_once_and_is_acknowledged(
    supervisor: ScriptedSupervisor, credentials: Credentials
) -> None:
    output = KeptOutput(3)
    async with connected(supervisor, credentials, output):
        supervisor.connection.send_output(3, b"abc")
        supervisor.connection.send_output(4, b"bcde")
        assert await supervisor.acks.get() == 8
        assert output.data == b"abcde"


async def test_a_gap_in_the_output_is_a_lost_connection(
    supervisor: ScriptedSupervisor, credentials: Credentials
) -> None:
    async with connected(supervisor, credentials) as worker:
        supervisor.connection.send_output(1, b"abc")
        assert "is missing" in str(await worker.lost)


async def test_who_follows_an_earlier_worker_gets_what_that_did_not_acknowledge(
    supervisor: ScriptedSupervisor, credentials: Credentials
) -> None:
    output = KeptOutput(may_skip=True)
    async with connected(supervisor, credentials, output) as worker:
        supervisor.connection.send_output(100, b"abc")
        assert await supervisor.acks.get() == 103
        assert output.data == b"abc"
        supervisor.connection.send_output(104, b"e")
        assert "is missing" in str(await worker.lost)


async def test_the_end_is_known_by_its_message(
    supervisor: ScriptedSupervisor, credentials: Credentials
) -> None:
    ended = {"exit_code": 3, "exceeded": None, "duration_ms": 5}
    supervisor.hello |= {"state": "ended", "ended": ended}
    async with connected(supervisor, credentials) as worker:
        assert not worker.ended.done()
        supervisor.say("ended", **ended)
        assert await worker.ended == Ended(exit_code=3, duration_ms=5)


async def test_an_upload_is_confirmed_or_refused(
    supervisor: ScriptedSupervisor, credentials: Credentials
) -> None:
    async with connected(supervisor, credentials) as worker:
        for error in (None, "no space left"):
            channel = worker.open_upload("/workspace", track=True)
            await channel.write(b"tar")
            finishing = asyncio.ensure_future(worker.finish_upload(channel))
            received, request = await supervisor.opened.get()
            assert request == {"kind": "upload", "path": "/workspace", "track": True}
            assert [await received.read(), await received.read()] == [b"tar", b""]
            supervisor.say("uploaded", channel=received.number, entries=1, error=error)
            if error is None:
                assert (await finishing).entries == 1
            else:
                with pytest.raises(RequestFailed, match=error):
                    await finishing


async def test_connections_of_the_agent_arrive_with_their_port(
    supervisor: ScriptedSupervisor, credentials: Credentials
) -> None:
    opened: asyncio.Queue[tuple[Channel, tuple[str, int]]] = asyncio.Queue()
    worker = await connect(
        supervisor.address,
        credentials,
        KeptOutput(),
        lambda channel, address: opened.put_nowait((channel, address)),
        60,
    )
    inside = supervisor.connection.open({"kind": "port", "number": 443, "address": "127.88.0.1"})
    channel, address = await opened.get()
    await channel.write(b"hello")
    assert (await inside.read(), address) == (b"hello", ("127.88.0.1", 443))
    supervisor.connection.open({"kind": "download", "path": "/etc"})
    assert "ports only" in str(await worker.lost)


async def test_a_silent_supervisor_is_lost_and_a_waiting_request_ends(
    supervisor: ScriptedSupervisor, credentials: Credentials, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connection_module, "PING_SECONDS", 0.02)
    async with connected(supervisor, credentials) as worker:
        request = asyncio.ensure_future(worker.request({"type": "prepare"}, Prepared))
        await supervisor.next_message()
        supervisor.is_silent = True
        # Earlier, a busy machine could end the connection before the request.
        worker._silence_seconds = 0.2
        with pytest.raises(ConnectionLost, match="silent"):
            await request


async def test_pings_keep_a_quiet_connection_alive(
    supervisor: ScriptedSupervisor, credentials: Credentials, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connection_module, "PING_SECONDS", 0.01)
    async with connected(supervisor, credentials, silence_seconds=5) as worker:
        first = worker.connection.last_received
        await eventually(lambda: worker.connection.last_received > first)
        assert not worker.lost.done()


async def test_a_message_that_nests_too_deeply_is_a_lost_connection(
    supervisor: ScriptedSupervisor, credentials: Credentials
) -> None:
    async with connected(supervisor, credentials) as worker:
        nested = b'{"type":"pong","x":' + b"[" * 200_000 + b"]" * 200_000 + b"}"
        supervisor.connection.send(FrameType.MESSAGE, 0, nested)
        assert "cannot be read" in str(await worker.lost)


async def test_a_cancelled_connect_leaves_no_descriptor(
    supervisor: ScriptedSupervisor, credentials: Credentials
) -> None:
    before = descriptors()
    supervisor.is_silent = True
    for step in range(20):
        connecting = asyncio.ensure_future(
            connect(supervisor.address, credentials, KeptOutput(), no_port, 60)
        )
        await asyncio.wait({connecting}, timeout=step * 0.0005)
        connecting.cancel()
        await asyncio.wait({connecting})
        assert connecting.cancelled()
    await eventually(lambda: descriptors() == before)


async def test_a_supervisor_that_never_stops_talking_is_cut_off(
    supervisor: ScriptedSupervisor, credentials: Credentials
) -> None:
    async with connected(supervisor, credentials) as worker:
        for _ in range(3_000):
            supervisor.say("pong")
        assert "too many messages" in str(await worker.lost)


async def test_output_that_does_not_wait_for_acknowledgements_is_cut_off(
    supervisor: ScriptedSupervisor, credentials: Credentials, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connection_module, "ACK_SECONDS", 60)
    output = KeptOutput()
    async with connected(supervisor, credentials, output) as worker:
        for number in range(100):
            supervisor.connection.send_output(number * 65_536, bytes(65_536))
        assert "does not wait" in str(await worker.lost)
        assert len(output.data) <= connection_module.MAX_UNACKNOWLEDGED_BYTES


@pytest.mark.parametrize("address", ["10.0.0.1", "localhost", "", 7, None])
async def test_a_port_has_a_loopback_address_only(
    supervisor: ScriptedSupervisor, credentials: Credentials, address: object
) -> None:
    async with connected(supervisor, credentials) as worker:
        supervisor.connection.open({"kind": "port", "number": 443, "address": address})
        assert "loopback address only" in str(await worker.lost)


@pytest.mark.parametrize(
    "message",
    [
        {"type": "ended", "exit_code": 256},
        {"type": "ended", "exit_code": 0, "duration_ms": -1},
        {"type": "ended", "exit_code": 0, "exceeded": "patience"},
        {"type": "ports", "ports": [0]},
        {"type": "ports", "ports": list(range(1, 100))},
        {"type": "failed", "reason": "x" * 70_000},
    ],
)
async def test_values_out_of_range_are_cut_off(
    supervisor: ScriptedSupervisor, credentials: Credentials, message: dict[str, object]
) -> None:
    async with connected(supervisor, credentials) as worker:
        supervisor.connection.send_message(message)
        assert "cannot be read" in str(await worker.lost)


async def test_a_request_without_a_reply_ends_the_connection(
    supervisor: ScriptedSupervisor, credentials: Credentials, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connection_module, "REQUEST_SECONDS", 0.05)
    async with connected(supervisor, credentials) as worker:
        with pytest.raises(ConnectionLost, match="does not reply"):
            await worker.request({"type": "prepare"}, Prepared)
        assert worker.lost.done()
