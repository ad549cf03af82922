// Runs the search worker of the built site as a browser does: `node search_site.js SITE` reads a list
// of queries from stdin, and prints the addresses that each finds, best first.
"use strict";
const fs = require("fs");
const vm = require("vm");

const site = process.argv[2];
const folder = `${site}/assets/javascripts/workers`;
const worker = fs.readdirSync(folder).find((name) => /^search\..*\.js$/.test(name));
const index = JSON.parse(fs.readFileSync(`${site}/search/search_index.json`, "utf-8"));

let receive;
let answered;
const world = {
  console,
  addEventListener: (_, listener) => { receive = listener; },
  postMessage: (data) => answered(data),
};
world.self = world;
vm.runInNewContext(fs.readFileSync(`${folder}/${worker}`, "utf-8"), world);

const ask = (type, data) => new Promise((resolve) => { answered = resolve; receive({ data: { type, data } }); });

(async () => {
  await ask(0, { ...index, options: { suggest: false } });
  const found = {};
  for (const query of JSON.parse(fs.readFileSync(0, "utf-8"))) {
    const { data } = await ask(2, query);
    found[query] = data.items.map((hits) => hits[0].location);
  }
  console.log(JSON.stringify(found));
})();
