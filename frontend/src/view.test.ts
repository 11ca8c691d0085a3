import assert from "node:assert/strict";
import { test } from "node:test";
import { namesRange, withEnds, withKeys, withLine } from "./view";

test("a zoom replaces the ends and keeps the rest, the usual range too", () => {
  assert.equal(
    withEnds("?machine=m1&last=50&y=log&around=c", { from: "aaaaaaa", to: "bbbbbbb" }),
    "?machine=m1&last=50&y=log&from=aaaaaaa&to=bbbbbbb",
  );
  assert.equal(withEnds("?from=1&to=2&around=3", null), "");
  assert.ok(namesRange("?to=2") && namesRange("?around=a") && !namesRange("?last=50"));
});

test("keys and lines are added to what is shown", () => {
  assert.equal(withKeys("?line=a&line=b&base=c&why=d", { base: "e" }), "?line=a&line=b&base=e");
  assert.equal(withKeys("?base=c", { base: null }), "");
  assert.equal(
    new URLSearchParams(withLine("?line=a&part=values", "/get@m1:old/8.0")).getAll("line").join(" "),
    "a /get@m1:old/8.0",
  );
});
