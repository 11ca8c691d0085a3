// The board of a project: its selections show at once, and a button fills the screen with it.
import { submitOnChange } from "../forms";

submitOnChange(document);
const button = document.querySelector<HTMLButtonElement>("button[data-fullscreen]")!;
button.hidden = !document.fullscreenEnabled;
button.addEventListener("click", () => void document.documentElement.requestFullscreen());
