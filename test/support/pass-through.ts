import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { readFileSync } from "node:fs";
import { createInterface } from "node:readline";

/**
 * Compares what a client gets of a hosted server with what it gets directly: JSON text for JSON text, numbers as
 * written, but for the exceptions that docs/pass-through.md names.
 */

export const REVISIONS = ["2026-07-28", "2025-11-25", "2025-03-26", "2024-11-05"] as const;
export type Revision = (typeof REVISIONS)[number];

/** True for revisions without titles, output schemas, `_meta` of listed items and structured content. */
const isOlder = (revision: Revision): boolean => revision < "2025-06-18";

/** A method and its parameters. */
export type Asked = readonly [method: string, params: Record<string, unknown>];

export interface ServerToCompare {
  readonly program: readonly string[];
  readonly env?: Readonly<Record<string, string>>;
  /** Requests whose answers are the same each time. */
  readonly asks: readonly Asked[];
  /** It lists more than Berth's limits permit. */
  readonly isBeyondLimits?: boolean;
  /** It says what time it is. */
  readonly tellsTime?: boolean;
}

/** Sends a request in a revision, and resolves with the text of the answer. */
export type Ask = (asked: Asked) => Promise<string>;

const LISTS = ["tools/list", "resources/list", "resources/templates/list", "prompts/list"] as const;

/** Fails at the first difference; collects the exceptions that were met in `used`. */
export async function compareServer(
  { asks, isBeyondLimits = false, tellsTime = false }: ServerToCompare,
  revision: Revision,
  direct: Ask,
  hosted: Ask,
  used: Set<string>,
): Promise<void> {
  const said = asLossless(await direct(HELLO)) as Message;
  const offers = said.result?.["capabilities"] as Record<string, unknown>;
  const lists = LISTS.filter((method) => offers[method.split("/")[0]!] !== undefined);
  const all: Asked[] = [HELLO, ...lists.map((method): Asked => [method, {}]), ...asks];
  for (const asked of all) {
    const answers = [await answerOf(direct, asked), await answerOf(hosted, asked)];
    const [own, through] = (tellsTime ? withoutTimes(answers) : answers) as [Message, Message];
    const where = { method: asked[0], revision, own, through, isBeyondLimits };
    for (const [exception, apply] of Object.entries(EXCEPTIONS)) if (apply(where)) used.add(exception);
    assert.deepEqual(through, own, `${asked[0]} ${JSON.stringify(asked[1])} in ${revision}`);
  }
}

function withoutTimes(answers: readonly Message[]): Message[] {
  return JSON.parse(JSON.stringify(answers).replace(/\d{4}-\d\d-\d\dT[\d:.]+Z/g, "TIME")) as Message[];
}

/** All pages of a list as one. */
async function answerOf(ask: Ask, asked: Asked): Promise<Message> {
  const answer = asLossless(await ask(asked)) as Message;
  delete answer["jsonrpc"];
  delete answer["id"];
  if (!asked[0].endsWith("/list") || !answer.result) return answer;
  const list = Object.keys(answer.result).find((name) => Array.isArray(answer.result![name]))!;
  for (let cursor = answer.result["nextCursor"]; cursor !== undefined;) {
    const next = asLossless(await ask([asked[0], { ...asked[1], cursor }])) as Message;
    (answer.result[list] as unknown[]).push(...(next.result![list] as unknown[]));
    cursor = next.result!["nextCursor"];
  }
  delete answer.result["nextCursor"];
  return answer;
}

/** The first request of any revision; each way of asking knows how to say it. */
const HELLO: Asked = ["hello", {}];

interface Message {
  [member: string]: unknown;
  result?: Record<string, unknown>;
  error?: Record<string, unknown>;
}

interface Where {
  readonly method: string;
  readonly revision: Revision;
  readonly own: Message;
  readonly through: Message;
  readonly isBeyondLimits: boolean;
}

