"""The alert rules and the dashboard use only metrics and labels that exist."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import yaml

from stopgo.gateway.telemetry.metrics import DEFINITIONS, Metrics
from stopgo.runtime import json_text

DEPLOY = Path(__file__).parents[2] / "deploy"
ALERTS = yaml.safe_load((DEPLOY / "prometheus/alerts.yaml").read_text())
RULES = [rule for group in ALERTS["groups"] for rule in group["rules"]]
DASHBOARD = json_text.load((DEPLOY / "grafana/dashboard.json").read_text())
PANELS = DASHBOARD["panels"]
QUERIES = [rule["expr"] for rule in RULES] + [q["expr"] for panel in PANELS for q in panel["targets"]]

OF_TARGETS = {"instance", "job"}
WORDS = {"sum", "min", "max", "by", "rate", "increase", "changes", "min_over_time", "histogram_quantile"}
SAMPLES = {"up": set[str]()} | {
    sample.name: set(sample.labels) for family in Metrics().registry.collect() for sample in family.samples
}
for definition in DEFINITIONS:
    labels, name = set(definition.labels), definition.full_name
    histogram = {f"{name}_bucket": labels | {"le"}, f"{name}_count": labels, f"{name}_sum": labels}
    SAMPLES |= histogram if definition.buckets else {name: labels}


@pytest.mark.parametrize("query", QUERIES)
def test_a_query_uses_metrics_and_labels_that_exist(query: str) -> None:
    selectors = re.findall(r"(\w+)\s*\{([^}]*)\}", query)
    matched = {name: set(re.findall(r"(\w+)\s*[!=]", inside)) for name, inside in selectors}
    bare = re.sub(r"\{[^}]*\}|\[[^]]*\]|\bby \([^)]*\)", "", query)
    used = set(re.findall(r"[a-z_]\w*", bare)) - WORDS
    assert used
    assert used - SAMPLES.keys() == set()
    for name in used:
        assert matched.get(name, set()) - SAMPLES[name] - OF_TARGETS == set()
    grouped = {label for inside in re.findall(r"by \(([^)]*)\)", query) for label in inside.split(", ")}
    for name in used:
        assert grouped - OF_TARGETS - SAMPLES[name] == set()


def test_the_rules_say_what_is_wrong() -> None:
    names = [rule["alert"] for rule in RULES]
    assert len(set(names)) == len(names)
    for rule in RULES:
        assert rule["labels"]["severity"] in ("critical", "warning")
        assert rule["annotations"].keys() == {"summary", "description"}
        shown = re.findall(r"\$labels\.(\w+)", str(rule["annotations"]))
        kept = re.search(r"by \(([^)]*)\)", rule["expr"])
        allowed = kept[1].split(", ") if kept else ["instance", "server"]
        assert set(shown) <= set(allowed)


def test_every_metric_is_on_the_dashboard() -> None:
    shown = str(QUERIES)
    assert [each.name for each in DEFINITIONS if each.full_name not in shown] == []


def test_the_panels_do_not_overlap() -> None:
    cells = [
        (x, y)
        for panel in PANELS
        for at in [panel["gridPos"]]
        for x in range(at["x"], at["x"] + at["w"])
        for y in range(at["y"], at["y"] + at["h"])
    ]
    assert len(set(cells)) == len(cells)
    assert max(x for x, _ in cells) < 24
    assert len({panel["id"] for panel in PANELS}) == len(PANELS)
