"""Agents that leave a tree designed to harm its readers."""

import os

import pytest

from tests.support.hostile_service import FILES, HostileService

ORIGINAL = {name.encode(): "100644" for name in FILES}
# What git would run if it read a git directory that an agent wrote.
EVIL_CONFIGURATION = """
[core]
    fsmonitor = touch TRAP
    hooksPath = /workspace/.git/hooks
    sshCommand = touch TRAP
    pager = touch TRAP
    editor = touch TRAP
    worktree = /
[filter "evil"]
    clean = touch TRAP
    smudge = touch TRAP
    process = touch TRAP
    required = true
[diff]
    external = touch TRAP
[diff "evil"]
    textconv = touch TRAP
[commit]
    gpgSign = true
[gpg]
    program = touch TRAP
[remote "origin"]
    url = ext::touch% TRAP
    uploadpack = touch TRAP
[include]
    path = TRAP
"""
HOOKS = """
for hook in pre-commit post-commit commit-msg prepare-commit-msg pre-push post-checkout \\
        post-index-change fsmonitor-watchman reference-transaction pre-auto-gc post-rewrite; do
    printf '#!/bin/sh\\ntouch TRAP\\n' > .git/hooks/$hook
    chmod +x .git/hooks/$hook
done
"""
NEW_REPOSITORY = """
repository() {
    git init -q "$1"
    git -C "$1" -c user.name=x -c user.email=x@example.com commit -q --allow-empty -m x
}
"""
SUBMODULE = """
repository /tmp/library
git -c protocol.file.allow=always submodule --quiet add /tmp/library vendored
"""


def test_a_deleted_working_directory_is_a_change_that_deletes_everything(
    hostile: HostileService,
) -> None:
    finished = hostile.shell("cd /; rm -rf /workspace; rmdir /workspace; mv /workspace /gone; true")
    assert finished.outcome == "completed"
    assert finished.branch.files() == {}


def test_an_inaccessible_working_directory_is_made_accessible(hostile: HostileService) -> None:
    # In a pod, the working directory itself is not the agent's.
    finished = hostile.shell(
        "chmod 000 docs/guide.md docs .git; echo changed > edited.txt; chmod 0 .; true"
    )
    assert finished.outcome == "completed"
    assert finished.branch.files() == {**ORIGINAL, b"edited.txt": "100644"}


@pytest.mark.parametrize(
    "plant",
    [
        HOOKS + "printf '%s' \"$EVIL\" > .git/config",
        "rm -rf .git",
        "rm -rf .git; echo 'gitdir: /etc' > .git",
        "rm -rf .git; ln -s DATA/mirrors .git",
        "rm -rf .git; mkfifo .git",
        "rm -rf .git; git init -q --bare .git; chmod 000 .git",
        "rm -rf .git/*; echo 'ref: refs/heads/../../../../TRAP' > .git/HEAD",
    ],
    ids=["hooks", "none", "file", "link", "pipe", "closed", "broken"],
)
def test_a_planted_root_git_is_ignored(hostile: HostileService, plant: str) -> None:
    script = f"EVIL='{EVIL_CONFIGURATION}'\n{plant}\necho changed > edited.txt"
    finished = hostile.shell(_placed(script, hostile))
    assert finished.outcome == "completed"
    assert finished.branch.files() == {**ORIGINAL, b"edited.txt": "100644"}
    assert not hostile.trap.exists()


def test_commits_and_gitlinks_in_the_agents_git_directory_are_ignored(
    hostile: HostileService,
) -> None:
    finished = hostile.shell(
        """
        git config user.name x; git config user.email x@example.com
        git update-index --add --cacheinfo 160000,$(git rev-parse HEAD),vendored
        git commit -qm 'Mine' && git tag mine && git branch -m other
        echo changed > edited.txt
        """
    )
    assert finished.outcome == "completed"
    assert finished.branch.files() == {**ORIGINAL, b"edited.txt": "100644"}


def test_filters_and_attributes_run_no_code(hostile: HostileService) -> None:
    finished = hostile.shell(
        _placed(
            f"""
EVIL='{EVIL_CONFIGURATION}'
printf '%s' "$EVIL" > .git/config
printf '%s' "$EVIL" > .gitconfig
printf '%s' "$EVIL" > .lfsconfig
printf '* filter=evil diff=evil merge=evil ident\n' | tee .gitattributes > .git/info/attributes
printf '$Id$\r\n' > edited.txt
""",
            hostile,
        )
    )
    assert finished.outcome == "completed"
    assert finished.branch.content("edited.txt").startswith(b"$Id")
    assert not hostile.trap.exists()


def test_links_to_the_outside_are_committed_as_links(hostile: HostileService) -> None:
    store = hostile.service.data_dir / "agentjobs.db"
    finished = hostile.shell(
        f"""
        ln -s {store} store.txt; ln -s /etc/passwd passwd.txt; ln -s ../../../../.. up
        ln -s loop loop; rm -r docs; ln -s {hostile.service.data_dir} docs
        rm .gitignore; ln -s /etc/shadow .gitignore; ln -s {store} .gitattributes
        """
    )
    assert finished.outcome == "completed"
    names = [b"store.txt", b"passwd.txt", b"up", b"loop", b"docs", b".gitignore", b".gitattributes"]
    assert finished.branch.files() == {b"app.py": "100644", **dict.fromkeys(names, "120000")}
    assert finished.branch.content("store.txt") == os.fsencode(store)
    assert "SQLite format" not in hostile.page(finished)


