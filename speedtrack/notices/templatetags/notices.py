"""The wording of events of alerts in mails."""

from django import template

from speedtrack.notices import mail

register = template.Library()

register.filter("happened", mail.event_in_words)
