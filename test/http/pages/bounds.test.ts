import assert from "node:assert/strict";
import { describe, it } from "node:test";
import type { Edits } from "../../../src/edits/edits.ts";
import type { ServerSummary } from "../../../src/host/catalog/overview.ts";
import type { Host } from "../../../src/host/host.ts";
import { Activity } from "../../../src/host/journal/activity.ts";
import { cidPage } from "../../../src/http/pages/cid.ts";
import { Fragment } from "../../../src/http/pages/fragment.ts";
import { mcpPage } from "../../../src/http/pages/mcp.ts";
import { metaPage } from "../../../src/http/pages/meta.ts";
import type { Page, Pages } from "../../../src/http/pages/pages.ts";
import { viewComparison, viewSubject } from "../../../src/http/pages/subject.ts";
import { variablePage } from "../../../src/http/pages/variables.ts";
import type { RoutedContext } from "../../../src/http/routed.ts";
import { jsonBlock, rawBlock, type Block } from "../../../src/lib/cid.ts";
import type { CurrentDraft, Draft } from "../../../src/lib/draft.ts";
import { contextOf } from "../../support/request-context.ts";
import { rows } from "../../support/rows.ts";

/** Keeps its input instead of rendering it. */
function pagesOf(sent: Page[]): Pages {
  const kept: Partial<Pages> = {
    text: async (text) => new Fragment(Buffer.from(text)),
    async fragment(_partial, groups) {
      return new Fragment(Buffer.from(JSON.stringify([...groups].flat())));
    },
    async send(_context, _view, page) {
      sent.push(page);
    },
  };
  return kept as Pages;
}

const forParams = (params: object): RoutedContext =>
  contextOf({ request: { params, socket: {} }, response: { vary: () => {} } });

function editsOf(current: CurrentDraft, versions: ReadonlyMap<string, Draft> = new Map()): Edits {
  const known: Partial<Edits> = {
    history: async () => [],
    read: async () => current,
    version: async (_tenant, _subject, cid) => versions.get(cid),
  };
  return known as Edits;
}

const currentOf = (name: string, text: string): CurrentDraft => ({
  entry: name,
  files: { [name]: text },
  cid: rawBlock(text).cid,
  language: "json",
  changedAt: 0,
  by: "test",
});

const ORIGIN = "http://127.0.0.1";

interface View {
  readonly description: string;
}

