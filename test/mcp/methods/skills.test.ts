import assert from "node:assert/strict";
import { createHash } from "node:crypto";
import { describe, it } from "node:test";
import { apiOf } from "../../support/api.ts";
import { modern, post, request, withStatus } from "../../support/berth.ts";
import { rows } from "../../support/rows.ts";
import { berthFor, berthInSuite } from "../../support/suite.ts";
import { bearer, makeToken } from "../../support/tokens.ts";

const NOTES = "/** Adds. */ export function add(a: number, b: number) { return a + b; }\n";
const SKILL = "---\nname: tidy\ndescription: Puts notes in order.\nallowed-tools: Bash\n---\n\n# Tidy\n";
const FORMS = "\ufeff# Forms\r\n";
const PIXEL = Buffer.from([0x89, 0x50, 0xff, 0x00]);
const FILES = {
  "notes.skills/tidy/SKILL.md": SKILL,
  "notes.skills/tidy/references/FORMS.md": FORMS,
  "notes.skills/tidy/a ü%#.png": PIXEL,
};
const URI = "skill://notes/tidy/SKILL.md";

const digest = (content: string | Buffer): string => `sha256:${createHash("sha256").update(content).digest("hex")}`;

const ENTRY = {
  uri: URI,
  frontmatter: { name: "tidy", description: "Puts notes in order.", "allowed-tools": "Bash" },
  resources: [
    { uri: URI, digest: digest(SKILL), size: SKILL.length },
    { uri: "skill://notes/tidy/a%20%C3%BC%25%23.png", digest: digest(PIXEL), size: 4 },
    { uri: "skill://notes/tidy/references/FORMS.md", digest: digest(FORMS), size: Buffer.byteLength(FORMS) },
  ],
};

/** Asks one server in one era; the result, or else the error. */
// An answer has any shape; tests look into it freely.
// oxlint-disable-next-line typescript/no-explicit-any
type Ask = (method: string, params?: Record<string, unknown>) => Promise<any>;

const eras: Record<string, (url: string, headers?: Record<string, string>) => Ask> = {
  "2026-07-28":
    (url, headers) =>
    async (method, params = {}) => {
      const { body } = await modern(url, method, params, {
        "Mcp-Name": method === "resources/read" ? String(params["uri"]) : "",
        ...headers,
      });
      return body.result ?? body.error;
    },
  "2025-11-25":
    (url, headers = {}) =>
    async (method, params) => {
      const { body } = await post(url, request(method, params), { "MCP-Protocol-Version": "2025-11-25", ...headers });
      return body.result ?? body.error;
    },
};

