import * as fc from "./fast-check.ts";

/** Arbitrary messages and headers for `test/product/fuzz-*.test.ts`: mostly near to real ones, sometimes far from them. */
const METHODS = (
  "initialize ping server/discover tools/list tools/call resources/list resources/read resources/templates/list " +
  "prompts/list prompts/get completion/complete logging/setLevel resources/subscribe resources/unsubscribe " +
  "subscriptions/listen tasks/get tasks/update tasks/cancel tasks/list tasks/result notifications/initialized " +
  "notifications/cancelled notifications/progress notifications/roots/list_changed elicitation/create " +
  "sampling/createMessage __proto__ constructor toString tools/ / rpc.discover"
)
  .split(" ")
  .concat("");

const VERSIONS = ["2026-07-28", "2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05", "2099-01-01", "1.0", ""];

const NAMES = (
  "echo words add fail ask place greet test://place test://items/{id} test://items/7 __proto__ hasOwnProperty " +
  "no-such ../echo test://%zz file:///etc/passwd"
).split(" ");

export const json: fc.Arbitrary<unknown> = fc.jsonValue({ maxDepth: 4, noUnicodeString: false });
const oneOf = (values: readonly unknown[]): fc.Arbitrary<unknown> =>
  fc.oneof({ weight: 8, arbitrary: fc.constantFrom(...values) }, { weight: 1, arbitrary: json });

const meta = fc.record(
  {
    "io.modelcontextprotocol/protocolVersion": oneOf([...VERSIONS, ...Array.from({ length: 8 }, () => VERSIONS[0])]),
    "io.modelcontextprotocol/clientCapabilities": oneOf([{}, {}, { elicitation: {}, sampling: {}, roots: {} }]),
    "io.modelcontextprotocol/clientInfo": oneOf([{ name: "fuzz", version: "1" }]),
    "io.modelcontextprotocol/logLevel": oneOf(["debug", "info", "emergency"]),
    progressToken: oneOf([1, "token"]),
  },
  { requiredKeys: [] },
);

const params = fc.record(
  {
    _meta: fc.oneof({ weight: 6, arbitrary: meta }, { weight: 1, arbitrary: json }),
    name: oneOf(NAMES),
    uri: oneOf(NAMES),
    arguments: fc.oneof(
      fc.record(
        { message: oneOf(["hello"]), a: oneOf([1]), name: oneOf(["Ada"]), text: oneOf(["one two"]) },
        { requiredKeys: [] },
      ) as fc.Arbitrary<unknown>,
      json,
    ),
    cursor: oneOf(["", "abc", Buffer.from("tools:50").toString("base64url")]),
    ref: oneOf([
      { type: "ref/prompt", name: "greet" },
      { type: "ref/resource", uri: "test://items/{id}" },
    ]),
    argument: oneOf([{ name: "name", value: "A" }]),
    level: oneOf(["debug", "warning"]),
    protocolVersion: oneOf(VERSIONS),
    capabilities: oneOf([{}, { elicitation: {} }]),
    clientInfo: oneOf([{ name: "fuzz", version: "1" }]),
    notifications: oneOf([{}, { toolsListChanged: true }, { resourceSubscriptions: ["test://place"] }]),
    requestId: oneOf([1, "a"]),
    taskId: oneOf(["task", "__proto__"]),
    inputResponses: oneOf([{ name: { action: "accept", content: { name: "Ada" } } }, {}]),
    requestState: oneOf(["state", ""]),
  },
  { requiredKeys: [] },
);

/** A message, or something like one. If it is one, the answer must carry `id`. */
export const message: fc.Arbitrary<Record<string, unknown>> = fc.record(
  {
    jsonrpc: oneOf(["2.0", "2.0", "2.0", "1.0"]),
    id: oneOf([1, "a", 0, -1, "", 9007199254740991, 1.5, null]),
    method: oneOf(METHODS),
    params: fc.oneof({ weight: 8, arbitrary: params }, { weight: 1, arbitrary: json }),
    result: oneOf([{}]),
  },
  { requiredKeys: ["jsonrpc"] },
);

