import assert from "node:assert/strict";
import { test } from "node:test";
import { DECISIONS, keysOf, stepped } from "./keys";

test("steps stay within the list and begin at either end", () => {
  assert.equal(stepped(-1, 1, 3), 0);
  assert.equal(stepped(-1, -1, 3), 2);
  assert.equal(stepped(2, 1, 3), 2);
  assert.equal(stepped(0, -1, 3), 0);
  assert.equal(stepped(1, 1, 3), 2);
  assert.equal(stepped(-1, 1, 0), -1);
});

test("a page lists the keys that it has, and no others", () => {
  const all = keysOf({ rows: true, select: true, decide: true, search: true }).flatMap((key) => key.keys);
  assert.equal(new Set(all).size, all.length);
  for (const key of Object.keys(DECISIONS)) assert.ok(all.includes(key));
  const few = keysOf({ rows: false, select: false, decide: false, search: false }).flatMap((key) => key.keys);
  assert.deepEqual(few, ["Esc", "?"]);
});
