"""The size limits of request bodies, by path. The web server and Django both use them."""

import re

MEGABYTE = 1024 * 1024
PAGES = MEGABYTE  # forms, the longest of which has the text of a suite
# GitHub sends at most 25 MB; a runner sends up to a thousand trials with their documents, or a profile, at once.
LONGER = {"/hooks/": 26 * MEGABYTE, "/api/runner/": 26 * MEGABYTE}
# Results that were measured elsewhere come in batches; the API's address contains the project's name.
RESULTS = re.compile(r"/api/v1/projects/[^/]+/(?:results|files)/?|(?:/codespeed/[^/]+)?/result/add/(?:json/)?")
RESULTS_LIMIT = 26 * MEGABYTE
LONGEST = max(PAGES, RESULTS_LIMIT, *LONGER.values())


def limit_of(path: str) -> int:
    """Return the largest number of bytes in the body of a request to this path."""
    usual = RESULTS_LIMIT if RESULTS.fullmatch(path) else PAGES
    return next((limit for start, limit in LONGER.items() if path.startswith(start)), usual)
