"""Write all data of one project into a file (docs/archive.md), and restore it in another installation."""
