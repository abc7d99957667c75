"""The pages that the header, the settings and the search lead to."""

from typing import Literal

import msgspec


class NavigationLink(msgspec.Struct, frozen=True):
    path: str
    name: str
    role: Literal["viewer", "member", "admin", "operator"] = "viewer"


SECTIONS = (
    NavigationLink("/", "Overview"),
    NavigationLink("/jobs", "Jobs"),
    NavigationLink("/repos", "Repositories"),
    NavigationLink("/pulls", "Pull requests"),
    NavigationLink("/vulnerabilities", "Vulnerabilities"),
    NavigationLink("/agents", "Agents"),
    NavigationLink("/settings", "Settings", "member"),
)
SETTINGS = (
    NavigationLink("/settings/api-keys", "API keys", "admin"),
    NavigationLink("/settings/webhooks", "Webhooks", "member"),
    NavigationLink("/settings/webhooks/delivery-log", "Delivery log", "member"),
    NavigationLink("/settings/platforms", "Platforms", "member"),
    NavigationLink("/settings/trackers", "Trackers", "member"),
    NavigationLink("/settings/secrets", "Secrets", "admin"),
    NavigationLink("/settings/budgets", "Budgets", "member"),
    NavigationLink("/settings/members", "Members", "member"),
    NavigationLink("/settings/organization", "Organization and plan", "member"),
    NavigationLink("/settings/audit-log", "Audit log", "admin"),
)
# Pages about the whole service.
OPERATOR = (
    NavigationLink("/operator", "Organizations", "operator"),
    NavigationLink("/operator/queues", "Queues", "operator"),
    NavigationLink("/operator/workers", "Workers", "operator"),
    NavigationLink("/operator/service", "Service", "operator"),
)
# Only the search leads to them.
OTHERS = (
    NavigationLink("/jobs/new", "New job", "member"),
    NavigationLink("/settings/api-keys#add", "Create an API key", "admin"),
    NavigationLink("/settings/webhooks#add", "Add a webhook", "admin"),
    NavigationLink("/settings/platforms#add", "Connect a platform", "admin"),
    NavigationLink("/settings/trackers#add", "Connect a tracker", "admin"),
    NavigationLink("/settings/secrets#add", "Add a secret", "admin"),
    NavigationLink("/settings/members#add", "Invite a member", "admin"),
    NavigationLink("/repos#add", "Connect a repository", "admin"),
    NavigationLink("/account", "Your account"),
    NavigationLink("/v1/docs", "API reference"),
)
