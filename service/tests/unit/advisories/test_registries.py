"""Parsing of registry responses, and paths of packages."""

import json
from typing import Any

import pytest

from agentjobs_dependencies.registries import pypi
from agentjobs_dependencies.registries.all_registries import REGISTRY_APIS, parse_response
from agentjobs_dependencies.registries.api import InvalidPackageName
from agentjobs_dependencies.registries.pypi import version_from_filename
from agentjobs_dependencies.registries.versions import InvalidResponse
from agentjobs_runtime.outbound.guard.host_patterns import parse_pattern
from agentjobs_runtime.outbound.registry_hosts import hosts_for
from agentjobs_runtime.settings import Settings
from agentjobs_runtime.settings.registries import ECOSYSTEMS
from tests.support.recorded_registries import RESPONSES, recorded

# Of each recorded response: the number of versions, of withdrawn versions, and an example.
FACTS = {
    ("PyPI", "requests"): (17, 2, "2.31.0"),
    ("PyPI", "urllib3"): (34, 2, "1.26.17"),
    ("PyPI", "django"): (47, 0, "4.0.6"),
    ("PyPI", "pyyaml"): (19, 0, "5.4b2"),
    ("npm", "lodash"): (37, 0, "4.17.21"),
    ("npm", "minimist"): (31, 0, "0.2.4"),
    ("Go", "golang.org/x/text"): (25, 0, "0.3.8"),
    ("Go", "gopkg.in/yaml.v3"): (2, 0, "3.0.1"),
    ("Go", "github.com/dgrijalva/jwt-go"): (10, 0, "3.2.0+incompatible"),
    ("crates.io", "time"): (29, 3, "0.2.23"),
    ("Maven", "org.apache.logging.log4j:log4j-core"): (25, 0, "3.0.0-alpha1"),
    ("Maven", "org.springframework:spring-beans"): (27, 0, "5.2.20.RELEASE"),
    ("RubyGems", "activerecord"): (24, 0, "6.1.6.1"),
    ("Packagist", "guzzlehttp/psr7"): (20, 0, "2.0.0-beta1"),
}
PATHS = [
    ("PyPI", "Zope.Interface", "/zope-interface/"),
    ("npm", "lodash", "/lodash"),
    ("npm", "@babel/core", "/@babel%2fcore"),
    ("Go", "github.com/BurntSushi/toml", "/github.com/!burnt!sushi/toml/@v/list"),
    ("crates.io", "a", "/1/a"),
    ("crates.io", "cc", "/2/cc"),
    ("crates.io", "Log", "/3/l/log"),
    ("crates.io", "time", "/ti/me/time"),
    ("Maven", "org.slf4j:slf4j-api", "/org/slf4j/slf4j-api/maven-metadata.xml"),
    ("RubyGems", "rails-html-sanitizer", "/api/v1/versions/rails-html-sanitizer.json"),
    ("Packagist", "Symfony/Http-Kernel", "/p2/symfony/http-kernel.json"),
]
NO_NAMES = [
    ("PyPI", "../etc/passwd"),
    ("PyPI", ""),
    ("npm", ".."),
    ("npm", "@babel/core/x"),
    ("npm", "a\r\nHost: elsewhere"),
    ("Go", "github.com/../admin"),
    ("crates.io", "a/b"),
    ("Maven", "org.slf4j"),
    ("Maven", "org..slf4j:api"),
    ("RubyGems", "x" * 1000),
    ("Packagist", "symfony"),
]
BOMB = b'<!DOCTYPE m [<!ENTITY a "aa"><!ENTITY b "&a;&a;">]><metadata>&b;</metadata>'
NO_LISTS = [
    ("npm", b"<html>sign in here</html>"),
    ("npm", b'{"versions": ["1.0.0"]}'),
    ("npm", b'{"versions":' * 50_000),
    ("npm", b'{"versions": {"1.0.0": {}'),
    ("crates.io", b'{"name":"time","vers":1}'),
    ("crates.io", b"\n" * 2_000_000),
    ("crates.io", b"[" * 100_000),
    ("Go", b"\xff\xfe"),
    ("Go", b"v1\n" * 1_000_000),
    ("Go", b"<html>sign in here</html>"),
    ("PyPI", b"\x00\xff"),
    ("RubyGems", b"This rubygem could not be found."),
    ("Maven", b"<metadata><versioning>"),
    ("Maven", BOMB),
    ("Maven", b"<m>" * 1000),
]


@pytest.mark.parametrize("package", RESPONSES, ids=" ".join)
def test_a_recorded_response_is_parsed(package: tuple[str, str]) -> None:
    releases = recorded(*package).versions
    withdrawn = sum(release.yanked for release in releases)
    count, withdrawn_count, one_of_them = FACTS[package]
    assert (len(releases), withdrawn) == (count, withdrawn_count)
    assert one_of_them in {release.version for release in releases}


