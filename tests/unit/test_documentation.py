"""The documentation names what there is, and its code blocks are valid."""

import json
import re
import subprocess
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import httpx
import pytest
import yaml

import agentjobs_client
from agentjobs.jobs.states import RETRYABLE, STATUSES, TRANSITIONS
from agentjobs.publishing.hosted_repo import RETRY_SECONDS
from agentjobs.publishing.retry import BACKOFF_SECONDS
from agentjobs_client import Client
from agentjobs_runtime.repo_configuration import parse_configuration
from agentjobs_runtime.settings import load
from agentjobs_worker.agents.catalog import build_catalog
from agentjobs_worker.agents.presets.all_presets import PRESETS
from scripts.reference.examples import Operation
from scripts.site_pages import convert
from tests.support.documented_api import BASE_URL, OPERATIONS, EnoughRequests, example_transport
from tests.support.documented_blocks import Block, blocks_in, pages
from tests.support.paths import PARTS, PROJECT, SERVICE


def test_links_and_pictures_are_rewritten_for_the_site() -> None:
    page = """\
[client](../../clients/python/README.md#webhooks) [units](../../packaging/systemd) [api](../api.md)
[start](../../README.md) [below](#x) [outside](https://example.com/a.md)
```sh
[kept](../../README.md)
```
<picture>
  <source media="(prefers-color-scheme: dark)" srcset="../images/a-dark.png">
  <img src="../images/a-light.png" alt="A job" width="840">
</picture>
"""
    assert (
        convert("docs/guides/page.md", page)
        == """\
[client](../clients/python.md#webhooks) [units](../files/packaging/systemd.md) [api](../api.md)
[start](../index.md) [below](#x) [outside](https://example.com/a.md)
```sh
[kept](../../README.md)
```
![A job](../images/a-light.png#only-light){ width=840 }
![A job](../images/a-dark.png#only-dark){ width=840 }
"""
    )


@pytest.mark.parametrize(
    ("page", "converted"),
    [
        ("So:\n- one\n- two\n", "So:\n\n- one\n- two\n"),
        ("**So.**\n1. one\n2. two\n", "**So.**\n\n1. one\n2. two\n"),
        ("```sh\nls\n```\n- one\n", "```sh\nls\n```\n\n- one\n"),
        ("- one\n  more\n- two\n\nText\n", None),
        ("1. one\n2. two\n", None),
        ("A range of 1\n- or 2. No:\n\n- one\n", "A range of 1\n\n- or 2. No:\n\n- one\n"),
        ("```md\nSo:\n- one\n```\n", None),
    ],
)
def test_a_list_after_text_gets_an_empty_line(page: str, converted: str | None) -> None:
    assert convert("docs/page.md", page).lstrip("\n") == (converted or page)


def pages_in_navigation(entries: list[Any]) -> Iterator[str]:
    for entry in entries:
        content = next(iter(entry.values())) if isinstance(entry, dict) else entry
        if isinstance(content, str):
            yield content
        else:
            yield from pages_in_navigation(content)


def test_every_page_is_in_the_navigation_of_the_site() -> None:
    docs = PROJECT / "docs"
    listed = set(pages_in_navigation(yaml.safe_load((PROJECT / "mkdocs.yml").read_text())["nav"]))
    pages = {str(path.relative_to(docs)) for path in docs.rglob("*.md")}
    # The site lists decisions on a page of their own.
    assert {page for page in pages - listed if not page.startswith("decisions/")} == set()


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_picture_of_the_states_has_exactly_the_transitions(scheme: str) -> None:
    picture = (PROJECT / "docs" / "images" / f"job-states-{scheme}.svg").read_text()
    drawn = re.findall(r"<title>(\w+) to (\w+)</title>", picture)
    expected = {(source, target) for source, targets in TRANSITIONS.items() for target in targets}
    assert set(drawn) == expected | {("request", "queued")}
    assert set(re.findall(r'class="name">(\w+)<', picture)) == set(STATUSES)


@pytest.mark.parametrize("block", blocks_in("toml"), ids=lambda block: block.page)
def test_the_program_accepts_every_configuration(block: Block, tmp_path: Path) -> None:
    if not re.search(r"^\[\[(agents|plans|prices)\]\]", block.text, re.MULTILINE):
        assert parse_configuration(block.text.encode()).warnings == ()
        return
    # A schema is checked in a process of its own, which other tests do.
    text = re.sub(r"^result_schema = .*\n", "", block.text, flags=re.MULTILINE)
    (tmp_path / "agentjobs.toml").write_text(text)
    build_catalog(load({}, data_dir=str(tmp_path)))


def test_every_document_in_json_or_yaml_can_be_parsed() -> None:
    parsed = [json.loads(block.text) for block in blocks_in("json")]
    parsed += [yaml.safe_load(block.text) for block in blocks_in("yaml")]
    assert len(parsed) > 5


def test_every_request_with_curl_is_an_operation_of_the_api() -> None:
    calls = [
        (block.page, path)
        for block in [*blocks_in("sh"), *blocks_in("yaml")]
        for path in re.findall(r'\$AGENTJOBS_URL(/[^"?\s]*)', block.text)
    ]
    patterns = [re.sub(r"\{\w+\}", "[^/]+(/[^/]+)?", each.path) for each in OPERATIONS.values()]
    assert len(calls) > 20
    assert [
        call for call in calls if not any(re.fullmatch(each, call[1]) for each in patterns)
    ] == []


