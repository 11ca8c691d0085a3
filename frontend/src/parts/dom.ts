// Elements made by hand: foreign texts stay texts, never markup.

type Child = Node | string | null;

export function element<K extends keyof HTMLElementTagNameMap>(
  name: K,
  className: string,
  ...children: Child[]
): HTMLElementTagNameMap[K] {
  const made = document.createElement(name);
  if (className) made.className = className;
  made.append(...children.filter((child) => child !== null));
  return made;
}

export function link(text: string, address: string, className = ""): HTMLAnchorElement {
  const made = element("a", className, text);
  made.href = address;
  return made;
}

/** A moment in the reader's own time zone and format. */
export function ownTime(date: Date): string {
  return date.toLocaleString(undefined, { dateStyle: "medium", timeStyle: "short" });
}

/** A moment in the reader's own time; in UTC on hover. */
export function time(seconds: number): HTMLTimeElement {
  const date = new Date(1000 * seconds);
  const made = element("time", "", ownTime(date));
  made.dateTime = date.toISOString();
  made.title = `${date.toISOString().slice(0, 16).replace("T", " ")} UTC`;
  return made;
}
