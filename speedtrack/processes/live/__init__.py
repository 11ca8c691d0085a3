"""Streams of changes for the pages of runs and of the queue: server-sent events, in a separate process.

The web server has a thread for each request under way; a stream would occupy one as long as its page is open. Here one
thread serves all viewers, and another reads the database for all of them. Only members receive streams of a private
project: their pages identify them by a signed ticket.
"""
