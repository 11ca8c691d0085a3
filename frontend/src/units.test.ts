import assert from "node:assert/strict";
import { test } from "node:test";
import golden from "./units.golden.json";
import { change, changeInterval, effect, interval, quantity, tick } from "./units";

test("quantities read as on the server", () => {
  for (const [unit, value, text] of golden.quantity) assert.equal(quantity(unit as string, value as number), text);
});

test("intervals read as on the server", () => {
  for (const [unit, low, high, text] of golden.interval) {
    assert.equal(interval(unit as string, low as number, high as number), text);
  }
});

test("changes read as on the server", () => {
  for (const [ratio, text] of golden.change) assert.equal(change(ratio as number), text);
});

test("the interval of a change has its notation", () => {
  for (const [ratio, low, high, text] of golden.change_interval) {
    assert.equal(changeInterval(ratio as number, low as number, high as number), text);
  }
});

test("effects are named as on the server", () => {
  for (const [metric, worse, better] of golden.effect) {
    assert.equal(effect(metric!, true), worse);
    assert.equal(effect(metric!, false), better);
  }
});

test("ticks share one unit and show no more decimals than their step needs", () => {
  assert.equal(tick("ns", 5100, 5300, 50), "5.10 µs");
  assert.equal(tick("ns", 5250, 5300, 250), "5.25 µs");
  assert.equal(tick("ns", 5000, 5300, 500), "5.0 µs");
  assert.equal(tick("ns", 0, 5300, 1000), "0 µs");
  assert.equal(tick("requests/s", 150000, 155000, 1000), "150 k/s");
});
