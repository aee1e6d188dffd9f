import { createInterface } from "node:readline";

/** Asks `codex app-server`, as editors do, for the tools of a server and to call one. Ends it. */
export async function askAppServer(child, server, tool, args) {
  const waiting = new Map();
  let said = "";
  child.stderr.setEncoding("utf8").on("data", (chunk) => (said += chunk));
  const ended = new Promise((_, reject) => {
    child.once("error", reject);
    child.once("close", (code) => reject(new Error(`codex app-server ended with ${code}: ${said}`)));
  });
  ended.catch(() => {});
  createInterface({ input: child.stdout }).on("line", (line) => {
    const message = JSON.parse(line);
    waiting.get(message.id)?.(message);
  });
  const send = (message) => child.stdin.write(`${JSON.stringify(message)}\n`);
  const ask = async (id, method, params) => {
    const answered = new Promise((resolve) => waiting.set(id, resolve));
    send({ id, method, params });
    const { result, error } = await Promise.race([answered, ended]);
    if (error) throw new Error(`${method}: ${error.message}`);
    return result;
  };

  try {
    await ask(1, "initialize", { clientInfo: { name: "berth", title: "Berth", version: "1.0.0" } });
    send({ method: "initialized" });
    const { data } = await ask(2, "mcpServerStatus/list", {});
    const listed = data.find(({ name }) => name === server)?.tools ?? {};
    const { thread } = await ask(3, "thread/start", {});
    const called = await ask(4, "mcpServer/tool/call", { threadId: thread.id, server, tool, arguments: args });
    return { listed, called };
  } finally {
    child.kill();
    await ended.catch(() => {});
  }
}
