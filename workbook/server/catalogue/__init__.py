"""The catalogue of failures: the server's own words, what they mean, and what to write instead.

Built by provoking each failure on a real server; the tests do it again for every entry.
"""

from .config import CORE
from .ensembles import ENSEMBLES
from .evidence import Evidence
from .files import FILES
from .frameworks import FRAMEWORKS, OTHERS
from .python import PYTHON
from .requests import REQUESTS, Question
from .starts import STARTS
from .tensors import TENSORS
from .text import TEXT

#: For models that do not load, in the order in which they are tried.
LOADS = (TEXT, ENSEMBLES, FRAMEWORKS, PYTHON, CORE, TENSORS, FILES, OTHERS)

__all__ = ["LOADS", "REQUESTS", "STARTS", "Evidence", "Question"]
