// Links to the visible part, and its picture as PNG.
import { type Ends, withEnds } from "../view";
import { DARK } from "../chart/colours";
import { element } from "./dom";

const WIDTH = 1200;
const HEIGHT = 520;
const SCALE = 2; // pixels of the picture per pixel of the drawing

/** Updates the links and parts of the page that show the same part of the timeline as the chart. */
export function follow(ends: Ends | null): void {
  for (const one of document.querySelectorAll<HTMLAnchorElement>("a[data-follows]")) {
    const address = new URL(one.href);
    address.search = withEnds(address.search, ends);
    one.href = address.href;
  }
  for (const one of document.querySelectorAll<HTMLInputElement>("input[data-follows]"))
    one.value = `${location.pathname}${withEnds(location.search, ends)}`;
  for (const one of document.querySelectorAll<HTMLElement>("details[data-follows]")) {
    one.dataset["part"] = withEnds(one.dataset["part"]!, ends);
    one.dispatchEvent(new Event("toggle")); // loads it again if it is open
  }
}

/** The server draws the SVG; here it becomes a PNG, in the colours of the page. */
export function offerPicture(anchor: HTMLAnchorElement): void {
  anchor.hidden = false;
  anchor.addEventListener("click", (event) => {
    event.preventDefault();
    const address = new URL(anchor.href);
    const dark = matchMedia(DARK).matches;
    for (const [key, value] of Object.entries({ width: WIDTH, height: HEIGHT, theme: dark ? "dark" : "light" }))
      address.searchParams.set(key, `${value}`);
    void savePicture(address);
  });
}

async function savePicture(address: URL): Promise<void> {
  const image = new Image(WIDTH, HEIGHT);
  image.src = address.href;
  await image.decode();
  const canvas = element("canvas", "");
  [canvas.width, canvas.height] = [WIDTH * SCALE, HEIGHT * SCALE];
  canvas.getContext("2d")!.drawImage(image, 0, 0, canvas.width, canvas.height);
  const blob = await new Promise<Blob | null>((done) => canvas.toBlob(done, "image/png"));
  if (!blob) return;
  const saved = element("a", "");
  saved.href = URL.createObjectURL(blob);
  saved.download = `${address.pathname
    .split("/")
    .slice(-2)
    .join("-")
    .replace(/\.svg$/, "")}.png`;
  saved.click();
  URL.revokeObjectURL(saved.href);
}