describe("pages of what others wrote", () => {
  it("link the CIDs in the fields of an entry, and read one entry at a time", async (t) => {
    const { cid } = rawBlock("a definition");
    const entry = {
      definition: cid,
      tools_transform_cid: cid,
      options: { t: { a: Array(15_000).fill(cid.slice(1)) } },
    };
    const text = JSON.stringify(Object.fromEntries(Array.from({ length: 3 }, (_, at) => [`s${at}`, entry])));
    const sent: Page[] = [];
    const edits = editsOf(currentOf("mcps", text));
    const host = { content: async () => undefined };
    const page = variablePage.create({ edits, host, pages: pagesOf(sent), writable: true });
    const parse = t.mock.method(JSON, "parse");
    await page(forParams({ name: "mcps" }));
    const longest = Math.max(...parse.mock.calls.map(({ arguments: [read] }) => read.length));
    assert.ok(longest < text.length / 2, `${longest} of ${text.length} letters at once`);
    const links = sent[0]!["links"] as { server: string; cids: { field: string }[] }[];
    assert.deepEqual(
      links.map(({ server, cids }) => [server, cids.map(({ field }) => field)]),
      ["s0", "s1", "s2"].map((server) => [server, ["definition", "tools_transform_cid"]]),
    );
  });

  it("have texts in them that are compared, and none that are too long for it", async () => {
    const [long, other] = ["<".repeat(300_000), "<".repeat(300_001)];
    const drafts: Draft[] = [
      { entry: "a", files: { a: "one\n", b: long } },
      { entry: "a", files: { a: "two\n", b: other } },
    ];
    const cids = drafts.map((draft) => jsonBlock(draft).cid);
    const edits = editsOf(currentOf("a", ""), new Map(drafts.map((draft, index) => [cids[index]!, draft])));
    const host = { content: async () => undefined };
    const at = { edits, pages: pagesOf([]), writable: true, tenant: "default", base: "", host };
    const query = { from: cids[0], to: cids[1] };
    const { files, setup } = await viewComparison(at, { kind: "definition", name: "a" }, query, "nonce");
    assert.deepEqual(rows(files, "path", "tooLong"), ["a false", "b true"]);
    const said = JSON.parse(setup) as { files: unknown[] };
    assert.deepEqual(said.files, [{ path: "a", before: "one\n", after: "two\n" }, null]);
  });

  it("have no editor for a long text that HTML cannot hold", async () => {
    const view = (text: string) => {
      const current = currentOf("a", text);
      const at = { edits: editsOf(current), pages: pagesOf([]), writable: true, tenant: "default", base: "" };
      const place = { id: "a", heading: "A", compareAt: { path: "/", fields: [] }, styleNonce: "nonce" };
      return viewSubject(at, { kind: "variable", name: "a" }, current, place);
    };
    const short = JSON.parse((await view("\0")).setup) as { readOnly: boolean; files: object };
    assert.deepEqual([short.readOnly, short.files], [false, { a: "\0" }]);
    const { setup } = await view("\0".repeat(600_000));
    assert.ok(setup.length < 1_000, `${setup.length} letters`);
    assert.match(setup, /"readOnly":true/);
  });

  it("show the beginning of a description", async () => {
    const summary = {
      name: "s",
      isBuiltIn: false,
      state: "disabled",
      description: "<".repeat(1_000_000),
      problems: [],
    };
    const host: Partial<Host> = {
      names: () => ["s"],
      directory: () => undefined,
      overview: async () => [{ ...(summary as unknown as ServerSummary), tools: [] }],
      summary: async () => summary as unknown as ServerSummary,
      upstreamNow: async () => undefined,
      activity: () => new Activity(),
      problems: () => [],
    };
    const sent: Page[] = [];
    const at = { edits: editsOf(currentOf("s", "")), host: host as Host, pages: pagesOf(sent), originOf: () => ORIGIN };
    const access = { required: false, oauth: () => undefined };
    const parts = { ...at, access, cluster: { others: new Map() }, isolation: "", sandboxNote: "", setups: [] };
    const none = { list: async () => [] };
    await mcpPage.create({ ...parts, writable: false })(forParams({}));
    await metaPage.create({ ...parts, calls: undefined, secrets: none, writable: true })(forParams({ server: "s" }));
    const [list, alone] = sent as unknown as [{ servers: Fragment }, View];
    const [listed] = JSON.parse(list.servers.bytes.toString()) as [View];
    assert.equal(listed.description.length, 141);
    assert.equal(alone.description.length, 16_001);
  });

  it("read the files of a definition as far as they are shown", async () => {
    const long = rawBlock("x".repeat(150_000));
    const files = Object.fromEntries(Array.from({ length: 64 }, (_, index) => [`f${index}`, long.cid]));
    const shown = async (definition: Block): Promise<{ reads: number; files: { text: string; cut: boolean }[] }> => {
      let reads = 0;
      const contents = new Map([definition, long].map(({ cid, bytes }) => [cid, bytes]));
      const host: Partial<Host> = {
        async content(_tenant, cid) {
          reads += 1;
          return contents.get(cid);
        },
        contentUsers: async () => [],
      };
      const sent: Page[] = [];
      const page = cidPage.create({ host: host as Host, pages: pagesOf(sent) });
      await page(forParams({ cid: definition.cid }));
      return { reads, files: sent[0]!["files"] as { text: string; cut: boolean }[] };
    };
    const definition = await shown(jsonBlock({ entry: "f0", files }));
    assert.equal(definition.reads, 3);
    const lengths = definition.files.slice(0, 3).map(({ text, cut }) => [text.length, cut]);
    assert.deepEqual(lengths, [
      [150_000, false],
      [50_000, true],
      [0, true],
    ]);
    assert.equal(definition.files.length, 64);
    assert.deepEqual(await shown(rawBlock(JSON.stringify({ entry: "f0", files }))), { reads: 1, files: [] });
  });
});
