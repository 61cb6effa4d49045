import pytest

# What helpers assert is explained like what tests assert.
pytest.register_assert_rewrite(
    "tests.crash.matrix",
    "tests.crash.verify",
    "tests.crash.verify_agents",
    "tests.crash.scenario_parts",
    "tests.crash.decision_scenarios",
    "tests.crash.ending_scenarios",
    "tests.crash.recovery_scenarios",
    "tests.crash.question_scenarios",
    "tests.crash.token_scenarios",
    "tests.crash.tree_scenarios",
    "tests.crash.remote_parts",
    "tests.crash.remote_question_scenarios",
    "tests.crash.remote_work_scenarios",
)
