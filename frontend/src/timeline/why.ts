// The test of one point of a line (speedtrack.why/1): two levels, and the band that the new one would have to leave.
import { placeX, type Stop, type Timeline } from "./document";

export interface Level {
  first: string;
  last: string;
  commits: number;
  level: number;
}

export interface Why {
  sha: string;
  machine: string;
  is_suspicious: boolean;
  summary: string;
  judgement: string;
  steps: string[];
  before: Level | null;
  after: Level | null;
  low: number | null;
  high: number | null;
  base: string | null;
}

/** A level or a band on the chart: from one x to another. */
export interface DrawnTest {
  right: boolean;
  before: { from: number; to: number; level: number };
  after: { from: number; to: number; level: number };
  /** The values between which the new level raises no suspicion; null: whatever it is. */
  band: { low: number; high: number } | null;
}

/** Where the test lies on the chart; null if there is none, or if the chart shows values relative to a base. */
export function drawnTest(timeline: Timeline, stop: Stop, why: Why | null): DrawnTest | null {
  const line = timeline.shown.find((one) => one.path === stop.path);
  if (!why?.before || !why.after || !line || line.base) return null;
  const { sha } = timeline.paths[stop.path]!.commits;
  const x = (name: string, otherwise: number) => {
    const at = sha.indexOf(name);
    return at < 0 ? otherwise : placeX(timeline, stop.path, at);
  };
  const middle = x(why.sha, stop.x) - 0.5 * step(timeline, stop);
  return {
    right: line.right,
    before: { from: x(why.before.first, placeX(timeline, stop.path, 0)), to: middle, level: why.before.level },
    after: { from: middle, to: x(why.after.last, stop.x) + 0.5 * step(timeline, stop), level: why.after.level },
    band: why.low === null || why.high === null ? null : { low: why.low, high: why.high },
  };
}

/** The distance between two commits: on an axis of time that of the stop from the commit before it. */
function step(timeline: Timeline, stop: Stop): number {
  if (timeline.axis !== "time") return 1;
  return stop.at > 0 ? placeX(timeline, stop.path, stop.at) - placeX(timeline, stop.path, stop.at - 1) : 0;
}
