// Installs the SQLite library that this version of Node.js needs. npm cannot: it chooses no package by the version of
// Node.js, and compiles each one with a binding.gyp, although version 13 of the library contains binaries.
import { spawn } from "node:child_process";
import { existsSync, mkdirSync, rmSync, symlinkSync } from "node:fs";
import { createRequire } from "node:module";
import { join } from "node:path";
import { fileURLToPath } from "node:url";

const PROGRESS_MS = 10_000;
const root = fileURLToPath(new URL("..", import.meta.url));
// Version 13 needs Node-API 10.
const isOld = Number(process.versions.napi) < 10;
const [folder, name] = isOld ? ["sqlite/12", "better-sqlite3"] : ["sqlite/13", "better-sqlite3-13"];
// npm shows no output of a dependency's script, so it compiles nothing: Berth says what to run when it starts.
const isSilent = process.env.npm_lifecycle_event === "postinstall" && !existsSync(join(root, "src"));
const say = (line) => process.stderr.write(`${line}\n`);

if (!isInstalled() && !(isOld && isSilent)) {
  if (isOld) {
    say(
      `Node.js ${process.version} needs its own SQLite library. If no binary can be downloaded, it is compiled for 1 to 7`,
    );
    say("minutes, with Python, make and a C++ compiler. Node.js 22.14 or later needs none of this: https://nodejs.org");
  }
  const began = performance.now();
  const seconds = () => `${Math.round((performance.now() - began) / 1_000)} s`;
  const timer = setInterval(
    () => say(`Installing SQLite${isOld ? ", perhaps compiling it" : ""} … ${seconds()}`),
    PROGRESS_MS,
  );
  const { code, output } = await npmCi();
  clearInterval(timer);
  if (code === 0) link();
  if (code === 0 && isInstalled()) say(`SQLite is ready after ${seconds()}`);
  else {
    say(output);
    say("SQLite was not installed, and Berth cannot store anything without it. Fix what npm reports above, then run:");
    say(`  node "${fileURLToPath(import.meta.url)}"`);
    if (isOld) say("Or install Node.js 22.14 or later, or a compiler (Debian: apt-get install g++ make python3).");
    process.exitCode = 1;
  }
}

/** Loads it as Berth does. */
function isInstalled() {
  // Node.js caches that a package is missing.
  if (!existsSync(join(root, "node_modules", name, "package.json"))) return false;
  try {
    const require = createRequire(join(root, "package.json"));
    const Database = require(name);
    new Database(":memory:").close();
    return true;
  } catch {
    return false;
  }
}

function npmCi() {
  const npm = process.env.npm_execpath;
  const args = ["ci", "--no-audit", "--no-fund", isOld ? "--foreground-scripts" : "--ignore-scripts"];
  const options = { cwd: join(root, folder), stdio: ["ignore", "pipe", "pipe"] };
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
  const path = join(root, "node_modules", name);
  rmSync(path, { recursive: true, force: true });
  mkdirSync(join(root, "node_modules"), { recursive: true });
  symlinkSync(join("..", folder, "node_modules", "better-sqlite3"), path, "junction");
  // The sources of SQLite, half of its size.
  for (const sources of ["deps", "src"]) rmSync(join(path, sources), { recursive: true, force: true });
}
