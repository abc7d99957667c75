"""The model gateway of one job: an HTTP server that adds the real key and keeps the budget.

Forwards three kinds of requests and nothing else. Composes; the decisions live beside it.
"""

import asyncio
import logging
import secrets
import time
from collections.abc import Callable
from typing import Any

import aiohttp
from aiohttp import web

from agentjobs.gateway.budget import Budget
from agentjobs.gateway.calls import Call, model_of, parse, prepare
from agentjobs.gateway.endpoints import Endpoint
from agentjobs.gateway.errors import RequestRefused, error_body
from agentjobs.gateway.ledger import Ledger
from agentjobs.gateway.prices import Price, Prices
from agentjobs.gateway.relay import Relay, UpstreamTrouble
from agentjobs.gateway.requests import Intake, check_token, endpoint_of
from agentjobs.gateway.upstream import Upstream

MAX_CONNECTIONS = 256
CLOSE_SECONDS = 10
_MAX_NOTES = 20
_KEEP_ALIVE_SECONDS = 75
_LINGER_SECONDS = 2
_AT_ONCE = 0.01
_LONG_SECONDS = 0.05

_log = logging.getLogger(__name__)
# aiohttp logs what agents garble with a traceback each; our own faults are logged below.
_NO_LOG = logging.Logger("unheard", logging.CRITICAL + 1)  # noqa: LOG001 - no handler may hear it


class Gateway:
    """`token` is the key the agent gets: it opens this gateway and nothing else.

    `on_note` takes lines for the job's log, `on_budget_exceeded` why the job must end.
    """

    def __init__(
        self,
        upstream: Upstream,
        *,
        session: aiohttp.ClientSession,
        prices: Prices,
        ledger: Ledger,
        on_note: Callable[[str], None],
        on_budget_exceeded: Callable[[str], None],
    ) -> None:
        self.token = f"sk-agentjobs-{secrets.token_hex(24)}"
        self._upstream = upstream
        self._prices = prices
        self._budget = Budget(ledger, on_budget_exceeded)
        self._relay = Relay(session, upstream, self._note)
        self._intake = Intake()
        self._judging = asyncio.Lock()
        self._on_note = on_note
        self._noted: set[str] = set()
        self._closed = False
        self._answering: set[asyncio.Task[Any]] = set()
        self._server = web.Server(
            self._answer,
            handler_cancellation=True,
            access_log=None,
            logger=_NO_LOG,
            auto_decompress=False,
            keepalive_timeout=_KEEP_ALIVE_SECONDS,
            lingering_time=_LINGER_SECONDS,
        )

    def protocol(self) -> asyncio.BaseProtocol:
        """For `loop.create_server`: one for each connection."""
        if self._closed or len(self._server.connections) >= MAX_CONNECTIONS:
            return _ClosedDoor()
        return self._server()

    async def close(self) -> None:
        """End every connection and wait, within bounds, until what was used is written down."""
        self._closed = True
        for task in self._answering:
            task.cancel()
        if self._answering:
            await asyncio.wait(self._answering, timeout=CLOSE_SECONDS)
        await self._server.shutdown(_AT_ONCE)
        await self._budget.close(CLOSE_SECONDS)

    async def _answer(self, request: web.BaseRequest) -> web.StreamResponse:
        task = asyncio.current_task()
        assert task is not None
        self._answering.add(task)
        try:
            return await self._admit(request)
        except UpstreamTrouble as trouble:
            self._note(trouble.note)
            return self._refusal(trouble)
        except RequestRefused as refused:
            return self._refusal(refused)
        except Exception:  # noqa: BLE001 - a fault of ours must not look like one of the agent
            _log.exception("a model request failed")
            return self._refusal(
                RequestRefused(500, "internal_error", "the gateway failed; try again")
            )
        finally:
            self._answering.discard(task)

    async def _admit(self, request: web.BaseRequest) -> web.StreamResponse:
        check_token(request, self.token)
        endpoint = endpoint_of(request, self._upstream.api)
        raw = await self._intake.read(request)
        try:
            return await self._forward(request, endpoint, raw)
        finally:
            self._intake.release(len(raw))

    async def _forward(
        self, request: web.BaseRequest, endpoint: Endpoint, raw: bytes
    ) -> web.StreamResponse:
        call, price = await self._judge_in_turn(endpoint, raw)
        charge = await self._budget.reserve(call, price)
        try:
            return await self._relay.pass_on(request, call, charge)
        finally:
            self._budget.settle(charge)

    async def _judge_in_turn(self, endpoint: Endpoint, raw: bytes) -> tuple[Call, Price | None]:
        """One at a time and with a rest after a huge one: the event loop is everybody's."""
        async with self._judging:
            begun = time.perf_counter()
            try:
                return self._judge(endpoint, raw)
            finally:
                took = time.perf_counter() - begun
                if took > _LONG_SECONDS:
                    await asyncio.sleep(took * 4)

    def _judge(self, endpoint: Endpoint, raw: bytes) -> tuple[Call, Price | None]:
        body = parse(raw)
        model = model_of(body, self._upstream)
        price = self._price_of(model)
        maximum_name = endpoint.maximum_name(self._upstream)
        limited = self._budget.applies
        return prepare(endpoint, body, model, price, maximum_name, limited=limited), price

    def _price_of(self, model: str) -> Price | None:
        price = self._prices.get(model)
        if price is None and self._budget.applies:
            message = f"the model {model[:100]} has no price, so no budget can be kept"
            self._note(f"{message}: add a [[prices]] table for it to agentjobs.toml")
            raise RequestRefused(403, "model_without_price", message)
        if price is None:
            self._note(f"the model {model[:100]} has no price: its requests are counted as free")
        return price

    def _refusal(self, refused: RequestRefused) -> web.Response:
        headers = {} if refused.again else {"x-should-retry": "false"}
        body = error_body(self._upstream.api, refused)
        return web.Response(
            status=refused.status, body=body, headers=headers, content_type="application/json"
        )

    def _note(self, text: str) -> None:
        """Once each, and not without end: the agent decides how often it is tried."""
        if text not in self._noted and len(self._noted) < _MAX_NOTES:
            self._noted.add(text)
            self._on_note(text)


class _ClosedDoor(asyncio.Protocol):
    """Says good-bye to a connection that there is no room for."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        transport.close()
