"""Which paths are protected, which names mean `.git`, and how hostile paths are shown."""

import pytest

from agentjobs_runtime.git.remote import is_branch_name
from agentjobs_runtime.repo_files.rules import (
    format_paths,
    is_git_directory_name,
    is_lfs_pointer,
    protected_paths,
)


@pytest.mark.parametrize(
    "path",
    [
        ".github/workflows/ci.yml",
        ".github/workflows/deep/er.yml",
        ".GitHub/Workflows/ci.yml",
        ".github/workflow\u017f/ci.yml",
        ".git\u200chub/workflows/ci.yml",
        ".github/actions/x/action.yml",
        ".github/workflows",
        ".github",
        ".gitea/x",
        ".gitea",
        ".forgejo/workflows/ci.yml",
        ".gitlab-ci.yml",
        ".GITLAB-CI.YML",
        "bitbucket-pipelines.yml",
        "Jenkinsfile",
        "jenkinsfile",
        "deploy/Jenkinsfile",
        "CODEOWNERS",
        "docs/CODEOWNERS",
        ".github/CODEOWNERS",
        ".agentjobs.toml",
        ".AgentJobs.toml",
        ".agentjobs.toml.",
        ".devcontainer/devcontainer.json",
        ".devcontainer/nested/setup.sh",
        ".devcontainer.json",
        ".gitlab/ci/build.yml",
        ".circleci/config.yml",
        ".buildkite/pipeline.yml",
        ".woodpecker/build.yml",
        ".woodpecker.yml",
        ".drone.yml",
        ".travis.yml",
        "azure-pipelines.yml",
    ],
)
def test_ci_definitions_code_owners_and_agentjobs_toml_are_protected(path: str) -> None:
    assert protected_paths([path.encode()]) == [path.encode()]


@pytest.mark.parametrize(
    "path",
    [
        "src/app.py",
        ".github/dependabot.yml",
        ".github/workflows.md",
        ".githubs",
        "docs/.gitlab-ci.yml",
        "docs/.agentjobs.toml",
        "docs/github/workflows/x.yml",
        "Jenkinsfile.md",
        ".gitignore",
        ".gitattributes",
    ],
)
def test_everything_else_may_be_changed(path: str) -> None:
    assert protected_paths([path.encode()]) == []


@pytest.mark.parametrize(
    "name",
    [".git", ".GIT", ".Git", ".git ", ".git.", ".git::$INDEX_ALLOCATION", "GIT~1", ".g\u200cit"],
)
def test_names_that_a_file_system_treats_as_git_directories_are_recognized(name: str) -> None:
    assert is_git_directory_name(name.encode())


@pytest.mark.parametrize(
    "name", [".gitignore", ".github", "git", "a.git", ".git-blame-ignore-revs"]
)
def test_other_names_are_not_git_directories(name: str) -> None:
    assert not is_git_directory_name(name.encode())


def test_paths_in_messages_are_printable_and_bounded() -> None:
    assert (
        format_paths([b"a\nb", b"\xff\x1b[31m", b"c\xe2\x80\xae"]) == r"a\nb, \xff\x1b[31m, c\u202e"
    )
    assert format_paths([b"x" * 500]).endswith("x…")
    assert format_paths([b"p%d" % number for number in range(12)]).endswith("p9, and 2 more")


def test_a_git_lfs_pointer_is_recognized() -> None:
    pointer = b"version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 1\n"
    assert is_lfs_pointer(pointer)
    assert not is_lfs_pointer(b"about " + pointer)
    assert not is_lfs_pointer(pointer + b"x" * 1_024)


@pytest.mark.parametrize("name", ["main", "a/b", "agentjobs/lint-fixer/0123", "é", "v1.0", "a@b"])
def test_branch_names_that_git_accepts_are_valid(name: str) -> None:
    assert is_branch_name(name)


@pytest.mark.parametrize(
    "name",
    [
        "",
        "@",
        "-x",
        "--upload-pack=touch /tmp/x",
        "/a",
        "a/",
        "a//b",
        "a..b",
        "a b",
        "a:b",
        "a^",
        "a~1",
        "a?",
        "a*",
        "a[",
        "a\\b",
        "a@{1}",
        ".a",
        "a/.b",
        "a.lock",
        "a.lock/b",
        "a.",
        "a\n",
        "a\x7f",
        "\ud800",
    ],
)
def test_branch_names_that_git_would_misread_or_refuse_are_invalid(name: str) -> None:
    assert not is_branch_name(name)
