// Axes: their ends, and round values for their ticks. speedtrack/web/drawing/charts/axes.py has the same rules;
// axis.golden.json tests both.
import { FACTOR, tick } from "./units";

/** Values with their labels. */
export type Ticks = [number, string][];

export interface Axis {
  low: number;
  high: number;
  logarithmic: boolean;
  ticks: Ticks;
}

const MINUS = "−";
const NARROWEST = 0.02; // half of an axis, as a share of its middle: noise does not look like a step
const [ABOVE, BELOW] = [1.3, 1.1]; // room around the values; above, for the marks of changes
const MOST_TICKS = 8; // roughly; a step may be twice as wide as ideal, so there are at least four
const DAY = 86400;
const HOUR = 3600;
const HOURS = [1, 2, 3, 6, 12];
const MONTHS = [1, 2, 3, 6, 12, 24, 60, 120];
const DAYS = [1, 2, 4, 7, 14];

/** An axis for these values; without a unit they are ratios, shown as changes. */
export function valueAxis(values: number[], scale: string, unit: string | null): Axis {
  const positive = values.filter((value) => value > 0);
  const logarithmic = scale === "log" && positive.length > 0;
  const kind = logarithmic || scale === "zero" ? scale : "fitted";
  const [low, high] = valueRange(logarithmic ? positive : values, kind);
  const powers = logarithmic ? logTicks(low, high) : [];
  if (powers.length > 0 && unit !== null) {
    // of so different sizes that each needs its own unit and decimals
    return { low, high, logarithmic, ticks: powers.map((value) => [value, tickLabel(unit, value, value, value)]) };
  }
  const at = powers.length > 0 ? powers : linearTicks(low, high, MOST_TICKS);
  const step = at.length > 1 ? at[1]! - at[0]! : high - low;
  return { low, high, logarithmic, ticks: at.map((value) => [value, tickLabel(unit, value, high, step)]) };
}

/** The ends of an axis that holds all values. */
function valueRange(values: number[], scale: string): [number, number] {
  if (values.length === 0) return scale === "log" ? [1, 10] : [0, 1];
  const [low, high] = [Math.min(...values), Math.max(...values)];
  if (scale === "log") {
    const middle = (Math.log(low) + Math.log(high)) / 2;
    const half = Math.max((Math.log(high) - Math.log(low)) / 2, NARROWEST);
    return [Math.exp(middle - BELOW * half), Math.exp(middle + ABOVE * half)];
  }
  const middle = (low + high) / 2;
  const half = Math.max((high - low) / 2, NARROWEST * Math.abs(middle), 1e-300);
  const top = middle + ABOVE * half;
  return scale === "zero" ? [Math.min(0, low), Math.max(top, 1e-300)] : [middle - BELOW * half, top];
}

/** Round numbers between two ends, about `most` of them. */
export function linearTicks(low: number, high: number, most: number): number[] {
  const rough = (high - low) / most;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = power * ([1, 2, 2.5, 5, 10].find((nice) => nice * power >= rough) ?? 10);
  const first = Math.ceil(low / step - 1e-9);
  const last = Math.floor(high / step + 1e-9);
  return [...Array(Math.max(0, last - first + 1)).keys()].map((i) => (first + i) * step);
}

/** 1, 2, 5, 10, 20 ... between two ends, or powers of ten; none if an axis is too short for them. */
function logTicks(low: number, high: number): number[] {
  const begin = Math.floor(Math.log10(low));
  const powers = [...Array(Math.ceil(Math.log10(high)) - begin + 1).keys()].map((i) => begin + i);
  const digits = powers.length > 5 ? [1] : [1, 2, 5];
  const found = powers.flatMap((power) => digits.map((digit) => digit * 10 ** power));
  const inside = found.filter((value) => low <= value && value <= high);
  return inside.length > 2 ? inside : [];
}

function tickLabel(unit: string | null, value: number, end: number, step: number): string {
  return unit === null ? changeLabel(value, end, step) : tick(unit, value, end, step).trimEnd();
}

/** A ratio as a change, with the decimals that distinguish it from the next one; as a factor if the axis is long. */
function changeLabel(ratio: number, end: number, step: number): string {
  if (end >= FACTOR) return `×${ratio.toFixed(6).replace(/\.?0+$/, "")}`;
  const decimals = Math.max(0, Math.min(4, -Math.floor(Math.log10(100 * step) + 1e-9)));
  const digits = Math.abs(100 * (ratio - 1)).toFixed(decimals);
  const sign = Number(digits) === 0 ? "" : ratio < 1 ? MINUS : "+";
  return `${sign}${digits}%`;
}

/** About `most` ticks of a time axis, in UTC: full hours, or the beginnings of days, months or years. */
export function timeTicks(first: number, last: number, most: number): Ticks {
  const hours = HOURS.find((one) => (last - first) / HOUR / one <= most);
  if (hours !== undefined) return every(hours * HOUR, first, last, hourText);
  const days = (last - first) / DAY;
  const step = DAYS.find((one) => days / one <= most);
  if (step !== undefined) return every(step * DAY, first, last, dayText);
  const months = MONTHS.find((one) => days / 30.4 / one <= most) ?? 240;
  const found: Ticks = [];
  for (let n = Math.ceil(monthNumber(first) / months) * months; n <= monthNumber(last); n += months) {
    const at = Date.UTC(Math.floor(n / 12), n % 12, 1) / 1000;
    if (at >= first && at <= last) found.push([at, monthText(at, months >= 12)]);
  }
  return found;
}

function every(step: number, first: number, last: number, text: (at: number) => string): Ticks {
  const found: Ticks = [];
  for (let n = Math.ceil(first / step); n * step <= last; n++) found.push([n * step, text(n * step)]);
  return found;
}

/** An hour in UTC; at midnight, the day. */
function hourText(moment: number): string {
  return moment % DAY === 0 ? dayText(moment) : new Date(1000 * moment).toISOString().slice(11, 16);
}

function monthNumber(moment: number): number {
  const date = new Date(1000 * moment);
  return date.getUTCFullYear() * 12 + date.getUTCMonth();
}

const NAMES = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];

/** A day in UTC: 7 Jan 26. */
export function dayText(moment: number): string {
  const date = new Date(1000 * moment);
  return `${date.getUTCDate()} ${NAMES[date.getUTCMonth()]} ${String(date.getUTCFullYear() % 100).padStart(2, "0")}`;
}

function monthText(moment: number, yearOnly: boolean): string {
  const date = new Date(1000 * moment);
  return yearOnly ? `${date.getUTCFullYear()}` : `${NAMES[date.getUTCMonth()]} ${date.getUTCFullYear()}`;
}
