// Shapes on a canvas, in pixels, without the chart library.

export type Canvas = CanvasRenderingContext2D;

export interface PixelInterval {
  x: number;
  low: number;
  high: number;
}

/** The band between the ends of neighbouring intervals; a single one is drawn as a bar. */
export function band(canvas: Canvas, part: PixelInterval[], colour: string): void {
  canvas.save();
  canvas.globalAlpha = 0.2;
  canvas.fillStyle = canvas.strokeStyle = colour;
  if (part.length === 1) {
    canvas.lineWidth = 3;
    line(canvas, part[0]!.x, part[0]!.low, part[0]!.x, part[0]!.high);
  } else {
    canvas.beginPath();
    for (const p of part) canvas.lineTo(p.x, p.high);
    for (const p of part.toReversed()) canvas.lineTo(p.x, p.low);
    canvas.closePath();
    canvas.fill();
  }
  canvas.restore();
}

export function line(canvas: Canvas, x1: number, y1: number, x2: number, y2: number, dash: number[] = []): void {
  canvas.setLineDash(dash);
  canvas.beginPath();
  canvas.moveTo(x1, y1);
  canvas.lineTo(x2, y2);
  canvas.stroke();
}

/** A triangle that points down (worse) or up (better). */
export function triangle(canvas: Canvas, x: number, y: number, down: boolean, filled: boolean): void {
  const height = down ? 7 : -7;
  canvas.setLineDash([]);
  canvas.beginPath();
  canvas.moveTo(x - 6, y - height);
  canvas.lineTo(x + 6, y - height);
  canvas.lineTo(x, y + height * 0.6);
  canvas.closePath();
  if (filled) canvas.fill();
  canvas.stroke();
}

/** A small flag that marks a note. */
export function note(canvas: Canvas, x: number, y: number): void {
  canvas.setLineDash([]);
  canvas.fillRect(x - 4, y - 4, 8, 8);
  canvas.beginPath();
  canvas.moveTo(x - 1, y + 4);
  canvas.lineTo(x + 4, y + 4);
  canvas.lineTo(x + 1, y + 8);
  canvas.closePath();
  canvas.fill();
}
