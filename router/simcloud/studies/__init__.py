"""Studies: written-down workloads, and what the simulator says of them beside what was published.

Each module owns one question: NAME, SUMMARY and run(seed, progress) -> Table.
"""
