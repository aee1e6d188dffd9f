// An upstream whose answers are as hard to read as a message may be, each by the name of its tool. Its own work is done
// before it is asked: the texts are made once.
import { createServer } from "node:http";
import { createInterface } from "node:readline";

const BYTES = 15_000_000;
const many = (item) =>
  Array(Math.floor(BYTES / (item.length + 1)))
    .fill(item)
    .join();
const text = (content) => `{"type":"text","text":"${content}"}`;
const result = (content, structured = "") =>
  `{"content":[${content}]${structured && `,"structuredContent":${structured}`}}`;

/** The result of a call of each tool. */
const results = {
  numbers: () => result(text("numbers"), `{"list":[${many("1")}]}`),
  lists: () => result(text("lists"), `{"list":[${many("[]")}]}`),
  blocks: () => result(many(text("x"))),
  long: () => result(text("é".repeat(BYTES / 2))),
};
const tool = (name, schema = '{"type":"object"}') => `{"name":"${name}","inputSchema":${schema}}`;
const wide = (bytes) => {
  const properties = [];
  for (let at = 0, length = 0; length < bytes; at++)
    length += properties[properties.push(`"p${at}":{"type":"string"}`) - 1].length;
  return `{"type":"object","properties":{${properties.join()}}}`;
};
/** The further entries of its list, once its list changes. */
const lists = {
  oneHugeTool: () => tool("huge", wide(BYTES)),
  manyTools: () => Array.from({ length: 9_000 }, (_, at) => tool(`tool-${at}`, wide(1_500))),
  manyWideTools: () => Array.from({ length: 60 }, (_, at) => tool(`wide-${at}`, wide(240_000))),
  deepTool: () => tool("deep", `{"type":"object","x":${"[".repeat(1_000_000)}${"]".repeat(1_000_000)}}`),
};
const notices = {
  longLog: () => `{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":[${many("[]")}]}}`,
};

const own = Object.keys({ ...results, ...lists, ...notices }).map((name) => tool(name));
let more = "";
const made = new Map();
const madeOf = (make) => made.get(make) ?? made.set(make, String(make())).get(make);

/** Returns the texts of messages. */
function answersTo({ id, method, params }) {
  const answer = (value) => `{"jsonrpc":"2.0","id":${JSON.stringify(id)},"result":${value}}`;
  const done = () => answer(result(text("done")));
  switch (method) {
    case "initialize":
      return [
        answer(
          JSON.stringify({
            protocolVersion: params.protocolVersion,
            capabilities: { tools: { listChanged: true }, logging: {} },
            serverInfo: { name: "hostile", version: "1" },
          }),
        ),
      ];
    case "tools/list":
      return [answer(`{"tools":[${own.join()}${more && `,${more}`}]}`)];
    case "tools/call":
      if (results[params.name]) return [answer(madeOf(results[params.name]))];
      if (notices[params.name]) return [madeOf(notices[params.name]), done()];
      if (lists[params.name]) {
        more = madeOf(lists[params.name]);
        return [done(), '{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}'];
      }
  }
  if (id === undefined) return [];
  return [
    method === "logging/setLevel" || method === "ping"
      ? answer("{}")
      : `{"jsonrpc":"2.0","id":${JSON.stringify(id)},"error":{"code":-32601,"message":"no"}}`,
  ];
}

if (process.argv[2] === "http") {
  const server = createServer((request, response) => {
    let body = "";
    request.on("data", (chunk) => (body += chunk));
    request.on("end", () => {
      if (request.method !== "POST") return void response.writeHead(405).end();
      const answers = answersTo(JSON.parse(body)).filter((each) => each.includes('"id"'));
      if (answers.length === 0) return void response.writeHead(202).end();
      if (process.argv[3] === "json")
        return void response.writeHead(200, { "Content-Type": "application/json" }).end(answers[0]);
      response.writeHead(200, { "Content-Type": "text/event-stream" });
      for (const each of answers) response.write(`event: message\ndata: ${each}\n\n`);
      response.end();
    });
  }).listen(0, "127.0.0.1", () => process.send?.(server.address().port));
  process.once("disconnect", () => process.exit());
} else {
  createInterface({ input: process.stdin }).on("line", (line) => {
    for (const each of answersTo(JSON.parse(line))) process.stdout.write(`${each}\n`);
  });
}
