// The address of a timeline contains its visible part.

const RANGE = ["from", "to", "around"];

/** The commits at the ends of the visible part. */
export interface Ends {
  from: string;
  to: string;
}

/** The query string with other ends; null: without any. */
export function withEnds(search: string, ends: Ends | null): string {
  const query = new URLSearchParams(search);
  for (const key of RANGE) query.delete(key);
  if (ends) {
    query.set("from", ends.from);
    query.set("to", ends.to);
  }
  return query.size > 0 ? `?${query}` : "";
}

/** The query string with some keys set, or removed if null; a page's passing keys are dropped. */
export function withKeys(search: string, changes: Record<string, string | null>): string {
  const query = new URLSearchParams(search);
  for (const key of ["why", "part"]) query.delete(key);
  for (const [key, value] of Object.entries(changes)) {
    if (value === null) query.delete(key);
    else query.set(key, value);
  }
  return query.size > 0 ? `?${query}` : "";
}

/** The query string with one more line. */
export function withLine(search: string, line: string): string {
  const query = new URLSearchParams(search);
  for (const key of ["why", "part"]) query.delete(key);
  query.append("line", line);
  return `?${query}`;
}

/** Returns whether the query string names a part of the timeline. */
export function namesRange(search: string): boolean {
  const query = new URLSearchParams(search);
  return RANGE.some((key) => query.has(key));
}
