"""For 10__llm_serving: the Llama page's table, with columns of this machine and of a recorded GPU.

llama_page.table(rates)         # rates: tokens per second by deployment
"""

from __future__ import annotations

import re
from collections.abc import Mapping

import pandas as pd

from workbook.common import paths

#: Tokens per second on the Llama page, by the notebook's deployment.
_PAGE = {
    "one": ("Hugging Face, one at a time", 10.6),
    "two": ("two instances", 15.5),
    "static": ("batches of 8", 66.5),
    "engine alone": ("vLLM, one user", 50.0),
    "engine": ("vLLM, 8 users", 363.0),
}
_VERIFIED = paths.root() / "docker/gpu/VERIFIED.md"
_RECORD = re.compile(
    r"(?P<one>\d+) tokens/s alone; two instances ×(?P<two>[\d.]+).*batches of 8 ×(?P<static>[\d.]+)"
    r"(?:.*vLLM ×(?P<engine>[\d.]+) over)?"
)


def recorded(text: str | None = None) -> tuple[str, dict[str, float]]:
    """What a GPU measured: its name and the date, and tokens per second by deployment.

    Args:
        text: the record; by default that of docker/verify_gpu.sh. Without one there is no figure.
    """
    if text is None:
        text = _VERIFIED.read_text("utf-8") if _VERIFIED.exists() else ""
    found = _RECORD.search(text)
    if not found:
        return "no GPU recorded", {}
    date, device = (re.findall(rf"- {name}: ([^,\n]*)", text)[0] for name in ("date", "device"))
    alone = float(found["one"])
    rates = {"one": alone, "two": alone * float(found["two"])}
    rates["static"] = alone * float(found["static"])
    if found["engine"]:
        rates["engine"] = rates["static"] * float(found["engine"])
    return f"{device}, {date.split()[0]}", rates


def table(rates: pd.Series[float]) -> pd.DataFrame:
    """The Llama page's table: tokens per second, and the gain over one request at a time."""
    device, gpu = recorded()
    columns = {
        "A10G, then: 7 billion parameters": {name: figure for name, (_, figure) in _PAGE.items()},
        "here: 40 million": rates.to_dict(),
        f"{device}: 5 million": gpu,
    }
    shown = {title: [_with_gain(found, name) for name in _PAGE] for title, found in columns.items()}
    return pd.DataFrame(shown, pd.Index([row for row, _ in _PAGE.values()], name="tokens per s"))


def _with_gain(rates: Mapping[str, float], name: str) -> str:
    if name not in rates:
        return "–"
    return f"{rates[name]:.4g} (×{rates[name] / rates['one']:.1f})"
