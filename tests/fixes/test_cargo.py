"""Fixes of Cargo.lock, which cargo then uses as it is."""

from collections.abc import Mapping

from tests.support.fix_corpus import Corpus, Project, advisory
from tests.support.fix_proofs import cargo
from tests.support.workspace import run_git

# Versions that are vulnerable by real advisories.
SMALLVEC = advisory("crates.io", "smallvec", "1.6.1", introduced="1.0.0")
OLD_SMALLVEC = advisory("crates.io", "smallvec", "0.6.14", introduced="0.6.3")
TIME = advisory("crates.io", "time", "0.3.47", introduced="0.3.6")


def manifest(dependencies: str, name: str = "app", package: str = "") -> str:
    fields = f'name = "{name}"\nversion = "0.1.0"\nedition = "2021"\n{package}'
    return f"[package]\n{fields}\n[dependencies]\n{dependencies}"


def locked_project(corpus: Corpus, files: Mapping[str, str], **versions: str) -> Project:
    """The lock file has the old `versions`, which the manifests do not require."""
    project = corpus.project(files)
    cargo(project.tree, "generate-lockfile")
    for package, version in versions.items():
        cargo(project.tree, "update", "--package", package, "--precise", version)
    return project


def test_a_direct_dependency_is_updated(corpus: Corpus) -> None:
    """A build would run the program that the project configures; a fix does not."""
    project = locked_project(
        corpus,
        {
            "Cargo.toml": manifest('smallvec = "1"\n'),
            "src/main.rs": "fn main() {}\n",
        },
        smallvec="1.6.0",
    )
    project.write(
        {
            ".cargo/config.toml": '[build]\nrustc-wrapper = "./trap"\n',
            "trap": "#!/bin/sh\ntouch ran\n",
        }
    )
    (project.tree / "trap").chmod(0o755)
    before = project.read("Cargo.lock")
    job = project.fix(SMALLVEC)
    assert job.changed == {"Cargo.lock"}
    assert len(job.read("Cargo.lock").splitlines()) == len(before.splitlines())


def test_a_transitive_dependency_is_updated(corpus: Corpus) -> None:
    project = locked_project(
        corpus,
        {
            "Cargo.toml": manifest('unicode-normalization = "=0.1.22"\n'),
            "src/lib.rs": "",
        },
        tinyvec="1.5.0",
    )
    job = project.fix(advisory("crates.io", "tinyvec", "1.6.0"))
    assert 'name = "tinyvec"\nversion = "1.6.0"' in job.read("Cargo.lock")


def test_a_crate_that_requires_the_old_version_is_updated_too(corpus: Corpus) -> None:
    """url 2.5.0 requires idna 0.5; later versions of url 2 require idna 1."""
    project = locked_project(
        corpus,
        {"Cargo.toml": manifest('url = "2"\n'), "src/lib.rs": ""},
        url="2.5.0",
    )
    job = project.fix(advisory("crates.io", "idna", "1.0.0"))
    assert 'name = "idna"\nversion = "0.5.0"' not in job.read("Cargo.lock")


def test_the_lock_file_of_a_workspace_is_updated_once(corpus: Corpus) -> None:
    project = locked_project(
        corpus,
        {
            "Cargo.toml": '[workspace]\nmembers = ["a", "b"]\nresolver = "2"\n',
            "a/Cargo.toml": manifest('smallvec = "1"\n', "a"),
            "a/src/lib.rs": "",
            "b/Cargo.toml": manifest('a = { path = "../a" }\nsmallvec = "1.4"\n', "b"),
            "b/src/main.rs": "fn main() {}\n",
        },
        smallvec="1.6.0",
    )
    assert project.fix(SMALLVEC).changed == {"Cargo.lock"}


def test_several_versions_of_a_crate_are_updated_by_one_job(corpus: Corpus) -> None:
    project = locked_project(
        corpus,
        {
            "Cargo.toml": manifest(
                'smallvec = "1"\nold = { package = "smallvec", version = "0.6" }\n'
            ),
            "src/lib.rs": "",
        },
        **{"smallvec@1": "1.6.0", "smallvec@0.6": "0.6.13"},
    )
    job = project.fix(SMALLVEC, OLD_SMALLVEC)
    lock = job.read("Cargo.lock")
    assert 'name = "smallvec"\nversion = "0.6.14"' in lock
    assert 'name = "smallvec"\nversion = "1.6.1"' in lock


def test_only_the_vulnerable_version_of_a_crate_is_updated(corpus: Corpus) -> None:
    project = locked_project(
        corpus,
        {
            "Cargo.toml": manifest('itoa = "1"\nold = { package = "itoa", version = "0.4" }\n'),
            "src/lib.rs": "",
        },
        **{"itoa@1": "1.0.1"},
    )
    job = project.fix(advisory("crates.io", "itoa", "1.0.2", introduced="1.0.0"))
    assert 'name = "itoa"\nversion = "0.4.8"' in job.read("Cargo.lock")


