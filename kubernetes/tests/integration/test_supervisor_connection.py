"""A worker's connection to a supervisor, over TLS."""

import asyncio
import contextlib
import re
from collections.abc import AsyncIterator
from types import NoneType
from typing import Any

import msgspec
import pytest

from agentjobs_kubernetes import connection as connection_module
from agentjobs_kubernetes.connection import Supervisor, connect
from agentjobs_kubernetes.credentials import Credentials, new_credentials
from agentjobs_kubernetes.frames import FrameType
from agentjobs_kubernetes.messages import Ended, Ports
from agentjobs_kubernetes.stream import ConnectionLost, RequestFailed, Stream
from tests.support.sandbox import eventually
from tests.support.scripted_supervisor import ScriptedSupervisor, descriptors


class Greeter(asyncio.Protocol):
    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        transport.write(b"hello")


class KeptOutput:
    def __init__(self, offset: int = 0, *, may_skip: bool = False) -> None:
        self.offset = offset
        self.may_skip = may_skip
        self.data = b""

    def receive(self, data: bytes) -> None:
        self.offset += len(data)
        self.data += data


def no_port(_address: tuple[str, int]) -> None:
    return None


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
            {"version": 2, "token": credentials.token, "type": "hello", "offset": 7}
        ]
        assert not worker.ended.done()


async def test_another_certificate_never_gets_the_token(credentials: Credentials) -> None:
    before = descriptors()
    async with ScriptedSupervisor(new_credentials()).serve() as impostor:
        with pytest.raises(ConnectionLost, match="certificate verify failed"):
            await connect(impostor.address, credentials, KeptOutput(), no_port, 60)
        assert impostor.accepted == 0
    await eventually(lambda: descriptors() == before)


async def test_where_nobody_listens_a_connection_fails_at_once(credentials: Credentials) -> None:
    before = descriptors()
    with pytest.raises(ConnectionLost, match=r"127\.64\.0\.9"):
        await connect("127.64.0.9", credentials, KeptOutput(), no_port, 60)
    assert descriptors() == before


async def test_a_peer_that_never_answers_costs_a_bounded_time(
    supervisor: ScriptedSupervisor, credentials: Credentials, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connection_module, "HELLO_SECONDS", 0.2)
    supervisor.is_silent = True
    with pytest.raises(ConnectionLost, match="no answer"):
        await connect(supervisor.address, credentials, KeptOutput(), no_port, 60)
    await supervisor.lost.get()


