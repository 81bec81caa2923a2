// SPDX-License-Identifier: MIT
//
// Times layers of a file of shapes, and loops over codes, in two modules of timed.cpp, in turns in one process, and
// prints the medians and the ratio: node times.mjs <scalar.wasm> <wasm.wasm> <file of shapes>
import { readFile } from 'node:fs/promises';
import { WASI } from 'node:wasi';

const rounds = 7;
/// Layers beyond this take `scalar` too long.
const mostProducts = 300e6;

async function load(path) {
    const wasi = new WASI({ version: 'preview1', returnOnExit: true });
    const module = await WebAssembly.compile(await readFile(path));
    const instance = await WebAssembly.instantiate(module, { wasi_snapshot_preview1: wasi.wasiImport });
    wasi.initialize(instance);
    return instance.exports;
}

function text(exports, at) {
    const bytes = new Uint8Array(exports.memory.buffer, at);
    return new TextDecoder().decode(bytes.subarray(0, bytes.indexOf(0)));
}

function median(numbers) {
    return numbers.sort((a, b) => a - b)[numbers.length >> 1];
}

/// The medians of both modules, a round of one and then of the other.
function medians(time) {
    const times = modules.map(() => []);
    for (let round = 0; round < rounds; ++round) modules.forEach((module, i) => times[i].push(time(module)));
    return times.map(median);
}

/// The numbers of a line as time_layer takes them; null for windows that are no square.
function layerOf(words) {
    if (words[0] === 'gemm') return [words[2], words[3], 1, 1, words[4], 1, 1, 0, 1].map(Number);
    const [channels, height, width, outputs, kernel, stride, padding, groups = 1] = words.slice(2).map(Number);
    const layer = [1, channels, height, width, outputs, kernel, stride, padding, groups];
    return layer.every(Number.isInteger) ? layer : null;
}

function products([batch, channels, height, width, outputs, kernel, stride, padding, groups]) {
    const out = (size) => Math.floor((size + 2 * padding - kernel) / stride) + 1;
    return batch * out(height) * out(width) * outputs * kernel * kernel * channels / groups;
}

/// A row of a table: the numbers of both modules, and how many times as fast the second is.
function print(name, numbers, ratio, digits) {
    console.log(`| ${name} | ${numbers.map((number) => number.toFixed(digits)).join(' | ')} | ${ratio.toFixed(2)} |`);
}

const modules = [await load(process.argv[2]), await load(process.argv[3])];
const names = modules.map((module) => text(module, module.backend()));
console.log(`| layer | ${names.map((name) => `\`${name}\`, GOP/s`).join(' | ')} | ratio |\n| --- | ---: | ---: | ---: |`);
for (const line of (await readFile(process.argv[4], 'utf8')).split('\n')) {
    const words = line.replace(/#.*/, '').split(/\s+/).filter(Boolean);
    const layer = words.length > 0 ? layerOf(words) : null;
    if (layer === null || products(layer) > mostProducts) continue;
    const [before, after] = medians((module) => module.time_layer(...layer));
    print(words[1], [before, after].map((seconds) => 2e-9 * products(layer) / seconds), before / after, 1);
}
console.log(`\n| loop, ns an element | ${names.map((name) => `\`${name}\``).join(' | ')} | ratio |\n| --- | ---: | ---: | ---: |`);
for (let i = 0; modules[0].loop_name(i) !== 0; ++i) {
    const [before, after] = medians((module) => module.time_loop(i));
    print(text(modules[0], modules[0].loop_name(i)), [before, after], before / after, 3);
}
