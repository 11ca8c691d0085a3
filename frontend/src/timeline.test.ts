import assert from "node:assert/strict";
import { test } from "node:test";
import * as t from "./timeline";

function line(at: number[], value: number[], more: Partial<t.LineColumns> = {}): t.LineColumns {
  return {
    machine: "m1",
    environment: "e1",
    definition: "d1",
    at,
    value,
    low: value.map((v) => v * 0.99),
    high: value.map((v) => v * 1.01),
    n: value.map(() => 5),
    flags: {},
    ...more,
  };
}

function timeline(lines: t.LineColumns[], count: number, more: Partial<t.Timeline> = {}): t.Timeline {
  const each = [...Array(count).keys()];
  return {
    schema: "speedtrack.timeline/2",
    benchmark: "get-p1",
    metric: { name: "server_cpu_ns_per_request", title: "Server CPU per request", unit: "ns", better: "lower" },
    count,
    step: 1,
    measured: { m1: count },
    commits: {
      at: each,
      sha: each.map((i) => `${i}`.padStart(12, "0")),
      subject: each.map((i) => `Change ${i}`),
      author: each.map(() => "Ada"),
      time: each.map((i) => 1_700_000_000 + i),
    },
    lines,
    gaps: [],
    changes: [],
    breaks: [],
    tags: [],
    ...more,
  };
}

function mark(at: number, status: string, ratio: number, worse = true): t.Change {
  return { at, machine: "m1", status, width: 1, worse, ratio, low: ratio, high: ratio, alert: null };
}

test("an unmeasured commit breaks the line", () => {
  const parts = t.stretches(t.points(line([0, 1, 3, 4], [1, 2, 3, 4])));
  assert.deepEqual(
    parts.map((part) => part.map((p) => p.x)),
    [
      [0, 1],
      [3, 4],
    ],
  );
  const drawn = t.joinStretches(parts);
  assert.deepEqual(
    drawn.map((p) => p.x),
    [0, 1, 2.5, 3, 4],
  );
  assert.ok(Number.isNaN(drawn[2]!.y));
});

test("a flagged point is no part of the line", () => {
  const parts = t.stretches(t.points(line([0, 1, 2], [1, 9, 1], { flags: { "1": ["steal"] } })));
  assert.deepEqual(
    parts.map((part) => part.map((p) => p.x)),
    [[0], [2]],
  );
});

test("bounds hold every interval and do not magnify noise", () => {
  const [low, high] = t.bounds(t.points(line([0, 1], [100, 110])), false);
  assert.ok(low < 99 && high > 111.1);
  const [calmLow, calmHigh] = t.bounds(t.points(line([0], [100], { low: [99.99], high: [100.01] })), false);
  assert.ok(calmHigh - calmLow >= 4);
  assert.equal(t.bounds(t.points(line([0], [100])), true)[0], 0);
  assert.deepEqual(t.bounds([], false), [0, 1]);
});

test("bounds take ten thousand points", () => {
  const many = [...Array(10_000).keys()];
  const [low, high] = t.bounds(
    t.points(
      line(
        many,
        many.map((i) => 100 + (i % 7)),
      ),
    ),
    false,
  );
  assert.ok(low < 100 && high > 106);
});

test("rulings are round, few and inside", () => {
  assert.deepEqual(t.axisTicks(4.74, 5.86, 5), { at: [4.75, 5, 5.25, 5.5, 5.75], step: 0.25 });
  assert.deepEqual(t.axisTicks(0, 100, 5).at, [0, 20, 40, 60, 80, 100]);
  const { at } = t.axisTicks(146_000, 208_000, 7);
  assert.ok(at.length >= 4 && at.length <= 8 && at.every((v) => v >= 146_000 && v <= 208_000));
});

test("gaps keep their reason; long timelines leave out what nobody asked for", () => {
  const gap = { at: 2, state: "failed", reason: "make exited with code 2" };
  const one = timeline([line([0], [1])], 4, { gaps: [gap] });
  assert.deepEqual(
    t.gaps(one).map((g) => g.state),
    ["unmeasured", "failed", "unmeasured"],
  );
  assert.deepEqual(t.gaps(one, 3), [gap]);
});

