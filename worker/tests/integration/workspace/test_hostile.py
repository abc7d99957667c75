"""Trees written by a hostile program: the service is unharmed and returns the right result."""

import asyncio
import os
import shutil
import socket
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from agentjobs_runtime.mirrors.errors import UnsafeChange
from agentjobs_worker.workspace import tree_scan
from agentjobs_worker.workspace.checkout import Checkout
from tests.support.workspace import WorkspaceHarness, run_git, workspace_harness

POINTER = b"version https://git-lfs.github.com/spec/v1\noid sha256:%064d\nsize 12\n"

EVIL_CONFIGURATION = """
[core]
    fsmonitor = {evil}
    hooksPath = .git/hooks
    sshCommand = {evil}
    pager = {evil}
    editor = {evil}
    alternateRefsCommand = {evil}
[filter "evil"]
    clean = {evil}
    smudge = {evil}
    process = {evil}
    required
[diff]
    external = {evil}
[diff "evil"]
    textconv = {evil}
    command = {evil}
[commit]
    gpgSign
[gpg]
    program = {evil}
[user]
    name = Mallory
[include]
    path = {tree}/.git/more
"""


@pytest.fixture
def harness(tmp_path: Path) -> Iterator[WorkspaceHarness]:
    with workspace_harness(tmp_path) as opened:
        yield opened


@pytest.fixture
def canary(tmp_path: Path) -> Iterator[Path]:
    """A file that a planted program would create."""
    path = tmp_path / "canary"
    yield path
    assert not path.exists(), "a planted program ran"


def program(path: Path, canary: Path) -> str:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\ntouch {canary}\ncat\n")
    path.chmod(0o755)
    return str(path)


async def changes(harness: WorkspaceHarness, checkout: Checkout) -> list[str]:
    async with asyncio.timeout(30):
        commit = await harness.commit(checkout)
    assert commit is not None
    assert run_git(harness.mirror, "fsck", "--strict", commit) == ""
    return harness.changed(commit)


async def refusal(harness: WorkspaceHarness, checkout: Checkout) -> UnsafeChange:
    with pytest.raises(UnsafeChange) as caught:
        async with asyncio.timeout(30):
            await harness.commit(checkout)
    str(caught.value).encode()
    return caught.value


async def test_hooks_and_configuration_of_a_planted_git_directory_have_no_effect(
    harness: WorkspaceHarness, canary: Path
) -> None:
    async with harness.checkout() as checkout:
        tree = checkout.tree
        evil = program(tree / ".git/evil", canary)
        for hook in (
            "pre-commit",
            "post-index-change",
            "post-commit",
            "reference-transaction",
            "pre-push",
        ):
            program(tree / ".git/hooks" / hook, canary)
        (tree / ".git/config").write_text(EVIL_CONFIGURATION.format(evil=evil, tree=tree))
        (tree / ".gitattributes").write_text("* filter=evil diff=evil merge=evil\n")
        (tree / ".git/info").mkdir(exist_ok=True)
        (tree / ".git/info/attributes").write_text("* filter=evil diff=evil\n")
        (tree / ".git/info/exclude").write_text("src\n")
        (tree / "src/app.py").write_text("print('better')\n")
        assert await changes(harness, checkout) == [
            "A 100644 .gitattributes",
            "M 100644 src/app.py",
        ]


def _git_file(git: Path, other: Path) -> None:
    git.write_text(f"gitdir: {other}\n")


def _git_link(git: Path, other: Path) -> None:
    git.symlink_to(other)


def _git_pipe(git: Path, other: Path) -> None:
    os.mkfifo(git)


@pytest.mark.parametrize("plant", [_git_file, _git_link, _git_pipe])
async def test_a_root_git_that_is_not_a_directory_is_ignored(
    harness: WorkspaceHarness, canary: Path, plant: Callable[[Path, Path], None]
) -> None:
    other = harness.root / "other"
    other.mkdir()
    run_git(other, "init", "-q")
    program(other / ".git/hooks/post-index-change", canary)
    run_git(other, "config", "core.fsmonitor", program(other / "evil", canary))
    run_git(other, "config", "core.worktree", str(harness.root))
    async with harness.checkout() as checkout:
        shutil.rmtree(checkout.tree / ".git")
        plant(checkout.tree / ".git", other / ".git")
        (checkout.tree / "README.md").write_text("changed\n")
        assert await changes(harness, checkout) == ["M 100644 README.md"]


