"""The documentation names what there is."""

import re

import msgspec

from agentjobs.jobs.run.hosted_repo import RETRY_SECONDS
from agentjobs.jobs.run.retry import BACKOFF_SECONDS
from agentjobs.settings import Settings
from tests.support.paths import PROJECT


def test_every_setting_is_documented() -> None:
    text = (PROJECT / "docs" / "operating.md").read_text()
    names = [field.name for field in msgspec.structs.fields(Settings)]
    assert [name for name in names if f"`{name}`" not in text] == []


def test_every_package_is_in_the_architecture() -> None:
    text = (PROJECT / "docs" / "architecture.md").read_text()
    packages = [path.parent.name for path in (PROJECT / "src" / "agentjobs").glob("*/__init__.py")]
    assert [name for name in packages if f"`{name}`" not in text] == []


def test_every_test_that_the_security_page_names_exists() -> None:
    page = (PROJECT / "docs" / "security.md").read_text()
    named = re.findall(r"`((?:tests|bench)/[\w/.]+)(?:::(\w+))?`", page)
    assert len(named) > 30
    missing = [
        f"{path}::{test}"
        for path, test in named
        if not (PROJECT / path).exists()
        or (test and f"def {test}(" not in (PROJECT / path).read_text())
    ]
    assert missing == []


def test_the_platforms_page_says_how_long_a_job_retries() -> None:
    text = " ".join((PROJECT / "docs" / "platforms.md").read_text().split())
    first, second, third = BACKOFF_SECONDS
    assert f"retried for up to {RETRY_SECONDS:.0f} seconds" in text
    assert f"three times, after {first}, {second} and {third} seconds" in text
