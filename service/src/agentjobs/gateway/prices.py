"""Prices of models in billionths of a US dollar per token, so that sums are exact.

Looks a model up in the operator's table, then in the built-in one. Knows nothing about budgets.
"""

import math
import re
from collections.abc import Iterable, Sequence
from decimal import ROUND_CEILING, Decimal

import msgspec

from agentjobs.gateway.default_prices import DEFAULT_PRICES, LONG_PROMPTS
from agentjobs.gateway.usage import Usage
from agentjobs_runtime.settings import Settings, fault_at
from agentjobs_runtime.settings.tables import PriceTable
from agentjobs_runtime.upstream import matches_model

# Anthropic charges 1.25 times the input price for five minutes in the cache, twice for an hour.
_HOUR_TO_FIVE_MINUTES = Decimal("1.6")
# A dated snapshot costs the same as its model.
_DATE = re.compile(r"-20\d\d-?\d\d-?\d\d$")


class Price(msgspec.Struct, frozen=True, kw_only=True):
    """The price of one model. Above `long_prompt_tokens`, `long_prompt_price` applies instead."""

    input: int
    output: int
    cached_input: int
    cache_write: int
    max_output_tokens: int = 0
    long_prompt_tokens: int = 0
    long_prompt_price: "Price | None" = None

    @property
    def long_cache_write(self) -> int:
        if self.cache_write <= self.input:
            return self.cache_write
        return _ceiling(self.cache_write * _HOUR_TO_FIVE_MINUTES)

    def cost(self, usage: Usage) -> int:
        price = self._for_prompt(usage.input)
        return (
            usage.uncached * price.input
            + usage.cached * price.cached_input
            + usage.cache_write * price.cache_write
            + usage.long_cache_write * price.long_cache_write
            + usage.output * price.output
        )

    def max_cost(self, input_tokens: int, output_tokens: int, *, long_cache: bool) -> int:
        """The highest cost, however the provider classifies the input tokens."""
        price = self._for_prompt(input_tokens)
        dearest = max(price.input, price.cached_input, price.cache_write)
        if long_cache:
            dearest = max(dearest, price.long_cache_write)
        return input_tokens * dearest + output_tokens * price.output

    def _for_prompt(self, input_tokens: int) -> "Price":
        return (
            self.long_prompt_price
            if self.long_prompt_price and input_tokens > self.long_prompt_tokens
            else self
        )


class Prices:
    def __init__(self, tables: Sequence[PriceTable]) -> None:
        self._lists = (_price_list(tables), _price_list(DEFAULT_PRICES, LONG_PROMPTS))

    def get(self, model: str) -> Price | None:
        """An exact name precedes a pattern, the operator's price precedes the built-in one."""
        configured, built_in = self._lists
        return _find(configured, model) or _find(built_in, _DATE.sub("", model))


def load_prices(settings: Settings) -> Prices:
    """Raises SettingsError with the line of a price that is out of range."""
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
    matching = (price for name, price in prices if matches_model(name, model))
    return next(exact, None) or next(matching, None)


def _price_list(
    tables: Iterable[PriceTable], long_prompts: Sequence[tuple[str, int, PriceTable]] = ()
) -> _List:
    long_prompt_price = {name: (tokens, table) for name, tokens, table in long_prompts}
    return [
        (table.model, _price(table, *long_prompt_price.get(table.model, (0, None))))
        for table in tables
    ]


def _price(
    table: PriceTable, long_prompt_tokens: int = 0, long_prompt_price: PriceTable | None = None
) -> Price:
    cached = table.input if table.cached_input is None else table.cached_input
    written = table.input if table.cache_write is None else table.cache_write
    return Price(
        input=_per_token(table.input),
        output=_per_token(table.output),
        cached_input=_per_token(cached),
        cache_write=_per_token(written),
        max_output_tokens=table.max_output_tokens,
        long_prompt_tokens=long_prompt_tokens,
        long_prompt_price=None if long_prompt_price is None else _price(long_prompt_price),
    )


def _per_token(usd_per_million: float) -> int:
    # Converted through text, so that 0.1 is exactly a tenth.
    return _ceiling(Decimal(str(usd_per_million)) * 1_000)


def _ceiling(value: Decimal) -> int:
    return int(value.to_integral_value(ROUND_CEILING))