describe("skills of definitions", () => {
  const script = "#!/bin/sh\n# Says hello.\necho hello\n";
  const berth = berthInSuite({
    texts: { "notes.ts": NOTES, "hello.sh": script, "bare.ts": NOTES },
    beside: { ...FILES, "hello.skills/greet/SKILL.md": SKILL.replace("tidy", "greet") },
    mcps: { twin: { definition: "notes.ts" } },
  });
  const api = apiOf(berth);

  for (const [era, askAt] of Object.entries(eras)) {
    describe(`in ${era}`, () => {
      const ask: Ask = (method, params) => askAt(`${berth.url}/mcp/notes`)(method, params);

      it("are listed and given with all their files, digests and sizes", async () => {
        const { skills } = await ask("skills/list");
        assert.deepEqual(skills, [ENTRY]);
        assert.deepEqual((await ask("skills/get", { uri: URI })).skill, ENTRY);
      });

      it("are read as the bytes that their digests are of", async () => {
        for (const { uri, digest: wanted, size } of ENTRY.resources) {
          const { contents } = await ask("resources/read", { uri });
          const [{ text, blob, uri: given }] = contents;
          const bytes = text === undefined ? Buffer.from(blob, "base64") : Buffer.from(text);
          assert.deepEqual([given, digest(bytes), bytes.length], [uri, wanted, size]);
        }
      });

      it("are resources for clients that know no skills", async () => {
        const { resources } = await ask("resources/list");
        assert.deepEqual(resources, [
          { uri: URI, name: "tidy", description: "Puts notes in order.", mimeType: "text/markdown" },
        ]);
        const { contents } = await ask("resources/read", { uri: URI });
        assert.deepEqual(contents, [{ uri: URI, mimeType: "text/markdown", text: SKILL }]);
      });

      it("have folders to read, one level at a time", async () => {
        const folder = async (uri: string) =>
          rows((await ask("resources/directory/read", { uri })).resources, "name", "mimeType");
        assert.deepEqual(await folder("skill://notes/tidy"), [
          "tidy text/markdown",
          "a ü%#.png image/png",
          "references inode/directory",
        ]);
        assert.deepEqual(await folder("skill://notes/tidy/references"), ["FORMS.md text/markdown"]);
        assert.deepEqual(await folder("skill://notes"), ["tidy inode/directory"]);
      });

      it("are refused with -32602 where there are none", async () => {
        for (const uri of [
          "skill://notes/other/SKILL.md",
          "skill://notes/tidy/references/FORMS.md",
          "skill://notes/tidy",
          "skill://bare/tidy/SKILL.md",
          "skill://notes/tidy/../tidy/SKILL.md",
          "skill://NOTES/tidy/SKILL.md",
          7,
          undefined,
        ]) {
          assert.equal((await ask("skills/get", { uri })).code, -32602, String(uri));
        }
        for (const uri of [URI, "skill://notes/tidy/", "skill://", "skill:/", "skill:", "", "skill://notes/tid", 7]) {
          assert.equal((await ask("resources/directory/read", { uri })).code, -32602, String(uri));
        }
        assert.equal((await ask("resources/directory/read", { uri: "skill://notes/tidy", cursor: "x" })).code, -32602);
      });

      it("never lead to another file of the definition or of the machine", async () => {
        const paths = "../../notes.ts ..%2f..%2fnotes.ts %2e%2e/%2e%2e/notes.ts /etc/passwd references";
        for (const path of paths.split(" ")) {
          const { code } = await ask("resources/read", { uri: `skill://notes/tidy/${path}` });
          assert.equal(code, era === "2025-11-25" ? -32002 : -32602, path);
        }
      });

      it("are of scripts, too", async () => {
        const { skills } = await askAt(`${berth.url}/mcp/hello`)("skills/list");
        assert.deepEqual(rows(skills, "uri"), ["skill://hello/greet/SKILL.md"]);
      });

      it("do not exist where there are none", async () => {
        const bare = askAt(`${berth.url}/mcp/bare`);
        for (const method of ["skills/list", "skills/get", "resources/directory/read"]) {
          assert.equal((await bare(method, { uri: URI })).code, -32601, method);
        }
      });

      it("are those of all servers at /mcp, each under its server's name", async () => {
        const all = askAt(`${berth.url}/mcp`);
        const { skills } = await all("skills/list");
        const uris = ["skill://hello/greet/SKILL.md", URI, "skill://twin/tidy/SKILL.md"];
        assert.deepEqual(rows(skills, "uri").sort(), uris);
        assert.deepEqual((await all("skills/get", { uri: URI })).skill, ENTRY);
        assert.equal((await all("resources/read", { uri: URI })).contents[0].text, SKILL);
        assert.equal((await all("resources/directory/read", { uri: "skill://twin/tidy" })).resources.length, 3);
        const { resources } = await all("resources/list");
        assert.deepEqual(
          rows(
            resources.filter(({ uri }: { uri: string }) => uri === URI),
            "name",
          ),
          ["tidy"],
        );
      });
    });
  }

  it("are declared as an extension by the servers that have some", async () => {
    const declared = { "io.modelcontextprotocol/skills": { directoryRead: true } };
    const initialize = { protocolVersion: "2025-11-25", capabilities: {}, clientInfo: { name: "test", version: "1" } };
    for (const path of ["/mcp/notes", "/mcp", "/mcp/bare"]) {
      const wanted = path === "/mcp/bare" ? undefined : declared;
      const found = await eras["2026-07-28"]!(`${berth.url}${path}`)("server/discover");
      assert.deepEqual(found.capabilities.extensions, wanted, path);
      const { body } = await post(`${berth.url}${path}`, request("initialize", initialize));
      assert.deepEqual(body.result.capabilities.extensions, wanted, path);
    }
  });

  it("are cached as lists are", async () => {
    const ask = eras["2026-07-28"]!(`${berth.url}/mcp/notes`);
    for (const { ttlMs, cacheScope, resultType } of [await ask("skills/list"), await ask("skills/get", { uri: URI })]) {
      assert.deepEqual([ttlMs, cacheScope, resultType], [60_000, "public", "complete"]);
    }
  });

  it("are saved with their definition, make a release, and stay in the one before", async () => {
    const save = (files: Record<string, string>, condition: Record<string, string> = { "If-Match": "*" }) =>
      api.send("PUT", "/definitions/live", { entry: "live.ts", files: { "live.ts": NOTES, ...files } }, condition);
    const path = "live.skills/tidy/SKILL.md";
    await withStatus(201, save({ [path]: SKILL }, { "If-None-Match": "*" }));
    const ask = eras["2026-07-28"]!(`${berth.url}/mcp/live`);
    const uri = "skill://live/tidy/SKILL.md";
    const { contents } = await ask("resources/read", { uri });
    assert.equal(contents[0].text, SKILL);

    const changed = SKILL.replace("# Tidy", "# Tidy up");
    const second = await save({ [path]: changed });
    assert.deepEqual(rows(second.body.review.servers[0].changes, "subject", "effect", "message"), [
      "skill review Its files: SKILL.md is changed.",
    ]);
    assert.equal((await ask("resources/read", { uri })).contents[0].text, changed);
    assert.equal((await ask("skills/get", { uri })).skill.resources[0].digest, digest(changed));
    const old = eras["2026-07-28"]!(`${berth.url}/mcp/live@${second.body.review.servers[0].before}`);
    assert.equal((await old("resources/read", { uri })).contents[0].text, SKILL);
    assert.equal((await old("skills/get", { uri })).skill.resources[0].digest, digest(SKILL));

    assert.equal((await save({})).status, 409, "a skill that is gone is a breaking change");
  });

  it("are refused at a save with a path that leads out", async () => {
    for (const path of ["bad.skills/../../x/SKILL.md", "/bad.skills/tidy/SKILL.md", "bad.skills\\tidy\\SKILL.md"]) {
      const draft = { entry: "bad.ts", files: { "bad.ts": NOTES, [path]: SKILL } };
      assert.equal((await api.send("PUT", "/definitions/bad", draft, { "If-None-Match": "*" })).status, 422, path);
    }
  });
});

