import assert from "node:assert/strict";
import { once } from "node:events";
import { lstatSync, readFileSync, readdirSync, readlinkSync } from "node:fs";
import { chmod, mkdir, symlink, writeFile } from "node:fs/promises";
import { createServer, type Server } from "node:net";
import { join } from "node:path";
import { after, before, describe, it } from "node:test";
import type { GuestProgram, HostPort } from "../../src/executor/executor.ts";
import type { HostFolder } from "../../src/folders/folders.ts";
import { defaultLimits } from "../../src/limits/limits.ts";
import { Fetches } from "../../src/network/fetches.ts";
import { type Mode, networkOf, programOf, shape, useRig } from "../support/executor.ts";
import { GUESTS } from "../support/guests.ts";
import { listening } from "../support/listening.ts";
import { temporaryFolder } from "../support/temporary-folder.ts";

/**
 * Every way out that does not end its process, tried by a guest with each combination of what a guest may be given: a
 * network is one more system call and a folder that it sees, a folder is one more mount.
 */
const groups = ["files", "programs", "identity", "network", "folders"] as const;

/** In `trusted` the network and the user are those of the machine (docs/security.md, "What is not claimed"). */
const unclaimedInTrusted: ReadonlySet<string> = new Set(
  "datagram interfaces multicast rawAbstractSocket rawListen rawListenLocally rawLocalSocket rawSocket".split(" "),
);
/** The same goes for a socket in a folder, for code with a network. */
const unclaimedWithBoth: ReadonlySet<string> = new Set(["rawSocket"]);

function escapesContract(mode: Mode): void {
  describe(`the escapes of a ${mode} guest`, () => {
    const rig = useRig(mode);
    const home = temporaryFolder();
    let given: HostFolder[];
    let unlisted: number;
    let listed: number;
    const servers: Server[] = [];
    let [reached, connections] = [0, 0];

    before(async () => {
      // Root's guests are nobody: no mode of a file may be what keeps them out.
      await chmod(home, 0o755);
      for (const name of ["outside", "docs", "docs/deep", "docs-secret", "out"]) {
        await mkdir(join(home, name));
        await chmod(join(home, name), 0o777);
      }
      const texts = {
        "outside/secret": "what stands outside",
        "outside/secret.json": '{"secret":"what stands outside"}',
        "outside/secret.mjs": 'export const secret = "what stands outside";',
        "outside/secret.env": "FROM_OUTSIDE=what stands outside",
        "docs-secret/secret": "what stands outside",
        "docs/own": "its own",
      };
      for (const [name, text] of Object.entries(texts)) {
        await writeFile(join(home, name), text);
        await chmod(join(home, name), 0o666);
      }
      const links = {
        file: "../outside/secret",
        folder: join(home, "outside"),
        nothing: "../outside/made",
        "module.mjs": "../outside/secret.mjs",
        "data.json": "../outside/secret.json",
        env: "../outside/secret.env",
      };
      for (const folder of ["docs", "out"]) {
        for (const [name, target] of Object.entries(links)) await symlink(target, join(home, folder, name));
        await symlink(join(home, folder, "file"), join(home, folder, "twice"));
      }
      await symlink(join(home, "outside"), join(home, "docs/deep/folder"));
      await symlink("/", join(home, "out/root"));

      const serve = (onConnection: () => void): Server => {
        const server = createServer((socket) => {
          onConnection();
          socket.on("error", () => {}).end();
        });
        servers.push(server);
        return server;
      };
      unlisted = await listening(serve(() => reached++));
      listed = await listening(serve(() => connections++));
      for (const folder of ["outside", "docs"]) {
        const path = join(home, folder, "socket");
        await once(serve(() => reached++).listen({ path, readableAll: true, writableAll: true }), "listening");
      }

      given = [
        { name: "docs", path: join(home, "docs"), writable: false },
        { name: "out", path: join(home, "out"), writable: true },
      ];
    });
    after(() => servers.forEach((server) => server.close()));

    const kinds = {
      nothing: () => ({ network: networkOf() }),
      "a network": () => ({ network: networkOf(`127.0.0.1:${listed}`) }),
      folders: () => ({ network: networkOf(), folders: given }),
      "folders and a network": () => ({ network: networkOf(`127.0.0.1:${listed}`), folders: given }),
    } satisfies Record<string, () => Pick<GuestProgram, "network" | "folders">>;

    for (const [kind, gift] of Object.entries(kinds)) {
      const [hasNetwork, hasFolders] = [kind.endsWith("network"), kind.startsWith("folders")];

      it(`fail for a program with ${kind}`, async () => {
        const before = stateOf(home);
        [reached, connections] = [0, 0];
        const { network, ...more } = gift();
        const fetches = new Fetches(network.grant()?.hosts ?? [], defaultLimits, { privateToo: true });
        const port: HostPort = {
          request: (operation, params, call) => fetches.request(operation as "fetch", params, call),
        };
        const program: GuestProgram = { ...programOf("escapes", "default", port), network, ...more };
        const [docs, out] = given.map(({ name, path }) => (mode === "sandboxed" ? `/folders/${name}` : path));
        const where = { outside: join(home, "outside"), port: unlisted, pid: process.pid, docs: docs!, out: out! };
        const socket = join(home, "outside/socket");
        const tell = async (name: string, args: Record<string, unknown>): Promise<Record<string, string>> =>
          (await rig.value(shape(name, Object.keys(args)), args as never, { program })) as Record<string, string>;

        const own = await tell("own", { port: listed, file: join(docs!, "own") });
        assert.equal(own["connect"], hasNetwork ? "led" : "refused", "what it is given works, and only that");
        assert.equal(own["read"], hasFolders ? "led" : "refused");

        for (const group of groups) {
          // It would set the priority of these tests.
          if (mode === "trusted" && group === "identity") continue;
          const said = await tell("tryAll", { group, where: { ...where, socket } });
          for (const [way, text] of Object.entries(said)) {
            if (mode === "trusted" && unclaimedInTrusted.has(way)) continue;
            if (hasNetwork && hasFolders && unclaimedWithBoth.has(way)) continue;
            assert.doesNotMatch(text, /^led:|no end$/, `${group}: ${way}`);
          }
        }
        if (mode === "sandboxed" && !(hasNetwork && hasFolders)) assert.equal(reached, 0, "nobody was reached");
        assert.equal(connections, hasNetwork ? 1 : 0);
        assert.deepEqual(stateOf(home), before);
      });
    }
  });
}

/** Everything in the folders that a guest could change, but what it may write itself. */
function stateOf(home: string): Record<string, string> {
  const names = ["outside", "docs", "docs-secret"].flatMap((folder) =>
    readdirSync(join(home, folder)).map((name) => join(folder, name)),
  );
  return Object.fromEntries(
    names.map((name) => {
      const stat = lstatSync(join(home, name));
      const holds = stat.isSymbolicLink()
        ? readlinkSync(join(home, name))
        : stat.isFile()
          ? readFileSync(join(home, name), "utf8")
          : "";
      return [name, `${stat.mode} ${stat.mtimeMs} ${holds}`];
    }),
  );
}

escapesContract(GUESTS);
