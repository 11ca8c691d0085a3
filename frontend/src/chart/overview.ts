// The strip below a chart: the whole timeline in small, with the visible part as a window to drag.
import { placeX, type Timeline } from "../timeline/document";
import { type DrawnLine, layOut, type Range } from "../timeline/layout";
import { pageColours } from "./colours";
import { colourOfChange } from "./overlays";
import { colourOf } from "./datasets";
import * as draw from "./draw";

const EDGE = 9; // pixels around an edge of the window within which a drag catches it
const ROOM = 3; // pixels above and below the lines

export interface Overview {
  show: (visible: Range) => void;
  destroy: () => void;
}

/** The part of the window that a drag holds: an edge, or the whole. */
type Grip = "from" | "to" | "window";

/** ``chosen`` is called with the part to which the reader drags the window. */
export function drawOverview(
  canvas: HTMLCanvasElement,
  timeline: Timeline,
  limits: Range,
  chosen: (visible: Range) => void,
): Overview {
  const lines = layOut(timeline);
  const listeners = new AbortController();
  let visible = limits;
  let picture: HTMLCanvasElement | null = null;
  const paint = () => {
    picture ??= pictureOf(canvas, timeline, lines, limits);
    paintWindow(canvas, picture, limits, visible);
  };
  const resized = new ResizeObserver(() => {
    picture = null;
    paint();
  });
  resized.observe(canvas.parentElement!);
  listenToDrags(canvas, limits, () => visible, chosen, listeners.signal);
  return {
    show: (range) => {
      visible = range;
      paint();
    },
    destroy: () => {
      resized.disconnect();
      listeners.abort();
    },
  };
}

function toPixel(canvas: HTMLCanvasElement, [low, high]: Range, x: number): number {
  return (canvas.clientWidth * (x - low)) / (high - low);
}

/** The lines, without intervals, each fitted to the strip, and the changes as dots. */
function pictureOf(
  canvas: HTMLCanvasElement,
  timeline: Timeline,
  lines: DrawnLine[],
  limits: Range,
): HTMLCanvasElement {
  const colours = pageColours();
  const made = document.createElement("canvas");
  const scale = devicePixelRatio;
  const [width, height] = [canvas.clientWidth, canvas.clientHeight];
  made.width = Math.max(1, Math.round(width * scale));
  made.height = Math.max(1, Math.round(height * scale));
  const ctx = made.getContext("2d")!;
  ctx.scale(scale, scale);
  for (const right of [false, true]) {
    const own = lines.filter((line) => line.right === right);
    const [low, high] = extent(own);
    for (const line of own) {
      ctx.strokeStyle = colourOf(line.shown, colours);
      ctx.beginPath();
      for (const part of line.stretches)
        part.forEach((p, i) => {
          const x = toPixel(canvas, limits, p.x);
          const y = height - ROOM - ((height - 2 * ROOM) * (p.y - low)) / (high - low);
          if (i === 0) ctx.moveTo(x - 0.5, y);
          ctx.lineTo(x, y);
        });
      ctx.stroke();
    }
  }
  for (const one of timeline.changes) {
    ctx.fillStyle = colourOfChange(one, colours);
    const x = toPixel(canvas, limits, placeX(timeline, timeline.shown[one.shown]!.path, one.at));
    ctx.fillRect(x - 1, one.worse ? 0 : height - 5, 2, 5);
  }
  return made;
}

function extent(lines: DrawnLine[]): Range {
  let [low, high] = [Infinity, -Infinity];
  for (const line of lines)
    for (const p of line.points) {
      low = Math.min(low, p.y);
      high = Math.max(high, p.y);
    }
  return high > low ? [low, high] : [low - 1, low + 1];
}

function paintWindow(canvas: HTMLCanvasElement, picture: HTMLCanvasElement, limits: Range, visible: Range): void {
  const colours = pageColours();
  const scale = devicePixelRatio;
  [canvas.width, canvas.height] = [picture.width, picture.height];
  const ctx = canvas.getContext("2d")!;
  ctx.drawImage(picture, 0, 0);
  ctx.scale(scale, scale);
  const [from, to] = visible.map((x) => toPixel(canvas, limits, x)) as Range;
  const height = canvas.clientHeight;
  ctx.globalAlpha = 0.72;
  ctx.fillStyle = colours.surface;
  ctx.fillRect(0, 0, from, height);
  ctx.fillRect(to, 0, canvas.clientWidth - to, height);
  ctx.globalAlpha = 1;
  ctx.strokeStyle = ctx.fillStyle = colours.soft;
  ctx.strokeRect(from + 0.5, 0.5, Math.max(to - from - 1, 1), height - 1);
  for (const edge of [from, to]) {
    ctx.fillRect(edge - 2, height / 2 - 8, 4, 16);
    draw.line(ctx, edge, 0, edge, height);
  }
}

function listenToDrags(
  canvas: HTMLCanvasElement,
  limits: Range,
  visible: () => Range,
  chosen: (visible: Range) => void,
  signal: AbortSignal,
): void {
  let drag: { grip: Grip; begin: number; range: Range } | null = null;
  const at = (event: PointerEvent) => event.clientX - canvas.getBoundingClientRect().left;
  const valueOf = (pixels: number) => ((limits[1] - limits[0]) * pixels) / canvas.clientWidth;
  const on = (
    name: "pointerdown" | "pointermove" | "pointerup" | "pointercancel",
    handler: (e: PointerEvent) => void,
  ) => canvas.addEventListener(name, handler, { signal });
  on("pointerdown", (event) => {
    const x = at(event);
    const [from, to] = visible();
    const pixels: Range = [toPixel(canvas, limits, from), toPixel(canvas, limits, to)];
    const grip = gripAt(pixels, x);
    canvas.setPointerCapture(event.pointerId);
    if (grip) drag = { grip, begin: x, range: [from, to] };
    else {
      const middle = limits[0] + valueOf(x);
      const half = (to - from) / 2;
      chosen([middle - half, middle + half]);
      drag = { grip: "window", begin: x, range: visible() };
    }
  });
  on("pointermove", (event) => {
    canvas.classList.toggle("edge", isEdge(canvas, limits, visible(), at(event)));
    if (!drag) return;
    const by = valueOf(at(event) - drag.begin);
    chosen(dragged(drag.grip, drag.range, by));
  });
  for (const end of ["pointerup", "pointercancel"] as const) on(end, () => (drag = null));
}

function gripAt([from, to]: Range, x: number): Grip | null {
  const [near, far] = Math.abs(x - from) <= Math.abs(x - to) ? (["from", from] as const) : (["to", to] as const);
  if (Math.abs(x - far) <= EDGE) return near;
  return x > from && x < to ? "window" : null;
}

function isEdge(canvas: HTMLCanvasElement, limits: Range, visible: Range, x: number): boolean {
  return visible.some((edge) => Math.abs(toPixel(canvas, limits, edge) - x) <= EDGE);
}

function dragged(grip: Grip, [from, to]: Range, by: number): Range {
  if (grip === "window") return [from + by, to + by];
  return grip === "from" ? [Math.min(from + by, to), to] : [from, Math.max(to + by, from)];
}
