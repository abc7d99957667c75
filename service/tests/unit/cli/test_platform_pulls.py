"""`agentjobs pulls` for a pull request that a platform elsewhere keeps."""

import sqlite3
import sys
from contextlib import closing

import msgspec
import pytest

from agentjobs.cli.main import main

THERE = "https://git.example.org/group/sub/shop/pulls/7"
ROWS = (
    "INSERT INTO organizations (id, name, plan, created_at) VALUES ('org_1', 'default', 'x', 1)",
    (
        "INSERT INTO repos (id, organization_id, full_name, platform, source, default_branch,"
        " head_commit, created_at) VALUES ('repo_1', 'org_1', 'group/sub/shop',"
        " 'gitea', '', 'main', '', 1)"
    ),
    (
        "INSERT INTO pulls (repo_id, number, title, body, head_branch, base_branch, head_commit,"
        " base_commit, state, draft, created_at, url) VALUES ('repo_1', 7, 'Fix it', '', 'a',"
        f" 'main', 'c', 'd', 'open', 1, 1, '{THERE}')"
    ),
)


@pytest.fixture
def pulls(sqlite_url, tmp_path, monkeypatch, capsys):
    with closing(sqlite3.connect(tmp_path / "agentjobs.db")) as database, database:
        for sql in ROWS:
            database.execute(sql)

    def run(*arguments: str) -> tuple[int, str, str]:
        given = ["agentjobs", "pulls", *arguments, "--data-dir", str(tmp_path)]
        monkeypatch.setattr(sys, "argv", given)
        with pytest.raises(SystemExit) as ended:
            main()
        captured = capsys.readouterr()
        return int(ended.value.code or 0), captured.out, captured.err

    return run


def test_it_is_shown_with_its_address_there_and_without_a_diff(pulls):
    exit_code, out, err = pulls("show", "group/sub/shop", "7")
    assert exit_code == 0
    assert out.splitlines()[0] == "#7 Fix it (open, draft)"
    assert out.endswith(f"{THERE}\n")
    assert "See its platform for the diff." in err
    document = msgspec.json.decode(pulls("show", "group/sub/shop", "7", "--json")[1])
    assert (document["url"], document["diff"]) == (THERE, None)


@pytest.mark.parametrize("verb", ["merge", "close", "ready"])
def test_it_is_not_changed_here(pulls, verb):
    exit_code, out, err = pulls(verb, "group/sub/shop", "7")
    assert (exit_code, out) == (2, "")
    assert THERE in err
