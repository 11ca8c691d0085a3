from typing import Any

import pytest

from speedtrack.alerts.models import Alert
from speedtrack.alerts.triage import triage
from speedtrack.tests import builders

from .conftest import World


def test_an_alert_whose_range_has_another_open_one_cannot_be_opened_again(world: World, django_user_model: Any) -> None:
    world.factors = {world.shas[7]: 1.3}
    builders.track(world.repository)
    world.until_quiet()
    alert = Alert.objects.get()
    who = django_user_model.objects.create(username="ann")
    triage.decide(alert, triage.Decision("confirmed", "invalid", None, "the machine was warm"), who)
    Alert.objects.create(
        project=alert.project, branch=alert.branch, before=alert.before, commit=alert.commit, status="confirmed"
    )
    with pytest.raises(triage.Stale, match="another open alert"):
        triage.decide(alert, triage.Decision("invalid", "confirmed", None), who)
    assert Alert.objects.get(pk=alert.pk).status == "invalid"
