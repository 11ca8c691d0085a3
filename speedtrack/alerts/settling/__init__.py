"""Suspicions settled by pairs and narrowed to one commit; noise floors."""