async def test_files_at_the_root_that_look_like_a_git_directory_are_committed_as_files(
    harness: WorkspaceHarness, canary: Path
) -> None:
    """A tree disguised as a bare repository: HEAD, objects/, refs/ and a config."""
    async with harness.checkout() as checkout:
        tree = checkout.tree
        for name in ("objects", "refs"):
            (tree / name).mkdir()
        (tree / "HEAD").write_text("ref: refs/heads/main\n")
        evil = program(tree / "evil", canary)
        (tree / "config").write_text(f"[core]\n\tbare\n\tfsmonitor = {evil}\n\tworktree = ..\n")
        assert await changes(harness, checkout) == [
            "A 100644 HEAD",
            "A 100644 config",
            "A 100755 evil",
        ]


async def test_links_are_committed_as_links_and_never_followed(harness: WorkspaceHarness) -> None:
    secret = harness.root / "secret"
    secret.mkdir()
    (secret / "key").write_text("sesame")
    async with harness.checkout() as checkout:
        tree = checkout.tree
        (tree / "absolute").symlink_to(secret / "key")
        (tree / "upwards").symlink_to("../../../../../../etc/passwd")
        (tree / "directory").symlink_to(secret)
        (tree / "loop").symlink_to("loop")
        (tree / "zero").symlink_to("/dev/zero")
        (tree / "README.md").unlink()
        (tree / "README.md").symlink_to(secret / "key")
        shutil.rmtree(tree / "src")
        (tree / "src").symlink_to("/dev")
        paths = await changes(harness, checkout)
        assert "T 120000 README.md" in paths
        assert "A 120000 src" in paths
        assert {line[2:8] for line in paths if line[0] == "A"} == {"120000"}
        commit = await harness.commit(checkout)
        assert commit is not None
        assert run_git(harness.mirror, "cat-file", "blob", f"{commit}:absolute") == str(
            secret / "key"
        )
    assert (secret / "key").read_text() == "sesame"


async def test_git_rule_files_that_are_links_are_not_followed(harness: WorkspaceHarness) -> None:
    rules = harness.root / "rules"
    rules.write_text("new\n")
    async with harness.checkout() as checkout:
        (checkout.tree / "sub").mkdir()
        (checkout.tree / "sub/.gitignore").symlink_to(rules)
        (checkout.tree / "sub/.gitattributes").symlink_to("/dev/zero")
        (checkout.tree / "sub/new").touch()
        assert await changes(harness, checkout) == [
            "A 100644 sub/new",
            "A 120000 sub/.gitattributes",
            "A 120000 sub/.gitignore",
        ]


async def test_pipes_and_sockets_do_not_block_and_are_not_committed(
    harness: WorkspaceHarness,
) -> None:
    async with harness.checkout() as checkout:
        tree = checkout.tree
        (tree / "sub").mkdir()
        for name in (
            "pipe",
            "sub/.gitignore",
            "sub/.gitattributes",
            ".gitmodules",
            ".gitattributes",
        ):
            os.mkfifo(tree / name)
        _listen(tree / "socket")
        (tree / "new").touch()
        assert await changes(harness, checkout) == ["A 100644 new"]


async def test_a_device_is_not_read(harness: WorkspaceHarness) -> None:
    async with harness.checkout() as checkout:
        if os.geteuid() == 0:
            os.mknod(checkout.tree / "zero", 0o020666, os.makedev(1, 5))
        (checkout.tree / "new").touch()
        assert await changes(harness, checkout) == ["A 100644 new"]


@pytest.mark.parametrize("name", ["README.md", ".gitignore", "src/app.py"])
async def test_a_file_of_the_repository_replaced_by_a_pipe_is_unsafe(
    harness: WorkspaceHarness, name: str
) -> None:
    async with harness.checkout() as checkout:
        (checkout.tree / name).unlink()
        os.mkfifo(checkout.tree / name)
        error = await refusal(harness, checkout)
        assert (error.code, name in str(error)) == ("unsafe_change", True)


