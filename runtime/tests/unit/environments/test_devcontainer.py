"""`devcontainer.json`: what is taken from it, and what is named as not supported."""

import json
import subprocess
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentjobs_runtime.environments.definition import EnvironmentDefinition
from agentjobs_runtime.environments.devcontainer import (
    MAX_BYTES,
    DevcontainerError,
    parse_devcontainer,
)

FILE = b"""\
\xef\xbb\xbf// For the editor
{
  "name": "Shop",
  "image": "mcr.example.test/devcontainers/python:3.12", // the image
  "features": {"ghcr.io/x/node:1": {}},
  "customizations": {"vscode": {"extensions": ["a.b"]}},
  "onCreateCommand": "apt-get --version # first",
  "updateContentCommand": ["uv", "sync", "--group", "it's"],
  /* in parallel, there */
  "postCreateCommand": {"web": "cd web && npm ci", "db": ["make", "db"], "none": ""},
  "containerEnv": {
    "APP": "${containerWorkspaceFolder}/app",
    "URL": "http://x/y // no comment,]",
    "HOME": "/root",
  },
  "forwardPorts": [3000],
}
"""


def document(**values: Any) -> bytes:
    return json.dumps({"image": "python:3.12", **values}).encode()


def definition_of(content: bytes) -> EnvironmentDefinition:
    definition = parse_devcontainer(content).definition
    assert definition is not None
    return definition


def test_a_usual_file_is_read() -> None:
    parsed = parse_devcontainer(FILE)
    definition = parsed.definition
    assert definition is not None
    assert definition.image == "mcr.example.test/devcontainers/python:3.12"
    assert definition.setup == (
        "sh -c 'apt-get --version # first'"
        """ && sh -c 'uv sync --group '"'"'it'"'"'"'"'"'"'"'"'s'"'"''"""
        " && sh -c 'cd web && npm ci' && sh -c 'make db'"
    )
    assert definition.variables == {"APP": "/workspace/app", "URL": "http://x/y // no comment,]"}
    assert (definition.start, definition.cache, definition.services) == ("", None, ())
    prefix = ".devcontainer/devcontainer.json: "
    unsupported, reserved = parsed.notes
    assert unsupported == f"{prefix}not supported and without effect: features, forwardPorts"
    assert reserved.startswith(f"{prefix}containerEnv: HOME cannot be set")


def test_one_command_stays_as_it_is() -> None:
    assert definition_of(document(postCreateCommand=" npm ci ")).setup == "npm ci"
    assert definition_of(document(postCreateCommand=["npm", "ci"])).setup == "npm ci"
    assert definition_of(document()).setup == ""


def test_several_commands_run_in_order_and_do_not_affect_each_other() -> None:
    content = document(
        onCreateCommand="cd /; X=1; echo a # b",
        updateContentCommand={"one": "pwd; echo ${X-unset}", "two": ["printf", "%s\n", "$X 'q'"]},
        postCreateCommand="sleep 0 &",
    )
    script = definition_of(content).setup
    done = subprocess.run(
        ["/bin/sh", "-c", script], cwd="/usr", capture_output=True, text=True, check=True
    )
    assert done.stdout == "a\n/usr\nunset\n$X 'q'\n"
    failing = document(onCreateCommand="false", postCreateCommand="echo no")
    done = subprocess.run(
        ["/bin/sh", "-c", definition_of(failing).setup], capture_output=True, check=False
    )
    assert (done.returncode, done.stdout) == (1, b"")


def test_variables_of_the_file_are_replaced_and_those_of_the_shell_are_not() -> None:
    parsed = parse_devcontainer(
        document(
            postCreateCommand="cd ${containerWorkspaceFolder} && echo ${HOME} ${localEnv:TOKEN}",
            containerEnv={
                "A": "${localWorkspaceFolderBasename}",
                "B": "x${localEnv:USER:nobody}y",
                "C": "${devcontainerId}",
            },
        )
    )
    assert parsed.definition is not None
    assert parsed.definition.setup == "cd /workspace && echo ${HOME}"
    assert parsed.definition.variables == {"A": "workspace", "B": "xnobodyy", "C": ""}
    assert [note.partition(": ")[2] for note in parsed.notes] == [
        "${localEnv:TOKEN} is not known to the service",
        "${localEnv:USER:nobody} is not known to the service",
        "${devcontainerId} is not known to the service",
    ]


@pytest.mark.parametrize(
    "values",
    [
        {"build": {"dockerfile": "Dockerfile"}, "postCreateCommand": "npm ci"},
        {"dockerComposeFile": "compose.yml", "service": "app"},
        {"image": ""},
        {},
    ],
)
def test_a_file_without_an_image_is_not_used_and_says_so(values: dict[str, Any]) -> None:
    parsed = parse_devcontainer(json.dumps(values).encode(), ".devcontainer.json")
    assert parsed.definition is None
    assert parsed.notes[-1].startswith(".devcontainer.json: it names no image")
    if "build" in values:
        assert "without effect: build" in parsed.notes[0]


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"", "is not valid JSON"),
        (b"[]", "must be a JSON object"),
        (b'{\n"image": "a"\n"b": 1}', "is not valid JSON: JSON is malformed: expected"),
        (b'{\n"image": "a"\n"b": 1}', "line 3"),
        (b'{"image": "\xff"}', "it is not UTF-8"),
        (b"[" * 60_000, "is nested too deeply"),
        (b" " * MAX_BYTES + b"{}", "is larger than 64 KiB"),
        (document(image=1), "image: Expected `str`, got `int`"),
        (document(image="Bad Name"), "image: 'Bad Name' is not a reference"),
        (document(image="${localEnv:IMAGE}:1"), "image: ':1' is not a reference"),
        (document(onCreateCommand=1), "onCreateCommand: must be a string"),
        (document(postCreateCommand=[1]), "postCreateCommand: must be a string"),
        (document(postCreateCommand={"a": {"b": [2]}}), "postCreateCommand: must be"),
        (document(postCreateCommand="x" * 20_000), "the commands: must be a shell command of"),
        (document(postCreateCommand="a\0"), "the commands: must be a shell command of"),
        (document(containerEnv=[]), "containerEnv: must be an object of strings"),
        (document(containerEnv={"A": 1}), "containerEnv: must be an object of strings"),
        (
            document(containerEnv={f"A{number}": "" for number in range(101)}),
            "containerEnv: must be at most 100 variables",
        ),
    ],
)
def test_an_invalid_file_is_refused_with_the_reason(content: bytes, reason: str) -> None:
    with pytest.raises(DevcontainerError) as refusal:
        parse_devcontainer(content)
    assert str(refusal.value).startswith(".devcontainer/devcontainer.json: ")
    assert reason in str(refusal.value)


_texts = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0$"), max_size=40)


@given(command=_texts, arguments=st.lists(_texts, min_size=1, max_size=3), value=_texts)
def test_texts_keep_their_meaning(command: str, arguments: list[str], value: str) -> None:
    definition = definition_of(
        b"// a\n" + document(onCreateCommand=command, containerEnv={"A": value})[:-1] + b",/**/}"
    )
    assert definition.setup == command.strip()
    assert definition.variables == {"A": value}
    listed = definition_of(document(postCreateCommand=["printf", "%s\\n", *arguments])).setup
    done = subprocess.run(["/bin/sh", "-c", listed], capture_output=True, check=True)
    assert done.stdout.decode() == "".join(f"{argument}\n" for argument in arguments)
