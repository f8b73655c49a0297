"""Matrix products with one thread."""

from __future__ import annotations

import functools
from typing import Any

from threadpoolctl import ThreadpoolController


def limit_numpy() -> Any:
    """A context within which numpy multiplies matrices with one thread.

    The matrices of checks are small. With more threads a product takes longer, since the threads
    wait for each other in busy loops. On a machine where something else runs, the same product
    took 20 times as much processor time (60 tokens of a6's network: 86 ms instead of 4 ms).

    Example::

        with limit_numpy():
            rows @ weights
    """
    return _blas().limit(limits=1)


@functools.cache
def _blas() -> ThreadpoolController:
    return ThreadpoolController().select(user_api="blas")
