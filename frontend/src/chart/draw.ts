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

/** A disc with a sign, as the font of the canvas is: filled, or hollow. */
export function disc(canvas: Canvas, x: number, y: number, sign: string, filled: boolean, surface: string): void {
  const colour = canvas.strokeStyle;
  canvas.setLineDash([]);
  canvas.beginPath();
  canvas.arc(x, y, 7, 0, 2 * Math.PI);
  canvas.fillStyle = filled ? colour : surface;
  canvas.fill();
  canvas.stroke();
  canvas.fillStyle = filled ? surface : colour;
  canvas.textAlign = "center";
  canvas.fillText(sign, x, y + 4);
  canvas.fillStyle = colour;
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
