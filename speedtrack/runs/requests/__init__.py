"""What people ask for: track, measure, compare; what it would do, and what they change."""
