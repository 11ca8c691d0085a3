// Describes the frame under the pointer or with the focus; the arrow keys move between the frames of a flame graph.

function place(frame: Element): { x: number; right: number; y: number } {
  const box = frame.getBoundingClientRect();
  return { x: box.x, right: box.right, y: box.y };
}

/** The frame next to another: its caller, the first one that it called, or its neighbour in the row. */
function next(frames: Element[], from: Element, key: string): Element | undefined {
  const here = place(from);
  const rows = { ArrowUp: -1, ArrowDown: 1 }[key];
  if (rows === undefined) {
    const row = frames.filter((one) => Math.abs(place(one).y - here.y) < 1);
    return row[row.indexOf(from) + (key === "ArrowLeft" ? -1 : 1)];
  }
  const beyond = frames.filter((one) => Math.sign(Math.round(place(one).y - here.y)) === rows);
  const over = beyond.filter((one) => place(one).x < here.right - 0.5 && place(one).right > here.x + 0.5);
  return rows < 0 ? over.at(-1) : over[0];
}

function start(graph: Element): void {
  const frames = [...graph.querySelectorAll("a")];
  const description = graph.nextElementSibling!;
  const describe = (event: Event): void => {
    const frame = (event.target as Element).closest("a");
    if (frame) description.textContent = frame.getAttribute("aria-label");
  };
  const only = (frame: Element): void =>
    frames.forEach((one) => one.setAttribute("tabindex", one === frame ? "0" : "-1"));
  if (frames[0]) only(frames[0]);
  graph.addEventListener("pointerover", describe);
  graph.addEventListener("focusin", describe);
  graph.addEventListener("keydown", (event) => {
    const { key, target } = event as KeyboardEvent;
    if (!["ArrowUp", "ArrowDown", "ArrowLeft", "ArrowRight"].includes(key)) return;
    const to = next(frames, (target as Element).closest("a")!, key) as SVGAElement | undefined;
    event.preventDefault();
    if (!to) return;
    only(to);
    to.focus();
  });
}

document.querySelectorAll("[data-flame]").forEach(start);
