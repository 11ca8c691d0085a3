"""Pure statistics: lists of floats in, plain dataclasses out. No database, clock, I/O or global random numbers.

summary      What do these samples of one commit say?            summarize -> Estimate
compare      Are these two sets of trials different?             compare_samples, settle_pairs -> Comparison
totals       How much do many ratios amount to?                  mean_ratio -> MeanRatio
histogram    Which latencies does a driver's histogram hold?     decode -> Histogram
sequential   How sure is a change after so many pairs?        change_evidence, level_evidence
changepoint  Where does this series seem to have moved?          suspect_shifts -> list[Shift]
windows      What must a shift exceed to stand out?              yardsticks and the Sensitivity of suspect_shifts
ranks        How surprising is this order of values?             rank_sum_p (exact, with ties)
scale        On which scale are changes of this metric judged?   Scale (logarithms, or differences)
"""
