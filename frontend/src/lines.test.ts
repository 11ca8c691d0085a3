import assert from "node:assert/strict";
import { test } from "node:test";
import { clicked, formatRange, parseRange } from "./lines";

test("ranges of lines are read from addresses", () => {
  assert.deepEqual(parseRange("#L120"), [120, 120]);
  assert.deepEqual(parseRange("#L120-L140"), [120, 140]);
  assert.deepEqual(parseRange("#L140-120"), [120, 140]);
  for (const other of ["", "#", "#L", "#L0", "#L-1", "#L1-", "#x", "#L1e9", "#L99999999999"]) {
    assert.equal(parseRange(other), null);
  }
});

test("and written as they are read", () => {
  assert.equal(formatRange([5, 5]), "#L5");
  assert.equal(formatRange([5, 9]), "#L5-L9");
});

test("a click with the shift key extends the range", () => {
  assert.deepEqual(clicked(7, null, true), [7, 7]);
  assert.deepEqual(clicked(7, [3, 3], false), [7, 7]);
  assert.deepEqual(clicked(7, [3, 3], true), [3, 7]);
  assert.deepEqual(clicked(1, [3, 7], true), [1, 3]);
});
