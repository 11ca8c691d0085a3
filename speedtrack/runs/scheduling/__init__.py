"""Which run a machine takes next, and what keeps it from taking any: order, windows, canary, quarantine, alarms."""
