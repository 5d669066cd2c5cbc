"""Make experiments/specs/data/diamonds-mini.csv from the diamonds table of plotnine (PyPI) or ggplot2 (CRAN).

    python scripts/make_diamonds_mini.py path/to/diamonds.csv

6,000 of its 53,940 rows, drawn with a fixed seed; the same source always gives the same file.
"""

import sys
from pathlib import Path

import numpy as np

TARGET = Path(__file__).parent.parent / "experiments" / "specs" / "data" / "diamonds-mini.csv"
ROWS = 6_000
SEED = 53_940


def main() -> None:
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    header, *rows = Path(sys.argv[1]).read_text(encoding="utf-8").splitlines()
    random = np.random.Generator(np.random.Philox(SEED))
    chosen = np.sort(random.choice(len(rows), ROWS, replace=False))
    lines = [header, *(rows[row] for row in chosen)]
    TARGET.write_text("".join(f"{line}\n" for line in lines).replace('"', ""), encoding="utf-8", newline="\n")


if __name__ == "__main__":
    main()