def test_pypi_lists_hashes_and_yanked_versions() -> None:
    releases = {release.version: release for release in recorded("PyPI", "requests").versions}
    assert releases["2.31.0"].hashes == (
        "sha256:58cd2187c01e70e6e26505bca751777aa9f2ee0b7f4300988b709f44e013003f",
        "sha256:942c5a758f98d790eaed1a29cb6eefc7ffb0d1cf7af05c3d2791656dbd6ad1e1",
    )
    assert [version for version, release in releases.items() if release.yanked] == [
        "2.32.0",
        "2.32.1",
    ]


@pytest.mark.parametrize(
    ("name", "file", "version"),
    [
        ("requests", "requests-2.31.0-py3-none-any.whl", "2.31.0"),
        ("requests", "requests-2.31.0.tar.gz", "2.31.0"),
        ("zope-interface", "zope.interface-5.0.0.zip", "5.0.0"),
        ("python-dateutil", "python-dateutil-2.8.2.tar.gz", "2.8.2"),
        ("python-dateutil", "python_dateutil-2.8.2-1-py2.py3-none-any.whl", "2.8.2"),
        ("certifi", "certifi-2023.07.22.tar.gz", "2023.7.22"),
        ("torch", "torch-2.0.1+cu118-cp311-cp311-linux_x86_64.whl", "2.0.1+cu118"),
        ("requests", "requests-2.31.0-py3.9.egg", None),
        ("requests", "requests-toolbelt-1.0.0.tar.gz", None),
        ("requests", "requests-latest.tar.gz", None),
        ("requests", "requests.tar.gz", None),
    ],
)
def test_the_version_is_parsed_from_the_file_name(
    name: str, file: str, version: str | None
) -> None:
    assert version_from_filename(name, file) == version


def test_a_pypi_version_is_yanked_only_if_all_of_its_files_are() -> None:
    files = [
        {"filename": "a-1.0.tar.gz", "yanked": ""},
        {"filename": "a-2.0.tar.gz", "yanked": True},
        {"filename": "a-2.0-py3-none-any.whl", "hashes": {"sha256": "no hash"}, "yanked": False},
    ]
    page = json.dumps({"files": files}).encode()
    package_versions = parse_response(
        "PyPI", "a", "application/vnd.pypi.simple.v1+json; charset=utf-8", page
    )
    assert [
        (release.version, release.yanked, release.hashes) for release in package_versions.versions
    ] == [
        ("1.0", True, ()),
        ("2.0", False, ()),
    ]


def test_a_page_with_unterminated_quotes_or_tags_is_parsed() -> None:
    good = b"<A HREF='a-1.0.tar.gz?x=1#md5=0' >a</A>"
    many = b"<a " + b"b=c " * 100_000
    short = (b"<a " * 20_000, b'<a b="' * 20_000, b"<a b= " * 20_000, b"<a" + b" " * 50_000)
    for bad in (*short, many):
        package_versions = parse_response("PyPI", "a", "text/html", good + bad)
        assert [release.version for release in package_versions.versions] == ["1.0"]


def test_a_page_of_too_many_files_is_rejected(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pypi, "_MAX_FILES", 1_000)
    page = b"<a href=a-1.0.tar.gz>" * 1_000
    assert len(parse_response("PyPI", "a", "text/html", page).versions) == 1
    with pytest.raises(InvalidResponse, match="more than 1000 files"):
        parse_response("PyPI", "a", "text/html", page + b"<a ")


def test_a_long_file_name_is_left_out_in_bounded_time() -> None:
    page = b'<a href="a-1.0.tar.gz"><a href="a%s.whl">' % (b"-" * 1_000_000)
    package_versions = parse_response("PyPI", "a-b", "text/html", page)
    assert package_versions.versions == ()


def test_a_character_reference_of_many_digits_is_rejected() -> None:
    with pytest.raises(InvalidResponse, match="too many digits"):
        parse_response("PyPI", "a", "text/html", b'<a href="&#%s;">' % (b"9" * 5_000))


def test_a_deprecated_npm_version_is_not_withdrawn() -> None:
    body = b'{"versions": {"1.0.0": {"deprecated": "use 2"}, "2.0.0": {}}}'
    package_versions = parse_response("npm", "a", "application/json", body)
    assert [(release.version, release.yanked) for release in package_versions.versions] == [
        ("1.0.0", False),
        ("2.0.0", False),
    ]


