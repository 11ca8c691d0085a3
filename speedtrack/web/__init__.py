"""The pages: views read the address, ``pages`` asks the database, templates lay it out."""