@pytest.mark.parametrize(
    ("hello", "reason"),
    [
        ({"type": "pong"}, "not a hello"),
        ({"version": 3}, "version 3"),
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
            asyncio.ensure_future(worker.request({"type": "prepare"}, NoneType)),
        ]
        first, second = await supervisor.next_message(), await supervisor.next_message()
        assert (first["type"], second["type"]) == ("list_ports", "prepare")
        supervisor.say("failed", id=second["id"], reason="port 80 is in use")
        supervisor.say("done", id=first["id"], result={"ports": [80, 8080]})
        assert (await requests[0]).ports == [80, 8080]
        with pytest.raises(RequestFailed, match="port 80 is in use"):
            await requests[1]


async def test_the_reply_to_a_cancelled_request_is_not_taken_for_the_next_one(
    supervisor: ScriptedSupervisor, credentials: Credentials
) -> None:
    async with connected(supervisor, credentials) as worker:
        cancelled, request = (
            asyncio.ensure_future(worker.request({"type": "list_ports"}, Ports)) for _ in range(2)
        )
        ids = [(await supervisor.next_message())["id"] for _ in range(2)]
        cancelled.cancel()
        for number, port in zip(ids, (80, 81), strict=True):
            supervisor.say("done", id=number, result={"ports": [port]})
        assert (await request).ports == [81]


async def test_output_arrives_once_and_is_acknowledged(
    supervisor: ScriptedSupervisor, credentials: Credentials
) -> None:
    output = KeptOutput(3)
    async with connected(supervisor, credentials, output):
        supervisor.send_output(3, b"abc")
        supervisor.send_output(4, b"bcde")
        assert await supervisor.acks.get() == 8
        assert output.data == b"abcde"


async def test_a_gap_in_the_output_is_a_lost_connection(
    supervisor: ScriptedSupervisor, credentials: Credentials
) -> None:
    async with connected(supervisor, credentials) as worker:
        supervisor.send_output(1, b"abc")
        assert "is missing" in str(await worker.lost)


async def test_who_follows_an_earlier_worker_gets_what_that_did_not_acknowledge(
    supervisor: ScriptedSupervisor, credentials: Credentials
) -> None:
    output = KeptOutput(may_skip=True)
    async with connected(supervisor, credentials, output) as worker:
        supervisor.send_output(100, b"abc")
        assert await supervisor.acks.get() == 103
        assert output.data == b"abc"
        supervisor.send_output(104, b"e")
        assert "is missing" in str(await worker.lost)


async def test_the_end_is_known_by_its_message(
    supervisor: ScriptedSupervisor, credentials: Credentials
) -> None:
    ended = {"exit_code": 3, "exceeded": None, "duration_ms": 5}
    supervisor.hello |= {"state": "ended"}
    async with connected(supervisor, credentials) as worker:
        assert not worker.ended.done()
        supervisor.say("ended", **ended)
        assert await worker.ended == Ended(exit_code=3, duration_ms=5)


async def test_an_upload_is_confirmed_or_refused(
    supervisor: ScriptedSupervisor, credentials: Credentials
) -> None:
    async def send(stream: Stream) -> str:
        await stream.write(b"tar")
        return "sent"

    async with connected(supervisor, credentials) as worker:
        for error in (None, "no space left"):
            uploading = asyncio.ensure_future(worker.upload(send, "upload", path="/workspace"))
            received, request = await supervisor.opened.get()
            del request["version"]
            assert request.pop("token") == credentials.token
            assert request == {"type": "upload", "session": 1, "path": "/workspace"}
            assert [await received.read(), await received.read()] == [b"tar", b""]
            if error is None:
                received.end()
                assert await uploading == "sent"
            else:
                received.send_message(msgspec.json.encode({"type": "failed", "reason": error}))
                with pytest.raises(RequestFailed, match=error):
                    await uploading


async def test_a_refusal_ends_an_upload_early(
    supervisor: ScriptedSupervisor, credentials: Credentials
) -> None:
    async def send_forever(stream: Stream) -> None:
        while True:
            await stream.write(bytes(65_536))

    async with connected(supervisor, credentials) as worker:
        uploading = asyncio.ensure_future(worker.upload(send_forever, "upload"))
        received, _ = await supervisor.opened.get()
        received.send_message(b'{"type":"failed","reason":"no space left"}')
        with pytest.raises(RequestFailed, match="no space left"):
            await uploading


async def test_streams_end_with_their_connection(
    supervisor: ScriptedSupervisor, credentials: Credentials
) -> None:
    async with connected(supervisor, credentials) as worker, worker.open("download") as stream:
        reading = asyncio.ensure_future(stream.read())
        await supervisor.opened.get()
        supervisor.say("surprise")
        with pytest.raises(ConnectionLost):
            await reading
        with pytest.raises(ConnectionLost, match="cannot be read"):
            async with worker.open("download"):
                pass


async def test_a_stream_that_breaks_off_has_no_end(
    supervisor: ScriptedSupervisor, credentials: Credentials
) -> None:
    async with connected(supervisor, credentials) as worker, worker.open("download") as stream:
        other, _ = await supervisor.opened.get()
        await other.write(b"half")
        assert await stream.read() == b"half"
        other.close()
        with pytest.raises(ConnectionLost):
            await stream.read()
        assert not worker.lost.done()


async def test_connections_of_the_agent_arrive_with_their_port(
    supervisor: ScriptedSupervisor, credentials: Credentials
) -> None:
    opened: list[tuple[str, int]] = []

    def serve(address: tuple[str, int]) -> asyncio.BaseProtocol | None:
        opened.append(address)
        return Greeter() if address[1] == 443 else None

    worker = await connect(supervisor.address, credentials, KeptOutput(), serve, 60)
    supervisor.say("port", id=7, number=443, address="127.88.0.1")
    inside, request = await supervisor.opened.get()
    assert (request["type"], request["id"], request["session"]) == ("port", 7, 1)
    assert (await inside.read(), opened) == (b"hello", [("127.88.0.1", 443)])
    supervisor.say("port", id=8, number=80, address="127.0.0.1")
    assert "no connection to the port 80" in str(await worker.lost)
    with pytest.raises(ConnectionLost):
        await inside.read()


async def test_a_supervisor_has_a_bounded_number_of_connections_of_its_agent(
    supervisor: ScriptedSupervisor, credentials: Credentials, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connection_module, "MAX_PORT_CONNECTIONS", 5)
    address = supervisor.address
    worker = await connect(address, credentials, KeptOutput(), lambda _: Greeter(), 60)
    for number in range(6):
        supervisor.say("port", id=number, number=443, address="127.0.0.1")
    assert "no connection to the port 443" in str(await worker.lost)


async def test_a_silent_supervisor_is_lost_and_a_waiting_request_ends(
    supervisor: ScriptedSupervisor, credentials: Credentials, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connection_module, "PING_SECONDS", 0.02)
    async with connected(supervisor, credentials) as worker:
        request = asyncio.ensure_future(worker.request({"type": "prepare"}, NoneType))
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
        first = worker.last_received
        await eventually(lambda: worker.last_received > first)
        assert not worker.lost.done()


async def test_a_message_that_nests_too_deeply_is_a_lost_connection(
    supervisor: ScriptedSupervisor, credentials: Credentials
) -> None:
    async with connected(supervisor, credentials) as worker:
        nested = b'{"type":"pong","x":' + b"[" * 200_000 + b"]" * 200_000 + b"}"
        supervisor.send(FrameType.MESSAGE, nested)
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
            supervisor.send_output(number * 65_536, bytes(65_536))
        assert "does not wait" in str(await worker.lost)
        assert len(output.data) <= connection_module.MAX_UNACKNOWLEDGED_BYTES


@pytest.mark.parametrize("address", ["10.0.0.1", "localhost", "", 7, None])
async def test_a_port_has_a_loopback_address_only(
    supervisor: ScriptedSupervisor, credentials: Credentials, address: object
) -> None:
    async with connected(supervisor, credentials) as worker:
        supervisor.say("port", id=1, number=443, address=address)
        assert re.search("loopback address only|cannot be read", str(await worker.lost))


@pytest.mark.parametrize(
    "message",
    [
        {"type": "ended", "exit_code": 256},
        {"type": "ended", "exit_code": 0, "duration_ms": -1},
        {"type": "ended", "exit_code": 0, "exceeded": "patience"},
        {"type": "port", "id": 1, "number": 0, "address": "127.0.0.1"},
        {"type": "failed", "reason": "x" * 70_000},
    ],
)
async def test_values_out_of_range_are_cut_off(
    supervisor: ScriptedSupervisor, credentials: Credentials, message: dict[str, Any]
) -> None:
    async with connected(supervisor, credentials) as worker:
        supervisor.say(**message)
        assert "cannot be read" in str(await worker.lost)


@pytest.mark.parametrize("ports", [[0], list(range(1, 100)), "80"])
async def test_a_result_out_of_range_ends_the_connection(
    supervisor: ScriptedSupervisor, credentials: Credentials, ports: object
) -> None:
    async with connected(supervisor, credentials) as worker:
        request = asyncio.ensure_future(worker.request({"type": "list_ports"}, Ports))
        message = await supervisor.next_message()
        supervisor.say("done", id=message["id"], result={"ports": ports})
        with pytest.raises(ConnectionLost, match="cannot be read"):
            await request


async def test_a_request_without_a_reply_ends_the_connection(
    supervisor: ScriptedSupervisor, credentials: Credentials, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connection_module, "REQUEST_SECONDS", 0.05)
    async with connected(supervisor, credentials) as worker:
        with pytest.raises(ConnectionLost, match="does not reply"):
            await worker.request({"type": "prepare"}, NoneType)
        assert worker.lost.done()
