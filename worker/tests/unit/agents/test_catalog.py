from pathlib import Path
from typing import Any

import pytest

from agentjobs_runtime.agents.definitions import ModelAccess, named_files
from agentjobs_runtime.sandboxes.placement import Placement
from agentjobs_runtime.settings import Settings, SettingsError
from agentjobs_runtime.settings.tables import AgentTable, PlanTable
from agentjobs_worker.agents.catalog import Catalog, build_catalog


def make_catalog(*tables: AgentTable, **settings: Any) -> Catalog:
    return build_catalog(Settings(data_dir="/nowhere", agents=tables, **settings))


def table(**changes: Any) -> AgentTable:
    return AgentTable(**{"id": "fixer", "name": "Fixer", "command": ["fix"], **changes})


def test_lint_fixer_is_built_in_and_free() -> None:
    agent = make_catalog().get("lint-fixer")
    assert agent is not None
    assert (agent.name, agent.plan_required, agent.network) == ("Lint fixer", "free", ())


def test_a_built_in_agent_needs_the_lowest_plan_whatever_its_name() -> None:
    plans = (PlanTable("basic", 1), PlanTable("gold", 9))
    agent = make_catalog(plans=plans).get("lint-fixer")
    assert agent is not None
    assert agent.plan_required == "basic"


def test_a_declared_agent_is_added_to_the_built_in_ones() -> None:
    catalog = make_catalog(table(environment={"A": "b"}, network=["packages.test"]))
    agent = catalog.get("fixer")
    assert agent is not None
    assert (agent.command, agent.timeout_seconds) == (("fix",), 3600)
    assert (agent.environment, agent.network) == ({"A": "b"}, ("packages.test",))
    assert [agent.id for agent in catalog.all()] == ["lint-fixer", "cve-fixer", "fixer"]


def test_a_declared_agent_replaces_a_built_in_of_the_same_id() -> None:
    catalog = make_catalog(table(id="lint-fixer", name="Mine"))
    assert [agent.name for agent in catalog.all()] == ["Mine", "CVE fixer"]


def test_an_agent_that_reports_has_a_schema_inline_or_in_a_file(tmp_path: Path) -> None:
    schema = {"type": "object", "required": ["risk"]}
    file = tmp_path / "schema.json"
    file.write_text('{"type": "object", "required": ["risk"]}')
    for declared, loaded in ((schema, schema), (str(file), schema), ({}, {}), ("", None)):
        agent = make_catalog(table(result="report", result_schema=declared)).get("fixer")
        assert agent is not None
        assert (agent.result, agent.result_schema) == ("report", loaded)
    agent = make_catalog(table()).get("fixer")
    assert agent is not None
    assert (agent.result, agent.result_schema) == ("pull_request", None)


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"result": "comment"}, "agents[0].result: must be one of: pull_request, report"),
        ({"result_schema": {"type": "object"}}, "only applies to `result = "),
        ({"result_schema": {}}, "only applies to `result = "),
        ({"result": "report", "verify": ["make"]}, "verify: has no meaning for a report"),
        ({"result": "report", "id": "cve-fixer"}, "must open pull requests"),
        ({"result": "report", "result_schema": "schema.json"}, "the absolute path of a file"),
        ({"result": "report", "result_schema": "/no/such/file"}, "cannot be read: No such file"),
        ({"result": "report", "result_schema": {"type": "objekt"}}, "not a valid JSON Schema: $"),
    ],
)
def test_a_result_that_makes_no_sense_is_refused(changes: dict[str, Any], reason: str) -> None:
    with pytest.raises(SettingsError) as refused:
        make_catalog(table(**changes))
    assert reason in str(refused.value)


def test_the_cve_fixer_may_reach_the_registries_but_not_localhost() -> None:
    settings = Settings(
        data_dir="d",
        registry_pypi_url="https://packages.test:8443/simple",
        registry_npm_url="http://localhost:4873",
        registry_hosts=["files.test"],
    )
    agent = build_catalog(settings).get("cve-fixer")
    assert agent is not None
    assert {"packages.test:8443", "files.test"} <= set(agent.network)
    assert not any("localhost" in host for host in agent.network)


def test_agents_describe_themselves_unless_the_definition_does() -> None:
    own = table(id="own", description="Corrects spelling.")
    agents = make_catalog(own, table(), AgentTable(preset="codex")).all()
    described = {agent.id: agent.description for agent in agents}
    assert described.pop("own") == "Corrects spelling."
    assert described.pop("fixer") == ""
    assert set(described) == {"lint-fixer", "cve-fixer", "codex"}
    assert all(text.endswith(".") for text in described.values())


def test_an_unknown_agent_is_none() -> None:
    assert make_catalog().get("nobody") is None


def test_only_built_in_agents_see_the_services_python() -> None:
    catalog = make_catalog(table())
    *built_in, declared = catalog.all()
    assert all(agent.read_only for agent in built_in)
    assert declared.read_only == ()


def test_files_named_in_a_command_are_shown_but_never_directories(tmp_path: Path) -> None:
    script = tmp_path / "agent.py"
    script.touch()
    command = ["python3", str(script), str(tmp_path), "/", "/no/such/file", "relative"]
    assert named_files(command) == (script,)


