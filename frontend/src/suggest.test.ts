import assert from "node:assert/strict";
import { test } from "node:test";
import { placeAfter, spoken, takesText } from "./suggest";

test("the arrows walk around, with the text itself between the ends", () => {
  const walk = (key: string, steps: number) => {
    const places = [-1];
    for (let i = 0; i < steps; i++) places.push(placeAfter(key, places.at(-1)!, 2));
    return places;
  };
  assert.deepEqual(walk("ArrowDown", 4), [-1, 0, 1, -1, 0]);
  assert.deepEqual(walk("ArrowUp", 4), [-1, 1, 0, -1, 1]);
  assert.equal(placeAfter("x", 1, 2), 1);
  assert.equal(placeAfter("ArrowDown", -1, 0), -1);
});

test("the number of suggestions is said", () => {
  assert.deepEqual([0, 1, 5].map(spoken), ["Nothing found", "1 suggestion", "5 suggestions"]);
});

test("a slash is a shortcut only where it is no text", () => {
  assert.equal(takesText("INPUT", "search", false), true);
  assert.equal(takesText("INPUT", "checkbox", false), false);
  assert.equal(takesText("DIV", "", true), true);
  assert.equal(takesText("BODY", "", false), false);
});
