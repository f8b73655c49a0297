"""The rule for an alias: the name under which a student may stand on a leaderboard.

The student chooses it, in the notebook. So it is not trusted. Whether it is another student's name
or alias, the class's leaderboard looks at (classroom/leaderboard.py).
"""

from __future__ import annotations

import re
import unicodedata
from typing import Any

#: The most characters.
MOST = 24
#: What an alias may be, for messages.
RULE = (
    f"An alias has at most {MOST} letters, digits, spaces, hyphens and underscores, "
    "and does not mix Latin, Greek and Cyrillic letters."
)
#: The most marks on a letter, such as vowels of Hindi or Thai.
_MOST_MARKS = 2
#: Letters and marks that cannot be seen: two aliases must not differ by them alone. Fillers of
#: Hangul, vowels that Khmer does not write, a joiner, variation selectors.
_UNSEEN = re.compile(
    "[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u3164\ufe00-\ufe0f\uffa0\U000e0100-\U000e01ef]"
)
#: Scripts in which many letters look the same. An alias has letters of one of them at most.
_ALIKE = {"LATIN", "GREEK", "CYRILLIC"}


def fit(alias: Any) -> str:
    """The alias as it is shown, with single spaces; "" if it does not follow `RULE`.

    Letters and digits of every script are allowed. Characters with the same meaning become one
    (Unicode's form NFKC).

    Example: `fit("  Zoë  9 ") == "Zoë 9"`, `fit("<b>") == ""`.
    """
    if not isinstance(alias, str) or len(alias) > 10 * MOST:
        return ""
    text = " ".join(unicodedata.normalize("NFKC", alias).split())
    if len(text) > MOST or _UNSEEN.search(text):
        return ""
    marks = _MOST_MARKS  # none stands before a letter
    scripts = set()
    for character in text:
        if unicodedata.category(character) in ("Mn", "Mc"):
            marks += 1
        elif character.isalpha():
            marks = 0
            scripts.add(unicodedata.name(character, "").partition(" ")[0])
        elif character.isdecimal() or character in " -_":
            marks = _MOST_MARKS
        else:
            return ""
        if marks > _MOST_MARKS:
            return ""
    is_seen = any(character.isalnum() for character in text)
    return text if is_seen and len(scripts & _ALIKE) <= 1 else ""
