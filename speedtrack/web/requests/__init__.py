"""What surrounds the views: headers, limits on requests, responses to those that fail, and logging in."""
