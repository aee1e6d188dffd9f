// Installs SQLite for versions of Node.js older than 22.14. Newer ones use version 13 of the library, which needs neither
// a download by a script nor a compiler.
import { spawn } from "node:child_process";
import { lstatSync, mkdirSync, symlinkSync } from "node:fs";
import { createRequire } from "node:module";
import { join } from "node:path";
import { fileURLToPath } from "node:url";

const PROGRESS_MS = 10_000;
const here = fileURLToPath(new URL(".", import.meta.url));
const say = (line) => process.stderr.write(`${line}\n`);

if (Number(process.versions.napi) < 10 && !isInstalled()) {
  say(
    `Node.js ${process.version} needs its own SQLite library. If no binary can be downloaded, it is compiled for 1 to 7`,
  );
  say("minutes, with Python, make and a C++ compiler. Node.js 22.14 or later needs none of this: https://nodejs.org");
  const began = performance.now();
  const seconds = () => `${Math.round((performance.now() - began) / 1_000)} s`;
  const timer = setInterval(() => say(`Installing or compiling SQLite … ${seconds()}`), PROGRESS_MS);
  const { code, output } = await npmCi();
  clearInterval(timer);
  if (code === 0) link();
  if (code !== 0 || !isInstalled()) {
    say(output);
    say(
      `SQLite cannot be installed here: install Node.js 22.14 or later, or a compiler (Debian: apt-get install g++ make python3)`,
    );
    process.exit(1);
  }
  say(`SQLite is ready after ${seconds()}`);
}

/** Loads it in the way Berth does. */
function isInstalled() {
  try {
    const require = createRequire(join(here, "..", "package.json"));
    const Database = require("better-sqlite3");
    new Database(":memory:").close();
    return require("better-sqlite3/package.json").version.startsWith("12.");
  } catch {
    return false;
  }
}

function npmCi() {
  const npm = process.env.npm_execpath;
  const args = ["ci", "--no-audit", "--no-fund", "--foreground-scripts"];
  const options = { cwd: here, stdio: ["ignore", "pipe", "pipe"] };
  const child = npm
    ? spawn(process.execPath, [npm, ...args], options)
    : spawn("npm", args, { ...options, shell: process.platform === "win32" });
  let output = "";
  for (const stream of [child.stdout, child.stderr]) stream.on("data", (bytes) => (output += bytes));
  return new Promise((resolve) => {
    child.on("error", (error) => resolve({ code: 1, output: error.message }));
    child.on("close", (code) => resolve({ code, output }));
  });
}

/** Berth finds the library among its packages. */
function link() {
  const folder = join(here, "..", "node_modules");
  const path = join(folder, "better-sqlite3");
  if (lstatSync(path, { throwIfNoEntry: false })) return;
  mkdirSync(folder, { recursive: true });
  symlinkSync(join("..", "sqlite-12", "node_modules", "better-sqlite3"), path, "dir");
}
