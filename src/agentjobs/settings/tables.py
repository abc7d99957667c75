"""The tables of `agentjobs.toml`: their keys, defaults and types. Features give them meaning."""

import msgspec


class PlanTable(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A plan, as `[[plans]]` in the file; their order is their rank."""

    name: str
    concurrent_jobs: int


class AgentTable(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """An agent, as `[[agents]]` in the file: a command of its own, or a preset and its changes.

    What is left empty is the preset's, or the service's default.
    """

    id: str = ""
    name: str = ""
    command: list[str] = []
    preset: str = ""
    executable: str = ""
    arguments: list[str] = []
    plan_required: str = "free"
    timeout_seconds: int = 3600
    environment: dict[str, str] = {}
    network: list[str] = []
    limits: dict[str, int] = {}
    model_api: str = ""
    model_url: str = ""
    model: str = ""
    models: list[str] = []
    secret: str = ""
    max_cost_usd: float | None = None
    verify: list[str] = []
    on_verify_failure: str = "draft"


class PriceTable(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What a model costs, as `[[prices]]` in the file: USD for a million tokens.

    `model` may hold `*`. Without prices of their own, cached tokens cost what others do.
    """

    model: str
    input: float
    output: float
    cached_input: float | None = None
    cache_write: float | None = None
    max_output_tokens: int = 0


DEFAULT_PLANS = (PlanTable("free", 1), PlanTable("pro", 5), PlanTable("enterprise", 50))
