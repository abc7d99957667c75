"""Why a platform refused a push, in words, and what to do next.

Pure functions of what git printed. Recognizes the messages of GitHub, GitLab, Gitea and Forgejo.
"""

import re
from collections.abc import Iterator, Sequence
from itertools import islice
from typing import NamedTuple

from agentjobs_runtime.safe_text import mask_unprintable

MAX_MESSAGE_LENGTH = 1_000
MAX_DETAILS = 5
# The remote decides what it prints.
_MAX_REMARKS = 200
_MAX_REMARK_LENGTH = 500

_TOO_LARGE_REQUEST = re.compile(r"(returned error:|HTTP|HTTP code =) 413")
_IN_MERGE_QUEUE = re.compile(r"has been added to a merge queue|queued for merging")
_SECRETS = re.compile(r"cannot contain secrets|PUSH BLOCKED: Secrets")
# GitHub: "—— DeepSeek API Key ————", then "path: .env:6" for each place.
_GITHUB_SECRET_KIND = re.compile(r"[—-]{2} (?P<kind>[^—]+?) [—-]{2,}")
_GITHUB_SECRET_PATH = re.compile(r"path: (?P<path>.+?):(?P<line>\d+)")
# GitLab: "-- test.txt:2 | GitLab Personal Access Token"; older versions have no "|".
_GITLAB_SECRET = re.compile(r"-- (?P<path>.+?):(?P<line>\d+) (?:\| )?(?P<kind>.+)")
_ALLOW_SECRET = re.compile(r"https://\S+/unblock-secret/\S+")
# Lines that say nothing about the reason.
_NOISE = re.compile(
    r"\W*|error: GH0\d\d: .* for refs/\S+|(error: )?(Trace|See) ?:? .*|\(\?\).*|https?://\S+"
    r"|Review all repository rules at .*|Found \d+ violations?:?|[0-9a-f]{40,64}"
    r"|Resolving deltas: .*|(GitLab|Gitea|Forgejo):|- GITHUB PUSH PROTECTION"
    r"|Resolve the following .*"
)
_GITHUB_CODE = re.compile(r"GH0\d\d")
_PREFIX = re.compile(r"(error: )?(GH0\d\d: |GitLab: |Gitea: |Forgejo: )?(- )?")


class PushRefusal(NamedTuple):
    """`is_temporary`: the push may succeed later without a change."""

    message: str
    is_temporary: bool = False


class _Rule(NamedTuple):
    pattern: re.Pattern[str]
    summary: str
    advice: str


_EXEMPT = "exempt the branches `agentjobs/**` from it, or let the connection's account bypass it"
_RULES = (
    _Rule(
        re.compile(r"create or update workflow .* without `workflows` permission"),
        "GitHub does not let the App change workflows",
        "grant it “Workflows: read and write” and accept that in the installation",
    ),
    _Rule(
        re.compile(r"create or update workflow .* without `workflow` scope"),
        "GitHub does not let the token change workflows",
        "use a token with the scope `workflow`",
    ),
    _Rule(
        re.compile(r"GH007|private email address"),
        "GitHub does not accept the email address of the commit",
        "unset `author_email` and `committer_email`, so that commits carry the no-reply address"
        " of the connection's account (`agentjobs platforms check` shows it), or set them to a"
        " public address of it",
    ),
    _Rule(
        re.compile(
            r"GH001|size limit|exceed\w* the .*limit|(larger|bigger) than the allowed|quota",
            re.IGNORECASE,
        ),
        "the change, a file or the repository is too large for the platform",
        "run the job again without large files, or raise the limit on the platform",
    ),
    _Rule(
        re.compile(r"signature|signed|GPG", re.IGNORECASE),
        "the platform accepts only signed commits",
        f"sign them (`agentjobs platforms signing`), or {_EXEMPT}",
    ),
    _Rule(re.compile(r"GH013"), "a ruleset of the repository refuses the push", _EXEMPT),
    _Rule(
        re.compile(r"GH006|protected branch", re.IGNORECASE),
        "a rule that protects the branch refuses the push",
        _EXEMPT,
    ),
    _Rule(
        re.compile(
            r"(committer|author|e-?mail|commits for)\b.{0,200}(pattern|member|verified|own)",
            re.IGNORECASE,
        ),
        "the platform does not accept the author of the commit",
        "`agentjobs platforms check` shows whom commits name: let the connection's account use an"
        " address that the rule accepts, or set `author_name`, `author_email`, `committer_name` and"
        " `committer_email`",
    ),
    _Rule(
        re.compile(r"follow the pattern|forbidden pattern|prohibited", re.IGNORECASE),
        "a push rule refuses the push",
        "change the rule on the platform, or tell agents about it in the repository's guidance",
    ),
)


