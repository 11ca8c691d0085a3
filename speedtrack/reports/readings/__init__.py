"""Read models: what documents and pages are filled from."""
