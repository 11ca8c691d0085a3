"""Alerts, what people decide about them, and bisections."""
