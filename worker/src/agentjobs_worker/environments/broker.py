"""Ports of one run's sandbox that answer for private hosts over plain HTTP.

Each port forwards to its host over HTTPS and adds the credential, which the sandbox never sees.
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Sequence

import aiohttp
from aiohttp import web
from yarl import URL

from agentjobs_runtime.environments.brokered_host import BrokeredHost, CredentialHeader
from agentjobs_runtime.outbound.guard.addresses import join_host_port
from agentjobs_runtime.outbound.guard.failures import describe_failure
from agentjobs_runtime.sandbox_http.bodies import invite_body, read_chunk
from agentjobs_runtime.sandbox_http.errors import RequestRefused
from agentjobs_runtime.sandbox_http.notes import limit_notes
from agentjobs_runtime.sandbox_http.port_server import PortServer, abort
from agentjobs_worker.environments.brokered_messages import BrokeredResponse, server_headers
from agentjobs_worker.sandbox.protocol import SandboxPort

CONNECT_SECONDS = 10
SILENCE_SECONDS = 120
_TIMEOUT = aiohttp.ClientTimeout(
    total=None, sock_connect=CONNECT_SECONDS, sock_read=SILENCE_SECONDS
)
_BODILESS = ("GET", "HEAD")

_log = logging.getLogger(__name__)


class Broker:
    """`session` dials only permitted addresses; `on_note` receives lines for the run's log."""

    def __init__(
        self,
        hosts: Sequence[BrokeredHost],
        *,
        session: aiohttp.ClientSession,
        on_note: Callable[[str], None],
        first_port: int,
    ) -> None:
        note = limit_notes(on_note)
        self._servers = [PortServer(_Forwarder(host, session, note).handle) for host in hosts]
        self.ports: tuple[SandboxPort, ...] = tuple(
            SandboxPort(number=number, protocol=server.protocol, environment=host.environment)
            for number, (host, server) in enumerate(
                zip(hosts, self._servers, strict=True), start=first_port
            )
        )

    async def close(self) -> None:
        """Aborts all connections."""
        await asyncio.gather(*(server.close() for server in self._servers))


class _Forwarder:
    def __init__(
        self, host: BrokeredHost, session: aiohttp.ClientSession, on_note: Callable[[str], None]
    ) -> None:
        self._host = host
        self._session = session
        self._on_note = on_note

    async def handle(self, request: web.BaseRequest) -> web.StreamResponse:
        try:
            return await self._forward(request)
        except RequestRefused as refused:
            self._on_note(f"{self._host.name}: {refused.message}")
            return _refusal(refused)
        except Exception:  # noqa: BLE001 - a fault of ours must not look like one of the agent
            _log.exception("a request to a brokered host failed")
            return _refusal(RequestRefused(500, "internal_error", "the broker failed; try again"))

    async def _forward(self, request: web.BaseRequest) -> web.StreamResponse:
        credential = self._check(request)
        try:
            answer = await self._send(request, credential)
        except (aiohttp.ClientError, TimeoutError, OSError, ValueError) as error:
            raise self._failure(error) from None
        async with answer:
            self._check_answer(answer)
            return await self._stream(request, answer)

    def _check(self, request: web.BaseRequest) -> CredentialHeader:
        if reason := self._host.refusal(request.method, request.raw_path):
            raise RequestRefused(403, "not_allowed", reason)
        if request.method in _BODILESS and request.body_exists:
            raise RequestRefused(403, "not_allowed", f"a {request.method} request has no body")
        credential = self._host.credential
        if credential is None:
            message = "its value is not printable ASCII text"
            raise RequestRefused(502, "credential_unusable", f"{message}; {self._replace_hint}")
        return credential

    async def _send(
        self, request: web.BaseRequest, credential: CredentialHeader
    ) -> aiohttp.ClientResponse:
        return await self._session.request(
            request.method,
            URL(f"{self._host.origin}{request.raw_path}", encoded=True),
            headers=server_headers(request, credential),
            data=_body(request) if request.body_exists else None,
            skip_auto_headers=("Accept", "Content-Type", "User-Agent"),
            allow_redirects=False,
            timeout=_TIMEOUT,
        )

    def _failure(self, error: Exception) -> RequestRefused:
        if isinstance(error.__cause__, RequestRefused):
            return error.__cause__
        if isinstance(error, aiohttp.ClientResponseError):
            # Its message has parts of the response, in which the host may repeat the credential.
            return RequestRefused(502, "invalid", f"the response of {self._host.host} is not HTTP")
        status = 504 if isinstance(error, TimeoutError) else 502
        message = f"{self._host.host} cannot be reached: {describe_failure(error)}"
        return RequestRefused(status, "unreachable", message)

    def _check_answer(self, answer: aiohttp.ClientResponse) -> None:
        if answer.status == 401:
            # Clients would ask their user for a password, and there is none to ask.
            message = f"{self._host.host} rejected the credential; {self._replace_hint}"
            raise RequestRefused(403, "credential_rejected", message)
        if answer.status < 200:
            message = f"{self._host.host} responded with status {answer.status}"
            raise RequestRefused(502, "unreachable", message)

    async def _stream(
        self, request: web.BaseRequest, answer: aiohttp.ClientResponse
    ) -> web.StreamResponse:
        brokered = BrokeredResponse(self._host, _address(request), request.raw_path, answer)
        response = web.StreamResponse(status=answer.status, headers=brokered.headers)
        try:
            await response.prepare(request)
            async for chunk in answer.content.iter_any():
                if passed := brokered.feed(chunk):
                    await response.write(passed)
            if rest := brokered.end():
                await response.write(rest)
            await response.write_eof()
        except (aiohttp.ClientError, TimeoutError):
            abort(request)
        return response

    @property
    def _replace_hint(self) -> str:
        return f"an admin can replace it with `agentjobs secrets set {self._host.name}`"


def _refusal(refused: RequestRefused) -> web.Response:
    return web.Response(status=refused.status, text=f"agentjobs: {refused.message}\n")


async def _body(request: web.BaseRequest) -> AsyncIterator[bytes]:
    invite_body(request)
    while chunk := await read_chunk(request):
        yield chunk


def _address(request: web.BaseRequest) -> str:
    """The address that the client connected to."""
    assert request.transport is not None
    host, port, *_ = request.transport.get_extra_info("sockname")
    return join_host_port(host, port)
