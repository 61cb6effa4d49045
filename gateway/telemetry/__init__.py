"""Metrics for Prometheus and traces for OpenTelemetry.

Belongs here: an observer that turns the reports of the actors into numbers, one that turns them into spans,
and their listener and exporter. Not here: rules about runs. The libraries belong to the extras `metrics` and
`traces`, and nothing here is imported unless `stopgo serve` is asked for it.
Read first: `spans.py`, `metrics.py`.
"""
