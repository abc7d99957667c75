"""Targets: what agents print and write, and what the dashboard shows of it."""

import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from agentjobs.local_git.patch import Diff, DiffLine, FileDiff
from agentjobs.web.dashboard.text.ansi import AnsiLines, PlainLines
from agentjobs.web.dashboard.text.diff_view import render_diff_view
from agentjobs.web.dashboard.text.highlighting import highlight, language_of_file
from agentjobs.web.dashboard.text.markdown import render
from agentjobs.web.dashboard.text.visible_text import visible
from agentjobs_runtime import safe_text
from agentjobs_runtime.agents.report import read_report
from agentjobs_runtime.agents.steps import Step
from agentjobs_runtime.log_decoder import LogDecoder, service_line
from agentjobs_runtime.redaction.redactor import Redactor
from agentjobs_runtime.sandboxes.directories import REPORT_DIRECTORY, REPORT_FILE
from agentjobs_worker.agents.presets.aider import AiderWatcher
from agentjobs_worker.agents.presets.claude_code import ClaudeCodeWatcher
from agentjobs_worker.agents.presets.codex import CodexWatcher
from agentjobs_worker.agents.presets.mini_swe_agent import _EXIT_STATUS
from agentjobs_worker.agents.presets.opencode import OpencodeWatcher
from agentjobs_worker.agents.run_watcher import RunWatcher
from agentjobs_worker.sandbox.output_tail import last_lines
from tests.hostile.fuzz.documents import documents, texts
from tests.hostile.fuzz.feeding import split_bytes
from tests.hostile.fuzz.target import Target

_SECRETS = (
    "hunter2-hunter2",
    "-----BEGIN PRIVATE KEY-----\nMIIB\nAAAAAAAA\n-----END PRIVATE KEY-----",
)


def _redact(content: bytes) -> object:
    redactor, whole = Redactor(_SECRETS), Redactor(_SECRETS)
    pieces = [*map(redactor.feed, split_bytes(content)), redactor.end()]
    output = b"".join(pieces)
    assert output == whole.feed(content) + whole.end()
    assert b"hunter2-hunter2" not in output
    return output


def _decode_log(content: bytes) -> object:
    decoder, whole = LogDecoder(), LogDecoder()
    text = "".join([*map(decoder.feed, split_bytes(content)), decoder.end()])
    assert text == whole.feed(content) + whole.end()
    return text, service_line(text[:1_000]), last_lines(content)


def _watch(kind: type[RunWatcher]) -> Callable[[bytes], object]:
    def read(content: bytes) -> object:
        watcher, steps = kind(), list[Step]()
        watcher.on_step = steps.append
        return b"".join([*map(watcher.feed, split_bytes(content)), watcher.end()])

    return read


def _report(content: bytes) -> object:
    with tempfile.TemporaryDirectory() as directory:
        file = Path(directory) / REPORT_DIRECTORY / REPORT_FILE
        file.parent.mkdir()
        file.write_bytes(content)
        return read_report(Path(directory)), bool(_EXIT_STATUS.search(content))


def _clean(text: str) -> object:
    safe_text.strip_control_characters(text)
    safe_text.escape_unprintable(text[:10_000])
    stored = safe_text.replace_unstorable(text)
    stored.encode()
    safe_text.truncate_bytes(stored, 100, "…")
    return safe_text.strip_escape_sequences(text), safe_text.single_line(text), visible(text)


def _terminal(text: str) -> object:
    html, plain = AnsiLines(), PlainLines()
    half = len(text) // 2
    shown = str(html.feed(text[:half])) + str(html.feed(text[half:])) + str(html.rest())
    assert "<script" not in shown
    return plain.feed(text[:half]) + plain.feed(text[half:]) + plain.rest()


def _markdown(text: str) -> object:
    html = str(render(text))
    for forbidden in ("<script", "<img", "<iframe", 'javascript:alert(1)"', ' onerror="'):
        assert forbidden not in html.lower()
    return html


