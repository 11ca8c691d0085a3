// When a page counts as live, its sentence when it does not, and its waits between attempts.

export const LOST_MS = 7000; // without a sign from the server, which sends one every 3 seconds
export const ASK_MS = 3000; // between two requests to a server without streams
const FIRST_GAP_MS = 1000;
const LONGEST_GAP_MS = 30_000;

/** The wait before an attempt: it doubles after each failure, and is randomly shortened by up to half, so that the
 * pages of all readers do not return at once. `chance` is from 0 to 1. */
export function gap(failures: number, chance: number): number {
  return Math.min(LONGEST_GAP_MS, FIRST_GAP_MS * 2 ** Math.min(failures, 10)) * (1 - chance / 2);
}

/** Whether nothing has arrived for too long; the time starts again when a hidden page is shown. */
export function isLost(now: number, heardAt: number, shownAt: number): boolean {
  return now - Math.max(heardAt, shownAt) > LOST_MS;
}

/** The sentence of a page that is not live. `isAsking`: it gets answers to its requests instead. */
export function sentence(since: string, isAsking: boolean): string {
  const state = `Not live since ${since}, trying again`;
  return isAsking ? `${state}. Meanwhile this page asks every ${ASK_MS / 1000} seconds.` : `${state}.`;
}
