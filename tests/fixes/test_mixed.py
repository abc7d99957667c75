"""Repositories with several ecosystems and several manifests of each, as in real ones."""

from tests.support.fix_corpus import Corpus, Project, advisory
from tests.support.fix_proofs import cargo, go

GO_TEXT = advisory("Go", "golang.org/x/text", "0.3.8")
LODASH = advisory("npm", "lodash", "4.17.21")
REQUESTS = advisory("PyPI", "requests", "2.31.0")
SMALLVEC = advisory("crates.io", "smallvec", "1.6.1")
COMMONS_TEXT = advisory("Maven", "org.apache.commons:commons-text", "1.10.0")
NPM_FILES = ("package.json", "package-lock.json")
POM = """\
<project>
  <modelVersion>4.0.0</modelVersion>
  <groupId>shop</groupId>
  <artifactId>java</artifactId>
  <version>1</version>
  <dependencies>
    <dependency>
      <groupId>org.apache.commons</groupId>
      <artifactId>commons-text</artifactId>
      <version>1.9</version>
    </dependency>
  </dependencies>
</project>
"""
MAIN_GO = 'package main\n\nimport _ "golang.org/x/text/language"\n\nfunc main() {}\n'
ALL = (GO_TEXT, LODASH, REQUESTS, SMALLVEC, COMMONS_TEXT)


def add_go(project: Project, directory: str, version: str = "0.3.7") -> None:
    go_mod = f"module example.com/app\n\ngo 1.19\n\nrequire golang.org/x/text v{version}\n"
    project.write({f"{directory}/go.mod": go_mod, f"{directory}/main.go": MAIN_GO})
    go(project.tree / directory, "mod", "tidy")


def add_npm(project: Project, directory: str, tool: str = "npm", version: str = "4.17.20") -> None:
    only_lock = {"npm": "--package-lock-only", "pnpm": "--lockfile-only"}[tool]
    manifest = f'{{\n  "dependencies": {{\n    "lodash": "{version}"\n  }}\n}}\n'
    project.write({f"{directory}/package.json": manifest})
    project.run(tool, "install", only_lock, "--ignore-scripts", within=directory)


def add_cargo(project: Project, directory: str) -> None:
    manifest = '[package]\nname = "tool"\nversion = "0.1.0"\nedition = "2021"\n'
    manifest += '[dependencies]\nsmallvec = "1"\n'
    project.write({f"{directory}/Cargo.toml": manifest, f"{directory}/src/lib.rs": ""})
    cargo(project.tree / directory, "generate-lockfile")
    update = ("update", "--package", "smallvec", "--precise", "1.6.0")
    cargo(project.tree / directory, *update)


def test_each_package_is_fixed_in_all_its_files_by_one_job(corpus: Corpus) -> None:
    project = corpus.project({"README.md": "# shop\n"})
    add_go(project, "api")
    add_go(project, "jobs/import", "0.3.6")
    add_npm(project, "web")
    add_npm(project, "admin", version="4.17.19")
    changed = [job.changed for job in project.fix_all(GO_TEXT, LODASH)]
    assert sorted(changed, key=sorted) == [
        {f"{name}/{file}" for name in ("admin", "web") for file in NPM_FILES},
        {"api/go.mod", "api/go.sum", "jobs/import/go.mod", "jobs/import/go.sum"},
    ]


def test_one_job_fixes_every_ecosystem_of_a_repository(corpus: Corpus) -> None:
    project = corpus.project(
        {
            ".agentjobs.toml": '[fixes]\ngroup = "severity"\n',
            "scripts/requirements.txt": "requests==2.30.0\n",
            "docs/requirements.txt": "requests==2.28.0\n",
            "java/pom.xml": POM,
        }
    )
    add_go(project, "api")
    add_npm(project, "web")
    add_cargo(project, "tool")
    job = project.fix(*ALL)
    assert job.changed == {
        *("api/go.mod", "api/go.sum", "tool/Cargo.lock"),
        *("web/package.json", "web/package-lock.json"),
        *("java/pom.xml", "scripts/requirements.txt", "docs/requirements.txt"),
    }


def test_a_job_for_each_directory_fixes_its_ecosystems(corpus: Corpus) -> None:
    project = corpus.project(
        {
            ".agentjobs.toml": '[fixes]\ngroup = "directory"\n',
            "api/requirements.txt": "requests==2.30.0\n",
            "web/requirements.txt": "requests==2.30.0\n",
        }
    )
    add_go(project, "api")
    add_npm(project, "web")
    changed = [job.changed for job in project.fix_all(GO_TEXT, LODASH, REQUESTS)]
    assert sorted(changed, key=sorted) == [
        {"api/go.mod", "api/go.sum", "api/requirements.txt"},
        {"web/package.json", "web/package-lock.json", "web/requirements.txt"},
    ]


def test_lock_files_of_several_package_managers_are_fixed_by_one_job(corpus: Corpus) -> None:
    project = corpus.project({"Makefile": "all:\n"})
    add_npm(project, "web")
    add_npm(project, "design", "pnpm")
    job = project.fix(LODASH)
    assert job.changed == {
        *("web/package.json", "web/package-lock.json"),
        *("design/package.json", "design/pnpm-lock.yaml"),
    }
