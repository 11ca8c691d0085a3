// The points of the lines as dots, if there is room for them.
import type { Plugin } from "chart.js";
import { drawPoint } from "chart.js/helpers";
import type { DrawnLine } from "../timeline/layout";
import type { Colours } from "./colours";
import { colourOf } from "./datasets";

const SHAPES = ["circle", "rect", "rectRot", "triangle"] as const;
const [LARGE, SMALL] = [8, 4]; // least pixels per point for a large dot, or a small one

export function dotPlugin(lines: DrawnLine[], colours: Colours): Plugin<"line"> {
  return {
    id: "dots",
    afterDatasetsDraw({ ctx, scales, width }) {
      const x = scales["x"]!;
      for (const line of lines) {
        const visible = line.points.filter((p) => !p.doubtful && p.x >= x.min && p.x <= x.max);
        const room = width / Math.max(visible.length, 1);
        if (room < SMALL) continue;
        const y = scales[line.right ? "right" : "y"]!;
        const radius = room > LARGE ? 3 : 2;
        ctx.fillStyle = ctx.strokeStyle = colourOf(line.shown, colours);
        ctx.lineWidth = 1;
        const look = { pointStyle: SHAPES[line.shown % SHAPES.length]!, radius, borderWidth: 1 };
        for (const p of visible) drawPoint(ctx, look, x.getPixelForValue(p.x), y.getPixelForValue(p.y));
      }
    },
  };
}
