"""`agentjobs users` as an operator types it."""

import io
import shutil
import sqlite3
import sys

import pytest

from agentjobs.organizations.invitations import INVITATION_PREFIX
from agentjobs.organizations.password_resets import RESET_PREFIX
from agentjobs.organizations.sign_in_links import LINK_PREFIX
from agentjobs.organizations.tokens import is_well_formed
from tests.support import preloaded_cli
from tests.support.in_process_cli import InProcessCommandLine
from tests.support.users import PASSWORD, make_passwords_cheap

PUBLIC_URL = "https://jobs.example.com/agents"


@pytest.fixture(autouse=True)
def _cheap_passwords(monkeypatch):
    make_passwords_cheap(monkeypatch)


@pytest.fixture
def agentjobs(tmp_path, sqlite_template, capsys):
    (tmp_path / "data").mkdir()
    shutil.copy(sqlite_template, tmp_path / "data" / "agentjobs.db")
    return InProcessCommandLine(capsys, tmp_path / "data", AGENTJOBS_PUBLIC_URL=PUBLIC_URL)


@pytest.fixture
def given(agentjobs, monkeypatch):
    """Runs a command with the given standard input."""

    def run(data: bytes, *arguments: str):
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(data)))
        return agentjobs("users", *arguments)

    return run


def rows(agentjobs, sql: str) -> list[tuple]:
    with sqlite3.connect(agentjobs.data_dir / "agentjobs.db") as connection:
        records = connection.execute(sql).fetchall()
    connection.close()
    return records


def test_people_are_added_listed_changed_and_removed(agentjobs):
    agentjobs("orgs", "create", "acme")
    added = agentjobs("users", "add", " Ada@Example.com", "--role", "admin", "--name", "Ada")
    assert (added.exit_code, added.out) == (0, "ada@example.com\n")
    assert "sign-in-link" in added.err
    joined = agentjobs("users", "add", "ada@example.com", "--org", "acme", "--json").document
    assert joined["organizations"] == {"acme": "member", "default": "admin"}
    assert joined["existed"] is True
    bob = agentjobs("users", "add", "bob@example.com", "--role", "viewer", "--json").document
    assert bob["existed"] is False

    users = agentjobs("users", "list", "--json").document["users"]
    assert [user["email"] for user in users] == ["ada@example.com", "bob@example.com"]
    assert (users[0]["name"], users[0]["has_password"]) == ("Ada", False)
    only = agentjobs("users", "list", "--org", "acme", "--json").document["users"]
    assert [each["email"] for each in only] == ["ada@example.com"]
    assert "acme (member), default (admin)" in agentjobs("users", "list").out

    changed = agentjobs("users", "set-role", "bob@example.com", "admin", "--json").document
    assert changed == {"email": "bob@example.com", "organization": "default", "role": "admin"}
    removed = agentjobs("users", "remove", "ada@example.com")
    assert (removed.exit_code, removed.out) == (0, "ada@example.com\n")
    last = agentjobs("users", "remove", "bob@example.com")
    assert (last.exit_code, "last admin" in last.err) == (2, True)
    logged = rows(agentjobs, "SELECT DISTINCT actor_kind FROM audit_log WHERE action LIKE 'mem%'")
    assert logged == [("operator",)]


def test_adding_an_existing_account_prints_a_warning(agentjobs):
    """The creator of the account may know its password."""
    agentjobs("orgs", "create", "acme")
    new = agentjobs("users", "add", "Ada@example.com")
    assert "already had an account" not in new.err
    known = agentjobs("users", "add", "Ada@example.com", "--org", "acme")
    assert (known.exit_code, known.out) == (0, "ada@example.com\n")
    assert "ada@example.com already had an account, created 20" in known.err
    assert "set a new password" in known.err


@pytest.mark.parametrize(
    "arguments",
    [
        ("add", "no address"),
        ("add", "ada@example.com", "--role", "owner"),
        ("add", "ada@example.com", "--org", "none"),
        ("list", "--org", "none"),
        ("set-role", "bob@example.com", "admin"),
        ("remove", "bob@example.com"),
        ("invite", "admin@localhost"),
        ("invite", "bob@example.com", "--role", "owner"),
        ("sign-in-link", "bob@example.com"),
        ("reset-link", "bob@example.com"),
        ("operator", "add", "bob@example.com"),
        ("operator", "remove", "bob@example.com"),
    ],
)
def test_invalid_options_are_one_line_errors(agentjobs, arguments):
    refused = agentjobs("users", *arguments)
    assert (refused.exit_code, refused.out) == (2, "")
    assert refused.err.count("\n") == 1


