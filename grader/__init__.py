"""Grade a class: checks, a sandbox, a judge, a gradebook, and pages with the results."""

import sys

# jsonschema, which nbformat and nbgrader use, imports this package where it is installed, for a
# format that no notebook has. The import takes a second. None in its place: it is not installed.
sys.modules.setdefault("rfc3987_syntax", None)  # type: ignore[arg-type]