def _nested_repository(tree: Path) -> str:
    (tree / "sub").mkdir()
    run_git(tree / "sub", "init", "-q")
    (tree / "sub/file").touch()
    run_git(tree / "sub", "add", "-A")
    run_git(tree / "sub", "commit", "-q", "-m", "x")
    return "sub/.git"


def _nested_directory(tree: Path) -> str:
    (tree / "sub/deep/.git").mkdir(parents=True)
    return "sub/deep/.git"


def _nested_file(tree: Path) -> str:
    (tree / "src/.git").write_text("gitdir: /elsewhere\n")
    return "src/.git"


def _nested_link(tree: Path) -> str:
    (tree / "src/.git").symlink_to("../.git")
    return "src/.git"


def _nested_pipe(tree: Path) -> str:
    os.mkfifo(tree / "src/.git")
    return "src/.git"


def _other_case(tree: Path) -> str:
    (tree / "src/.GIT").mkdir()
    return "src/.GIT"


def _other_case_at_the_root(tree: Path) -> str:
    (tree / ".Git/hooks").mkdir(parents=True)
    (tree / ".Git/hooks/pre-commit").touch()
    return ".Git"


def _windows_short_name(tree: Path) -> str:
    (tree / "git~1").mkdir()
    (tree / "git~1/config").touch()
    return "git~1"


def _invisible_mark(tree: Path) -> str:
    (tree / ".g\u200cit").mkdir()
    (tree / ".g\u200cit/config").touch()
    return r".g\u200cit"


def _hidden_by_a_rule_for_git_alone(tree: Path) -> str:
    (tree / ".gitignore").write_text("sub/.git\n.git\n")
    return _nested_repository(tree)


@pytest.mark.parametrize(
    "plant",
    [
        _nested_repository,
        _nested_directory,
        _nested_file,
        _nested_link,
        _nested_pipe,
        _other_case,
        _other_case_at_the_root,
        _windows_short_name,
        _invisible_mark,
        _hidden_by_a_rule_for_git_alone,
    ],
)
async def test_a_nested_git_directory_is_unsafe(
    harness: WorkspaceHarness, plant: Callable[[Path], str]
) -> None:
    async with harness.checkout() as checkout:
        named = plant(checkout.tree)
        error = await refusal(harness, checkout)
        assert error.code == "unsafe_change"
        assert named in str(error)


async def test_a_git_directory_in_an_ignored_path_is_allowed(
    harness: WorkspaceHarness,
) -> None:
    async with harness.checkout() as checkout:
        build = checkout.tree / "build"
        build.mkdir()
        _nested_repository(build)
        os.mkfifo(build / "sub/.git/HEAD.pipe")
        (build / "sub/.git/HEAD").unlink()
        os.mkfifo(build / "sub/.git/HEAD")
        (checkout.tree / "new").touch()
        assert await changes(harness, checkout) == ["A 100644 new"]


async def test_a_submodule_with_a_changed_commit_is_unsafe(harness: WorkspaceHarness) -> None:
    clone = harness.origin.clone
    run_git(clone, "update-index", "--add", "--cacheinfo", f"160000,{'1' * 40},module")
    (clone / "module").mkdir()
    harness.origin.commit_as_is()
    async with harness.checkout() as checkout:
        run_git(checkout.tree / "module", "init", "-q")
        run_git(checkout.tree / "module", "commit", "-q", "--allow-empty", "-m", "x")
        assert (await refusal(harness, checkout)).code == "unsafe_change"


async def test_names_of_any_bytes_are_committed(harness: WorkspaceHarness) -> None:
    names = [b"new\nline", b"\xff\xfe", b"-rf", b"tab\t", b'"', b":(top)x", b"*", b"\x1b[31m", b" "]
    async with harness.checkout() as checkout:
        for name in names:
            Path(os.fsdecode(os.fsencode(checkout.tree) + b"/" + name)).touch()
        paths = await changes(harness, checkout)
        assert paths == sorted(f"A 100644 {os.fsdecode(name)}" for name in names)


async def test_a_hostile_name_is_escaped_in_messages(harness: WorkspaceHarness) -> None:
    name = b"a\n\x1b[31m\xff"
    async with harness.checkout() as checkout:
        (checkout.tree / os.fsdecode(name) / ".git").mkdir(parents=True)
        assert r"a\n\x1b[31m\xff/.git" in str(await refusal(harness, checkout))


