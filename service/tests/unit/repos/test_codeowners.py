"""Code owners of a change, by the rules that GitHub and GitLab document."""

import threading
import time
from collections.abc import Iterator

import pytest

from agentjobs.repos.codeowners import MAX_OWNERS, CodeOwnersTimeout, find_owners

GITHUB = """\
# everything, unless a later line matches
*                   @global-one @global-two
*.js                @js-owner #trailing words
/build/logs/        @doctocat
docs/*              docs@example.com @writer
apps/               @octocat
/scripts/           @doctocat @octocat
**/logs             @logger
/apps/github
/a\\ b/              @blank
"""


@pytest.mark.parametrize(
    ("path", "owners"),
    [
        ("README.md", ("@global-one", "@global-two")),
        ("web/app.js", ("@js-owner",)),
        ("build/logs/x.txt", ("@logger",)),
        ("docs/start.md", ("@writer",)),
        ("docs/build/trouble.md", ("@global-one", "@global-two")),
        ("web/apps/thing", ("@octocat",)),
        ("scripts/run", ("@doctocat", "@octocat")),
        ("deep/down/logs/today", ("@logger",)),
        ("apps/github/x", ()),
        ("a b/c", ("@blank",)),
    ],
)
def test_the_last_matching_rule_names_the_owners(path: str, owners: tuple[str, ...]) -> None:
    assert find_owners(GITHUB, [path.encode()]) == owners


def test_the_owner_of_most_paths_comes_first() -> None:
    owners = find_owners("*.py @py\n*.md @md @py", [b"a.md", b"b.py", b"c.py"])
    assert owners == ("@py", "@md")


def test_each_gitlab_section_adds_its_owners() -> None:
    text = "* @all\n[Docs] @writers\n*.md\n^[Database][2]\n*.sql @dba @group/data\n[docs]\nx.md @x"
    assert find_owners(text, [b"a.md"]) == ("@all", "@writers")
    assert find_owners(text, [b"x.md"]) == ("@all", "@x")
    assert find_owners(text, [b"a.sql"]) == ("@all", "@dba", "@group/data")


def test_invalid_rules_are_skipped() -> None:
    text = "!no @a\n[ab @b\n\\\n../x @c\n@alone\n* not-an-owner <script> @-x @ok"
    assert find_owners(text, [b"file"]) == ("@ok",)


def test_a_hostile_file_takes_bounded_time_and_yields_few_owners() -> None:
    stars = "*a" * 140 + "b"
    everyone = " ".join(f"@u{number}" for number in range(500))
    text = f"{stars} @slow\n" * 3_000 + f"* {everyone}\n"
    paths = [b"a" * 200 + b"/" + b"a" * 200] * 3
    assert find_owners(text, paths) == ()
    assert len(find_owners(f"* {everyone}", [b"x"])) == MAX_OWNERS
    assert find_owners(f"* {everyone}", [b"a/" * 1_000]) == ()


def test_a_file_that_exceeds_the_cpu_limit_raises(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("agentjobs.repos.codeowners.MAX_CPU_SECONDS", 0.05)
    text = ("**/a*" * 1 + "/**/a*" * 10 + "/zz @x\n") * 2_000
    with pytest.raises(CodeOwnersTimeout):
        find_owners(text, [b"a/" * 60 + b"a"] * 1_000)


def test_cpu_time_of_other_threads_does_not_count(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("agentjobs.repos.codeowners.MAX_CPU_SECONDS", 0.1)

    def paths() -> Iterator[bytes]:
        other = threading.Thread(target=_spend_cpu_seconds, args=(0.3,))
        other.start()
        other.join()
        yield b"file"

    assert find_owners("* @all", paths()) == ("@all",)


def _spend_cpu_seconds(seconds: float) -> None:
    while time.thread_time() < seconds:
        pass
