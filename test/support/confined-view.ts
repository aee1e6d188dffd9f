import assert from "node:assert/strict";
import { join } from "node:path";
import { text } from "node:stream/consumers";
import { packageRoot } from "../../src/config.ts";
import type { OwnCommand } from "../../src/processes/own-program.ts";
import type { NoSandbox } from "../../src/processes/sandbox.ts";
import { spawnDirectly } from "../../src/processes/spawn/spawn.ts";
import { serve, type Ending } from "./suite.ts";

interface View {
  /** Names of packages of which it sees files. */
  readonly packages: ReadonlySet<string>;
  /** Files of neither packages, nor Berth's code, nor the libraries of the system, in order. */
  readonly others: readonly string[];
  readonly environment: readonly string[];
}

/** All that a confined program of Berth's own sees in place of its code; fails where it can write or connect. */
export async function viewOf(t: Ending, found: OwnCommand | NoSandbox): Promise<View> {
  const { port } = new URL(await serve(t, (_, response) => response.end("reached")));
  const script = `
    const fs = require("node:fs"), net = require("node:net"), path = require("node:path");
    const files = [], writable = [];
    const list = (folder) => {
      try { fs.writeFileSync(path.join(folder, "x"), ""); writable.push(folder); } catch {}
      for (const entry of fs.readdirSync(folder, { withFileTypes: true })) {
        const file = path.join(folder, entry.name);
        if (entry.isDirectory()) list(file); else files.push(file);
      }
    };
    list("/");
    const tell = (network) =>
      console.log(JSON.stringify({ files, writable, network, environment: Object.keys(process.env), uid: process.getuid() }));
    const socket = net.connect(${port}, "127.0.0.1");
    socket.on("error", ({ code }) => tell(code)).on("data", (data) => { tell(String(data)); socket.destroy(); });`;
  assert.ok("command" in found, JSON.stringify(found));
  const { hiddenArgs: _, args, ...command } = found.command;
  const stdio = ["ignore", "pipe", "pipe"] as const;
  const started = await spawnDirectly({ ...command, args: [...args.slice(0, -1), "-e", script], stdio });
  const [, stdout, stderr] = started.pipes;
  const [printed, said] = await Promise.all([text(stdout!), text(stderr!)]);
  assert.equal(said, "");
  const { files, writable, network, environment, uid } = JSON.parse(printed) as {
    files: string[];
    writable: string[];
    network: string;
    environment: string[];
    uid: number;
  };
  assert.deepEqual([writable, uid], [[], 65_534]);
  assert.match(network, /^E/);
  const packages = new Set<string>();
  const others = files.filter((file) => {
    const name = /\/node_modules\/((?:@[^/]+\/)?[^/]+)\//.exec(file)?.[1];
    if (name !== undefined) packages.add(name);
    const isLibrary = /^(?:\/usr)?\/lib(?:64|32)?\/(?:[^/]+\/)*(?:ld-linux|lib)[^/]*\.so[.\d]*$/.test(file);
    return name === undefined && !isLibrary && !file.startsWith(join(packageRoot, "dist/src/"));
  });
  return { packages, others: others.sort(), environment: environment.sort() };
}
