// The values, intervals, changes and notes of a commit, as numbers and as sentences. Pure functions.
import { change, effect, interval, quantity } from "../units";
import {
  type Break,
  type Change,
  cut,
  isSettled,
  type LineColumns,
  type Note,
  type Path,
  type Stop,
  type Timeline,
} from "./document";

/** A value / that of an earlier commit, by hash or tag. What it means is the server's judgement. */
export interface Against {
  ratio: number;
  name: string;
}

/** Against the commit before. `commits`: the number of commits between them. */
export interface AgainstPrevious extends Against {
  commits: number;
}

/** The value of a line at a commit. */
export interface Reading {
  shown: number;
  value: number;
  low: number;
  high: number;
  n: number;
  flags: string[];
  previous: AgainstPrevious | null;
  /** Compared with the last release committed before. */
  release: Against | null;
  run: number | null;
  trials: number[];
}

interface Estimate {
  value: number;
  low: number;
  high: number;
}

/** The value of each line that has one at a commit, also on other branches with the same commit. */
export function readings(timeline: Timeline, stop: Stop): Reading[] {
  const own = timeline.paths[stop.path]!;
  const sha = own.commits.sha[stop.at];
  return timeline.lines.flatMap((line) => {
    const number = timeline.shown[line.shown]!.path;
    const path = timeline.paths[number]!;
    const elsewhere = number !== stop.path && sha && path.project === own.project;
    const at = number === stop.path ? stop.at : elsewhere ? path.commits.sha.indexOf(sha) : -1;
    const i = at < 0 ? -1 : indexOf(line.at, at);
    return i < 0 ? [] : [reading(path, line, i)];
  });
}

/** The index of a number in an ascending list; -1 if it is missing. */
function indexOf(ascending: number[], wanted: number): number {
  let low = 0;
  let high = ascending.length - 1;
  while (low <= high) {
    const middle = (low + high) >> 1;
    const found = ascending[middle]!;
    if (found === wanted) return middle;
    if (found < wanted) low = middle + 1;
    else high = middle - 1;
  }
  return -1;
}

function reading(path: Path, line: LineColumns, i: number): Reading {
  const at = line.at[i]!;
  const here = estimate(line, i);
  const before = previousClean(line, i);
  // In an outline, only neighbouring commits certainly have nothing between them.
  const follows = before >= 0 && (path.step === 1 || line.at[before] === at - 1);
  const release = line.releases?.findLast(({ time }) => time < path.commits.time[at]!);
  return {
    shown: line.shown,
    ...here,
    n: line.n[i]!,
    flags: line.flags[at] ?? [],
    previous: follows ? againstPrevious(path, line, here, i, before) : null,
    release: release ? { ratio: here.value / release.value, name: release.name } : null,
    run: line.runs?.[at] ?? null,
    trials: line.trials?.[at] ?? [],
  };
}

function againstPrevious(path: Path, line: LineColumns, here: Estimate, i: number, before: number): AgainstPrevious {
  const [at, earlier] = [line.at[i]!, line.at[before]!];
  return { ratio: here.value / line.value[before]!, name: path.commits.sha[earlier] ?? "", commits: at - earlier };
}

function estimate(line: LineColumns, i: number): Estimate {
  return { value: line.value[i]!, low: line.low[i]!, high: line.high[i]! };
}

function previousClean(line: LineColumns, i: number): number {
  let before = i - 1;
  while (before >= 0 && line.flags[line.at[before]!]) before--;
  return before;
}

/** A commit in two lines: hash and subject, author and time. */
export function commitTitle(timeline: Timeline, stop: Stop): string[] {
  const { commits, project, branch } = timeline.paths[stop.path]!;
  const { sha, subject, author, time } = commits;
  const moment = momentText(time[stop.at]!);
  const where = timeline.paths.length > 1 ? `${project} ${branch}  ` : "";
  return [`${where}${sha[stop.at]!.slice(0, 10)}  ${cut(subject[stop.at]!, 60)}`, `${author[stop.at]}, ${moment} UTC`];
}

