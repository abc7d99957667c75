"""A worker's connection to the supervisor of a pod: mutually authenticated, alive or lost.

Passes on the output, each byte once and in order, over as many connections as it takes. Files and
connections of the agent have streams beside it, which end with it.
"""

import asyncio
import contextlib
import ipaddress
import itertools
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from typing import Any, TypeVar

import msgspec

from agentjobs_kubernetes.credentials import Credentials
from agentjobs_kubernetes.dial import CONNECT_SECONDS, HELLO_SECONDS, Endpoint
from agentjobs_kubernetes.frames import (
    MAX_MESSAGE_BYTES,
    OFFSET_FIELD,
    Frame,
    FrameType,
    ProtocolError,
)
from agentjobs_kubernetes.messages import (
    VERSION,
    Done,
    Ended,
    Failed,
    Hello,
    Port,
    decode_message,
    decode_result,
)
from agentjobs_kubernetes.port_connection import PortConnection
from agentjobs_kubernetes.run_output import RunOutput
from agentjobs_kubernetes.stream import ConnectionLost, RequestFailed, Stream
from agentjobs_worker.sandbox.child import wait_despite_cancellation

PING_SECONDS = 1.0
# The supervisor keeps up to 1 MiB that is not acknowledged. So this bounds endless output to about
# 13 MB/s, as the pause after a full chunk does in other sandboxes.
ACK_SECONDS = 0.08
# A supervisor that sends more does not wait for acknowledgements.
MAX_UNACKNOWLEDGED_BYTES = 4 * 1024 * 1024
# Enough for the baseline of a huge tree, which is taken when a command starts.
REQUEST_SECONDS = 300.0
# Far more than a supervisor sends, but not enough to occupy a worker.
MAX_MESSAGES = 1_000
MAX_MESSAGES_PER_SECOND = 100.0
# Connections of the agent, of which few are dialed at a time: the supervisor bounds them, too.
MAX_PORT_CONNECTIONS = 512
_MAX_DIALING = 8

Result = TypeVar("Result")


# What serves a connection of the agent to this address; None if it has no such port.
OnPort = Callable[[tuple[str, int]], asyncio.BaseProtocol | None]


async def connect(
    address: str,
    credentials: Credentials,
    output: RunOutput,
    on_port: OnPort,
    silence_seconds: float,
) -> "Supervisor":
    """Raises ConnectionLost if nothing that has the credentials answers."""
    endpoint = Endpoint(address, credentials)
    # A packet that is lost while the pod gets its network would cost a second at least.
    stream = await endpoint.open({"type": "hello", "offset": output.offset}, CONNECT_SECONDS)
    try:
        async with asyncio.timeout(HELLO_SECONDS):
            hello = _check_hello(await stream.next_frame())
    except ProtocolError as error:
        stream.close()
        raise ConnectionLost(f"{address}: {error}") from None
    except TimeoutError:
        stream.close()
        raise ConnectionLost(f"{address}: no answer in time") from None
    except BaseException:
        stream.close()
        raise
    return Supervisor(endpoint, stream, hello, output, on_port, silence_seconds)


