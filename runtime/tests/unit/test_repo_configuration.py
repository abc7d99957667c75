"""`.agentjobs.toml`: parsing, warnings, and errors with their lines."""

import pytest

from agentjobs_runtime.environments.definition import EnvironmentDefinition, ServiceDefinition
from agentjobs_runtime.repo_configuration import (
    MAX_BYTES,
    Configuration,
    ConfigurationError,
    RunConfiguration,
    parse_configuration,
)

WHOLE = b"""\
verify = "make test"
on_verify_failure = "fail"
timeout_seconds = 600
max_cost_usd = 2
network = ["packages.test", "*.example.org:8443"]
protected_paths = ["infra/**", "*.lock"]
reviewers = ["ada"]
labels = ["automated"]
draft = true
auto_trigger_on_cve_severity = "Moderate"

[agents.claude-code]
verify = ["pytest", "-q"]
max_cost_usd = 0.5

[agents."lint fixer"]
network = []
"""


def error_of(text: str) -> str:
    with pytest.raises(ConfigurationError) as caught:
        parse_configuration(text.encode())
    return str(caught.value)


def test_a_whole_file_is_parsed() -> None:
    configuration = parse_configuration(WHOLE)
    assert configuration.verify == ("sh", "-c", "make test")
    assert (
        configuration.on_verify_failure,
        configuration.timeout_seconds,
        configuration.max_cost_usd,
    ) == ("fail", 600, 2.0)
    assert configuration.network == ("packages.test", "*.example.org:8443")
    assert configuration.protected_paths == ("infra/**", "*.lock")
    assert (configuration.reviewers, configuration.labels, configuration.draft) == (
        ("ada",),
        ("automated",),
        True,
    )
    assert configuration.auto_trigger_on_cve_severity == "medium"
    assert configuration.warnings == ()


def test_an_agents_table_overrides_the_top_level_key_by_key() -> None:
    configuration = parse_configuration(WHOLE)
    assert configuration.for_agent("claude-code") == RunConfiguration(
        verify=("pytest", "-q"),
        on_verify_failure="fail",
        timeout_seconds=600,
        max_cost_usd=0.5,
        network=("packages.test", "*.example.org:8443"),
    )
    assert configuration.for_agent("lint fixer").network == ()
    assert configuration.for_agent("another").verify == ("sh", "-c", "make test")


def test_an_empty_file_sets_nothing() -> None:
    assert parse_configuration(b"") == Configuration()
    assert parse_configuration(b"").for_agent("x") == RunConfiguration()


def test_an_agent_can_opt_out_of_verification() -> None:
    configuration = parse_configuration(b'verify = "make test"\n[agents.docs]\nverify = ""\n')
    assert configuration.for_agent("docs").verify == ()


def test_a_byte_order_mark_is_accepted() -> None:
    assert parse_configuration(b"\xef\xbb\xbfdraft = true\n").draft is True


def test_fixes_are_grouped_by_package_unless_the_file_says_otherwise() -> None:
    assert parse_configuration(b"").fixes.group == "package"
    text = b'[fixes]\ngroup = "directory"\ngruop = 1\n'
    configuration = parse_configuration(text)
    assert configuration.fixes.group == "directory"
    (warning,) = configuration.warnings
    assert warning.startswith(".agentjobs.toml, line 3: gruop is not a key")
    assert warning.endswith("did you mean group?")


def test_the_file_replaces_which_files_are_fixtures() -> None:
    default = parse_configuration(b"").inventory.fixtures
    assert default == ("**/tests/fixtures", "testdata", "examples")
    assert parse_configuration(b"inventory.fixtures = []").inventory.fixtures == ()
    text = b'[inventory]\nfixtures = ["demo", "/samples/**"]\n'
    assert parse_configuration(text).inventory.fixtures == ("demo", "/samples/**")


ENVIRONMENT = b"""\
[environment]
image = "registry.test/acme/build:12"
setup = "uv sync --frozen && npm ci"
start = "./scripts/prepare-db.sh"
cache = ["uv.lock", "package-lock.json"]
[environment.variables]
DATABASE_URL = "postgresql://app@127.0.0.1/app"
[[environment.services]]
name = "postgres"
image = "registry.test/library/postgres:17"
ready = "pg_isready -h 127.0.0.1"
"""


def test_a_repository_defines_its_environment() -> None:
    configuration = parse_configuration(ENVIRONMENT)
    assert configuration.warnings == ()
    assert configuration.environment == EnvironmentDefinition(
        image="registry.test/acme/build:12",
        setup="uv sync --frozen && npm ci",
        start="./scripts/prepare-db.sh",
        cache=("uv.lock", "package-lock.json"),
        variables={"DATABASE_URL": "postgresql://app@127.0.0.1/app"},
        services=(
            ServiceDefinition(
                name="postgres",
                image="registry.test/library/postgres:17",
                ready="pg_isready -h 127.0.0.1",
            ),
        ),
    )


def test_an_empty_environment_is_not_a_missing_one() -> None:
    assert parse_configuration(b"").environment is None
    assert parse_configuration(b"[environment]").environment == EnvironmentDefinition()


def test_unknown_keys_of_environments_have_a_line() -> None:
    text = ENVIRONMENT + b'port = 1\n[environment.services.variables]\nA = "1"\n'
    text = text.replace(b"setup =", b"setpu =")
    (first, second) = parse_configuration(text).warnings
    assert first.startswith(".agentjobs.toml, line 3: setpu is not a key")
    assert first.endswith("did you mean setup?")
    assert second.startswith(".agentjobs.toml, line 12: port is not a key")


