import { once } from "node:events";
import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { createServer } from "node:http";
import { join } from "node:path";
import { openMessages } from "./messages.mjs";
import { run, start } from "./processes.mjs";

const KEY = "a-key-of-the-stopwatch";
const PRICES = `item,price
bread,4.20
tea,2.50
`;

/**
 * The commands of the README up to a call of the first tool from Claude Code, in a new folder and with an empty cache of
 * npm. Only where the package comes from is not as there: from the file `tarball`, which stands in for a published one.
 */
export function ownTool(place) {
  return walk("own tool", place, async ({ npx, npm, dev, claude }) => {
    await npx("berth-mcp init my-servers");
    await npm("install");
    const address = await dev();
    await claude(`${address}/mcp/hello`, "greet", { name: "Ada" }, "Hello, Ada!");
  });
}

/** Likewise up to a call of a tool that imports an npm package, takes a secret, and fetches with it. */
export function withPackage(place) {
  return walk("with a package", place, async ({ folder, npx, npm, berth, dev, claude }) => {
    const shop = createServer(({ headers }, response) => {
      const isKnown = headers.authorization === `Bearer ${KEY}`;
      response.writeHead(isKnown ? 200 : 401).end(isKnown ? PRICES : "");
    }).listen(0, "127.0.0.1");
    await once(shop, "listening");
    const host = `127.0.0.1:${shop.address().port}`;
    try {
      await npx("berth-mcp init my-servers");
      await npm("install");
      await berth("add papaparse");
      writeFileSync(join(folder, "prices.ts"), definition(host));
      writeFileSync(join(folder, ".env"), `SHOP_KEY=${KEY}\n`);
      list(folder, "prices", { definition: "prices.ts" });
      // A private host is named by whoever runs it; for a public one the tag would do.
      const address = await dev("--env-file", ".env", `--allow-net=${host}`);
      await claude(`${address}/mcp/prices`, "cheapest", {}, "tea");
    } finally {
      shop.close();
    }
  });
}

async function walk(name, { folder: parent, tarball, claude: bin, env: more }, steps) {
  const base = join(parent, name.replaceAll(" ", "-"));
  const folder = join(base, "my-servers");
  const home = join(base, "home");
  mkdirSync(home, { recursive: true });
  const began = [];
  const step = async (shown, work) => {
    const from = performance.now();
    const result = await work();
    const seconds = (performance.now() - from) / 1_000;
    began.push(seconds);
    console.log(`${seconds.toFixed(1).padStart(7)} s  ${shown}`);
    return result;
  };
  const env = { ...more, npm_config_cache: join(base, "npm"), npm_config_yes: "true" };
  const model = await openMessages();
  let serving;
  try {
    await steps({
      folder,
      npx: (words) =>
        step(`npx ${words}`, async () => {
          await run(["npx", `--package=${tarball}`, ...words.split(" ")], { cwd: base, env });
          fromTarball(folder, tarball);
        }),
      npm: (words) => step(`npm ${words}`, () => run(["npm", ...words.split(" ")], { cwd: folder, env })),
      berth: (words) =>
        step(`npx berth-mcp ${words}`, () => run(["npx", "berth-mcp", ...words.split(" ")], { cwd: folder, env })),
      dev: (...options) =>
        step(["npx berth-mcp dev", ...options].join(" "), async () => {
          serving = start(["npx", "berth-mcp", "dev", "--port", "0", ...options], { cwd: folder, env });
          const [, address] = await serving.until(/(http:\/\/\S+?)\/mcp\/\S+ --client [^]*Stop with Ctrl-C/);
          return address;
        }),
      claude: async (address, tool, input, expected) => {
        const own = { HOME: home, CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC: "1", DISABLE_AUTOUPDATER: "1" };
        const words = ["connect", address, "--client", "claude-code"];
        await step(`npx berth-mcp ${words.join(" ")}`, () =>
          run(["npx", "berth-mcp", ...words, "--yes"], { cwd: folder, env: { ...env, ...own } }),
        );
        const name = `mcp__${address.split("/").at(-1)}__${tool}`;
        model.want({ name, input });
        await step(`claude calls ${tool}`, async () => {
          const account = { ANTHROPIC_API_KEY: "none", ANTHROPIC_BASE_URL: model.url };
          const said = await run([bin, "-p", `Call ${tool}.`, "--allowedTools", name], {
            cwd: folder,
            env: { ...own, ...account },
          });
          if (!said.includes(expected))
            throw new Error(`Claude Code says ${said}\nand berth dev says\n${serving.said()}`);
        });
      },
    });
  } finally {
    await serving?.stop();
    model.close();
  }
  return began.reduce((sum, each) => sum + each, 0);
}

/** The folder's own Berth is that of the file as well. */
function fromTarball(folder, tarball) {
  change(join(folder, "package.json"), (manifest) => {
    manifest.devDependencies = { "berth-mcp": `file:${tarball}` };
    manifest.allowScripts = { "berth-mcp": true, esbuild: true };
  });
}

function list(folder, server, entry) {
  change(join(folder, "mcps.json"), (servers) => (servers[server] = entry));
}

function change(file, work) {
  const value = JSON.parse(readFileSync(file, "utf8"));
  work(value);
  writeFileSync(file, `${JSON.stringify(value, undefined, 2)}\n`);
}

function definition(host) {
  return `import type { ToolContext } from "berth";
import Papa from "papaparse";

interface Price {
  item: string;
  price: number;
}

/**
 * Finds what is cheapest in the shop.
 * @readOnly
 * @secret SHOP_KEY The shop's key.
 * @network ${host} The shop.
 */
export async function cheapest(context: ToolContext): Promise<Price> {
  const headers = { Authorization: \`Bearer \${await context.secret("SHOP_KEY")}\` };
  const response = await fetch("http://${host}/prices.csv", { headers });
  const { data } = Papa.parse<Price>(await response.text(), { header: true, dynamicTyping: true, skipEmptyLines: true });
  return data.reduce((least, each) => (each.price < least.price ? each : least));
}
`;
}
