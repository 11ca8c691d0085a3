// The visible part of a timeline: zoomed and moved within its limits. Pure functions.
import type { Range } from "./layout";

/** A range moved and widened so that it lies within the limits and is not narrower than `least`. */
export function clamp([from, to]: Range, [low, high]: Range, least: number): Range {
  const span = Math.min(Math.max(to - from, least), high - low);
  const middle = (from + to) / 2;
  const begin = Math.min(Math.max(middle - span / 2, low), high - span);
  return [begin, begin + span];
}

/** A range that is `factor` times as wide, in which x keeps its position. */
export function zoomed([from, to]: Range, x: number, factor: number): Range {
  return [x - (x - from) * factor, x + (to - x) * factor];
}

export function moved([from, to]: Range, by: number): Range {
  return [from + by, to + by];
}

/** The range, moved but not widened, just far enough to show x with some room around it. */
export function showing([from, to]: Range, x: number): Range {
  const room = (to - from) * 0.05;
  if (x < from + room) return moved([from, to], x - room - from);
  if (x > to - room) return moved([from, to], x + room - to);
  return [from, to];
}

/** Returns whether a range shows everything, apart from rounding. */
export function isWholeRange([from, to]: Range, [low, high]: Range): boolean {
  return to - from >= (high - low) * 0.999;
}

export function width([from, to]: Range): number {
  return to - from;
}
