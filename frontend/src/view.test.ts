import assert from "node:assert/strict";
import { test } from "node:test";
import { zoomQuery } from "./view";

test("a zoom replaces the range and keeps the rest", () => {
  assert.equal(
    zoomQuery("?machine=m1&last=50&zero=1", "aaaaaaa", "bbbbbbb"),
    "?machine=m1&zero=1&from=aaaaaaa&to=bbbbbbb",
  );
  assert.equal(zoomQuery("?from=1&to=2&around=3", "a", "b"), "?from=a&to=b");
});
