import pytest

# What helpers assert is explained like what tests assert.
pytest.register_assert_rewrite("tests.crash.verify", "tests.crash.scenarios")
