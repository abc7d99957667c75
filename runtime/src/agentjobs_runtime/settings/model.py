"""All settings with their types and defaults, and values derived from them.

Knows neither where a value comes from nor how a feature uses it.
"""

import ipaddress
import os
from pathlib import Path
from urllib.parse import urlsplit

import msgspec

from agentjobs_runtime.settings.file_access import DATABASE_FILE
from agentjobs_runtime.settings.registries import ECOSYSTEMS, public_registry
from agentjobs_runtime.settings.tables import DEFAULT_PLANS, AgentTable, PlanTable, PriceTable

# In `setup_network`: the hosts of package registries.
REGISTRIES = "registries"
_ORPHAN_MARGIN_SECONDS = 1.5
# A busy machine must not end agents whose worker is alive.
_MIN_ORPHAN_SECONDS = 3.0


class Settings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    data_dir: str
    config_file: str = ""
    repositories_dir: str = ""
    database_url: str = ""
    database_direct_url: str = ""
    auto_migrate: bool = True
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
    streams_per_key: int = 200

    slots: int = 0
    worker_tags: list[str] = []
    lease_seconds: float = 10
    lease_renew_seconds: float = 3
    lost_worker_retries: int = 2
    drain_grace_seconds: float = 30
    sandbox: str = "bubblewrap"
    sandbox_uid_base: int = 900_000
    kubernetes_namespace: str = "agentjobs-agents"
    kubernetes_image: str = ""
    kubernetes_image_pull_policy: str = "IfNotPresent"
    kubernetes_image_pull_secrets: list[str] = []
    kubernetes_user_namespaces: str = "auto"
    kubernetes_pending_seconds: float = 600
    kubernetes_cache_claim: str = ""
    kubernetes_cache_max_bytes: int = 20 * 1024**3
    kubernetes_worker_labels: list[str] = []
    kubernetes_worker_cidrs: list[str] = []
    max_job_log_bytes: int = 16 * 1024 * 1024
    cache_max_bytes: int = 20 * 1024**3

    limit_memory_mib: int = 4_096
    limit_processes: int = 1_024
    limit_file_mib: int = 4_096
    limit_scratch_mib: int = 2_048
    limit_workspace_mib: int = 10_240
    limit_cpu_seconds: int = 0
    limit_cpus: float = 0
    limit_checkout_mib: int = 4_096
    limit_checkout_files: int = 500_000
    limit_git_memory_mib: int = 1_024
    limit_git_cpu_seconds: int = 900
    git_concurrency: int = 4
    limit_organization_disk_mib: int = 20_480
    disk_floor_mib: int = 1_024

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

    session_idle_hours: float = 12
    session_days: float = 14
    oidc_issuer: str = ""
    oidc_client_id: str = ""
    oidc_client_secret: str = ""
    oidc_name: str = "single sign-on"
    oidc_join_role: str = ""
    oidc_join_organization: str = "default"
    oidc_email_domains: list[str] = []

    platform_poll_seconds: float = 300
    mention: str = "agentjobs"
    delete_branches: bool = True
    commit_statuses: bool = True

    index_memory_mib: int = 2_048
    index_timeout_seconds: float = 3_600
    advisories_source: str = ""
    advisories_ecosystems: tuple[str, ...] = tuple(ECOSYSTEMS)
    advisories_refresh_hours: float = 6
    unrated_severity: str = "medium"
    minimum_release_age_days: float = 3
    registry_pypi_url: str = ""
    registry_npm_url: str = ""
    registry_go_url: str = ""
    registry_crates_url: str = ""
    registry_maven_url: str = ""
    registry_rubygems_url: str = ""
    registry_packagist_url: str = ""
    registry_hosts: list[str] = []

    setup_network: tuple[str, ...] = (REGISTRIES,)
    setup_seconds: float = 900
    start_seconds: float = 120
    environment_image_max_mib: int = 10_240
    environment_cache_max_mib: int = 51_200
    insecure_registries: list[str] = []

    author_name: str = ""
    author_email: str = ""
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
    def repositories_path(self) -> Path:
        """The directory of the bare repositories, which all processes with an API share."""
        return Path(self.repositories_dir) if self.repositories_dir else self.data_path / "git"

    @property
    def effective_author_name(self) -> str:
        return self.author_name or "agentjobs"

    @property
    def effective_author_email(self) -> str:
        return self.author_email or "agentjobs@localhost"

    @property
    def database_file(self) -> Path:
        """The SQLite database, unless `database_url` names another one."""
        return self.data_path / DATABASE_FILE

    @property
    def effective_database_url(self) -> str:
        return self.database_url or f"sqlite:///{self.database_file}"

    @property
    def public_path(self) -> str:
        """The path of the service, such as `/agents`; empty at the root of a host."""
        return urlsplit(self.effective_public_url).path

    @property
    def effective_public_url(self) -> str:
        """The base URL of every link, without a trailing slash."""
        return (self.public_url or f"http://{_in_url(self.host)}:{self.port}").rstrip("/")

    @property
    def own_url(self) -> str:
        """The URL at which a worker in this process reaches its API."""
        host = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(self.host, self.host)  # noqa: S104 - a comparison, not a bind
        return f"http://{_in_url(host)}:{self.port}"

    @property
    def metrics_address(self) -> tuple[str, int] | None:
        """None if metrics have no separate address. Validated when the settings are loaded."""
        host, _, port = self.metrics_bind.rpartition(":")
        return (host.strip("[]") or "127.0.0.1", int(port)) if port else None

    def registry_url(self, ecosystem: str) -> str:
        """The URL of an ecosystem's registry, without a trailing slash."""
        name = ECOSYSTEMS[ecosystem]
        return str(getattr(self, f"registry_{name}_url") or public_registry(name)).rstrip("/")

    @property
    def has_sandbox(self) -> bool:
        return self.sandbox.lower() != "none"

    @property
    def uses_kubernetes(self) -> bool:
        """Whether agents run in pods, which see no program of this machine."""
        return self.sandbox.lower() == "kubernetes"

    @property
    def effective_kubernetes_image(self) -> str:
        """The image of agents whose repository has no other."""
        from importlib.metadata import version  # noqa: PLC0415 - most processes do not need it

        return self.kubernetes_image or f"localhost/agentjobs-agent:{version('agentjobs')}"

    @property
    def orphan_seconds(self) -> float:
        """How long an agent in a pod runs without its worker before it ends itself.

        The worker may have died just before it renewed the lease, which must outlast the agent.
        """
        seconds = self.lease_seconds - self.lease_renew_seconds - _ORPHAN_MARGIN_SECONDS
        return max(_MIN_ORPHAN_SECONDS, seconds)

    @property
    def effective_slots(self) -> int:
        return self.slots or os.cpu_count() or 1


def is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


def _in_url(host: str) -> str:
    return f"[{host}]" if ":" in host else host
