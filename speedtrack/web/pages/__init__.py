"""What each page shows: one module per page queries the database in its ``load``; the templates only lay it out."""
