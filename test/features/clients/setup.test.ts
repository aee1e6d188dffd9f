import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { symlink, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { before, describe, it } from "node:test";
import { packageRoot } from "../../../src/config.ts";
import { setupsFor, sampleArguments } from "../../../src/features/clients/setup.ts";
import type { SetupFor } from "../../../src/http/feature-routes.ts";
import type { JsonSchema } from "../../../src/lib/json.ts";
import { request, startTestBerth, post } from "../../support/berth.ts";
import { countedReads } from "../../support/counted-reads.ts";
import { berthInSuite, temporaryFolder } from "../../support/suite.ts";
import { addTenant, onStoreOf } from "../../support/tenants.ts";
import { bearer, makeToken } from "../../support/tokens.ts";

/** The texts that a page offers for copying, by client. */
function textsFor(setup: SetupFor): Map<string, string[]> {
  return new Map(setupsFor(setup).map(({ client, steps }) => [client, steps.map(({ text }) => text)]));
}

/** Runs a program to its end; returns its stdout. */
function run(command: string, args: string[], cwd: string, token = ""): Promise<string> {
  return new Promise((resolve, reject) => {
    const env = { ...process.env, BERTH_TOKEN: token };
    const child = spawn(command, args, { cwd, env, stdio: ["ignore", "pipe", "pipe"] });
    let [out, err] = ["", ""];
    child.stdout.setEncoding("utf8").on("data", (chunk: string) => (out += chunk));
    child.stderr.setEncoding("utf8").on("data", (chunk: string) => (err += chunk));
    child.once("error", reject);
    child.once("close", (code) => (code === 0 ? resolve(out) : reject(new Error(`${command}: ${code}: ${err}`))));
  });
}

describe("arguments for a first call", () => {
  const sampleOf = (inputSchema: JsonSchema): unknown => {
    const [command] = textsFor({
      name: "s",
      url: "http://127.0.0.1/",
      tool: { name: "t", inputSchema },
      access: "open",
    }).get("curl")!;
    return JSON.parse(/-d '(.*)'$/s.exec(command!)![1]!).params.arguments;
  };
  const objectOf = (properties: Record<string, JsonSchema>): JsonSchema => {
    return { type: "object", properties, required: Object.keys(properties) };
  };
  const text = { type: "string" };

  it("are as long as the schema wants", () => {
    const wanted = objectOf({
      code: { ...text, minLength: 7 },
      when: { ...text, format: "date" },
      kind: { enum: ["a"] },
    });
    assert.deepEqual(sampleOf(wanted), { code: "hellooo", when: "2026-01-31", kind: "a" });
  });

  it("are left out where they would fill the page, or the memory", () => {
    const long = { ...text, minLength: 500_000_000 };
    const many = Array.from({ length: 100_000 }, (_, number) => [`text${number}`, long] as const);
    for (const schema of [
      objectOf({ code: long }),
      objectOf(Object.fromEntries(many)),
      objectOf({ kind: { const: ["x".repeat(10_000)] } }),
      { ...objectOf({}), examples: [{ code: "x".repeat(10_000) }] },
    ]) {
      assert.deepEqual(sampleOf(schema), {});
    }
  });

  it("know no format by the name of something else", () => {
    assert.deepEqual(sampleOf(objectOf({ code: { ...text, format: "constructor" } })), { code: "hello" });
  });
});

describe("the sample of arguments", () => {
  it("takes each value once, however often and under whatever name a schema requires it", () => {
    const level = (depth: number): JsonSchema =>
      depth === 0
        ? { type: "boolean" }
        : { type: "object", required: Array.from({ length: 8 }, () => ""), properties: { "": level(depth - 1) } };
    const counted = countedReads(level(5));
    assert.deepEqual(sampleArguments(counted.schema), { "": { "": { "": { "": { "": true } } } } });
    assert.ok(counted.count < 1_000, `${counted.count} reads`);
  });

  it("is given up where it has too many values, though they have hardly a letter", () => {
    const names = Array.from({ length: 3_000 }, (_, index) => String.fromCharCode(0x4e00 + index));
    const properties = Object.fromEntries(names.map((name) => [name, { type: "array" }]));
    assert.deepEqual(sampleArguments({ type: "object", required: names, properties }), {});
  });
});

describe("the snippets on a server's page", () => {
  const files = ["test/fixtures/servers/everyday.ts"];
  const berth = berthInSuite({ files });
  const guarded = berthInSuite({ files, env: { BERTH_ACCESS: "required" } });
  const folder = temporaryFolder();
  let setup: SetupFor;
  before(async () => {
    await symlink(join(packageRoot, "node_modules"), join(folder, "node_modules"));
    const url = `${berth.url}/mcp/everyday`;
    const { body } = await post(url, request("tools/list"), { "MCP-Protocol-Version": "2025-06-18" });
    setup = { name: "everyday", url, tool: body.result.tools[0], access: "open" };
  });

  for (const access of ["open", "token"] as const) {
    it(`call a tool by curl and by the official client where access is ${access} (C6)`, async () => {
      let [of, token] = [setup, ""];
      if (access === "token") {
        ({ token } = await makeToken(guarded, { can: ["call", "read"], servers: ["everyday"] }));
        of = { ...setup, access, url: `${guarded.url}/mcp/everyday` };
      }
      const texts = textsFor(of);
      const [command] = texts.get("curl")!;
      const answer = JSON.parse(await run("sh", ["-c", command!], folder, token)) as { result: { isError?: boolean } };
      assert.ok(answer.result && answer.result.isError !== true);
      await writeFile(join(folder, "client.mjs"), texts.get("TypeScript")![1]!);
      const said = await run(process.execPath, ["client.mjs"], folder, token);
      assert.match(said, /'echo',[^]*content: \[ \{ type: 'text'/);
    });
  }

  it("name the address in the format of each client (C6)", () => {
    const { url } = setup;
    const texts = textsFor(setup);
    const jsonOf = (client: string, step: number): unknown => JSON.parse(texts.get(client)![step]!);
    assert.equal(texts.get("Claude Code")![0], `claude mcp add --transport http everyday ${url}`);
    assert.deepEqual(jsonOf("Claude Code", 1), { mcpServers: { everyday: { type: "http", url } } });
    assert.deepEqual(jsonOf("Claude Desktop", 0), {
      mcpServers: { everyday: { command: "npx", args: ["-y", "mcp-remote", url] } },
    });
    assert.deepEqual(jsonOf("Cursor", 0), { mcpServers: { everyday: { url } } });
    assert.deepEqual(jsonOf("VS Code", 0), { servers: { everyday: { type: "http", url } } });
    assert.equal(texts.get("VS Code")![1], `code --add-mcp '{"name":"everyday","type":"http","url":"${url}"}'`);
    assert.equal(texts.get("Codex")![0], `codex mcp add everyday --url ${url}`);
    assert.equal(texts.get("Codex")![1], `[mcp_servers.everyday]\nurl = "${url}"`);
    assert.equal(texts.get("Gemini CLI")![0], `gemini mcp add --scope user --transport http everyday ${url}`);
    assert.deepEqual(jsonOf("Gemini CLI", 1), { mcpServers: { everyday: { url, type: "http" } } });
    assert.deepEqual(jsonOf("opencode", 0), { mcp: { everyday: { type: "remote", url } } });
    // The Inspector changes an address that does not end so.
    assert.ok(texts.get("Inspector")!.every((text) => text.includes(` ${url}/mcp`)));
    const ofAll = textsFor({ ...setup, url: "http://127.0.0.1:1/mcp" }).get("Inspector")!;
    assert.ok(ofAll.every((text) => !text.includes("/mcp/mcp")));
  });

  it("name the variable of the token in the format of each client (C6)", () => {
    const { url } = setup;
    const texts = textsFor({ ...setup, access: "token" });
    const jsonOf = (client: string, step: number): unknown => JSON.parse(texts.get(client)![step]!);
    const headers = { Authorization: "Bearer ${BERTH_TOKEN}" };
    const header = "--header 'Authorization: Bearer ${BERTH_TOKEN}'";
    assert.equal(texts.get("Claude Code")![0], `claude mcp add --transport http everyday ${url} ${header}`);
    assert.deepEqual(jsonOf("Claude Code", 1), { mcpServers: { everyday: { type: "http", url, headers } } });
    assert.deepEqual(jsonOf("Claude Desktop", 0), {
      mcpServers: {
        everyday: {
          command: "npx",
          args: ["-y", "mcp-remote", url, "--header", "Authorization:${BERTH_AUTHORIZATION}"],
          env: { BERTH_AUTHORIZATION: "Bearer <token>" },
        },
      },
    });
    assert.deepEqual(jsonOf("Cursor", 0), {
      mcpServers: { everyday: { url, headers: { Authorization: "Bearer ${env:BERTH_TOKEN}" } } },
    });
    const server = { type: "http", url, headers: { Authorization: "Bearer ${input:everyday-token}" } };
    const inputs = [{ type: "promptString", id: "everyday-token", description: "Token for everyday", password: true }];
    assert.deepEqual(jsonOf("VS Code", 0), { inputs, servers: { everyday: server } });
    const [, json] = /^code --add-mcp '(.*)'$/.exec(texts.get("VS Code")![1]!)!;
    assert.deepEqual(JSON.parse(json!), { name: "everyday", ...server, inputs });
    assert.equal(texts.get("Codex")![0], `codex mcp add everyday --url ${url} --bearer-token-env-var BERTH_TOKEN`);
    assert.equal(
      texts.get("Codex")![1],
      `[mcp_servers.everyday]\nurl = "${url}"\nbearer_token_env_var = "BERTH_TOKEN"`,
    );
    assert.equal(texts.get("Gemini CLI")![0], `gemini mcp add --scope user --transport http everyday ${url} ${header}`);
    assert.deepEqual(jsonOf("Gemini CLI", 1), { mcpServers: { everyday: { url, type: "http", headers } } });
    assert.deepEqual(jsonOf("opencode", 0), {
      mcp: { everyday: { type: "remote", url, headers: { Authorization: "Bearer {env:BERTH_TOKEN}" } } },
    });
    assert.ok(texts.get("Inspector")!.every((text) => text.endsWith(' --header "Authorization: Bearer $BERTH_TOKEN"')));
  });

  it("give clients that sign in themselves only the address (C6)", () => {
    const open = textsFor(setup);
    const oauth = textsFor({ ...setup, access: "oauth" });
    const differing = [...open].filter(([client, texts]) => texts.join() !== oauth.get(client)!.join());
    const clientsOfTokens = differing.map(([client]) => client);
    assert.deepEqual(clientsOfTokens, ["curl", "TypeScript"]);
    const token = textsFor({ ...setup, access: "token" });
    for (const client of ["curl", "TypeScript"]) assert.deepEqual(oauth.get(client), token.get(client));
  });

  it("have links for editors with the content of their files (C6)", () => {
    const url = "https://berth.example/mcp/a%22b%25?c=%7D&d=+e";
    const linkOf = (client: string, access: SetupFor["access"]): URL => {
      const setups = setupsFor({ name: "a.b_c", url, tool: undefined, access });
      const { link } = setups.find((each) => each.client === client) as { readonly link?: string };
      return new URL(link!);
    };
    for (const access of ["open", "token"] as const) {
      const texts = textsFor({ name: "a.b_c", url, tool: undefined, access });
      const vsCode = linkOf("VS Code", access);
      assert.equal(vsCode.href.split("?")[0], "vscode:mcp/install");
      const [once, twice] = [1, 2].map((times) => {
        let query = vsCode.search.slice(1);
        for (let time = 0; time < times; time++) query = decodeURIComponent(query);
        return JSON.parse(query) as { name: string; inputs?: object[] };
      });
      assert.deepEqual(once, twice);
      const { name, inputs, ...server } = once!;
      assert.deepEqual(
        { ...(inputs && { inputs }), servers: { [name]: server } },
        JSON.parse(texts.get("VS Code")![0]!),
      );

      const cursor = linkOf("Cursor", access);
      assert.equal(cursor.href.split("?")[0], "cursor://anysphere.cursor-deeplink/mcp/install");
      const config = JSON.parse(Buffer.from(cursor.searchParams.get("config")!, "base64").toString()) as unknown;
      const mcpServers = { [cursor.searchParams.get("name")!]: config };
      assert.deepEqual({ mcpServers }, JSON.parse(texts.get("Cursor")![0]!));
    }
  });

  it("name the command that creates a token where one is required (C6)", async () => {
    const { token } = await makeToken(guarded, { can: ["read"] });
    await onStoreOf(guarded, (store) => addTenant(store, "acme", { servers: { theirs: "export const a = () => 1;" } }));
    const theirs = await makeToken(guarded, { can: ["read"] }, { tenant: "acme" });
    const pageOf = async (url: string, sent = ""): Promise<string> =>
      (await fetch(url, { headers: { Accept: "text/html", ...(sent && bearer(sent)) } })).text();
    const commandIn = (page: string): string | undefined => /berth token create[^<]*/.exec(page)?.[0];
    const alone = await pageOf(`${guarded.url}/mcp/meta/everyday?tab=connect`, token);
    assert.equal(commandIn(alone), "berth token create --server everyday");
    assert.ok(alone.includes("Authorization: Bearer ${BERTH_TOKEN}"));
    const releases = await pageOf(`${guarded.url}/mcp/meta/everyday?tab=releases`, token);
    const pinned = /href="(\/mcp\/meta\/everyday@\w+)"/.exec(releases)![1]!;
    const ofRelease = commandIn(await pageOf(`${guarded.url}${pinned}?tab=connect`, token));
    assert.equal(ofRelease, "berth token create --server everyday");
    assert.equal(commandIn(await pageOf(`${guarded.url}/mcp`, token)), "berth token create");
    const ofTenant = commandIn(await pageOf(`${guarded.url}/t/acme/mcp/meta/theirs?tab=connect`, theirs.token));
    assert.equal(ofTenant, "berth token create --tenant acme --server theirs");
    for (const path of ["/mcp", "/mcp/meta/everyday?tab=connect"]) {
      const page = await pageOf(`${berth.url}${path}`);
      assert.equal(commandIn(page), undefined);
      assert.ok(!page.includes("BERTH_TOKEN"));
    }
  });

  it("name the authorization server and the command for other programs (C6)", async () => {
    const issuer = "http://127.0.0.1:9/";
    const env = { BERTH_ACCESS: "required", BERTH_OAUTH_ISSUER: issuer };
    const signed = await startTestBerth({ texts: { "one.ts": "export const one = () => 1;" }, env });
    const { token } = await makeToken(signed, { can: ["read"] });
    const headers = { Accept: "text/html", ...bearer(token) };
    const page = await (await fetch(`${signed.url}/mcp/meta/one?tab=connect`, { headers })).text();
    await signed.close();
    assert.ok(page.includes(`<code>${issuer}</code>`));
    assert.ok(page.includes("berth token create --server one"));
    assert.ok(!page.includes("Authorization: Bearer ${BERTH_TOKEN}"));
  });

  it("quote names and addresses for shells (T14.2)", async () => {
    const url = "http://127.0.0.1:1/mcp/a'$(touch${IFS}bad)`touch bad`;touch bad";
    const tool = { name: "x'; touch bad; '", inputSchema: { type: "object" } };
    for (const [client, texts] of textsFor({ name: "a'; touch bad; $(touch bad)", url, tool, access: "token" })) {
      for (const text of texts.filter((each) => /^(?:claude|code|codex|gemini|npx|curl) /.test(each))) {
        await run("sh", ["-c", `${text.split(" ")[0]}() { :; }\n${text}`], folder);
        await assert.rejects(run("ls", ["bad"], folder), client);
      }
    }
  });

  it("allow plain HTTP in the bridge of Claude Desktop only for addresses that are not local", () => {
    const bridge = (url: string): unknown =>
      JSON.parse(textsFor({ name: "a", url, tool: undefined, access: "open" }).get("Claude Desktop")![0]!);
    const entry = (...args: string[]) => ({
      mcpServers: { a: { command: "npx", args: ["-y", "mcp-remote", ...args] } },
    });
    assert.deepEqual(bridge("http://berth.lan/mcp/a"), entry("http://berth.lan/mcp/a", "--allow-http"));
    assert.deepEqual(bridge("https://berth.example/mcp/a"), entry("https://berth.example/mcp/a"));
  });
});
