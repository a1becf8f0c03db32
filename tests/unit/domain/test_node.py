"""What a node counts as when the worker and an admin disagree."""

from __future__ import annotations

import pytest

from corral.domain.access import Principal
from corral.domain.node import Label, LabelSource
from tests.unit.policy.builders import a_node


@pytest.mark.behaviour("NODE-10")
def test_admins_slots_win_over_the_workers() -> None:
    assert a_node(slots_reported=2).slots == 2
    assert a_node(slots_reported=2, slots_override=4).slots == 4


@pytest.mark.behaviour("NODE-14")
def test_admins_budget_wins_and_an_empty_one_means_no_cap() -> None:
    assert a_node(budget_reported=None).budget == ""
    assert a_node(budget_reported="50%").budget == "50%"
    assert a_node(budget_reported="50%", budget_override="80%").budget == "80%"
    assert a_node(budget_reported="50%", budget_override="").budget == ""


def test_labels_can_be_looked_up_by_key() -> None:
    label = Label(key="zone", value="b", source=LabelSource.ADMIN)
    assert a_node(labels={"zone": "b"}).labels == (label,)
    assert a_node(labels={"zone": "b"}).label_map == {"zone": "b"}


def test_key_of_an_agent_node_is_no_admins() -> None:
    assert Principal(key_id="1", name="ada").is_admin
    assert not Principal(key_id="1", name="agent x", node_id="2").is_admin
