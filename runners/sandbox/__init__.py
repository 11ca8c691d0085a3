"""Keeps builds and measured servers from the rest of their machine: namespaces, made without another program."""
