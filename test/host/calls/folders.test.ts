import assert from "node:assert/strict";
import { chmod, mkdir, rename, rm, symlink, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { describe, it } from "node:test";
import { apiOf } from "../../support/api.ts";
import { callText, withStatus } from "../../support/berth.ts";
import { GUESTS } from "../../support/guests.ts";
import { processesWith } from "../../support/processes.ts";
import { berthInSuite, serverInSuite, temporaryFolder } from "../../support/suite.ts";
import { addTenant, onStoreOf } from "../../support/tenants.ts";
import { until } from "../../support/until.ts";

const GUEST = `
import { readFile, writeFile } from "node:fs/promises";
import { readFileSync } from "node:fs";
import type { ToolContext } from "berth";
export const read = (name: string, context: ToolContext): Promise<string> => readFile(context.folders["docs"] + "/" + name, "utf8");
export const write = (name: string, text: string, context: ToolContext): Promise<void> => writeFile(context.folders["docs"] + "/" + name, text);
export const path = (name: string): Promise<string> => readFile(name, "utf8");
export const places = (context: ToolContext): string => JSON.stringify(context.folders);
export const fetched = async (url: string): Promise<string> => (await fetch(url)).text();
/** Goes on after its call has ended. */
export function spy(context: ToolContext): string {
  const place = context.folders["docs"] + "/a.txt";
  setInterval(() => readFileSync(place, "utf8"), 20);
  return "spies";
}
`;

const SCRIPT = `#!/bin/sh
# @param name A file
cat "$BERTH_FOLDER_docs/$name"
`;

const mode = GUESTS;
describe(`the folders of an entry, ${mode}`, () => {
  const home = temporaryFolder();
  const site = serverInSuite((_, response) => void response.end("answered"));
  const berth = berthInSuite(async () => {
    await chmod(home, 0o755);
    for (const name of ["docs", "theirs", "more"]) await mkdir(join(home, name));
    await writeFile(join(home, "docs/a.txt"), "first");
    await writeFile(join(home, "outside.txt"), "outside");
    await writeFile(join(home, "theirs/a.txt"), "another tenant's");
    at = site.url.slice("http://".length);
    return {
      texts: { "guest.ts": GUEST, "other.ts": GUEST, "script.sh": SCRIPT, "wrong.ts": GUEST, "both.ts": GUEST },
      mcps: {
        guest: { definition: "guest.ts", folders: ["docs"] },
        script: { definition: "script.sh", folders: ["docs"] },
        other: { definition: "other.ts" },
        wrong: { definition: "wrong.ts", folders: ["acme"] },
        both: { definition: "both.ts", folders: ["more"], network: [at] },
      },
      env: {
        BERTH_GUESTS: mode,
        BERTH_FOLDERS: JSON.stringify({
          docs: { path: join(home, "docs") },
          more: { path: join(home, "more"), mode: "writable" },
          acme: { path: join(home, "theirs"), tenants: ["acme"] },
        }),
      },
    };
  });
  let at: string;
  const api = apiOf(berth);
  const tool = (server: string, name: string, args: Record<string, unknown> = {}): Promise<string> =>
    callText(`${berth.url}/mcp/${server}`, name, args);
  const setEntry = async (server: string, entry: object): Promise<void> => {
    const { status, body } = await api.put(`/entries/${server}`, JSON.stringify(entry));
    assert.ok(status < 300, JSON.stringify(body));
  };
  const entryOf = async (server: string): Promise<{ definition: string }> =>
    JSON.parse((await api.send("GET", `/entries/${server}`)).body.files[server] as string) as { definition: string };

  it("are read by functions and scripts, and by no other server", async () => {
    assert.equal(await tool("guest", "read", { name: "a.txt" }), "first");
    assert.equal(await tool("script", "script", { name: "a.txt" }), "first");
    assert.equal(await tool("other", "places"), "{}");
    const { docs } = JSON.parse(await tool("guest", "places")) as { docs: string };
    assert.equal(docs, mode === "sandboxed" ? "/folders/docs" : join(home, "docs"));
    assert.doesNotMatch(await tool("other", "path", { name: join(docs, "a.txt") }), /^first/);
    assert.match(await tool("guest", "write", { name: "a.txt", text: "x" }), /The folder "docs" is read-only/);
  });

  it("that are another tenant's, or nobody's, are told on the page and at the call", async () => {
    assert.match(await tool("wrong", "places"), /has not declared a folder "acme" for this tenant: add it to/);
    const page = await (await fetch(`${berth.url}/mcp/meta/wrong`)).text();
    assert.match(page, /has not declared a folder/);
    for (const server of ["guest", "both", "other"]) {
      for (const place of ["/folders/acme/a.txt", join(home, "theirs/a.txt")]) {
        assert.doesNotMatch(await tool(server, "path", { name: place }), /another tenant's/, `${server}: ${place}`);
      }
    }
  });

  it("go beside a network", async () => {
    const { more } = JSON.parse(await tool("both", "places")) as { more: string };
    assert.match(await tool("both", "path", { name: join(more, "missing") }), /ENOENT/);
    assert.equal(await tool("both", "fetched", { url: `http://${at}/` }), "answered");
    assert.match(await tool("guest", "fetched", { url: `http://${at}/` }), /"network"/);
  });

  it("have their place in the environment of a top level, also when it is tried at a save", async () => {
    const source =
      'const at: number = process.env["BERTH_FOLDER_docs"]!.length;\n/** Tells. */\nexport function told(): boolean { return at > 0; }\n';
    const { status, body } = await api.put("/definitions/top", source);
    assert.equal(status, 422, "without a folder it does not load");
    assert.match(body.error.message, /its top level fails/);
    await setEntry("top", { definition: (await entryOf("guest")).definition, folders: ["docs"] });
    await withStatus(200, api.put("/definitions/top", source, { "Berth-Allow-Breaking": "true" }));
    assert.match(await tool("top", "told"), /true/);
    const gone = await api.remove("/entries/top");
    assert.ok(gone.status < 300, JSON.stringify(gone.body));
  });

  it("have to have names that can be folders, and belong to definitions", async () => {
    const entry = await entryOf("guest");
    for (const [folders, said] of [
      [["../x"], /cannot be a folder's name/],
      [[1], /must be a string/],
      ["docs", /"folders" must be a list/],
    ] as const) {
      const { body } = await withStatus(422, api.put("/entries/guest", JSON.stringify({ ...entry, folders })));
      assert.match(body.error.message, said);
    }
    const upstream = { upstream: "mcp+http://127.0.0.1:1/mcp", folders: ["docs"] };
    const { body } = await api.put("/entries/remote", JSON.stringify(upstream));
    assert.match(JSON.stringify(body), /is for definitions; an upstream sees the files/);
  });

  it("that vanish fail calls until they are back, and their processes see what is there then", async () => {
    assert.equal(await tool("guest", "read", { name: "a.txt" }), "first");
    await rename(join(home, "docs"), join(home, "away"));
    for (const server of ["guest", "script"] as const) {
      const [name, args] = [server === "guest" ? "read" : "script", { name: "a.txt" }];
      assert.match(await tool(server, name, args), /The folder "docs" is not there at the moment; calls work again/);
    }
    assert.equal(await tool("other", "places"), "{}", "others go on");
    await symlink(home, join(home, "docs"));
    assert.match(await tool("guest", "read", { name: "outside.txt" }), /The folder "docs" is not there/);
    await rm(join(home, "docs"));
    await mkdir(join(home, "docs"));
    await writeFile(join(home, "docs/a.txt"), "another");
    assert.equal(await tool("guest", "read", { name: "a.txt" }), "another");
    assert.equal(await tool("script", "script", { name: "a.txt" }), "another");
    await rm(join(home, "docs"), { recursive: true });
    await rename(join(home, "away"), join(home, "docs"));
    assert.equal(await tool("guest", "read", { name: "a.txt" }), "first");
  });

  it("are gone for all that runs when the entry names them no more", async () => {
    const entry = await entryOf("guest");
    assert.equal(await tool("guest", "spy"), "spies");
    assert.notEqual(processesWith(join(home, "docs")).length, 0);
    const { folders: _, ...without } = entry as { definition: string; folders?: unknown };
    await setEntry("guest", without);
    // Its command line names the folder.
    await until(() => processesWith(join(home, "docs")).length === 0, "its process has ended");
    assert.equal(await tool("guest", "places"), "{}");
    const release = ((await api.send("GET", "/servers/guest/releases")).body.releases as { release: string }[]).at(-1)!;
    assert.equal(await tool(`guest@${release.release}`, "places"), "{}", "nor do earlier releases get them");
    await setEntry("guest", entry);
    assert.equal(await tool("guest", "read", { name: "a.txt" }), "first");
  });

  it("are seen by the tenants that they are declared for, and by no other", async () => {
    await onStoreOf(berth, (store) =>
      addTenant(store, "acme", {
        servers: { mine: GUEST, theirs: GUEST },
        variables: { mcps: JSON.stringify({ mine: { folders: ["acme"] }, theirs: { folders: ["docs"] } }) },
      }),
    );
    const said = (server: string) => callText(`${berth.url}/t/acme/mcp/${server}`, "places");
    if (mode === "trusted") {
      // Nor does anything else of a tenant run then but what is `default`'s.
      for (const server of ["mine", "theirs"]) assert.match(await said(server), /runs in the sandbox or not at all/);
      return;
    }
    await until(async () => (await said("mine")) === '{"acme":"/folders/acme"}', "its own is seen");
    assert.match(await said("theirs"), /has not declared a folder "docs" for this tenant/);
  });
});
