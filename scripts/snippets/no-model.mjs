import { createServer } from "node:http";

/** In the format of each service, so that no client tries again. */
const REFUSAL = JSON.stringify({
  type: "error",
  error: { type: "invalid_request_error", code: 400, status: "INVALID_ARGUMENT", message: "there is no model here" },
});

/** Stands in for a model's service and refuses everything; returns the names of the tools that it was offered. */
export async function offeredToModel(work) {
  const names = new Set();
  const server = createServer((request, response) => {
    let body = "";
    request.setEncoding("utf8").on("data", (chunk) => (body += chunk));
    request.on("end", () => {
      for (const [, name] of body.matchAll(/"name":\s*"([^"]+)"/g)) names.add(name);
      response.writeHead(400, { "Content-Type": "application/json" });
      response.end(REFUSAL);
    });
  });
  await new Promise((resolve) => server.listen(0, "127.0.0.1", resolve));
  try {
    await work(`http://127.0.0.1:${server.address().port}`);
  } finally {
    server.closeAllConnections();
    server.close();
  }
  return [...names];
}
