// Runs every script `check:…` of package.json, as many side by side as there are processors, the first ones first. Each
// runs to its end, whatever the others find, and its output is shown then. Exit code 1: one found something.
import { spawn } from "node:child_process";
import { readFileSync } from "node:fs";
import { availableParallelism } from "node:os";
import { delimiter, resolve } from "node:path";

const { scripts } = JSON.parse(readFileSync("package.json", "utf8"));
const waiting = Object.entries(scripts).filter(([name]) => name.startsWith("check:"));
const env = { ...process.env, PATH: [resolve("node_modules/.bin"), process.env["PATH"]].join(delimiter) };

async function carryOut([name, command]) {
  const started = performance.now();
  const child = spawn(command, { shell: true, env, stdio: ["ignore", "pipe", "pipe"] });
  const output = [];
  for (const stream of [child.stdout, child.stderr]) stream.on("data", (chunk) => output.push(chunk));
  const code = await new Promise((resolve) => child.once("close", resolve));
  const seconds = ((performance.now() - started) / 1000).toFixed(1);
  process.stdout.write(`${code === 0 ? "✔" : "✖"} ${name} (${seconds} s): ${command}\n`);
  process.stdout.write(Buffer.concat(output));
  if (code !== 0) process.exitCode = 1;
}

await Promise.all(
  Array.from({ length: availableParallelism() }, async () => {
    for (let check = waiting.shift(); check; check = waiting.shift()) await carryOut(check);
  }),
);