class Supervisor:
    """An open connection. `ended` is done when the agent is dead, `lost` when this connection is.

    Neither future has an exception.
    """

    def __init__(
        self,
        endpoint: Endpoint,
        stream: Stream,
        hello: Hello,
        output: RunOutput,
        on_port: OnPort,
        silence_seconds: float,
    ) -> None:
        loop = asyncio.get_running_loop()
        self._loop = loop
        self._endpoint = endpoint
        self._stream = stream
        self.hello = hello
        self._output = output
        self._on_port = on_port
        self._silence_seconds = silence_seconds
        self.ended: asyncio.Future[Ended] = loop.create_future()
        self.lost: asyncio.Future[ConnectionLost] = loop.create_future()
        self.last_received = self._connected_at = loop.time()
        self._messages = 0
        self._acknowledged = output.offset
        self._ids = itertools.count(1)
        self._replies: dict[int, asyncio.Future[Done | Failed]] = {}
        self._streams: set[Stream] = set()
        self._ports: set[asyncio.Task[None]] = set()
        self._dialing = asyncio.Semaphore(_MAX_DIALING)
        self._ack_timer: asyncio.TimerHandle | None = None
        self._ping_timer: asyncio.TimerHandle | None = None
        self._reading = loop.create_task(self._read())
        self._ping()

    async def request(self, message: Mapping[str, Any], result: type[Result]) -> Result:
        """Raises RequestFailed, ConnectionLost, and ValueError for a message that is too long."""
        number = next(self._ids)
        self._replies[number] = self._loop.create_future()
        try:
            self._send({**message, "id": number})
            async with asyncio.timeout(REQUEST_SECONDS):
                reply = await self._wait(self._replies[number])
            if isinstance(reply, Failed):
                raise RequestFailed(reply.reason or "the supervisor gave no reason")
            return decode_result(reply, result)
        except (TimeoutError, ProtocolError) as error:
            lost = ConnectionLost(str(error) or "the supervisor does not reply")
            self._lose(lost)
            raise lost from None
        finally:
            del self._replies[number]

    def send(self, type: str) -> None:
        """A message that has no reply."""
        self._send({"type": type})

    @contextlib.asynccontextmanager
    async def open(self, type: str, **arguments: str | int | bool) -> AsyncIterator[Stream]:
        """A stream for one purpose. Raises ConnectionLost."""
        stream = await self._endpoint.open(
            {"type": type, "session": self.hello.session, **arguments}
        )
        self._streams.add(stream)
        try:
            if self.lost.done():
                raise self.lost.result()
            yield stream
        finally:
            self._streams.discard(stream)
            stream.close()

    async def upload(
        self, send: Callable[[Stream], Awaitable[Result]], type: str, **arguments: str | int | bool
    ) -> Result:
        """Returns what `send` returns. Raises RequestFailed, ConnectionLost, and what it raises."""
        async with self.open(type, **arguments) as stream:
            sending = asyncio.ensure_future(_send_all(send, stream))
            answer = asyncio.ensure_future(stream.read())
            try:
                # A refusal comes early.
                await asyncio.wait((sending, answer), return_when=asyncio.FIRST_COMPLETED)
                if answer.done():
                    answer.result()
                result = await sending
                await answer
                return result
            finally:
                for task in (sending, answer):
                    task.cancel()
                await wait_despite_cancellation(sending, answer)

    def close(self) -> None:
        self._lose(ConnectionLost("the connection was closed"))

    async def _read(self) -> None:
        try:
            while True:
                frame = await self._stream.next_frame()
                self.last_received = self._loop.time()
                self._receive(frame)
        except ConnectionLost as error:
            self._lose(error)
        except ProtocolError as error:
            self._lose(ConnectionLost(f"the peer broke the protocol: {error}"))

    def _receive(self, frame: Frame) -> None:
        if frame.type is FrameType.MESSAGE:
            self._receive_message(frame.payload)
        elif frame.type is FrameType.OUTPUT:
            offset = OFFSET_FIELD.unpack_from(frame.payload)[0]
            self._receive_output(offset, frame.payload[OFFSET_FIELD.size :])
        else:
            raise ProtocolError("data belongs into a stream")

    def _receive_message(self, payload: bytes) -> None:
        self._messages += 1
        seconds = self._loop.time() - self._connected_at
        if self._messages > MAX_MESSAGES + seconds * MAX_MESSAGES_PER_SECOND:
            raise ProtocolError("the supervisor sends too many messages")
        message = decode_message(payload)
        if isinstance(message, Ended):
            _resolve(self.ended, message)
        elif isinstance(message, Port):
            self._accept(message)
        elif isinstance(message, Done | Failed) and message.id in self._replies:
            _resolve(self._replies[message.id], message)

    def _receive_output(self, offset: int, data: bytes) -> None:
        if self._output.may_skip:
            self._output.offset = self._acknowledged = max(offset, self._output.offset)
            self._output.may_skip = False
        if offset > self._output.offset:
            raise ProtocolError("a part of the output is missing")
        data = data[self._output.offset - offset :]
        if self._output.offset + len(data) > self._acknowledged + MAX_UNACKNOWLEDGED_BYTES:
            raise ProtocolError("the output does not wait for acknowledgements")
        if data:
            self._output.receive(data)
            if self._ack_timer is None:
                self._ack_timer = self._loop.call_later(ACK_SECONDS, self._ack)

    def _accept(self, port: Port) -> None:
        address = (_loopback(port.address), port.number)
        protocol = self._on_port(address)
        if protocol is None or len(self._ports) >= MAX_PORT_CONNECTIONS:
            raise ProtocolError(f"no connection to the port {port.number} was expected")
        task = self._loop.create_task(self._serve(port.id, PortConnection(protocol, address)))
        self._ports.add(task)
        task.add_done_callback(self._ports.discard)

    async def _serve(self, number: int, port: PortConnection) -> None:
        hello = {"type": "port", "id": number, "session": self.hello.session}
        try:
            async with self._dialing:
                transport, _ = await self._endpoint.connect(hello, lambda: port)
        except ConnectionLost as error:
            self._lose(error)
            return
        try:
            port.start()
            await port.closed
        finally:
            transport.abort()

    def _lose(self, error: ConnectionLost) -> None:
        if self.lost.done():
            return
        self.lost.set_result(error)
        for timer in (self._ack_timer, self._ping_timer):
            if timer is not None:
                timer.cancel()
        for task in (self._reading, *self._ports):
            task.cancel()
        for stream in (self._stream, *self._streams):
            stream.close()

    def _send(self, message: Mapping[str, Any]) -> None:
        payload = msgspec.json.encode(message)
        if len(payload) > MAX_MESSAGE_BYTES:
            raise ValueError(f"a message of {len(payload)} bytes is too long")
        if not self.lost.done():
            self._stream.send_message(payload)

    def _ack(self) -> None:
        self._ack_timer = None
        self._acknowledged = self._output.offset
        self._send({"type": "ack", "offset": self._acknowledged})

    def _ping(self) -> None:
        if self._loop.time() - self.last_received > self._silence_seconds:
            self._lose(ConnectionLost("the supervisor has gone silent"))
            return
        self.send("ping")
        self._ping_timer = self._loop.call_later(PING_SECONDS, self._ping)

    async def _wait(self, future: asyncio.Future[Result]) -> Result:
        await asyncio.wait((future, self.lost), return_when=asyncio.FIRST_COMPLETED)
        if not future.done():
            raise self.lost.result()
        return future.result()


async def _send_all(send: Callable[[Stream], Awaitable[Result]], stream: Stream) -> Result:
    result = await send(stream)
    stream.end()
    return result


def _check_hello(frame: Frame) -> Hello:
    message = decode_message(frame.payload) if frame.type is FrameType.MESSAGE else None
    if not isinstance(message, Hello):
        raise ProtocolError("the first message is not a hello")
    if message.version != VERSION:
        raise ProtocolError(f"the supervisor speaks version {message.version}, not {VERSION}")
    return message


def _loopback(address: object) -> str:
    """The same text. Raises ProtocolError for anything else."""
    with contextlib.suppress(ValueError):
        if isinstance(address, str) and ipaddress.ip_address(address).is_loopback:
            return address
    raise ProtocolError("a port of a pod has a loopback address only")


def _resolve(future: asyncio.Future[Any], result: object) -> None:
    if not future.done():
        future.set_result(result)
