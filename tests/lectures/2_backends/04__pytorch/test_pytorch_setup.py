"""What 04__pytorch relies on: a trace and its warning."""

from __future__ import annotations

import torch

from workbook.lessons import units

setup = units.load(units.find("04__pytorch"), "setup")


def test_a_trace_comes_with_its_warning() -> None:
    class Branch(torch.nn.Module):  # type: ignore[misc]
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x + 1 if bool(x.max() > 1) else x

    trace, warning = setup.traced(Branch(), torch.zeros(2))
    assert trace(torch.full((2,), 5.0)).tolist() == [5, 5]
    assert "might not generalize" in warning