SERVICES = "[[environment.services]]\nname = 'a'\nimage = 'a'\n"


def test_warnings_for_unknown_keys_name_the_line_and_a_suggestion() -> None:
    text = b"\nverfy = 1\n[agents.x]\ndraft = true\n[tool]\na = 1\n"
    unknown = "is not a key of this file and has no effect"
    assert parse_configuration(text).warnings == (
        f".agentjobs.toml, line 2: verfy {unknown}, did you mean verify?",
        f".agentjobs.toml, line 5: tool {unknown}",
        f".agentjobs.toml, line 4: draft {unknown}",
    )


def test_warnings_are_limited_and_cannot_contain_newlines() -> None:
    many = "\n".join(f'"a\\n{number}" = 1' for number in range(500))
    warnings = parse_configuration(many.encode()).warnings
    assert len(warnings) == 20
    assert all("\n" not in warning for warning in warnings)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("\ntimeout_seconds = 0", "line 2: timeout_seconds: must be above 0"),
        ("timeout_seconds = 1.5", "line 1: timeout_seconds: Expected `int`, got `float`"),
        ("timeout_seconds = true", "Expected `int`, got `bool`"),
        ("timeout_seconds = 999999999", "at most 604800"),
        ("max_cost_usd = nan", "line 1: max_cost_usd: must be above 0"),
        ("max_cost_usd = inf", "must be above 0"),
        ("max_cost_usd = -1", "must be above 0"),
        ("verify = 3", "line 1: verify: Expected"),
        ('verify = ["a", 3]', "line 1: verify: Expected `str`"),
        ('verify = ["a\\u0000"]', "NUL"),
        ('network = "x"', "line 1: network: Expected `array`"),
        ('network = [""]', "empty string"),
        ('network = ["https://x.org/"]', "line 1: network: 'https://x.org/'"),
        ("network = [" + '"a",' * 101 + "]", "at most 100 entries"),
        ('protected_paths = ["../x"]', "line 1: protected_paths: '../x' is not a pattern"),
        ('reviewers = ["a\\nb"]', "names of at most 100 characters"),
        ('on_verify_failure = "shrug"', "must be one of draft, fail"),
        ('auto_trigger_on_cve_severity = "big"', "must be one of low, medium, high"),
        ("[agents.x]\n\n\ntimeout_seconds = 'x'", "line 4: timeout_seconds: Expected `int`"),
        ("draft = true\nagents.x.timeout_seconds = 'x'", "line 2: timeout_seconds"),
        ("[fixes]\n\ngroup = 'all'", "line 3: group: must be one of package, directory, ecosystem"),
        ("draft = true\nfixes.group = 1", "line 2: group: must be one of"),
        ("environment = 1", "line 1: environment: must be a table [environment]"),
        (
            "draft = true\n[environment]\n\nimage = 'A'",
            "line 4: image: 'A' is not a reference to an image",
        ),
        ("environment.setup = 1", "line 1: setup: Expected `str`"),
        ("\n[environment]\nvariables.HOME = ''", "line 3: HOME: cannot be set"),
        ("\n[environment.variables]\nA = ''\n'1' = ''", "line 4: 1: must have a name"),
        ("draft = true\nenvironment = {start = 1}", "line 2: start: Expected `str`"),
        (SERVICES + "[[environment.services]]\n\nname = 'a'", "line 6: name: must be different"),
        (SERVICES + SERVICES.replace("'a'", "'b'") + "ready = 1", "line 7: ready: Expected"),
        (SERVICES + "[environment.services.variables]\nA = 1", "line 5: A: must be a string"),
        (SERVICES + "[[environment.services]]\nimage = 'a'", "line 4: services: must have a name"),
        ("inventory = 1", "line 1: inventory: must be a table [inventory]"),
        ("[inventory]\nfixtures = ['!a']", "line 2: fixtures: '!a' is not a pattern"),
        ("\nfixes = 1", "line 2: fixes: must be a table [fixes]"),
        ("agents = 1", "must be tables [agents.<id>]"),
        ("[agents]\nx = 1", "must be tables [agents.<id>]"),
        ("verify = ", "is not valid TOML: Invalid value (at line 1, the end"),
        ("x = " + "[" * 5_000, "nested too deeply"),
        (".".join(["a"] * 20_000) + " = 1", "line 1: has more than 200 dots"),
        ("#" * MAX_BYTES + "#", "larger than 64 KiB"),
        ("x = " + "9" * 5_000, "a number with too many digits"),
        ("timeout_seconds = 0x" + "f" * 5_000, "must be above 0 and at most"),
    ],
)
def test_an_error_names_its_line(text: str, message: str) -> None:
    error = error_of(text)
    assert error.startswith(".agentjobs.toml")
    assert message in error


def test_a_file_that_is_not_utf8_is_rejected() -> None:
    with pytest.raises(ConfigurationError, match="is not UTF-8"):
        parse_configuration(b"\xff\xfe")


def test_the_line_of_a_key_is_found_in_bounded_time_after_an_unclosed_bracket() -> None:
    text = 'verify = """\n[' + " " * 60_000 + '\n"""\nverfy = 1'
    (warning,) = parse_configuration(text.encode()).warnings
    assert warning.startswith(".agentjobs.toml, line 4: ")
