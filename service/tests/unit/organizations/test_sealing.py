"""Sealing: what is kept at rest opens only where it belongs, with a key that is well kept."""

import base64
import os
import stat
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from agentjobs.organizations.sealing import KEY_FILE, DecryptionFailed, SealingKeys
from agentjobs_runtime.problems import Problem
from agentjobs_runtime.settings import load

FIRST, SECOND = (base64.b64encode(bytes([each]) * 32).decode() for each in (1, 2))
HERE = ("secret", "org_1", "NAME")


def keys(data_dir: Path, key: str = "") -> SealingKeys:
    return SealingKeys.load(load({}, data_dir=str(data_dir), encryption_key=key))


def code_of(problem: pytest.ExceptionInfo[Problem]) -> str:
    return problem.value.code


def test_a_sealed_value_opens_again_and_is_unreadable(tmp_path: Path) -> None:
    ring = keys(tmp_path, FIRST)
    sealed = ring.seal("väl ue", *HERE)
    assert ring.open(sealed.data, *HERE) == "väl ue"
    assert "väl".encode() not in sealed.data
    assert ring.seal("väl ue", *HERE).data != sealed.data
    assert not (tmp_path / KEY_FILE).exists()


@pytest.mark.parametrize(
    "elsewhere",
    [("secret", "org_2", "NAME"), ("secret", "org_1", "OTHER"), ("secret", "org_1N", "AME"), ()],
)
def test_a_moved_value_does_not_open(tmp_path: Path, elsewhere: tuple[str, ...]) -> None:
    ring = keys(tmp_path, FIRST)
    sealed = ring.seal("value", *HERE)
    with pytest.raises(Problem) as problem:
        ring.open(sealed.data, *elsewhere)
    assert code_of(problem) == "sealed_value_damaged"


def test_a_modified_value_does_not_open(tmp_path: Path) -> None:
    ring = keys(tmp_path, FIRST)
    data = ring.seal("value", *HERE).data
    changed = [data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :] for at in range(len(data))]
    for broken in (*changed, *(data[:end] for end in range(len(data))), data + b"\0"):
        with pytest.raises(Problem):
            ring.open(broken, *HERE)


def test_the_first_key_seals_and_every_key_opens(tmp_path: Path) -> None:
    old = keys(tmp_path, FIRST).seal("value", *HERE)
    both = keys(tmp_path, f"{SECOND}, {FIRST}")
    new = both.seal("value", *HERE)
    assert (both.open(old.data, *HERE), both.open(new.data, *HERE)) == ("value", "value")
    assert new.key_id != old.key_id
    with pytest.raises(Problem) as problem:
        keys(tmp_path, FIRST).open(new.data, *HERE)
    assert code_of(problem) == "sealing_key_missing"
    assert new.key_id in problem.value.message


def test_an_error_names_the_key_file_to_the_operator_only(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    sealed = keys(tmp_path, FIRST).seal("value", *HERE).data
    with pytest.raises(DecryptionFailed) as raised:
        keys(tmp_path, SECOND).open_named("The secret NAME", sealed, *HERE)
    assert raised.value.code == "sealing_key_missing"
    assert raised.value.message.startswith("The secret NAME cannot be decrypted.")
    assert KEY_FILE not in str(raised.value)
    assert KEY_FILE in raised.value.reason
    assert caplog.messages == [raised.value.reason]


def test_the_first_seal_creates_the_key_file_and_opening_does_not(tmp_path: Path) -> None:
    data_dir = tmp_path / "data"
    ring = keys(data_dir)
    with pytest.raises(Problem):
        ring.open(keys(tmp_path, FIRST).seal("value", *HERE).data, *HERE)
    assert not data_dir.exists()

    sealed = ring.seal("value", *HERE)
    assert ring.created_key_file
    assert stat.S_IMODE((data_dir / KEY_FILE).stat().st_mode) == 0o600
    assert [path.name for path in data_dir.iterdir()] == [KEY_FILE]
    other = keys(data_dir)
    assert other.open(sealed.data, *HERE) == "value"
    assert other.seal("other", *HERE).key_id == sealed.key_id
    assert not other.created_key_file


def test_a_key_created_by_another_process_is_found_later(tmp_path: Path) -> None:
    reader = keys(tmp_path)
    sealed = keys(tmp_path).seal("value", *HERE)
    assert reader.open(sealed.data, *HERE) == "value"


def test_concurrent_first_seals_share_one_key(tmp_path: Path) -> None:
    with ThreadPoolExecutor(8) as threads:
        sealed = list(threads.map(lambda _: keys(tmp_path).seal("value", *HERE), range(32)))
    assert len({each.key_id for each in sealed}) == 1
    assert [path.name for path in tmp_path.iterdir()] == [KEY_FILE]


def test_a_key_in_the_environment_keeps_values_of_the_file_key_readable(tmp_path: Path) -> None:
    sealed = keys(tmp_path).seal("value", *HERE)
    assert keys(tmp_path, FIRST).open(sealed.data, *HERE) == "value"


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o660])
def test_a_key_file_readable_by_other_users_is_refused(tmp_path: Path, mode: int) -> None:
    sealed = keys(tmp_path).seal("value", *HERE)
    path = tmp_path / KEY_FILE
    path.chmod(mode)
    for use in (lambda: keys(tmp_path).open(sealed.data, *HERE), lambda: keys(tmp_path).seal("x")):
        with pytest.raises(Problem) as problem:
            use()
        assert f"chmod 600 {path}" in problem.value.message


def test_an_unreadable_key_file_is_reported(tmp_path: Path) -> None:
    (tmp_path / KEY_FILE).mkdir(mode=0o700)
    with pytest.raises(Problem) as problem:
        keys(tmp_path).seal("x")
    assert code_of(problem) == "sealing_key_unreadable"


@pytest.mark.parametrize("text", ["short", "!" * 44, base64.b64encode(b"x" * 16).decode()])
def test_an_invalid_key_is_refused_and_not_shown(tmp_path: Path, text: str) -> None:
    with pytest.raises(Problem) as problem:
        keys(tmp_path, text)
    assert "openssl rand -base64 32" in problem.value.message
    assert text not in problem.value.message
    (tmp_path / KEY_FILE).touch(0o600)
    (tmp_path / KEY_FILE).write_text(text)
    with pytest.raises(Problem) as problem:
        keys(tmp_path).seal("x")
    assert code_of(problem) == "invalid_sealing_key"


def test_an_empty_key_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / KEY_FILE).touch(0o600)
    with pytest.raises(Problem) as problem:
        keys(tmp_path).seal("x")
    assert code_of(problem) == "sealing_key_missing"


def test_a_key_may_be_written_in_hexadecimal_or_the_other_base64(tmp_path: Path) -> None:
    raw = os.urandom(32)
    texts = (raw.hex(), base64.b64encode(raw).decode(), base64.urlsafe_b64encode(raw).decode()[:-1])
    assert len({keys(tmp_path, text).seal("x").key_id for text in texts}) == 1


def test_an_encryption_key_variable_without_a_key_is_refused(tmp_path: Path) -> None:
    settings = load({"AGENTJOBS_DATA_DIR": str(tmp_path), "AGENTJOBS_ENCRYPTION_KEY": " , "})
    with pytest.raises(Problem, match="openssl rand"):
        SealingKeys.load(settings)
