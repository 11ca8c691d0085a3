"""Alerts: raised, regrouped, resolved and decided by people; how they are worded."""