def explain_refusal(report: str, stderr: str) -> PushRefusal:
    """`report` is what `git push --porcelain` printed; a line that begins with ! is a refusal."""
    rejections = [line.split("\t")[-1] for line in report.splitlines() if line.startswith("!")]
    remarks = _remarks(stderr)
    text = "\n".join([*rejections, *remarks])
    details = _details(rejections[:1], remarks)
    if _IN_MERGE_QUEUE.search(text):
        message = "the pull request is in a merge queue, so its branch cannot change"
        return PushRefusal(f"{message}; the push waits until it has left the queue", True)
    if _SECRETS.search(text):
        return _refusal(_secrets_message(text, remarks))
    for rule in _RULES:
        if rule.pattern.search(text):
            return _refusal(f"{rule.summary} ({details}); {rule.advice}")
    return _refusal(f"the push was refused: {details or 'no reason given'}")


def explain_size(stderr: str) -> PushRefusal | None:
    """If the server, or a proxy in front of it, did not accept the size of the request."""
    if not _TOO_LARGE_REQUEST.search(stderr):
        return None
    return PushRefusal(
        "the push is larger than the platform accepts (HTTP 413); run the job again without large"
        " files, or raise the limit of the platform or of the proxy in front of it"
    )


def _refusal(message: str) -> PushRefusal:
    return PushRefusal(mask_unprintable(message)[:MAX_MESSAGE_LENGTH])


def _remarks(stderr: str) -> list[str]:
    lines = (line for line in stderr.splitlines() if "remote:" in line)
    bounded = islice(lines, _MAX_REMARKS)
    return [line.partition("remote:")[2].strip()[:_MAX_REMARK_LENGTH] for line in bounded]


def _details(rejections: Sequence[str], remarks: Sequence[str]) -> str:
    reasons = [_PREFIX.sub("", line, count=1) for line in remarks if not _NOISE.fullmatch(line)]
    unique = dict.fromkeys(reason.rstrip(".") for reason in reasons if reason)
    code = _GITHUB_CODE.search("\n".join(remarks))
    label = "" if code is None else f"{code[0]}: "
    return label + "; ".join([*list(unique)[:MAX_DETAILS], *rejections])


def _secrets_message(text: str, remarks: Sequence[str]) -> str:
    places = list(dict.fromkeys(_secrets(remarks)))
    named = f" ({'; '.join(places[:MAX_DETAILS])})" if places else ""
    link = _ALLOW_SECRET.search(text)
    permit = f"at {link[0]}" if link else "on the platform"
    return (
        f"the platform found secrets in the change{named}; run the job again without them, or allow"
        f" them {permit} and run it again"
    )


def _secrets(remarks: Sequence[str]) -> Iterator[str]:
    kind = ""
    for line in remarks:
        if match := _GITLAB_SECRET.fullmatch(line):
            yield f"{match['kind']} in {match['path']}, line {match['line']}"
        elif match := _GITHUB_SECRET_KIND.fullmatch(line):
            kind = match["kind"]
        elif kind and (match := _GITHUB_SECRET_PATH.fullmatch(line)):
            yield f"{kind} in {match['path']}, line {match['line']}"
