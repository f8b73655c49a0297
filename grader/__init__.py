"""Grade a class: checks, a sandbox, a judge, a gradebook and reports."""

import sys

# jsonschema looks for this package, whose import compiles a grammar for a second, to check formats
# that no notebook has; told that it is not there, it does without. nbformat and nbgrader, which
# both use jsonschema, are imported in four places here.
sys.modules.setdefault("rfc3987_syntax", None)  # type: ignore[arg-type]
