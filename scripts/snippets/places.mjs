import { copyFileSync, mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { copiedTexts } from "../../dist/test/support/clients/copied-texts.js";
import { berth, makeImage, startBerth } from "../start-berth.mjs";

const NOTES = `/** Counts the words of a text. */
export const count = (text: string): number => text.split(/\\s+/).filter(Boolean).length;
`;
const ECHO = { tools: ["dictate", "echo", "repeat"], call: ["echo", { message: "hello" }, "hello"] };
const COUNT = { tools: ["count"], call: ["count", { text: "one two" }, "2"] };
const ALL = {
  tools: ["echo.dictate", "echo.echo", "echo.repeat", "my_notes.v2.count"],
  call: ["echo.echo", { message: "hello" }, "hello"],
};

/**
 * Two Berths, one of which requires a token, and those of their pages whose texts are copied: of one server, of all, of
 * a release, and of a tenant. A place has the texts by client, the tools that the client has to find, and one call.
 */
export async function openPlaces(folder) {
  const image = makeImage(writeSources(folder), folder);
  const [open, guarded] = await Promise.all([
    startBerth(image, join(folder, "open"), { BERTH_ACCESS: "open" }),
    startBerth(image, join(folder, "guarded"), { BERTH_ACCESS: "required" }),
  ]);
  const close = () => Promise.all([open.stop(), guarded.stop()]);
  try {
    berth(["tenant", "import", image, "--as", "acme", "--data", guarded.data]);
    const tokenOf = (...more) => berth(["token", "create", "--data", guarded.data, ...more]).trim();
    const release = /href="(\/mcp\/meta\/echo@\w+)"/.exec(await pageOf(`${open.url}/mcp/meta/echo?tab=releases`))[1];
    const places = await Promise.all([
      place("a server", `${open.url}/mcp/meta/echo?tab=connect`, ECHO),
      place("all servers", `${open.url}/mcp`, ALL),
      place("a release", `${open.url}${release}?tab=connect`, ECHO),
      place(
        "a server with a token",
        `${guarded.url}/mcp/meta/my_notes.v2?tab=connect`,
        COUNT,
        tokenOf("--server", "my_notes.v2"),
      ),
      place("a tenant's server", `${guarded.url}/t/acme/mcp/meta/echo?tab=connect`, ECHO, tokenOf("--tenant", "acme")),
    ]);
    return { places, close };
  } catch (error) {
    await close();
    throw error;
  }
}

async function place(what, url, { tools, call }, token) {
  const texts = copiedTexts(await pageOf(url, token));
  const [, { text }] = texts.get("claude-code");
  const [[server, { url: address }]] = Object.entries(JSON.parse(text).mcpServers);
  return { what, texts, tools, call, token, server, address };
}

async function pageOf(url, token) {
  const headers = { Accept: "text/html", ...(token !== undefined && { Authorization: `Bearer ${token}` }) };
  const response = await fetch(url, { headers });
  const page = await response.text();
  if (!response.ok) throw new Error(`${url} gave ${response.status}: ${page}`);
  return page;
}

function writeSources(folder) {
  const from = join(folder, "sources");
  mkdirSync(from);
  copyFileSync("reference_templates/echo.ts", join(from, "echo.ts"));
  writeFileSync(join(from, "notes.ts"), NOTES);
  const mcps = { echo: { definition: "echo.ts" }, "my_notes.v2": { definition: "notes.ts" } };
  writeFileSync(join(from, "mcps.source.json"), JSON.stringify(mcps));
  const boot = { servers: [], variables: [{ name: "mcps", definition: "GENERATED:mcps.json", enabled: true }] };
  for (const name of ["default", "readonly"])
    writeFileSync(join(from, `${name}.boot.source.json`), JSON.stringify(boot));
  return from;
}
