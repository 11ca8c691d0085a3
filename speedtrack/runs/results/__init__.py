"""What runners report, stored: builds, measurements, logs, profiles."""
