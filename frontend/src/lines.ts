// Ranges of lines in the part of an address after #: L120, L120-L140.

export type LineRange = [first: number, last: number];

export function parseRange(hash: string): LineRange | null {
  const found = /^#?L([1-9]\d{0,8})(?:-L?([1-9]\d{0,8}))?$/.exec(hash);
  if (!found) return null;
  const [one, other] = [Number(found[1]), Number(found[2] ?? found[1])];
  return one <= other ? [one, other] : [other, one];
}

export function formatRange([first, last]: LineRange): string {
  return first === last ? `#L${first}` : `#L${first}-L${last}`;
}

/** The range after a click on a line: with the shift key, from the begin of the last range. */
export function clicked(line: number, before: LineRange | null, isShifted: boolean): LineRange {
  if (!isShifted || !before) return [line, line];
  return line < before[0] ? [line, before[0]] : [before[0], line];
}
