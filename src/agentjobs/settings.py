"""One frozen Settings, read once: flags over `AGENTJOBS_*` environment over `agentjobs.toml`.

Owns names, defaults and types. Refuses to know what a feature does with a value.
"""

import ipaddress
import math
import os
import re
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import msgspec

from agentjobs.settings_file import SettingsFileError, line_of
from agentjobs.settings_tables import DEFAULT_PLANS, AgentTable, PlanTable, PriceTable

ENVIRONMENT_PREFIX = "AGENTJOBS_"

_HIGHEST_PORT = 65_535
_LISTS = (list[str], tuple[float, ...])
_LABEL = r"[a-z0-9_](?:[a-z0-9_-]*[a-z0-9_])?"
# Nothing but a place: of a path or a query nobody would say what becomes of it.
_PROXY = re.compile(
    r"http://(?:(?:(?![/?#@])[!-~])+@)?"
    rf"(?:{_LABEL}(?:\.{_LABEL})*\.?|\[[0-9a-f:.]+\])(?::[0-9]+)?/?",
    re.IGNORECASE | re.ASCII,
)
# Variables of ours that are no settings of the service.
_OTHER_VARIABLES = frozenset({"CONFIG", "URL", "API_KEY", "TRACEBACK"})


class SettingsError(Exception):
    """A setting that cannot be used; the message names it and says what would be accepted."""


def fault_at(settings: "Settings", path: str, reason: str) -> SettingsError:
    """A fault a feature found in the file; `path` is like `agents[0].command`."""
    fault = SettingsFileError(path, reason)
    try:
        text = Path(settings.config_file).read_text(encoding="utf-8")
    except OSError:
        return SettingsError(fault.reason)
    return SettingsError(f"{settings.config_file}, line {line_of(text, path)}: {fault.reason}")


_TABLES = frozenset({"plans", "agents", "prices"})
_NOT_IN_THE_FILE = {
    "data_dir": "--data-dir or AGENTJOBS_DATA_DIR",
    "config_file": "AGENTJOBS_CONFIG",
    # Backups copy the file, and must not hold the key to what is in them.
    "encryption_key": "AGENTJOBS_ENCRYPTION_KEY, or put it into the file encryption.key",
}


class Settings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    data_dir: str
    config_file: str = ""
    database_url: str = ""
    host: str = "127.0.0.1"
    port: int = 8080
    public_url: str = ""
    trusted_proxies: list[str] = []
    log_level: str = "info"

    plans: tuple[PlanTable, ...] = DEFAULT_PLANS
    agents: tuple[AgentTable, ...] = ()
    prices: tuple[PriceTable, ...] = ()
    queue_limit: int = 1_000
    rate_limit_per_second: float = 100
    rate_limit_burst: int = 500

    slots: int = 0
    lease_seconds: float = 10
    lease_renew_seconds: float = 3
    lost_worker_retries: int = 2
    drain_grace_seconds: float = 30
    sandbox: str = "bubblewrap"
    sandbox_uid_base: int = 900_000
    max_job_log_bytes: int = 16 * 1024 * 1024
    cache_max_bytes: int = 20 * 1024**3

    limit_memory_mib: int = 4_096
    limit_processes: int = 1_024
    limit_file_mib: int = 4_096
    limit_scratch_mib: int = 2_048
    limit_workspace_mib: int = 10_240
    limit_cpu_seconds: int = 0

    send_webhooks: bool = True
    webhooks_allow: list[str] = []
    webhooks_proxy: str = ""
    webhook_timeout_seconds: float = 15
    webhook_connect_seconds: float = 5
    webhook_lease_seconds: float = 30
    webhook_retry_seconds: tuple[float, ...] = (5, 60, 720)
    webhook_concurrency: int = 256
    webhook_endpoint_concurrency: int = 8
    webhook_disable_days: float = 5

    egress_allow: list[str] = []
    ca_file: str = ""
    encryption_key: str = ""

    author_name: str = "agentjobs"
    author_email: str = "agentjobs@localhost"
    committer_name: str = ""
    committer_email: str = ""

    log_retention_days: int = 30
    job_retention_days: int = 365
    delivery_retention_days: int = 30

    metrics_token: str = ""
    metrics_bind: str = ""

    @property
    def data_path(self) -> Path:
        return Path(self.data_dir)

    @property
    def effective_database_url(self) -> str:
        return self.database_url or f"sqlite:///{self.data_path / 'agentjobs.db'}"

    @property
    def effective_public_url(self) -> str:
        """The address every link is made from, without a trailing slash."""
        return (self.public_url or f"http://{_in_url(self.host)}:{self.port}").rstrip("/")

    @property
    def own_url(self) -> str:
        """Where a worker in this process reaches the API half of this process."""
        host = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(self.host, self.host)  # noqa: S104 - a comparison, not a bind
        return f"http://{_in_url(host)}:{self.port}"

    @property
    def metrics_address(self) -> tuple[str, int] | None:
        """None: no address of their own. Checked when the settings were read."""
        host, _, port = self.metrics_bind.rpartition(":")
        return (host.strip("[]") or "127.0.0.1", int(port)) if port else None

    @property
    def has_sandbox(self) -> bool:
        return self.sandbox.lower() != "none"

    @property
    def effective_slots(self) -> int:
        return self.slots or os.cpu_count() or 1


