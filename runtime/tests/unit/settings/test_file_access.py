"""A data directory or configuration file that this user cannot use: one line says what to do."""

import multiprocessing
import os
import tempfile
from collections.abc import Callable
from pathlib import Path

import pytest

from agentjobs_runtime.settings import SettingsError, load, prepare_data_directory
from agentjobs_runtime.settings.file_access import create_data_directory, find_other_owner

ORDINARY_UID = 65_534


def _call(connection: object, function: Callable[..., object], *arguments: object) -> None:
    if os.geteuid() == 0:
        # Root may read and write everything.
        os.setgroups([])
        os.setuid(ORDINARY_UID)
    connection.send(function(*arguments))  # type: ignore[attr-defined]  # a pipe of multiprocessing


def as_ordinary_user(function: Callable[..., object], *arguments: object) -> object:
    """The result of the function in a process of an ordinary user, also if root runs the tests."""
    forked = multiprocessing.get_context("fork")
    receiver, sender = forked.Pipe(duplex=False)
    process = forked.Process(target=_call, args=(sender, function, *arguments))
    process.start()
    sender.close()
    result: object = receiver.recv()
    process.join()
    return result


def error_of(data_dir: str, config: str | None = None) -> str:
    environ = {"AGENTJOBS_DATA_DIR": data_dir}
    if config is not None:
        environ["AGENTJOBS_CONFIG"] = config
    try:
        prepare_data_directory(load(environ))
    except SettingsError as error:
        return str(error)
    return ""


def test_a_directory_is_created_for_its_owner_only(tmp_path: Path) -> None:
    assert create_data_directory(tmp_path / "a" / "data") is None
    assert (tmp_path / "a" / "data").stat().st_mode & 0o777 == 0o700
    assert find_other_owner(tmp_path / "a" / "data") is None


def test_a_directory_of_another_user_says_whose_it_is_and_what_to_do() -> None:
    message = as_ordinary_user(error_of, "/etc")
    assert isinstance(message, str)
    assert message.startswith("the data directory cannot be used: /etc belongs to root, and this")
    assert "run the command as root (`sudo …`)" in message
    assert message.endswith("or choose another one with --data-dir or AGENTJOBS_DATA_DIR")
    assert as_ordinary_user(find_other_owner, Path("/etc")) == "root"


def test_a_directory_that_cannot_be_created_names_the_command_for_it() -> None:
    message = as_ordinary_user(error_of, "/etc/agentjobs-of-nobody/data")
    assert "cannot be created (Permission denied): run `sudo install -d -m 700 -o" in str(message)


def test_a_file_in_place_of_the_directory_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    assert f"{tmp_path / 'file'} is not a directory" in error_of(str(tmp_path / "file"))
    assert "is not a directory" in str(create_data_directory(tmp_path / "file"))


def test_a_database_that_root_created_names_the_command_that_gives_it_back() -> None:
    # Not in `tmp_path`, which other users cannot enter.
    with tempfile.TemporaryDirectory() as name:
        directory = Path(name)
        # Root may have run a command before the service started for the first time.
        (directory / "agentjobs.db").touch(mode=0)
        if os.geteuid() == 0:
            os.chown(directory, ORDINARY_UID, -1)
        message = str(as_ordinary_user(create_data_directory, directory))
    assert "agentjobs.db belongs to" in message
    assert f"{directory}`, and use the same user for all commands" in message


def test_a_configuration_file_of_another_user_is_named(tmp_path: Path) -> None:
    message = str(as_ordinary_user(error_of, "/etc", "/etc/shadow"))
    assert message.startswith("/etc/shadow cannot be read: /etc/shadow belongs to root, and this")


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (b"\xff\xfe", "is not a text in UTF-8"),
        (None, "is a directory, and must be a file"),
    ],
)
def test_a_configuration_file_that_is_no_text_is_named(
    tmp_path: Path, content: bytes | None, expected: str
) -> None:
    file = tmp_path / "agentjobs.toml"
    if content is None:
        file.mkdir()
    else:
        file.write_bytes(content)
    assert f"{file} {expected}" in error_of(str(tmp_path))


def test_a_file_named_by_the_variable_must_exist(tmp_path: Path) -> None:
    message = error_of(str(tmp_path), str(tmp_path / "absent.toml"))
    assert "does not exist: create it, or unset the variable" in message
