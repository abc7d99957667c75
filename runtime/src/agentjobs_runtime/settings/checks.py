"""Validates settings: bounds, choices, and settings that depend on each other."""

import ipaddress
import math
import re
from urllib.parse import urlsplit

import msgspec

from agentjobs_runtime.settings.kubernetes_checks import check_kubernetes
from agentjobs_runtime.settings.locations import SettingsFileError
from agentjobs_runtime.settings.model import Settings, is_loopback
from agentjobs_runtime.settings.registries import ECOSYSTEMS
from agentjobs_runtime.settings.tables import PlanTable
from agentjobs_runtime.settings.tags import tags_fault

# The roles of members, lowest first.
ROLES = ("viewer", "member", "admin")

_HIGHEST_PORT = 65_535
_UNRATED_SEVERITIES = ("none", "low", "medium", "high", "critical")
_LABEL = r"[a-z0-9_](?:[a-z0-9_-]*[a-z0-9_])?"
# Characters that need no encoding; no empty segment, and none that proxies resolve.
_PUBLIC_PATH = re.compile(r"(?:/(?!\.{1,2}(?:/|$))[A-Za-z0-9._~-]+)*/?")
# Host and port only: a path or a query would have no meaning.
_PROXY = re.compile(
    r"http://(?:(?:(?![/?#@])[!-~])+@)?"
    rf"(?:{_LABEL}(?:\.{_LABEL})*\.?|\[[0-9a-f:.]+\])(?::[0-9]+)?/?",
    re.IGNORECASE | re.ASCII,
)
# Time to read a response's body after its headers, and to record the attempt.
WEBHOOK_LEASE_MARGIN_SECONDS = 5
_ANY = 2**53
_MAX_MIB = 16 * 1024**2
# The minimum and maximum of each number.
BOUNDS = {
    "queue_limit": (1, _ANY),
    "rate_limit_per_second": (0, _ANY),
    "rate_limit_burst": (1, _ANY),
    "streams_per_key": (1, _ANY),
    "slots": (0, 10_000),
    "lost_worker_retries": (0, _ANY),
    "drain_grace_seconds": (0, _ANY),
    # Above the users of a usual machine, and low enough for one uid per slot below the maximum.
    "sandbox_uid_base": (65_536, 4_000_000_000),
    "kubernetes_pending_seconds": (1, 86_400),
    "kubernetes_cache_max_bytes": (1, _ANY),
    "max_job_log_bytes": (0, _ANY),
    "cache_max_bytes": (0, _ANY),
    "limit_memory_mib": (16, _MAX_MIB),
    "limit_processes": (8, 4_194_304),
    "limit_file_mib": (1, _MAX_MIB),
    "limit_scratch_mib": (1, _MAX_MIB),
    "limit_workspace_mib": (0, _MAX_MIB),
    "limit_cpu_seconds": (0, 2**31),
    "limit_cpus": (0, 10_000),
    "limit_checkout_mib": (1, _MAX_MIB),
    "limit_checkout_files": (1, _ANY),
    "limit_git_memory_mib": (64, _MAX_MIB),
    "limit_git_cpu_seconds": (1, 2**31),
    "git_concurrency": (1, 10_000),
    "limit_organization_disk_mib": (1, _MAX_MIB),
    "disk_floor_mib": (0, _MAX_MIB),
    "webhook_timeout_seconds": (0.1, 300),
    "webhook_connect_seconds": (0.1, 300),
    "webhook_lease_seconds": (1, 3_600),
    "webhook_concurrency": (1, 10_000),
    "webhook_endpoint_concurrency": (1, 1_000),
    "webhook_disable_days": (0.01, _ANY),
    "log_retention_days": (0, _ANY),
    "job_retention_days": (0, _ANY),
    "delivery_retention_days": (0, _ANY),
    "platform_poll_seconds": (1, 86_400),
    "index_memory_mib": (256, _MAX_MIB),
    "index_timeout_seconds": (1, 86_400),
    "setup_seconds": (1, 86_400),
    "start_seconds": (1, 86_400),
    "environment_image_max_mib": (1, _MAX_MIB),
    "environment_cache_max_mib": (0, _MAX_MIB),
    "advisories_refresh_hours": (0.01, 24 * 365),
    "minimum_release_age_days": (0, 365),
    "session_idle_hours": (0.05, 24 * 365),
    "session_days": (0.01, 365),
}
_HOST_AND_PORT = re.compile(
    rf"(?:{_LABEL}(?:\.{_LABEL})*|\[[0-9a-f:.]+\])(?::[0-9]{{1,5}})?", re.IGNORECASE | re.ASCII
)
_MENTION = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,38}")
_ONE_OF = {
    "sandbox": ("bubblewrap", "kubernetes", "none"),
    "kubernetes_user_namespaces": ("auto", "on", "off"),
    "log_level": ("debug", "info", "warning", "error"),
}


