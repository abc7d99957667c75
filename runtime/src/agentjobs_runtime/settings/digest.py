"""Digests of the settings that every process of a deployment must share."""

import hashlib

import msgspec

from agentjobs_runtime.settings.model import Settings

# Settings that may differ between machines, and secrets, from which nothing is derived.
OWN_SETTINGS = frozenset(
    {
        *("data_dir", "config_file", "repositories_dir", "database_url", "database_direct_url"),
        *("auto_migrate", "host", "port", "log_level", "trusted_proxies"),
        *("metrics_bind", "metrics_token", "slots", "sandbox"),
        *("sandbox_uid_base", "cache_max_bytes", "disk_floor_mib", "git_concurrency"),
        "limit_organization_disk_mib",
        *(
            "environment_cache_max_mib",
            "index_memory_mib",
            "send_webhooks",
            "webhooks_proxy",
            "webhook_concurrency",
        ),
        *(
            "kubernetes_namespace",
            "kubernetes_image",
            "kubernetes_image_pull_policy",
            "kubernetes_image_pull_secrets",
            "kubernetes_user_namespaces",
            "kubernetes_pending_seconds",
            "kubernetes_cache_claim",
            "kubernetes_cache_max_bytes",
            "kubernetes_worker_labels",
            "kubernetes_worker_cidrs",
        ),
        *("ca_file", "encryption_key", "oidc_client_secret", "worker_tags"),
    }
)
_SHARED = sorted(set(Settings.__struct_fields__) - OWN_SETTINGS)
_LENGTH = 12
# Long enough to tell two values apart, too short to guess one.
_VALUE_LENGTH = 4


def configuration_digest(settings: Settings) -> str:
    """Equal for two processes of one version whose shared settings are equal.

    A digest of all of them, and after it a short one of each.
    """
    values = [_hash(getattr(settings, name)) for name in _SHARED]
    return f"{_hash(values)[:_LENGTH]}:{''.join(value[:_VALUE_LENGTH] for value in values)}"


def short_digest(digest: str) -> str:
    """The part of a digest that is displayed."""
    return digest[:_LENGTH]


def differing_settings(first: str, second: str) -> list[str]:
    """The names of the settings whose digests differ; none if another version made one of them."""
    values = [digest.partition(":")[2] for digest in (first, second)]
    if any(len(value) != _VALUE_LENGTH * len(_SHARED) for value in values):
        return []
    return [
        name
        for place, name in enumerate(_SHARED)
        if len({value[place * _VALUE_LENGTH :][:_VALUE_LENGTH] for value in values}) > 1
    ]


def _hash(value: object) -> str:
    return hashlib.sha256(msgspec.json.encode(value, order="deterministic")).hexdigest()
