from pathlib import Path

import pytest

from agentjobs.settings import SettingsError, is_loopback, load, unknown_variables


def from_file(tmp_path: Path, text: str) -> dict[str, str]:
    path = tmp_path / "agentjobs.toml"
    path.write_text(text)
    return {"AGENTJOBS_DATA_DIR": str(tmp_path)}


def test_flags_win_over_environment_over_file(tmp_path: Path) -> None:
    environ = from_file(tmp_path, 'port = 1\nhost = "::1"\nslots = 7\n')
    environ |= {"AGENTJOBS_PORT": "2", "AGENTJOBS_HOST": "127.0.0.2"}
    settings = load(environ, port=3, host=None)
    assert (settings.port, settings.host, settings.slots) == (3, "127.0.0.2", 7)


def test_without_anything_the_store_is_sqlite_in_the_data_directory(tmp_path: Path) -> None:
    settings = load({"AGENTJOBS_DATA_DIR": str(tmp_path)})
    assert settings.effective_database_url == f"sqlite:///{tmp_path}/agentjobs.db"
    assert settings.effective_public_url == "http://127.0.0.1:8080"


def test_the_default_plans_are_free_pro_and_enterprise(tmp_path: Path) -> None:
    plans = load({"AGENTJOBS_DATA_DIR": str(tmp_path)}).plans
    limits = {plan.name: plan.concurrent_jobs for plan in plans}
    assert limits == {"free": 1, "pro": 5, "enterprise": 50}


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("port = ", "line 1"),
        ('[[agents]]\nid = "a"\nname = "A"\ncommand = "sh"\n', "line 4: agents[0].command"),
        ('x = 1\n[[agents]]\nid = "a"\n', "line 1: x"),
        ('[[agents]]\nid = "a"\nname = "A"\ncommand = ["sh"]\nimage = "i"\n', "line 5"),
        ('[[plans]]\nname = "a"\n', "line 1: plans[0]: Object missing"),
        ('data_dir = "/x"\n', "line 1: data_dir"),
        ('\n\nport = "a"\n', "line 3: port"),
        ("\nslots = -1\n", "line 2: slots"),
        ("sandbox_uid_base = 1\n", "line 1: sandbox_uid_base: must be at least"),
        ("sandbox_uid_base = 4294967294\n", "line 1: sandbox_uid_base: must be at most"),
        ("limit_file_mib = 99999999999999\n", "line 1: limit_file_mib"),
        ('encryption_key = "x"\n', "line 1: encryption_key: set it with"),
        (f"plans = {'[' * 5_000}\n", "nested too deeply"),
        ('[[plans]]\nname = "none"\nconcurrent_jobs = 0\n', "line 1: plans[0]"),
    ],
)
def test_a_bad_file_is_refused_with_line_and_reason(tmp_path: Path, text: str, words: str) -> None:
    with pytest.raises(SettingsError) as refused:
        load(from_file(tmp_path, text))
    assert words in str(refused.value)


@pytest.mark.parametrize(
    "environ",
    [
        {"AGENTJOBS_PORT": "x"},
        {"AGENTJOBS_PORT": "70000"},
        {"AGENTJOBS_LEASE_SECONDS": "1"},
        {"AGENTJOBS_SANDBOX": "docker"},
        {"AGENTJOBS_SLOTS": "-1"},
        {"AGENTJOBS_HOST": ""},
        {"AGENTJOBS_LEASE_SECONDS": "inf"},
        {"AGENTJOBS_RATE_LIMIT_PER_SECOND": "nan"},
        {"AGENTJOBS_METRICS_BIND": "somewhere"},
        {"AGENTJOBS_METRICS_BIND": "127.0.0.1:99999"},
        {"AGENTJOBS_LOG_LEVEL": "loud"},
        {"AGENTJOBS_QUEUE_LIMIT": "0"},
        {"AGENTJOBS_DATABASE_URL": "mysql://x"},
        {"AGENTJOBS_PUBLIC_URL": "example.com"},
        {"AGENTJOBS_CONFIG": "/nowhere/agentjobs.toml"},
    ],
)
def test_a_setting_that_cannot_be_used_is_refused(environ: dict[str, str], tmp_path: Path) -> None:
    with pytest.raises(SettingsError):
        load({"AGENTJOBS_DATA_DIR": str(tmp_path), **environ})


def test_a_plan_without_room_for_a_job_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="concurrent_jobs"):
        load(from_file(tmp_path, '[[plans]]\nname = "none"\nconcurrent_jobs = 0\n'))


def test_a_misspelt_variable_is_noticed() -> None:
    environ = {"AGENTJOBS_PORTS": "1", "AGENTJOBS_PORT": "1", "AGENTJOBS_URL": "x", "PATH": "/"}
    assert unknown_variables(environ) == ["AGENTJOBS_PORTS"]


def test_loopback_is_recognised_in_every_spelling() -> None:
    assert all(is_loopback(host) for host in ("127.0.0.1", "127.1.2.3", "::1", "localhost"))
    assert not any(is_loopback(host) for host in ("0.0.0.0", "10.0.0.1", "example.com"))
