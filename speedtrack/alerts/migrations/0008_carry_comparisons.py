"""Carry the comparison of each commit and series into batches of a commit. It takes a few seconds per million."""

from django.db import migrations

BATCHES = """
INSERT INTO alerts_comparisonbatch (commit_id, series, distances, old, ratios, lows, highs, answers)
SELECT commit_id, array_agg(series_id ORDER BY series_id), array_agg(distance ORDER BY series_id),
       array_agg(old ORDER BY series_id), array_agg(ratio::real ORDER BY series_id),
       array_agg(low::real ORDER BY series_id), array_agg(high::real ORDER BY series_id),
       string_agg(left(answer, 1), '' ORDER BY series_id)
  FROM (SELECT *, (row_number() OVER (PARTITION BY commit_id ORDER BY series_id) - 1) / 50 AS batch
          FROM alerts_commitcomparison) numbered
 GROUP BY commit_id, batch
 ORDER BY commit_id, batch
"""
ROWS = """
INSERT INTO alerts_commitcomparison (commit_id, series_id, distance, old, ratio, low, high, answer)
SELECT DISTINCT ON (b.commit_id, e.series_id) b.commit_id, e.series_id, e.distance, e.old, e.ratio, e.low, e.high,
       CASE e.answer WHEN 'd' THEN 'different' WHEN 's' THEN 'same' ELSE 'unknown' END
  FROM alerts_comparisonbatch b
 CROSS JOIN LATERAL unnest(b.series, b.distances, b.old, b.ratios, b.lows, b.highs, string_to_array(b.answers, NULL))
       AS e (series_id, distance, old, ratio, low, high, answer)
  JOIN runs_series s ON s.id = e.series_id
 ORDER BY b.commit_id, e.series_id, b.id DESC
"""


class Migration(migrations.Migration):

    dependencies = [
        ('alerts', '0007_comparison_batches'),
    ]

    operations = [
        migrations.RunSQL(BATCHES, ROWS),
    ]