def check(settings: Settings) -> None:
    for field in msgspec.structs.fields(Settings):
        value = getattr(settings, field.name)
        if isinstance(value, float) and not math.isfinite(value):
            raise SettingsFileError(field.name, "must be a number")
    for name, (minimum, maximum) in BOUNDS.items():
        if getattr(settings, name) < minimum:
            raise SettingsFileError(name, f"must be at least {minimum}")
        if getattr(settings, name) > maximum:
            raise SettingsFileError(name, f"must be at most {maximum}")
    for name, choices in _ONE_OF.items():
        if getattr(settings, name).lower() not in choices:
            raise SettingsFileError(name, f"must be one of: {', '.join(choices)}")
    if settings.lease_renew_seconds <= 0:
        raise SettingsFileError("lease_renew_seconds", "must be greater than 0")
    if settings.lease_renew_seconds * 2 > settings.lease_seconds:
        raise SettingsFileError("lease_renew_seconds", "must be at most half of lease_seconds")
    if not _MENTION.fullmatch(settings.mention):
        raise SettingsFileError("mention", "must consist of letters, digits, - and _, without @")
    if fault := tags_fault(settings.worker_tags):
        raise SettingsFileError("worker_tags", fault)
    _check_webhooks(settings)
    _check_plans(settings.plans)
    _check_addresses(settings)
    _check_oidc(settings)
    _check_advisories(settings)
    _check_insecure_registries(settings)
    check_kubernetes(settings)


def _check_insecure_registries(settings: Settings) -> None:
    for host in settings.insecure_registries:
        if not _HOST_AND_PORT.fullmatch(host):
            reason = f"{host!r} must be a host, such as registry.internal:5000"
            raise SettingsFileError("insecure_registries", reason)


def _check_webhooks(settings: Settings) -> None:
    if settings.webhook_connect_seconds > settings.webhook_timeout_seconds:
        reason = "must be at most webhook_timeout_seconds"
        raise SettingsFileError("webhook_connect_seconds", reason)
    # If its lease ended during the request, another process would send the delivery again.
    minimum = settings.webhook_timeout_seconds + WEBHOOK_LEASE_MARGIN_SECONDS
    if settings.webhook_lease_seconds < minimum:
        raise SettingsFileError("webhook_lease_seconds", f"must be at least {minimum:g}")
    waits = settings.webhook_retry_seconds
    if len(waits) > 3 or not all(0 < wait <= 7 * 86_400 for wait in waits):
        reason = "must be at most three delays, each greater than 0 and at most 604800 (a week)"
        raise SettingsFileError("webhook_retry_seconds", reason)
    if settings.webhooks_proxy and not _is_proxy(settings.webhooks_proxy):
        raise SettingsFileError("webhooks_proxy", "must have the form http://HOST:PORT")


def _is_proxy(text: str) -> bool:
    try:
        parts = urlsplit(text)
        if "[" in parts.netloc:
            ipaddress.IPv6Address(parts.hostname or "")
        # An invalid port raises.
        return _PROXY.fullmatch(text) is not None and parts.port != 0
    except ValueError:
        return False


