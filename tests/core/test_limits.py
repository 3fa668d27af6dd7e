"""Work that takes too long is given up."""

import pytest

from latentbits.core.errors import FitError
from latentbits.core.limits import check_time, within


def test_work_that_takes_too_long_is_given_up():
    check_time()
    with within(1e9, "counting"):
        check_time()
        with within(-1.0, "scoring 7 rows"), pytest.raises(FitError, match="scoring 7 rows takes longer than"):
            check_time()
        check_time()
    check_time()
