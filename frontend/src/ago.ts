// The time since a moment, as the server words it (speedtrack/benchmarks/numbers.py).

const DAY = 86_400;
const SPANS: [number, string][] = [
  [365 * DAY, "year"],
  [30 * DAY, "month"],
  [DAY, "day"],
  [3600, "hour"],
  [60, "minute"],
  [1, "second"],
];

export function ago(seconds: number): string {
  const size = Math.abs(seconds);
  if (size < 10) return seconds >= 0 ? "just now" : "now";
  if (seconds <= -3600 && size < DAY) return `in ${Math.floor(size / 3600)} h ${Math.floor((size % 3600) / 60)} min`;
  const [unit, name] = SPANS.find(([unit]) => size >= unit)!;
  const count = Math.floor(size / unit);
  const words = `${count} ${name}${count === 1 ? "" : "s"}`;
  return seconds >= 0 ? `${words} ago` : `in ${words}`;
}
