import assert from "node:assert/strict";
import { execFileSync, spawn, type ChildProcess } from "node:child_process";
import { mkdtemp, readFile, rm, symlink } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { after, before, describe, it } from "node:test";
import { call, post, request } from "./berth.ts";
import { descendants, isAlive } from "./processes.ts";

const CLI = resolve("dist/src/cli.js");

interface Served {
  readonly child: ChildProcess;
  readonly url: string;
  readonly stderr: () => string;
}

/** `berth serve` as a person starts it, up to the line that says where it listens. */
function serve(args: readonly string[], cli = CLI): Promise<Served> {
  const child = spawn(process.execPath, [cli, "serve", "--port", "0", ...args], { stdio: ["ignore", "pipe", "pipe"] });
  return new Promise((resolveServed, reject) => {
    let text = "";
    child.stderr.setEncoding("utf8").on("data", (chunk: string) => {
      text += chunk;
      const url = /Berth serves (http:\S+)\/mcp/.exec(text)?.[1];
      if (url) resolveServed({ child, url, stderr: () => text });
    });
    child.once("exit", (code) => reject(new Error(`berth serve ended with ${code}: ${text}`)));
  });
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
    const cli = join(folder, "package/dist/bin/berth.cjs");
    for (const image of [[], ["--image", resolve("boot")]]) {
      const served = await serve(["--data", join(folder, `packed-${image.length}`), ...image], cli);
      const echoed = await call(`${served.url}/mcp/echo`, "echo", { message: "packed" });
      assert.equal(echoed.content[0].text, "packed");
      await stop(served);
    }
  });
});
