// Keys in an editor of plain text.

export interface Selected {
  text: string;
  start: number;
  end: number;
}

export const INDENT = "    ";

/** Tab: indents the selected lines; without a selection of several lines, inserts blanks. */
export function indent(at: Selected): Selected {
  const { text, start, end } = at;
  if (!text.slice(start, end).includes("\n")) {
    return { text: text.slice(0, start) + INDENT + text.slice(end), start: start + 4, end: start + 4 };
  }
  return overLines(at, (line) => (line ? INDENT + line : line));
}

/** Shift and Tab: reduces the indentation of the selected lines by one step. */
export function unindent(at: Selected): Selected {
  return overLines(at, (line) => line.replace(/^(?: {1,4}|\t)/, ""));
}

function overLines({ text, start, end }: Selected, change: (line: string) => string): Selected {
  const first = text.lastIndexOf("\n", start - 1) + 1;
  const next = text.indexOf("\n", Math.max(start, end - 1));
  const last = next < 0 ? text.length : next;
  const lines = text.slice(first, last).split("\n");
  const changed = lines.map(change);
  const block = changed.join("\n");
  const moved = changed[0]!.length - lines[0]!.length;
  return {
    text: text.slice(0, first) + block + text.slice(last),
    start: Math.max(first, start + moved),
    end: Math.max(first, end + block.length - (last - first)),
  };
}

/** Enter: the indentation of the new line. */
export function indentation(text: string, at: number): string {
  const line = text.slice(text.lastIndexOf("\n", at - 1) + 1, at);
  return /^[ \t]*/.exec(line)![0];
}

export function lineCount(text: string): number {
  return text.split("\n").length;
}

/** The begin and the end of a line in the text; lines are counted from 1. */
export function rangeOfLine(text: string, line: number): [number, number] {
  const lines = text.split("\n");
  const before = lines.slice(0, line - 1).reduce((sum, one) => sum + one.length + 1, 0);
  return [before, before + (lines[line - 1]?.length ?? 0)];
}