@pytest.mark.parametrize("block", blocks_in("sh"), ids=lambda block: block.page)
def test_the_shell_can_parse_every_script(block: Block) -> None:
    subprocess.run(["bash", "-n"], input=block.text, text=True, check=True, capture_output=True)


@pytest.mark.parametrize(
    "block",
    [block for block in blocks_in("python") if "from_environment" in block.text],
    ids=lambda block: block.page,
)
def test_every_program_with_the_client_runs_on_the_examples_of_the_api(
    block: Block, monkeypatch: pytest.MonkeyPatch
) -> None:
    requests: list[tuple[Operation, httpx.Request]] = []
    transport = example_transport(requests)
    monkeypatch.setattr(
        agentjobs_client, "Client", lambda: Client(BASE_URL, "key", transport=transport)
    )
    program = block.text.replace("Client.from_environment()", "Client()")
    with suppress(EnoughRequests):
        exec(compile(program, block.page, "exec"), {"print": lambda *_, **__: None})
    assert requests


def test_every_package_is_in_the_architecture() -> None:
    text = (PROJECT / "docs" / "architecture.md").read_text()
    packages = [path.parent.name for path in SERVICE.glob("*/__init__.py")]
    assert [name for name in packages if f"`{name}`" not in text] == []


def test_every_path_that_the_pages_for_developers_name_exists() -> None:
    """They name a file or a directory by the end of its path."""
    docs = PROJECT / "docs"
    folders = [*(PROJECT / part for part in PARTS), *map(PROJECT.joinpath, ("clients", "tests"))]
    existing = {f"/{path.relative_to(PROJECT)}" for root in folders for path in root.rglob("*")}
    existing |= {f"/{path.relative_to(PROJECT)}" for path in (*PROJECT.glob("*"), *docs.rglob("*"))}
    ends = {path[match.start() :] for path in existing for match in re.finditer("/", path)}
    named_in = [PROJECT / "CONTRIBUTING.md", docs / "architecture.md", *docs.glob("internals/*.md")]
    named = {
        (page.name, path)
        for page in named_in
        for path in re.findall(r"`([\w./-]+(?:\.\w+|/))`", page.read_text())
        if path.endswith(("/", ".py", ".sql", ".json", ".md", ".go"))
    }
    assert len(named) > 100
    assert {name for name in named if f"/{name[1].rstrip('/')}" not in ends} == set()


def test_every_target_and_suite_of_make_that_documentation_names_exists() -> None:
    makefile = (PROJECT / "Makefile").read_text()
    targets = set(re.findall(r"^([a-z-]+):.*## ", makefile, re.MULTILINE))
    suites = set(re.findall(r"^SUITES := (.*)", makefile, re.MULTILINE)[0].split())
    described = set(re.findall(r"^#: (\w+): ", makefile, re.MULTILINE))
    text = "\n".join(page.read_text() for page in (*pages(), PROJECT / "CONTRIBUTING.md"))
    assert len(targets) <= 20
    assert suites - described == {"main", "rest", "all"}
    assert set(re.findall(r"^(?:.*`)?make ([a-z][a-z-]*)", text, re.MULTILINE)) <= targets
    assert set(re.findall(r"\bSUITE=(\w+)", text)) <= suites


def test_every_test_that_the_security_page_names_exists() -> None:
    page = (PROJECT / "docs" / "security.md").read_text()
    named = re.findall(r"`((?:\w+/)?(?:tests|bench)/[\w/.]+)(?:::(\w+))?`", page)
    assert len(named) > 30
    missing = [
        f"{path}::{test}"
        for path, test in named
        if not (PROJECT / path).exists()
        or (test and f"def {test}(" not in (PROJECT / path).read_text())
    ]
    assert missing == []


def test_agents_are_installed_with_the_commands_of_their_presets() -> None:
    pages = {name: (PROJECT / name).read_text() for name in ("README.md", "docs/quickstart.md")}
    claude = PRESETS["claude-code"].install_with
    assert [name for name, text in pages.items() if f"`{claude}`" not in text] == []
    agents = (PROJECT / "docs" / "agents.md").read_text()
    assert [name for name, preset in PRESETS.items() if preset.install_with not in agents] == []


def test_the_page_on_the_api_lists_every_error_of_a_job() -> None:
    text = (PROJECT / "docs" / "api.md").read_text()
    rows = re.findall(r"^\| `(\w+)` \| (yes|no) \|", text, re.MULTILINE)
    assert {code: retryable == "yes" for code, retryable in rows} == RETRYABLE


def test_the_platforms_page_says_how_long_a_job_retries() -> None:
    text = " ".join((PROJECT / "docs" / "platforms.md").read_text().split())
    first, second, third = BACKOFF_SECONDS
    assert f"retried for up to {RETRY_SECONDS:.0f} seconds" in text
    assert f"three times, after {first}, {second} and {third} seconds" in text