def test_a_password_comes_from_standard_input_and_is_never_shown(agentjobs, given):
    agentjobs("users", "add", "ada@example.com")
    done = given(PASSWORD.encode() + b"\n", "set-password", "ada@example.com")
    assert (done.exit_code, done.out) == (0, "ada@example.com\n")
    assert PASSWORD not in done.err
    (user,) = agentjobs("users", "list", "--json").document["users"]
    assert user["has_password"]
    for data in (b"", b"short\n", b"\xff" * 12, b"x1" * 5_000):
        refused = given(data, "set-password", "ada@example.com")
        assert (refused.exit_code, refused.out, refused.err.count("\n")) == (2, "", 1)


def test_an_invitation_link_is_alone_on_stdout(agentjobs):
    invitation = agentjobs("users", "invite", "ada@example.com", "--role", "viewer")
    link, token = invitation.out.removesuffix("\n"), invitation.out.strip().rpartition("=")[2]
    assert link == f"{PUBLIC_URL}/invitation?token={token}"
    assert is_well_formed(token, INVITATION_PREFIX)
    assert "7 days" in invitation.err
    repeated = agentjobs("users", "invite", "ada@example.com", "--json").document
    assert (repeated["email"], repeated["role"], repeated["organization"]) == (
        "ada@example.com",
        "member",
        "default",
    )
    assert repeated["link"] != link


def test_a_sign_in_link_is_alone_on_stdout(agentjobs):
    agentjobs("users", "add", "ada@example.com")
    created = agentjobs("users", "sign-in-link", "ADA@example.com")
    token = created.out.strip().rpartition("=")[2]
    assert created.out == f"{PUBLIC_URL}/sign-in?token={token}\n"
    assert is_well_formed(token, LINK_PREFIX)
    assert "once, within 10 minutes" in created.err
    assert token.encode() not in (agentjobs.data_dir / "agentjobs.db").read_bytes()
    document = agentjobs("users", "sign-in-link", "ada@example.com", "--json").document
    assert document["link"].startswith(f"{PUBLIC_URL}/sign-in?token=ajl_")


def test_a_reset_link_is_alone_on_stdout(agentjobs):
    agentjobs("users", "add", "ada@example.com")
    created = agentjobs("users", "reset-link", "ADA@example.com")
    token = created.out.strip().rpartition("=")[2]
    assert created.out == f"{PUBLIC_URL}/password-reset?token={token}\n"
    assert is_well_formed(token, RESET_PREFIX)
    assert "once, within 24 hours" in created.err
    document = agentjobs("users", "reset-link", "ada@example.com", "--json").document
    assert document["email"] == "ada@example.com"
    assert document["link"].startswith(f"{PUBLIC_URL}/password-reset?token=ajr_")


def test_operators_are_added_listed_and_removed(agentjobs):
    agentjobs("users", "add", "ada@example.com", "--name", "Ada")
    added = agentjobs("users", "operator", "add", "ADA@example.com")
    assert (added.exit_code, added.out) == (0, "ada@example.com\n")
    assert "is an operator now" in added.err
    assert "already" in agentjobs("users", "operator", "add", "ada@example.com").err
    assert "ada@example.com" in agentjobs("users", "operator", "list").out
    listed = agentjobs("users", "operator", "list", "--json").document
    assert listed == {"operators": [{"email": "ada@example.com", "name": "Ada"}]}
    assert agentjobs("users", "list", "--json").document["users"][0]["is_operator"] is True
    removed = agentjobs("users", "operator", "remove", "ada@example.com", "--json").document
    assert removed == {"email": "ada@example.com", "is_operator": False, "changed": True}
    assert agentjobs("users", "operator", "list", "--json").document == {"operators": []}


@pytest.mark.parametrize(
    ("verb", "left_open"),
    [
        ("invite", "SELECT id FROM invitations WHERE revoked_at IS NULL"),
        ("sign-in-link", "SELECT hash FROM sign_in_links"),
        ("reset-link", "SELECT hash FROM sign_in_links"),
    ],
)
def test_a_link_that_could_not_be_printed_is_revoked(agentjobs, verb, left_open):
    agentjobs("users", "add", "ada@example.com")
    email = "bob@example.com" if verb == "invite" else "ada@example.com"
    done = preloaded_cli.run(
        ("users", verb, email),
        agentjobs.environment,
        setup="tests.support.preloaded_cli:fill_stdout",
    )
    assert done.returncode == 2
    assert "was revoked" in done.stderr
    assert rows(agentjobs, left_open) == []