/** A moment in seconds since 1970 in UTC, to the minute. */
export function momentText(moment: number): string {
  return new Date(1000 * moment).toISOString().slice(0, 16).replace("T", " ");
}

/** The facts of a commit: one sentence per line, change, break, tag, annotation and gap. */
export function commitSentences(timeline: Timeline, stop: Stop): string[] {
  const several = timeline.shown.length > 1;
  const found = readings(timeline, stop).flatMap((one) => readingSentences(timeline, one, several));
  for (const one of changesAt(timeline, stop)) found.push(changeText(timeline, one));
  for (const one of breaksAt(timeline, stop)) found.push(`new environment: ${breakText(timeline, one, 200)}`);
  const path = timeline.paths[stop.path]!;
  for (const tag of path.tags.filter((t) => t.at === stop.at)) found.push(`tag ${tag.name}`);
  for (const note of annotationsAt(timeline, stop)) found.push(`note by ${note.author}: ${cut(note.text, 80)}`);
  const gap = path.gaps.find((g) => g.at === stop.at);
  if (found.length === 0 || gap) found.push(gap?.reason ?? "not measured");
  if (path.commits.unreachable?.includes(stop.at)) found.push("unreachable: no branch and no tag leads to it");
  return found;
}

export function changesAt(timeline: Timeline, { path, at }: Stop): Change[] {
  return timeline.changes.filter((one) => one.at === at && timeline.shown[one.shown]!.path === path);
}

export function breaksAt(timeline: Timeline, { path, at }: Stop): Break[] {
  return timeline.breaks.filter((one) => one.path === path && one.at === at);
}

export function annotationsAt(timeline: Timeline, { path, at }: Stop): Note[] {
  return path === 0 ? (timeline.annotations ?? []).filter((one) => one.at === at) : [];
}

/** A value in words; with its comparisons if there are few lines. */
function readingSentences(timeline: Timeline, one: Reading, several: boolean): string[] {
  const { title } = timeline.shown[one.shown]!;
  const found = [`${several ? `${title}: ` : ""}${valueText(timeline, one)}`];
  if (timeline.shown.length > 2) return found;
  if (one.previous) found.push(`  ${change(one.previous.ratio)} against ${previousText(one.previous)}`);
  if (one.release) found.push(`  ${change(one.release.ratio)} against ${cut(one.release.name, 40)}`);
  return found;
}

export function previousText({ commits, name }: AgainstPrevious): string {
  return commits === 1 ? "the commit before" : `${name.slice(0, 10)}, ${commits} commits before`;
}

/** A value with its interval, the number of its trials, and its flags. */
export function valueText(timeline: Timeline, one: Reading): string {
  const { metric, base } = timeline.shown[one.shown]!;
  const { unit } = metric;
  const relative = base ? `${change(one.value / base.value)}, ` : "";
  const flags = one.flags.length > 0 ? `, unreliable: ${one.flags.join(", ")}` : "";
  return `${relative}${quantity(unit, one.value)} (${interval(unit, one.low, one.high)}, n = ${one.n})${flags}`;
}

export function changeText(timeline: Timeline, one: Change): string {
  const { metric, title } = timeline.shown[one.shown]!;
  const where = timeline.shown.length > 1 ? ` on ${title}` : "";
  const range = one.width > 1 ? `, by one of ${one.width} commits up to this one` : "";
  const state = isSettled(one) ? ` (${one.alert_state})` : "";
  const alert = one.alert === null ? "" : `, alert ${one.alert}${state}`;
  const size = `${effect(metric.name, one.worse)} ${one.words}`;
  return `${one.sign} ${size}${where}, ${one.status}${range}${alert}`;
}

/** The text of a break, in at most `most` characters. */
export function breakText(timeline: Timeline, one: Break, most: number): string {
  const who = new Set(timeline.shown.map((line) => line.machine)).size > 1 ? `${one.machine}: ` : "";
  return cut(`${who}${one.what}`, most);
}
