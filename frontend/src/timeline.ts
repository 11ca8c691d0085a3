// The document of a timeline, and what drawing needs of it. Pure functions: no chart, no page.
import { change, effect, interval, quantity } from "./units";

export interface LineColumns {
  machine: string;
  environment: string;
  definition: string;
  at: number[];
  value: number[];
  low: number[];
  high: number[];
  n: number[];
  /** By place, as in `at`; clean points have no entry. */
  flags: Record<string, string[]>;
}

export interface Gap {
  at: number;
  state: string;
  reason: string;
}

export interface Change {
  at: number;
  machine: string;
  status: string;
  /** How many commits, the one at this place and those before it, may be the cause. */
  width: number;
  worse: boolean;
  ratio: number;
  low: number;
  high: number;
  alert: number | null;
}

export interface Break {
  at: number;
  machine: string;
  what: string;
  facts: { fact: string; before: string; after: string }[];
}

export interface Commits {
  /** The places of the commits. */
  at: number[];
  sha: string[];
  subject: string[];
  author: string[];
  time: number[];
}

export interface Timeline {
  schema: string;
  benchmark: string;
  metric: { name: string; title: string; unit: string; better: string };
  /** How many commits the timeline has. */
  count: number;
  /** How many commits share a place of the chart; above 1, the lines are outlines, and only their commits are here. */
  step: number;
  /** How many commits each machine measured. */
  measured: Record<string, number>;
  commits: Commits;
  lines: LineColumns[];
  gaps: Gap[];
  changes: Change[];
  /** Where a machine's points change from one environment or definition to another. */
  breaks: Break[];
  tags: { at: number; name: string }[];
}

export interface Point {
  x: number;
  y: number;
}

export interface MeasuredPoint extends Point {
  low: number;
  high: number;
  n: number;
  flags: string[];
}

const NO_FLAGS: string[] = [];

/** The timeline with the columns of its commits by place; places of commits that it omits stay empty. */
export function byPlace(timeline: Timeline): Timeline {
  const { at, sha, subject, author, time } = timeline.commits;
  const spread = <T>(column: T[]): T[] => {
    const found = new Array<T>(timeline.count);
    at.forEach((place, i) => (found[place] = column[i]!));
    return found;
  };
  const commits = { at, sha: spread(sha), subject: spread(subject), author: spread(author), time: spread(time) };
  return { ...timeline, commits };
}

/** The nearest place not after (-1) or not before (1) another one, of which the timeline has the commit. */
export function knownPlace(timeline: Timeline, from: number, by: 1 | -1): number {
  let at = from;
  while (at > 0 && at < timeline.count - 1 && timeline.commits.sha[at] === undefined) at += by;
  return at;
}

export function points(line: LineColumns): MeasuredPoint[] {
  return line.at.map((_, i) => point(line, i));
}

function point(line: LineColumns, i: number): MeasuredPoint {
  const x = line.at[i]!;
  const [y, low, high, n] = [line.value[i]!, line.low[i]!, line.high[i]!, line.n[i]!];
  return { x, y, low, high, n, flags: line.flags[x] ?? NO_FLAGS };
}

/** The stretches of clean points of neighbouring commits; of an outline, those of neighbouring places of the chart. */
export function stretches(measured: MeasuredPoint[], step = 1): MeasuredPoint[][] {
  const reach = step > 1 ? 2 * step : 1;
  const found: MeasuredPoint[][] = [];
  let last: MeasuredPoint | undefined;
  for (const point of measured) {
    if (point.flags.length > 0) {
      last = undefined;
      continue;
    }
    if (last && point.x <= last.x + reach) found[found.length - 1]!.push(point);
    else found.push([point]);
    last = point;
  }
  return found;
}

/** The stretches as one list, in which a point without a value interrupts the line. */
export function joinStretches(parts: MeasuredPoint[][]): Point[] {
  return parts.flatMap((part, i) => (i === 0 ? part : [{ x: part[0]!.x - 0.5, y: NaN }, ...part]));
}

/** The vertical range: it holds all points, and is never so narrow that noise looks like a step. */
export function bounds(all: MeasuredPoint[], fromZero: boolean): [number, number] {
  const low = Math.min(...[Infinity], ...chunked(all, (p) => (p.flags.length ? p.y : p.low), Math.min));
  const high = Math.max(...[-Infinity], ...chunked(all, (p) => (p.flags.length ? p.y : p.high), Math.max));
  if (!Number.isFinite(low)) return [0, 1];
  const middle = (low + high) / 2;
  const half = Math.max((high - low) / 2, 0.02 * Math.abs(middle), Number.MIN_VALUE);
  const top = middle + 1.15 * half;
  return fromZero ? [Math.min(0, low), top] : [middle - 1.1 * half, top];
}

/** Round numbers between two ends, about `most` of them, and their step. */
export function axisTicks(low: number, high: number, most: number): { at: number[]; step: number } {
  const rough = (high - low) / most;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = power * [1, 2, 2.5, 5, 10].find((nice) => nice * power >= rough)!;
  const first = Math.ceil(low / step - 1e-9);
  const last = Math.floor(high / step + 1e-9);
  return { at: [...Array(Math.max(0, last - first + 1)).keys()].map((i) => (first + i) * step), step };
}

/** Folds a long list in pieces: the number of arguments of a call is limited. */
function chunked(
  all: MeasuredPoint[],
  of: (p: MeasuredPoint) => number,
  fold: (...values: number[]) => number,
): number[] {
  const found: number[] = [];
  for (let i = 0; i < all.length; i += 4096) found.push(fold(...all.slice(i, i + 4096).map(of)));
  return found;
}

