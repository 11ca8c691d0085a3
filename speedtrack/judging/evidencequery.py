"""All that judgements rest on, in one query, as each page judges.

Of the heads of sides: the stored answers by commit before, which is found by its distance along any branch, as
positions are the same on all, so that only answers at a distance of the head's bases are unpacked; flagged points; and
steps, with the length of their range, whose answer is `d`, or `u` if a person called them invalid. Of the ends of these
rows and of further ends: the newest builds of both commits and the samples of their paired runs in either direction. Of
sides without a stored answer: the points.
"""

from speedtrack.alerts.lines import effects, lines

FARTHEST = 32767  # commits that a stored distance can have
FEW = 20  # series, of which batches are searched; of more, all batches of a commit are read
# Of a stored array that is long, PostgreSQL unpacks the whole for each element that is read; not of a computed one.
UNPACKED = ", ".join(f"{column} || '{{}}' AS {column}" for column in ("distances", "old", "ratios", "lows", "highs"))
# Of many series at few commits, flags are read by commit, although that reads the points of other series as well.
BY_COMMIT = "(SELECT count(*) FROM watched) > %(many)s * (SELECT count(*) FROM stored_ends)"
# A judgement that is not stored needs the smallest effect.
COMPARES = "(EXISTS (SELECT FROM paired) OR EXISTS (SELECT FROM asked WHERE wanted = 'either'))"
# Lists are arrays, of which PostgreSQL assumes few elements, and tables are read laterally: by an index, however long
# their history is.
EVIDENCE = lines.sql(f"""
      WITH asked AS MATERIALIZED (
        SELECT * FROM unnest(%(series)s::int[], %(bases)s::int[], %(heads)s::int[], %(wanted)s::text[])
                   AS asked (series_id, base_id, head_id, wanted)),
           watched AS MATERIALIZED (
        SELECT id, project_id, machine_id, benchmark_id, metric
          FROM runs_series WHERE id = ANY (ARRAY(SELECT DISTINCT series_id FROM asked))),
           both_commits AS MATERIALIZED (SELECT DISTINCT base_id, head_id FROM asked),
           numbers AS MATERIALIZED (
        SELECT c.id, p.number
          FROM (SELECT base_id AS id FROM both_commits UNION SELECT head_id FROM both_commits) c
    CROSS JOIN LATERAL (SELECT number FROM projects_position WHERE commit_id = c.id LIMIT 1) p),
           heads AS MATERIALIZED (
        SELECT b.head_id AS id, bool_or(b.base_id IS NULL) AS with_any_base,
               array_agg((head.number - base.number)::smallint)
                   FILTER (WHERE head.number - base.number BETWEEN 1 AND {FARTHEST}) AS distances
          FROM both_commits b
     LEFT JOIN numbers base ON base.id = b.base_id
     LEFT JOIN numbers head ON head.id = b.head_id
      GROUP BY b.head_id),
           stored AS MATERIALIZED (
        SELECT g.*, base.commit_id AS base_id
          FROM unnest(ARRAY(SELECT id FROM heads)) AS of_head (id)
          JOIN heads head ON head.id = of_head.id
    CROSS JOIN LATERAL (
            SELECT head.id AS head_id, k.machine_id, k.distance, array_agg(k.series_id) AS series,
                   array_agg(k.answer) AS answers,
                   ARRAY[array_agg(k.old), array_agg(k.ratio)::text::float8[], array_agg(k.low)::text::float8[],
                         array_agg(k.high)::text::float8[]] AS numbers
              FROM (SELECT DISTINCT ON (e.series_id)
                           e.series_id, w.machine_id, b.distances[e.at] AS distance, b.old[e.at] AS old,
                           b.ratios[e.at] AS ratio, b.lows[e.at] AS low, b.highs[e.at] AS high,
                           substr(b.answers, e.at::int, 1) AS answer
                      FROM (SELECT id, series, answers, {UNPACKED}
                              FROM alerts_comparisonbatch
                             WHERE commit_id = head.id
                               AND (head.with_any_base OR distances && head.distances)
                               AND ((SELECT count(*) > {FEW} FROM watched) OR series && ARRAY(SELECT id FROM watched))
                            OFFSET 0) b
                CROSS JOIN LATERAL unnest(b.series) WITH ORDINALITY AS e (series_id, at)
                      JOIN watched w ON w.id = e.series_id
                  ORDER BY e.series_id, b.id DESC) k
          GROUP BY k.machine_id, k.distance OFFSET 0) g
    CROSS JOIN LATERAL (
            SELECT p.commit_id
              FROM projects_position h
              JOIN projects_position p ON p.branch_id = h.branch_id AND p.number = h.number - g.distance
             WHERE h.commit_id = g.head_id LIMIT 1) base
         WHERE EXISTS (SELECT FROM both_commits b
                        WHERE b.head_id = g.head_id AND (b.base_id IS NULL OR b.base_id = base.commit_id))),
           stored_ends AS MATERIALIZED (SELECT head_id AS commit_id FROM stored UNION SELECT base_id FROM stored),
           compared AS MATERIALIZED (
        SELECT series_id, base_id, head_id FROM asked WHERE wanted = 'either'
        EXCEPT SELECT unnest(series), base_id, head_id FROM stored),
           every_end AS MATERIALIZED (
        SELECT machine_id, base_id, head_id FROM stored
         UNION
        SELECT w.machine_id, a.base_id, a.head_id
          FROM asked a JOIN watched w ON w.id = a.series_id
         WHERE a.wanted <> 'stored' AND a.base_id <> a.head_id
         UNION
        SELECT * FROM unnest(%(machines)s::bigint[], %(old)s::int[], %(new)s::int[])),
           ends AS MATERIALIZED (
        SELECT * FROM unnest(ARRAY(SELECT machine_id FROM every_end), ARRAY(SELECT base_id FROM every_end),
                             ARRAY(SELECT head_id FROM every_end)) AS e (machine_id, base_id, head_id)),
           paired AS MATERIALIZED (
        SELECT r.id, r.machine_id, r.base_id, r.commit_id, r.metrics
          FROM (SELECT machine_id, base_id, head_id FROM ends UNION SELECT machine_id, head_id, base_id FROM ends) e
    CROSS JOIN LATERAL (
            SELECT * FROM runs_run r
             WHERE r.base_id = e.base_id AND r.commit_id = e.head_id AND r.machine_id = e.machine_id
               AND r.base_id <> r.commit_id AND r.status = ANY (%(measured)s) AND r.reason <> 'profile' OFFSET 0) r),
           {effects.STATED}
    SELECT 'series', array_agg(id::bigint) || array_agg(machine_id) || array_agg(benchmark_id), array_agg(metric::text),
           NULL::float8[]
      FROM watched HAVING count(*) > 0
 UNION ALL
    SELECT 'benchmark', array_agg(id), array_agg(name::text), NULL
      FROM benchmarks_benchmark WHERE id = ANY (ARRAY(SELECT DISTINCT benchmark_id FROM watched)) HAVING count(*) > 0
 UNION ALL
    SELECT 'stated', array_agg(w.id), NULL, array_agg(stated.effect)
      FROM stated JOIN watched w ON w.project_id = stated.project_id AND w.metric = stated.metric
     WHERE stated.effect IS NOT NULL AND {COMPARES} HAVING count(*) > 0
 UNION ALL
    SELECT 'floor', array_agg(series_id::bigint ORDER BY id), NULL, array_agg(smallest ORDER BY id)
      FROM alerts_noisefloor
     WHERE series_id = ANY (ARRAY(SELECT id FROM watched)) AND smallest IS NOT NULL AND {COMPARES} HAVING count(*) > 0
 UNION ALL
    SELECT 'stored', ARRAY[base_id, head_id, distance]::bigint[] || series::bigint[], answers, numbers FROM stored
 UNION ALL
    SELECT 'flagged', ARRAY[m.series_id, m.commit_id], NULL, NULL
      FROM unnest(ARRAY(SELECT DISTINCT unnest(series) FROM stored WHERE NOT {BY_COMMIT})) AS s (id)
CROSS JOIN LATERAL (
        SELECT m.series_id, m.commit_id
          FROM runs_measurement m
         WHERE m.series_id = s.id AND IS_POINT AND m.commit_id = ANY (ARRAY(SELECT commit_id FROM stored_ends))
      GROUP BY m.series_id, m.commit_id HAVING NOT bool_or(m.flags = '') OFFSET 0) m
 UNION ALL
    SELECT 'flagged', ARRAY[m.series_id, m.commit_id], NULL, NULL
      FROM unnest(ARRAY(SELECT commit_id FROM stored_ends WHERE {BY_COMMIT})) AS c (id)
CROSS JOIN LATERAL (
        SELECT m.series_id, m.commit_id
          FROM runs_measurement m
         WHERE m.commit_id = c.id AND IS_POINT
      GROUP BY m.series_id, m.commit_id HAVING NOT bool_or(m.flags = '') OFFSET 0) m
 UNION ALL
    SELECT 'change', ARRAY[c.series_id, c.commit_id, c.width], ARRAY[c.answer], ARRAY[c.ratio, c.low, c.high]
      FROM unnest(ARRAY(SELECT DISTINCT head_id FROM stored)) AS head (id)
CROSS JOIN LATERAL (
        SELECT c.*, l.number - f.number AS width, CASE WHEN alert.status = 'invalid' THEN 'u' ELSE 'd' END AS answer
          FROM alerts_changepoint c
     LEFT JOIN alerts_alert alert ON alert.id = c.alert_id
          JOIN projects_position l ON l.commit_id = c.commit_id
          JOIN projects_position f ON f.branch_id = l.branch_id AND f.commit_id = c.before_id
         WHERE c.commit_id = head.id AND c.series_id = ANY (ARRAY(SELECT id FROM watched))
           AND c.status = 'confirmed' AND c.kind = 'step'
      ORDER BY c.id OFFSET 0) c
 UNION ALL
    SELECT 'build', ARRAY[side.machine_id, side.commit_id],
           ARRAY(SELECT key || ' ' || (value ->> 'digest') FROM jsonb_each(b.artifacts) ORDER BY 1), NULL
      FROM (SELECT machine_id, base_id AS commit_id FROM ends UNION SELECT machine_id, head_id FROM ends) side
CROSS JOIN LATERAL (
        SELECT b.artifacts
          FROM runs_build b JOIN runs_attempt a ON a.id = b.attempt_id JOIN runs_run r ON r.id = a.run_id
         WHERE b.commit_id = side.commit_id AND b.succeeded AND r.machine_id = side.machine_id
      ORDER BY b.id DESC LIMIT 1) b
 UNION ALL
    SELECT 'pair', ARRAY[r.id, m.id, r.machine_id, r.base_id, r.commit_id, s.benchmark_id] || v.flagged::bigint[],
           ARRAY[s.metric, m.side], v.values
      FROM paired r
      JOIN runs_attempt a ON a.run_id = r.id
CROSS JOIN LATERAL (SELECT * FROM runs_measurement m WHERE m.attempt_id = a.id AND m.accepted OFFSET 0) m
      JOIN runs_series s ON s.id = m.series_id
       AND s.metric = ANY (CASE WHEN cardinality(r.metrics) > 0 THEN r.metrics ELSE ARRAY[%(headline)s] END)
      JOIN runs_samples v ON v.measurement_id = m.id
 UNION ALL
    SELECT 'point', ARRAY[m.commit_id, s.machine_id, s.id, b.id, s.environment_id, m.attempt_id] || v.flagged::bigint[],
           ARRAY[b.name, s.metric, b.ladder] || string_to_array(m.flags, ','), ARRAY[m.value, m.low, m.high] || v.values
      FROM (SELECT series_id, base_id AS commit_id FROM compared UNION SELECT series_id, head_id FROM compared) place
CROSS JOIN LATERAL (
        SELECT m.* FROM runs_measurement m
         WHERE m.series_id = place.series_id AND m.commit_id = place.commit_id AND IS_POINT OFFSET 0) m
      JOIN runs_series s ON s.id = m.series_id
      JOIN benchmarks_benchmark b ON b.id = s.benchmark_id
 LEFT JOIN runs_samples v ON v.measurement_id = m.id
""")  # noqa: S608 - constants
