"""Definitions of environments as text."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentjobs.repos.environment_text import format_environment, parse_environment
from agentjobs_runtime.environments.definition import EnvironmentDefinition, ServiceDefinition
from agentjobs_runtime.problems import Problem

_characters = st.characters(exclude_categories=["Cs"], exclude_characters="\0\r")
_texts = st.text(_characters | st.sampled_from("\n\"\\'#\x7f"), max_size=30)
_commands = _texts.map(str.strip)
_names = st.from_regex(r"[A-Z_][A-Z0-9_]{0,5}", fullmatch=True)
_variables = st.dictionaries(_names, _texts, max_size=3)
_images = st.sampled_from(["", "python:3.12", "r.test:5000/a/b@sha256:" + "0" * 64])


@st.composite
def _definitions(draw: st.DrawFn) -> EnvironmentDefinition:
    services = [
        ServiceDefinition(
            name=name, image="postgres:17", ready=draw(_commands), variables=draw(_variables)
        )
        for name in draw(st.lists(st.sampled_from(["a", "b-c"]), unique=True))
    ]
    cache = st.none() | st.lists(st.sampled_from(["uv.lock", "a/**/b"])).map(tuple)
    return EnvironmentDefinition(
        image=draw(_images),
        setup=draw(_commands),
        start=draw(_commands),
        cache=draw(cache),
        variables=draw(_variables),
        services=tuple(services),
    )


@given(_definitions())
def test_a_definition_stays_the_same_as_text(definition: EnvironmentDefinition) -> None:
    text = format_environment(definition)
    assert parse_environment(text.encode(), "the text") == (definition, ())


def test_scripts_stay_readable() -> None:
    definition = EnvironmentDefinition(setup='make deps\nmake "all"', variables={"CI": "1"})
    assert format_environment(definition) == (
        '[environment]\nsetup = """\nmake deps\nmake \\"all\\""""\n'
        '\n[environment.variables]\nCI = "1"\n'
    )


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("image = 'python:3.12'", "The text has no table [environment]"),
        ("[environment]\nimage = 'A'", "The text, line 2: image: 'A' is not a reference"),
        ("[environment", "The text: is not valid TOML"),
        ("#" * 70_000, "The text: is larger than 64 KiB"),
    ],
)
def test_an_error_names_the_text_and_the_line(text: str, reason: str) -> None:
    with pytest.raises(Problem) as refusal:
        parse_environment(text.encode(), "The text")
    assert refusal.value.message.startswith(reason)


def test_warnings_name_the_text() -> None:
    _, (warning,) = parse_environment(b"[environment]\nimgae = 'a'", "x.toml")
    assert warning.startswith("x.toml, line 2: imgae is not a key")
