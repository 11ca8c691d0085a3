"""One document per noun: what pages, the API and what is sent say of it as JSON, and what programs may send."""
