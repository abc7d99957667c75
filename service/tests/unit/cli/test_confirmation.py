"""Commands that destroy something ask for its name."""

import io

import pytest
import typer

from agentjobs.cli.confirmation import confirm_name


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_the_name_confirms(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.stdin", Terminal("acme\n"))
    confirm_name("acme", "organization", "deletes all data of acme")
    asked = " ".join(capsys.readouterr().err.split())
    assert asked == (
        "This deletes all data of acme. It cannot be undone. Enter the name of the organization to"
        " confirm:"
    )


@pytest.mark.parametrize("typed", ["", "y\n", "Acme\n"])
def test_anything_else_does_not(monkeypatch: pytest.MonkeyPatch, typed: str) -> None:
    monkeypatch.setattr("sys.stdin", Terminal(typed))
    with pytest.raises(typer.BadParameter, match="nothing was changed"):
        confirm_name("acme", "organization", "deletes all data of acme")


def test_without_a_terminal_an_option_is_needed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO("acme\n"))
    with pytest.raises(typer.BadParameter, match="deletes all data of acme; confirm it with --yes"):
        confirm_name("acme", "organization", "deletes all data of acme")
