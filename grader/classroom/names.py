"""Names of students and entries: ids that are safe, and texts that can be shown.

A name stays as it is, in any script, wherever people read it. An id is made from it for places that
cannot take every character: folders, URLs, nbgrader's database.
"""

from __future__ import annotations

import hashlib
import re
import unicodedata

#: The longest id before a hash is added. Four bytes per character still fit into a file's name.
MOST_CHARACTERS = 60

#: Joiners, which many scripts need inside a word. They cannot be seen.
_JOINERS = "\u200c\u200d"
#: Characters that a terminal, a browser or a spreadsheet obeys and does not show: control
#: characters but for tab and newline, half a surrogate pair, and those that turn the direction of
#: the text that follows.
_OBEYED = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069\ufff9-\ufffb\ud800-\udfff]"
)


def shown(text: str) -> str:
    """A text that is safe to show: what would be obeyed and not seen is replaced by `�`.

    Line ends of all systems become newlines. Example: `shown("a\\x1b[31m") == "a�[31m"`.
    """
    return _OBEYED.sub("\ufffd", text.replace("\r\n", "\n").replace("\r", "\n"))


def clean(name: str) -> str:
    """A name as a text that can be a folder's name, a part of a URL and nbgrader's id.

    Letters, digits and combining marks of any script, and `. _ - @`, are kept. Others become `_`.
    The result is never empty, and begins with a letter or a digit: a spreadsheet takes a text that
    begins with `-` or `@` for a formula. Example: `clean("Ana Ruiz") == "Ana_Ruiz"`.
    """
    kept = [
        character if _belongs(character) else " "
        for character in unicodedata.normalize("NFC", name)
    ]
    text = _trim("_".join("".join(kept).split()))
    text = _trim(text[:MOST_CHARACTERS])
    return text or f"student-{digest(name)[:8]}"


def fold(id: str) -> str:
    """An id as a file system may compare it: without upper and lower case, and normalised.

    Where two ids are the same when folded, some systems would keep both in one folder.
    """
    for joiner in _JOINERS:
        id = id.replace(joiner, "")
    return unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", id).casefold())


def digest(name: str) -> str:
    """The SHA-256 of a name, in hexadecimal digits. The name need not be UTF-8."""
    return hashlib.sha256(name.encode("utf-8", "surrogatepass")).hexdigest()


def _belongs(character: str) -> bool:
    """Whether a character may stand in an id."""
    return (
        character.isalnum()
        or character in "._-@"
        or character in _JOINERS
        or unicodedata.category(character) in ("Mn", "Mc")
    )


def _trim(text: str) -> str:
    """Without dots, lines and joiners at either end, and without marks that have no letter."""
    text = text.rstrip("._-" + _JOINERS)
    while text and (text[0] in "._-@" + _JOINERS or unicodedata.category(text[0]) in ("Mn", "Mc")):
        text = text[1:]
    return text
