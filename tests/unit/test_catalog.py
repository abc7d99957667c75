from pathlib import Path
from typing import Any

import pytest

from agentjobs.agents.catalog import Catalog, build_catalog
from agentjobs.agents.definitions import named_files
from agentjobs.settings import Settings, SettingsError
from agentjobs.settings_tables import AgentTable, PlanTable


def catalog_of(*tables: AgentTable, **settings: Any) -> Catalog:
    return build_catalog(Settings(data_dir="/nowhere", agents=tables, **settings))


def table(**changes: Any) -> AgentTable:
    return AgentTable(**{"id": "fixer", "name": "Fixer", "command": ["fix"], **changes})


def test_lint_fixer_is_built_in_and_free() -> None:
    agent = catalog_of().get("lint-fixer")
    assert agent is not None
    assert (agent.name, agent.plan_required, agent.network) == ("Lint fixer", "free", ())


def test_a_built_in_needs_the_lowest_plan_whatever_it_is_called() -> None:
    plans = (PlanTable("basic", 1), PlanTable("gold", 9))
    agent = catalog_of(plans=plans).get("lint-fixer")
    assert agent is not None
    assert agent.plan_required == "basic"


def test_a_declared_agent_stands_beside_the_built_in_ones() -> None:
    catalog = catalog_of(table(environment={"A": "b"}, network=["pypi.org"]))
    agent = catalog.get("fixer")
    assert agent is not None
    assert (agent.command, agent.timeout_seconds) == (("fix",), 3600)
    assert (agent.environment, agent.network) == ({"A": "b"}, ("pypi.org",))
    assert [each.id for each in catalog.all()] == ["lint-fixer", "fixer"]


def test_a_declared_agent_replaces_a_built_in_of_the_same_id() -> None:
    catalog = catalog_of(table(id="lint-fixer", name="Mine"))
    assert [agent.name for agent in catalog.all()] == ["Mine"]


def test_an_unknown_agent_is_none() -> None:
    assert catalog_of().get("nobody") is None


def test_only_built_in_agents_see_the_services_python() -> None:
    catalog = catalog_of(table())
    built_in, declared = catalog.all()
    assert built_in.read_only
    assert declared.read_only == ()


def test_files_named_in_a_command_are_shown_but_never_directories(tmp_path: Path) -> None:
    script = tmp_path / "agent.py"
    script.touch()
    command = ["python3", str(script), str(tmp_path), "/", "/no/such/file", "relative"]
    assert named_files(command) == (script,)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"id": "Fixer"}, r"agents\[0\].id"),
        ({"id": "-fixer"}, r"agents\[0\].id"),
        ({"id": ""}, r"agents\[0\].id"),
        ({"id": "a" * 64}, r"agents\[0\].id"),
        ({"id": "fixer\n"}, r"agents\[0\].id"),
        ({"name": " "}, r"agents\[0\].name"),
        ({"plan_required": "gold"}, r"plan_required: is none of the plans \(free, pro, enter"),
        ({"command": []}, r"agents\[0\].command"),
        ({"command": [""]}, r"agents\[0\].command"),
        ({"command": ["a", "b\0c"]}, r"agents\[0\].command"),
        ({"timeout_seconds": 0}, r"agents\[0\].timeout_seconds"),
        ({"environment": {"A=B": "c"}}, r"agents\[0\].environment"),
        ({"environment": {"A": "\0"}}, r"agents\[0\].environment"),
        ({"environment": {"AGENTJOBS_JOB": "x"}}, r"begin with AGENTJOBS_"),
        ({"network": [""]}, r"agents\[0\].network"),
    ],
)
def test_a_definition_that_cannot_be_used_is_refused_by_name(
    changes: dict[str, Any], message: str
) -> None:
    with pytest.raises(SettingsError, match=message):
        catalog_of(table(**changes))


def test_an_id_declared_twice_is_refused() -> None:
    with pytest.raises(SettingsError, match=r"agents\[1\].id: `fixer` is declared twice"):
        catalog_of(table(), table(name="Again"))
