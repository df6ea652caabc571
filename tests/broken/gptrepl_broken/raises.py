"""It raises when it is imported."""

raise RuntimeError("the table\nis missing")