/** By the names of docs/pass-through.md: each removes its difference from both sides, and returns true if it did. */
export const EXCEPTIONS: Readonly<Record<string, (where: Where) => boolean>> = {
  "server-info": ({ own, through }) => dropFromBoth([own.result, through.result], "serverInfo"),
  "protocol-version": ({ own, through }) => {
    const versions = dropFromBoth([own.result, through.result], "protocolVersion");
    return dropFromBoth([own.result, through.result], "supportedVersions") || versions;
  },
  capabilities: ({ method, own, through }) => {
    if (method.endsWith("/list") && through.error?.["code"] === "#-32601") {
      if (!own.error) assert.deepEqual(itemsOf(own), [own.result]);
      for (const member of ["result", "error"]) delete own[member];
      delete through.error;
      return true;
    }
    if (method !== "hello") return false;
    const extensions = ({ result }: Message): Record<string, unknown> | undefined =>
      (result!["capabilities"] as { extensions?: Record<string, unknown> }).extensions;
    const [said, passed] = [extensions(own), extensions(through)];
    assert.deepEqual(passed?.["io.modelcontextprotocol/ui"], said?.["io.modelcontextprotocol/ui"]);
    return dropFromBoth([own.result, through.result], "capabilities");
  },
  pages: ({ method, own, through, isBeyondLimits }) => {
    if (!method.endsWith("/list")) return false;
    if (own.error && through.result && itemsOf(through).length === 1) {
      delete own.error;
      delete through.result;
      return true;
    }
    if (!own.result) return false;
    if (isBeyondLimits && through.result) {
      const served = new Set(itemsOf(through).map(({ name }) => name));
      for (const [list, items] of Object.entries(own.result))
        if (Array.isArray(items)) own.result[list] = items.filter(({ name }: { name: string }) => served.has(name));
    }
    const others = Object.keys(own.result).filter(
      (member) => !Array.isArray(own.result![member]) && member !== "nextCursor",
    );
    for (const member of others) delete own.result[member];
    return others.length > 0;
  },
  "wrapped-values": ({ method, revision, through }) => {
    const value = through.result?.["structuredContent"] as Record<string, unknown> | undefined;
    if (method !== "tools/call" || revision === "2026-07-28" || !Array.isArray(value?.["result"])) return false;
    through.result!["structuredContent"] = value["result"];
    return true;
  },
  "unknown-names": ({ method, own, through }) => {
    if (method !== "tools/call" || !String(through.error?.["message"]).includes("Unknown tool")) return false;
    for (const message of [own, through]) for (const member of ["error", "result"]) delete message[member];
    return true;
  },
  "tool-identity": ({ method, revision, through }) => {
    if (method !== "tools/list" || isOlder(revision)) return false;
    for (const tool of through.result!["tools"] as Record<string, unknown>[]) {
      const meta = tool["_meta"] as Record<string, unknown>;
      for (const key of ["dev.berth/contract", "dev.berth/implementation"]) {
        assert.match(String(meta[key]), /^ba[a-z2-7]{20,}$/);
        delete meta[key];
      }
    }
    return true;
  },
  "reserved-meta": ({ method, own, through }) => {
    let met = false;
    // Blocks of content pass as they are.
    const [of, ofHosted] = [own, through].map((message) =>
      method.endsWith("/list") ? itemsOf(message) : [message.result ?? {}],
    );
    for (const item of of!) {
      const meta = item["_meta"] as Record<string, unknown> | undefined;
      for (const key of Object.keys(meta ?? {})) {
        if (!RESERVED.test(key)) continue;
        delete meta![key];
        met = true;
      }
    }
    for (const item of [...of!, ...ofHosted!]) {
      if (isEmpty(item["_meta"])) delete item["_meta"];
    }
    return met;
  },
  "modern-members": ({ own, through }) => {
    const results = [own.result, through.result];
    const dropped = ["resultType", "ttlMs", "cacheScope"].map((member) => dropFromBoth(results, member));
    for (const result of results) {
      const meta = result?.["_meta"] as Record<string, unknown> | undefined;
      if (!meta) continue;
      delete meta["io.modelcontextprotocol/serverInfo"];
      if (isEmpty(meta)) delete result!["_meta"];
    }
    return dropped.some(Boolean);
  },
  "input-type": ({ method, own }) => {
    if (method !== "tools/list") return false;
    const without = (own.result!["tools"] as { inputSchema: Record<string, unknown> }[]).filter(
      ({ inputSchema }) => inputSchema["type"] === undefined,
    );
    for (const { inputSchema } of without) inputSchema["type"] = "object";
    return without.length > 0;
  },
  "task-support": ({ method, own }) => {
    if (method !== "tools/list") return false;
    const tools = own.result!["tools"] as { execution?: Record<string, unknown> }[];
    const supporting = tools.filter(({ execution }) => execution?.["taskSupport"] !== undefined);
    for (const tool of supporting) {
      delete tool.execution!["taskSupport"];
      if (Object.keys(tool.execution!).length === 0) delete tool.execution;
    }
    return supporting.length > 0;
  },
  "resource-name": ({ method, own }) => {
    if (!method.startsWith("resources/") || !own.result || method === "resources/read") return false;
    const without = itemsOf(own).filter((item) => item["uri"] !== undefined && item["name"] === undefined);
    for (const item of without) item["name"] = item["uri"];
    return without.length > 0;
  },
  "older-revisions": ({ method, revision, own, through }) => {
    if (!isOlder(revision) || !own.result) return false;
    const before = JSON.stringify(own.result);
    if (method.endsWith("/list")) {
      for (const item of itemsOf(own).slice(1)) leaveOutNewer(item, method, revision);
    }
    delete own.result["structuredContent"];
    const blocks = [own, through].map(({ result }) => result?.["content"]) as [
      Block[] | undefined,
      Block[] | undefined,
    ];
    const newer = revision === "2024-11-05" ? ["resource_link", "audio"] : ["resource_link"];
    for (const [index, { type }] of blocks[0]?.entries() ?? []) {
      if (!newer.includes(type)) continue;
      assert.equal(blocks[1]![index]!.type, "text");
      blocks[0]![index] = blocks[1]![index]!;
    }
    return JSON.stringify(own.result) !== before;
  },
  "missing-arguments": ({ own, through }) => {
    const [text, textThrough] = [own, through].map(({ result }) => (result?.["content"] as Block[] | undefined)?.[0]);
    if (text?.text !== "null" || textThrough?.text !== "{}") return false;
    text.text = textThrough.text;
    return true;
  },
  defaults: ({ method, own, through }) => {
    if (method === "tools/call" && own.result && own.result["content"] === undefined) {
      own.result["content"] = [];
      return true;
    }
    if (method !== "completion/complete" || !through.result) return false;
    const completions = [own, through].map(({ result }) => result!["completion"] as Record<string, unknown>);
    const total = dropFromBoth(completions, "total");
    return dropFromBoth(completions, "hasMore") || total;
  },
  "error-codes": ({ method, own, through }) => {
    if (!own.error || !through.error) return false;
    const isMissing = method === "resources/read" && ["#-32002", "#-32602"].includes(String(own.error["code"]));
    const isOfTheWay = through.error["code"] === "#-32603";
    if (!isMissing && own.error["code"] === through.error["code"]) return false;
    assert.ok(isMissing || isOfTheWay, `${method}: ${JSON.stringify(own)} became ${JSON.stringify(through)}`);
    delete own["error"];
    delete through["error"];
    return true;
  },
};

