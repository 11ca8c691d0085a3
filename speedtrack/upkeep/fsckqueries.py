"""The statements with which fsck looks for rows that contradict each other."""

# In a range of attempts: those that did not succeed but have visible measurements, and those that succeeded as the
# newest of their run but have hidden ones.
ACCEPTANCE = """
    SELECT a.run_id, a.id, coalesce(nullif(a.outcome, ''), 'not ended'), m.accepted, count(*)
      FROM runs_attempt a
      JOIN runs_run r ON r.id = a.run_id
      JOIN runs_measurement m ON m.attempt_id = a.id
     WHERE a.id BETWEEN %(first)s AND %(last)s AND m.attempt_id BETWEEN %(first)s AND %(last)s AND r.canary_id IS NULL
       AND ((m.accepted AND a.outcome NOT IN ('succeeded', 'failed'))
            OR (NOT m.accepted AND a.outcome = 'succeeded' AND a.token = r.lease_token))
  GROUP BY a.run_id, a.id, m.accepted
  ORDER BY a.id
"""
# For a range of runs: their attempts, whether each has not ended, and whether it has visible measurements.
ATTEMPTS = """
    SELECT r.id, r.status, r.lease_token, a.id, a.token, a.outcome, a.ended_at IS NULL,
           EXISTS (SELECT FROM runs_measurement m WHERE m.attempt_id = a.id AND m.accepted)
      FROM runs_run r
      JOIN runs_attempt a ON a.run_id = r.id
     WHERE r.id BETWEEN %(first)s AND %(last)s AND a.run_id BETWEEN %(first)s AND %(last)s
  ORDER BY r.id, a.token
"""
# For a range of runs: the events that do not begin with the status of the event before, and the last ones whose status
# differs from their run's. Retention keeps cancellations and deletes the events after them, so a gap after one is no
# fault.
EVENTS = """
    SELECT * FROM (
        SELECT r.id, r.status, e.id AS event, e.before, e.after,
               lag(e.after) OVER own AS earlier, lead(e.id) OVER own IS NULL AS is_last
          FROM runs_run r
          JOIN runs_runevent e ON e.run_id = r.id
         WHERE r.id BETWEEN %(first)s AND %(last)s AND e.run_id BETWEEN %(first)s AND %(last)s
        WINDOW own AS (PARTITION BY r.id ORDER BY e.id)) each
     WHERE (is_last AND after NOT IN (status, 'cancelled')) OR (earlier NOT IN (before, 'cancelled'))
  ORDER BY id, event
"""
# In a range of measurements with samples: those whose summary differs from that of the samples. Only clean samples
# count, or all if none is clean.
SUMMARIES = """
    SELECT m.id, a.run_id, m.n, m.value, found.n, found.median
      FROM runs_measurement m
      JOIN runs_attempt a ON a.id = m.attempt_id
      JOIN runs_samples s ON s.measurement_id = m.id
CROSS JOIN LATERAL (
        SELECT count(*) AS n, percentile_cont(0.5) WITHIN GROUP (ORDER BY value) AS median
          FROM (SELECT value, clean, bool_or(clean) OVER () AS any_clean
                  FROM (SELECT t.value, t.place - 1 <> ALL (coalesce(s.flagged, '{}')) AS clean
                          FROM unnest(s.values) WITH ORDINALITY AS t (value, place)
                         WHERE t.value IS NOT NULL) each) marked
         WHERE clean OR NOT any_clean) found
     WHERE m.id BETWEEN %(first)s AND %(last)s AND s.measurement_id BETWEEN %(first)s AND %(last)s
       AND (found.n <> m.n OR abs(found.median - m.value) > 1e-9 * abs(m.value))
  ORDER BY m.id
"""
# For a range of results with documents: the measurements with samples of trials that have no row.
STRANGERS = """
    SELECT r.id, m.id, array_agg(DISTINCT u.place - 1)
      FROM runs_result r
      JOIN runs_measurement m ON m.attempt_id = r.attempt_id AND m.side = r.side
      JOIN runs_series line ON line.id = m.series_id AND line.benchmark_id = r.benchmark_id
      JOIN runs_samples s ON s.measurement_id = m.id
CROSS JOIN LATERAL (SELECT ARRAY(SELECT t.number FROM runs_trial t WHERE t.result_id = r.id) AS numbers OFFSET 0) own
CROSS JOIN LATERAL unnest(s.values) WITH ORDINALITY AS u (value, place)
     WHERE r.id BETWEEN %(first)s AND %(last)s AND r.documents IS NOT NULL AND u.value IS NOT NULL
       AND u.place - 1 <> ALL (own.numbers)
  GROUP BY r.id, m.id
  ORDER BY m.id DESC
"""
# For a range of attempts that succeeded: each benchmark and side of the run's set that lacks the result, the build, all
# measurements, or the samples of only some measurements. Retention deletes either all of an attempt or nothing, and the
# samples of all metrics of a benchmark. Each measurement is read once, whatever number of benchmarks its attempt has.
INCOMPLETE = """
      WITH attempt AS MATERIALIZED (
        SELECT a.id, a.postponed, a.out_of_reach, r.id AS run_id, r.benchmark_set_id, r.base_id
          FROM runs_attempt a
          JOIN runs_run r ON r.id = a.run_id AND r.lease_token = a.token
         WHERE a.id BETWEEN %(first)s AND %(last)s AND a.outcome = 'succeeded' AND r.status = 'succeeded'
           AND r.linked_id IS NULL AND r.imported_id IS NULL AND r.reason <> 'profile'
           AND (EXISTS (SELECT FROM runs_result x WHERE x.attempt_id = a.id)
                OR EXISTS (SELECT FROM runs_measurement x WHERE x.attempt_id = a.id))),
           measured AS MATERIALIZED (
        SELECT m.attempt_id, line.benchmark_id, m.side, count(*) AS metrics, count(s.measurement_id) AS sampled
          FROM runs_measurement m
          JOIN runs_series line ON line.id = m.series_id
     LEFT JOIN runs_samples s ON s.measurement_id = m.id
         WHERE m.attempt_id BETWEEN %(first)s AND %(last)s
      GROUP BY m.attempt_id, line.benchmark_id, m.side)
    SELECT a.run_id, a.id, b.name, sides.side, result.id IS NOT NULL, build.id IS NOT NULL,
           coalesce(each.metrics, 0), coalesce(each.sampled, 0)
      FROM attempt a
      JOIN benchmarks_setmember own ON own.benchmark_set_id = a.benchmark_set_id
      JOIN benchmarks_benchmark b ON b.id = own.benchmark_id
      JOIN (VALUES ('head'), ('base')) AS sides (side) ON sides.side = 'head' OR a.base_id IS NOT NULL
 LEFT JOIN measured each ON each.attempt_id = a.id AND each.benchmark_id = b.id AND each.side = sides.side
 LEFT JOIN runs_result result
        ON result.attempt_id = a.id AND result.benchmark_id = b.id AND result.side = sides.side
       AND result.attempt_id BETWEEN %(first)s AND %(last)s
 LEFT JOIN runs_build build
        ON build.attempt_id = a.id AND build.side = sides.side AND build.attempt_id BETWEEN %(first)s AND %(last)s
     WHERE NOT jsonb_exists(a.postponed, b.name) AND NOT jsonb_exists(a.out_of_reach, b.name)
       AND (result.id IS NULL OR build.id IS NULL OR each.metrics IS NULL
            OR (each.sampled > 0 AND each.sampled < each.metrics))
  ORDER BY a.id, b.name, sides.side
"""
# In a range of attempts: those whose log has a gap. A piece that never arrived leaves none, because its number is not
# used.
LOGS = """
    SELECT a.run_id, a.id, count(c.id), min(c.seq), max(c.seq)
      FROM runs_attempt a
      JOIN runs_logchunk c ON c.attempt_id = a.id
     WHERE a.id BETWEEN %(first)s AND %(last)s AND c.attempt_id BETWEEN %(first)s AND %(last)s
       AND a.outcome = 'succeeded'
  GROUP BY a.run_id, a.id
    HAVING count(c.id) <> max(c.seq) - min(c.seq) + 1
  ORDER BY a.id
"""
