// When a page counts as live, what it says when it is not, and how long it waits until it tries again.

export const LOST_MS = 7000; // without a sign from the server; it gives one every 3 seconds
export const ASK_MS = 3000; // between two questions to a server without streams
const FIRST_GAP_MS = 1000;
const LONGEST_GAP_MS = 30_000;

/** The wait before an attempt: twice as long after each failure, and by chance up to half as short, so that the
 * pages of all readers do not come back at once. `chance` is from 0 to 1. */
export function gap(failures: number, chance: number): number {
  return Math.min(LONGEST_GAP_MS, FIRST_GAP_MS * 2 ** Math.min(failures, 10)) * (1 - chance / 2);
}

/** Whether nothing has been heard for too long; a page that was hidden gets the time to hear something again. */
export function isLost(now: number, heardAt: number, shownAt: number): boolean {
  return now - Math.max(heardAt, shownAt) > LOST_MS;
}

/** What a page says that hears nothing. `isAsking`: it gets answers to its questions instead. */
export function sentence(since: string, isAsking: boolean): string {
  const state = `Not live since ${since}, trying again`;
  return isAsking ? `${state}. Meanwhile this page asks every ${ASK_MS / 1000} seconds.` : `${state}.`;
}
