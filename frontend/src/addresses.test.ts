import assert from "node:assert/strict";
import { test } from "node:test";

import { whyAddress } from "./parts/addresses";
import type { Timeline } from "./timeline/document";

test("a benchmark named like a placeholder has its own address", () => {
  const line = {
    path: 0,
    project: "kvd",
    benchmark: "METRIC/$&",
    metric: { name: "rps" },
    branch: "main",
    machine: "m",
  };
  const timeline = { shown: [line], paths: [{ commits: { sha: ["abc"] } }] } as unknown as Timeline;
  const canvas = { dataset: { why: "/p/SLUG/BENCHMARK/METRIC.json" } } as unknown as HTMLCanvasElement;
  const address = whyAddress(canvas, timeline, { path: 0, at: 0, x: 0, y: 0 } as never);
  assert.equal(address, "/p/kvd/METRIC%2F%24%26/rps.json?commit=abc&branch=main&machine=m");
});