def _check_plans(plans: tuple[PlanTable, ...]) -> None:
    if not plans or len({plan.name for plan in plans}) != len(plans):
        raise SettingsFileError("plans", "must not be empty, and names must be unique")
    for index, plan in enumerate(plans):
        if not plan.name or plan.concurrent_jobs < 1:
            reason = "must have a name and concurrent_jobs of at least 1"
            raise SettingsFileError(f"plans[{index}]", reason)


def _check_addresses(settings: Settings) -> None:
    if not settings.host.strip():
        raise SettingsFileError("host", "must name an address to listen on")
    if not 0 <= settings.port <= _HIGHEST_PORT:
        raise SettingsFileError("port", "must be between 0 and 65535")
    port = settings.metrics_bind.rpartition(":")[2]
    if settings.metrics_bind and not (port.isdecimal() and int(port) <= _HIGHEST_PORT):
        raise SettingsFileError("metrics_bind", "must have the form HOST:PORT")
    if settings.public_url and not _is_public_url(settings.public_url):
        reason = (
            "must have the form https://HOST, https://HOST:PORT or https://HOST/PATH (or http),"
            " without a user, a query or a fragment"
        )
        raise SettingsFileError("public_url", reason)
    if not settings.effective_database_url.startswith(("sqlite:///", "postgresql://")):
        raise SettingsFileError(
            "database_url", "must start with postgresql:// or sqlite:/// (or be left out)"
        )
    if settings.database_direct_url and not (
        settings.database_url.startswith("postgresql://")
        and settings.database_direct_url.startswith("postgresql://")
    ):
        reason = "must start with postgresql://, and so must database_url"
        raise SettingsFileError("database_direct_url", reason)


def _is_public_url(text: str) -> bool:
    try:
        parts = urlsplit(text)
        # An invalid port raises.
        has_host = bool(parts.hostname) and parts.port != 0
    except ValueError:
        return False
    return (
        has_host
        and parts.scheme in {"http", "https"}
        and "@" not in parts.netloc
        and _PUBLIC_PATH.fullmatch(parts.path) is not None
        and text.isprintable()
        and re.search(r"[?#\s]", text) is None
    )


def _check_oidc(settings: Settings) -> None:
    if settings.oidc_join_role and settings.oidc_join_role not in ROLES:
        reason = f"must be one of: {', '.join(ROLES)} (or be left out)"
        raise SettingsFileError("oidc_join_role", reason)
    if not settings.oidc_issuer:
        return
    issuer = urlsplit(settings.oidc_issuer)
    is_local = issuer.scheme == "http" and is_loopback(issuer.hostname or "")
    if issuer.scheme != "https" and not is_local:
        raise SettingsFileError("oidc_issuer", "must start with https://")
    if not settings.oidc_client_id:
        raise SettingsFileError("oidc_client_id", "is required with oidc_issuer")


def _check_advisories(settings: Settings) -> None:
    for name in settings.advisories_ecosystems:
        if name not in ECOSYSTEMS:
            reason = f"{name!r} must be one of: {', '.join(ECOSYSTEMS)}"
            raise SettingsFileError("advisories_ecosystems", reason)
    if settings.unrated_severity not in _UNRATED_SEVERITIES:
        reason = f"must be one of: {', '.join(_UNRATED_SEVERITIES)}"
        raise SettingsFileError("unrated_severity", reason)
    addresses = {f"registry_{name}_url" for name in ECOSYSTEMS.values()}
    if "://" in settings.advisories_source:
        addresses.add("advisories_source")
    for field in sorted(addresses):
        value = getattr(settings, field)
        if value and (
            urlsplit(value).scheme not in {"http", "https"} or not urlsplit(value).hostname
        ):
            raise SettingsFileError(field, "must start with https:// or http:// and name a host")