def test_two_workspaces_are_updated_by_one_job(corpus: Corpus) -> None:
    project = corpus.project(
        {
            "server/Cargo.toml": manifest('smallvec = "1"\n'),
            "server/src/lib.rs": "",
            "fuzz/Cargo.toml": manifest('smallvec = "1"\n', package="[workspace]\n"),
            "fuzz/src/lib.rs": "",
        }
    )
    for name, version in (("server", "1.6.0"), ("fuzz", "1.4.2")):
        cargo(project.tree / name, "generate-lockfile")
        cargo(project.tree / name, "update", "--package", "smallvec", "--precise", version)
    assert project.fix(SMALLVEC).changed == {"server/Cargo.lock", "fuzz/Cargo.lock"}


def test_a_version_that_the_project_can_compile_is_chosen(corpus: Corpus) -> None:
    project = locked_project(
        corpus,
        {
            "Cargo.toml": manifest('time = "0.3"\n', package='rust-version = "1.88"\n'),
            "src/lib.rs": "",
        },
        time="0.3.20",
    )
    assert 'name = "time"\nversion = "0.3.47"' in project.fix(TIME).read("Cargo.lock")


def test_a_version_that_needs_a_newer_rust_is_not_proposed(corpus: Corpus) -> None:
    project = locked_project(
        corpus,
        {
            "Cargo.toml": manifest('time = "0.3"\n', package='rust-version = "1.65"\n'),
            "src/lib.rs": "",
        },
        time="0.3.20",
    )
    job = project.fix(TIME, expect="failed")
    assert "the project supports 1.65" in job.reason


def test_a_version_that_the_manifest_does_not_allow_is_not_proposed(corpus: Corpus) -> None:
    files = {"Cargo.toml": manifest('smallvec = "=1.6.0"\n'), "src/lib.rs": ""}
    job = locked_project(corpus, files).fix(SMALLVEC, expect="failed")
    assert "required by package" in job.report


def patched_with(crate: str, version: str) -> dict[str, str]:
    """The project has its own copy of a crate."""
    return {
        f"{crate}/Cargo.toml": manifest("", crate).replace("0.1.0", version),
        f"{crate}/src/lib.rs": "",
    }


def test_a_patch_stays_in_use(corpus: Corpus) -> None:
    dependencies = 'smallvec = "1"\nunicode-normalization = "=0.1.22"\n'
    patch = '[patch.crates-io]\nsmallvec = { path = "smallvec" }\n'
    project = locked_project(
        corpus,
        {
            "Cargo.toml": manifest(dependencies) + patch,
            "src/lib.rs": "",
            **patched_with("smallvec", "1.6.0"),
        },
        tinyvec="1.5.0",
    )
    # The copy may have the fix.
    job = project.fix(advisory("crates.io", "tinyvec", "1.6.0"), SMALLVEC)
    assert 'name = "smallvec"\nversion = "1.6.0"\n' in job.read("Cargo.lock")


def test_a_patch_that_nothing_uses_after_the_fix_gives_a_draft(corpus: Corpus) -> None:
    """url 2.5.0 requires idna 0.5; later versions of url 2 require idna 1."""
    patch = '[patch.crates-io]\nidna = { path = "idna" }\n'
    project = locked_project(
        corpus,
        {
            "Cargo.toml": manifest('url = "2"\n') + patch,
            "src/lib.rs": "",
            **patched_with("idna", "0.5.0"),
        },
        url="2.5.0",
    )
    job = project.fix(advisory("crates.io", "url", "2.5.4"), expect="draft")
    assert "Nothing uses the `[patch]` of `idna` after the fix" in job.reason


def test_a_crate_from_a_git_repository_is_not_updated(corpus: Corpus) -> None:
    source = corpus.directory / "smallvec"
    for name, content in patched_with(".", "1.6.0").items():
        (source / name).parent.mkdir(parents=True, exist_ok=True)
        (source / name).write_text(content.replace('"."', '"smallvec"'))
    for command in (("init", "-q", "-b", "main"), ("add", "."), ("commit", "-q", "-m", "x")):
        run_git(source, *command)
    patch = f'[patch.crates-io]\nsmallvec = {{ git = "file://{source}" }}\n'
    project = locked_project(
        corpus, {"Cargo.toml": manifest('smallvec = "1"\n') + patch, "src/lib.rs": ""}
    )
    job = project.fix(SMALLVEC, expect="failed")
    assert "smallvec 1.6.0 comes from a git repository" in job.report
