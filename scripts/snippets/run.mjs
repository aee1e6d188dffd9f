// Copies the texts that Berth's pages offer for Claude Code, Codex, Gemini CLI, opencode, the Inspector and VS Code into
// those very clients, each with a home of its own, has `berth connect` write their files, and checks if they are connected
// and which tools they have. Neither account nor model is needed; the clients, some hundred MB, are installed from npm for
// this run. Exit code 1: one did not connect. `npm run snippets -- codex` runs some of them.
import { mkdirSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { clients } from "./clients.mjs";
import { installClients } from "./install.mjs";
import { openPlaces } from "./places.mjs";
import { setUp, stopClients } from "./set-up.mjs";

const NOT_RUN = `Not run here: Claude Desktop and Cursor, which are no packages, and \`code --add-mcp\`, which needs a terminal of
VS Code's. \`npm test\` starts the bridge as Claude Desktop does, has Cursor's file read by mcporter, and runs the texts for
curl and TypeScript.`;

const words = process.argv.slice(2);
const chosen = clients.filter(({ id }) => words.length === 0 || words.includes(id));
const unknown = words.filter((word) => !clients.some(({ id }) => id === word));
if (unknown.length > 0) {
  console.error(`There is no client ${unknown.join(", ")}. There are: ${clients.map(({ id }) => id).join(", ")}.`);
  process.exit(1);
}

const folder = mkdtempSync(join(tmpdir(), "berth-snippets-"));
let failures = 0;
let berths;
for (const signal of ["SIGINT", "SIGTERM"]) {
  process.once(signal, () => void tidyUp().finally(() => process.exit(1)));
}
try {
  console.log(`Installing ${chosen.map(({ name, version }) => `${name} ${version}`).join(", ")} …`);
  const bin = installClients(chosen, join(folder, "clients"));
  berths = await openPlaces(folder);
  await Promise.all(chosen.map((client) => tryClient(client, bin, berths.places)));
} finally {
  await tidyUp();
}
console.log(NOT_RUN);
console.log(failures === 0 ? "Snippets: every client connected" : `Snippets: ${failures} failed`);
process.exit(failures === 0 ? 0 : 1);

async function tidyUp() {
  stopClients();
  await berths?.close();
  // A client that was just stopped may still write.
  rmSync(folder, { recursive: true, force: true, maxRetries: 5, retryDelay: 100 });
}

async function tryClient(client, bin, places) {
  const opened = await client.open?.({ client, bin, folder });
  const check = opened?.check ?? client.check;
  for (const place of places) {
    const texts = place.texts.get(client.id).filter(client.takes ?? (() => true));
    for (const copied of [...texts, ...(client.hasOwnFile === false ? [] : [connection(client, place)])]) {
      const from = copied.from ?? copied.file ?? `the ${copied.kind}`;
      await told(client, `${place.what}, ${from}`, () => connected(client, check, bin, place, copied));
      if (place.token === undefined || copied.from !== undefined) continue;
      const mistyped = { ...place, token: `${place.token}x` };
      await told(client, `${place.what}, ${from}, a mistyped token is refused`, () =>
        refused(client, connected(client, check, bin, mistyped, copied)),
      );
    }
  }
  await opened?.close();
}

/** The command that writes the client's own file, or that of its project. */
function connection({ id, scope = [] }, { address }) {
  const words = [
    process.execPath,
    resolve("dist/bin/berth.cjs"),
    "connect",
    address,
    "--client",
    id,
    "--yes",
    ...scope,
  ];
  return { kind: "command", from: "berth connect", text: words.map((word) => `'${word}'`).join(" ") };
}

async function connected(client, check, bin, { token, server, tools, call }, copied) {
  const home = mkdtempSync(join(folder, "home-"));
  mkdirSync(join(home, "work"));
  mkdirSync(join(home, "tmp"));
  const { run, start } = setUp({ client, bin, home, token });
  const isServing = client.id === "inspector" && !copied.text.includes(" --cli ");
  const said = await run.text({ ...copied, isServing });
  await check({ run, start, home, said, copied, token, server, tools, call });
  if (copied.from === undefined) return;
  const { code, said: removed } = await run("sh", ["-c", `${copied.text} --remove`]);
  if (code !== 0 || !removed.includes(`"${server}" was removed from `))
    throw new Error(`${copied.text} --remove: ${removed}`);
}

async function refused({ refusal }, connecting) {
  const error = await connecting.then(
    () => new Error("it says that it is connected"),
    (reason) => reason,
  );
  if (!refusal.test(error.message)) throw error;
}

async function told(client, what, work) {
  const started = performance.now();
  const line = (mark) =>
    `${mark} ${client.name} ${client.version}: ${what} (${((performance.now() - started) / 1000).toFixed(1)} s)`;
  try {
    await work();
    console.log(line("✔"));
  } catch (error) {
    failures += 1;
    console.log(`${line("✖")}\n${error.message.replaceAll(/^/gm, "  ")}`);
  }
}
