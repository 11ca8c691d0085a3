"""What all operations of the API share: who calls, refusals, pages of lists, limits of rates, keys, and OpenAPI."""
