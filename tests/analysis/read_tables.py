#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Reads the tables that test_analysis wrote with pandas and with Python's csv, and compares them with its list.

    python tests/analysis/read_tables.py <folder>

expected.json holds for each table, by its file's name, the titles and the cells as texts. Cells that are numbers must be
read as these numbers, and shapes as tuples.
"""
import ast
import csv
import json
import math
import pathlib
import sys

import pandas


def same(cell, text, title):
    if isinstance(cell, str):
        return cell == text
    if text == "":
        return math.isnan(cell)
    number = float(text)
    return math.isnan(cell) if math.isnan(number) else float(cell) == number


folder = pathlib.Path(sys.argv[1])
tables = json.loads((folder / "expected.json").read_text(encoding="utf-8"))
written = {path.relative_to(folder).as_posix() for path in folder.rglob("*.csv")}
assert written == set(tables), (written, set(tables))
numbers = shapes = 0
for name, rows in tables.items():
    with open(folder / name, newline="", encoding="utf-8") as file:
        assert list(csv.reader(file, strict=True)) == rows, name
    frame = pandas.read_csv(folder / name)
    titles = [f"Unnamed: {i}" if title == "" else title for i, title in enumerate(rows[0])]
    assert list(frame.columns) == titles, (name, list(frame.columns))
    assert len(frame) == len(rows) - 1, name
    for i, title in enumerate(titles):
        for cell, row in zip(frame[title], rows[1:]):
            assert same(cell, row[i], title), (name, title, cell, row[i])
            numbers += not isinstance(cell, str)
            if title.lower() == "shape" and isinstance(cell, str):
                assert isinstance(ast.literal_eval(cell), (tuple, int)), (name, cell)
                shapes += 1
for title in ["Cosine", "MSE", "base_model_min", "analy_model_var"]:
    column = pandas.read_csv(folder / "out/compare_per_layer_out.csv")[title]
    assert column.dtype == float, (title, column.dtype)
print(f"{len(tables)} tables, {numbers} numbers, {shapes} shapes")
