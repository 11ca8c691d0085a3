// Actions of pointers on the chart: a drag selects, a click pins, the wheel and two fingers zoom, one finger moves.
import type { Range } from "../timeline/layout";

const LEAST_DRAG = 6; // pixels; a shorter drag is a click
const SCROLLING = 350; // milliseconds after a scroll in which the wheel still scrolls the page
const PER_PIXEL = 0.0022; // of the wheel: the exponent of the zoom
const LINE = 18; // pixels per line of the wheel

export interface PointerActions {
  /** The pointer is at a position, in pixels from the canvas' left and top edge; null: it has left. */
  hover: (place: { x: number; y: number } | null) => void;
  click: (place: { x: number; y: number }) => void;
  select: (pixels: Range | null) => void;
  /** A range of pixels was selected. */
  zoomTo: (pixels: Range) => void;
  /** Zooms about a pixel. False: nothing changes, so the page may scroll. */
  zoomBy: (factor: number, pixel: number) => boolean;
  moveBy: (pixels: number) => boolean;
  reset: () => void;
}

export function listenToPointer(canvas: HTMLCanvasElement, actions: PointerActions): void {
  const place = (event: MouseEvent) => {
    const { left, top } = canvas.getBoundingClientRect();
    return { x: event.clientX - left, y: event.clientY - top };
  };
  listenToMouse(canvas, actions, place);
  listenToFingers(canvas, actions, place);
  listenToWheel(canvas, actions, place);
  canvas.addEventListener("dblclick", () => actions.reset());
}

type PlaceOf = (event: MouseEvent) => { x: number; y: number };

function listenToMouse(canvas: HTMLCanvasElement, actions: PointerActions, place: PlaceOf): void {
  let begin: number | null = null;
  const isMouse = (event: PointerEvent) => event.pointerType !== "touch";
  canvas.addEventListener("pointerdown", (event) => {
    if (!isMouse(event) || event.button !== 0) return;
    begin = place(event).x;
    canvas.setPointerCapture(event.pointerId);
  });
  canvas.addEventListener("pointermove", (event) => {
    if (!isMouse(event)) return;
    const here = place(event);
    actions.hover(here);
    if (begin !== null) actions.select(Math.abs(here.x - begin) > LEAST_DRAG ? [begin, here.x] : null);
  });
  canvas.addEventListener("pointerup", (event) => {
    if (!isMouse(event) || begin === null) return;
    const here = place(event);
    const from = begin;
    begin = null;
    actions.select(null);
    if (Math.abs(here.x - from) > LEAST_DRAG) actions.zoomTo([Math.min(from, here.x), Math.max(from, here.x)]);
    else actions.click(here);
  });
  canvas.addEventListener("pointercancel", () => {
    begin = null;
    actions.select(null);
  });
  canvas.addEventListener("pointerleave", (event) => {
    if (isMouse(event)) actions.hover(null);
  });
}

/** One finger moves along the chart or taps; two zoom. A finger that moves up or down scrolls the page. */
function listenToFingers(canvas: HTMLCanvasElement, actions: PointerActions, place: PlaceOf): void {
  const fingers = new Map<number, number>();
  let travelled = 0;
  const spread = () => {
    const [a, b] = [...fingers.values()] as [number, number];
    return { distance: Math.max(Math.abs(a - b), 10), middle: (a + b) / 2 };
  };
  canvas.addEventListener("pointerdown", (event) => {
    if (event.pointerType !== "touch") return;
    if (fingers.size === 0) travelled = 0;
    fingers.set(event.pointerId, place(event).x);
  });
  canvas.addEventListener("pointermove", (event) => {
    const before = fingers.get(event.pointerId);
    if (before === undefined) return;
    const pair = fingers.size === 2 ? spread() : null;
    const now = place(event).x;
    fingers.set(event.pointerId, now);
    travelled += Math.abs(now - before);
    if (pair) {
      const { distance, middle } = spread();
      actions.zoomBy(pair.distance / distance, middle);
    } else if (fingers.size === 1 && travelled > LEAST_DRAG) actions.moveBy(now - before);
  });
  const lift = (event: PointerEvent) => {
    if (!fingers.delete(event.pointerId)) return;
    if (event.type === "pointerup" && fingers.size === 0 && travelled <= LEAST_DRAG) actions.click(place(event));
  };
  canvas.addEventListener("pointerup", lift);
  canvas.addEventListener("pointercancel", lift);
}

/** The wheel zooms, unless the reader is scrolling the page: the chart must not stop a reader who scrolls past it. */
function listenToWheel(canvas: HTMLCanvasElement, actions: PointerActions, place: PlaceOf): void {
  let scrolled = -Infinity;
  addEventListener("scroll", () => (scrolled = performance.now()), { passive: true });
  canvas.addEventListener(
    "wheel",
    (event) => {
      if (!event.ctrlKey && performance.now() - scrolled < SCROLLING) return;
      const unit = event.deltaMode === 1 ? LINE : event.deltaMode === 2 ? canvas.clientHeight : 1;
      const sideways = event.shiftKey ? event.deltaY : event.deltaX;
      const acted =
        Math.abs(sideways) > Math.abs(event.shiftKey ? 0 : event.deltaY)
          ? actions.moveBy(-sideways * unit)
          : actions.zoomBy(Math.exp(event.deltaY * unit * PER_PIXEL * (event.ctrlKey ? 4 : 1)), place(event).x);
      if (acted || event.ctrlKey) event.preventDefault();
    },
    { passive: false },
  );
}
