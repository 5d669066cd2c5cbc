"""Where fnwork keeps what it can make or get again: decoded pictures, data sets that were downloaded."""

import os
from pathlib import Path

import platformdirs


def folder() -> Path:
    """The user's cache folder; the environment variable FNWORK_CACHE names another one."""
    return Path(os.environ.get("FNWORK_CACHE") or platformdirs.user_cache_dir("fnwork"))


def downloaded(dataset: str) -> Path:
    """The folder that `fnwork data get` fills."""
    return folder() / "datasets" / dataset