@pytest.mark.parametrize(
    "plant",
    [
        "repository nested",
        "mkdir nested && echo 'gitdir: DATA/mirrors' > nested/.git",
        "mkdir nested && ln -s DATA/mirrors nested/.git",
        "mkdir -p docs/.GIT/objects docs/.GIT/refs",
        SUBMODULE,
    ],
    ids=["repository", "file", "link", "spelt otherwise", "submodule"],
)
def test_nested_repositories_and_submodules_are_unsafe(hostile: HostileService, plant: str) -> None:
    finished = hostile.shell(_placed(NEW_REPOSITORY + plant, hostile))
    assert finished.outcome == "unsafe_change", (finished.job, finished.log)
    assert finished.pushed is None


@pytest.mark.parametrize(
    "plant",
    [
        "echo '* working-tree-encoding=no-such' > .gitattributes",
        "printf '[submodule \"x\"]\\n\\tpath = x\\n\\turl = --upload-pack=x\\n' > .gitmodules",
        "printf 'version https://git-lfs.github.com/spec/v1\\noid sha256:0\\nsize 1\\n' > big.bin",
        "yes '*' | head -c 2M > .gitignore",
    ],
    ids=["encoding", "option as address", "pointer", "huge"],
)
def test_invalid_git_files_are_unsafe(hostile: HostileService, plant: str) -> None:
    finished = hostile.shell(plant + "; echo changed > edited.txt")
    assert finished.outcome == "unsafe_change", (finished.job, finished.log)


def test_names_of_any_bytes_are_committed_and_displayed(hostile: HostileService) -> None:
    names = [b"new\nline", b"\xff\xfe", b"-rf", b'"quoted"', b"\x1b[2J", b"a\tb", b":(top)*", b" "]
    finished = hostile.python(f"for name in {names!r}: open(name, 'w').close()")
    assert finished.outcome == "completed"
    assert finished.branch.files() == {**ORIGINAL, **dict.fromkeys(names, "100644")}
    assert "\x1b" not in hostile.page(finished)


def test_a_hostile_name_is_escaped_in_a_message(hostile: HostileService) -> None:
    finished = hostile.python(r'os.makedirs(b"a\n[agentjobs] \x1b[2J\xff/.git/objects")')
    assert finished.outcome == "unsafe_change"
    assert finished.message.isprintable()


def test_a_setuid_file_is_committed_as_an_ordinary_one(hostile: HostileService) -> None:
    finished = hostile.python(
        """
        Path("plain").write_text("x")
        probe("setuid", lambda: os.chmod("plain", 0o4755))
        os.chmod("plain", 0o2777)
        flags = os.O_CREAT | os.O_WRONLY
        probe("created setuid", lambda: os.open("created", flags, 0o4755))
        os.close(os.open("created", flags, 0o2755))
        """
    )
    assert finished.outcome == "completed"
    assert "setuid: refused, EPERM" in finished.log
    assert "created setuid: refused, EPERM" in finished.log
    assert finished.branch.files() == {**ORIGINAL, b"plain": "100755", b"created": "100755"}


def test_pipes_and_sockets_are_not_committed(hostile: HostileService) -> None:
    finished = hostile.python(
        """
        os.mkfifo("pipe"); os.mkfifo(".gitattributes")
        socket.socket(socket.AF_UNIX).bind("socket")
        change()
        """
    )
    assert finished.outcome == "completed"
    assert finished.branch.files() == {**ORIGINAL, b"edited.txt": "100644"}


def test_a_pipe_in_place_of_a_file_is_unsafe(hostile: HostileService) -> None:
    assert hostile.shell("rm app.py; mkfifo app.py").outcome == "unsafe_change"


def test_a_pipe_in_place_of_a_directory_deletes_its_files(hostile: HostileService) -> None:
    finished = hostile.shell("rm -r docs; mkfifo docs")
    assert finished.outcome == "completed"
    assert finished.branch.files().keys() == ORIGINAL.keys() - {b"docs/guide.md"}


def test_a_tree_too_deep_for_a_path_is_unsafe_and_removed(hostile: HostileService) -> None:
    finished = hostile.python(
        """
        Path("closed").mkdir(); Path("closed/file").write_text("x"); os.chmod("closed", 0)
        for level in range(1500):
            os.mkdir("down"); os.chdir("down")
        Path("bottom").write_text("x")
        os.chmod("bottom", 0); os.chmod(".", 0)
        """
    )
    assert finished.outcome == "unsafe_change"


def test_protected_paths_are_refused(hostile: HostileService) -> None:
    finished = hostile.shell(
        "mkdir -p .github/workflows && echo 'on: push' > .github/workflows/x.yml"
    )
    assert finished.outcome == "protected_path"
    assert hostile.shell("echo 'verify = \"true\"' > .agentjobs.toml").outcome == "protected_path"
    finished = hostile.shell("mkdir .devcontainer && echo '{}' > .devcontainer/devcontainer.json")
    assert finished.outcome == "protected_path"


def _placed(script: str, hostile: HostileService) -> str:
    return script.replace("TRAP", str(hostile.trap)).replace("DATA", str(hostile.service.data_dir))