def load(environ: Mapping[str, str] | None = None, **flags: Any) -> Settings:
    """Read everything once. A flag given as None counts as not given."""
    environ = os.environ if environ is None else environ
    given = {name: value for name, value in flags.items() if value is not None}
    data_dir = Path(
        given.get("data_dir") or environ.get("AGENTJOBS_DATA_DIR") or _default_data_dir(environ)
    ).expanduser()
    named_file = environ.get("AGENTJOBS_CONFIG")
    path = Path(named_file) if named_file else data_dir / "agentjobs.toml"
    in_file = _from_file(path, must_exist=bool(named_file))
    values = {**in_file, **_from_environment(environ), **given}
    values["data_dir"] = str(data_dir.absolute())
    values["config_file"] = str(path.absolute())
    try:
        settings = msgspec.convert(values, Settings, strict=False)
    except msgspec.ValidationError as error:
        raise SettingsError(f"a setting cannot be used: {error}") from None
    try:
        _check(settings)
    except SettingsFileError as error:
        name = error.path.partition("[")[0]
        if name in in_file and values[name] is in_file[name]:
            raise fault_at(settings, error.path, error.detail) from None
        raise SettingsError(error.reason) from None
    return settings


def unknown_variables(environ: Mapping[str, str]) -> list[str]:
    """Variables that look like settings and are none: most likely misspelt."""
    known = {field.name.upper() for field in msgspec.structs.fields(Settings)} | _OTHER_VARIABLES
    ours = {name.removeprefix(ENVIRONMENT_PREFIX) for name in environ if _is_ours(name)}
    return sorted(ENVIRONMENT_PREFIX + name for name in ours - known)


def _is_ours(name: str) -> bool:
    return name.startswith(ENVIRONMENT_PREFIX) and not name.startswith("AGENTJOBS_TEST_")


def is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


def _default_data_dir(environ: Mapping[str, str]) -> str:
    base = environ.get("XDG_DATA_HOME") or "~/.local/share"
    return f"{base}/agentjobs"


def _in_url(host: str) -> str:
    return f"[{host}]" if ":" in host else host


