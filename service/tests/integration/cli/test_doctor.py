"""`agentjobs doctor` on healthy and unhealthy machines."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from tests.support.cli_process import CommandLine, CommandResult, until


@pytest.fixture
def agentjobs(tmp_path: Path) -> CommandLine:
    (tmp_path / "data").mkdir()
    return CommandLine(tmp_path / "data")


def findings(result: CommandResult) -> list[dict[str, Any]]:
    parsed: list[dict[str, Any]] = json.loads(result.out)["findings"]
    return parsed


def problems(result: CommandResult) -> str:
    return "\n".join(each["message"] for each in findings(result) if each["state"] == "problem")


def declare(agentjobs: CommandLine, text: str) -> None:
    (agentjobs.data_dir / "agentjobs.toml").write_text(text)


def test_a_machine_that_is_well_gets_a_clean_bill(agentjobs: CommandLine) -> None:
    answer = agentjobs("doctor", "--json")
    assert (answer.exit_code, problems(answer)) == (0, "")
    subjects = {each["subject"] for each in findings(answer)}
    assert subjects == {"version", "disk", "git", "sandbox", "images", "store", "agents"}


def test_it_says_how_limits_are_kept_and_makes_no_store(agentjobs: CommandLine) -> None:
    output = agentjobs("doctor").out
    assert "limits are enforced by" in output
    assert "system calls: filter for" in output
    assert "repositories can have an environment: overlays" in output
    assert "images are pulled and unpacked by skopeo and umoci" in output
    assert not (agentjobs.data_dir / "agentjobs.db").exists()


def test_an_agent_that_is_not_installed_is_a_problem_with_a_remedy(agentjobs: CommandLine) -> None:
    declare(agentjobs, '[[agents]]\npreset = "codex"\nexecutable = "/nowhere/codex"\n')
    answer = agentjobs("doctor", "--json")
    assert answer.exit_code == 1
    assert "/nowhere/codex" in problems(answer)


def test_agents_without_a_sandbox_are_a_problem(agentjobs: CommandLine) -> None:
    answer = agentjobs.with_settings(AGENTJOBS_SANDBOX="None")("doctor", "--json")
    assert answer.exit_code == 1
    assert "WITHOUT a sandbox" in problems(answer)


def test_a_store_that_cannot_be_reached_is_told_beside_everything_else(
    agentjobs: CommandLine,
) -> None:
    nobody = agentjobs.with_settings(AGENTJOBS_DATABASE_URL="postgresql://x@127.0.0.1:1/x")
    answer = nobody("doctor", "--json")
    assert answer.exit_code == 1
    assert len(problems(answer).splitlines()) == 1
    assert "Traceback" not in answer.err


def test_a_secret_whose_key_is_lost_is_noticed(agentjobs: CommandLine) -> None:
    key, other = ("A" * 43 + "=", "B" * 43 + "=")
    owner = agentjobs.with_settings(AGENTJOBS_ENCRYPTION_KEY=key)
    sealed = owner("secrets", "set", "API_KEY", typed="a-secret-value")
    assert sealed.exit_code == 0, sealed.err
    assert owner("doctor").exit_code == 0
    answer = agentjobs.with_settings(AGENTJOBS_ENCRYPTION_KEY=other)("doctor", "--json")
    assert "which this machine does not have" in problems(answer)


def test_an_agent_whose_key_no_organization_has_is_a_note(agentjobs: CommandLine) -> None:
    declare(agentjobs, '[[agents]]\npreset = "codex"\nexecutable = "/nowhere/codex"\n')
    agentjobs("orgs", "create", "acme")
    remedy = "no organization has the key of codex: run `agentjobs secrets set OPENAI_API_KEY`"
    assert remedy in agentjobs("doctor").out
    agentjobs("secrets", "set", "OPENAI_API_KEY", "--org", "acme", typed="a-secret-value")
    assert remedy not in agentjobs("doctor").out


def test_a_webhook_whose_secret_is_locked_is_noticed(agentjobs: CommandLine) -> None:
    key, other = ("A" * 43 + "=", "B" * 43 + "=")
    owner = agentjobs.with_settings(
        AGENTJOBS_ENCRYPTION_KEY=key, AGENTJOBS_WEBHOOKS_ALLOW="10.1.0.0/16"
    )
    added = owner("webhooks", "add", "http://10.1.2.3/hook")
    assert added.exit_code == 0, added.err
    answer = owner("doctor")
    assert answer.exit_code == 0
    assert "1 endpoint, all secrets readable" in answer.out
    assert "can reach 10.1.0.0/16" in answer.out
    locked = agentjobs.with_settings(AGENTJOBS_ENCRYPTION_KEY=other)("doctor", "--json")
    assert "The secret of whk_" in problems(locked)


def test_certificates_and_prices_that_cannot_be_used_are_problems(agentjobs: CommandLine) -> None:
    declare(agentjobs, '[[prices]]\nmodel = "small"\ninput = -1\noutput = 1\n')
    answer = agentjobs.with_settings(AGENTJOBS_CA_FILE="/nowhere.pem")("doctor", "--json")
    assert "/nowhere.pem" in problems(answer)
    assert "line 3" in problems(answer)


def test_a_network_that_is_none_is_a_problem(agentjobs: CommandLine) -> None:
    agentjobs("keys", "list")
    for name in ("EGRESS_ALLOW", "WEBHOOKS_ALLOW", "TRUSTED_PROXIES"):
        variables = {f"AGENTJOBS_{name}": "10.0.0.0/33"}
        answer = agentjobs.with_settings(**variables)("doctor", "--json")
        assert name in problems(answer)
        assert len(problems(answer).splitlines()) == 1


@pytest.mark.parametrize(("factor", "state"), [(0.6, "note"), (2, "problem")])
def test_a_disk_that_is_nearly_full_is_compared_with_the_floor(
    agentjobs: CommandLine, factor: float, state: str
) -> None:
    free_mib = shutil.disk_usage(agentjobs.data_dir).free / 1024**2
    floor = str(int(free_mib * factor))
    answer = agentjobs.with_settings(AGENTJOBS_DISK_FLOOR_MIB=floor)("doctor", "--json")
    (disk,) = (each for each in findings(answer) if each["subject"] == "disk")
    assert disk["state"] == state
    assert "no job, import or push starts" in disk["message"]


def test_a_running_service_is_healthy_and_a_killed_one_is_not(agentjobs: CommandLine) -> None:
    quick = agentjobs.with_settings(
        AGENTJOBS_LEASE_SECONDS="1", AGENTJOBS_LEASE_RENEW_SECONDS="0.2"
    )
    with quick.started("up", "--port", "0") as process:
        assert process.stdout is not None
        assert process.stdout.readline()
        healthy = quick("doctor")
        assert healthy.exit_code == 0, healthy.out
        assert "leads to this service" in healthy.out
        assert "No problems found." in healthy.err
        process.kill()
        process.wait(10)

        def broken() -> str:
            return quick("doctor", "--json").out

        until(lambda: "is dead or cut off" in broken())
        answer = quick("doctor", "--json")
    assert answer.exit_code == 1
    assert "(Connection refused)" in problems(answer)
    assert "workers remove" in problems(answer)


def test_a_machine_with_only_the_api_needs_no_agents(agentjobs: CommandLine) -> None:
    declare(agentjobs, '[[agents]]\npreset = "codex"\nexecutable = "/nowhere/codex"\n')
    assert "/nowhere/codex" in problems(agentjobs("doctor", "--json"))
    with agentjobs.running("serve", "--port", "0"):
        until(lambda: "processes" in agentjobs("doctor").out)
        answer = agentjobs("doctor", "--json")
    assert (answer.exit_code, problems(answer)) == (0, "")
    notes = [each["message"] for each in findings(answer) if each["state"] == "note"]
    assert any("/nowhere/codex" in note and "only workers need this" in note for note in notes)
