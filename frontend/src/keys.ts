// The keys of a page: pure functions, so that tests need no browser.

export interface Key {
  keys: string[];
  does: string;
}

/** The keys of the page, for its dialog. */
export function keysOf(page: { rows: boolean; select: boolean; decide: boolean; search: boolean }): Key[] {
  return [
    ...(page.rows
      ? [
          { keys: ["j"], does: "next row" },
          { keys: ["k"], does: "previous row" },
          { keys: ["o", "Enter"], does: "open the row" },
        ]
      : []),
    ...(page.select ? [{ keys: ["x"], does: "select the row" }] : []),
    ...(page.decide
      ? [
          { keys: ["a"], does: "acknowledge: assign it to yourself, saved at once" },
          { keys: ["e"], does: "expected: real and intended (say why)" },
          { keys: ["i"], does: "ignore as invalid: not real (say why)" },
          { keys: ["f"], does: "fixed" },
          { keys: ["Ctrl Enter"], does: "save, from within the note" },
        ]
      : []),
    ...(page.search ? [{ keys: ["/"], does: "search" }] : []),
    { keys: ["Esc"], does: "leave a field or this list" },
    { keys: ["?"], does: "this list" },
  ];
}

export const DECISIONS: Record<string, string> = { a: "take", e: "expected", i: "invalid", f: "fixed" };

/** The question in the note, by decision. */
export const WHY: Record<string, string> = {
  expected: "Why is this intended?",
  invalid: "Why is this not real?",
  fixed: "What fixed it? (may stay empty)",
};

/** The row one step from the active one (-1: none is active yet), within the list. */
export function stepped(active: number, by: number, count: number): number {
  if (count === 0) return -1;
  if (active < 0) return by > 0 ? 0 : count - 1;
  return Math.max(0, Math.min(count - 1, active + by));
}