describe("skills and rights", () => {
  it("are shown to who may read the server, and to nobody else", async (t) => {
    const env = { BERTH_ACCESS: "required" };
    const berth = await berthFor(t, { texts: { "notes.ts": NOTES }, beside: FILES, env });
    const reader = bearer((await makeToken(berth, { can: ["read"], servers: ["notes"] })).token);
    const caller = bearer((await makeToken(berth, { can: ["call"], servers: ["notes"] })).token);
    for (const path of ["/mcp/notes", "/mcp"]) {
      const mayRead = eras["2026-07-28"]!(`${berth.url}${path}`, reader);
      assert.equal((await mayRead("skills/list")).skills.length, 1);
      const mayCall = eras["2026-07-28"]!(`${berth.url}${path}`, caller);
      assert.equal((await mayCall("skills/list")).code, -32601);
      assert.ok((await mayCall("skills/get", { uri: URI })).code);
      assert.ok((await mayCall("resources/read", { uri: URI })).code);
      assert.equal((await mayCall("server/discover")).capabilities.extensions, undefined);
      const mayCallInOlder = eras["2025-11-25"]!(`${berth.url}${path}`, caller);
      assert.ok((await mayCallInOlder("skills/get", { uri: URI })).code);
      assert.ok((await mayCallInOlder("resources/read", { uri: URI })).code);
    }
  });
});

describe("a resource at the URI of a skill's file", () => {
  it("is none, and the file is given", async (t) => {
    const taking = `/** @resource ${URI} */ export function other() { return "another text"; }\n`;
    const berth = await berthFor(t, { texts: { "notes.ts": NOTES + taking }, beside: FILES });
    const ask = eras["2026-07-28"]!(`${berth.url}/mcp/notes`);
    const { resources } = await ask("resources/list");
    assert.deepEqual(rows(resources, "uri", "name"), [`${URI} tidy`]);
    assert.equal((await ask("resources/read", { uri: URI })).contents[0].text, SKILL);
    const page = await (await fetch(`${berth.url}/mcp/meta/notes`, { headers: { Accept: "text/html" } })).text();
    assert.ok(page.includes(`${URI} is a file of a skill; use another URI for this resource`));
  });
});
