"""Machines: how they are registered, enrolled, pooled and given tokens."""
