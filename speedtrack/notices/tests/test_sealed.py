import pickle
from typing import Any

import pytest
from django.db import connection

from speedtrack.ground.secrets.sealed import KeyLost, Secret, reseal
from speedtrack.notices.models import Channel
from speedtrack.tests import builders

TEXT = "glpat-very-secret"


@pytest.fixture
def channel(db: None, settings: Any, tmp_path: Any) -> Channel:
    builders.use_suite(settings, tmp_path / "suites")
    repository = builders.Repository(tmp_path / "repository")
    repository.commits(1)
    project = builders.track(repository).project
    return Channel.objects.create(
        project=project,
        kind="gitlab",
        name="ours",
        url=Secret.of("https://gitlab.example.org"),
        origin="https://gitlab.example.org",
        place="group/kvd",
        secret=Secret.of(TEXT),
    )


def test_the_database_holds_no_plain_text(channel: Channel) -> None:
    with connection.cursor() as cursor:
        cursor.execute("SELECT secret, former_secret FROM notices_channel")
        secret, former = cursor.fetchone()
    assert secret and TEXT not in secret and former == ""
    assert Channel.objects.get().secret.reveal() == TEXT


def test_a_secret_shows_itself_nowhere(channel: Channel) -> None:
    secret = Channel.objects.get().secret
    shown = [
        str(secret),
        repr(secret),
        f"{secret}",
        f"{[secret]}",
        repr(vars(channel)),
        str(pickle.dumps(secret)),
    ]
    assert all(TEXT not in text for text in shown)
    assert secret and not Channel.objects.get().former_secret


def test_plain_text_cannot_be_stored(channel: Channel) -> None:
    with pytest.raises(TypeError, match=r"Secret\.of"):
        Channel.objects.filter(pk=channel.pk).update(secret=TEXT)


def test_keys_are_replaced_without_losing_a_secret(channel: Channel, settings: Any) -> None:
    settings.SPEEDTRACK_ENCRYPTION_KEYS = ["n" * 32]
    assert Channel.objects.get().secret.reveal() == TEXT
    assert reseal() == 3, "address and secret of the channel, secret of the webhook"
    settings.SECRET_KEY = "another one, as after a loss of the former"
    assert Channel.objects.get().secret.reveal() == TEXT
    settings.SPEEDTRACK_ENCRYPTION_KEYS = ["m" * 32, "n" * 32]
    assert reseal() == 3, "address and secret of the channel, secret of the webhook"
    settings.SPEEDTRACK_ENCRYPTION_KEYS = ["m" * 32]
    assert Channel.objects.get().secret.reveal() == TEXT


def test_a_lost_key_is_named_with_the_remedy(channel: Channel, settings: Any) -> None:
    settings.SECRET_KEY = "another one"
    with pytest.raises(KeyLost, match="SPEEDTRACK_ENCRYPTION_KEYS"):
        Channel.objects.get().secret.reveal()
    assert Channel.objects.count() == 1, "it can still be listed"
