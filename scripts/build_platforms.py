"""Builds the Gitea and the Forgejo that `make test SUITE=platforms` runs, from the Go module proxy.

Usage: build_platforms.py DIRECTORY. What DIRECTORY already has is not built again. FORGEJO_SOURCE
names a checkout of another Forgejo, which is built as it is and each time.
"""

import json
import os
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path

# Older ones do not fetch the toolchain that a module asks for.
MIN_GO = (1, 21)
PROGRAM = "server"
SOURCE_BUILD = "forgejo-source"
_CONVERT = "\t\tpullRequest = convert.ToAPIPullRequest(ctx, issue.PullRequest, doer)"
_LOAD = "\t\tif err := issue.LoadPullRequest(ctx); err != nil {\n\t\t\treturn\n\t\t}\n"
# The part of Forgejo that imports modules which the proxy does not serve: a format for migrations.
_FORGEJO_F3 = ("services/f3", "cmd/forgejo/f3.go")


@dataclass(frozen=True)
class Recipe:
    """`directory` is named after the version. A module that the proxy does not serve is replaced
    by another version or by the one that it is a fork of (`imports`: new path and version), and
    `texts` are replaced where they differ."""

    name: str
    version: str
    module: str
    tags: str = ""
    replacements: dict[str, str] = field(default_factory=dict)
    restored: tuple[str, ...] = ()
    imports: dict[str, tuple[str, str]] = field(default_factory=dict)
    removed_paths: tuple[str, ...] = ()
    removed_lines: str = ""
    texts: dict[str, str] = field(default_factory=dict)
    dropped: tuple[str, ...] = ()

    @property
    def directory(self) -> str:
        return f"{self.name}-{self.version}"


GITEA = Recipe(
    "gitea",
    "1.27.3",
    "code.gitea.io/gitea@v1.27.3",
    replacements={
        "gitea.dev/sdk": "code.gitea.io/sdk@v1.1.0",
        "gitea.dev/actions-proto-go": "code.gitea.io/actions-proto-go@v0.6.0",
        "gitlab.com/gitlab-org/api/client-go/v2": "gitlab.com/gitlab-org/api/client-go/v2@v2.43.0",
    },
)
FORGEJO = Recipe(
    "forgejo",
    "10.0.0-dev-20241219",
    "codeberg.org/forgejo/forgejo@v1.21.0-rc0.0.20241219112042-456d05998231",
    tags="sqlite,sqlite_unlock_notify",
    replacements={"github.com/nektos/act": "gitea.com/gitea/act@v0.261.3"},
    restored=("github.com/mholt/archiver/v3", "github.com/gliderlabs/ssh"),
    imports={
        "code.forgejo.org/go-chi/binding": (
            "gitea.com/go-chi/binding",
            "v0.0.0-20240430071103-39a851e106ed",
        ),
        "code.forgejo.org/go-chi/cache": ("gitea.com/go-chi/cache", "v0.2.1"),
        "code.forgejo.org/go-chi/captcha": ("github.com/dchest/captcha", "v1.1.0"),
        "code.forgejo.org/go-chi/session": (
            "gitea.com/go-chi/session",
            "v0.0.0-20240316035857-16768d98ec96",
        ),
        "code.forgejo.org/forgejo/reply": (
            "github.com/dimiro1/reply",
            "v0.0.0-20200315094148-d0136a4c9e21",
        ),
        "code.forgejo.org/forgejo-contrib/go-libravatar": (
            "strk.kbt.io/projects/go/libravatar",
            "v0.0.0-20191008002943-06d1c002b251",
        ),
    },
    removed_paths=(*_FORGEJO_F3, "tests"),
    removed_lines="CmdF3",
    texts={
        # The fork of gliderlabs/ssh has another name for it.
        "session.ConnPermissions()": "session.Permissions()",
        # Comments on pull requests panicked; later versions load it here too.
        _CONVERT: f"{_LOAD}{_CONVERT}",
    },
    dropped=("code.forgejo.org/f3/gof3/v3",),
)


def main(directory: str) -> None:
    root = Path(directory).resolve()
    root.mkdir(parents=True, exist_ok=True)
    check_go()
    build_recipe(GITEA, root)
    source = os.environ.get("FORGEJO_SOURCE")
    if source:
        target = root / SOURCE_BUILD
        build(Path(source).resolve(), target / PROGRAM, FORGEJO.tags)
        link(target / "source", Path(source).resolve())
    else:
        build_recipe(FORGEJO, root)


