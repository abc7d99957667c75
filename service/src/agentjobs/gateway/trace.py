"""The span of a model call, named as OpenTelemetry's conventions for GenAI say.

Contains neither prompts nor responses.
"""

from contextlib import AbstractContextManager

from opentelemetry.trace import Span, SpanKind
from yarl import URL

from agentjobs.gateway.budget import Charge
from agentjobs.gateway.calls import Call
from agentjobs_runtime.money import NANOUSD_PER_USD
from agentjobs_runtime.safe_text import mask_unprintable
from agentjobs_runtime.tracing.spans import continue_trace, fail, set_attributes
from agentjobs_runtime.upstream import Upstream

_OPERATION = "chat"


def call_span(
    upstream: Upstream, call: Call, traceparent: str | None
) -> AbstractContextManager[Span]:
    url, model = URL(upstream.url), mask_unprintable(call.model)
    attributes = {
        "gen_ai.operation.name": _OPERATION,
        # The API, which servers of other providers have too.
        "gen_ai.provider.name": upstream.api,
        "gen_ai.request.model": model,
        "server.address": url.host,
        "server.port": url.port,
    }
    return continue_trace(f"{_OPERATION} {model}", traceparent, attributes, kind=SpanKind.CLIENT)


def record_response(span: Span, status: int) -> None:
    if status >= 400:
        fail(span, str(status))


def record_usage(span: Span, charge: Charge) -> None:
    usage = charge.usage
    if usage is not None:
        set_attributes(
            span,
            {
                "gen_ai.usage.input_tokens": usage.input,
                "gen_ai.usage.output_tokens": usage.output,
                "gen_ai.usage.cache_read.input_tokens": usage.cached,
                "gen_ai.usage.cache_creation.input_tokens": (
                    usage.cache_write + usage.long_cache_write
                ),
                "agentjobs.cost_usd": charge.nanousd / NANOUSD_PER_USD,
            },
        )