_LANGUAGES = (
    *("a.py", "a.js", "a.go", "a.rs", "a.rb", "a.html", "a.sh", "a.yaml", "a.md", "a.sql"),
    "Dockerfile",
)


def _highlight(path: str) -> Callable[[str], object]:
    language = language_of_file(path)
    assert language is not None

    def show(text: str) -> object:
        # As the dashboard does: with a deadline, which is checked between two tokens.
        lines = text.split("\n")
        return highlight(lines, language, deadline=time.thread_time() + 0.1)

    return show


def _diff_page(text: str) -> object:
    kinds = ("added", "removed", "context", "note")
    lines = [
        DiffLine(kinds[number % 4], line, number, number)
        for number, line in enumerate(text.split("\n"))
    ]
    path, _, _ = text.partition("\n")
    file = FileDiff(
        path[:300] + ".py", None, "modified", (DiffLine("hunk", "@@"), *lines[:2_000]), 1, 1
    )
    view = render_diff_view(Diff((file,), 1, True, 1, 1))
    return [str(view_file.rows) for view_file in view.files]


_CLAUDE_CODE = b"""{"type":"system","subtype":"init","model":"m"}
{"type":"assistant","message":{"content":[{"type":"text","text":"a"}]}}
{"type":"assistant","message":{"content":[{"type":"tool_use","name":"b","input":{"c":1}}]}}
{"type":"user","message":{"content":[{"type":"tool_result","content":[{"text":"x"}]}]}}
{"type":"result","subtype":"success","is_error":true,"result":"y"}
"""
_CODEX = b"""{"type":"item.completed","item":{"type":"command_execution","command":"a"}}
{"type":"item.completed","item":{"type":"file_change","changes":[{"a":1}]}}
{"type":"turn.failed","error":{"message":"x"}}
{"type":"error","message":["a"]}
plain
"""
_OPENCODE = b"""{"type":"text","part":{"text":"a"}}
{"type":"tool_use","part":{"tool":"x","state":{"input":{"a":[1]},"output":"y"}}}
{"type":"error","error":{"name":"x","data":{"message":"y"}}}
"""
_AIDER = b"Tokens: 1k sent, 2 received.\nlitellm.RateLimitError: x\n"
_LOG_TOKENS = (
    *(b"ghp_", b"sk-", b"hunter2", b"-hunter2", b"Authorization: Bearer ", b"-----BEGIN ", b"ajk_"),
    *(
        b"PRIVATE KEY-----",
        b"-----END PRIVATE KEY-----",
        b"[agentjobs]",
        b"\n[agent",
        b"\x1b[31m",
        b"AKIA",
    ),
)
_LOG = (
    b"\x1b[32mok\x1b[0m\r50%\r100%\n[agentjobs] x\nAuthorization: Bearer abcdefgh\nghp_"
    + b"a" * 30
    + b"\nhunter2-hunter2\n-----BEGIN PRIVATE KEY-----\nMIIB\n-----END PRIVATE KEY-----\n\xff"
)
_MARKDOWN = (
    "# a\n\n- [x](https://y 'z') ![i](j)\n  1. `b` **c *d* e** ~~f~~\n\n> g\n\n```python\nx\n```\n"
    "| a | b |\n|---|:-:|\n| c | d |\n\n[r]: https://s\n<b>h</b> <https://k> &amp; \\* \n***\n"
)
_MARKDOWN_UNITS = (
    *(
        "![",
        "[a](",
        "[a][",
        "]: a\n",
        "](",
        "<a:",
        "<b",
        "**a",
        "*a_",
        "__",
        "`a",
        "``",
        "a `",
        "~~a",
    ),
    *(
        "> > ",
        "- - ",
        "1. ",
        "|",
        "| a ",
        "|-",
        "a|\n",
        "\n\n",
        "  \n",
        "&#x",
        "&lt",
        "\\\\",
        "# #",
        "``` ",
    ),
    *("[a]: b\n", "- a\n", "* a\n  ", "    a\n", "\ta\n", "(((", "[](", "a**b", "_a ", "https://"),
)
_CODE = """# a
def f(x: int = 0x1F) -> str:
    '''d'''
    return f'{x}' + "\\n" // 2 /* c */
<a href='x'>&amp;</a>
SELECT `a` FROM b -- c
key: [1, {a: 'b'}] # d
$x = ${y:-z} <<EOF"""

