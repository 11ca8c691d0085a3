// The slider of what it would take: shows the answer to the change that is chosen. The server has made all answers.

const slider = document.querySelector<HTMLInputElement>("form.takes input[type=range]");
const answers = [...document.querySelectorAll<HTMLElement>("ol.takes > li")];

function show(): void {
  const distance = (answer: HTMLElement) => Math.abs(100 * Number(answer.dataset["see"]) - slider!.valueAsNumber);
  const nearest = answers.reduce((best, answer) => (distance(answer) < distance(best) ? answer : best));
  for (const answer of answers) answer.hidden = answer !== nearest;
  const words = nearest.dataset["words"]!;
  slider!.form!.querySelector("output")!.textContent = words;
  slider!.setAttribute("aria-valuetext", words);
}

/** The address of the answer, so that a reload and a form come back to it. */
function keep(): void {
  const address = new URL(location.href);
  address.searchParams.set("see", slider!.value);
  history.replaceState(history.state, "", address);
}

if (slider) {
  slider.form!.querySelector("button")!.hidden = true;
  slider.addEventListener("input", show);
  slider.addEventListener("change", keep);
  show(); // browsers keep where it stood before a reload
}
