"""What 09__wire reads."""

from __future__ import annotations

from pathlib import Path

from workbook.lessons import units

setup = units.load(units.find("09__wire"), "setup")


def test_sizes_of_curl_and_of_grpc_are_one_table(tmp_path: Path) -> None:
    file = tmp_path / "sizes.csv"
    file.write_text("form:request:answer\nJSON, darker:900:90\n", "utf-8")
    table = setup.read_sizes(file, gRPC={"request": 100, "answer": 10})
    assert table["request"].to_dict() == {"JSON, darker": 900, "gRPC": 100}
    assert table["answer"].to_dict() == {"JSON, darker": 90, "gRPC": 10}
