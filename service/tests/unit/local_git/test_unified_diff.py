"""Parsing and cutting unified diffs."""

from agentjobs.local_git.unified_diff import cut_diff, parse_unified

FIRST = b"""\
diff --git a/a b.txt b/a b.txt
index 1..2 100644
--- a/a b.txt\t
+++ b/a b.txt\t
@@ -1,3 +1,3 @@
 kept
--- a line of dashes
-diff --git a/x b/x
+++ a line of pluses
"""
SECOND = b"""\
diff --git a/old name b/new name
similarity index 90%
rename from old name
rename to new name
"""
BINARY = b"""\
diff --git a/logo.png b/logo.png
new file mode 100644
index 0000000..1
Binary files /dev/null and b/logo.png differ
"""
LINK = b"""\
diff --git a/f b/f
deleted file mode 100644
--- a/f
+++ /dev/null
@@ -1 +0,0 @@
-x
diff --git a/f b/f
new file mode 120000
--- /dev/null
+++ b/f
@@ -0,0 +1 @@
+target
"""
QUOTED = (
    b'diff --git "a/tab\\there \\"\\351" "b/tab\\there \\"\\351"\nold mode 100644\nnew mode 1\n'
)


def test_content_that_looks_like_a_header_is_counted_as_content() -> None:
    (file,) = parse_unified(FIRST)
    assert (file.path, file.status, file.additions, file.deletions) == ("a b.txt", "modified", 1, 2)
    assert file.patch == FIRST.decode()


def test_a_renamed_file_has_both_names() -> None:
    file = parse_unified(FIRST + SECOND)[1]
    assert (file.path, file.previous_path, file.status) == ("new name", "old name", "renamed")


def test_a_binary_file_has_no_patch() -> None:
    (file,) = parse_unified(BINARY)
    assert (file.path, file.status, file.binary, file.patch) == ("logo.png", "added", True, None)


def test_a_file_that_became_a_link_is_one_file() -> None:
    (file,) = parse_unified(LINK)
    assert (file.status, file.additions, file.deletions) == ("modified", 1, 1)
    assert file.patch == LINK.decode()


def test_quoted_names_are_unquoted() -> None:
    (file,) = parse_unified(QUOTED)
    assert (file.path, file.status) == ('tab\there "�', "modified")


def test_a_diff_is_cut_between_two_files() -> None:
    assert cut_diff(FIRST + SECOND, len(FIRST) + 40) == FIRST
    assert cut_diff(FIRST + SECOND, 10_000) == FIRST


def test_a_single_file_is_cut_between_two_lines() -> None:
    cut = cut_diff(FIRST, len(FIRST) - 3)
    assert cut == FIRST[: FIRST.rindex(b"+++")]
    assert parse_unified(cut)[0].deletions == 2


def test_nothing_has_no_files() -> None:
    assert parse_unified(b"") == []
    assert cut_diff(b"", 10) == b""
