import assert from "node:assert/strict";
import { execFileSync, spawn, type ChildProcess } from "node:child_process";
import { once } from "node:events";
import { existsSync, readdirSync } from "node:fs";
import { mkdir, readFile, symlink, writeFile } from "node:fs/promises";
import { createServer, type ServerResponse } from "node:http";
import { dirname, join, resolve } from "node:path";
import { after, before, describe, it } from "node:test";
import { call, makeImage, post, request, withStatus } from "../support/berth.ts";
import { cli, exits } from "../support/commands.ts";
import { berthInProcess } from "../support/in-process.ts";
import { listening } from "../support/listening.ts";
import { commandOf, descendants, isAlive } from "../support/processes.ts";
import { temporaryFolder } from "../support/temporary-folder.ts";
import { inOneOf, until } from "../support/until.ts";

interface Served {
  readonly child: ChildProcess;
  readonly url: string;
  readonly stderr: () => string;
}

/** `berth serve` as a person starts it, up to the line with its address. */
function serve(args: readonly string[], program = cli): Promise<Served> {
  const command = [program, "serve", "--port", "0", ...args];
  return serving(spawn(process.execPath, command, { stdio: ["ignore", "pipe", "pipe"] }));
}

function serving(child: ChildProcess): Promise<Served> {
  return new Promise((resolveServed, reject) => {
    let text = "";
    child.stderr!.setEncoding("utf8").on("data", (chunk: string) => {
      text += chunk;
      const url = /Berth serves (http:\S+)\/mcp/.exec(text)?.[1];
      if (url) resolveServed({ child, url, stderr: () => text });
    });
    child.once("exit", (code) => reject(new Error(`berth serve ended with ${code}: ${text}`)));
  });
}

/** Starts a copy that is built already, so that its first step has nothing to do. */
async function npmStart(folder: string, image: string): Promise<Served> {
  await mkdir(join(folder, "scripts"), { recursive: true });
  await writeFile(join(folder, "scripts", "start.mjs"), "");
  const { type, scripts } = JSON.parse(await readFile("package.json", "utf8")) as Record<"type" | "scripts", object>;
  await writeFile(join(folder, "package.json"), JSON.stringify({ name: "started", type, scripts }));
  for (const name of ["dist", "node_modules"]) await symlink(resolve(name), join(folder, name));
  const env = { ...process.env, BERTH_PORT: "0", BERTH_DATA: join(folder, "data"), BERTH_IMAGE_DIR: image };
  return serving(spawn("npm", ["start"], { cwd: folder, env, detached: true, stdio: ["ignore", "pipe", "pipe"] }));
}

/** The answer of the server `slow` to the test, which lets it answer its call. */
const slowCalls = createServer();

/** Begins a call; resolves once it is in progress. */
async function callSlow(url: string): Promise<{ finish(): Promise<string> }> {
  const asked = once(slowCalls, "request") as Promise<[unknown, ServerResponse]>;
  const result = call(`${url}/mcp/slow`, "wait");
  result.catch(() => {});
  const [, response] = await asked;
  const finish = async (): Promise<string> => {
    response.end("done");
    return (await result).content[0].text as string;
  };
  return { finish };
}

async function stop({ child }: Served, signal: NodeJS.Signals = "SIGTERM"): Promise<number | null> {
  child.kill(signal);
  return ((await once(child, "exit")) as [number | null])[0];
}

/** The entries of the shipped `mcps.source.json`, by the server's name. */
async function sources(): Promise<Record<string, { definition?: string }>> {
  const text = await readFile("reference_templates/mcps.source.json", "utf8");
  const { $schema: _schema, ...entries } = JSON.parse(text) as Record<string, object>;
  return entries;
}

