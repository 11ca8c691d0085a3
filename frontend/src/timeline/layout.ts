// The layout of a timeline's points: their drawn values (relative to a base, logarithmic), and the lines' parts.
import { type Axis, valueAxis } from "../axis";
import { type LineColumns, placeX, type Timeline } from "./document";

export interface Point {
  x: number;
  y: number;
}

export interface MeasuredPoint extends Point {
  at: number;
  low: number;
  high: number;
  doubtful: boolean;
}

/** The drawn points of one environment of a line, and the parts of the line. */
export interface DrawnLine {
  shown: number;
  path: number;
  right: boolean;
  points: MeasuredPoint[];
  stretches: MeasuredPoint[][];
  trials: Point[];
  voidTrials: Point[];
}

export type Range = [number, number];

/** A drawn value: its ratio to the base if there is one, its logarithm on a logarithmic axis. */
export function warp(timeline: Timeline, shown: number, value: number): number {
  const ratio = value / (timeline.shown[shown]!.base?.value ?? 1);
  return timeline.scale === "log" ? (ratio > 0 ? Math.log(ratio) : NaN) : ratio;
}

export function layOut(timeline: Timeline): DrawnLine[] {
  return timeline.lines.map((line) => {
    const { path, right } = timeline.shown[line.shown]!;
    const all = points(timeline, line, path);
    return {
      shown: line.shown,
      path,
      right,
      points: all,
      stretches: stretches(all, timeline.paths[path]!.step),
      trials: trialPoints(timeline, line, path, line.trials),
      voidTrials: trialPoints(timeline, line, path, line.void),
    };
  });
}

function points(timeline: Timeline, line: LineColumns, path: number): MeasuredPoint[] {
  const found: MeasuredPoint[] = [];
  line.at.forEach((at, i) => {
    const [y, low, high] = [line.value[i]!, line.low[i]!, line.high[i]!].map((v) => warp(timeline, line.shown, v));
    if (!Number.isFinite(y)) return; // it cannot be drawn: not finite, or not positive on a logarithmic axis
    const x = placeX(timeline, path, at);
    const ends = { low: Number.isFinite(low) ? low! : y!, high: Number.isFinite(high) ? high! : y! };
    found.push({ x, y: y!, ...ends, at, doubtful: line.flags[at] !== undefined });
  });
  return found;
}

function trialPoints(
  timeline: Timeline,
  line: LineColumns,
  path: number,
  trials: Record<string, number[]> | undefined,
): Point[] {
  return Object.entries(trials ?? {}).flatMap(([at, values]) => {
    const x = placeX(timeline, path, Number(at));
    return values.map((value) => ({ x, y: warp(timeline, line.shown, value) })).filter((p) => Number.isFinite(p.y));
  });
}

/** The stretches of reliable points of neighbouring commits; in an outline, of neighbouring positions of the chart. */
export function stretches(measured: MeasuredPoint[], step = 1): MeasuredPoint[][] {
  const reach = step > 1 ? 2 * step : 1;
  const found: MeasuredPoint[][] = [];
  let last: MeasuredPoint | undefined;
  for (const point of measured) {
    if (point.doubtful) {
      last = undefined;
      continue;
    }
    if (last && point.at <= last.at + reach) found[found.length - 1]!.push(point);
    else found.push([point]);
    last = point;
  }
  return found;
}

/** The stretches as one list, in which a point without a value interrupts the line. */
export function joinStretches(parts: MeasuredPoint[][]): Point[] {
  return parts.flatMap((part, i) => (i === 0 ? part : [{ x: part[0]!.x, y: NaN }, ...part]));
}

/** The horizontal range of a whole timeline, with some room at its ends. */
export function limits(timeline: Timeline): Range {
  if (timeline.axis === "commits") {
    const { first, count } = timeline.paths[0]!;
    return [first - 0.6, first + Math.max(count - 0.4, 0.6)];
  }
  let [low, high] = [Infinity, -Infinity];
  for (const path of timeline.paths)
    for (const at of path.commits.at) {
      low = Math.min(low, path.commits.x![at]!);
      high = Math.max(high, path.commits.x![at]!);
    }
  if (!Number.isFinite(low)) return [0, 1];
  const room = Math.max((high - low) * 0.006, 1800);
  return [low - room, high + room];
}

/** The vertical axis of the lines on one side, for the visible part; null if there are none. Its ends are warped. */
export function visibleAxis(timeline: Timeline, lines: DrawnLine[], right: boolean, [from, to]: Range): Axis | null {
  const units = timeline.shown.filter((one) => one.right === right).map((one) => one.metric.unit);
  if (units.length === 0) return null;
  let [low, high] = [Infinity, -Infinity];
  const see = (x: number, bottom: number, top: number) => {
    if (x < from || x > to) return;
    if (bottom < low) low = bottom;
    if (top > high) high = top;
  };
  for (const line of lines.filter((one) => one.right === right)) {
    for (const p of line.points) see(p.x, p.doubtful ? p.y : p.low, p.doubtful ? p.y : p.high);
    for (const p of line.trials) see(p.x, p.y, p.y);
  }
  const ends = Number.isFinite(low) ? [low, high] : [];
  const values = timeline.scale === "log" ? ends.map(Math.exp) : ends;
  return valueAxis(values, timeline.scale, timeline.base === null ? units[0]! : null);
}