/** The commits without any point. Long timelines omit those that are merely not measured. */
export function gaps(timeline: Timeline, most = 400): Gap[] {
  const count = timeline.commits.sha.length;
  const known = new Map(timeline.gaps.map((gap) => [gap.at, gap]));
  const measured = new Set(timeline.lines.flatMap((line) => line.at));
  const found: Gap[] = [];
  for (let at = 0; at < count; at++) {
    if (measured.has(at)) continue;
    const gap = known.get(at) ?? (count <= most ? { at, state: "unmeasured", reason: "not measured" } : undefined);
    if (gap) found.push(gap);
  }
  return found;
}

const WEIGHT: Record<string, number> = { confirmed: 3, settling: 2, suspected: 2, history: 2, unsettled: 1 };

/** One mark per commit and direction: of several lines the most certain change, then the largest. */
export function marks(changes: Change[]): Change[] {
  const best = new Map<string, Change>();
  for (const next of changes) {
    const key = `${next.at}/${next.worse}`;
    const known = best.get(key);
    if (!known || weight(next) > weight(known)) best.set(key, next);
  }
  return [...best.values()];
}

function weight(one: Change): number {
  return (WEIGHT[one.status] ?? 0) * 1000 + Math.min(999, Math.abs(Math.log(one.ratio)) * 100);
}

/** The text of a break, in at most `most` characters. */
export function breakText(timeline: Timeline, one: Break, most: number): string {
  const who = machines(timeline).length > 1 ? `${one.machine}: ` : "";
  return cut(`${who}${one.what}`, most);
}

/** How many of the commits are measured, as a sentence; of several machines, by each. */
export function coverageText({ measured, count }: Timeline): string {
  const found = Object.entries(measured).sort();
  const numbers = found.length > 1 ? found.map(([name, n]) => `${name} ${n}`).join(", ") : `${found[0]?.[1] ?? 0}`;
  return `${numbers} of ${count} commits measured.`;
}

/** The names of the machines that have points here, in order. */
export function machines(timeline: Timeline): string[] {
  return [...new Set(timeline.lines.map((line) => line.machine))].sort();
}

/** The commits that keyboard and pointer stop at, in order. */
export function stops(timeline: Timeline): number[] {
  const all = new Set([...timeline.lines.flatMap((line) => line.at), ...timeline.gaps.map((gap) => gap.at)]);
  return [...all].sort((a, b) => a - b);
}

/** The stop after or before a place, at an end the end itself; the last stop if no place is given. */
export function nextStop(all: number[], from: number | null, by: 1 | -1): number | null {
  if (all.length === 0) return null;
  if (from === null) return all[all.length - 1]!;
  const next = by > 0 ? all.find((x) => x > from) : all.findLast((x) => x < from);
  return next ?? (by > 0 ? all[all.length - 1]! : all[0]!);
}

/** The stop nearest to a place. */
export function nearestStop(all: number[], x: number): number | null {
  let low = 0;
  let high = all.length - 1;
  if (high < 0) return null;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (all[middle]! < x) low = middle + 1;
    else high = middle;
  }
  const after = all[low]!;
  const before = all[low - 1] ?? after;
  return x - before <= after - x ? before : after;
}

/** A commit in two lines: hash and subject, author and time. */
export function commitTitle(timeline: Timeline, at: number): string[] {
  const { sha, subject, author, time } = timeline.commits;
  const moment = new Date(1000 * time[at]!).toISOString().slice(0, 16).replace("T", " ");
  return [`${sha[at]!.slice(0, 10)}  ${cut(subject[at]!, 60)}`, `${author[at]}, ${moment} UTC`];
}

function cut(text: string, most: number): string {
  return text.length > most ? `${text.slice(0, most - 1)}…` : text;
}

/** All that is known of a commit: one sentence per line, change, break, tag and gap. */
export function commitSentences(timeline: Timeline, at: number): string[] {
  const several = machines(timeline).length > 1;
  const found: string[] = [];
  for (const line of timeline.lines) {
    const i = line.at.indexOf(at);
    if (i >= 0) found.push(`${several ? `${line.machine}: ` : ""}${pointText(timeline.metric.unit, point(line, i))}`);
  }
  for (const one of timeline.changes.filter((c) => c.at === at)) {
    found.push(
      `${one.worse ? "▼" : "▲"} ${effect(timeline.metric.name, one.worse)} ${change(one.ratio)}${several ? ` on ${one.machine}` : ""}, ${one.status}${one.width > 1 ? `, by one of ${one.width} commits up to this one` : ""}`,
    );
  }
  for (const one of timeline.breaks.filter((b) => b.at === at))
    found.push(`new environment: ${breakText(timeline, one, 200)}`);
  for (const tag of timeline.tags.filter((t) => t.at === at)) found.push(`tag ${tag.name}`);
  const gap = timeline.gaps.find((g) => g.at === at);
  if (found.length === 0 || gap) found.push(gap?.reason ?? "not measured");
  return found;
}

function pointText(unit: string, p: MeasuredPoint): string {
  const flags = p.flags.length > 0 ? `, unreliable: ${p.flags.join(", ")}` : "";
  return `${quantity(unit, p.y)} (${interval(unit, p.low, p.high)}, n = ${p.n})${flags}`;
}
