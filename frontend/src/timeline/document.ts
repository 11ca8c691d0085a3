// The document of a timeline (speedtrack.timeline/4), and queries by position. Pure functions.

export interface Metric {
  name: string;
  title: string;
  unit: string;
  better: string;
}

/** An entry of the legend. */
export interface ShownLine {
  line: string;
  /** Its difference from the others. */
  title: string;
  project: string;
  benchmark: string;
  machine: string;
  branch: string;
  metric: Metric;
  path: number;
  /** Whether it uses the axis to the right. */
  right: boolean;
  /** The number of measured commits. */
  measured: number;
  /** The value that is 0% if the timeline is relative. */
  base: { sha: string; value: number } | null;
}

/** The points of one environment of a line, in columns. */
export interface LineColumns {
  shown: number;
  environment: string;
  definition: string;
  at: number[];
  value: number[];
  low: number[];
  high: number[];
  n: number[];
  /** By position, as in `at`; clean points have no entry. */
  flags: Record<string, string[]>;
  /** The releases measured in this environment, in the order of their times, also outside of the timeline. */
  releases?: Release[];
  /** By position: the newest run, and the counting and the other trials; only on request. */
  runs?: Record<string, number>;
  trials?: Record<string, number[]>;
  void?: Record<string, number[]>;
}

/** A release, and the value of a line at its commit. */
export interface Release {
  name: string;
  time: number;
  value: number;
  low: number;
  high: number;
}

export interface Gap {
  at: number;
  state: string;
  reason: string;
}

export interface Change {
  shown: number;
  at: number;
  status: string;
  /** The number of commits, up to the one at this position, that may be the cause. */
  width: number;
  worse: boolean;
  ratio: number;
  /** Its size. */
  words: string;
  low: number;
  high: number;
  alert: number | null;
  /** The state of the alert. */
  alert_state: string | null;
  /** How the server shows it: "settled" if its alert is no work any more. */
  look: "worse" | "better" | "settled";
  sign: string;
}

export interface Break {
  path: number;
  at: number;
  machine: string;
  what: string;
  facts: { fact: string; before: string; after: string }[];
}

/** A person's note about a commit, or about a moment before it. */
export interface Note {
  at: number;
  text: string;
  id: number;
  author: string;
}

export interface Commits {
  /** The positions of the commits. */
  at: number[];
  sha: string[];
  subject: string[];
  author: string[];
  time: number[];
  /** The positions of commits that no branch and no tag of the repository contains any more. */
  unreachable?: number[] | undefined;
  /** Their positions on an axis of time: never before the previous commit, even if their clocks are wrong. */
  x?: number[];
}

/** The commits of a branch, or a stretch of them. */
export interface Path {
  project: string;
  branch: string;
  /** The position of its first commit on the branch. */
  first: number;
  count: number;
  /** The number of commits per position; above 1, the lines are outlines, and only their commits are here. */
  step: number;
  commits: Commits;
  gaps: Gap[];
  tags: { at: number; name: string }[];
}

export interface Timeline {
  schema: string;
  benchmark: string;
  metric: Metric;
  axis: "commits" | "time";
  scale: "fitted" | "zero" | "log";
  base: string | null;
  /** Sentences about things that could not be shown; the page has them, too. */
  problems: string[];
  /** Sentences about this document alone. */
  notes: string[];
  shown: ShownLine[];
  paths: Path[];
  lines: LineColumns[];
  changes: Change[];
  /** The positions where a machine's points change from one environment or definition to another. */
  breaks: Break[];
  /** Notes of people, on commits of the first path. */
  annotations?: Note[];
}

/** A path as it is sent: `index` finds its commits in the document's, and gaps of one reason are together. */
export interface SentPath extends Omit<Path, "commits" | "gaps"> {
  commits: { at: number[]; index: number[] };
  gaps: { state: string; reason: string; at: number[] }[];
}

/** The document as it is sent: each commit once, on however many paths it lies; `unreachable` has indices of them. */
export interface SentTimeline extends Omit<Timeline, "paths"> {
  commits: Omit<Required<Commits>, "at" | "x">;
  paths: SentPath[];
}

/** The timeline with the commits and gaps of each path. */
export function unpacked(sent: SentTimeline): Timeline {
  const { commits, ...timeline } = sent;
  const gone = new Set(commits.unreachable);
  const paths = sent.paths.map((path) => {
    const { at, index } = path.commits;
    const own = <T>(column: T[]): T[] => index.map((place) => column[place]!);
    const columns = { sha: own(commits.sha), subject: own(commits.subject), author: own(commits.author) };
    const unreachable = at.filter((_, i) => gone.has(index[i]!));
    const gaps = path.gaps.flatMap(({ at: places, ...gap }) => places.map((place) => ({ at: place, ...gap })));
    return {
      ...path,
      commits: { at, ...columns, time: own(commits.time), unreachable },
      gaps: gaps.sort((a, b) => a.at - b.at),
    };
  });
  return { ...timeline, paths };
}

/** A commit of a path. */
export interface Stop {
  path: number;
  at: number;
  x: number;
}

/** The timeline with the columns of its commits by position; positions of omitted commits stay empty. */
export function byPlace(timeline: Timeline): Timeline {
  const paths = timeline.paths.map((path) => {
    const { at, sha, subject, author, time, unreachable } = path.commits;
    const spread = <T>(column: T[]): T[] => {
      const found = new Array<T>(path.count);
      at.forEach((place, i) => (found[place] = column[i]!));
      return found;
    };
    let latest = -Infinity;
    const x = spread(time.map((moment) => (latest = Math.max(latest, moment))));
    const columns = { sha: spread(sha), subject: spread(subject), author: spread(author), time: spread(time) };
    return { ...path, commits: { at, ...columns, unreachable, x } };
  });
  return { ...timeline, paths };
}

