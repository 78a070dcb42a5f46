/* start.js - draws all parts of the page, and redraws the coloured ones when the colour scheme changes. */

readStyle();
drawHead();
if (summary.ranks.length) {
  drawChart();
  drawOperations();
  drawSites();
  drawWaits();
  startTimeline();
  /* The events follow the scripts in the file, so the first drawing may lack them. */
  document.addEventListener("DOMContentLoaded", () => { document.body.dataset.ready = "yes"; redraw(); loadLanes(); });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => {
    readStyle();
    updateChart();
    drawLegend();
    drawWaitsMap();
    drawStragglersMap();
    layOut();
  });
  addEventListener("resize", () => { updateChart(); drawWaitsMap(); drawStragglersMap(); });
} else {
  document.addEventListener("DOMContentLoaded", () => { document.body.dataset.ready = "yes"; });
}
