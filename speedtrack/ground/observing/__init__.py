"""Logs, traces, fail points and environment variables."""
