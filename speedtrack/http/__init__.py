"""The web server: connections, limits of bodies, headers, problems."""
