"""A worker's connection to the supervisor of a pod: mutually authenticated, alive or lost.

Passes on the output, each byte once and in order, over as many connections as it takes.
"""

import asyncio
import contextlib
import ipaddress
from collections import deque
from collections.abc import Callable, Mapping
from typing import Any, Protocol, TypeVar

from agentjobs_kubernetes.channels import Channel, ConnectionLost
from agentjobs_kubernetes.frames import ProtocolError
from agentjobs_kubernetes.messages import (
    VERSION,
    Ended,
    Failed,
    Hello,
    Message,
    Uploaded,
    decode_message,
    decode_request,
)
from agentjobs_kubernetes.multiplexer import Connection

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

Reply = TypeVar("Reply", bound=Message)


class RequestFailed(Exception):
    """The supervisor could not do it; the message says why."""


class Output(Protocol):
    """Receives the agent's output. `offset` counts what it has received.

    `may_skip`: an earlier worker has what comes before the first output.
    """

    offset: int
    may_skip: bool

    def receive(self, data: bytes) -> None: ...


# The channel, and the address that the agent connected to.
OnPort = Callable[[Channel, tuple[str, int]], None]


class Supervisor:
    """An open connection. `ended` is done when the agent is dead, `lost` when this connection is.

    Neither future has an exception.
    """

    def __init__(self, output: Output, on_port: OnPort, silence_seconds: float) -> None:
        loop = asyncio.get_running_loop()
        self._loop = loop
        self._output = output
        self._on_port = on_port
        self._silence_seconds = silence_seconds
        self.ended: asyncio.Future[Ended] = loop.create_future()
        self.lost: asyncio.Future[ConnectionLost] = loop.create_future()
        self._hello: asyncio.Future[Hello] = loop.create_future()
        self._requesting = asyncio.Lock()
        self._has_greeted = False
        self._greeted_at = loop.time()
        self._messages = 0
        self._acknowledged = 0
        self._reply: tuple[type[Any], asyncio.Future[Any]] | None = None
        self._abandoned: deque[type[Any]] = deque()
        self._uploads: dict[int, asyncio.Future[Uploaded]] = {}
        self._ack_timer: asyncio.TimerHandle | None = None
        self._ping_timer: asyncio.TimerHandle | None = None
        self.connection = Connection(self)

    @property
    def hello(self) -> Hello:
        return self._hello.result()

    async def greet(self, token: str) -> None:
        """Raises ConnectionLost."""
        self._has_greeted = True
        self._greeted_at = self._loop.time()
        self._acknowledged = self._output.offset
        self.connection.send_message(
            {
                "type": "hello",
                "version": VERSION,
                "token": token,
                "output_from": self._output.offset,
            }
        )
        await self._wait(self._hello)
        self._ping()

    async def request(self, message: Mapping[str, Any], reply: type[Reply]) -> Reply:
        """Raises RequestFailed and ConnectionLost."""
        async with self._requesting:
            future: asyncio.Future[Reply | Failed] = self._loop.create_future()
            self._reply = (reply, future)
            try:
                self.connection.send_message(message)
                async with asyncio.timeout(REQUEST_SECONDS):
                    answer = await self._wait(future)
            except TimeoutError:
                self.connection.abort("the supervisor does not reply")
                raise ConnectionLost("the supervisor does not reply") from None
            except asyncio.CancelledError:
                self._abandoned.append(reply)
                raise
            finally:
                self._reply = None
        if isinstance(answer, Failed):
            raise RequestFailed(answer.reason or "the supervisor gave no reason")
        return answer

    def send(self, type: str) -> None:
        """A message that has no reply."""
        self.connection.send_message({"type": type})

    def open(self, kind: str, **arguments: str | int | bool) -> Channel:
        """Raises ConnectionLost."""
        return self.connection.open({"kind": kind, **arguments})

    def open_upload(self, path: str, *, track: bool) -> Channel:
        """Raises ConnectionLost."""
        return self._awaiting_answer(self.open("upload", path=path, track=track))

    def open_store(self, max_bytes: int) -> Channel:
        """For an archive that the cache should keep, and is finished as an upload is.

        Raises ConnectionLost.
        """
        return self._awaiting_answer(self.open("store", max_bytes=max_bytes))

    def _awaiting_answer(self, channel: Channel) -> Channel:
        self._uploads[channel.number] = self._loop.create_future()
        return channel

    async def finish_upload(self, channel: Channel) -> Uploaded:
        """Raises RequestFailed and ConnectionLost."""
        channel.end()
        uploaded = await self._wait(self._uploads[channel.number])
        del self._uploads[channel.number]
        if uploaded.error is not None:
            raise RequestFailed(uploaded.error)
        return uploaded

    def close(self) -> None:
        self.connection.abort()

    def on_message(self, payload: bytes) -> None:
        # Until then, the peer is not known to be the supervisor.
        if not self._has_greeted:
            raise ProtocolError("the supervisor spoke first")
        self._messages += 1
        seconds = self._loop.time() - self._greeted_at
        if self._messages > MAX_MESSAGES + seconds * MAX_MESSAGES_PER_SECOND:
            raise ProtocolError("the supervisor sends too many messages")
        message = decode_message(payload)
        if not self._hello.done():
            self._receive_hello(message)
        elif isinstance(message, Ended):
            _resolve(self.ended, message)
        elif isinstance(message, Uploaded):
            self._receive_uploaded(message)
        elif isinstance(message, Failed) and message.channel:
            self.connection.fail_channel(message.channel, message.reason)
        elif self._abandoned and isinstance(message, (self._abandoned[0], Failed)):
            # Replies come in the order of their requests.
            self._abandoned.popleft()
        elif self._reply is not None and isinstance(message, (self._reply[0], Failed)):
            _resolve(self._reply[1], message)

    def on_output(self, offset: int, data: bytes) -> None:
        if not self._hello.done():
            raise ProtocolError("output came before the hello")
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

    def on_ack(self, offset: int) -> None:  # noqa: ARG002 - required by the protocol
        raise ProtocolError("a supervisor has nothing to acknowledge")

    def on_open(self, channel: Channel, request: bytes) -> None:
        match decode_request(request):
            case {"kind": "port", "number": int(number), **rest} if self._hello.done():
                self._on_port(channel, (_loopback(rest.get("address", "127.0.0.1")), number))
            case _:
                raise ProtocolError("a supervisor may open channels for ports only")

    def on_lost(self, error: ConnectionLost) -> None:
        for timer in (self._ack_timer, self._ping_timer):
            if timer is not None:
                timer.cancel()
        _resolve(self.lost, error)

    def _receive_hello(self, message: Message) -> None:
        if not isinstance(message, Hello):
            raise ProtocolError("the first message is not a hello")
        if message.version != VERSION:
            raise ProtocolError(f"the supervisor speaks version {message.version}, not {VERSION}")
        _resolve(self._hello, message)

    def _receive_uploaded(self, message: Uploaded) -> None:
        if message.channel in self._uploads:
            _resolve(self._uploads[message.channel], message)

    def _ack(self) -> None:
        self._ack_timer = None
        self._acknowledged = self._output.offset
        self.connection.send_ack(self._acknowledged)

    def _ping(self) -> None:
        if self._loop.time() - self.connection.last_received > self._silence_seconds:
            self.connection.abort("the supervisor has gone silent")
            return
        self.send("ping")
        self._ping_timer = self._loop.call_later(PING_SECONDS, self._ping)

    async def _wait(self, future: asyncio.Future[Reply]) -> Reply:
        await asyncio.wait((future, self.lost), return_when=asyncio.FIRST_COMPLETED)
        if not future.done():
            raise self.lost.result()
        return future.result()


def _loopback(address: object) -> str:
    """The same text. Raises ProtocolError for anything else."""
    with contextlib.suppress(ValueError):
        if isinstance(address, str) and ipaddress.ip_address(address).is_loopback:
            return address
    raise ProtocolError("a port of a pod has a loopback address only")


def _resolve(future: asyncio.Future[Any], result: object) -> None:
    if not future.done():
        future.set_result(result)
