"""What was measured: series, samples, evidence, comparisons; results from outside."""
