"""The documents of the API, which its OpenAPI describes. Within v1 they only grow."""
