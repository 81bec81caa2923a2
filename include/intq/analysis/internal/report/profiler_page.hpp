// SPDX-License-Identifier: MIT
//
// The page that shows a report in a browser: one file, which loads nothing over the network. Layer: analysis/report.
//
// Data and page are separate: the text below is the same for every report, and the report is the JSON inside it. The
// script sets all text as text, so no layer name can be markup.
#ifndef INTQ_ANALYSIS_INTERNAL_REPORT_PROFILER_PAGE_HPP
#define INTQ_ANALYSIS_INTERNAL_REPORT_PROFILER_PAGE_HPP

#include <string>
#include <string_view>

#include "intq/core/abi.hpp"

namespace intq::analysis {
inline namespace INTQ_HOSTED_ABI {

/// @param report_json  of a model_report's to_json()
/// @return the text of an HTML file
std::string profiler_page(std::string_view report_json);

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::analysis

// --- definitions ----------------------------------------------------------------------------------------------------
#if INTQ_DEFINES(analysis_report)

namespace intq::analysis {
inline namespace INTQ_HOSTED_ABI {

namespace detail {

// clang-format off
inline constexpr char page_style[] = R"page(<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">
<title>Model profiler</title>
<style>
:root { --ink: #1d2430; --soft: #5c6675; --line: #d8dde5; --paper: #fbfcfd; --card: #ffffff; --accent: #1f6feb;
        --base: #3b82c4; --quant: #e0792b; --mark: #fff3d6; }
@media (prefers-color-scheme: dark) {
  :root { --ink: #e3e8ef; --soft: #98a3b3; --line: #343c48; --paper: #14181e; --card: #1b2129; --accent: #6ea8ff;
          --base: #6cb0ee; --quant: #f3a05c; --mark: #3a3220; } }
* { box-sizing: border-box; }
body { margin: 0; background: var(--paper); color: var(--ink); font: 15px/1.5 system-ui, sans-serif; }
main { max-width: 1240px; margin: 0 auto; padding: 16px; }
h1 { font-size: 1.4em; margin: 8px 0; } h2 { font-size: 1.1em; margin: 0 0 8px; } h3 { font-size: 1em; margin: 14px 0 4px; }
section { background: var(--card); border: 1px solid var(--line); border-radius: 8px; padding: 14px; margin: 14px 0; }
.soft { color: var(--soft); } .scroll { overflow: auto; max-height: 460px; }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; font-size: 13px; width: 100%; }
th, td { padding: 4px 8px; text-align: right; white-space: nowrap; border-bottom: 1px solid var(--line); }
th:first-child, td:first-child, th:nth-child(2), td:nth-child(2) { text-align: left; }
thead th { position: sticky; top: 0; background: var(--card); }
th button, td button, li button { font: inherit; color: inherit; background: none; border: 0; padding: 0; cursor: pointer; }
td button, li button { color: var(--accent); text-decoration: underline; }
th button { font-weight: 600; } th[aria-sort=ascending] button::after { content: " \2191"; }
th[aria-sort=descending] button::after { content: " \2193"; }
tr.picked td { background: var(--mark); }
select { font: inherit; background: var(--card); color: inherit; border: 1px solid var(--line); border-radius: 4px; }
svg { display: block; max-width: 100%; } svg text { fill: var(--soft); font: 11px system-ui, sans-serif; }
.plots { display: grid; grid-template-columns: repeat(auto-fill, minmax(min(100%, 250px), 1fr)); gap: 12px; }
.wide { width: 100%; height: 190px; } .small { width: 100%; height: 110px; }
.legend i { display: inline-block; width: 12px; height: 12px; border-radius: 2px; margin: 0 4px 0 12px; vertical-align: -1px; }
li { margin: 4px 0; overflow-wrap: anywhere; } summary { cursor: pointer; } pre { overflow: auto; margin: 4px 0; white-space: pre-wrap; }
.bar { display: flex; height: 18px; border-radius: 4px; overflow: hidden; } .bar span { min-width: 1px; }
#graph svg { max-width: none; } #graph g { cursor: pointer; } #graph .name { fill: #10151c; }
:focus-visible { outline: 2px solid var(--accent); outline-offset: 2px; }
</style></head><body><main>
<h1 id="title">Model profiler</h1><p id="summary" class="soft"></p>
<section id="advice-part"><h2>Advice</h2><ul id="advice"></ul>
<details id="more-part"><summary>more</summary><ul id="more"></ul></details></section>
<section><h2>Over the layers: <select id="metric" aria-label="metric"></select></h2><div id="over"></div></section>
<section id="detail" aria-live="polite"><h2 id="picked"></h2><p id="facts" class="soft"></p><pre id="step"></pre>
<div id="split"></div>
<p class="legend soft"><i style="background:var(--base)"></i>baseline<i style="background:var(--quant)"></i>analysed</p>
<div id="histogram"></div><div id="channels"></div><div id="worst"></div></section>
<section><h2>Layers</h2><div class="scroll"><table id="layers"><thead></thead><tbody></tbody></table></div></section>
<section><h2>Graph</h2><p class="soft">Green layers are exact to 40 dB and more, red ones have lost their signal.</p>
<div id="graph" class="scroll"></div></section>
</main><script type="application/json" id="report">)page";

inline constexpr char page_script[] = R"page(</script><script>
"use strict";
const report = JSON.parse(document.getElementById("report").textContent);
const layers = report.layers, metrics = report.metrics;
const byId = (id) => document.getElementById(id);
const spaces = "http://www.w3.org/2000/svg";
function node(name, attributes, text) {
  const made = document.createElement(name);
  for (const key in attributes || {}) made.setAttribute(key, attributes[key]);
  if (text !== undefined) made.textContent = text;
  return made;
}
function shape(parent, name, attributes, text) {
  const made = document.createElementNS(spaces, name);
  for (const key in attributes) made.setAttribute(key, attributes[key]);
  if (text !== undefined) made.textContent = text;
  parent.appendChild(made);
  return made;
}
function plot(width, height, kind, label) {
  const svg = document.createElementNS(spaces, "svg");
  svg.setAttribute("viewBox", "0 0 " + width + " " + height);
  svg.setAttribute("class", kind);
  svg.setAttribute("role", "img");
  svg.setAttribute("aria-label", label);
  svg.setAttribute("preserveAspectRatio", "none");
  return svg;
}
// Numbers that JSON cannot hold are words there.
const value = (x) => x === "inf" ? Infinity : x === "-inf" ? -Infinity : x === "nan" ? NaN : x;
function print(x) {
  x = value(x);
  if (x === null || x === undefined) return "";
  if (typeof x !== "number") return String(x);
  if (Number.isNaN(x)) return "nan";
  if (!Number.isFinite(x)) return x > 0 ? "inf" : "-inf";
  return x !== 0 && (Math.abs(x) < 1e-3 || Math.abs(x) >= 1e5) ? x.toExponential(3) : String(Number(x.toFixed(5)));
}
const metricOf = (layer, name) => layer.metrics ? value(layer.metrics[metrics.indexOf(name)]) : null;

function colour(layer) {
  const sqnr = metricOf(layer, "SQNR");
  if (sqnr === null || Number.isNaN(sqnr)) return "hsl(215 12% 72%)";
  const good = Math.min(1, Math.max(0, sqnr / 40));
  return "hsl(" + Math.round(good * 130) + " 62% 62%)";
}

// --- a layer ---------------------------------------------------------------------------------------------------------
function drawHistogram(data, kind, label) {
  const [lowest, highest, base, quant] = data, wide = kind === "wide", width = wide ? 640 : 260, height = wide ? 190 : 110;
  const svg = plot(width, height, kind, label), floor = height - 16, most = Math.max(1, ...base, ...quant);
  // Counts span many powers of ten: the height is a logarithm.
  const tall = (count) => count === 0 ? 0 : (floor - 4) * Math.log1p(count) / Math.log1p(most);
  const step = width / base.length;
  quant.forEach((count, i) => shape(svg, "rect", { x: i * step, y: floor - tall(count), width: step, height: tall(count),
                                                  fill: "var(--quant)", opacity: 0.55, "data-count": count }));
  let line = "M0 " + floor;
  base.forEach((count, i) => { line += "V" + (floor - tall(count)) + "H" + (i + 1) * step; });
  shape(svg, "path", { d: line + "V" + floor, fill: "none", stroke: "var(--base)", "stroke-width": 1.5,
                       "vector-effect": "non-scaling-stroke" });
  const box = node("div", {});
  box.appendChild(svg);
  box.appendChild(node("div", { class: "soft" }, print(lowest) + " \u2026 " + print(highest) + ", counts as logarithms"));
  return box;
}
function drawChannels(ranges) {
  const svg = plot(640, 190, "wide", "range of each channel");
  let lowest = 0, highest = 0;
  for (const r of ranges) { lowest = Math.min(lowest, r[2], r[4]); highest = Math.max(highest, r[3], r[5]); }
  const at = (y) => highest === lowest ? 95 : 6 + 178 * (highest - y) / (highest - lowest), step = 640 / ranges.length;
  shape(svg, "line", { x1: 0, x2: 640, y1: at(0), y2: at(0), stroke: "var(--line)" });
  ranges.forEach((r, i) => {
    for (const [from, to, ink, shift] of [[r[2], r[3], "var(--base)", 0.1], [r[4], r[5], "var(--quant)", 0.5]]) {
      const bar = shape(svg, "rect", { x: (i + shift) * step, width: 0.4 * step, y: at(to),
                                       height: Math.max(1, at(from) - at(to)), fill: ink });
      shape(bar, "title", {}, (r[1] === 1 ? "channel " + r[0] : "channels " + r[0] + " to " + (r[0] + r[1] - 1)) + ": " +
                              print(from) + " \u2026 " + print(to));
    }
  });
  return svg;
}
const causes = ["inherited", "weight rounding", "input clipping", "input rounding", "requantization"];
const inks = ["#8a94a6", "#7c5cd6", "#d64550", "#e0a12b", "#2f9e77"];
function drawSplit(shares) {
  const box = node("div", {}), bar = node("div", { class: "bar" }), key = node("p", { class: "legend soft" });
  box.appendChild(node("h3", {}, "Of what the error is made"));
  shares.forEach((share, i) => {
    bar.appendChild(node("span", { style: "flex:" + Math.max(0, share) + ";background:" + inks[i] }));
    key.appendChild(node("i", { style: "background:" + inks[i] }));
    key.appendChild(document.createTextNode(causes[i] + " " + (100 * share).toFixed(1) + " %"));
  });
  box.appendChild(bar);
  box.appendChild(key);
  return box;
}
function replace(id, made) { byId(id).replaceChildren(...made); }
let picked = -1;
function pick(index, scrolls) {
  picked = index;
  const layer = layers[index], facts = [layer.type, layer.shape, layer.dtype];
  if (layer.scale) facts.push("scale " + layer.scale);
  facts.push("baseline " + print(layer.baseline[0]) + " \u2026 " + print(layer.baseline[1]),
             "analysed " + print(layer.analysis[0]) + " \u2026 " + print(layer.analysis[1]));
  if (layer.not_finite) facts.push("not finite: baseline " + layer.not_finite[0] + ", analysed " + layer.not_finite[1]);
  byId("picked").textContent = layer.name;
  byId("facts").textContent = facts.filter((fact) => fact).join(" \u00b7 ");
  byId("step").textContent = layer.step || "";
  replace("split", layer.shares ? [drawSplit(layer.shares)] : []);
  replace("histogram", layer.histogram ? [node("h3", {}, "Values"), drawHistogram(layer.histogram, "wide", "values of both models")]
                                       : [node("p", { class: "soft" }, "The models have no values of the same shape here.")]);
  replace("channels", layer.channels && layer.channels.length > 1
      ? [node("h3", {}, "Range of each channel"), drawChannels(layer.channels)] : []);
  const grid = node("div", { class: "plots" });
  for (const [channel, error, ...data] of layer.worst_channels || []) {
    const box = node("div", {});
    box.appendChild(node("div", {}, "channel " + channel + ", error " + print(error)));
    box.appendChild(drawHistogram(data, "small", "values of channel " + channel));
    grid.appendChild(box);
  }
  replace("worst", grid.childNodes.length ? [node("h3", {}, "Channels with the largest error"), grid] : []);
  for (const row of document.querySelectorAll("#layers tbody tr"))
    row.classList.toggle("picked", Number(row.dataset.index) === index);
  for (const box of document.querySelectorAll("#graph g"))
    box.firstChild.setAttribute("stroke-width", Number(box.dataset.index) === index ? 3 : 1);
  if (scrolls) byId("detail").scrollIntoView({ block: "start" });
}

// --- all layers ------------------------------------------------------------------------------------------------------
const columns = [["Layer", (l) => l.name], ["Type", (l) => l.type], ["Dtype", (l) => l.dtype]]
  .concat(metrics.map((name) => [name, (l) => metricOf(l, name)]))
  .concat([["Base min", (l) => value(l.baseline[0])], ["Base max", (l) => value(l.baseline[1])],
           ["Min", (l) => value(l.analysis[0])], ["Max", (l) => value(l.analysis[1])]]);
let sorted = { column: -1, rising: true };
function orderOf() {
  const order = layers.map((_, i) => i);
  if (sorted.column < 0) return order;
  const key = columns[sorted.column][1];
  const isNothing = (x) => x === null || x === undefined || Number.isNaN(x);
  return order.sort((i, j) => {
    const a = key(layers[i]), b = key(layers[j]);
    if (isNothing(a) || isNothing(b)) return isNothing(a) === isNothing(b) ? i - j : isNothing(a) ? 1 : -1;
    return a === b ? i - j : (a < b ? -1 : 1) * (sorted.rising ? 1 : -1);
  });
}
function drawTable() {
  const head = node("tr", {}), body = document.querySelector("#layers tbody");
  columns.forEach(([name], column) => {
    const cell = node("th", { scope: "col" }), button = node("button", { type: "button" }, name);
    if (column === sorted.column) cell.setAttribute("aria-sort", sorted.rising ? "ascending" : "descending");
    button.addEventListener("click", () => {
      sorted = { column, rising: column === sorted.column ? !sorted.rising : true };
      drawTable();
    });
    cell.appendChild(button);
    head.appendChild(cell);
  });
  document.querySelector("#layers thead").replaceChildren(head);
  body.replaceChildren(...orderOf().map((index) => {
    const row = node("tr", { "data-index": index });
    columns.forEach(([, key], column) => {
      const cell = node("td", {});
      if (column === 0) {
        const button = node("button", { type: "button" }, layers[index].name);
        button.addEventListener("click", () => pick(index, true));
        cell.appendChild(button);
      } else cell.textContent = print(key(layers[index]));
      row.appendChild(cell);
    });
    if (index === picked) row.classList.add("picked");
    return row;
  }));
}
function drawOver() {
  const name = byId("metric").value, svg = plot(1000, 190, "wide", name + " of each layer");
  const points = layers.map((layer) => metricOf(layer, name)), finite = points.filter((x) => Number.isFinite(x));
  const lowest = Math.min(...finite), highest = Math.max(...finite);
  const at = (y) => highest === lowest ? 95 : 8 + 170 * (highest - y) / (highest - lowest);
  let line = "";
  points.forEach((y, i) => {
    if (!Number.isFinite(y)) return;
    const x = 1000 * (i + 0.5) / points.length;
    line += (line ? "L" : "M") + x + " " + at(y);
    const dot = shape(svg, "ellipse", { cx: x, cy: at(y), rx: 4, ry: 4, fill: colour(layers[i]), stroke: "var(--ink)",
                                        "stroke-width": 0.5 });
    dot.addEventListener("click", () => pick(i, true));
    shape(dot, "title", {}, layers[i].name + ": " + print(y));
  });
  const path = shape(svg, "path", { d: line || "M0 0", fill: "none", stroke: "var(--accent)", "vector-effect": "non-scaling-stroke" });
  svg.insertBefore(path, svg.firstChild);
  const note = finite.length ? print(lowest) + " \u2026 " + print(highest) : "no layer has this metric";
  byId("over").replaceChildren(svg, node("div", { class: "soft" }, note));
}
function drawGraph() {
  const depth = [], columnsOf = [], places = [];
  layers.forEach((layer, i) => {
    depth[i] = Math.max(0, ...layer.inputs.filter((k) => k < i).map((k) => depth[k] + 1));
    columnsOf[depth[i]] = (columnsOf[depth[i]] || 0) + 1;
    places[i] = { x: 8 + (columnsOf[depth[i]] - 1) * 226, y: 8 + depth[i] * 58 };
  });
  const width = 8 + 226 * Math.max(1, ...columnsOf.map((n) => n || 0)), height = 16 + 58 * columnsOf.length;
  const svg = plot(width, height, "", "the layers and what they read");
  svg.setAttribute("width", width);
  svg.setAttribute("height", height);
  layers.forEach((layer, i) => layer.inputs.filter((k) => k < i).forEach((k) => {
    const a = places[k], b = places[i], x1 = a.x + 107, y1 = a.y + 42, x2 = b.x + 107, y2 = b.y;
    const bend = depth[i] - depth[k] > 1 && a.x === b.x ? 120 : 0;
    shape(svg, "path", { d: "M" + x1 + " " + y1 + "C" + (x1 + bend) + " " + (y1 + 16) + " " + (x2 + bend) + " " + (y2 - 16) +
                            " " + x2 + " " + y2, fill: "none", stroke: "var(--soft)" });
  }));
  layers.forEach((layer, i) => {
    const box = shape(svg, "g", { "data-index": i, tabindex: 0, role: "button" });
    shape(box, "rect", { x: places[i].x, y: places[i].y, width: 214, height: 42, rx: 6, fill: colour(layer), stroke: "var(--ink)" });
    const short = (text) => text.length > 32 ? text.slice(0, 31) + "\u2026" : text;
    shape(box, "text", { x: places[i].x + 8, y: places[i].y + 17, class: "name" }, short(layer.name));
    shape(box, "text", { x: places[i].x + 8, y: places[i].y + 33, class: "name" }, short(layer.type + (layer.dtype ? " \u2192 " + layer.dtype : "")));
    shape(box, "title", {}, layer.step || layer.name);
    box.addEventListener("click", () => pick(i, true));
    box.addEventListener("keydown", (event) => { if (event.key === "Enter") pick(i, true); });
  });
  byId("graph").replaceChildren(svg);
}

byId("title").textContent = report.title;
byId("summary").textContent = report.summary;
for (const name of metrics) byId("metric").appendChild(node("option", { value: name }, name));
byId("metric").value = metrics.includes("SQNR") ? "SQNR" : metrics[0];
byId("metric").addEventListener("change", drawOver);
report.advice.forEach((advice, number) => {
  const item = node("li", {}), index = layers.findIndex((layer) => layer.name === advice.layer);
  if (index >= 0) {
    const button = node("button", { type: "button" }, advice.layer);
    button.addEventListener("click", () => pick(index, true));
    item.appendChild(button);
  } else item.appendChild(document.createTextNode(advice.layer));
  item.appendChild(document.createTextNode(": " + advice.reason));
  item.appendChild(node("pre", {}, advice.change));
  byId(number < 4 ? "advice" : "more").appendChild(item);
});
byId("more-part").hidden = report.advice.length <= 4;
byId("advice-part").hidden = report.advice.length === 0;
drawOver();
drawTable();
drawGraph();
if (layers.length) {
  let worst = 0;
  layers.forEach((layer, i) => {
    const a = metricOf(layer, "SQNR"), b = metricOf(layers[worst], "SQNR");
    if (a !== null && !Number.isNaN(a) && (b === null || Number.isNaN(b) || a < b)) worst = i;
  });
  pick(worst, false);
} else byId("detail").hidden = true;
</script></body></html>
)page";
// clang-format on

}  // namespace detail

INTQ_INLINE std::string profiler_page(std::string_view report_json) {
    std::string text = detail::page_style;
    // The text ends at the first "</script": no "<" of the data stays.
    for (const char c : report_json)
        if (c == '<')
            text += "\\u003c";
        else
            text += c;
    return text + detail::page_script;
}

}  // namespace INTQ_HOSTED_ABI
}  // namespace intq::analysis

#endif  // INTQ_DEFINES(analysis_report)
#endif  // INTQ_ANALYSIS_INTERNAL_REPORT_PROFILER_PAGE_HPP