async def test_unreadable_files_are_made_readable_and_committed(harness: WorkspaceHarness) -> None:
    async with harness.checkout() as checkout:
        tree = checkout.tree
        (tree / "locked/inner").mkdir(parents=True)
        (tree / "locked/inner/file").write_text("inside\n")
        (tree / "locked/inner/file").chmod(0)
        (tree / "locked/inner").chmod(0)
        (tree / "locked").chmod(0)
        (tree / "README.md").write_text("changed\n")
        (tree / "README.md").chmod(0)
        (tree / ".gitignore").chmod(0)
        tree.chmod(0)
        assert await changes(harness, checkout) == [
            "A 100644 locked/inner/file",
            "M 100644 README.md",
        ]


async def test_root_commits_files_of_other_users(harness: WorkspaceHarness) -> None:
    owner = 900_001 if os.geteuid() == 0 else None
    async with harness.checkout(owner_uid=owner) as checkout:
        path = checkout.tree / "new"
        path.touch(mode=0o600)
        if owner is not None:
            os.chown(path, 900_002, 900_002)
        assert await changes(harness, checkout) == ["A 100644 new"]


async def test_a_sparse_file_of_a_terabyte_is_refused_at_once(harness: WorkspaceHarness) -> None:
    async with harness.checkout() as checkout:
        with (checkout.tree / "huge").open("wb") as file:
            file.truncate(2**40)
        error = await refusal(harness, checkout)
        assert error.code == "unsafe_change"
        assert "100 MiB: huge" in str(error)


async def test_an_ignored_huge_file_is_allowed(harness: WorkspaceHarness) -> None:
    async with harness.checkout() as checkout:
        with (checkout.tree / "huge.log").open("wb") as file:
            file.truncate(2**40)
        (checkout.tree / "new").touch()
        assert await changes(harness, checkout) == ["A 100644 new"]


async def test_names_that_git_could_read_as_patterns_exclude_nothing(
    harness: WorkspaceHarness,
) -> None:
    async with harness.checkout() as checkout:
        for name in ("*.log", ":(top)debug.log", ":!x"):
            path = checkout.tree / "sub" / name / ".git"
            path.mkdir(parents=True)
        (checkout.tree / ":(top)debug.log/.git").mkdir(parents=True)
        message = str(await refusal(harness, checkout))
        assert ":!x/.git" in message
        # These two names do end in .log, which the repository ignores.
        assert "*.log" not in message
        assert "(top)" not in message


async def test_a_huge_file_from_the_base_commit_may_stay(
    harness: WorkspaceHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tree_scan, "MAX_FILE_BYTES", 1_000)
    harness.origin.commit({"large": b"x" * 2_000})
    async with harness.checkout() as first:
        (first.tree / "new").touch()
        assert await changes(harness, first) == ["A 100644 new"]
    async with harness.checkout() as second:
        (second.tree / "large").write_bytes(b"y" * 2_000)
        assert (await refusal(harness, second)).code == "unsafe_change"


@pytest.mark.parametrize("name", [".gitignore", ".gitattributes", "sub/.gitignore", ".gitmodules"])
async def test_a_huge_rule_file_is_refused_before_git_reads_it(
    harness: WorkspaceHarness, name: str
) -> None:
    async with harness.checkout() as checkout:
        path = checkout.tree / name
        path.parent.mkdir(exist_ok=True)
        with path.open("wb") as file:
            file.truncate(2**40)
        error = await refusal(harness, checkout)
        assert (error.code, name in str(error)) == ("unsafe_change", True)


async def test_paths_too_long_for_git_are_refused(harness: WorkspaceHarness) -> None:
    async with harness.checkout() as checkout:
        here = os.open(checkout.tree, os.O_RDONLY)
        for _ in range(40):
            os.mkdir("d" * 200, dir_fd=here)
            deeper = os.open("d" * 200, os.O_RDONLY, dir_fd=here)
            os.close(here)
            here = deeper
        os.close(here)
        error = await refusal(harness, checkout)
        assert (error.code, "too long" in str(error)) == ("unsafe_change", True)


