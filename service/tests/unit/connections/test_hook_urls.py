"""Which platforms can send webhooks to this service."""

import pytest

from agentjobs.connections.hook_urls import hook_url, reason_unreachable


def test_a_registered_webhook_has_the_repository_in_its_url() -> None:
    base = "https://jobs.example.com/hooks/github/fcn_1"
    assert hook_url("https://jobs.example.com", "github", "fcn_1") == base
    assert hook_url("https://jobs.example.com", "github", "fcn_1", "repo_1") == f"{base}/repo_1"


@pytest.mark.parametrize(
    ("public_url", "platform_url", "is_reachable"),
    [
        ("https://jobs.example.com", "https://github.com", True),
        ("http://203.0.113.7:8000", "https://git.example.com", True),
        ("http://10.0.0.7:8000", "https://git.example.com", True),
        ("http://jobs:8000", "https://git.example.com", True),
        ("http://jobs:8000", "https://gitlab.com", False),
        ("http://10.0.0.7:8000", "https://github.com", False),
        ("http://[fd00::7]:8000", "https://acme.ghe.com", False),
        ("http://127.0.0.1:8000", "https://git.example.com", False),
        ("http://localhost:8000", "http://127.0.0.1:3000", True),
    ],
)
def test_a_platform_reaches_public_addresses_and_those_of_its_own_network(
    public_url: str, platform_url: str, is_reachable: bool
) -> None:
    reason = reason_unreachable(public_url, platform_url)
    assert (reason is None) is is_reachable
    if reason is not None:
        assert "AGENTJOBS_PUBLIC_URL" in reason
