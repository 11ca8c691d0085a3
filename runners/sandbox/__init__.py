"""Separates builds and measured servers from the rest of the machine with namespaces, made without another program."""
