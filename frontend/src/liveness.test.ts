import assert from "node:assert/strict";
import { test } from "node:test";
import { gap, isLost, LOST_MS, sentence } from "./liveness";

test("gaps grow to half a minute, and chance only makes them shorter", () => {
  assert.deepEqual(
    [0, 1, 2, 3, 4, 5, 6, 5000].map((failures) => gap(failures, 0)),
    [1000, 2000, 4000, 8000, 16_000, 30_000, 30_000, 30_000],
  );
  assert.equal(gap(3, 1), 4000);
});

test("a page is lost once it has heard nothing for a while, also after a sleep", () => {
  assert.equal(isLost(LOST_MS, 0, 0), false);
  assert.equal(isLost(LOST_MS + 1, 0, 0), true);
  assert.equal(isLost(8 * 3_600_000, 0, 0), true);
  assert.equal(isLost(8 * 3_600_000, 0, 8 * 3_600_000 - 1000), false, "it has just been shown again");
});

test("what it says is within ten seconds of silence", () => assert.ok(LOST_MS + 1000 < 10_000));

test("the sentence says whether questions are answered", () => {
  assert.equal(sentence("19:31", false), "Not live since 19:31, trying again.");
  assert.match(sentence("19:31", true), /^Not live since 19:31, trying again\. Meanwhile .* every 3 seconds\.$/);
});
