import assert from "node:assert/strict";
import { afterEach, beforeEach, describe, it } from "node:test";
import { rightsOf } from "../../src/access/rights.ts";
import { emptyDiscovery, type DefinitionSource } from "../../src/discover/discovery.ts";
import { compilerCid } from "../../src/discover/key.ts";
import type { Subject } from "../../src/edits/edits.ts";
import { jsonBlock, rawBlock, type Block } from "../../src/lib/cid.ts";
import type { BerthError } from "../../src/lib/errors.ts";
import type { JsonObject } from "../../src/lib/json.ts";
import type { Problem } from "../../src/lib/problem.ts";
import type { NameKind, Store } from "../../src/store/store.ts";
import { compile } from "../support/compiler.ts";
import { openHosted, type Hosted } from "../support/host.ts";
import { rows } from "../support/rows.ts";

const adds = (more: string): string =>
  `/** Adds. */\nexport function add(a: number): number {\n  return a${more};\n}\n`;

/** Runs when a save reads the text of `mcps`, before the save reaches the store, or right after that. */
type Meanwhile = Partial<Record<"reading" | "before" | "after", () => Promise<unknown>>>;

describe("a save", () => {
  let hosted: Hosted;
  /** The calls of the store since the save reached it, each with its texts. */
  let calls: string[][];
  let meanwhile: Meanwhile;
  let store: Store;

  beforeEach(async () => {
    [calls, meanwhile] = [[], {}];
    hosted = await openHosted({ one: adds(""), two: adds("") }, {}, (opened) => {
      store = opened;
      return watched(opened);
    });
    for (const server of ["one", "two"]) await hosted.catalog(server);
  });
  afterEach(() => hosted.close());

  function watched(opened: Store): Store {
    return new Proxy(opened, {
      get(_, member: keyof Store) {
        const own = opened[member];
        if (typeof own !== "function") return own;
        return async (...args: unknown[]) => {
          calls.push([member, ...args.filter((arg) => typeof arg === "string")]);
          const run = (): unknown => (own as (...args: unknown[]) => unknown).apply(opened, args);
          if (member === "name" && args[2] === "mcps" && meanwhile.reading) {
            const { reading } = meanwhile;
            meanwhile = {};
            await reading();
          }
          if (member !== "change" || (args[1] as { by: string }).by !== "tester") return run();
          const { before, after } = meanwhile;
          meanwhile = {};
          await before?.();
          const made = await run();
          await after?.();
          calls.splice(0);
          return made;
        };
      },
    });
  }

  const save = ({ kind, name }: Subject, text: string) =>
    hosted.edits.save(
      "default",
      { kind, name },
      { entry: name, files: { [name]: text } },
      { by: "tester", rights: rightsOf(undefined, { openPrograms: false }), allowBreaking: true },
    );
  const savesOne = (more: string) => save({ kind: "definition", name: "one" }, adds(more));
  /** As another process makes it: the host is not told. */
  const changeTo = (kind: NameKind, name: string, block: Block, ...put: Block[]) =>
    store.change("default", { by: "another", put: [...put, block], set: [{ kind, name, cid: block.cid }] });
  const changeName = (kind: NameKind, name: string, value: object) => changeTo(kind, name, jsonBlock(value));
  const changeMcps = (mcps: object, ...put: Block[]) =>
    changeTo("variable", "mcps", rawBlock(JSON.stringify(mcps)), ...put);
  const describedAs = (description: string): string => JSON.stringify({ one: { description }, two: {} });
  const servers = () => hosted.host.directory("default")!.servers;

  for (const [what, change] of [
    ["a definition", () => savesOne(" + 1")],
    ["an entry", () => save({ kind: "entry", name: "one" }, '{ "description": "Sums" }')],
    ["the variable mcps", () => save({ kind: "variable", name: "mcps" }, describedAs("Sums"))],
  ] as const) {
    it(`of ${what} is in effect without another look at what it was examined by`, async () => {
      const before = (await hosted.catalog("one")).release;
      await change();
      const { release } = await hosted.catalog("one");
      assert.notEqual(release, before);
      assert.equal((await store.name("default", "release", "one"))!.cid, release);
      // The number of the latest change, the withdrawn releases, and that the release stands as it was examined.
      const looks = calls.map(([member, , ...of]) => [member, ...of].join(" "));
      assert.deepEqual(looks, [
        "changesAfter",
        "names withdrawn",
        "name variable packages",
        "holdDerived",
        "name release one",
      ]);
    });
  }

  it("of another variable reads nothing of any server", async () => {
    const stood = hosted.host.directory("default");
    await save({ kind: "variable", name: "greeting" }, "Hello");
    assert.equal(hosted.host.directory("default"), stood);
    assert.deepEqual(calls, []);
  });

  it("loses nothing that another process changes while it is examined", async () => {
    const { definition } = servers().get("two")!;
    meanwhile = { before: () => changeName("server", "two", { definition, enabled: false }) };
    await savesOne(" + 1");
    assert.equal(servers().get("two")!.enabled, false);
    assert.equal(servers().get("one")!.definition, rawBlock(adds(" + 1")).cid);

    meanwhile = { before: () => changeName("visibility", "one", { hidden: ["add"] }) };
    await savesOne(" + 2");
    assert.deepEqual((await hosted.catalog("one")).contract.tools, []);
  });

  it("is examined again when another process changes the same", async () => {
    const entry = { tools: { more: { function: "add" } }, auto_discover: true };
    meanwhile = { before: () => changeMcps({ one: entry, two: {} }) };
    await savesOne(" + 1");
    const { contract } = await hosted.catalog("one");
    assert.deepEqual(rows(contract.tools, "name"), ["add", "more"]);
    assert.equal(servers().get("one")!.definition, rawBlock(adds(" + 1")).cid);
  });

  it("keeps the release of another server that is saved between its two readings of mcps", async () => {
    const [mcps, release] = [rawBlock('{ "two": { "description": "Sums" } }'), jsonBlock({ a: "release" })];
    const set = [
      { kind: "variable", name: "mcps", cid: mcps.cid },
      { kind: "release", name: "two", cid: release.cid },
    ] as const;
    meanwhile = { reading: () => store.change("default", { by: "another", put: [mcps, release], set }) };
    await save({ kind: "entry", name: "one" }, '{ "description": "Adds" }');
    assert.equal((await store.name("default", "release", "two"))!.cid, release.cid);
    assert.equal(servers().get("two")!.entry.description, "Sums");
  });

  it("is examined again when another process changes the source of a server whose entry it changes", async () => {
    const later = rawBlock("/** Says. */\nexport const say = (): string => 'later';\n");
    await store.change("default", { by: "another", put: [later] });
    meanwhile = { before: () => changeName("server", "one", { definition: later.cid, enabled: true }) };
    await save({ kind: "entry", name: "one" }, '{ "description": "Sums" }');
    const { release } = await hosted.catalog("one");
    const history = await store.history("default", "release", "one");
    assert.deepEqual(rows(history, "by"), ["tester", "tester", "load"]);
    assert.equal(history[0]!.cid, release);
  });

  it("gives way to what another process saves right after it", async () => {
    const later = rawBlock("/** Says. */\nexport const say = (): string => 'later';\n");
    meanwhile = {
      async after() {
        await store.change("default", { by: "another", put: [later] });
        await changeName("server", "one", { definition: later.cid, enabled: true });
      },
    };
    await savesOne(" + 1");
    const { contract, release } = await hosted.catalog("one");
    assert.deepEqual(rows(contract.tools, "name"), ["say"]);
    assert.equal((await store.name("default", "release", "one"))!.cid, release);
  });

  it("fails with 503 where the compiler does, which is no fault of the source, and is compiled the next time", async () => {
    const message = "one.ts was not compiled: its process was killed from outside (SIGKILL); try again";
    const problems: Problem[] = [{ severity: "error", code: "compiler-unavailable", message }];
    let isBroken = true;
    const broken = async (source: DefinitionSource) => (isBroken ? { ...emptyDiscovery, problems } : compile(source));
    await hosted.restart({ compiler: { identity: compilerCid(), compile: broken } });
    await assert.rejects(savesOne(" + 9"), (error: BerthError) => {
      assert.deepEqual([error.code, error.status], ["compiler_failed", 503]);
      assert.ok(error.message.endsWith(message), error.message);
      return Number((error.data as JsonObject)["retryAfterSeconds"]) > 0;
    });
    isBroken = false;
    await savesOne(" + 9");
    assert.equal(servers().get("one")!.definition, rawBlock(adds(" + 9")).cid);
  });

  it("has a transform that failed run again when the server is loaded", async () => {
    const transform = rawBlock(`
import type { TransformContext } from "berth";
export async function generateTools(server: string, context: TransformContext) {
  if ((await context.variable("ready")) === undefined) throw new Error("not ready");
  return [{ name: "more", function: "add" }];
}
`);
    await changeMcps({ one: { tools_transform_cid: transform.cid }, two: {} }, transform);
    await hosted.host.reload("default");
    const { review } = await savesOne(" + 1");
    assert.match(review.problems[0]!.message, /not ready/);
    await changeTo("variable", "ready", rawBlock("yes"));
    const { contract } = await hosted.catalog("one");
    assert.deepEqual(rows(contract.tools, "name"), ["add", "more"]);
  });
});
