"""From a running server to samples: trials, pairs, disturbances, when to stop; profiles and callgrind."""
