/**
 * The requests of the load and what a right answer to each is. Bodies have about 300 bytes.
 *
 * @typedef {{ path: string, headers: Record<string, string>, body: string, right: (answer: any) => boolean }} LoadRequest
 */

export const PROTOCOL_VERSION = "2026-07-28";

const message = "The quick brown fox jumps over it.";

const meta = {
  "io.modelcontextprotocol/protocolVersion": PROTOCOL_VERSION,
  "io.modelcontextprotocol/clientInfo": { name: "bench", version: "1.0.0" },
  "io.modelcontextprotocol/clientCapabilities": {},
};

/** `tools/call` of `echo`. @param {string} path @returns {LoadRequest} */
export function modernCall(path) {
  const params = { name: "echo", arguments: { message }, _meta: meta };
  return modern(path, "tools/call", params, isEcho, { "Mcp-Name": "echo" });
}

/** `tools/list`, right when it has `count` tools in one page. @param {string} path @param {number} count @returns {LoadRequest} */
export function modernList(path, count) {
  return modern(path, "tools/list", { _meta: meta }, (answer) => answer?.result?.tools?.length === count, {});
}

/**
 * The same call in the form of 2025-11-25, for a contestant that supports no later revision. @param {string} path
 * @returns {LoadRequest}
 */
export function legacyCall(path) {
  const body = { jsonrpc: "2.0", id: 1, method: "tools/call", params: { name: "echo", arguments: { message } } };
  return {
    path,
    headers: { ...common, "MCP-Protocol-Version": "2025-11-25" },
    body: JSON.stringify(body),
    right: isEcho,
  };
}

const common = { "Content-Type": "application/json", Accept: "application/json, text/event-stream" };

function modern(path, method, params, right, extra) {
  const headers = { ...common, "MCP-Protocol-Version": PROTOCOL_VERSION, "Mcp-Method": method, ...extra };
  return { path, headers, body: JSON.stringify({ jsonrpc: "2.0", id: 1, method, params }), right };
}

function isEcho(answer) {
  const result = answer?.result;
  return (
    answer?.id === 1 && result?.isError !== true && result?.content?.length === 1 && result.content[0].text === message
  );
}