async def test_an_encoding_git_cannot_convert_is_refused(harness: WorkspaceHarness) -> None:
    async with harness.checkout() as checkout:
        (checkout.tree / ".gitattributes").write_text("*.md working-tree-encoding=UTF-16\n")
        (checkout.tree / "README.md").write_bytes(b"odd")
        error = await refusal(harness, checkout)
        assert error.code == "unsafe_change"


@pytest.mark.parametrize(
    "name", [".github/workflows/ci.yml", ".GitHub/workflows/ci.yml", "docs/codeowners"]
)
async def test_a_protected_path_is_refused(harness: WorkspaceHarness, name: str) -> None:
    async with harness.checkout() as checkout:
        path = checkout.tree / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
        error = await refusal(harness, checkout)
        assert (error.code, name in str(error)) == ("protected_path", True)


async def test_protected_paths_are_refused_when_changed_deleted_or_covered_by_a_link(
    harness: WorkspaceHarness,
) -> None:
    harness.origin.commit({".github/workflows/ci.yml": b"on: push\n", "ci/x": b"1\n"})
    async with harness.checkout() as changed:
        (changed.tree / ".github/workflows/ci.yml").chmod(0o755)
        assert (await refusal(harness, changed)).code == "protected_path"
    async with harness.checkout() as deleted:
        shutil.rmtree(deleted.tree / ".github")
        assert (await refusal(harness, deleted)).code == "protected_path"
    async with harness.checkout() as covered:
        (covered.tree / ".gitea").symlink_to("ci")
        assert (await refusal(harness, covered)).code == "protected_path"
    async with harness.checkout() as moved:
        (moved.tree / ".github").rename(moved.tree / "away")
        (moved.tree / ".github").symlink_to("away")
        assert (await refusal(harness, moved)).code == "protected_path"


async def test_a_protected_file_that_is_hidden_by_an_ignore_rule_is_not_committed(
    harness: WorkspaceHarness,
) -> None:
    async with harness.checkout() as checkout:
        (checkout.tree / ".gitignore").write_text("Jenkinsfile\n")
        (checkout.tree / "Jenkinsfile").touch()
        assert await changes(harness, checkout) == ["M 100644 .gitignore"]


async def test_paths_that_the_repository_protects_are_refused_as_well(
    harness: WorkspaceHarness,
) -> None:
    async with harness.checkout() as checkout:
        (checkout.tree / "infra").mkdir()
        (checkout.tree / "infra/main.tf").touch()
        with pytest.raises(UnsafeChange, match=r"infra/main\.tf.*\.agentjobs\.toml") as refused:
            await harness.commit(checkout, protected=["Infra/**"], lifted=["infra/**"])
        assert refused.value.code == "protected_path"
        assert await harness.commit(checkout, protected=["docs/**"]) is not None


async def test_only_a_lifted_path_may_be_changed(harness: WorkspaceHarness) -> None:
    lifted = [".github/workflows/docs.yml"]
    async with harness.checkout() as checkout:
        workflows = checkout.tree / ".github/workflows"
        workflows.mkdir(parents=True)
        (workflows / "docs.yml").touch()
        assert await harness.commit(checkout, lifted=lifted) is not None
        (workflows / "release.yml").touch()
        with pytest.raises(UnsafeChange, match=r"paths: \.github/workflows/release\.yml\."):
            await harness.commit(checkout, lifted=lifted)


@pytest.mark.parametrize(
    ("name", "content"),
    [
        (".gitmodules", '[submodule "x"]\n\tpath = x\n\turl = --upload-pack=touch\n'),
        (".gitmodules", '[submodule "../x"]\n\tpath = x\n\turl = https://example.org\n'),
        (".gitmodules", '[submodule "x"]\n\tpath = -x\n\turl = https://example.org\n'),
        (".gitmodules", '[submodule "x"]\n\tpath = x\n\tupdate = !touch x\n'),
        ("src/.GitModules", '[submodule "x"]\n\turl = "https://a/\\nhost=b"\n'),
        (".gitattributes", "x" * 3_000 + " text\n"),
    ],
)
async def test_a_git_file_that_hosts_refuse_is_refused_before_the_push(
    harness: WorkspaceHarness, name: str, content: str
) -> None:
    async with harness.checkout() as checkout:
        (checkout.tree / name).write_text(content)
        error = await refusal(harness, checkout)
        assert (error.code, name in str(error)) == ("unsafe_change", True)


