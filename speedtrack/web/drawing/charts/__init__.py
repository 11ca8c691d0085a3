"""Charts that fill a page: timelines, latencies and flame graphs."""
