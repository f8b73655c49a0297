"""The catalogue of failures: the server's message, what is wrong, where, and what to do about it.

Each family of entries is a TOML file of this folder, which has the texts. Some entries need to look
something up in the config or in a file: these look-ups are in the Python file of the same name.
rules.py says how to add an entry. failed_requests.toml is about requests, the other families about
models that do not load, and servers that do not start.
"""

from .config_syntax import TEXT
from .config_values import CORE
from .ensembles import ENSEMBLES
from .evidence import Evidence
from .failed_requests import REQUESTS, Question, ServerView
from .frameworks import FRAMEWORKS
from .language_models import ENGINES
from .model_files import FILES
from .python_models import PYTHON
from .server_start import STARTS
from .unbuilt_models import WEIGHTS
from .unreadable_files import OTHERS, UNREADABLE

#: For models that do not load, in the order in which they are tried.
LOADS = (TEXT, WEIGHTS, ENSEMBLES, ENGINES, UNREADABLE, FRAMEWORKS, PYTHON, CORE, FILES, OTHERS)

__all__ = ["LOADS", "REQUESTS", "STARTS", "Evidence", "Question", "ServerView"]
