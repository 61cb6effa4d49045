"""Tests of agents: a fixture for pytest, and a driver that crashes an agent at every step.

Belongs here: tools for programs to test their agent file, with a script for its models and stubs for its
tools. Not here: tests of the product, which use the same driver (`tests/crash`). Read first:
`crash_driver.py`. Only `pytest_plugin.py` imports pytest, and only pytest imports it.
"""
