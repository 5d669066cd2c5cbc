"""The ledger against the process: what it says is what the operating system sees."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.mark.skipif(sys.platform == "win32", reason="the peak resident size is read as on Unix")
@pytest.mark.parametrize("workload, batch", [("R128", 8), ("C10", 16)])
def test_the_process_grows_by_what_the_ledger_says(workload, batch):
    """Growth of the peak resident size over the size before the run was built, within 5% of the ledger's peak."""
    command = [sys.executable, "-m", "tests.bench.memory", workload, "--batch", str(batch), "--windows", "2"]
    command += ["--kernels", "reference"]  # where nothing is compiled, whose memory would count
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    measured = json.loads(done.stdout)
    assert measured["forecast_off_bytes"] == 0
    assert measured["growth_before_build_mib"] == pytest.approx(measured["ledger_peak_mib"], rel=0.05)
