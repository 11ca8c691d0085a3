"""The one judge: what two sides of a series are to each other. Pages, API, feeds and messages read its verdicts."""
