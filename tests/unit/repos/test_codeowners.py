"""Who is asked to review a change, by the rules that GitHub and GitLab document."""

import threading
import time
from collections.abc import Iterator

import pytest

from agentjobs.repos.codeowners import MAX_OWNERS, CostlyOwners, owners_of

GITHUB = """\
# everything, unless a later line says otherwise
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
def test_the_last_rule_that_matches_names_the_owners(path: str, owners: tuple[str, ...]) -> None:
    assert owners_of(GITHUB, [path.encode()]) == owners


def test_of_several_paths_who_owns_most_comes_first() -> None:
    owners = owners_of("*.py @py\n*.md @md @py", [b"a.md", b"b.py", b"c.py"])
    assert owners == ("@py", "@md")


def test_every_section_of_gitlab_names_its_own() -> None:
    text = "* @all\n[Docs] @writers\n*.md\n^[Database][2]\n*.sql @dba @group/data\n[docs]\nx.md @x"
    assert owners_of(text, [b"a.md"]) == ("@all", "@writers")
    assert owners_of(text, [b"x.md"]) == ("@all", "@x")
    assert owners_of(text, [b"a.sql"]) == ("@all", "@dba", "@group/data")


def test_what_is_no_rule_is_passed_over() -> None:
    text = "!no @a\n[ab @b\n\\\n../x @c\n@alone\n* not-an-owner <script> @-x @ok"
    assert owners_of(text, [b"file"]) == ("@ok",)


def test_a_hostile_file_takes_bounded_time_and_names_few() -> None:
    stars = "*a" * 140 + "b"
    everyone = " ".join(f"@u{number}" for number in range(500))
    text = f"{stars} @slow\n" * 3_000 + f"* {everyone}\n"
    paths = [b"a" * 200 + b"/" + b"a" * 200] * 20
    assert owners_of(text, paths) == ()
    assert len(owners_of(f"* {everyone}", [b"x"])) == MAX_OWNERS
    assert owners_of(f"* {everyone}", [b"a/" * 1_000]) == ()


def test_what_would_take_too_long_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("agentjobs.repos.codeowners.MAX_SECONDS", 0.05)
    text = ("**/a*" * 1 + "/**/a*" * 10 + "/zz @x\n") * 2_000
    with pytest.raises(CostlyOwners):
        owners_of(text, [b"a/" * 60 + b"a"] * 1_000)


def test_time_that_other_threads_take_does_not_count(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("agentjobs.repos.codeowners.MAX_SECONDS", 0.1)

    def paths() -> Iterator[bytes]:
        other = threading.Thread(target=_spend_cpu_seconds, args=(0.3,))
        other.start()
        other.join()
        yield b"file"

    assert owners_of("* @all", paths()) == ("@all",)


def _spend_cpu_seconds(seconds: float) -> None:
    while time.thread_time() < seconds:
        pass
