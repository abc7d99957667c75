"""How much is kept: what a hostile repository says must not outgrow the repository."""

# No file that people read has as many; beyond it the names would take more room than the source.
MAX_IMPORTS = 20_000
# About 100 MB in memory, and twenty times what repositories of 30,000 files have.
MAX_EDGES = 1_500_000
