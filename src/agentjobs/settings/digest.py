"""A digest of the settings that every process of a deployment must share."""

import hashlib

import msgspec

from agentjobs.settings.model import Settings

# Settings that may differ between machines, and secrets, from which nothing is derived.
OWN_SETTINGS = frozenset(
    {
        *("data_dir", "config_file", "repositories_dir", "database_url", "database_direct_url"),
        *("auto_migrate", "host", "port", "log_level", "trusted_proxies"),
        *("metrics_bind", "metrics_token", "slots", "sandbox"),
        *("sandbox_uid_base", "cache_max_bytes", "disk_floor_mib", "git_concurrency"),
        *(
            "environment_cache_max_mib",
            "index_memory_mib",
            "send_webhooks",
            "webhooks_proxy",
            "webhook_concurrency",
        ),
        *("ca_file", "encryption_key", "oidc_client_secret", "worker_tags"),
    }
)
_LENGTH = 12


def configuration_digest(settings: Settings) -> str:
    """Equal for two processes of one version whose shared settings are equal."""
    shared = {
        field.name: getattr(settings, field.name)
        for field in msgspec.structs.fields(Settings)
        if field.name not in OWN_SETTINGS
    }
    encoded = msgspec.json.encode(shared, order="deterministic")
    return hashlib.sha256(encoded).hexdigest()[:_LENGTH]