describe("berth serve", () => {
  const folder = temporaryFolder();
  let slowImage: string;
  before(async () => {
    const host = `127.0.0.1:${await listening(slowCalls)}`;
    const text = `export const wait = async (): Promise<string> => (await fetch("http://${host}/")).text();\n`;
    const mcps = { slow: { definition: "slow.ts", network: [host] } };
    await mkdir(join(folder, "slow"));
    const image = await makeImage(join(folder, "slow"), { texts: { "slow.ts": text }, mcps });
    slowImage = image["BERTH_IMAGE_DIR"]!;
  });
  after(() => slowCalls.close());

  it("serves every server of its own image, reports a port in use, and leaves no process (C2, T4.3, T10.2)", async () => {
    const served = await serve(["--data", join(folder, "data")]);
    for (const name of [...Object.keys(await sources()), "mcp"]) {
      const { status, body } = await post(`${served.url}/mcp/${name}`, request("tools/list"));
      assert.equal(status, 200, name);
      assert.ok(body.result.tools.length > 0, name);
    }
    const { port } = new URL(served.url);
    const { stderr } = await exits(2, berthInProcess(["serve", "--data", join(folder, "second"), "--port", port]));
    assert.match(stderr, /port \d+ is taken.*BERTH_PORT/);
    await call(`${served.url}/mcp/echo`, "echo", { message: "start a guest" });
    const guests = descendants(served.child.pid);
    if (process.platform === "linux") assert.ok(guests.length > 0);
    assert.equal(await stop(served), 0);
    assert.deepEqual(guests.filter(isAlive), []);
  });

  it("starts again on the same data, read-only without shell definitions, and ends on SIGINT", async () => {
    const served = await serve(["--data", join(folder, "data"), "--readonly"]);
    const echoed = await call(`${served.url}/mcp/echo`, "echo", { message: "again" });
    assert.equal(echoed.content[0].text, "again");
    const [shell] = Object.entries(await sources()).find(([, { definition }]) => definition?.endsWith(".sh"))!;
    const { body } = await withStatus(503, post(`${served.url}/mcp/${shell}`, request("tools/list")));
    assert.match(body.error.message, /read-only/);
    assert.equal(await stop(served, "SIGINT"), 0);
  });

  for (const [how, signals] of [
    ["a closing terminal", ["SIGHUP"]],
    ["a Ctrl-C that npm repeats", ["SIGINT", "SIGINT"]],
  ] as const) {
    it(`answers running calls before it ends on ${how}`, async () => {
      let tries = 0;
      // A second one that comes later than npm's ends it immediately.
      await inOneOf(signals.length > 1 ? 5 : 1, async () => {
        const served = await serve(["--image", slowImage, "--data", join(folder, `${signals.join("-")}-${++tries}`)]);
        const running = await callSlow(served.url);
        const ended = stop(served, signals[0]);
        await until(() => served.stderr().includes("shutting down"), "the first signal is handled");
        for (const signal of signals.slice(1)) served.child.kill(signal);
        assert.equal(await running.finish(), "done");
        assert.equal(await ended, 0);
      });
    });
  }

  for (const signal of ["SIGTERM", "SIGINT"] as const) {
    const skip = process.platform !== "linux" && "reads /proc";
    it(`ends with npm start at ${signal}, and answers running calls`, { skip }, async () => {
      const served = await npmStart(join(folder, `npm-${signal}`), slowImage);
      const { pid } = served.child;
      const berth = descendants(pid).find((each) => commandOf(each).includes("berth.cjs serve"))!;
      const running = await callSlow(served.url);
      const all = descendants(pid);
      const ended = once(served.child, "close");
      // A terminal signals the whole group.
      process.kill(signal === "SIGINT" ? -pid! : pid!, signal);
      await until(() => served.stderr().includes("shutting down"), "the signal is handled");
      assert.equal(await running.finish(), "done");
      await ended;
      assert.ok(all.includes(berth));
      await until(() => !all.some(isAlive), "nothing of it is alive");
    });
  }

  it("serves its image from the packed package, which has all that it needs", async () => {
    const tarball = execFileSync("npm", ["pack", "--ignore-scripts", "--silent", "--pack-destination", folder], {
      encoding: "utf8",
    }).trim();
    execFileSync("tar", ["-xzf", join(folder, tarball), "-C", folder]);
    await symlink(resolve("node_modules"), join(folder, "package/node_modules"));
    const packed = join(folder, "package/dist/bin/berth.cjs");
    const ownImage = await serve(["--data", join(folder, "packed")], packed);
    const echoed = await call(`${ownImage.url}/mcp/echo`, "echo", { message: "packed" });
    assert.equal(echoed.content[0].text, "packed");
    await stop(ownImage);

    for (const [bundles, name] of [
      ["bin", "express"],
      ["browser", "preact"],
    ] as const) {
      const licenses = await readFile(join(folder, "package/dist", bundles, "LICENSES.txt"), "utf8");
      assert.match(licenses, new RegExp(`^${name} \\S+ \\(MIT\\)\n\n[^]*?Copyright`, "m"), "those of what is bundled");
    }

    // Of the compiled sources it has the programs that are started by their path, with all that these import, alone.
    const compiled = join(folder, "package/dist/src");
    const files = readdirSync(compiled, { recursive: true, encoding: "utf8" }).map((file) => join(compiled, file));
    assert.ok(files.includes(join(compiled, "discover/compiler-child.js")));
    assert.ok(!existsSync(join(compiled, "commands")) && !existsSync(join(compiled, "http")));
    for (const file of files.filter((each) => /\.m?js$/.test(each))) {
      for (const [, path] of (await readFile(file, "utf8")).matchAll(/^(?:import|export) [^;]*from "(\.[^"]+)";$/gm)) {
        assert.ok(existsSync(join(dirname(file), path!)), `${file} imports ${path}`);
      }
    }

    // As npm installs it: by both names, and with the types that editors find.
    const bins = join(folder, "node_modules/.bin");
    await mkdir(bins, { recursive: true });
    await symlink(join(folder, "package"), join(folder, "node_modules/berth-mcp"));
    const { bin } = JSON.parse(await readFile(join(folder, "package/package.json"), "utf8")) as { bin: object };
    for (const [name, file] of Object.entries(bin)) await symlink(join(folder, "package", file), join(bins, name));
    const npx = (cwd: string, ...args: string[]): string =>
      execFileSync("npx", ["--no-install", ...args], { cwd, encoding: "utf8" });
    npx(folder, "berth-mcp", "init", "my-servers");
    const own = join(folder, "my-servers");
    assert.match(npx(own, "berth", "check", "--strict"), /^1 server in this folder: no problems$/m);
    assert.ok(existsSync(join(folder, "package/reference_templates/berth.d.ts")));
    const served = await serve([own], packed);
    assert.equal((await call(`${served.url}/mcp/hello`, "greet", { name: "Ada" })).content[0].text, "Hello, Ada!");
    await stop(served);
  });
});
