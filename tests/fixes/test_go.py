"""Fixes of Go modules, which the go command then builds and finds tidy."""

from pathlib import Path

from tests.support.fix_corpus import Corpus, Project, advisory
from tests.support.fix_proofs import go

GO_MOD = """\
module example.com/app

go 1.19

require golang.org/x/text v0.3.7
"""
MAIN = """\
package main

import "golang.org/x/text/language"

func main() { println(language.English.String()) }
"""
HTML = """\
package main

import "golang.org/x/net/html"

func main() { println(html.EscapeString("")) }
"""
TEXT = advisory("Go", "golang.org/x/text", "0.3.8")
NET = advisory("Go", "golang.org/x/net", "0.7.0")


def module(name: str, requirement: str, go_version: str = "1.19") -> str:
    return f"module example.com/{name}\n\ngo {go_version}\n\nrequire {requirement}\n"


def tidy_project(corpus: Corpus, go_mod: str = GO_MOD, main: str = MAIN) -> Project:
    project = corpus.project({"go.mod": go_mod, "main.go": main})
    go(project.tree, "mod", "tidy")
    return project


def prove_build(tree: Path) -> None:
    go(tree, "build", "./...")


def test_a_direct_requirement_is_updated(corpus: Corpus) -> None:
    job = tidy_project(corpus).fix(TEXT)
    assert job.read("go.mod") == GO_MOD.replace("v0.3.7", "v0.3.8")
    assert job.changed == {"go.mod", "go.sum"}


def test_what_the_new_version_requires_is_updated_too(corpus: Corpus) -> None:
    project = tidy_project(corpus, module("app", "golang.org/x/net v0.5.0"), HTML)
    assert "golang.org/x/net v0.7.0" in project.fix(NET).read("go.mod")


def test_an_indirect_requirement_is_updated(corpus: Corpus) -> None:
    main = HTML.replace("html", "idna").replace('EscapeString("")', 'Punycode.ToASCII("a")')
    main = main.replace("println(", "_, _ = ").replace('("a"))', '("a")')
    project = tidy_project(corpus, module("app", "golang.org/x/net v0.5.0"), main)
    assert "golang.org/x/text v0.6.0 // indirect" in project.read("go.mod")
    job = project.fix(advisory("Go", "golang.org/x/text", "0.7.0"))
    assert "golang.org/x/text v0.7.0 // indirect" in job.read("go.mod")


def test_vendored_modules_are_updated(corpus: Corpus) -> None:
    project = tidy_project(corpus)
    go(project.tree, "mod", "vendor")
    job = project.fix(TEXT)
    assert "golang.org/x/text v0.3.8" in job.read("vendor/modules.txt")


def test_all_modules_of_a_workspace_are_updated_by_one_job(corpus: Corpus) -> None:
    project = corpus.project(
        {
            "go.work": "go 1.19\n\nuse (\n\t./api\n\t./web\n)\n",
            "api/go.mod": module("api", "golang.org/x/text v0.3.7"),
            "api/main.go": MAIN,
            "web/go.mod": module("web", "golang.org/x/text v0.3.6"),
            "web/main.go": MAIN,
        }
    )
    for name in ("api", "web"):
        go(project.tree / name, "mod", "tidy")
    job = project.fix(TEXT)
    for name in ("api", "web"):
        assert "golang.org/x/text v0.3.8" in job.read(f"{name}/go.mod")


def test_modules_that_replace_each_other_are_updated_by_one_job(corpus: Corpus) -> None:
    library = MAIN.replace("package main", "package lib").replace("func main", "func Show")
    application = 'package main\n\nimport "example.com/lib"\n\nfunc main() { lib.Show() }\n'
    replacement = "\nreplace example.com/lib => ../lib\n"
    project = corpus.project(
        {
            "lib/go.mod": module("lib", "golang.org/x/text v0.3.7"),
            "lib/lib.go": library,
            "app/go.mod": module("app", "example.com/lib v0.0.0") + replacement,
            "app/main.go": application,
        }
    )
    for name in ("lib", "app"):
        go(project.tree / name, "mod", "tidy")
    job = project.fix(TEXT)
    for name in ("lib", "app"):
        assert "golang.org/x/text v0.3.8" in job.read(f"{name}/go.mod")


def test_two_packages_have_jobs_of_their_own(corpus: Corpus) -> None:
    main = HTML.replace(
        '"golang.org/x/net/html"', '(\n\t"golang.org/x/net/html"\n\t"golang.org/x/text/language"\n)'
    )
    main = main.replace("func main() {", "func main() { println(language.English.String());")
    requirements = "(\n\tgolang.org/x/net v0.5.0\n\tgolang.org/x/text v0.6.0\n)"
    project = tidy_project(corpus, module("app", requirements), main)
    jobs = project.fix_all(NET, advisory("Go", "golang.org/x/text", "0.7.0"))
    assert [job.outcome for job in jobs] == ["ready", "ready"]


def test_a_module_of_an_old_go_version_stays_at_it(corpus: Corpus) -> None:
    """Before Go 1.17, go.mod does not list what the requirements require."""
    project = tidy_project(corpus, module("app", "golang.org/x/net v0.5.0", "1.16"), HTML)
    job = project.fix(NET)
    assert "\ngo 1.16\n" in job.read("go.mod")


def test_a_version_that_needs_a_newer_go_is_not_proposed(corpus: Corpus) -> None:
    job = tidy_project(corpus).fix(advisory("Go", "golang.org/x/text", "0.30.0"), expect="failed")
    assert "needs Go" in job.reason


def test_an_untidy_project_keeps_its_other_requirements(corpus: Corpus) -> None:
    project = tidy_project(corpus)
    project.write({"go.mod": GO_MOD + "require gopkg.in/yaml.v3 v3.0.1\n"})
    job = project.fix(TEXT, prove=lambda tree, _: prove_build(tree))
    assert "gopkg.in/yaml.v3 v3.0.1" in job.read("go.mod")


def test_a_version_that_go_mod_excludes_is_passed_over(corpus: Corpus) -> None:
    project = tidy_project(corpus, GO_MOD + "\nexclude golang.org/x/text v0.3.8\n")
    job = project.fix(TEXT)
    assert "golang.org/x/text v0.4.0" in job.read("go.mod")
    assert "excludes v0.3.8" in job.report