test("one mark per commit and direction, the surest first", () => {
  const found = t.marks([
    mark(5, "suspected", 1.5),
    mark(5, "confirmed", 1.05),
    mark(5, "confirmed", 1.1),
    mark(5, "confirmed", 0.9, false),
  ]);
  assert.deepEqual(
    found.map((c) => [c.ratio, c.worse]),
    [
      [1.1, true],
      [0.9, false],
    ],
  );
});

test("a break says what changed, and on which machine where there are several", () => {
  const one = { at: 1, machine: "m1", what: "kernel 6.1 → 6.2", facts: [] };
  const alone = timeline([line([0, 1], [1, 1])], 2, { breaks: [one] });
  assert.equal(t.breakText(alone, one, 60), "kernel 6.1 → 6.2");
  assert.equal(t.breakText(alone, one, 10), "kernel 6.…");
  assert.ok(t.commitSentences(alone, 1).includes("new environment: kernel 6.1 → 6.2"));
  assert.ok(!t.commitSentences(alone, 0).join().includes("environment"));
  const two = timeline([line([0, 1], [1, 1]), line([0], [1], { machine: "m2" })], 2, { breaks: [one] });
  assert.equal(t.breakText(two, one, 60), "m1: kernel 6.1 → 6.2");
});

test("the keyboard steps over what there is", () => {
  const all = t.stops(timeline([line([1, 4], [1, 1])], 6, { gaps: [{ at: 2, state: "failed", reason: "x" }] }));
  assert.deepEqual(all, [1, 2, 4]);
  assert.equal(t.nextStop(all, null, -1), 4);
  assert.equal(t.nextStop(all, 4, -1), 2);
  assert.equal(t.nextStop(all, 1, -1), 1);
  assert.equal(t.nextStop(all, 4, 1), 4);
  assert.equal(t.nextStop([], null, 1), null);
});

test("the nearest stop", () => {
  assert.equal(t.nearestStop([1, 4, 9], 6), 4);
  assert.equal(t.nearestStop([1, 4, 9], 7), 9);
  assert.equal(t.nearestStop([1, 4, 9], -3), 1);
  assert.equal(t.nearestStop([1, 4, 9], 99), 9);
  assert.equal(t.nearestStop([], 1), null);
});

test("a commit in words", () => {
  const one = timeline([line([0, 1], [5000, 5400])], 3, { changes: [mark(1, "confirmed", 1.08)] });
  assert.deepEqual(t.commitSentences(one, 1), ["5.40 µs (5.35 to 5.45 µs, n = 5)", "▼ slower +8.0%, confirmed"]);
  assert.deepEqual(t.commitSentences(one, 2), ["not measured"]);
  assert.deepEqual(t.commitTitle(one, 0), ["0000000000  Change 0", "Ada, 2023-11-14 22:13 UTC"]);
});

test("an outline joins neighbouring places, and knows the commits that it has", () => {
  const [at, values] = [
    [0, 9, 19, 40, 44],
    [1, 2, 3, 4, 5],
  ];
  const parts = t.stretches(t.points(line(at, values)), 10);
  assert.deepEqual(
    parts.map((part) => part.map((p) => p.x)),
    [
      [0, 9, 19],
      [40, 44],
    ],
  );
  const of = (word: string) => at.map((place) => `${word} ${place}`);
  const commits = { at, sha: of("sha"), subject: of("subject"), author: of("author"), time: at };
  const whole = t.byPlace(timeline([line(at, values)], 45, { step: 10, commits }));
  assert.equal(whole.commits.sha.length, 45);
  assert.equal(whole.commits.sha[19], "sha 19");
  assert.deepEqual([t.knownPlace(whole, 20, -1), t.knownPlace(whole, 20, 1)], [19, 40]);
  assert.equal(t.knownPlace(whole, 9, 1), 9);
});

test("the coverage is told in words, of several machines by each", () => {
  assert.equal(t.coverageText(timeline([], 8, { measured: {} })), "0 of 8 commits measured.");
  assert.equal(t.coverageText(timeline([], 8, { measured: { m1: 7 } })), "7 of 8 commits measured.");
  assert.equal(t.coverageText(timeline([], 8, { measured: { m2: 3, m1: 7 } })), "m1 7, m2 3 of 8 commits measured.");
});