interface Block {
  readonly type: string;
  text?: string;
}

function leaveOutNewer(item: Record<string, unknown>, method: string, revision: Revision): void {
  const { title, annotations } = item;
  for (const member of ["title", "outputSchema", "_meta"]) delete item[member];
  for (const argument of (item["arguments"] ?? []) as Record<string, unknown>[]) delete argument["title"];
  if (method !== "tools/list") return;
  delete item["annotations"];
  const hints = { ...(title !== undefined && { title }), ...(annotations as object | undefined) };
  if (revision === "2025-03-26" && !isEmpty(hints)) item["annotations"] = hints;
}

const RESERVED =
  /^(?:progressToken|traceparent|tracestate|baggage|dev\.berth\/.*|io\.modelcontextprotocol\/related-task)$/;

/** The exceptions that only other tests meet: no server here has any. */
export const SHOWN_ELSEWHERE: ReadonlySet<string> = new Set(["tuples", "known-content", "hidden-secrets"]);

/** The names in the table of docs/pass-through.md. */
export function documentedExceptions(): string[] {
  const text = readFileSync("docs/pass-through.md", "utf8");
  return Array.from(text.matchAll(/^\| `([\w-]+)`/gm), ([, name]) => name!);
}

function itemsOf({ result }: Message): Record<string, unknown>[] {
  const lists = Object.values(result ?? {}).filter((value) => Array.isArray(value)) as Record<string, unknown>[][];
  return [...(result ? [result] : []), ...lists.flat()];
}

function dropFromBoth(results: readonly (Record<string, unknown> | undefined)[], member: string): boolean {
  return results.map((result) => result?.[member] !== undefined && delete result[member]).some(Boolean);
}

function isEmpty(value: unknown): boolean {
  return typeof value === "object" && value !== null && Object.keys(value).length === 0;
}

