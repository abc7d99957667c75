"""Sessions are described by browser and system."""

import pytest

from agentjobs.web.dashboard.text.user_agents import describe_user_agent

MAC = "Mozilla/5.0 (Macintosh; Intel Mac OS X 10_15_7) AppleWebKit/605.1.15 (KHTML, like Gecko)"
WINDOWS = "Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 (KHTML, like Gecko)"
LINUX = "Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko)"
PHONE = "Mozilla/5.0 (iPhone; CPU iPhone OS 18_0 like Mac OS X) AppleWebKit/605.1.15"


@pytest.mark.parametrize(
    ("header", "text"),
    [
        (f"{LINUX} Chrome/140.0.0.0 Safari/537.36", "Chrome on Linux"),
        (f"{LINUX} HeadlessChrome/140.0.0.0 Safari/537.36", "Chrome on Linux"),
        (f"{WINDOWS} Chrome/140.0.0.0 Safari/537.36 Edg/140.0.0.0", "Edge on Windows"),
        (f"{WINDOWS} Chrome/140.0.0.0 Safari/537.36 OPR/120.0.0.0", "Opera on Windows"),
        (f"{MAC} Version/18.0 Safari/605.1.15", "Safari on macOS"),
        (f"{PHONE} CriOS/140.0 Mobile/15E148 Safari/604.1", "Chrome on iPhone"),
        (
            "Mozilla/5.0 (Android 15; Mobile; rv:143.0) Gecko/143.0 Firefox/143.0",
            "Firefox on Android",
        ),
        ("curl/8.5.0", "curl/8.5.0"),
        ("Firefox/1", "Firefox"),
        ("", "Unknown browser"),
    ],
)
def test_a_browser_is_named_with_its_system(header: str, text: str) -> None:
    assert describe_user_agent(header) == text
