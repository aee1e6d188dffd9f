// Doc comments begin with what a thing is or does, as a native writer would put it: not with "What", "Of" or "Whether".
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";

const BEGINNING = /\/\*\*\s*(?:\*\s*)?(What|Of|Whether)\b/g;

let count = 0;
for (const folder of ["src", "test", "scripts"]) {
  for (const file of readdirSync(folder, { recursive: true, encoding: "utf8" })) {
    const path = join(folder, file);
    if (!/\.[mc]?[jt]sx?$/.test(path) || /node_modules|fixtures/.test(path)) continue;
    const text = readFileSync(path, "utf8");
    for (const { 1: word, index } of text.matchAll(BEGINNING)) {
      count += 1;
      console.error(`${path}:${text.slice(0, index).split("\n").length}: this doc comment begins with "${word}"`);
    }
  }
}
if (count > 0) process.exitCode = 1;
console.error(count === 0 ? "No doc comment begins with What, Of or Whether." : `${count} doc comments do.`);
