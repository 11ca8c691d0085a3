// The page's present colours and font from the style sheet.

/** The dark theme; paper is always light. */
export const DARK = "screen and (prefers-color-scheme: dark)";

export interface Colours {
  ink: string;
  soft: string;
  line: string;
  surface: string;
  worse: string;
  better: string;
  series: string[];
  font: string;
}

export function pageColours(): Colours {
  const style = getComputedStyle(document.documentElement);
  const value = (name: string) => style.getPropertyValue(name).trim();
  return {
    ink: value("--ink"),
    soft: value("--soft"),
    line: value("--line"),
    surface: value("--surface"),
    worse: value("--worse"),
    better: value("--better"),
    series: [1, 2, 3, 4].map((i) => value(`--series-${i}`)),
    font: value("--sans"),
  };
}
