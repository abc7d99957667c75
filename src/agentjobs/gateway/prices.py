"""What models cost, in billionths of a US dollar per token, so that sums are exact.

Owns the lookup: the operator's table first, then our own. Knows nothing of budgets.
"""

import math
import re
from collections.abc import Iterable, Sequence
from decimal import ROUND_CEILING, Decimal

import msgspec

from agentjobs.gateway.default_prices import DEFAULT_PRICES, LONG_PROMPTS
from agentjobs.gateway.upstream import names
from agentjobs.gateway.usage import Usage
from agentjobs.settings import Settings, fault_at
from agentjobs.settings.tables import PriceTable

# Anthropic asks 1.25 times the input price for five minutes in the cache and twice for an hour.
_HOUR_TO_FIVE_MINUTES = Decimal("1.6")
# A snapshot costs what its model does.
_DATE = re.compile(r"-20\d\d-?\d\d-?\d\d$")


class Price(msgspec.Struct, frozen=True, kw_only=True):
    """Of one model. `long_prompt` is from how many input tokens on `beyond` holds instead."""

    input: int
    output: int
    cached_input: int
    cache_write: int
    max_output_tokens: int = 0
    long_prompt: int = 0
    beyond: "Price | None" = None

    @property
    def long_cache_write(self) -> int:
        if self.cache_write <= self.input:
            return self.cache_write
        return _ceiling(self.cache_write * _HOUR_TO_FIVE_MINUTES)

    def of(self, usage: Usage) -> int:
        price = self._for_prompt(usage.input)
        return (
            usage.fresh * price.input
            + usage.cached * price.cached_input
            + usage.cache_write * price.cache_write
            + usage.long_cache_write * price.long_cache_write
            + usage.output * price.output
        )

    def at_most(self, input_tokens: int, output_tokens: int, *, long_cache: bool) -> int:
        """Whichever way the provider counts the input."""
        price = self._for_prompt(input_tokens)
        dearest = max(price.input, price.cached_input, price.cache_write)
        if long_cache:
            dearest = max(dearest, price.long_cache_write)
        return input_tokens * dearest + output_tokens * price.output

    def _for_prompt(self, input_tokens: int) -> "Price":
        return self.beyond if self.beyond and input_tokens > self.long_prompt else self


class Prices:
    def __init__(self, tables: Sequence[PriceTable]) -> None:
        self._lists = (_listed(tables), _listed(DEFAULT_PRICES, LONG_PROMPTS))

    def get(self, model: str) -> Price | None:
        """An exact name before a pattern, the operator's before ours."""
        own, ours = self._lists
        return _find(own, model) or _find(ours, _DATE.sub("", model))


def prices_of(settings: Settings) -> Prices:
    """Raises SettingsError, with the line of a price that cannot be meant."""
    for index, table in enumerate(settings.prices):
        for field in ("input", "output", "cached_input", "cache_write", "max_output_tokens"):
            value = getattr(table, field)
            if value is not None and not (
                0 <= value <= _MAX_USD_PER_MILLION and math.isfinite(value)
            ):
                path = f"prices[{index}].{field}"
                raise fault_at(
                    settings, path, f"must be a number between 0 and {_MAX_USD_PER_MILLION:,}"
                )
    return Prices(settings.prices)


_MAX_USD_PER_MILLION = 1_000_000
_List = list[tuple[str, Price]]


def _find(prices: _List, model: str) -> Price | None:
    exact = (price for name, price in prices if name == model)
    matching = (price for name, price in prices if names(name, model))
    return next(exact, None) or next(matching, None)


def _listed(
    tables: Iterable[PriceTable], long_prompts: Sequence[tuple[str, int, PriceTable]] = ()
) -> _List:
    beyond = {name: (tokens, table) for name, tokens, table in long_prompts}
    return [(table.model, _price(table, *beyond.get(table.model, (0, None)))) for table in tables]


def _price(table: PriceTable, long_prompt: int = 0, beyond: PriceTable | None = None) -> Price:
    cached = table.input if table.cached_input is None else table.cached_input
    written = table.input if table.cache_write is None else table.cache_write
    return Price(
        input=_per_token(table.input),
        output=_per_token(table.output),
        cached_input=_per_token(cached),
        cache_write=_per_token(written),
        max_output_tokens=table.max_output_tokens,
        long_prompt=long_prompt,
        beyond=None if beyond is None else _price(beyond),
    )


def _per_token(usd_per_million: float) -> int:
    # By way of the text, so that 0.1 is a tenth and not a little more.
    return _ceiling(Decimal(str(usd_per_million)) * 1_000)


def _ceiling(value: Decimal) -> int:
    return int(value.to_integral_value(ROUND_CEILING))
