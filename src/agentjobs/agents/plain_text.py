"""Text from outside without what a terminal would obey or an environment variable cannot hold."""


def plain_text(text: str) -> str:
    """Lines and tabs stay; other spaces become one, control and format characters are dropped."""
    whole = text.removeprefix("\ufeff").replace("\r\n", "\n").encode(errors="replace").decode()
    if whole.isascii() and whole.isprintable():
        return whole
    return "".join(map(_plain, whole))


def plain_line(text: str) -> str:
    return " ".join(plain_text(text).split())


def _plain(character: str) -> str:
    if character.isprintable() or character in "\n\t":
        return character
    return " " if character.isspace() else ""
