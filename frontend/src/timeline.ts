// What a timeline's document says, worked out for drawing. Pure: no chart, no page.
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
  /** By commit, counted as in `at`; clean points have none. */
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
  /** How many commits, up to the one it stands at, may be the cause. */
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
}

export interface Timeline {
  schema: string;
  benchmark: string;
  metric: { name: string; title: string; unit: string; better: string };
  commits: { sha: string[]; subject: string[]; author: string[]; time: number[] };
  lines: LineColumns[];
  gaps: Gap[];
  changes: Change[];
  /** Where a machine's points go over from one environment or definition to another. */
  breaks: Break[];
  tags: { at: number; name: string }[];
}

export interface Point {
  x: number;
  y: number;
}

export interface Measured extends Point {
  low: number;
  high: number;
  n: number;
  flags: string[];
}

const NO_FLAGS: string[] = [];

export function points(line: LineColumns): Measured[] {
  return line.at.map((x, i) => ({
    x,
    y: line.value[i]!,
    low: line.low[i]!,
    high: line.high[i]!,
    n: line.n[i]!,
    flags: line.flags[x] ?? NO_FLAGS,
  }));
}

/** Stretches of neighbouring commits with clean points: a commit without one ends a stretch. */
export function stretches(measured: Measured[]): Measured[][] {
  const found: Measured[][] = [];
  let last: Measured | undefined;
  for (const point of measured) {
    if (point.flags.length > 0) {
      last = undefined;
      continue;
    }
    if (last && point.x === last.x + 1) found[found.length - 1]!.push(point);
    else found.push([point]);
    last = point;
  }
  return found;
}

/** The stretches as one list in which a point without value breaks the line. */
export function withBreaks(parts: Measured[][]): Point[] {
  return parts.flatMap((part, i) => (i === 0 ? part : [{ x: part[0]!.x - 0.5, y: NaN }, ...part]));
}

/** The vertical range: all intervals of clean points, and never so narrow that noise looks like a cliff. */
export function bounds(all: Measured[], fromZero: boolean): [number, number] {
  const low = Math.min(...[Infinity], ...chunked(all, (p) => (p.flags.length ? p.y : p.low), Math.min));
  const high = Math.max(...[-Infinity], ...chunked(all, (p) => (p.flags.length ? p.y : p.high), Math.max));
  if (!Number.isFinite(low)) return [0, 1];
  const middle = (low + high) / 2;
  const half = Math.max((high - low) / 2, 0.02 * Math.abs(middle), Number.MIN_VALUE);
  const top = middle + 1.15 * half;
  return fromZero ? [Math.min(0, low), top] : [middle - 1.1 * half, top];
}

/** Round numbers between two ends, at most so many, and their step. */
export function rulings(low: number, high: number, most: number): { at: number[]; step: number } {
  const rough = (high - low) / most;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = power * [1, 2, 2.5, 5, 10].find((nice) => nice * power >= rough)!;
  const first = Math.ceil(low / step - 1e-9);
  const last = Math.floor(high / step + 1e-9);
  return { at: [...Array(Math.max(0, last - first + 1)).keys()].map((i) => (first + i) * step), step };
}

/** Folds long lists in pieces, because a call takes only so many arguments. */
function chunked(all: Measured[], of: (p: Measured) => number, fold: (...values: number[]) => number): number[] {
  const found: number[] = [];
  for (let i = 0; i < all.length; i += 4096) found.push(fold(...all.slice(i, i + 4096).map(of)));
  return found;
}

/** The commits without any point. Those that nobody asked for are left out of long timelines. */
export function gaps(timeline: Timeline, most = 400): Gap[] {
  const count = timeline.commits.sha.length;
  const told = new Map(timeline.gaps.map((gap) => [gap.at, gap]));
  const measured = new Set(timeline.lines.flatMap((line) => line.at));
  const found: Gap[] = [];
  for (let at = 0; at < count; at++) {
    if (measured.has(at)) continue;
    const gap = told.get(at) ?? (count <= most ? { at, state: "unmeasured", reason: "not measured" } : undefined);
    if (gap) found.push(gap);
  }
  return found;
}

const WEIGHT: Record<string, number> = { confirmed: 3, settling: 2, suspected: 2, history: 2, unsettled: 1 };

/** One mark per commit and direction: the surest, then the largest of several lines. */
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

/** What a break says, in so many characters. */
export function breakText(timeline: Timeline, one: Break, most: number): string {
  const who = machines(timeline).length > 1 ? `${one.machine}: ` : "";
  return cut(`${who}${one.what}`, most);
}

/** The names of the machines that have points here, in order. */
export function machines(timeline: Timeline): string[] {
  return [...new Set(timeline.lines.map((line) => line.machine))].sort();
}

/** The commits that the keyboard stops at, in order. */
export function stops(timeline: Timeline): number[] {
  const all = new Set([...timeline.lines.flatMap((line) => line.at), ...timeline.gaps.map((gap) => gap.at)]);
  return [...all].sort((a, b) => a - b);
}

/** The stop after (or before) a place; the last (or first) one from nowhere or from an end. */
export function step(all: number[], from: number | null, by: 1 | -1): number | null {
  if (all.length === 0) return null;
  if (from === null) return all[all.length - 1]!;
  const next = by > 0 ? all.find((x) => x > from) : all.findLast((x) => x < from);
  return next ?? (by > 0 ? all[all.length - 1]! : all[0]!);
}

/** The stop nearest to a place. */
export function nearest(all: number[], x: number): number | null {
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

/** A commit in two lines: its hash and subject, its author and day. */
export function title(timeline: Timeline, at: number): string[] {
  const { sha, subject, author, time } = timeline.commits;
  const day = new Date(1000 * time[at]!).toISOString().slice(0, 16).replace("T", " ");
  return [`${sha[at]!.slice(0, 10)}  ${cut(subject[at]!, 60)}`, `${author[at]}, ${day} UTC`];
}

function cut(text: string, most: number): string {
  return text.length > most ? `${text.slice(0, most - 1)}…` : text;
}

/** What is known of a commit: a sentence per line, mark and gap. */
export function sentences(timeline: Timeline, at: number): string[] {
  const several = machines(timeline).length > 1;
  const said: string[] = [];
  for (const line of timeline.lines) {
    const i = line.at.indexOf(at);
    if (i >= 0) said.push(`${several ? `${line.machine}: ` : ""}${pointText(timeline.metric.unit, points(line)[i]!)}`);
  }
  for (const one of timeline.changes.filter((c) => c.at === at)) {
    said.push(
      `${one.worse ? "▼" : "▲"} ${effect(timeline.metric.name, one.worse)} ${change(one.ratio)}${several ? ` on ${one.machine}` : ""}, ${one.status}${one.width > 1 ? `, by one of ${one.width} commits up to this one` : ""}`,
    );
  }
  for (const one of timeline.breaks.filter((b) => b.at === at))
    said.push(`new environment: ${breakText(timeline, one, 200)}`);
  for (const tag of timeline.tags.filter((t) => t.at === at)) said.push(`tag ${tag.name}`);
  const gap = timeline.gaps.find((g) => g.at === at);
  if (said.length === 0 || gap) said.push(gap?.reason ?? "not measured");
  return said;
}

function pointText(unit: string, p: Measured): string {
  const flags = p.flags.length > 0 ? `, not to be trusted: ${p.flags.join(", ")}` : "";
  return `${quantity(unit, p.y)} (${interval(unit, p.low, p.high)}, n = ${p.n})${flags}`;
}
