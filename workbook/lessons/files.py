"""Files that a lecture shows and serves: configs, `model.py`, clients.

They lie in the notebook's folder, in `models/`, `clients/` and `at_work/`. A reader opens, edits
and keeps them:

    show("models/crowd/config.pbtxt")      # its text, with colours
    place(models, "models/crowd")          # a copy in the repository that the lab serves
"""

from __future__ import annotations

import shutil
from html import escape
from pathlib import Path

from IPython import display
from pygments.lexers import get_lexer_for_filename
from pygments.token import Comment, Keyword, Name, Number, String, _TokenType
from pygments.util import ClassNotFound

#: Kind of token → JupyterLab's colour for it, which follows its theme, and one for other pages.
#: JupyterLab's colour of comments is too faint on its dark theme: they are in italics instead.
_COLOURS = {
    Keyword: ("keyword", "#008000"),
    Name.Function: ("def", "#0000ff"),
    Name.Class: ("def", "#0000ff"),
    Number: ("number", "#008800"),
    String: ("string", "#ba2121"),
}


def show(*files: str | Path) -> None:
    """Display files with syntax colours, each below its path.

        show("models/crowd/config.pbtxt", models / "crowd/1/model.py")

    Args:
        files: their paths; relative ones begin at the notebook's folder.

    Raises:
        FileNotFoundError: there is no such file.
    """
    for file in files:
        text = Path(file).read_text("utf-8").rstrip()
        display.display(  # type: ignore[no-untyped-call]
            {
                "text/plain": f"{file}\n\n{text}",
                "text/html": f"<div><code>{escape(str(file))}</code></div>"
                f'<pre style="border-left:3px solid #8884;padding-left:1em">'
                f"{_coloured(Path(file), text)}</pre>",
            },
            raw=True,
        )


def place(models: Path, *folders: str | Path, name: str = "") -> None:
    """Copy the folders of models into a model repository.

        place(models, "models/crowd")                # makes, or overwrites, models / "crowd"
        place(models, "models/crowd", name="calm")   # the same files, as models / "calm"

    A model has at least one version folder. If there is none, e.g. because it is empty and git
    keeps no empty folders, `1` is made.

    Args:
        models: the repository, e.g. what `workspace.folder` returned.
        folders: the models' folders.
        name: the model's name in the repository; by default, its folder's name.
    """
    for folder in map(Path, folders):
        left_out = shutil.ignore_patterns("__pycache__", ".ipynb_checkpoints")
        home = models / (name or folder.name)
        shutil.copytree(folder, home, ignore=left_out, dirs_exist_ok=True)
        if not any(child.name.isdecimal() for child in home.iterdir()):
            (home / "1").mkdir()


def _coloured(file: Path, text: str) -> str:
    """A file's text as HTML."""
    try:
        # A config has Python's comments, texts and numbers.
        name = "config.py" if file.suffix == ".pbtxt" else file.name
        tokens = get_lexer_for_filename(name, stripnl=False).get_tokens(text)
    except ClassNotFound:
        return escape(text)
    return "".join(_span(kind, part) for kind, part in tokens).rstrip()


def _span(kind: _TokenType, text: str) -> str:
    """A token as HTML, in the colour of its kind; comments in italics."""
    if kind in Comment:
        return f'<span style="font-style:italic">{escape(text)}</span>'
    for each, (name, other) in _COLOURS.items():
        if kind in each:
            colour = f"var(--jp-mirror-editor-{name}-color, {other})"
            return f'<span style="color:{colour}">{escape(text)}</span>'
    return escape(text)
