"""The pages where people set things: projects, suites, machines, annotations."""
