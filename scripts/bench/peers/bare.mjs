import { createServer } from "node:http";
import { answerTo } from "./answer.mjs";
import { port } from "./tools.mjs";

/** The floor: `node:http`, the body parsed, the answer written at once. No protocol, no checks. */
createServer((request, response) => {
  const chunks = [];
  request.on("data", (chunk) => chunks.push(chunk));
  request.on("end", () => {
    const body = chunks.length === 1 ? chunks[0] : Buffer.concat(chunks);
    const answer = JSON.stringify(answerTo(JSON.parse(body.toString())));
    response.writeHead(200, { "Content-Type": "application/json", "Content-Length": Buffer.byteLength(answer) });
    response.end(answer);
  });
}).listen(port, "127.0.0.1");
