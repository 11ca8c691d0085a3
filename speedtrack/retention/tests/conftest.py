"""A tracked and measured repository."""

from speedtrack.web.tests.world import kvd, slow

__all__ = ["kvd", "slow"]
