/* start.js - draws everything, and again what has colours of its own when those change. */

readStyle();
drawHead();
if (summary.ranks.length) {
  drawChart();
  drawOperations();
  drawSites();
  drawWaits();
  startTimeline();
  /* Events come behind the scripts: what is in view may have been drawn without them. */
  document.addEventListener("DOMContentLoaded", () => { document.body.dataset.ready = "yes"; redraw(); loadLanes(); });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => {
    readStyle();
    updateChart();
    drawLegend();
    drawWaitsPicture();
    drawStragglersPicture();
    layOut();
  });
  addEventListener("resize", () => { drawStragglersPicture(); });
} else {
  document.addEventListener("DOMContentLoaded", () => { document.body.dataset.ready = "yes"; });
}