async def test_a_link_in_place_of_gitmodules_is_unsafe(harness: WorkspaceHarness) -> None:
    async with harness.checkout() as checkout:
        (checkout.tree / ".gitmodules").symlink_to("README.md")
        assert (await refusal(harness, checkout)).code == "unsafe_change"


async def test_valid_git_files_may_be_changed_and_removed(harness: WorkspaceHarness) -> None:
    harness.origin.commit({".gitmodules": b"# none yet\n", "src/.gitattributes": b"*.x text\n"})
    async with harness.checkout() as checkout:
        sound = '[submodule "x"]\n\tpath = x\n\turl = https://example.org/x.git\n'
        (checkout.tree / ".gitmodules").write_text(sound)
        (checkout.tree / "src/.gitattributes").unlink()
        (checkout.tree / ".gitattributes").write_text("*.py text\n")
        assert await changes(harness, checkout) == [
            "A 100644 .gitattributes",
            "D 000000 src/.gitattributes",
            "M 100644 .gitmodules",
        ]
        assert not list(harness.mirror.glob("incoming-*"))


async def test_only_the_executable_bit_of_a_mode_is_committed(harness: WorkspaceHarness) -> None:
    async with harness.checkout() as checkout:
        for name, mode in (("setuid", 0o6755), ("sticky", 0o1644), ("open", 0o777)):
            path = checkout.tree / name
            path.touch()
            path.chmod(mode)
        assert await changes(harness, checkout) == [
            "A 100644 sticky",
            "A 100755 open",
            "A 100755 setuid",
        ]


async def test_files_tracked_by_lfs_are_refused_in_every_form(harness: WorkspaceHarness) -> None:
    harness.origin.commit(
        {
            ".gitattributes": b"[attr]big filter=lfs\n*.bin big\n",
            "a.bin": POINTER % 1,
            "b": POINTER % 2,
        }
    )
    async with harness.checkout() as content:
        (content.tree / "a.bin").write_bytes(b"real content")
        assert "a.bin" in str(await refusal(harness, content))
    async with harness.checkout() as record_added:
        (record_added.tree / "c.bin").write_bytes(b"new content")
        assert (await refusal(harness, record_added)).code == "unsafe_change"
    async with harness.checkout() as unmarked:
        (unmarked.tree / ".gitattributes").unlink()
        (unmarked.tree / "a.bin").write_bytes(b"real content")
        assert "a.bin" in str(await refusal(harness, unmarked))
    async with harness.checkout() as pointer:
        (pointer.tree / "b").write_bytes(b"no pointer any more")
        assert str(await refusal(harness, pointer)).endswith("Git LFS: b")
    async with harness.checkout() as forged:
        (forged.tree / "x").write_bytes(POINTER % 3)
        assert str(await refusal(harness, forged)).endswith("Git LFS: x")
    async with harness.checkout() as marked:
        (marked.tree / "src/.gitattributes").write_text("*.dat filter=lfs\n")
        (marked.tree / "src/y.dat").write_bytes(b"content")
        assert str(await refusal(harness, marked)).endswith("Git LFS: src/y.dat")
    async with harness.checkout() as unrelated:
        (unrelated.tree / "README.md").write_text("changed\n")
        assert await changes(harness, unrelated) == ["M 100644 README.md"]


async def test_a_working_directory_replaced_by_a_link_is_refused(harness: WorkspaceHarness) -> None:
    async with harness.checkout() as checkout:
        checkout.tree.rename(checkout.tree.with_name("elsewhere"))
        checkout.tree.symlink_to("/etc")
        assert (await refusal(harness, checkout)).code == "unsafe_change"


async def test_ten_thousand_new_files_are_committed(harness: WorkspaceHarness) -> None:
    async with harness.checkout() as checkout:
        for number in range(10_000):
            (checkout.tree / f"f{number}").touch()
        assert len(await changes(harness, checkout)) == 10_000


def _listen(path: Path) -> None:
    # A socket's address is at most 108 bytes long, so it is bound from inside its directory.
    before = Path.cwd()
    os.chdir(path.parent)
    try:
        with socket.socket(socket.AF_UNIX) as listener:
            listener.bind(path.name)
    finally:
        os.chdir(before)