def test_files_named_in_a_verification_belong_to_the_agent(tmp_path: Path) -> None:
    script = tmp_path / "check.sh"
    script.touch()
    agent = make_catalog(table(verify=["sh", str(script), str(tmp_path)])).get("fixer")
    assert agent is not None
    assert (agent.verify_files, agent.read_only) == ((script,), ())


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"id": "Fixer"}, r"agents\[0\].id"),
        ({"id": "-fixer"}, r"agents\[0\].id"),
        ({"id": ""}, r"agents\[0\].id"),
        ({"id": "a" * 64}, r"agents\[0\].id"),
        ({"id": "fixer\n"}, r"agents\[0\].id"),
        ({"name": " "}, r"agents\[0\].name"),
        ({"description": "a\nb"}, r"agents\[0\].description: must be one line of at most 500"),
        ({"description": "a" * 501}, r"agents\[0\].description"),
        ({"plan_required": "gold"}, r"plan_required: must be one of the plans \(free, pro, enter"),
        ({"command": []}, r"agents\[0\].command"),
        ({"command": [""]}, r"agents\[0\].command"),
        ({"command": ["a", "b\0c"]}, r"agents\[0\].command"),
        ({"timeout_seconds": 0}, r"agents\[0\].timeout_seconds"),
        ({"tags": ["GPU"]}, r"agents\[0\].tags: 'GPU' must have 1 to 32 characters"),
        ({"tags": list("abcdefg")}, r"agents\[0\].tags: must be at most 6 tags"),
        ({"runtime_class": "g visor"}, "runtime_class: must be the name of a runtime class"),
        ({"node_selector": {"a b": "c"}}, "node_selector: 'a b' is not the key of a label"),
        ({"node_selector": {"a": "-"}}, "node_selector: '-' is not the value of a label"),
        ({"tolerations": [{"name": "a"}]}, "tolerations: `name` must be one of: key, operator"),
        ({"tolerations": [{"key": "a", "operator": "Gt"}]}, "`operator` must be one of: Equal"),
        ({"tolerations": [{"key": "a", "effect": "Never"}]}, "`effect` must be one of: NoSchedule"),
        ({"tolerations": [{}]}, 'without `key` needs `operator = "Exists"`'),
        ({"tolerations": [{"operator": "Exists", "value": "a"}]}, "`value` has no meaning"),
        ({"tolerations": [{"key": "a b"}]}, "'a b' is not the key of a taint"),
        ({"tolerations": [{"key": "a", "value": 1}]}, "1 is not the value of a taint"),
        ({"tolerations": [{"key": "a", "tolerationSeconds": 5}]}, "is a number, for `effect ="),
        ({"max_concurrent_jobs": 0}, r"agents\[0\].max_concurrent_jobs: must be at least 1"),
        ({"environment": {"A=B": "c"}}, r"agents\[0\].environment"),
        ({"environment": {"A": "\0"}}, r"agents\[0\].environment"),
        ({"environment": {"AGENTJOBS_JOB": "x"}}, r"start with AGENTJOBS_"),
        ({"network": [""]}, r"agents\[0\].network"),
        (
            {"network": ["https://packages.test/simple"]},
            r"agents\[0\].network: .*write only host or host:port",
        ),
        ({"preset": "cursor"}, r"preset: must be one of the presets \(claude-code, codex"),
        ({"preset": "codex"}, r"command: is set by the preset"),
        ({"executable": "/x"}, r"executable: only applies to a preset"),
        ({"arguments": ["-v"]}, r"arguments: only applies to a preset"),
        ({"limits": {"memory": 1}}, r"limits: `memory` must be one of the limits \(memory_mib"),
        ({"limits": {"processes": 9.5}}, r"limits: `processes` must be a whole number"),
        ({"limits": {"cpus": -1}}, r"limits: `cpus` must be between 0 and"),
        ({"limits": {"memory_mib": 1}}, r"limits: `memory_mib` must be between 16 and"),
        ({"max_cost_usd": 0.0}, r"max_cost_usd: must be above 0"),
        ({"max_cost_usd": float("nan")}, r"max_cost_usd: must be above 0"),
        ({"verify": [""]}, r"agents\[0\].verify"),
        ({"on_verify_failure": "ignore"}, r"on_verify_failure: must be `draft` or `fail`"),
        ({"model_api": "gemini"}, r"model_api: must be one of: openai, anthropic"),
        ({"model": "m"}, r"model: has no meaning without `model_api`"),
        ({"secret": "S"}, r"secret: has no meaning without `model_api`"),
        ({"model_api": "openai", "secret": "1S"}, r"secret: must be the name of a secret"),
        ({"model_api": "openai", "model": "a b"}, r"model: must be the name of a model"),
        ({"model_api": "openai", "model": 'a"b'}, r"model: must be the name of a model"),
        ({"model_api": "openai", "models": ["a b"]}, r"models: must be names of models"),
        ({"model_api": "openai", "model": "m", "models": ["n*"]}, r"models: must allow `m`"),
        ({"model_api": "openai", "model_url": "ftp://x"}, r"model_url: must be an http"),
        ({"model_api": "openai", "model_url": "https://u:p@x"}, r"model_url: must be an http"),
        ({"model_api": "openai", "model_url": "https://x:port"}, r"model_url: must be an http"),
        (
            {"model_api": "openai", "environment": {"OPENAI_API_KEY": "sk"}},
            r"environment: `OPENAI_API_KEY` is set by the gateway: store it with `agentjobs secr",
        ),
    ],
)
def test_an_invalid_definition_is_refused_with_the_field(
    changes: dict[str, Any], message: str
) -> None:
    with pytest.raises(SettingsError, match=message):
        make_catalog(table(**changes))


