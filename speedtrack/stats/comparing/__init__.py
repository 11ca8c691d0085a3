"""Two sets of trials, or pairs, compared: the tests, and the next commit to measure by them."""
