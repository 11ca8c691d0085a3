// Numbers as text. speedtrack/benchmarks/numbers.py writes the same on the server; both are tested against units.golden.json.

const MINUS = "−";
const SMALL = 0.0995; // below it a number has more than two decimals
const MOST_DECIMALS = 15;
const SCALES: Record<string, [number, string][]> = {
  ns: [
    [1, "ns"],
    [1e3, "µs"],
    [1e6, "ms"],
    [1e9, "s"],
  ],
  µs: [
    [1, "µs"],
    [1e3, "ms"],
    [1e6, "s"],
  ],
  s: [
    [1e-9, "ns"],
    [1e-6, "µs"],
    [1e-3, "ms"],
    [1, "s"],
  ],
  "requests/s": [
    [1, "/s"],
    [1e3, "k/s"],
    [1e6, "M/s"],
    [1e9, "G/s"],
  ],
  bytes: [
    [1, "B"],
    [1e3, "kB"],
    [1e6, "MB"],
    [1e9, "GB"],
  ],
};

export interface Scale {
  factor: number;
  unit: string;
  decimals: number;
}

/** The scale on which a number of this size has three digits. */
export function scale(unit: string, size: number): Scale {
  const steps = SCALES[unit] ?? [[1, unit]];
  const fitting = steps.filter(([step]) => Math.abs(size) >= step * 0.9995 || (size === 0 && step === 1));
  const [factor, name] = fitting[fitting.length - 1] ?? steps[0]!;
  return { factor, unit: name, decimals: decimalsOf(Math.abs(size) / factor, factor === 1) };
}

/** The decimals for three digits (below 1, two of them after the point), without a tail of zeros alone. */
function decimalsOf(shown: number, unscaled: boolean): number {
  if (shown >= 99.95 || (shown === Math.trunc(shown) && unscaled)) return 0;
  if (shown >= SMALL || shown === 0) return shown >= 9.995 ? 1 : 2;
  return Math.min(MOST_DECIMALS, 2 - Math.floor(Math.log10(shown)));
}

function number(shown: Scale, value: number): string {
  return (value / shown.factor).toFixed(shown.decimals).replace("-", MINUS);
}

export function quantity(unit: string, value: number): string {
  const shown = scale(unit, value);
  return `${number(shown, value)} ${shown.unit}`;
}

/** Both ends in the unit of the higher one; one more decimal if they would look equal. */
export function interval(unit: string, low: number, high: number): string {
  let shown = scale(unit, high);
  if (low !== high && number(shown, low) === number(shown, high)) {
    shown = { ...shown, decimals: shown.decimals + 1 };
  }
  return `${number(shown, low)} to ${number(shown, high)} ${shown.unit}`;
}

/** Ratios from here on are shown as factors. */
export const FACTOR = 10;
/** Beyond these the size does not matter. */
const SMALLEST_RATIO = 0.001;
const LARGEST_FACTOR = 10000;
const UNKNOWN = "not known";

/**
 * A ratio as a signed percentage; from a factor of ten on as a factor.
 * A ratio of zero or below comes from a metric with such values: it is a share of the metric's usual size.
 */
export function change(ratio: number): string {
  return ratio >= FACTOR ? asFactor(ratio) : asPercentage(ratio);
}

/** Both ends of the interval of a ratio, in the notation in which `change` shows the ratio. */
export function changeInterval(ratio: number, low: number, high: number): string {
  const notation = ratio >= FACTOR ? asFactor : asPercentage;
  return `${notation(low)} to ${notation(high)}`;
}

function asFactor(ratio: number): string {
  if (!Number.isFinite(ratio)) return UNKNOWN;
  if (ratio >= LARGEST_FACTOR) return `over ×${LARGEST_FACTOR}`;
  const size = Math.abs(ratio);
  return `×${ratio.toFixed(size < 9.995 ? 2 : size < 99.95 ? 1 : 0).replace("-", MINUS)}`;
}

function asPercentage(ratio: number): string {
  if (!Number.isFinite(ratio)) return UNKNOWN;
  if (ratio >= LARGEST_FACTOR) return asFactor(ratio);
  if (ratio > 0 && ratio < SMALLEST_RATIO) return `under ${MINUS}99.9%`;
  const percent = 100 * (ratio - 1);
  const size = Math.abs(percent);
  const text = percent.toFixed(size < 0.95 ? 2 : size < 99.95 ? 1 : 0).replace("-", MINUS);
  return `${percent >= 0 ? "+" : ""}${text}%`;
}

/** The words for a worse and a better value of a metric, if they are not slower and faster. */
const EFFECTS: Record<string, [string, string]> = {
  instructions_per_request: ["more instructions", "fewer instructions"],
  callgrind_instructions_per_request: ["more instructions", "fewer instructions"],
  counted_instructions_per_request: ["more instructions", "fewer instructions"],
  cycles_per_request: ["more cycles", "fewer cycles"],
  context_switches_per_request: ["more context switches", "fewer context switches"],
  bytes_per_key: ["more memory", "less memory"],
  peak_rss_bytes: ["more memory", "less memory"],
  build_seconds: ["slower build", "faster build"],
  binary_bytes: ["larger binary", "smaller binary"],
};

/** The word for a worse or better value of a metric. */
export function effect(metric: string, worse: boolean): string {
  return (EFFECTS[metric] ?? ["slower", "faster"])[worse ? 0 : 1]!;
}

/** The label of an axis tick: the unit depends on the axis' end, the decimals on its step. */
export function tick(unit: string, value: number, end: number, step: number): string {
  const shown = scale(unit, end);
  const decimals =
    [0, 1, 2, 3].find(
      (d) => Math.abs((step / shown.factor) * 10 ** d - Math.round((step / shown.factor) * 10 ** d)) < 1e-6,
    ) ?? 4;
  return `${number({ ...shown, decimals }, value)} ${shown.unit}`;
}
