"""The settings: one frozen `Settings`, read once at start."""

from agentjobs.settings.checks import BOUNDS, ROLES, WEBHOOK_LEASE_MARGIN_SECONDS
from agentjobs.settings.load import (
    SettingsError,
    fault_at,
    load,
    prepare_data_directory,
    unknown_variables,
)
from agentjobs.settings.model import Settings, is_loopback

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
