import assert from "node:assert/strict";
import { test } from "node:test";
import { timeTicks, valueAxis } from "./axis";
import golden from "./axis.golden.json";

function near(a: number, b: number): boolean {
  return Math.abs(a - b) <= 1e-9 * Math.max(1, Math.abs(a), Math.abs(b));
}

function sameTicks(found: [number, string][], expected: (string | number)[][]): void {
  assert.deepEqual(
    found.map(([, label]) => label),
    expected.map(([, label]) => label),
  );
  assert.ok(found.every(([value], i) => near(value, Number(expected[i]![0]))));
}

test("axes are those of the server's pictures", () => {
  for (const { values, scale, unit, low, high, logarithmic, ticks } of golden.axes) {
    const axis = valueAxis(values, scale, unit);
    assert.ok(near(axis.low, low) && near(axis.high, high), JSON.stringify({ values, scale, axis }));
    assert.equal(axis.logarithmic, logarithmic);
    sameTicks(axis.ticks, ticks);
  }
});

test("so are the ticks of time", () => {
  for (const { first, last, most, ticks } of golden.times) sameTicks(timeTicks(first, last, most), ticks);
});

test("an axis has few round numbers, all inside", () => {
  const { low, high, ticks } = valueAxis([146_000, 208_000], "fitted", "requests/s");
  assert.ok(ticks.length >= 4 && ticks.length <= 9 && ticks.every(([v]) => v >= low && v <= high));
});
