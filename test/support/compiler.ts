import { once } from "node:events";
import { request, type IncomingMessage } from "node:http";
import { text } from "node:stream/consumers";
import type { Compiled, DefinitionSource } from "../../src/discover/discovery.ts";

/**
 * Berth's compiler for tests that are not about its start: a test run has a warm one (`compiler-server.ts`), since each
 * process with a compiler of its own begins with a second of work.
 */
export async function compile(source: DefinitionSource): Promise<Compiled> {
  const socketPath = process.env["BERTH_TEST_COMPILER"];
  if (socketPath === undefined)
    return (await import("../../src/discover/compile.ts")).compileDefinition("compile", source);
  const sent = request({ socketPath, method: "POST", agent: false });
  sent.end(JSON.stringify(source));
  const [response] = (await once(sent, "response")) as [IncomingMessage];
  const body = await text(response);
  if (response.statusCode !== 200) throw new Error(`the compiler failed: ${body}`);
  return JSON.parse(body) as Compiled;
}
