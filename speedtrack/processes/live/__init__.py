"""Streams of what changes on the pages of runs and of the queue: server-sent events, in a process of their own.

The web server has a thread for each request under way; a stream would occupy one for as long as somebody looks. Here
one thread waits for all viewers, and one reads the database for all of them. Of a private project only its members
are sent anything: their pages say who they are by a signed ticket.
"""
