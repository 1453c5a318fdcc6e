"""What the commands take for the columns to group by, the same way in each."""

from __future__ import annotations

import pytest

from controlmq.cli.arguments import fit_of
from controlmq.cli.main import parsed


@pytest.mark.parametrize("command", [["identify", "traces"], ["follow", "traces", "--out", "m"]])
@pytest.mark.parametrize(
    ("words", "columns"),
    [
        ([], ("group",)),
        (["--group-by", "queue", "service_time_band"], ("queue", "service_time_band")),
        (["--group-by", "queue", "--group-by", "group"], ("queue", "group")),
        (["--group-by", "queue", "group", "--group-by", "queue"], ("queue", "group")),
    ],
)
def test_columns_to_group_by_come_together_or_one_by_one(
    command: list[str], words: list[str], columns: tuple[str, ...]
) -> None:
    assert fit_of(parsed([*command, *words]))["by"] == columns
