"""One short script a figure: each prints a table and writes JSON. `make bench` runs all."""