def test_a_preset_alone_is_a_complete_definition() -> None:
    agent = make_catalog(AgentTable(preset="claude-code")).get("claude-code")
    assert agent is not None
    assert (agent.name, agent.preset, agent.command) == ("Claude Code", "claude-code", ())
    assert agent.model == ModelAccess(
        api="anthropic", url="https://api.anthropic.com", secret="ANTHROPIC_API_KEY"
    )
    assert agent.environment["DISABLE_TELEMETRY"] == "1"


def test_a_definition_with_a_preset_may_set_everything_else() -> None:
    catalog = make_catalog(
        AgentTable(
            id="careful",
            name="Careful",
            preset="opencode",
            executable="/opt/opencode",
            arguments=["--thinking"],
            environment={"OPENCODE_DISABLE_SHARE": "0"},
            model_api="openai",
            model_url="http://10.0.0.5:8000/v1/",
            model="qwen3-coder",
            models=["qwen3-*"],
            secret="LOCAL_KEY",
        )
    )
    agent = catalog.get("careful")
    assert agent is not None
    assert (agent.executable, agent.arguments) == ("/opt/opencode", ("--thinking",))
    assert agent.environment["OPENCODE_DISABLE_SHARE"] == "0"
    assert agent.model == ModelAccess(
        api="openai",
        url="http://10.0.0.5:8000",
        secret="LOCAL_KEY",
        name="qwen3-coder",
        names=("qwen3-*",),
    )


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"preset": "mini-swe-agent"}, "model: must name a model: mini-swe-agent has no default"),
        ({"preset": "codex", "model_api": "anthropic"}, "model_api: must be one of: openai"),
        ({"preset": "codex", "executable": "codex"}, "executable: must be the absolute path"),
        ({"preset": "codex", "name": " "}, "name: must not be empty"),
    ],
)
def test_an_invalid_definition_with_a_preset_is_refused(
    changes: dict[str, Any], message: str
) -> None:
    with pytest.raises(SettingsError, match=message):
        make_catalog(AgentTable(**changes))


def test_the_same_preset_twice_needs_an_id() -> None:
    repeated = AgentTable(preset="codex", model="other")
    with pytest.raises(SettingsError, match=r"agents\[1\].id: `codex` is declared twice"):
        make_catalog(AgentTable(preset="codex"), repeated)


def test_an_agents_limits_override_the_services() -> None:
    catalog = make_catalog(table(limits={"memory_mib": 64, "cpu_seconds": 9}), limit_processes=77)
    built_in, _, declared = catalog.all()
    assert (built_in.limits.processes, built_in.limits.cpu_seconds) == (77, 0)
    assert (declared.limits.memory_bytes, declared.limits.cpu_seconds) == (64 * 1024**2, 9)
    assert declared.limits.processes == 77


def test_an_agents_cpus_may_be_a_fraction() -> None:
    catalog = make_catalog(table(limits={"cpus": 1.5}), limit_cpus=4)
    built_in, _, declared = catalog.all()
    assert (built_in.limits.cpus, declared.limits.cpus) == (4, 1.5)


def test_an_agent_may_say_where_a_cluster_runs_it() -> None:
    selector = {"pool": "agents", "topology.kubernetes.io/zone": "a1"}
    tolerations: list[dict[str, str | int]] = [
        {"operator": "Exists"},
        {"key": "agents", "value": "only", "effect": "NoExecute", "tolerationSeconds": 60},
    ]
    changes = {"runtime_class": "gvisor", "node_selector": selector, "tolerations": tolerations}
    agent = make_catalog(table(**changes)).get("fixer")
    assert agent is not None
    assert agent.placement == Placement(
        runtime_class="gvisor", node_selector=selector, tolerations=tuple(tolerations)
    )


def test_an_agent_may_require_tags_and_limit_its_jobs() -> None:
    agent = make_catalog(table(tags=["gpu", "large"], max_concurrent_jobs=4)).get("fixer")
    assert agent is not None
    assert (agent.tags, agent.max_concurrent_jobs) == (("gpu", "large"), 4)
    unlimited = make_catalog(table()).get("fixer")
    assert unlimited is not None
    assert (unlimited.tags, unlimited.max_concurrent_jobs) == ((), None)


def test_an_id_declared_twice_is_refused() -> None:
    with pytest.raises(SettingsError, match=r"agents\[1\].id: `fixer` is declared twice"):
        make_catalog(table(), table(name="Again"))
