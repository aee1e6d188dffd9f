/**
 * The attacker, as a process of its own that yields to all others: the time it takes to write four megabytes and to
 * read them is its own, and must not count as a pause of the service.
 */

const [port] = process.argv.slice(2);

process.on("message", (wanted) => {
  (wanted.steps ? requestAll(wanted.steps) : call(wanted)).then(
    (answer) => process.send({ answer }),
    (error) => process.send({ failed: error.message }),
  );
});
process.on("disconnect", () => process.exit());
process.send({ ready: true });

/**
 * Returns the beginning of the answer: to a request, of a `batch`, or of the `stream` of a session, which is kept for
 * clients that come back.
 *
 * @param {{ server: string, tool: string, args: string, times: number, as?: "batch" | "stream" }} wanted
 */
async function call({ server, tool, args, times, as }) {
  const request = `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"${tool}","arguments":${args}}}`;
  const body = Buffer.from(as === "batch" ? `[${request}]` : request);
  const headers =
    as === "stream" ? await sessionHeaders(server) : headersOf(as === "batch" ? "2025-03-26" : "2025-06-18");
  let answer = "";
  for (let time = 0; time < times; time++) {
    answer = (await (await post(server, headers, body)).text()).slice(0, 120);
  }
  return answer;
}

/**
 * Returns the statuses of requests, one after the other.
 *
 * @param {import("./hostile-requests.mjs").Step[]} steps
 */
async function requestAll(steps) {
  const statuses = [];
  let [cid, last] = ["", ""];
  for (const { path, method, type, body, headers } of steps) {
    const filled = path.replaceAll("${cid}", cid).replaceAll("${last}", last);
    const response = await fetch(`http://127.0.0.1:${port}${filled}`, {
      method,
      headers: { ...headers, ...(type && { "Content-Type": type }) },
      body,
    });
    await response.arrayBuffer();
    if (method === "PUT" && response.ok) last = response.headers.get("etag")?.replaceAll('"', "") ?? "";
    cid ||= last;
    statuses.push(response.status);
  }
  return statuses.join(" ");
}

/** For a stream from the first moment on. @param {string} server */
async function sessionHeaders(server) {
  const headers = { ...headersOf("2025-11-25"), Accept: "text/event-stream, application/json" };
  const params = { protocolVersion: "2025-11-25", capabilities: {}, clientInfo: { name: "bench", version: "1.0.0" } };
  const body = JSON.stringify({ jsonrpc: "2.0", id: 0, method: "initialize", params });
  const response = await post(server, headers, body);
  await response.text();
  return { ...headers, "Mcp-Session-Id": response.headers.get("mcp-session-id") };
}

function post(server, headers, body) {
  return fetch(`http://127.0.0.1:${port}/mcp/${server}`, { method: "POST", headers, body });
}

function headersOf(version) {
  return { "Content-Type": "application/json", Accept: "application/json", "MCP-Protocol-Version": version };
}
