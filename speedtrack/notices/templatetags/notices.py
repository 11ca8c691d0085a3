"""The wording of events of alerts in mails."""

from django import template

from speedtrack.judging.verdicts import sign_of_change
from speedtrack.notices import mail

register = template.Library()

register.filter("happened", mail.event_in_words)
register.filter("sign", sign_of_change)
