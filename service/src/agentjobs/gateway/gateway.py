"""The model gateway of one job: an HTTP server that adds the provider's key and enforces budgets.

Forwards three endpoints and nothing else. The modules beside this one make the decisions.
"""

import asyncio
import logging
import secrets
import time
from collections.abc import Callable

import aiohttp
from aiohttp import web
from opentelemetry.trace import Span

from agentjobs.gateway.budget import Budget, Charge
from agentjobs.gateway.calls import Call, parse, prepare, read_model
from agentjobs.gateway.endpoints import Endpoint, check_token, find_endpoint
from agentjobs.gateway.ledger import Ledger
from agentjobs.gateway.measured_prompts import MeasuredPrompts
from agentjobs.gateway.prices import Price, Prices
from agentjobs.gateway.relay import Relay, UpstreamError
from agentjobs.gateway.trace import call_span, record_response, record_usage
from agentjobs.gateway.usage import CallReport
from agentjobs_runtime.sandbox_http.bodies import BodyReader
from agentjobs_runtime.sandbox_http.errors import RequestRefused, error_body
from agentjobs_runtime.sandbox_http.notes import limit_notes
from agentjobs_runtime.sandbox_http.port_server import CLOSE_SECONDS, PortServer
from agentjobs_runtime.tracing.spans import current_traceparent
from agentjobs_runtime.upstream import Upstream

TOKEN_PREFIX = "sk-agentjobs-"  # noqa: S105 - no secret without its rest
_SLOW_SECONDS = 0.05

_log = logging.getLogger(__name__)


class Gateway:
    """`token` is the agent's API key, which is valid only for this gateway. By default, nobody
    knows it before.

    `on_note` receives lines for the job's log, `on_budget_exceeded` the reason to end the job,
    `on_call` each call when it has ended.
    Calls belong to the trace that is current when the gateway is created.
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
        on_call: Callable[[CallReport], None] | None = None,
        token: str | None = None,
    ) -> None:
        self.token = token or f"{TOKEN_PREFIX}{secrets.token_hex(24)}"
        self._upstream = upstream
        self._prices = prices
        self._budget = Budget(ledger, on_budget_exceeded)
        self._note = limit_notes(on_note)
        self._on_call = on_call
        self._relay = Relay(session, upstream, self._note)
        self._measured = MeasuredPrompts()
        self._traceparent = current_traceparent()
        self._body_reader = BodyReader()
        self._parse_lock = asyncio.Lock()
        self._server = PortServer(self._handle)
        self.protocol = self._server.protocol

    async def close(self) -> None:
        """Close all connections and wait, with a timeout, until usage is stored."""
        await self._server.close()
        await self._budget.close(CLOSE_SECONDS)

    async def _handle(self, request: web.BaseRequest) -> web.StreamResponse:
        try:
            return await self._accept(request)
        except UpstreamError as error:
            self._note(error.note)
            return self._refusal(error)
        except RequestRefused as refused:
            return self._refusal(refused)
        except Exception:  # noqa: BLE001 - a fault of ours must not look like one of the agent
            _log.exception("a model request failed")
            return self._refusal(
                RequestRefused(500, "internal_error", "the gateway failed; try again")
            )

    async def _accept(self, request: web.BaseRequest) -> web.StreamResponse:
        check_token(request, self.token)
        endpoint = find_endpoint(request, self._upstream.api)
        raw = await self._body_reader.read(request)
        try:
            return await self._forward(request, endpoint, raw)
        finally:
            self._body_reader.release(len(raw))

    async def _forward(
        self, request: web.BaseRequest, endpoint: Endpoint, raw: bytes
    ) -> web.StreamResponse:
        call, price = await self._prepare_alone(endpoint, raw)
        with call_span(self._upstream, call, self._traceparent) as span:
            charge = await self._budget.reserve(call, price)
            started, status = time.monotonic(), None
            try:
                response = await self._relay.forward(request, call, charge)
                status = response.status
                record_response(span, status)
                return response
            finally:
                self._settle(call, charge, span)
                self._report(call, price, charge, status, time.monotonic() - started)

    def _settle(self, call: Call, charge: Charge, span: Span) -> None:
        record_usage(span, charge)
        if charge.usage is not None:
            self._measured.record(call.prompt_digests, charge.input_tokens)
        self._budget.settle(charge)

    def _report(
        self, call: Call, price: Price | None, charge: Charge, status: int | None, seconds: float
    ) -> None:
        if self._on_call is not None:
            report = CallReport(
                model=call.model,
                status=status,
                usage=charge.usage,
                cost_nanousd=None if price is None else charge.nanousd,
                duration_ms=int(seconds * 1_000),
            )
            self._on_call(report)

    async def _prepare_alone(self, endpoint: Endpoint, raw: bytes) -> tuple[Call, Price | None]:
        """One at a time, with a pause after a slow one, so that the event loop stays responsive."""
        async with self._parse_lock:
            started = time.perf_counter()
            try:
                return self._prepare(endpoint, raw)
            finally:
                seconds = time.perf_counter() - started
                if seconds > _SLOW_SECONDS:
                    await asyncio.sleep(seconds * 4)

    def _prepare(self, endpoint: Endpoint, raw: bytes) -> tuple[Call, Price | None]:
        body = parse(raw)
        model = read_model(body, self._upstream)
        price = self._find_price(model)
        output_limit_field = endpoint.output_limit_field(self._upstream)
        has_limit = self._budget.applies
        call = prepare(
            endpoint,
            body,
            model,
            price,
            output_limit_field,
            has_limit=has_limit,
            measured=self._measured,
        )
        return call, price

    def _find_price(self, model: str) -> Price | None:
        price = self._prices.get(model)
        if price is None and self._budget.applies:
            message = f"the model {model[:100]} has no price, so the budget cannot be enforced"
            self._note(f"{message}: add a [[prices]] table for it to agentjobs.toml")
            raise RequestRefused(403, "model_without_price", message)
        if price is None:
            self._note(f"the model {model[:100]} has no price: its requests count as free")
        return price

    def _refusal(self, refused: RequestRefused) -> web.Response:
        headers = {} if refused.is_retryable else {"x-should-retry": "false"}
        body = error_body(self._upstream.api, refused)
        return web.Response(
            status=refused.status, body=body, headers=headers, content_type="application/json"
        )