TARGETS = (
    Target(
        "redaction",
        documents(_LOG, tokens=_LOG_TOKENS),
        _redact,
        frames=("{}", "ghp_{}", "-----BEGIN PRIVATE KEY-----{}"),
        units=("ghp_", "hunter2-", "-----BEGIN ", "Authorization: ", "sk-a", "sk-"),
    ),
    Target(
        "log",
        documents(_LOG, tokens=_LOG_TOKENS),
        _decode_log,
        frames=("{}", "\n[agentjobs{}", "\x1b[{}"),
        units=("\n[agentjobs]", "\x1b[m", "\n\u200b", "[\u200b", "\n["),
    ),
    *(
        Target(
            f"output of {kind.__name__.removesuffix('Watcher')}",
            documents(
                _CLAUDE_CODE,
                _CODEX,
                _OPENCODE,
                _AIDER,
                tokens=(b"\n{", b'{"type":', b"}\n", b"Tokens: ", b"litellm."),
            ),
            _watch(kind),
            frames=(
                "{}",
                '{"type": {}',
                '{"type":"item.completed","item":{"type":"file_change","changes":{}',
            ),
            units=("\n{", "{}\n", '{"type":"a"}\n', "Tokens: ", "litellm.", "litellm.a: "),
        )
        for kind in (ClaudeCodeWatcher, CodexWatcher, OpencodeWatcher, AiderWatcher)
    ),
    Target(
        "report",
        documents(b"# Title\n\nBody \x1b[31m\xff\r\n", b'{"exit_status": "Submitted"}'),
        _report,
        frames=("{}", '"exit_status"{}', "#{}"),
        max_bytes=300 * 1024,
    ),
    Target(
        "control characters",
        texts("a\x1b[31mb\x1b]0;t\x07c\u202e\x85\r\n", tokens=("\x1b]", "\x1b[", "\x07")),
        _clean,
        frames=("{}", "\x1b[{}", "\x1b]{}"),
        units=("\x1b]", "\x1b[0", "\x1bP", "\x1b]\x1b"),
        is_text=True,
    ),
    Target(
        "terminal",
        texts(
            "\x1b[1;38;5;9ma\x1b[0m\rb\x1b[K\x1b]8;;x\x1b\\c\n",
            tokens=("\x1b[", "\x1b]", "\x9c", "\x1b[38;2;1;2;3m", "\r", "\x1b[G"),
        ),
        _terminal,
        frames=("{}", "\x1b[{}", "\x1b]{}"),
        units=("a\x1b[m", "a\x1b[K", "\x1b[1ma\x1b[m", "a\r", "\x1b]", "\x1b[1;", "\x1b[31m"),
        is_text=True,
    ),
    Target(
        "Markdown",
        texts(_MARKDOWN, tokens=_MARKDOWN_UNITS),
        _markdown,
        frames=("{}", "[{}", "> {}", "| {}"),
        units=_MARKDOWN_UNITS,
        is_text=True,
        max_bytes=256 * 1024,
    ),
    *(
        Target(
            f"highlighting {path}",
            texts(_CODE, tokens=('"""', "'''", "/*", "*/", "<<", "`", "${", "//", "#")),
            _highlight(path),
            frames=("{}", '"{}'),
            units=("a\n", "(\n", "<\n", "${", "/*\n", "a:\n", "#\n"),
            is_text=True,
            max_bytes=256 * 1024,
        )
        for path in _LANGUAGES
    ),
    Target(
        "diff page",
        texts("a.py\nx = 1\n" + _CODE),
        _diff_page,
        units=("a\n", '"""\n', "'''"),
        is_text=True,
        max_bytes=512 * 1024,
    ),
)
