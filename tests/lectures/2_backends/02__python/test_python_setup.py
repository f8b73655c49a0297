"""What 02__python relies on: mistakes in a model's code, addresses."""

from __future__ import annotations

from multiprocessing.shared_memory import SharedMemory
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from workbook.lessons import units

UNIT = units.find("02__python")
setup = units.load(UNIT, "setup")


def test_a_mistake_in_the_code_names_what_was_changed(tmp_path: Path) -> None:
    (tmp_path / "1").mkdir()
    (tmp_path / "1/model.py").write_text("import torch\n")
    assert setup.rewrite("torch", "troch")(tmp_path) == "`torch` → `troch`"
    assert (tmp_path / "1/model.py").read_text() == "import troch\n"
    with pytest.raises(Exception, match="has no 'torch'"):
        setup.rewrite("torch", "x")(tmp_path)


def test_requests_of_one_execution_are_known_by_the_log() -> None:
    class Logged:
        def log_text(self, _begin: int) -> str:
            return "\n".join(f'"{size} requests in one execution"' for size in self.sizes)

        def __init__(self, *sizes: int) -> None:
            self.sizes = sizes

    assert setup.in_one(Logged(1, 4, 4))
    assert not setup.in_one(Logged(4, 3, 1))


@pytest.mark.server
def test_shared_memory_is_known_by_its_address() -> None:
    names: dict[str, Any] = {}
    exec((UNIT / "models/handover/1/addresses.py").read_text("utf-8"), names)
    own_array = np.zeros(8, np.float32)
    shared = SharedMemory(create=True, size=4096)
    try:
        tensor = torch.frombuffer(shared.buf, dtype=torch.float32)
        assert names["memory"](own_array, tensor).tolist() == ["own", "shared"]
        assert names["first_numbers"]([(own_array, tensor)]).tolist() == [[0, 0]]
        del tensor
    finally:
        shared.close()
        shared.unlink()
