// What a person does with the page, and what must be there then. It stands in a copy of the page, behind its script.
(() => {
  const all = (selector) => [...document.querySelectorAll(selector)];
  const one = (selector) => document.querySelector(selector);
  const demand = (holds, what) => { if (!holds) faults.push(what); };
  const report = JSON.parse(one("#report").textContent), count = report.layers.length;
  const rows = () => all("#layers tbody tr");
  const column = (number) => rows().map((row) => row.children[number].textContent);
  const click = (target) => target.dispatchEvent(new MouseEvent("click", { bubbles: true }));

  demand(count === 200 && rows().length === count, "a row for each layer");
  demand(all("#graph g").length === count && all("#graph path").length > count, "a box for each layer, and edges");
  demand(new Set(all("#graph rect").map((box) => box.getAttribute("fill"))).size > 10, "colours by error");
  demand(all("#over ellipse").length > 190, "a point for each layer");

  // Sorting, in both directions, with the numbers of the report.
  const mse = [...one("#layers thead tr").children].findIndex((cell) => cell.textContent === "MSE");
  const values = report.layers.map((layer) => layer.metrics ? layer.metrics[1] : NaN);
  for (const rising of [true, false]) {
    click(one("#layers thead tr").children[mse].querySelector("button"));
    demand(one("#layers thead tr").children[mse].getAttribute("aria-sort") === (rising ? "ascending" : "descending"), "aria-sort");
    const order = rows().map((row) => values[Number(row.dataset.index)]).filter((x) => typeof x === "number" && !isNaN(x));
    demand(order.length > 190 && order.every((x, i) => i === 0 || (rising ? order[i - 1] <= x : order[i - 1] >= x)),
           "sorted, rising " + rising);
  }
  const names = column(0);
  demand(new Set(names).size === count, "no layer is lost by sorting");

  // Picking a layer in each of four ways shows its values.
  const shows = (index) => {
    const layer = report.layers[index], bars = all("#histogram rect").map((bar) => Number(bar.dataset.count));
    return one("#picked").textContent === layer.name && JSON.stringify(bars) === JSON.stringify(layer.histogram[3]) &&
           all("#histogram path").length === 1 && all("#channels rect").length === 2 * layer.channels.length &&
           all("#worst svg").length === layer.worst_channels.length && layer.worst_channels.length === 8 &&
           one("#facts").textContent.includes(layer.shape);
  };
  const heights = () => all("#histogram rect").map((bar) => Number(bar.getAttribute("height")));
  click(rows().find((row) => row.dataset.index === "17").querySelector("button"));
  demand(shows(17), "a layer picked in the table");
  const counts = report.layers[17].histogram[3], tall = heights();
  demand(new Set(tall).size === new Set(counts).size && tall.every((h, i) => (h > 0) === (counts[i] > 0)) && tall[counts.indexOf(Math.max(...counts))] === Math.max(...tall),
         "bars as high as their counts");
  demand(all("#split .bar span").length === 5, "the parts of the error");
  click(all("#graph g")[42]);
  demand(shows(42), "a layer picked in the graph");
  click(all("#over ellipse")[7]);
  demand(shows(7), "a layer picked among the points");
  click(one("#advice button"));
  demand(shows(4), "advice leads to its layer");
  click(all("#graph g")[3]);
  demand(one("#facts").textContent.includes("not finite: baseline 1, analysed 1"), "values that are no numbers are counted");

  // Another metric.
  const before = one("#over path").getAttribute("d");
  one("#metric").value = "Cosine";
  one("#metric").dispatchEvent(new Event("change"));
  demand(one("#over path").getAttribute("d") !== before, "another metric is another line");

  // Names are text.
  demand(report.layers[2].name.includes("</script>") && names.includes(report.layers[2].name), "a hostile name as text");
  demand(all("main b").length === 0 && all("script").length === 4, "no markup out of names");

  // On a phone nothing but the boxes that scroll is wider than the screen.
  document.documentElement.style.width = "390px";
  click(all("#graph g")[2]);
  const wide = all("main *").filter((box) => !box.closest(".scroll") && !box.closest("svg") &&
                                             box.getBoundingClientRect().right > 391);
  demand(wide.length === 0, "within 390 pixels: " + wide.slice(0, 3).map((box) => box.tagName + "#" + box.id).join(" "));
  demand(all("[src], [href]").every((asking) => asking.getAttribute("src") === "page_checks.js"), "asks for nothing");

  const verdict = document.createElement("pre");
  verdict.id = "verdict";
  verdict.textContent = faults.length ? "FAULTS: " + faults.join("; ") : "the page is sound";
  document.body.replaceChildren(verdict);
})();