def test_platforms_of_a_gem_count_only_if_it_has_nothing_else() -> None:
    java = {"number": "1.3", "platform": "java"}
    plain = {"number": "1.2", "platform": "ruby"}
    for entries, expected in (([java, java, plain], ["1.2"]), ([java], ["1.3"])):
        package_versions = parse_response(
            "RubyGems", "a", "application/json", json.dumps(entries).encode()
        )
        assert [release.version for release in package_versions.versions] == expected


def test_invalid_versions_are_left_out() -> None:
    body = "\n".join(("v1.0.0", "v", "v1 $(id)", "v" + "9" * 300, "v1.0/../2.0", "latest"))
    package_versions = parse_response("Go", "a", "text/plain", body.encode())
    assert [release.version for release in package_versions.versions] == ["1.0.0"]


@pytest.mark.parametrize(("ecosystem", "body"), NO_LISTS, ids=range(len(NO_LISTS)))
def test_an_invalid_version_list_is_rejected(ecosystem: str, body: bytes) -> None:
    with pytest.raises(InvalidResponse):
        parse_response(ecosystem, "a", "", body)


@pytest.mark.parametrize(("ecosystem", "name", "path"), PATHS)
def test_each_registry_has_its_own_path(ecosystem: str, name: str, path: str) -> None:
    assert REGISTRY_APIS[ecosystem].path_for(name) == path


@pytest.mark.parametrize(("ecosystem", "name"), NO_NAMES, ids=range(len(NO_NAMES)))
def test_unsafe_package_names_are_rejected(ecosystem: str, name: str) -> None:
    with pytest.raises(InvalidPackageName):
        REGISTRY_APIS[ecosystem].path_for(name)


def test_package_managers_may_reach_the_registry_its_files_and_added_hosts() -> None:
    settings = Settings(
        data_dir="unused",
        registry_npm_url="http://someone:secret@registry.example:4873/npm/",
        registry_go_url="https://[2001:db8::1]/go",
        registry_hosts=["*.files.example", "registry.example:4873"],
    )
    added = ("*.files.example", "registry.example:4873")
    assert hosts_for(settings, "npm") == (added[1], added[0])
    assert hosts_for(settings, "Go") == ("[2001:db8::1]:443", *added)
    index, files, *rest = hosts_for(settings, "PyPI")
    assert index.startswith("pypi.")
    assert files.startswith("files.")
    assert tuple(rest) == added
    for ecosystem in ECOSYSTEMS:
        assert all(parse_pattern(host) for host in hosts_for(settings, ecosystem))


TIME, TIME_MS = "2024-01-02T03:04:05.678Z", 1_704_164_645_678
HTML_PAGE = (
    f'<a href="a-1.0.tar.gz" data-requires-python="&gt;=3.8" data-upload-time="{TIME}">a</a>'
)


@pytest.mark.parametrize(
    ("ecosystem", "content_type", "body", "requires"),
    [
        ("PyPI", "text/html", HTML_PAGE, ">=3.8"),
        (
            "PyPI",
            "application/json",
            {
                "files": [
                    {
                        "filename": "a-1.0.tar.gz",
                        "requires-python": ">=3.8",
                        "upload-time": TIME,
                    }
                ]
            },
            ">=3.8",
        ),
        (
            "npm",
            "application/json",
            {"versions": {"1.0": {"engines": {"node": ">=18"}}}, "time": {"1.0": TIME}},
            ">=18",
        ),
        ("crates.io", "", {"vers": "1.0", "rust_version": "1.60", "pubtime": TIME}, "1.60"),
        (
            "RubyGems",
            "application/json",
            [{"number": "1.0", "ruby_version": ">= 2.7", "created_at": TIME}],
            ">= 2.7",
        ),
        (
            "Packagist",
            "application/json",
            {"packages": {"a": [{"version": "1.0", "time": TIME}]}},
            "",
        ),
    ],
)
def test_what_a_version_requires_and_its_time_are_parsed(
    ecosystem: str, content_type: str, body: Any, requires: str
) -> None:
    text = body if isinstance(body, str) else json.dumps(body)
    (release,) = parse_response(ecosystem, "a", content_type, text.encode()).versions
    assert (release.requires, release.published_at) == (requires, TIME_MS)


@pytest.mark.parametrize("junk", [1, "", "x" * 300, "a\nb", [], {"node": 1}])
def test_an_unusual_requirement_or_time_is_ignored(junk: Any) -> None:
    document = {"versions": {"1.0": {"engines": {"node": junk}}, "2.0": {"engines": junk}}}
    body = json.dumps({**document, "time": {"1.0": junk}}).encode()
    for release in parse_response("npm", "a", "application/json", body).versions:
        assert (release.requires, release.published_at) == ("", None)