/** The nearest position not after (-1) or not before (1) another one whose commit the path has. */
export function knownPlace(path: Path, from: number, by: 1 | -1): number {
  let at = Math.max(0, Math.min(path.count - 1, from));
  while (at > 0 && at < path.count - 1 && path.commits.sha[at] === undefined) at += by;
  return at;
}

/** The x of a path's position on the chart: the position on the branch, or the time of its commit in seconds. */
export function placeX(timeline: Timeline, path: number, at: number): number {
  const found = timeline.paths[path]!;
  if (timeline.axis === "commits") return found.first + at;
  return found.commits.x?.[knownPlace(found, Math.ceil(at), 1)] ?? 0;
}

/** The position of a path nearest to an x, among those with known commits. */
export function placeAt(timeline: Timeline, path: number, x: number): number {
  const found = timeline.paths[path]!;
  if (timeline.axis === "commits") return Math.max(0, Math.min(found.count - 1, Math.round(x - found.first)));
  const known = found.commits.at;
  let [low, high] = [0, Math.max(known.length - 1, 0)];
  while (low < high) {
    const middle = (low + high) >> 1;
    if (found.commits.x![known[middle]!]! < x) low = middle + 1;
    else high = middle;
  }
  return known[low] ?? 0;
}

/** The first and the last position of a path within a range of x, among those with known commits. */
export function placesWithin(timeline: Timeline, path: number, [from, to]: [number, number]): [number, number] {
  const { first, count } = timeline.paths[path]!;
  if (timeline.axis === "commits")
    return [Math.max(0, Math.round(from + 0.1 - first)), Math.min(count - 1, Math.round(to - 0.1 - first))];
  const begin = placeAt(timeline, path, from);
  let end = placeAt(timeline, path, to);
  if (placeX(timeline, path, end) > to) end = knownPlace(timeline.paths[path]!, end - 1, -1);
  return [begin, Math.max(begin, end)];
}

/** Returns whether all commits are here, not only those of outlines. */
export function isWhole(timeline: Timeline): boolean {
  return timeline.paths.every((path) => path.step === 1);
}

/** The commits of a path at which keyboard and pointer stop, in order: those with a point or with a gap's reason. */
export function stopsOfPath(timeline: Timeline, path: number): Stop[] {
  const own = timeline.lines.filter((line) => timeline.shown[line.shown]!.path === path);
  const places = new Set([...own.flatMap((line) => line.at), ...timeline.paths[path]!.gaps.map((gap) => gap.at)]);
  const found = [...places].map((at) => ({ path, at, x: placeX(timeline, path, at) }));
  return found.sort((a, b) => a.x - b.x);
}

/** The stop after or before another one, or the same at an end; without one, the last stop. */
export function nextStop(all: Stop[], from: Stop | null, by: 1 | -1): Stop | null {
  if (all.length === 0) return null;
  const here = from === null ? -1 : all.findIndex((stop) => stop.path === from.path && stop.at === from.at);
  if (here < 0) return all[all.length - 1]!;
  return all[Math.max(0, Math.min(all.length - 1, here + by))]!;
}

/** The stop nearest to an x. */
export function nearestStop(all: Stop[], x: number): Stop | null {
  let low = 0;
  let high = all.length - 1;
  if (high < 0) return null;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (all[middle]!.x < x) low = middle + 1;
    else high = middle;
  }
  const after = all[low]!;
  const before = all[low - 1] ?? after;
  return x - before.x <= after.x - x ? before : after;
}

/** The commits of a path without any point. Long timelines omit those that are merely not measured. */
export function gaps(timeline: Timeline, path: number, most = 400): Gap[] {
  const { count, gaps: told } = timeline.paths[path]!;
  const known = new Map(told.map((gap) => [gap.at, gap]));
  if (count > most) return told;
  const own = timeline.lines.filter((line) => timeline.shown[line.shown]!.path === path);
  const measured = new Set(own.flatMap((line) => line.at));
  const found: Gap[] = [];
  for (let at = 0; at < count; at++)
    if (!measured.has(at)) found.push(known.get(at) ?? { at, state: "unmeasured", reason: "not measured" });
  return found;
}

/** Returns whether the alert of a change is settled, so that it is no work any more. */
export function isSettled(one: Change): boolean {
  return one.look === "settled";
}

const WEIGHT: Record<string, number> = { confirmed: 3, settling: 2, suspected: 2, history: 2, unsettled: 1 };

/** One mark per commit and direction: the most certain change of several lines, then the largest. */
export function marks(timeline: Timeline): Change[] {
  const best = new Map<string, Change>();
  for (const next of timeline.changes) {
    const key = `${timeline.shown[next.shown]!.path}/${next.at}/${next.worse}`;
    const known = best.get(key);
    if (!known || weight(next) > weight(known)) best.set(key, next);
  }
  return [...best.values()];
}

function weight(one: Change): number {
  return (WEIGHT[one.status] ?? 0) * 1000 + Math.min(999, Math.abs(Math.log(one.ratio)) * 100);
}

/** The number of measured commits as a sentence; for several lines, of each. */
export function coverageText({ shown, paths }: Timeline): string {
  if (shown.length === 0) return "No commit of this range was measured.";
  const of = (line: ShownLine) => `${line.measured} of ${paths[line.path]!.count}`;
  if (shown.length === 1) return `${of(shown[0]!)} commits measured.`;
  return `Commits measured: ${shown.map((line) => `${line.title} ${of(line)}`).join("; ")}.`;
}

export function cut(text: string, most: number): string {
  return text.length > most ? `${text.slice(0, most - 1)}…` : text;
}
