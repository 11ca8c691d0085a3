import assert from "node:assert/strict";
import { test } from "node:test";
import { indent, indentation, lineCount, rangeOfLine, unindent } from "./editing";

test("Tab inserts blanks, and indents lines that are selected", () => {
  assert.deepEqual(indent({ text: "ab", start: 1, end: 1 }), { text: "a    b", start: 5, end: 5 });
  assert.deepEqual(indent({ text: "ab", start: 0, end: 1 }), { text: "    b", start: 4, end: 4 });
  const block = indent({ text: "a\nb\n\nc", start: 0, end: 5 });
  assert.equal(block.text, "    a\n    b\n\nc");
  assert.equal(block.text.slice(block.start, block.end), "a\n    b\n\n");
});

test("Shift and Tab take back what Tab did", () => {
  const text = "a\nb\nc";
  const there = indent({ text, start: 0, end: 3 });
  assert.equal(unindent(there).text, text);
  assert.deepEqual(unindent({ text: "  a", start: 1, end: 1 }), { text: "a", start: 0, end: 0 });
  assert.equal(unindent({ text: "\ta\nb", start: 0, end: 0 }).text, "a\nb");
});

test("a new line begins as the one before", () => {
  assert.equal(indentation("x\n    a = 1", 11), "    ");
  assert.equal(indentation("a", 1), "");
});

test("lines are counted from 1", () => {
  assert.equal(lineCount("a\nb\n"), 3);
  assert.deepEqual(rangeOfLine("a\nbcd\ne", 2), [2, 5]);
  assert.deepEqual(rangeOfLine("a", 9), [2, 2]);
});
