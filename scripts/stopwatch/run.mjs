// Takes the time of a newcomer's first minutes: `npm run stopwatch`. The package is packed as for publication, and npm
// installs it into empty folders, from the registry that this machine's npm is set to. Claude Code, of which only the
// model is a stand-in, calls what is served there. Exit code 1: something took longer than its bound. With --starts only
// the starts of the installed package are measured, with --walks only the rest.
import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { openBinaries } from "./binaries.mjs";
import { run } from "./processes.mjs";
import { devReady, firstPage } from "./starts.mjs";
import { ownTool, withPackage } from "./walks.mjs";

const OWN_TOOL_S_MAX = 60;
const WITH_PACKAGE_S_MAX = 120;
const FIRST_PAGE_S_MAX = 3;
const DEV_READY_S_MAX = 2;
const TIMES = 5;

const folder = mkdtempSync(join(tmpdir(), "berth-stopwatch-"));
let missed = 0;
let binaries;
try {
  const [{ filename }] = JSON.parse(
    await run(["npm", "pack", "--ignore-scripts", "--json", "--loglevel=error", `--pack-destination=${folder}`], {}),
  );
  const tarball = join(folder, filename);
  binaries = await openBinaries(folder);
  if (!process.argv.includes("--walks")) await measureStarts(tarball);
  if (!process.argv.includes("--starts")) await measureWalks(tarball);
} finally {
  binaries?.close();
  rmSync(folder, { recursive: true, force: true, maxRetries: 5, retryDelay: 100 });
}
console.log(missed === 0 ? "Stopwatch: everything is within its bound" : `Stopwatch: ${missed} took too long`);
process.exit(missed === 0 ? 0 : 1);

async function measureStarts(tarball) {
  const installed = join(folder, "installed");
  mkdirSync(installed);
  writeFileSync(join(installed, "package.json"), '{ "private": true }');
  await run(["npm", "install", "--no-audit", "--no-fund", tarball], { cwd: installed, env: binaries.env });
  const { packages } = JSON.parse(readFileSync(join(installed, "node_modules", ".package-lock.json"), "utf8"));
  const size = `${Object.keys(packages).length} packages, ${megabytes(join(installed, "node_modules"))} MB`;
  console.log(`Installed: ${size}; the tarball has ${megabytes(tarball)} MB`);

  const place = { bin: join(installed, "node_modules", ".bin", "berth"), folder: installed, times: TIMES };
  const page = await firstPage(place);
  tell("berth serve DIR to the first page, a new folder", page.first, FIRST_PAGE_S_MAX);
  tell("berth serve DIR to the first page, again", page.later, FIRST_PAGE_S_MAX);
  const dev = await devReady(place);
  tell("berth dev DIR to the answer of a call, a new folder", dev.first, DEV_READY_S_MAX);
  tell("berth dev DIR to the answer of a call, again", dev.later, DEV_READY_S_MAX);
}

async function measureWalks(tarball) {
  const [{ clients }, { installClients }] = await Promise.all([
    import("../snippets/clients.mjs"),
    import("../snippets/install.mjs"),
  ]);
  const client = clients.find(({ id }) => id === "claude-code");
  console.log(`Installing ${client.name} ${client.version} …`);
  const claude = join(installClients([client], join(folder, "clients")), client.command);
  const place = { folder, tarball, claude, env: binaries.env };
  tell("from an empty folder to an own tool in Claude Code", await ownTool(place), OWN_TOOL_S_MAX);
  tell("with an npm package, a secret and fetch", await withPackage(place), WITH_PACKAGE_S_MAX);
}

function tell(what, seconds, most) {
  const isMissed = seconds > most;
  if (isMissed) missed += 1;
  console.log(`${seconds.toFixed(2).padStart(7)} s  ${what}, of at most ${most} s${isMissed ? ": TOO LONG" : ""}`);
}

function megabytes(path) {
  return (bytesOf(path) / 1_000_000).toFixed(1);
}

function bytesOf(path) {
  const stats = statSync(path);
  if (!stats.isDirectory()) return stats.size;
  return readdirSync(path, { withFileTypes: true }).reduce(
    (sum, each) => sum + (each.isSymbolicLink() ? 0 : bytesOf(join(path, each.name))),
    0,
  );
}