def check_go() -> None:
    if shutil.which("go") is None:
        sys.exit("build_platforms: Go is missing; install golang-go, or put `go` into PATH")
    shown = run("go", "version").stdout
    match = re.search(r"go(\d+)\.(\d+)", shown)
    if match is None or tuple(map(int, match.groups())) < MIN_GO:
        required = ".".join(map(str, MIN_GO))
        sys.exit(
            f"build_platforms: {shown.strip()} is too old: Go {required} or newer fetches the "
            "version that Gitea and Forgejo need. Install one (Debian 12: golang-1.22-go of "
            "bookworm-backports) and put it first in PATH."
        )


def build_recipe(recipe: Recipe, root: Path) -> None:
    target = root / recipe.directory
    if (target / PROGRAM).exists():
        return
    source = target / "source"
    shutil.rmtree(target, ignore_errors=True)
    copy_module(recipe.module, source)
    adapt(recipe, source)
    build(source, target / PROGRAM, recipe.tags, f"-X main.Version={recipe.version}")


def copy_module(module: str, source: Path) -> None:
    download = json.loads(run("go", "mod", "download", "-json", module, cwd=source.anchor).stdout)
    # Modules in Go's cache are read-only.
    shutil.copytree(download["Dir"], source)
    for path in (source, *source.rglob("*")):
        path.chmod(path.stat().st_mode | 0o200)


def adapt(recipe: Recipe, source: Path) -> None:
    for name in recipe.removed_paths:
        path = source / name
        shutil.rmtree(path) if path.is_dir() else path.unlink()
    edits = [f"-replace={old}={new}" for old, new in recipe.replacements.items()]
    edits += [f"-dropreplace={module}" for module in recipe.restored]
    edits += [f"-droprequire={module}" for module in (*recipe.dropped, *recipe.imports)]
    edits += [f"-require={new}@{version}" for new, version in recipe.imports.values()]
    if recipe.imports or recipe.removed_lines or recipe.texts:
        for file in source.rglob("*.go"):
            rewrite(file, recipe)
    run("go", "mod", "edit", *edits, cwd=source)


def rewrite(file: Path, recipe: Recipe) -> None:
    before = file.read_text()
    after = before
    for old, (new, _) in recipe.imports.items():
        after = after.replace(f'"{old}', f'"{new}')
    for old_text, new_text in recipe.texts.items():
        after = after.replace(old_text, new_text)
    if recipe.removed_lines:
        lines = after.splitlines(keepends=True)
        after = "".join(line for line in lines if recipe.removed_lines not in line)
    if after != before:
        file.write_text(after)


def build(source: Path, program: Path, tags: str, linker_flags: str = "") -> None:
    """Without its web pages' scripts, which need npm: the API and git do not use them."""
    print(f"building {program.parent.name} (about ten minutes the first time)", file=sys.stderr)
    program.parent.mkdir(parents=True, exist_ok=True)
    options = ["-p", "2", "-mod=mod", "-tags", tags, "-ldflags", linker_flags, "-o", str(program)]
    # SQLite is written in C only where the tags ask for it.
    cgo = f"CGO_ENABLED={int('sqlite' in tags)}"
    run("nice", "-n", "10", "env", cgo, "go", "build", *options, ".", cwd=source, capture=False)


def link(path: Path, target: Path) -> None:
    path.unlink(missing_ok=True)
    path.symlink_to(target)


def run(
    *command: str, cwd: str | Path | None = None, capture: bool = True
) -> subprocess.CompletedProcess[str]:
    environment = {
        **os.environ,
        "GOTOOLCHAIN": os.environ.get("GOTOOLCHAIN", "auto"),
        # Replacements under this name are unknown to the checksum database.
        "GONOSUMDB": "code.gitea.io",
    }
    done = subprocess.run(
        command, cwd=cwd, env=environment, capture_output=capture, text=True, check=False
    )
    if done.returncode:
        sys.exit(f"build_platforms: {' '.join(command)}: {done.stderr or done.returncode}")
    return done


if __name__ == "__main__":
    main(*sys.argv[1:])
