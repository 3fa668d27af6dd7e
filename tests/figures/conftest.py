"""Pictures are drawn without a window, and closed behind each test."""

import matplotlib
import pytest

matplotlib.use("Agg")

from matplotlib import pyplot as plt


@pytest.fixture(autouse=True)
def _close():
    yield
    plt.close("all")
