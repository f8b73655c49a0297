"""The catalogue of failures: what the server says, what is wrong, where, and what to do about it.

Each entry is for a failure that was caused on purpose on a real server. A test causes it again.
rules.py shows how to add an entry.
"""

from .config_syntax import TEXT
from .config_values import CORE
from .ensembles import ENSEMBLES
from .evidence import Evidence
from .failed_requests import REQUESTS, AskedServer, Question
from .frameworks import FRAMEWORKS, OTHERS
from .language_models import ENGINES
from .model_files import FILES
from .python_models import PYTHON
from .server_start import STARTS
from .tensors import TENSORS
from .unbuilt_models import WEIGHTS
from .unreadable_files import REST, UNREADABLE

#: For models that do not load, in the order in which they are tried.
LOADS = (
    TEXT,
    WEIGHTS,
    ENSEMBLES,
    ENGINES,
    UNREADABLE,
    FRAMEWORKS,
    PYTHON,
    CORE,
    TENSORS,
    FILES,
    REST,
    OTHERS,
)

__all__ = ["LOADS", "REQUESTS", "STARTS", "AskedServer", "Evidence", "Question"]
