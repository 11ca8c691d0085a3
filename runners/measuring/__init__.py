"""From a built server to its samples: trials, pairs, what disturbs them, when to stop; profiles and callgrind."""
