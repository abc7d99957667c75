"""The tables of `agentjobs.toml` with their keys, types and defaults."""

from typing import Any

import msgspec


class PlanTable(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A plan, `[[plans]]` in the file; later plans rank higher."""

    name: str
    concurrent_jobs: int


class AgentTable(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """An agent, `[[agents]]` in the file: a command, or a preset with overrides.

    Empty values default to the preset's value, or to the service's.
    """

    id: str = ""
    name: str = ""
    description: str = ""
    command: list[str] = []
    preset: str = ""
    executable: str = ""
    arguments: list[str] = []
    plan_required: str = "free"
    tags: list[str] = []
    max_concurrent_jobs: int | None = None
    timeout_seconds: int = 3600
    environment: dict[str, str] = {}
    network: list[str] = []
    limits: dict[str, int | float] = {}
    model_api: str = ""
    model_url: str = ""
    model: str = ""
    models: list[str] = []
    secret: str = ""
    max_cost_usd: float | None = None
    verify: list[str] = []
    on_verify_failure: str = "draft"
    result: str = "pull_request"
    # A JSON Schema, or the path of a file with one.
    result_schema: str | dict[str, Any] = ""
    # For its pods, if agents run in pods.
    runtime_class: str = ""
    node_selector: dict[str, str] = {}
    tolerations: list[dict[str, str | int]] = []


class PriceTable(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The price of a model in USD per million tokens, `[[prices]]` in the file.

    `model` may contain `*`. Cached tokens cost the input price unless given.
    """

    model: str
    input: float
    output: float
    cached_input: float | None = None
    cache_write: float | None = None
    max_output_tokens: int = 0


DEFAULT_PLANS = (PlanTable("free", 1), PlanTable("pro", 5), PlanTable("enterprise", 50))