/** JSON with each number as a string of its own text. */
export function asLossless(json: string): unknown {
  const marked = json.replace(/"[^"\\]*(?:\\.[^"\\]*)*"|-?\d[\d.eE+-]*/gs, (token) =>
    token.startsWith('"') ? token : `"#${token}"`,
  );
  return JSON.parse(marked);
}

/** JSON in which the text of a number, as `asLossless` gives it, is that number. */
function rawText(value: unknown): string {
  return JSON.stringify(value).replace(/"#(-?\d[\d.eE+-]*)"/g, "$1");
}

const CLIENT = { name: "berth-test", version: "1" };
const EXTENSIONS = { "io.modelcontextprotocol/ui": { mimeTypes: ["text/html;profile=mcp-app"] } };
/** Berth tells an upstream all that its callers may have; a caller here is asked nothing. */
const CAPABILITIES = { elicitation: { form: {}, url: {} }, sampling: {}, roots: {}, extensions: EXTENSIONS };

function paramsIn(
  revision: Revision,
  params: Record<string, unknown>,
  capabilities: object = CAPABILITIES,
): Record<string, unknown> {
  if (revision !== "2026-07-28") return params;
  const meta = {
    "io.modelcontextprotocol/protocolVersion": revision,
    "io.modelcontextprotocol/clientInfo": CLIENT,
    "io.modelcontextprotocol/clientCapabilities": capabilities,
  };
  return { ...params, _meta: { ...(params["_meta"] as object | undefined), ...meta } };
}

interface DirectServer {
  readonly ask: Ask;
  /** It does not know the revision, and was asked in the newest that it knows. */
  readonly isOlder: boolean;
  close(): Promise<void>;
}

/** A server as its client starts it, without Berth. */
export async function startDirect({ program, env }: ServerToCompare, revision: Revision): Promise<DirectServer> {
  const [command, ...args] = program;
  const child = spawn(command!, args, { env: { ...process.env, ...env }, stdio: ["pipe", "pipe", "ignore"] });
  const waiting = new Map<string, (line: string) => void>();
  const ended = new Promise<void>((resolve) => child.once("close", () => resolve()));
  createInterface({ input: child.stdout }).on("line", (line) => {
    // Some print other lines, too.
    if (!line.startsWith("{")) return;
    const message = JSON.parse(line) as { id?: number; method?: string };
    if (message.method === undefined) waiting.get(String(message.id))?.(line);
    else if (message.id !== undefined) {
      child.stdin.write(`${JSON.stringify({ jsonrpc: "2.0", id: message.id, result: { roots: [] } })}\n`);
    }
  });
  let id = 0;
  const send = (method: string, params: Record<string, unknown>): Promise<string> =>
    new Promise((resolve, reject) => {
      void ended.then(() => reject(new Error(`${program.join(" ")} ended`)));
      waiting.set(String(++id), resolve);
      child.stdin.write(`${rawText({ jsonrpc: "2.0", id, method, params })}\n`);
    });
  const discovered = revision === "2026-07-28" && (await send("server/discover", paramsIn(revision, {})));
  const isModern = discovered !== false && "result" in (JSON.parse(discovered) as object);
  const spoken: Revision = isModern ? revision : revision === "2026-07-28" ? "2025-11-25" : revision;
  let hello = discovered || "";
  if (!isModern) {
    hello = await send("initialize", { protocolVersion: spoken, capabilities: CAPABILITIES, clientInfo: CLIENT });
    child.stdin.write(`${JSON.stringify({ jsonrpc: "2.0", method: "notifications/initialized" })}\n`);
  }
  return {
    ask: ([method, params]) =>
      method === "hello" ? Promise.resolve(hello) : send(method, isModern ? paramsIn(revision, params) : params),
    isOlder: !isModern && revision === "2026-07-28",
    async close() {
      child.stdin.end();
      child.kill();
      await ended;
    },
  };
}

/** A server at its endpoint of Berth. */
export async function openHosted(url: string, revision: Revision): Promise<Ask> {
  const isModern = revision === "2026-07-28";
  let session: string | null = null;
  let id = 0;
  const send = async (method: string, given: Record<string, unknown>): Promise<string> => {
    const params = paramsIn(revision, given, { extensions: EXTENSIONS });
    const named = (params["name"] ?? params["uri"]) as string | undefined;
    const response = await fetch(url, {
      method: "POST",
      headers: {
        "content-type": "application/json",
        accept: "application/json, text/event-stream",
        ...(method !== "initialize" && { "mcp-protocol-version": revision }),
        ...(isModern && { "mcp-method": method, ...(named !== undefined && { "mcp-name": named }) }),
        ...(session !== null && { "mcp-session-id": session }),
      },
      body: rawText({ jsonrpc: "2.0", id: ++id, method, params }),
    });
    session ??= response.headers.get("mcp-session-id");
    const text = await response.text();
    if (!response.headers.get("content-type")?.startsWith("text/event-stream")) return text;
    const data = text.split("\n").filter((line) => line.startsWith("data: {"));
    return data.map((line) => line.slice(6)).find((line) => `${id}` === String((JSON.parse(line) as Message)["id"]))!;
  };
  const hello = isModern
    ? await send("server/discover", {})
    : await send("initialize", {
        protocolVersion: revision,
        capabilities: { extensions: EXTENSIONS },
        clientInfo: CLIENT,
      });
  return ([method, params]) => (method === "hello" ? Promise.resolve(hello) : send(method, params));
}
