import assert from "node:assert/strict";
import { test } from "node:test";
import { admits, withKey } from "./filter";

test("every word of the text occurs in the name, in any case and order", () => {
  assert.equal(admits("get-p16-tcp", ""), true);
  assert.equal(admits("get-p16-tcp", " TCP get "), true);
  assert.equal(admits("get-p16-tcp", "set"), false);
});

test("a key of the address is set or removed, and the others stay", () => {
  assert.equal(withKey("?metric=rss&q=a", "q", "get p1"), "?metric=rss&q=get+p1");
  assert.equal(withKey("?q=a", "q", ""), "");
});
