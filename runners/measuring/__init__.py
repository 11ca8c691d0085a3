"""From a running server to samples: trials, pairs, what disturbs them, when to stop; profiles and callgrind."""
