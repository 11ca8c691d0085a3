"""What each page shows: one module per page asks the database, the templates only lay it out."""
