import { createServer } from "node:http";
import { gzipSync } from "node:zlib";

/**
 * Answers as the services do that the tried clients ask, keeps what is put, and tells of any other request what arrived
 * of it.
 */
export function httpServer() {
  /** @type {Map<string, { body: Buffer, type: string }>} */
  const kept = new Map();
  return createServer((request, response) => {
    const { pathname, searchParams } = new URL(request.url, "http://localhost");
    const parts = [];
    request.on("data", (part) => parts.push(part));
    request.on("end", () => {
      const body = Buffer.concat(parts);
      const json = (value, status = 200) => {
        response.writeHead(status, { "Content-Type": "application/json" }).end(JSON.stringify(value));
      };
      const answer = services[`${request.method} ${pathname}`];
      if (answer) return json(answer(body.toString(), request.headers));
      switch (pathname) {
        case "/redirect":
          return void response.writeHead(302, { Location: "/echo?redirected=yes" }).end();
        case "/gzip":
          return void response
            .writeHead(200, { "Content-Encoding": "gzip", "Content-Type": "text/plain" })
            .end(gzipSync("unzipped"));
        case "/echo":
          return json({
            method: request.method,
            query: Object.fromEntries(searchParams),
            custom: request.headers["x-custom"],
            body: body.toString(),
          });
        case "/none":
          return json({ message: "Not Found" }, 404);
      }
      if (request.method === "PUT") {
        kept.set(pathname, { body, type: request.headers["content-type"] ?? "" });
        return void response.writeHead(201, { ETag: '"1"', "Last-Modified": new Date(0).toUTCString() }).end();
      }
      if (request.method === "POST" && pathname.startsWith("/upload/storage/v1/b/")) {
        const [, bucket] = /\/b\/([^/]+)\/o$/.exec(pathname);
        const name = searchParams.get("name");
        kept.set(`/storage/v1/b/${bucket}/o/${encodeURIComponent(name)}`, { body: partOf(body), type: "text/plain" });
        return json({ name, bucket, generation: "1" });
      }
      const found = kept.get(pathname.replace(/^\/download/, ""));
      if (!found && pathname.startsWith("/bucket/")) return void response.writeHead(404).end(NO_SUCH_KEY);
      if (!found) return json({ message: "Not Found" }, 404);
      response.writeHead(200, { "Content-Type": found.type, ETag: '"1"', "Content-Length": found.body.length });
      response.end(found.body);
    });
  });
}

/** As S3 says it. */
const NO_SUCH_KEY = "<Error><Code>NoSuchKey</Code><Message>The specified key does not exist.</Message></Error>";

/** By method and path: what each client asks for in its definition. */
const services = {
  "GET /repos/octokit/rest.js/issues/1": () => ({ number: 1, title: "from a server" }),
  "POST /graphql": (body) => ({ data: { company: { ceo: JSON.parse(body).variables.name } } }),
  "POST /v1/chat/completions": (body, { authorization }) => ({
    id: "1",
    object: "chat.completion",
    choices: [
      {
        index: 0,
        finish_reason: "stop",
        message: { role: "assistant", content: `${JSON.parse(body).messages[0].content} ${authorization}` },
      },
    ],
  }),
  "POST /v1/messages": (body, headers) => ({
    id: "1",
    type: "message",
    role: "assistant",
    content: [
      {
        type: "text",
        text: `${JSON.parse(body).messages[0].content} ${headers["x-api-key"] ?? headers.authorization}`,
        citations: null,
      },
    ],
  }),
  "POST /v1/customers": (body) => ({
    id: "cus_1",
    object: "customer",
    ...Object.fromEntries(new URLSearchParams(body)),
  }),
  "POST /api/chat.postMessage": (body) => ({
    ok: true,
    ts: "1",
    message: { text: new URLSearchParams(body).get("text") },
  }),
  "GET /v1/users": () => ({ object: "list", results: [{ object: "user", id: "1", name: "Ada" }] }),
};

/** The second part of a `multipart/related` body. */
function partOf(body) {
  const text = body.toString("latin1");
  const boundary = text.slice(0, text.indexOf("\r\n"));
  const part = text.split(boundary)[2];
  return Buffer.from(part.slice(part.indexOf("\r\n\r\n") + 4, -2), "latin1");
}
