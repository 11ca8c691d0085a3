"""Everything of one project in a file (docs/archive.md), written here and restored in another installation."""
