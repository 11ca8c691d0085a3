"""From a built server to its samples: trials, pairs, and what disturbs them."""
