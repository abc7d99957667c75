"""The settings: one frozen `Settings`, read once at start."""

from agentjobs_runtime.settings.checks import BOUNDS, ROLES, WEBHOOK_LEASE_MARGIN_SECONDS
from agentjobs_runtime.settings.load import (
    SettingsError,
    fault_at,
    load,
    prepare_data_directory,
    unknown_variables,
)
from agentjobs_runtime.settings.model import Settings, is_loopback

__all__ = [
    "BOUNDS",
    "ROLES",
    "WEBHOOK_LEASE_MARGIN_SECONDS",
    "Settings",
    "SettingsError",
    "fault_at",
    "is_loopback",
    "load",
    "prepare_data_directory",
    "unknown_variables",
]
