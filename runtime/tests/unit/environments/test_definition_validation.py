"""Definitions of environments: what is accepted, and where an error is."""

from typing import Any

import pytest

from agentjobs_runtime.environments.definition import EnvironmentDefinition, ServiceDefinition
from agentjobs_runtime.environments.validation import (
    MAX_COMMAND_BYTES,
    MAX_VARIABLES,
    DefinitionError,
    ValuePath,
    convert_definition,
)
from agentjobs_runtime.sandboxes.slots import MAX_SERVICES


def convert(values: dict[str, Any]) -> EnvironmentDefinition:
    def refuse(path: ValuePath, known: tuple[str, ...]) -> None:
        pytest.fail(f"{path} is not in {known}")

    return convert_definition(values, refuse)


def test_a_whole_definition_is_converted() -> None:
    service = {"name": "db", "image": "r.test/db:1", "ready": "true", "variables": {"A": "1"}}
    definition = convert(
        {
            "image": " r.test/build:12 ",
            "setup": "\nmake deps\nmake tools\n",
            "start": "./prepare",
            "cache": ["uv.lock", "web/**/package-lock.json"],
            "variables": {"PATH": "/opt/bin:/usr/bin"},
            "services": [service, {"name": "queue", "command": "redis-server"}],
        }
    )
    assert definition == EnvironmentDefinition(
        image="r.test/build:12",
        setup="make deps\nmake tools",
        start="./prepare",
        cache=("uv.lock", "web/**/package-lock.json"),
        variables={"PATH": "/opt/bin:/usr/bin"},
        services=(
            ServiceDefinition(name="db", image="r.test/db:1", ready="true", variables={"A": "1"}),
            ServiceDefinition(name="queue", command="redis-server"),
        ),
    )


def test_an_empty_list_of_cache_files_is_not_the_default() -> None:
    assert convert({}).cache is None
    assert convert({"cache": []}).cache == ()


def test_unknown_keys_are_reported_with_their_place() -> None:
    unknown: list[tuple[ValuePath, tuple[str, ...]]] = []
    convert_definition(
        {"imgae": 1, "services": [{"name": "db", "image": "db", "port": 1}]},
        lambda path, known: unknown.append((path, known)),
    )
    assert [path for path, _ in unknown] == [("imgae",), ("services", 0, "port")]
    assert "image" in unknown[0][1]
    assert "ready" in unknown[1][1]


def service(**values: Any) -> dict[str, Any]:
    return {"services": [{"name": "a", "image": "a"}, {"name": "b", "image": "b"} | values]}


@pytest.mark.parametrize(
    ("values", "path", "reason"),
    [
        ({"image": 1}, ("image",), "Expected `str`, got `int`"),
        ({"image": "A/b"}, ("image",), "is not a reference to an image"),
        ({"setup": "x" * (MAX_COMMAND_BYTES + 1)}, ("setup",), "at most 16 KiB"),
        ({"start": "a\0b"}, ("start",), "without a NUL"),
        ({"start": "\ud800"}, ("start",), "must be a shell command"),
        ({"setup": ["make"]}, ("setup",), "Expected `str`, got `array`"),
        ({"cache": "uv.lock"}, ("cache",), "Expected `array`, got `str`"),
        ({"cache": ["../uv.lock"]}, ("cache",), "'../uv.lock' is not a pattern"),
        ({"cache": ["a"] * 101}, ("cache",), "at most 100 entries"),
        ({"variables": []}, ("variables",), "must be a table"),
        ({"variables": {"A": 1}}, ("variables", "A"), "must be a string"),
        ({"variables": {"1A": ""}}, ("variables", "1A"), "letters, digits and _"),
        ({"variables": {"A=B": ""}}, ("variables", "A=B"), "letters, digits and _"),
        ({"variables": {"HOME": "/"}}, ("variables", "HOME"), "the service sets HOME"),
        ({"variables": {"AGENTJOBS_X": ""}}, ("variables", "AGENTJOBS_X"), "AGENTJOBS_"),
        ({"variables": {"A": "\0"}}, ("variables", "A"), "without a NUL"),
        ({"variables": {"A": "x" * 17_000}}, ("variables", "A"), "at most 16 KiB"),
        (
            {"variables": {f"A{number}": "" for number in range(MAX_VARIABLES + 1)}},
            ("variables",),
            "at most 100 variables",
        ),
        ({"services": {}}, ("services",), "[[environment.services]]"),
        ({"services": [1]}, ("services",), "[[environment.services]]"),
        ({"services": [{}] * (MAX_SERVICES + 1)}, ("services", 8), "at most 8 services"),
        ({"services": [{"image": "a"}]}, ("services", 0), "must have a name"),
        ({"services": [{"name": "a"}]}, ("services", 0), "an image or a command"),
        (service(name="B"), ("services", 1, "name"), "start with a letter"),
        (service(name="a"), ("services", 1, "name"), "different"),
        (service(image="b b"), ("services", 1, "image"), "'b b' is not a reference"),
        (service(variables={"HOME": ""}), ("services", 1, "variables", "HOME"), "cannot be set"),
    ],
)
def test_an_error_names_the_place(values: dict[str, Any], path: ValuePath, reason: str) -> None:
    with pytest.raises(DefinitionError) as caught:
        convert(values)
    assert caught.value.path == path
    assert reason in str(caught.value)
