// Compares real MCP servers with themselves through Berth, in four revisions: `npm run servers`. What a client gets has to
// be equal, numbers as written, but for what docs/pass-through.md says. Nothing is reached but the servers' own processes.
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { parseArgs } from "node:util";
import { startTestBerth } from "../../dist/test/support/berth.js";
import { compareServer, openHosted, REVISIONS, startDirect } from "../../dist/test/support/pass-through.js";
import { installFolder } from "../install-folder.mjs";
import { servers } from "./servers.mjs";

const HELP = `Usage: npm run servers -- [options]

  --only NAME[,NAME]  these alone
  --help              this text
`;

const { values } = parseArgs({ options: { only: { type: "string" }, help: { type: "boolean", default: false } } });
const own = fileURLToPath(new URL(".", import.meta.url));

if (values.help) process.stdout.write(HELP);
else process.exitCode = await run();

/** @returns {Promise<number>} exit code */
async function run() {
  // No tool is called that would open a browser.
  installFolder(own, (line) => process.stdout.write(`servers: ${line}\n`), { PUPPETEER_SKIP_DOWNLOAD: "true" });
  const folder = mkdtempSync(join(tmpdir(), "berth-servers-"));
  writeFileSync(join(folder, "a.txt"), "one line\n");
  const all = servers(folder);
  const names = values.only?.split(",").map((name) => name.trim()) ?? Object.keys(all);
  const unknown = names.find((name) => !(name in all));
  if (unknown !== undefined) throw new Error(`${unknown} is not among the servers in scripts/servers/servers.mjs`);
  const used = new Set();
  let failed = 0;
  try {
    for (const name of names) {
      const { args = [], env = {}, ...compared } = all[name];
      const program = ["node", programOf(name), ...args];
      const more = [
        ...args.map((arg) => `arg=${encodeURIComponent(arg)}`),
        ...Object.entries(env).map(([key, value]) => `env.${key}=${encodeURIComponent(value)}`),
      ];
      const upstream = `mcp+node://${program[1]}?${more.join("&")}`;
      const berth = await startTestBerth({ mcps: { hosted: { upstream } }, env: { BERTH_UPSTREAM_PROGRAMS: "on" } });
      try {
        for (const revision of REVISIONS)
          failed += (await isEqual(berth.url, { ...compared, program, env }, revision)) ? 0 : 1;
      } finally {
        await berth.close();
      }
    }
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
  process.stdout.write(`servers: ${names.length} in ${REVISIONS.length} revisions, ${failed} differ\n`);
  return failed === 0 ? 0 : 1;

  async function isEqual(url, server, revision) {
    const name = server.program[1].slice(own.length + "node_modules/".length);
    const direct = await startDirect(server, revision);
    try {
      await compareServer(server, revision, direct.ask, await openHosted(`${url}/mcp/hosted`, revision), used);
      process.stdout.write(`equal    ${revision}  ${name}\n`);
      return true;
    } catch (error) {
      process.stdout.write(`DIFFERS  ${revision}  ${name}\n${error.message}\n`);
      return false;
    } finally {
      await direct.close();
    }
  }
}

/** The program of a package, which may have several. */
function programOf(name) {
  const folder = join(own, "node_modules", name);
  const { bin } = JSON.parse(readFileSync(join(folder, "package.json"), "utf8"));
  return join(folder, typeof bin === "string" ? bin : Object.values(bin)[0]);
}
