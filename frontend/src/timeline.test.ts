import assert from "node:assert/strict";
import { test } from "node:test";
import * as t from "./timeline/document";
import { layOut, limits, joinStretches, stretches, visibleAxis } from "./timeline/layout";
import * as r from "./timeline/readings";
import * as w from "./timeline/window";
import { change } from "./units";

const CPU = { name: "server_cpu_ns_per_request", title: "Server CPU per request", unit: "ns", better: "lower" };

function line(at: number[], value: number[], more: Partial<t.LineColumns> = {}): t.LineColumns {
  return {
    shown: 0,
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

function shown(more: Partial<t.ShownLine> = {}): t.ShownLine {
  return {
    line: "kvd/get-p1/cpu@m1:main",
    title: "m1",
    project: "kvd",
    benchmark: "get-p1",
    machine: "m1",
    branch: "main",
    metric: CPU,
    path: 0,
    right: false,
    measured: 7,
    base: null,
    ...more,
  };
}

function path(count: number, more: Partial<t.Path> = {}): t.Path {
  const at = [...Array(count).keys()];
  const commits = {
    at,
    sha: at.map((i) => `${i}`.padStart(12, "0")),
    subject: at.map((i) => `Change ${i}`),
    author: at.map(() => "Ada"),
    time: at.map((i) => 1_700_000_000 + 3600 * i),
  };
  return { project: "kvd", branch: "main", first: 0, count, step: 1, commits, gaps: [], tags: [], ...more };
}

function timeline(lines: t.LineColumns[], count: number, more: Partial<t.Timeline> = {}): t.Timeline {
  return t.byPlace({
    schema: "speedtrack.timeline/4",
    benchmark: "get-p1",
    metric: CPU,
    axis: "commits",
    scale: "fitted",
    base: null,
    problems: [],
    notes: [],
    shown: [shown()],
    paths: [path(count)],
    lines,
    changes: [],
    breaks: [],
    ...more,
  });
}

function shownAs(worse: boolean): Pick<t.Change, "look" | "sign"> {
  return worse ? { look: "worse", sign: "!" } : { look: "better", sign: "✓" };
}

function mark(at: number, status: string, ratio: number, worse = true): t.Change {
  return {
    shown: 0,
    at,
    status,
    width: 1,
    worse,
    ratio,
    words: change(ratio),
    low: ratio,
    high: ratio,
    alert: null,
    alert_state: null,
    ...shownAs(worse),
  };
}

test("commits that several paths share are sent once, gaps of one reason together", () => {
  const commits = {
    sha: ["aa", "bb", "cc"],
    subject: ["A", "B", "C"],
    author: ["Ada", "Ada", "Bob"],
    time: [1, 2, 3],
    unreachable: [2],
  };
  const { commits: _commits, gaps: _gaps, ...bare } = path(3);
  const gaps = [
    { state: "failed", reason: "broken", at: [2, 0] },
    { state: "waiting", reason: "waits", at: [1] },
  ];
  const main = { ...bare, commits: { at: [0, 1], index: [0, 1] }, gaps: [] };
  const other = { ...bare, commits: { at: [0, 2], index: [0, 2] }, gaps };
  const { paths } = t.unpacked({ ...timeline([], 3), commits, paths: [main, other] });
  assert.deepEqual(paths[0]!.commits.sha, ["aa", "bb"]);
  assert.deepEqual(paths[1]!.commits.author, ["Ada", "Bob"]);
  assert.deepEqual(
    paths.map((one) => one.commits.unreachable),
    [[], [2]],
  );
  assert.deepEqual(
    paths[1]!.gaps.map(({ at, state }) => [at, state]),
    [
      [0, "failed"],
      [1, "waiting"],
      [2, "failed"],
    ],
  );
});

const stop = (at: number, path = 0): t.Stop => ({ path, at, x: at });
const stops = (...all: number[]) => all.map((at) => stop(at));

test("unmeasured commits and unreliable points interrupt the line", () => {
  const [drawn] = layOut(timeline([line([0, 1, 3, 4, 5], [1, 2, 3, 9, 4], { flags: { "4": ["steal"] } })], 6));
  assert.deepEqual(
    drawn!.stretches.map((part) => part.map((p) => p.at)),
    [[0, 1], [3], [5]],
  );
  const joined = joinStretches(drawn!.stretches);
  assert.deepEqual(
    joined.map((p) => p.y),
    [1, 2, NaN, 3, NaN, 4],
  );
});

test("the vertical axis fits what is visible", () => {
  const one = timeline([line([0, 1, 2], [100, 110, 500])], 3);
  const lines = layOut(one);
  const near = visibleAxis(one, lines, false, [-0.6, 1.4])!;
  assert.ok(near.low < 99 && near.high > 111.1 && near.high < 130);
  assert.ok(visibleAxis(one, lines, false, [-0.6, 2.4])!.high > 505);
  assert.equal(visibleAxis(one, lines, true, [-0.6, 2.4]), null);
  const calm = timeline([line([0], [100], { low: [99.99], high: [100.01] })], 1);
  const axis = visibleAxis(calm, layOut(calm), false, [-1, 1])!;
  assert.ok(axis.high - axis.low >= 4);
});

test("relative values are ratios to the base, logarithmic ones logarithms of them", () => {
  const base = { sha: "0".repeat(12), value: 100 };
  const relative = timeline([line([0, 1], [100, 110])], 2, { base: base.sha, shown: [shown({ base })] });
  assert.deepEqual(
    layOut(relative)[0]!.points.map((p) => p.y),
    [1, 1.1],
  );
  assert.ok(visibleAxis(relative, layOut(relative), false, [-1, 2])!.ticks.some(([, label]) => label === "+10%"));
  const log = timeline([line([0, 1, 2], [1, 0, 1000])], 3, { scale: "log" });
  assert.deepEqual(
    layOut(log)[0]!.points.map((p) => [p.at, p.y]),
    [
      [0, 0],
      [2, Math.log(1000)],
    ],
  );
  const axis = visibleAxis(log, layOut(log), false, [-1, 3])!;
  assert.ok(axis.logarithmic && axis.low < 1 && axis.high > 1000);
});

test("over time, no commit lies before the one before it", () => {
  const late = path(3, { commits: { ...path(3).commits, time: [100, 50, 200] } });
  const one = timeline([line([0, 1, 2], [1, 1, 1])], 3, { axis: "time", paths: [late] });
  assert.deepEqual(
    layOut(one)[0]!.points.map((p) => p.x),
    [100, 100, 200],
  );
  assert.deepEqual(limits(one), [-1700, 2000]);
  assert.deepEqual(t.placesWithin(one, 0, [150, 300]), [2, 2]);
  assert.equal(t.placeX(one, 0, 1.5), 200);
});

test("gaps keep their reason; long timelines leave out what nobody asked for", () => {
  const gap = { at: 2, state: "failed", reason: "make exited with code 2" };
  const one = timeline([line([0], [1])], 4, { paths: [path(4, { gaps: [gap] })] });
  assert.deepEqual(
    t.gaps(one, 0).map((g) => g.state),
    ["unmeasured", "failed", "unmeasured"],
  );
  assert.deepEqual(t.gaps(one, 0, 3), [gap]);
});

test("one mark per commit and direction, the surest first", () => {
  const all = [mark(5, "suspected", 1.5), mark(5, "confirmed", 1.05), mark(5, "confirmed", 1.1)];
  const found = t.marks(timeline([], 9, { changes: [...all, mark(5, "confirmed", 0.9, false)] }));
  assert.deepEqual(
    found.map((c) => [c.ratio, c.worse]),
    [
      [1.1, true],
      [0.9, false],
    ],
  );
});

test("a break says what changed, and on which machine where there are several", () => {
  const one = { path: 0, at: 1, machine: "m1", what: "kernel 6.1 → 6.2", facts: [] };
  const alone = timeline([line([0, 1], [1, 1])], 2, { breaks: [one] });
  assert.equal(r.breakText(alone, one, 60), "kernel 6.1 → 6.2");
  assert.equal(r.breakText(alone, one, 10), "kernel 6.…");
  assert.ok(r.commitSentences(alone, stop(1)).includes("new environment: kernel 6.1 → 6.2"));
  assert.ok(!r.commitSentences(alone, stop(0)).join().includes("environment"));
  const two = timeline([line([0, 1], [1, 1])], 2, { shown: [shown(), shown({ machine: "m2" })], breaks: [one] });
  assert.equal(r.breakText(two, one, 60), "m1: kernel 6.1 → 6.2");
});

test("pointer and keyboard stop at what there is", () => {
  const paths = [path(6, { gaps: [{ at: 2, state: "failed", reason: "x" }] })];
  const all = t.stopsOfPath(timeline([line([1, 4], [1, 1])], 6, { paths }), 0);
  assert.deepEqual(
    all.map(({ at }) => at),
    [1, 2, 4],
  );
  assert.equal(t.nextStop(all, null, -1)!.at, 4);
  assert.equal(t.nextStop(all, stop(4), -1)!.at, 2);
  assert.equal(t.nextStop(all, stop(1), -1)!.at, 1);
  assert.equal(t.nextStop(all, stop(4), 1)!.at, 4);
  assert.equal(t.nextStop([], null, 1), null);
  const near = (x: number) => t.nearestStop(stops(1, 4, 9), x)!.at;
  assert.deepEqual([6, 7, -3, 99].map(near), [4, 9, 1, 9]);
  assert.equal(t.nearestStop([], 1), null);
});

test("a commit in words, against the one before and the last release", () => {
  const paths = [path(4, { tags: [{ at: 0, name: "v1.0" }] })];
  const released = (name: string, hours: number) => {
    const time = 1_700_000_000 + 3600 * hours;
    return { name, time, value: 5000, low: 4950, high: 5050 };
  };
  // Wherever they lie: v0.9 before all that is shown, v1.0 on it, and v1.1 on another branch after the second commit.
  const releases = [released("v0.9", -9), released("v1.0", 0), released("v1.1", 1.5)];
  const drawn = line([0, 2, 3], [5000, 5400, 5400], { releases: releases.slice(0, 2) });
  const one = timeline([drawn], 4, { paths, changes: [mark(2, "confirmed", 1.08)] });
  assert.deepEqual(r.commitSentences(one, stop(2)), [
    "5.40 µs (5.35 to 5.45 µs, n = 5)",
    "  +8.0% against 0000000000, 2 commits before",
    "  +8.0% against v1.0",
    "! slower +8.0%, confirmed",
  ]);
  const fixed = { ...mark(2, "confirmed", 1.08), alert: 7, alert_state: "fixed", look: "settled" as const };
  assert.equal(r.changeText(one, fixed), "! slower +8.0%, confirmed, alert 7 (fixed)");
  assert.equal(
    r.changeText(one, { ...fixed, alert_state: "confirmed", look: "worse" }),
    "! slower +8.0%, confirmed, alert 7",
  );
  assert.deepEqual(r.commitSentences(one, stop(1)), ["not measured"]);
  assert.ok(r.commitSentences(one, stop(0)).includes("tag v1.0"));
  assert.deepEqual(r.commitTitle(one, stop(0)), ["0000000000  Change 0", "Ada, 2023-11-14 22:13 UTC"]);
  assert.equal(r.readings(one, stop(3))[0]!.previous!.commits, 1);
  const last = (places: number[], at: number) => {
    const lines = [line(places, [5400, 5400, 5400].slice(0, places.length), { releases })];
    return r.readings(timeline(lines, 4), stop(at))[0]!.release!.name;
  };
  assert.deepEqual([last([0, 2], 0), last([0, 1], 1), last([2], 2)], ["v0.9", "v1.0", "v1.1"]);
});

test("another branch's point at the same commit is read, too", () => {
  const other = path(2, { branch: "old" });
  const lines = [line([0, 1, 2], [1, 2, 3]), line([0, 1], [10, 20], { shown: 1 })];
  const more = { axis: "time" as const, shown: [shown(), shown({ path: 1, title: "old" })], paths: [path(3), other] };
  const one = timeline(lines, 3, more);
  assert.deepEqual(
    r.readings(one, stop(1)).map((reading) => [reading.shown, reading.value]),
    [
      [0, 2],
      [1, 20],
    ],
  );
  assert.equal(r.readings(one, stop(2)).length, 1);
  assert.equal(r.commitTitle(one, stop(1, 1))[0], "kvd old  0000000000  Change 1");
});

test("an outline joins neighbouring places, and knows the commits that it has", () => {
  const [at, values] = [
    [0, 9, 19, 40, 44],
    [1, 2, 3, 4, 5],
  ];
  const of = (word: string) => at.map((place) => `${word} ${place}`);
  const commits = { at, sha: of("sha"), subject: of("subject"), author: of("author"), time: at };
  const one = timeline([line(at, values)], 45, { paths: [path(45, { step: 10, commits })] });
  assert.deepEqual(
    layOut(one)[0]!.stretches.map((part) => part.map((p) => p.x)),
    [
      [0, 9, 19],
      [40, 44],
    ],
  );
  const [known] = one.paths;
  assert.equal(known!.commits.sha.length, 45);
  assert.equal(known!.commits.sha[19], "sha 19");
  known!.commits.unreachable = [19];
  assert.ok(r.commitSentences(one, stop(19)).includes("unreachable: no branch and no tag leads to it"));
  assert.ok(!r.commitSentences(one, stop(40)).some((text) => text.startsWith("unreachable")));
  assert.deepEqual([t.knownPlace(known!, 20, -1), t.knownPlace(known!, 20, 1)], [19, 40]);
  assert.equal(r.readings(one, stop(19))[0]!.previous, null); // what lies between is not known here
});

test("neighbours are neighbours by their place", () => {
  const points = [0, 1, 3].map((at) => ({ at, x: at, y: 1, low: 1, high: 1, doubtful: false }));
  assert.deepEqual(
    stretches(points).map((part) => part.length),
    [2, 1],
  );
});

test("the visible part stays within its limits", () => {
  assert.deepEqual(w.clamp([-5, 5], [0, 100], 4), [0, 10]);
  assert.deepEqual(w.clamp([98, 99], [0, 100], 4), [96, 100]);
  assert.deepEqual(w.clamp([-50, 500], [0, 100], 4), [0, 100]);
  assert.deepEqual(w.zoomed([0, 100], 25, 0.5), [12.5, 62.5]);
  assert.deepEqual(w.showing([0, 100], 50), [0, 100]);
  assert.deepEqual(w.showing([0, 100], 120), [25, 125]);
  assert.ok(w.isWholeRange([0, 100], [0, 100]) && !w.isWholeRange([0, 90], [0, 100]));
});

test("the coverage is told in words, of several lines by each", () => {
  assert.equal(t.coverageText(timeline([], 8, { shown: [] })), "No commit of this range was measured.");
  assert.equal(t.coverageText(timeline([], 8)), "7 of 8 commits measured.");
  const two = timeline([], 8, { shown: [shown(), shown({ title: "m2", measured: 3 })] });
  assert.equal(t.coverageText(two), "Commits measured: m1 7 of 8; m2 3 of 8.");
});
