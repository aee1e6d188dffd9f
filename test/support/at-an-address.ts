import { spawn } from "node:child_process";
import { once } from "node:events";
import type { IncomingMessage, ServerResponse } from "node:http";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { json } from "node:stream/consumers";
import type { JsonObject } from "../../src/lib/json.ts";
import { openServer } from "./listening.ts";
import { fixtures } from "./upstreams.ts";

/** A program of test/fixtures/upstreams that all its clients reach at one address, without sessions. */
export interface AtAnAddress {
  readonly uri: string;
  close(): Promise<void>;
}

export async function atAnAddress(file: string, ...args: string[]): Promise<AtAnAddress> {
  const program = spawn(process.execPath, [join(fixtures, file), ...args], { stdio: ["pipe", "pipe", "inherit"] });
  const say = (message: JsonObject): void => void program.stdin.write(`${JSON.stringify(message)}\n`);
  const open = new Map<string, { readonly id: unknown; readonly response: ServerResponse }>();
  let requests = 0;

  createInterface({ input: program.stdout }).on("line", (line) => {
    const message = JSON.parse(line) as { readonly id: string | number; readonly method?: string };
    // The id of a question ends with that of the request to which it belongs.
    const key = String(message.id).replace(/^q/, "");
    const { id, response } = open.get(key)!;
    const isQuestion = message.method !== undefined;
    // As it was written, numbers too.
    const text = isQuestion ? line : line.replace(`"id":${key}`, `"id":${JSON.stringify(id)}`);
    response.write(`data: ${text}\n\n`);
    if (isQuestion) return;
    open.delete(key);
    response.end();
  });

  const answer = async (request: IncomingMessage, response: ServerResponse): Promise<void> => {
    if (request.method !== "POST") return void response.writeHead(405).end();
    const message = (await json(request)) as JsonObject;
    if (message["id"] === undefined || message["method"] === undefined) {
      say(message);
      return void response.writeHead(202).end();
    }
    const key = ++requests;
    open.set(String(key), { id: message["id"], response });
    response.writeHead(200, { "Content-Type": "text/event-stream" });
    say({ ...message, id: key });
  };
  const server = await openServer(answer);
  return {
    uri: `mcp+${server.url}/mcp`,
    async close() {
      await server.close();
      if (program.kill()) await once(program, "exit");
    },
  };
}
