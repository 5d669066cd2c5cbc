"""One BLAS thread for the engine's tests: on small arrays two threads only wait for each other."""

import os

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
