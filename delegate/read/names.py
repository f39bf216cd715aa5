"""Names of tensors, subgraphs and custom operators in printable form. A file may have any names, and messages with
them are printed on terminals. The reader passes every name through ``safe_name``, so no other code gets a file's raw
name.
"""

from __future__ import annotations

MAX_LENGTH = 400
"""Characters of the longest name. Converters' names of fused operators are sometimes longer."""
_CUT = "..."


def safe_name(name: bytes | None) -> str:
    r"""The name in printable characters: \x1b for a control character, \xff for a byte that is not UTF-8.

    Characters that change the writing direction or have no width are escaped too. A name of more than MAX_LENGTH
    characters is cut.
    """
    text = printable((name or b"").decode("utf-8", "backslashreplace"))
    return text if len(text) <= MAX_LENGTH else text[: MAX_LENGTH - len(_CUT)] + _CUT


def printable(text: str) -> str:
    """The text with Python's escapes instead of characters that are not printable."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def is_literal(name: str) -> bool:
    """Whether a safe name is certainly the one in the file, so that it can be compared."""
    return "\\" not in name and len(name) < MAX_LENGTH
