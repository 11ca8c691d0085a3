import assert from "node:assert/strict";
import { test } from "node:test";
import { ago } from "./ago";
import golden from "./ago.golden.json";

test("how long ago something was reads as on the server", () => {
  for (const [seconds, text] of golden) assert.equal(ago(seconds as number), text);
});