def _from_environment(environ: Mapping[str, str]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for field in msgspec.structs.fields(Settings):
        text = environ.get(ENVIRONMENT_PREFIX + field.name.upper())
        if text is None or field.name in _TABLES:
            continue
        found[field.name] = _listed(text) if field.type in _LISTS else text
    return found


def _listed(text: str) -> list[str]:
    return text.split(",") if text.strip() else []


def _from_file(path: Path, *, must_exist: bool) -> dict[str, Any]:
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        if must_exist:
            raise SettingsError(f"AGENTJOBS_CONFIG names {path}, which does not exist") from None
        return {}
    except (OSError, UnicodeDecodeError) as error:
        raise SettingsError(f"{path} cannot be read: {error}") from None
    try:
        values = tomllib.loads(text)
        for name, flag in _NOT_IN_THE_FILE.items():
            if name in values:
                raise SettingsFileError(name, f"set it with {flag}")
        _convert_file(values)
    except RecursionError:
        raise SettingsError(f"{path} is nested too deeply") from None
    except tomllib.TOMLDecodeError as error:
        end = f"at line {len(text.splitlines()) or 1}, the end of the document"
        reason = str(error).replace("at end of document", end)
        raise SettingsError(f"{path} is not valid TOML: {reason}") from None
    except SettingsFileError as error:
        line = line_of(text, error.path)
        raise SettingsError(f"{path}, line {line}: {error.reason}") from None
    return values


def _convert_file(values: Mapping[str, Any]) -> None:
    try:
        msgspec.convert({**values, "data_dir": "."}, Settings, strict=True)
    except msgspec.ValidationError as error:
        raise SettingsFileError.from_msgspec(str(error)) from None


# To read an answer's body after its head, and to write down what it was.
WEBHOOK_LEASE_MARGIN_SECONDS = 5
_ANY = 2**53
_MOST_MIB = 16 * 1024**2
# Numbers, with the least and the most that each may be.
BOUNDS = {
    "queue_limit": (1, _ANY),
    "rate_limit_per_second": (0, _ANY),
    "rate_limit_burst": (1, _ANY),
    "slots": (0, 10_000),
    "lost_worker_retries": (0, _ANY),
    "drain_grace_seconds": (0, _ANY),
    # Above every user a machine has, with room for a uid per slot below the highest there is.
    "sandbox_uid_base": (65_536, 4_000_000_000),
    "max_job_log_bytes": (0, _ANY),
    "cache_max_bytes": (0, _ANY),
    "limit_memory_mib": (16, _MOST_MIB),
    "limit_processes": (8, 4_194_304),
    "limit_file_mib": (1, _MOST_MIB),
    "limit_scratch_mib": (1, _MOST_MIB),
    "limit_workspace_mib": (0, _MOST_MIB),
    "limit_cpu_seconds": (0, 2**31),
    "webhook_timeout_seconds": (0.1, 300),
    "webhook_connect_seconds": (0.1, 300),
    "webhook_lease_seconds": (1, 3_600),
    "webhook_concurrency": (1, 10_000),
    "webhook_endpoint_concurrency": (1, 1_000),
    "webhook_disable_days": (0.01, _ANY),
    "log_retention_days": (0, _ANY),
    "job_retention_days": (0, _ANY),
    "delivery_retention_days": (0, _ANY),
}
_ONE_OF = {
    "sandbox": ("bubblewrap", "none"),
    "log_level": ("debug", "info", "warning", "error"),
}


def _check(settings: Settings) -> None:
    for field in msgspec.structs.fields(Settings):
        value = getattr(settings, field.name)
        if isinstance(value, float) and not math.isfinite(value):
            raise SettingsFileError(field.name, "must be a number")
    for name, (least, most) in BOUNDS.items():
        if getattr(settings, name) < least:
            raise SettingsFileError(name, f"must be at least {least}")
        if getattr(settings, name) > most:
            raise SettingsFileError(name, f"must be at most {most}")
    for name, choices in _ONE_OF.items():
        if getattr(settings, name).lower() not in choices:
            raise SettingsFileError(name, f"must be one of: {', '.join(choices)}")
    if settings.lease_renew_seconds <= 0:
        raise SettingsFileError("lease_renew_seconds", "must be above 0")
    if settings.lease_renew_seconds * 2 > settings.lease_seconds:
        raise SettingsFileError("lease_renew_seconds", "must be at most half of lease_seconds")
    _check_webhooks(settings)
    _check_plans(settings.plans)
    _check_addresses(settings)


def _check_webhooks(settings: Settings) -> None:
    if settings.webhook_connect_seconds > settings.webhook_timeout_seconds:
        reason = "must be at most webhook_timeout_seconds"
        raise SettingsFileError("webhook_connect_seconds", reason)
    # A delivery whose lease ends while it is being sent would be sent by another, too.
    least = settings.webhook_timeout_seconds + WEBHOOK_LEASE_MARGIN_SECONDS
    if settings.webhook_lease_seconds < least:
        raise SettingsFileError("webhook_lease_seconds", f"must be at least {least:g}")
    waits = settings.webhook_retry_seconds
    if len(waits) > 3 or not all(0 < wait <= 7 * 86_400 for wait in waits):
        reason = "must be at most three waits, each above 0 and at most 604800 (a week)"
        raise SettingsFileError("webhook_retry_seconds", reason)
    if settings.webhooks_proxy and not _is_proxy(settings.webhooks_proxy):
        raise SettingsFileError("webhooks_proxy", "must have the form http://HOST:PORT")


def _is_proxy(text: str) -> bool:
    try:
        parts = urlsplit(text)
        if "[" in parts.netloc:
            ipaddress.IPv6Address(parts.hostname or "")
        # A port that is none raises.
        return _PROXY.fullmatch(text) is not None and parts.port != 0
    except ValueError:
        return False


def _check_plans(plans: tuple[PlanTable, ...]) -> None:
    if not plans or len({plan.name for plan in plans}) != len(plans):
        raise SettingsFileError("plans", "must be given, each with a name of its own")
    for index, plan in enumerate(plans):
        if not plan.name or plan.concurrent_jobs < 1:
            reason = "needs a name, and concurrent_jobs of at least 1"
            raise SettingsFileError(f"plans[{index}]", reason)


def _check_addresses(settings: Settings) -> None:
    if not settings.host.strip():
        raise SettingsFileError("host", "must name an address to listen on")
    if not 0 <= settings.port <= _HIGHEST_PORT:
        raise SettingsFileError("port", "must be between 0 and 65535")
    port = settings.metrics_bind.rpartition(":")[2]
    if settings.metrics_bind and not (port.isdecimal() and int(port) <= _HIGHEST_PORT):
        raise SettingsFileError("metrics_bind", "must have the form HOST:PORT")
    if settings.public_url and urlsplit(settings.public_url).scheme not in {"http", "https"}:
        raise SettingsFileError("public_url", "must start with http:// or https://")
    if not settings.effective_database_url.startswith(("sqlite:///", "postgresql://")):
        raise SettingsFileError(
            "database_url", "must start with postgresql:// or sqlite:/// (or be left out)"
        )
