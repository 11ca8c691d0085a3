// The suggestions of a search box: the document of /search.json, and the choice by keys.

export interface Suggestion {
  kind: string;
  title: string;
  detail: string;
  url: string;
}

/** The position after a key: up and down move in a circle, with "none" (-1), the text itself, between the ends. */
export function placeAfter(key: string, place: number, count: number): number {
  if (key === "ArrowDown") return place + 1 < count ? place + 1 : -1;
  if (key === "ArrowUp") return place === -1 ? count - 1 : place - 1;
  return place;
}

/** The text for screen readers when suggestions have arrived. */
export function spoken(count: number): string {
  if (count === 0) return "Nothing found";
  return count === 1 ? "1 suggestion" : `${count} suggestions`;
}

/** Returns whether a key goes to this element as text, and is no shortcut. */
export function takesText(tag: string, type: string, editable: boolean): boolean {
  if (editable || tag === "TEXTAREA" || tag === "SELECT") return true;
  return tag === "INPUT" && !["checkbox", "radio", "button", "submit", "range"].includes(type);
}