/** A sound request of one of the eras, as far as its envelope goes. */
export const request: fc.Arbitrary<Record<string, unknown>> = fc
  .tuple(fc.constantFrom(...METHODS), params, fc.boolean())
  .map(([method, given, isModern]) => {
    if (!isModern) return { jsonrpc: "2.0", id: 1, method, params: { ...given, _meta: {} } };
    const whole = {
      "io.modelcontextprotocol/protocolVersion": "2026-07-28",
      "io.modelcontextprotocol/clientCapabilities": {},
    };
    return { jsonrpc: "2.0", id: 1, method, params: { ...given, _meta: whole } };
  });

export const body: fc.Arbitrary<string> = fc.oneof(
  { weight: 6, arbitrary: request.map((value) => JSON.stringify(value)) },
  { weight: 6, arbitrary: message.map((value) => JSON.stringify(value)) },
  { weight: 2, arbitrary: fc.array(message, { maxLength: 4 }).map((value) => JSON.stringify(value)) },
  { weight: 2, arbitrary: json.map((value) => JSON.stringify(value)) },
  { weight: 1, arbitrary: fc.string({ unit: "binary", maxLength: 100 }) },
  {
    weight: 1,
    arbitrary: fc
      .tuple(message, fc.nat(200), fc.string({ maxLength: 3 }))
      .map(([value, at, instead]) => JSON.stringify(value).slice(0, at) + instead),
  },
);

const headerText = fc
  .string({ unit: "grapheme-ascii", maxLength: 30 })
  .map((text) => text.replace(/[^\x20-\x7e]/g, ""));
const header = (values: readonly string[]): fc.Arbitrary<string> =>
  fc.oneof({ weight: 8, arbitrary: fc.constantFrom(...values) }, { weight: 1, arbitrary: headerText });

/** Headers as clients of all eras send them, each with a wrong value now and then. */
export const headers: fc.Arbitrary<Record<string, string>> = fc.record(
  {
    Accept: header([
      "application/json, text/event-stream",
      "application/json",
      "text/event-stream",
      "*/*",
      "text/html",
    ]),
    "Content-Type": header(["application/json", "application/json; charset=utf-8", "application/json", "text/plain"]),
    "MCP-Protocol-Version": header(VERSIONS),
    "Mcp-Method": header(METHODS),
    "Mcp-Name": header([...NAMES, "=?base64?ZWNobw==?=", "=?base64?%?="]),
    "Mcp-Param-Region": header(["eu", "=?base64?zz"]),
    "Mcp-Session-Id": header(["session", "x".repeat(200)]),
    "Last-Event-ID": header(["1", "listen.aaaaaaaaaaaa.1", "post.aaaaaaaaaaaa.WzFd.1"]),
    Origin: header(["http://localhost:1", "null", "https://evil.example"]),
    "Content-Encoding": header(["identity", "gzip"]),
  },
  { requiredKeys: [] },
);

/** The headers of a modern client for its body, so that the code behind the header checks is reached, too. */
export function headersOf(text: string): Record<string, string> {
  try {
    const { method, params = {} } = JSON.parse(text) as { method: string; params?: Record<string, unknown> };
    const isSafe = (value: unknown): value is string => typeof value === "string" && /^[\x21-\x7e]*$/.test(value);
    const name = method === "resources/read" ? params["uri"] : params["name"];
    return {
      "MCP-Protocol-Version": "2026-07-28",
      ...(isSafe(method) && { "Mcp-Method": method }),
      ...(isSafe(name) && { "Mcp-Name": name }),
    };
  } catch {
    return {};
  }
}

/** A definition with an offer of every kind. */
export const DEFINITION = `
import type { ToolContext } from "berth";
export function echo(message: string): string { return message; }
export async function* words(text: string): AsyncGenerator<string, void> { yield* text.split(" "); }
export function add(a: number, b = 10): { sum: number } { return { sum: a + b }; }
export function fail(message = "out of tea"): string { throw new Error(message); }
export async function ask(context: ToolContext): Promise<string> {
  const answer = await context.elicit("Who?", { type: "object", properties: { name: { type: "string" } } }, { key: "name" });
  return JSON.stringify(answer);
}
/** @resource test://place text/plain */
export function place(): string { return "here"; }
/** @resource test://items/{id} text/plain */
export function item(id: string): string { return "item " + id; }
/** @prompt */
export function greet(name: string): string { return "Greet " + name; }
/** @completes greet.name */
export function names(value: string): string[] { return ["Ada", "Alan"].filter((name) => name.startsWith(value)); }
`;
