import { permittedCatalog } from "../../host/catalog/permitted.ts";
import type { Host } from "../../host/host.ts";
import type { Catalog, CallResult, InputRequired, Tool } from "../../host/offers/catalog.ts";
import { textsOf } from "../../host/offers/content.ts";
import { jsonOf } from "../../host/offers/long-result.ts";
import { ALL_SERVERS } from "../../host/serving/aggregate.ts";
import { isCid } from "../../lib/cid.ts";
import { BerthError } from "../../lib/errors.ts";
import { isObject, JsonText, type JsonObject } from "../../lib/json.ts";
import type { Text } from "../../lib/long-text.ts";
import { nearNames } from "../../lib/near-names.ts";
import { relayLog } from "../../mcp/methods/calls.ts";
import { readInputResponses } from "../../mcp/modern/questions.ts";
import { isNativeName, type MethodCall, type RequestTarget } from "../../mcp/protocol.ts";
import { readCallerContext } from "../../outcome/context.ts";
import { NATIVE_META, type NativeEvent } from "./events.ts";

/**
 * Native calls: every tool is a JSON-RPC method of its own, `server.tool` or `server_tool`, beside MCP on the same
 * endpoints (seed 004, "Method Resolution"). It decides which tool a method name means. It needs no handshake and no
 * header, and knows nothing of eras, which look up MCP's own methods first.
 *
 * The call is the same as `tools/call`, shown as its events and its final result. Rejects with `method_not_found` when
 * the method names no tool, and like the host for a server that is not served.
 */
export async function callNatively(host: Host, call: MethodCall): Promise<Text> {
  const { params, principal, trace, events, signal } = call;
  const found = await nativeTool(host, call, call.method);
  if (!found) throw new BerthError("method_not_found", call.method);
  const { catalog, tool } = found;
  const { [NATIVE_META]: meta, ...given } = params;
  const { arguments: long } = given;
  const args = long instanceof JsonText ? long : (given as JsonObject);
  const answers =
    isObject(meta) && meta["inputResponses"] !== undefined ? readInputResponses(meta["inputResponses"]) : undefined;
  const context = readCallerContext(meta);
  if (!events) {
    const options = { principal, trace, signal, answers, client, context };
    return jsonOf(await tool.call(args, options));
  }

  const write = eventWriter(call);
  const tell = (event: NativeEvent): void | Promise<void> => events.send(write(event));
  void tell({ type: "start", server: catalog.server, tool: tool.contract.name, release: catalog.release });
  try {
    const outcome = await tool.call(args, {
      principal,
      signal,
      answers,
      client,
      context,
      trace,
      onProgress: (data) => tell({ type: "data", data }),
      onLog: relayLog(call, (line) => write({ type: "log", ...line })),
      onCloseStream: events.release && (() => events.release?.()),
    });
    void tell(lastEvent(outcome));
    return jsonOf(outcome);
  } catch (error) {
    const { message } = error instanceof BerthError ? error : new BerthError("internal");
    void tell({ type: "error", message });
    throw error;
  }
}

/** A native caller can answer any question, by calling again. */
const client = { capabilities: { elicitation: { form: {}, url: {} }, sampling: {}, roots: {} } };

/** The longest server name, a separator, the longest tool name, and some to spare for a release. */
const NAME_CHARACTERS_MAX = 320;

/**
 * The tool that a method of this name is at this place; undefined when the name does not begin with a server's. Rejects
 * with `method_not_found` when the server has no such tool.
 */
export async function nativeTool(
  host: Host,
  place: RequestTarget,
  name: string,
): Promise<{ catalog: Catalog; tool: Tool } | undefined> {
  if (!isNativeName(name) || name.length > NAME_CHARACTERS_MAX) return undefined;
  const found = place.server === ALL_SERVERS ? await amongAll(host, place, name) : inOne(place.catalog, name);
  if (!found) return undefined;
  const { catalog, toolName } = found;
  const tool = catalog.tool(toolName);
  if (tool) return { catalog, tool };
  if (!mayKnow(place, catalog.server)) return undefined;
  const [near] = await nearNames(
    toolName,
    catalog.contract.tools.map((each) => each.name),
  );
  const suggestion = near === undefined ? "" : `; did you mean ${catalog.server}.${near}?`;
  const message = `${name}; the server "${catalog.server}" has no tool "${toolName}"${suggestion}`;
  throw new BerthError("method_not_found", message);
}

/**
 * The dot takes precedence over the underscore, and of several servers, the one with the longest name has the method,
 * whether it has the tool or not: the meaning of a method does not depend on the tools that happen to be shown.
 */
async function amongAll(host: Host, place: RequestTarget, name: string): Promise<Found | undefined> {
  for (const separator of SEPARATORS) {
    for (let at = name.lastIndexOf(separator); at > 0; at = name.lastIndexOf(separator, at - 1)) {
      const address = name.slice(0, at);
      const server = withoutRelease(address);
      // A server is loaded only if it exists: a name may have hundreds of separators.
      const catalog = server !== undefined && host.has(place.tenant, server) && (await served(host, place, address));
      if (catalog) return { catalog, toolName: name.slice(at + 1) };
    }
  }
  return undefined;
}

/** For a principal that may not use a server, its tools look like missing ones. */
async function served(host: Host, place: RequestTarget, server: string): Promise<Catalog | undefined> {
  const { tenant, principal } = place;
  try {
    return await permittedCatalog(await host.server(tenant, server), principal);
  } catch (error) {
    if (!(error instanceof BerthError)) throw error;
    if (error.code === "server_not_found" || !mayKnow(place, server)) return undefined;
    throw error;
  }
}

/** The name of the server at an address such as `server` or `server@CID`; undefined when the rest is not a CID. */
function withoutRelease(address: string): string | undefined {
  const at = address.indexOf("@");
  if (at < 0) return address;
  return isCid(address.slice(at + 1)) ? address.slice(0, at) : undefined;
}

/** A principal that may use nothing of a server does not learn that it exists. */
function mayKnow({ principal }: Pick<RequestTarget, "principal">, server: string): boolean {
  return !principal || principal.permits("call", server) || principal.permits("read", server);
}

interface Found {
  readonly catalog: Catalog;
  readonly toolName: string;
}

const SEPARATORS = [".", "_"] as const;

/** At the address of one server, no other can be meant. */
function inOne(catalog: Catalog, name: string): Found | undefined {
  const { server } = catalog;
  const isOwn = name.startsWith(server) && SEPARATORS.some((separator) => name[server.length] === separator);
  return isOwn ? { catalog, toolName: name.slice(server.length + 1) } : undefined;
}

function eventWriter({ id, method }: MethodCall): (event: NativeEvent) => string {
  const head = `{"jsonrpc":"2.0","method":${JSON.stringify(method)},"params":{"subscription":${JSON.stringify(id)},"result":`;
  return (event) => `${head}${JSON.stringify(event)}}}`;
}

function lastEvent(outcome: CallResult | InputRequired): NativeEvent {
  if ("inputRequests" in outcome) return { type: "input_required" };
  if (!outcome.isError) return { type: "complete" };
  return { type: "error", message: textsOf(outcome) };
}
