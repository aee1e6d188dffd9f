import { BerthError } from "../errors.ts";
import { isObject, type Json, type JsonObject } from "../json.ts";
import { notificationText } from "./json-rpc.ts";
import type { MethodCall } from "./protocol.ts";

/** Tools on one page of `tools/list`. */
const PAGE_TOOLS = 50;

/** `tools/list`: a page is written once for a release, and is bytes that already exist from then on. */
export function listTools({ catalog, params, codec }: MethodCall): string {
  const cursor = params["cursor"];
  const start = cursor === undefined ? 0 : startOf(cursor, catalog.contract.tools.length);
  const pages = pagesOf(catalog.memo, codec);
  let page = pages.get(start);
  if (page === undefined) {
    const end = start + PAGE_TOOLS;
    const tools = catalog.contract.tools.slice(start, end);
    page = codec.toolsPage(
      catalog,
      end < catalog.contract.tools.length ? { tools, nextCursor: cursorOf(end) } : { tools },
    );
    pages.set(start, page);
  }
  return page;
}

/** `tools/call`. An unknown tool is a protocol error; whatever goes wrong inside a tool is a result. */
export async function callTool({ catalog, params, codec, events, signal }: MethodCall): Promise<string> {
  const { name, arguments: args = {} } = params;
  if (typeof name !== "string") throw new BerthError("invalid_params", '"name" must be a text');
  if (!isObject(args)) throw new BerthError("invalid_params", '"arguments" must be an object');
  const tool = catalog.tool(name);
  if (!tool) throw new BerthError("invalid_params", `Unknown tool: ${name}`);

  const onProgress = events && progressReporter(params, (message) => events.send(message));
  const result = await tool.call(args as JsonObject, {
    ...(signal && { signal }),
    ...(onProgress && { onProgress }),
  });
  if ("inputRequests" in result) throw new BerthError("missing_capability", "this tool asks its caller for input");
  return codec.callResult(catalog, tool.contract, result);
}

function pagesOf(memo: Map<string, unknown>, codec: MethodCall["codec"]): Map<number, string> {
  const key = `tools/list:${codec.era}`;
  let pages = memo.get(key) as Map<number, string> | undefined;
  if (!pages) memo.set(key, (pages = new Map()));
  return pages;
}

function cursorOf(start: number): string {
  return Buffer.from(`tools:${start}`).toString("base64url");
}

function startOf(cursor: unknown, count: number): number {
  const text = typeof cursor === "string" ? Buffer.from(cursor, "base64url").toString() : "";
  const start = Number(/^tools:([0-9]{1,9})$/.exec(text)?.[1]);
  if (!(start > 0 && start < count && start % PAGE_TOOLS === 0)) {
    throw new BerthError("invalid_params", '"cursor" is none that this list gave');
  }
  return start;
}

/** Progress goes to clients that asked for it by a token, and always rises (`basic/patterns/progress`). */
function progressReporter(
  params: MethodCall["params"],
  send: (message: string) => void,
): ((event: Json) => void) | undefined {
  const token = isObject(params["_meta"]) ? params["_meta"]["progressToken"] : undefined;
  if (typeof token !== "string" && typeof token !== "number") return undefined;
  let last = Number.NEGATIVE_INFINITY;
  return (event) => {
    const progress = progressOf(event, last);
    if (progress.progress <= last) return;
    last = progress.progress;
    send(notificationText("notifications/progress", { progressToken: token, ...progress }));
  };
}

/** An event is a number of its own making (`{progress, total, message}`), or one more step with a message. */
function progressOf(event: Json, last: number): JsonObject & { progress: number } {
  const next = Math.max(last, 0) + 1;
  if (typeof event === "string") return { progress: next, message: event };
  if (!isObject(event) || typeof event["progress"] !== "number")
    return { progress: next, message: JSON.stringify(event) };
  const { progress, total, message } = event;
  return {
    progress,
    ...(typeof total === "number" && { total }),
    ...(typeof message === "string" && { message }),
  };
}
