// An exported type's name means one thing in all of src: no two files export a type of the same name.
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";

/** Scripts of pages run in browsers, among names that their libraries and pages give them. */
const APART = /^browser\/|^features\/\w+\/browser\.ts$/;
const EXPORTED = /^export (?:abstract )?(?:interface|type|class|enum) ([A-Za-z0-9_]+)/gm;

const files = new Map();
for (const file of readdirSync("src", { recursive: true, encoding: "utf8" })) {
  if (!/\.m?tsx?$/.test(file) || APART.test(file)) continue;
  for (const [, name] of readFileSync(join("src", file), "utf8").matchAll(EXPORTED)) {
    files.set(name, [...(files.get(name) ?? []), file]);
  }
}
const doubled = [...files].filter(([, homes]) => homes.length > 1);
for (const [name, homes] of doubled)
  console.error(`The type "${name}" is exported by ${homes.join(" and ")}: rename one`);
if (doubled.length > 0) process.exitCode = 1;
else console.error(`Each of ${files.size} exported types has a name of its own.`);
