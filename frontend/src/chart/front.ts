// Marks that follow the pointer, on a canvas in front of the chart, which need not be drawn again.
import type { Chart } from "chart.js";
import type { Range } from "../timeline/layout";
import type { DrawnTest } from "../timeline/why";
import type { Colours } from "./colours";
import * as draw from "./draw";

/** A pinned commit: its position and its letter. */
export interface Pin {
  x: number;
  name: string;
}

/** `active`: the points of the commit under the pointer, in pixels; `selected`: the selection of a drag, in pixels. */
export interface Front {
  active: { x: number; y: number; colour: string }[];
  pins: Pin[];
  selected: Range | null;
  /** The test of the commit that was pinned last. */
  test: DrawnTest | null;
}

export interface FrontCanvas {
  paint: () => void;
  remove: () => void;
}

export function frontOf(chart: Chart<"line", { x: number; y: number }[]>, front: Front, colours: Colours): FrontCanvas {
  const canvas = document.createElement("canvas");
  canvas.className = "front";
  canvas.setAttribute("aria-hidden", "true");
  chart.canvas.after(canvas);
  const paint = () => {
    const ratio = chart.currentDevicePixelRatio;
    [canvas.width, canvas.height] = [chart.width * ratio, chart.height * ratio];
    Object.assign(canvas.style, {
      left: `${chart.canvas.offsetLeft}px`,
      top: `${chart.canvas.offsetTop}px`,
      width: `${chart.width}px`,
      height: `${chart.height}px`,
    });
    const ctx = canvas.getContext("2d")!;
    ctx.scale(ratio, ratio);
    paintSelection(ctx, chart, front, colours);
    if (front.test) paintTest(ctx, chart, front.test, colours);
    for (const pin of front.pins) paintPin(ctx, chart, pin, colours);
    for (const { x, y, colour } of front.active) {
      ctx.fillStyle = colour;
      ctx.strokeStyle = colours.surface;
      ctx.lineWidth = 1.5;
      ctx.beginPath();
      ctx.arc(x, y, 5, 0, 2 * Math.PI);
      ctx.fill();
      ctx.stroke();
    }
  };
  return { paint, remove: () => canvas.remove() };
}

function paintSelection(ctx: draw.Canvas, { chartArea }: Chart, { selected }: Front, colours: Colours): void {
  if (!selected) return;
  const [from, to] = selected;
  ctx.globalAlpha = 0.12;
  ctx.fillStyle = colours.ink;
  ctx.fillRect(Math.min(from, to), chartArea.top, Math.abs(to - from), chartArea.bottom - chartArea.top);
  ctx.globalAlpha = 1;
}

/** Both levels as lines, and the band in which the new level raises no suspicion. */
function paintTest(ctx: draw.Canvas, { chartArea, scales }: Chart, test: DrawnTest, colours: Colours): void {
  const { left, right, top, bottom } = chartArea;
  const x = (value: number) => Math.min(right, Math.max(left, scales["x"]!.getPixelForValue(value)));
  const y = (value: number) => scales[test.right ? "right" : "y"]!.getPixelForValue(value);
  ctx.save();
  ctx.beginPath();
  ctx.rect(left, top, right - left, bottom - top);
  ctx.clip();
  const { before, after, band } = test;
  if (band) {
    ctx.fillStyle = ctx.strokeStyle = colours.soft;
    ctx.globalAlpha = 0.18;
    ctx.fillRect(x(after.from), y(band.high), x(after.to) - x(after.from), y(band.low) - y(band.high));
    ctx.globalAlpha = 1;
    for (const edge of [band.low, band.high]) draw.line(ctx, x(after.from), y(edge), x(after.to), y(edge), [4, 3]);
  }
  ctx.strokeStyle = colours.ink;
  ctx.lineWidth = 2;
  for (const { from, to, level } of [before, after]) draw.line(ctx, x(from), y(level), x(to), y(level), []);
  ctx.restore();
}

function paintPin(ctx: draw.Canvas, { chartArea, scales }: Chart, { x, name }: Pin, colours: Colours): void {
  const at = scales["x"]!.getPixelForValue(x);
  if (at < chartArea.left - 1 || at > chartArea.right + 1) return;
  ctx.strokeStyle = ctx.fillStyle = colours.ink;
  ctx.lineWidth = 1.5;
  draw.line(ctx, at, chartArea.top, at, chartArea.bottom - 9);
  ctx.fillRect(at - 8, chartArea.bottom - 17, 16, 16);
  ctx.fillStyle = colours.surface;
  ctx.font = `600 11px ${colours.font}`;
  ctx.textAlign = "center";
  ctx.textBaseline = "middle";
  ctx.fillText(name, at, chartArea.bottom - 8.5);
}
