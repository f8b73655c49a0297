"""`fails_with`: what a check must say."""

from __future__ import annotations

from typing import Self

import pytest

from grader.vocabulary.failure import Failure


class fails_with:
    """The message of the `Failure` that a block raises: `with fails_with("words") as failure:`."""

    def __init__(self, *words: str, credit: float = 0.0) -> None:
        self.words, self.credit = words, credit

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: object, error: object, trace: object) -> bool:
        assert error is not None, f"nothing was raised; expected is {self.words}"
        if not isinstance(error, Failure):
            return False
        self.text = f"{error.rationale} → {error.help}"
        assert error.credit == pytest.approx(self.credit)
        for words in self.words:
            assert words in self.text, self.text
        return True
