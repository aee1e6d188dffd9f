import assert from "node:assert/strict";
import { execFileSync, spawn, type ChildProcess } from "node:child_process";
import { existsSync, readdirSync } from "node:fs";
import { mkdir, mkdtemp, readFile, rm, symlink, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { dirname, join, resolve } from "node:path";
import { after, before, describe, it } from "node:test";
import { apiOf } from "../support/api.ts";
import { call, post, request } from "../support/berth.ts";
import { cli } from "../support/commands.ts";
import { commandOf, descendants, isAlive } from "../support/processes.ts";
import { inOneOf, until } from "../support/until.ts";

interface Served {
  readonly child: ChildProcess;
  readonly url: string;
  readonly stderr: () => string;
}

/** `berth serve` as a person starts it, up to the line with its address. */
function serve(args: readonly string[], program = cli): Promise<Served> {
  const command = [program, "serve", "--port", "0", ...args];
  return listening(spawn(process.execPath, command, { stdio: ["ignore", "pipe", "pipe"] }));
}

function listening(child: ChildProcess): Promise<Served> {
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
async function npmStart(folder: string): Promise<Served> {
  await mkdir(join(folder, "scripts"), { recursive: true });
  await writeFile(join(folder, "scripts", "start.mjs"), "");
  const { type, scripts } = JSON.parse(await readFile("package.json", "utf8")) as Record<"type" | "scripts", object>;
  await writeFile(join(folder, "package.json"), JSON.stringify({ name: "started", type, scripts }));
  for (const name of ["dist", "node_modules"]) await symlink(resolve(name), join(folder, name));
  const env = { ...process.env, BERTH_PORT: "0", BERTH_DATA: join(folder, "data") };
  return listening(spawn("npm", ["start"], { cwd: folder, env, detached: true, stdio: ["ignore", "pipe", "pipe"] }));
}

/** Returns its result as soon as the call is under way. */
async function slowCall(url: string): Promise<{ result: ReturnType<typeof call> }> {
  const saved = await apiOf({ url }).put(
    "/definitions/slow",
    `export async function wait(): Promise<string> {
      await new Promise((resolve) => setTimeout(resolve, 5000));
      return "done";
    }`,
  );
  assert.equal(saved.status, 201);
  const result = call(`${url}/mcp/slow`, "wait");
  result.catch(() => {});
  await until(async () => {
    const figures = await (await fetch(`${url}/metrics`)).text();
    return /^berth_calls_in_flight 1$/m.test(figures);
  }, "the call is under way");
  return { result };
}

function stop({ child }: Served, signal: NodeJS.Signals = "SIGTERM"): Promise<number | null> {
  return new Promise((resolveCode) => {
    child.removeAllListeners("exit");
    child.once("exit", (code) => resolveCode(code));
    child.kill(signal);
  });
}

/** The entries of the shipped `mcps.source.json`, by the server's name. */
async function sources(): Promise<Record<string, { definition?: string }>> {
  const text = await readFile("reference_templates/mcps.source.json", "utf8");
  const { $schema: _schema, ...entries } = JSON.parse(text) as Record<string, object>;
  return entries;
}

describe("berth serve", () => {
  let folder: string;
  before(async () => {
    folder = await mkdtemp(join(tmpdir(), "berth-serve-"));
  });
  after(() => rm(folder, { recursive: true, force: true }));

  it("C2 T4.3 T10.2 serves every server of the image that comes with it, also the one that mcps does not name", async () => {
    const served = await serve(["--data", join(folder, "data")]);
    try {
      for (const name of [...Object.keys(await sources()), "mcp"]) {
        const { status, body } = await post(`${served.url}/mcp/${name}`, request("tools/list"));
        assert.equal(status, 200, name);
        assert.ok(body.result.tools.length > 0, name);
      }
    } finally {
      assert.equal(await stop(served), 0);
    }
  });

  it("starts again on the same data, and ends on SIGINT", async () => {
    const served = await serve(["--data", join(folder, "data")]);
    const echoed = await call(`${served.url}/mcp/echo`, "echo", { message: "again" });
    assert.equal(echoed.content[0].text, "again");
    assert.equal(await stop(served, "SIGINT"), 0);
  });

  for (const [how, signals] of [
    ["a terminal that closes", ["SIGHUP"]],
    ["one Ctrl-C that npm tells once more", ["SIGINT", "SIGINT"]],
  ] as const) {
    it(`${how} ends it as any signal does: what is under way is answered`, async () => {
      let tries = 0;
      // A second one that comes later than npm's does end it at once.
      await inOneOf(signals.length > 1 ? 5 : 1, async () => {
        const served = await serve(["--data", join(folder, `${signals.join("-")}-${++tries}`)]);
        const answer = await slowCall(served.url);
        const ended = stop(served, signals[0]);
        for (const signal of signals.slice(1)) {
          await until(() => served.stderr().includes("shutting down"), "the first one was heard");
          served.child.kill(signal);
        }
        assert.equal((await answer.result).content[0].text, "done");
        assert.equal(await ended, 0);
      });
    });
  }

  for (const signal of ["SIGTERM", "SIGINT"] as const) {
    const skip = process.platform !== "linux" && "reads /proc";
    it(`npm start ends with Berth at ${signal}, and what is under way is answered`, { skip }, async () => {
      const served = await npmStart(join(folder, `npm-${signal}`));
      const { pid } = served.child;
      const berth = descendants(pid).find((each) => commandOf(each).includes("berth.cjs serve"))!;
      const answer = await slowCall(served.url);
      const all = descendants(pid);
      const ended = new Promise((resolveEnded) => served.child.once("close", resolveEnded));
      // A terminal signals the whole group.
      process.kill(signal === "SIGINT" ? -pid! : pid!, signal);
      assert.equal((await answer.result).content[0].text, "done");
      await ended;
      assert.ok(all.includes(berth));
      await until(() => !all.some(isAlive), "nothing of it is alive");
    });
  }

  it("leaves no process behind", { skip: process.platform !== "linux" && "reads /proc" }, async () => {
    const served = await serve(["--data", join(folder, "processes")]);
    await call(`${served.url}/mcp/echo`, "echo", { message: "start a guest" });
    const guests = descendants(served.child.pid);
    assert.ok(guests.length > 0);
    await stop(served);
    assert.deepEqual(guests.filter(isAlive), []);
  });

  it("a read-only boot serves TypeScript and refuses shell definitions with the reason", async () => {
    const served = await serve(["--data", join(folder, "readonly"), "--readonly"]);
    try {
      const echoed = await call(`${served.url}/mcp/echo`, "echo", { message: "read" });
      assert.equal(echoed.content[0].text, "read");
      const [shell] = Object.entries(await sources()).find(([, { definition }]) => definition?.endsWith(".sh"))!;
      const { status, body } = await post(`${served.url}/mcp/${shell}`, request("tools/list"));
      assert.equal(status, 503);
      assert.match(body.error.message, /read-only/);
    } finally {
      await stop(served);
    }
  });

  it("says which port is taken and what to do", async () => {
    const served = await serve(["--data", join(folder, "first")]);
    try {
      const { port } = new URL(served.url);
      await assert.rejects(serve(["--data", join(folder, "second"), "--port", port]), /port \d+ is taken.*BERTH_PORT/);
    } finally {
      await stop(served);
    }
  });

  it("the packed package serves its own image and any other", async () => {
    const tarball = execFileSync("npm", ["pack", "--ignore-scripts", "--silent", "--pack-destination", folder], {
      encoding: "utf8",
    }).trim();
    execFileSync("tar", ["-xzf", join(folder, tarball), "-C", folder]);
    await symlink(resolve("node_modules"), join(folder, "package/node_modules"));
    const packed = join(folder, "package/dist/bin/berth.cjs");
    for (const image of [[], ["--image", resolve("boot")]]) {
      const served = await serve(["--data", join(folder, `packed-${image.length}`), ...image], packed);
      const echoed = await call(`${served.url}/mcp/echo`, "echo", { message: "packed" });
      assert.equal(echoed.content[0].text, "packed");
      await stop(served);
    }

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
    execFileSync(process.execPath, [resolve("node_modules/typescript/bin/tsc"), "-p", own]);
    const served = await serve([own], packed);
    assert.equal((await call(`${served.url}/mcp/hello`, "greet", { name: "Ada" })).content[0].text, "Hello, Ada!");
    await stop(served);
  });
});
