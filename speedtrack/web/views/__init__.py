"""The pages by subject: read the address, load the page by one module of ``pages``, render it."""
