// Keeps the chart as a picture, so that the pointer's moves copy it rather than draw thousands of points again.
import type { Chart, Plugin, VisualElement } from "chart.js";

/** The last of the plugins: the picture has what all others draw, but no active points and no tooltip. */
export function snapshotPlugin(): Plugin<"line"> {
  let picture: HTMLCanvasElement | null = null;
  return {
    id: "snapshot",
    afterUpdate() {
      picture = null;
    },
    resize() {
      picture = null;
    },
    beforeDraw(chart) {
      if (!picture) return true;
      chart.ctx.drawImage(picture, 0, 0, chart.width, chart.height);
      for (const { element } of chart.getActiveElements()) (element as VisualElement & typeof element).draw(chart.ctx);
      chart.notifyPlugins("afterDraw");
      return false; // all is drawn
    },
    afterDatasetsDraw(chart) {
      if (chart.getActiveElements().length === 0) picture = copyOf(chart);
    },
  };
}

function copyOf({ canvas }: Chart): HTMLCanvasElement {
  const copy = document.createElement("canvas");
  copy.width = canvas.width;
  copy.height = canvas.height;
  copy.getContext("2d")!.drawImage(canvas, 0, 0);
  return copy;
}
